//! The client's producer with its callbacks and waiting records, shared by all Python objects that use it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use monedula_client::blocking;
use monedula_client::error::{ClientError, counted};
use monedula_client::producer::{Columns, Producer, QueuedSends, RecordFuture, Report};
use pyo3::prelude::*;

use super::callbacks::Callbacks;
use super::future::SendFuture;
use super::queued_sends::QueuedSend;
use crate::error::to_py;
use crate::logging::flush_log;
use crate::runtime::{self, SLICE, in_slices, not_run};
use crate::seconds::Seconds;

pub(crate) struct Shared {
    pub(super) producer: Producer,
    pub(super) queued: QueuedSends<QueuedSend>,
    pub(super) callbacks: Arc<Callbacks>,
    pub(super) max_block: Duration,
}

/// The callback of a record that is sent next, and the record's future.
pub(super) struct PreparedCallback<'a, 'py> {
    callback: &'a Bound<'py, PyAny>,
    future: Bound<'py, SendFuture>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let tasks = self.producer.leave();
        let is_transactional = self.producer.config().transactional_id.is_some();
        // A failure in a transaction fails its commit.
        let failures = (!is_transactional).then(|| self.producer.failures().clone());
        runtime::leave(tasks, failures, self.producer.log());
        self.callbacks.close();
    }
}

impl Shared {
    /// Prepares for a record that is sent next. Until its callback is registered nothing may release the GIL: a record
    /// that another thread sends meanwhile would be called back first.
    ///
    /// # Errors
    /// If the callback is not callable, or no thread can be started for it.
    #[inline]
    pub(super) fn prepare<'a, 'py>(
        &self,
        on_delivery: Option<&'a Bound<'py, PyAny>>,
    ) -> PyResult<Option<PreparedCallback<'a, 'py>>> {
        let Some(callback) = on_delivery else { return Ok(None) };
        self.callbacks.prepare(callback)?;
        Ok(Some(PreparedCallback { callback, future: SendFuture::of_next(callback.py())? }))
    }

    /// The future of a record that was just sent, with its callback.
    #[inline]
    pub(super) fn future_of<'py>(
        &self,
        py: Python<'py>,
        sent: RecordFuture,
        prepared: Option<PreparedCallback<'_, 'py>>,
    ) -> PyResult<Bound<'py, SendFuture>> {
        let Some(PreparedCallback { callback, future }) = prepared else {
            return SendFuture::of(sent, &self.callbacks).into_untracked(py);
        };
        future.get().set_sent(sent, &self.callbacks);
        future.get().call_when_done(&future, callback)?;
        Ok(future)
    }

    pub(super) fn wait_for_room(
        &self,
        py: Python<'_>,
        needed: usize,
        deadline: Instant,
        sent_in: Option<u64>,
    ) -> PyResult<()> {
        flush_log(py, self.producer.log());
        let room = in_slices(py, |until| {
            if self.producer.wait_for_room(needed, until.min(deadline), sent_in)? {
                return Ok(Some(true));
            }
            Ok((deadline <= Instant::now()).then_some(false))
        })?;
        if room { Ok(()) } else { Err(to_py(py, self.buffer_full(needed))) }
    }

    /// Takes rows, waiting for room. If some were not taken within `max.block.ms`, or before the producer was closed,
    /// returns the first of them, and the error.
    pub(super) fn take_rows(
        &self,
        py: Python<'_>,
        batch: &RecordBatch,
        columns: &Columns,
        topic: Option<&str>,
        report: &Arc<Report>,
    ) -> PyResult<Option<(usize, ClientError)>> {
        let (mut row, mut deadline) = (0, Instant::now() + self.max_block);
        let taking = in_slices(py, |until| {
            let taken = match self.producer.send_batch(batch, columns, topic, report, row, until.min(deadline)) {
                Err(error @ ClientError::ProducerClosed) => {
                    row += self.producer.fail_rest(report, &error);
                    // An error instead of a future would lose the outcome of the rows before: they are delivered.
                    let is_none_taken = report.taken_rows() == 0;
                    let untaken = (row < batch.num_rows()).then(|| (row, error.clone()));
                    return if is_none_taken { Err(error) } else { Ok(Some(untaken)) };
                }
                taken => taken?,
            };
            row += taken;
            if row >= batch.num_rows() {
                return Ok(Some(None));
            }
            let now = Instant::now();
            if taken > 0 {
                // Each row waits for up to `max.block.ms` by itself.
                deadline = now + self.max_block;
            }
            if now < deadline {
                return Ok(None);
            }
            let error = self.buffer_full(batch.get_array_memory_size() / batch.num_rows());
            row += self.producer.fail_rest(report, &error);
            Ok(Some((row < batch.num_rows()).then_some((row, error))))
        });
        if taking.is_err() {
            // Ctrl-C was pressed, or the transaction has ended: the rows that are left must not be sent with the next
            // table.
            let ended = "send_batch() ended with an error before its last row was taken";
            self.producer.fail_rest(report, &ClientError::Argument(ended.into()));
        }
        taking
    }

    pub(super) fn buffer_full(&self, needed: usize) -> ClientError {
        let buffer_memory = self.producer.config().buffer_memory;
        let last_error = self.producer.trouble();
        ClientError::BufferFull { needed, buffer_memory, max_block: self.max_block, last_error }
    }

    pub(super) fn api_timeout(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Duration> {
        match timeout {
            Some(timeout) => timeout.duration(py),
            None => Ok(self.producer.config().client.default_api_timeout),
        }
    }

    /// Resolves when everything that was sent before is done and its callbacks were run.
    pub(super) fn flushing(
        self: &Arc<Self>,
        py: Python<'_>,
        timeout: Option<Seconds>,
    ) -> PyResult<impl Future<Output = Result<(), ClientError>> + Send + use<>> {
        let timeout = timeout.map(|timeout| timeout.duration(py)).transpose()?;
        let (shared, settles) = (self.clone(), !self.callbacks.is_current());
        Ok(async move {
            let flushed = async {
                shared.producer.flush().await?;
                if settles {
                    settled(&shared.callbacks).await;
                }
                Ok(())
            };
            match timeout {
                None => flushed.await,
                Some(after) => tokio::time::timeout(after, flushed).await.unwrap_or_else(|_| {
                    let unfinished = shared.producer.health().records_unfinished;
                    let callbacks = &shared.callbacks;
                    // Nothing is left to wait for, though a timeout of 0 ends before the driver says so.
                    if unfinished == 0 && (!settles || callbacks.settle(callbacks.goal(), Instant::now())) {
                        return Ok(());
                    }
                    let what = format!("flush() of {}", counted(unfinished, "record"));
                    Err(ClientError::TimedOut { what, after, last_error: shared.producer.trouble() })
                }),
            }
        })
    }

    /// Resolves when the producer is closed, at the latest after `timeout`. Callbacks may take that time once more.
    pub(super) fn closing(
        self: &Arc<Self>,
        py: Python<'_>,
        timeout: Option<Seconds>,
    ) -> PyResult<impl Future<Output = Result<(), ClientError>> + Send + use<>> {
        let timeout = timeout.map(|timeout| timeout.duration(py)).transpose()?;
        // By then every record is done.
        let timeout = timeout.unwrap_or(self.producer.config().delivery_timeout + GRACE);
        let (shared, settles) = (self.clone(), !self.callbacks.is_current());
        Ok(async move {
            let closing = shared.clone();
            let closed = blocking::run_patiently(timeout, move || closing.producer.close(timeout)).await;
            if settles {
                let _ = tokio::time::timeout(timeout.max(GRACE), settled(&shared.callbacks)).await;
            }
            closed.map_err(|error| not_run(error, ClientError::ProducerClosed))
        })
    }

    /// Number of failed records whose failure nobody has seen, and the first failure; they count as seen then. `None`
    /// if there are none, and for a transactional producer: there a failure fails the commit.
    pub(super) fn unseen_failures(&self, py: Python<'_>) -> Option<(u64, PyErr)> {
        if self.producer.config().transactional_id.is_some() {
            return None;
        }
        let (unseen, first) = self.producer.failures().take_unseen();
        if unseen == 0 {
            return None;
        }
        let first = first.map(|error| to_py(py, error)).or_else(|| self.callbacks.first_unsent(py));
        first.map(|first| (unseen, first))
    }

    /// Delivers what was sent, runs callbacks, and closes, all by `until`: the interpreter exits.
    pub(crate) fn end(&self, until: Instant) {
        self.producer.close(until.saturating_duration_since(Instant::now()));
        // Records that failed just now have callbacks that are due at once.
        self.callbacks.settle(self.callbacks.goal(), until.max(Instant::now() + GRACE));
        if self.producer.config().transactional_id.is_none() {
            self.producer.failures().tell_unseen(self.producer.log());
        }
    }
}

/// The time left for callbacks if delivery has used up the timeout.
const GRACE: Duration = Duration::from_millis(500);

/// Resolves when the callbacks that are due now were run.
async fn settled(callbacks: &Arc<Callbacks>) {
    let goal = callbacks.goal();
    loop {
        let (callbacks, until) = (callbacks.clone(), Instant::now() + SLICE);
        // Waits in slices: if the caller stops waiting, no thread must be left that waits for ever.
        match blocking::run_patiently(Duration::MAX, move || callbacks.settle(goal, until)).await {
            Ok(false) => {}
            Ok(true) | Err(_) => return,
        }
    }
}
