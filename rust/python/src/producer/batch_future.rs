//! The future of a sent table: of all its rows together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use monedula_client::error::{ClientError, counted};
use monedula_client::producer::Report;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::consumer::values::{PyPartition, py_partition};
use crate::error::{exception, to_py};
use crate::interpreter::loop_waker::LoopWaker;
use crate::logging::flush_log;
use crate::producer::callbacks::{Callbacks, forget, in_its_loop};
use crate::producer::not_yet;
use crate::producer::observed_future::ObservedFuture;
use crate::runtime::{Own, done_within};
use crate::seconds::Seconds;

/// The most row errors in a report: a table may have millions of rows that fail for one reason.
const ERRORS_KEPT: usize = 1000;

/// The outcome of the rows of a table.
#[pyclass(frozen, module = "monedula")]
pub(crate) struct BatchFuture {
    rows: Own<Rows>,
}

struct Rows {
    report: Arc<Report>,
    count: u64,
    /// The number of the first row that was not taken, and the error.
    untaken: Option<(u64, ClientError)>,
    callbacks: Arc<Callbacks>,
    is_seen: AtomicBool,
    /// The report as a Python object, built once.
    made: OnceLock<Py<PyAny>>,
}

impl BatchFuture {
    /// A future for the rows of `report`, which is sealed: there are no more rows.
    pub(crate) fn new(
        report: Arc<Report>,
        count: u64,
        untaken: Option<(u64, ClientError)>,
        callbacks: &Arc<Callbacks>,
    ) -> Self {
        report.seal();
        let rows = Rows {
            report,
            count,
            untaken,
            callbacks: callbacks.clone(),
            is_seen: AtomicBool::new(false),
            made: OnceLock::new(),
        };
        Self { rows: Own::new(rows) }
    }

    /// Somebody is told of the outcome: the failures are seen.
    pub(crate) fn look(&self) {
        if let Ok(rows) = self.rows.get() {
            rows.look();
        }
    }
}

#[pymethods]
impl BatchFuture {
    /// Returns true once the outcome of every row is known.
    fn done(&self) -> PyResult<bool> {
        Ok(self.rows.get()?.report.is_done())
    }

    /// Wait until every row is acknowledged, and return the report.
    ///
    /// Args:
    ///     timeout: seconds, `None` for no limit; `delivery.timeout.ms` bounds the wait in any case.
    ///
    /// Raises:
    ///     BatchSendError: if rows were not delivered; its `report` has the rows and their errors.
    ///     KafkaTimeoutError: after `timeout`; the rows may still be delivered.
    #[pyo3(signature = (timeout=None))]
    fn result(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Py<PyAny>> {
        let report = self.report(py, timeout)?;
        match self.failure(py, &report)? {
            Some(error) => Err(error),
            None => Ok(report),
        }
    }

    /// Wait until the result of every row is known, and return the report, also if rows failed.
    ///
    /// Args:
    ///     timeout: seconds, `None` for no limit; `delivery.timeout.ms` bounds the wait in any case.
    ///
    /// Raises:
    ///     KafkaTimeoutError: after `timeout`.
    #[pyo3(signature = (timeout=None))]
    fn report(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Py<PyAny>> {
        let rows = self.rows.get()?;
        rows.wait(py, timeout)?;
        if !rows.report.is_done() {
            return Err(not_yet(py, "the batch", timeout, (rows.callbacks.trouble)()));
        }
        rows.report(py)
    }

    /// Wait like `report`, and return the error, or `None`.
    #[pyo3(signature = (timeout=None))]
    fn exception(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Option<PyErr>> {
        let report = self.report(py, timeout)?;
        self.failure(py, &report)
    }

    /// Call `callback` with this future once it is done: on the producer's callback thread, one callback after the
    /// other. If it is added in a running event loop, it is called in that loop, as by asyncio's own futures.
    fn add_done_callback(slf: &Bound<'_, Self>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        let callback = in_its_loop(slf, callback)?;
        let rows = slf.get().rows.get()?;
        rows.callbacks.add(slf.py(), &callback, slf.clone().into_any().unbind(), |waker| rows.report.on_done(waker))
    }

    /// Remove a callback that was added in a running event loop.
    ///
    /// Args:
    ///     callback: the function that was added.
    ///
    /// Returns:
    ///     How many were removed. Callbacks that were added elsewhere stay.
    fn remove_done_callback(slf: &Bound<'_, Self>, callback: &Bound<'_, PyAny>) -> PyResult<usize> {
        forget(slf, callback)
    }

    /// Always `False`: a sent table cannot be cancelled.
    fn cancelled(&self) -> bool {
        false
    }

    /// Await the future in any asyncio-compatible event loop. Cancelling the wait does not stop the sending.
    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("monedula._asyncio.futures")?.call_method1("waiting", (slf,))
    }

    /// Wakes an event loop with `number` once the future is done.
    fn _wake(&self, waker: &LoopWaker, number: u64) -> PyResult<()> {
        let waker = waker.shared()?;
        self.rows.get()?.report.on_done(move || waker.wake(number));
        Ok(())
    }

    /// Calls `callback` with an `ObservedFuture` once the future is done, on the producer's callback thread.
    fn _observe(slf: &Bound<'_, Self>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        let rows = slf.get().rows.get()?;
        let observed = ObservedFuture::of(slf.as_any())?;
        rows.callbacks.add(slf.py(), callback, observed, |waker| rows.report.on_done(waker))
    }

    fn __repr__(&self) -> PyResult<String> {
        let rows = self.rows.get()?;
        let state = if rows.report.is_done() { "done" } else { "in flight" };
        Ok(format!("<monedula.BatchFuture of {}, {state}>", counted(rows.count, "row")))
    }
}

impl BatchFuture {
    /// The report and the error, for telemetry: failures stay unseen. `None` while the future is not done.
    pub(super) fn unseen_outcome(&self, py: Python<'_>) -> PyResult<Option<(Py<PyAny>, Option<PyErr>)>> {
        let rows = self.rows.get()?;
        if !rows.report.is_done() {
            return Ok(None);
        }
        let report = rows.unseen_report(py)?;
        let error = self.failure(py, &report)?;
        Ok(Some((report, error)))
    }

    fn failure(&self, py: Python<'_>, report: &Py<PyAny>) -> PyResult<Option<PyErr>> {
        let rows = self.rows.get()?;
        let summary = rows.report.summary();
        let first = summary.errors.iter().map(|(row, _, error)| (*row, error));
        let untaken = rows.untaken.iter().map(|(row, error)| (*row, error));
        let Some((row, error)) = first.chain(untaken).min_by_key(|(row, _)| *row) else { return Ok(None) };
        let failed = rows.count - summary.acknowledged;
        let message = format!("{failed} of {} rows were not delivered; the first is row {row}: {error}", rows.count);
        let details = PyDict::new(py);
        details.set_item("report", report)?;
        Ok(Some(exception(py, "BatchSendError", message, &details)?))
    }
}

impl Rows {
    fn look(&self) {
        if self.report.is_done() && !self.is_seen.swap(true, Ordering::Relaxed) {
            for (_, rows, error) in self.report.summary().errors {
                self.callbacks.failures.seen(rows, &error.to_string());
            }
            if let Some((row, error)) = &self.untaken {
                self.callbacks.failures.seen(self.count - row, &error.to_string());
            }
        }
    }

    fn wait(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<()> {
        if self.report.is_done() {
            return Ok(());
        }
        let waited = done_within(py, timeout, |until| self.report.wait(until));
        flush_log(py, &self.callbacks.log);
        waited.map(drop)
    }

    fn report(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.look();
        self.unseen_report(py)
    }

    fn unseen_report(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if let Some(made) = self.made.get() {
            return Ok(made.clone_ref(py));
        }
        let mut summary = self.report.summary();
        if let Some((row, error)) = &self.untaken {
            summary.errors.push((*row, self.count - row, error.clone()));
        }
        summary.errors.sort_by_key(|(row, ..)| *row);
        let rows =
            summary.errors.iter().flat_map(|(row, count, error)| (*row..row + count).map(move |row| (row, error)));
        let errors: Vec<(u64, PyErr)> =
            rows.take(ERRORS_KEPT).map(|(row, error)| (row, to_py(py, error.clone()))).collect();
        let offsets: BTreeMap<PyPartition, Vec<(i64, i64)>> =
            summary.offsets.into_iter().map(|(partition, runs)| (py_partition(partition), runs)).collect();
        let failed = self.count - summary.acknowledged;
        let arguments = (self.count, summary.acknowledged, failed, offsets, errors);
        let made = py.import("monedula.types.reports")?.call_method1("report", arguments)?.unbind();
        Ok(self.made.get_or_init(|| made).clone_ref(py))
    }
}
