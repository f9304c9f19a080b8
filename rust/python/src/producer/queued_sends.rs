//! Records that wait for room in `buffer.memory`, or for their topic's metadata. Their queues are those of the client
//! ([`QueuedSends`](monedula_client::producer::QueuedSends)); the threads that serve them are Python's.

use std::sync::Arc;
use std::time::Instant;

use monedula_client::producer::Report;
use monedula_engine::produce::SendFault;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

use super::future::SendFuture;
use super::queued_future::QueuedFuture;
use super::{ProducerCore, Shared};
use crate::error::to_py;
use crate::interpreter::deferred_error;
use crate::runtime::{Own, done_within};
use crate::seconds::Seconds;

/// A record that waits, as a Python object, and what its future holds.
#[derive(Clone)]
pub(crate) struct QueuedSend(Arc<(Py<PyAny>, Arc<QueuedFuture>)>);

/// The waiting records of a producer; see `monedula.producer._send_queue`.
#[pyclass(frozen, weakref, module = "monedula._monedula")]
pub(crate) struct QueuedSendsCore {
    shared: Own<Arc<Shared>>,
}

#[pymethods]
impl QueuedSendsCore {
    #[new]
    fn new(core: &ProducerCore) -> PyResult<Self> {
        Ok(Self { shared: Own::new(core.shared.get()?.clone()) })
    }

    /// Appends a record to a queue; to one that does not exist only with `creates`. Returns its future, which has the
    /// callback, and true if it is the first record, so that a thread has to serve the queue; `None` if not appended.
    fn push<'py>(
        &self,
        py: Python<'py>,
        queue: &str,
        record: Py<PyAny>,
        on_delivery: Option<&Bound<'py, PyAny>>,
        creates: bool,
    ) -> PyResult<Option<(Bound<'py, SendFuture>, bool)>> {
        let shared = self.shared.get()?;
        on_delivery.map_or(Ok(()), |callback| shared.callbacks.prepare(callback))?;
        let queued = Arc::<QueuedFuture>::default();
        let waiting = QueuedSend(Arc::new((record, queued.clone())));
        // Making an object may release the GIL, and the thread that sends the record must not get it before the
        // callback is registered.
        let future = Bound::new(py, SendFuture::queued(queued, &shared.callbacks))?;
        let pushed = shared.queued.push(queue, creates, || waiting).map_err(|error| to_py(py, error))?;
        let Some(is_first) = pushed else { return Ok(None) };
        if let Some(callback) = on_delivery {
            future.get().call_when_done(&future, callback)?;
        }
        Ok(Some((future, is_first)))
    }

    /// The first record of a queue, how many seconds it has waited, and its transaction; `None` if no record is left to
    /// be sent. Records of an aborted transaction have failed already, and are removed.
    fn front(&self, py: Python<'_>, queue: &str) -> PyResult<Option<(Py<PyAny>, f64, u64)>> {
        let shared = self.shared.get()?;
        while let Some(first) = shared.queued.front(queue) {
            if first.may_send {
                return Ok(Some((first.record.0.0.clone_ref(py), first.waited.as_secs_f64(), first.transaction)));
            }
            if !shared.queued.pop(queue) {
                break;
            }
        }
        Ok(None)
    }

    /// The first record of a queue was sent. Returns whether another record waits.
    fn sent(&self, py: Python<'_>, queue: &str, sent: &SendFuture) -> PyResult<bool> {
        let shared = self.shared.get()?;
        let sent = sent.sent()?;
        Ok(shared.queued.settle(queue, None, |first| py.detach(|| first.0.1.resolve(sent))))
    }

    /// The first record of a queue failed. Returns whether another record waits.
    fn failed(&self, py: Python<'_>, queue: &str, error: Py<PyBaseException>) -> PyResult<bool> {
        let shared = self.shared.get()?;
        let reason = deferred_error::text(error.bind(py));
        let reason = if reason.is_empty() { deferred_error::repr(error.bind(py)) } else { reason };
        Ok(shared.queued.settle(queue, Some(&reason), |first| {
            shared.callbacks.count_unsent(py, &error);
            py.detach(|| first.0.1.fail(error));
        }))
    }

    /// Waits until the present records are sent or have failed, at most `timeout` seconds. Returns true if they are.
    fn wait(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<bool> {
        let shared = self.shared.get()?;
        let last = shared.queued.last_number();
        done_within(py, timeout, |until| shared.queued.wait(None, last, until))
    }

    /// Present trouble with topics or brokers; `None` if there is none.
    fn trouble(&self) -> PyResult<Option<String>> {
        Ok(self.shared.get()?.producer.trouble())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.shared.get()?.queued.len())
    }
}

impl Shared {
    /// Waits until the records that wait in these queues now, or in any, are sent or have failed: rows that are sent
    /// next would overtake them. The rows belong to the transaction that is open now.
    pub(super) fn wait_behind(&self, py: Python<'_>, report: &Report, queues: Option<&[String]>) -> PyResult<()> {
        let last = self.queued.last_number();
        if self.queued.wait(queues, last, Instant::now()) {
            return Ok(());
        }
        self.producer.hold(report).map_err(|error| to_py(py, error))?;
        done_within(py, None, |until| self.queued.wait(queues, last, until)).map(drop)
    }

    /// The transaction is aborted: fails its waiting records.
    pub(super) fn abort_queued(&self, py: Python<'_>) {
        let aborted = self.queued.abort();
        if aborted.is_empty() {
            return;
        }
        let error = to_py(py, SendFault::Aborted.into()).into_value(py);
        for waiting in aborted {
            let error = error.clone_ref(py);
            py.detach(|| waiting.0.1.fail(error));
        }
    }
}
