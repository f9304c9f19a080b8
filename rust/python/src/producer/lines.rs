//! The queues of records that wait for room or for a topic's partitions. The client has the queues; Python threads
//! serve them. A queue is identified by a name (`line`).

use std::sync::Arc;
use std::time::Instant;

use monedula_engine::produce::SendFault;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::future::SendFuture;
use super::given::refused;
use super::late::Late;
use super::{ProducerCore, Shared};
use crate::error::to_py;
use crate::runtime::{Own, in_slices};
use crate::seconds::Seconds;

/// A waiting record: Python's object with the arguments of `send`, and the state behind the user's future.
#[derive(Clone)]
pub(crate) struct Held(Arc<(Py<PyAny>, Arc<Late>)>);

/// A producer's queues of waiting records; see `monedula._lines`.
#[pyclass(frozen, weakref, module = "monedula._monedula")]
pub(crate) struct LinesCore {
    shared: Own<Arc<Shared>>,
}

#[pymethods]
impl LinesCore {
    #[new]
    fn new(core: &ProducerCore) -> PyResult<Self> {
        Ok(Self { shared: Own::new(core.shared.get()?.clone()) })
    }

    /// Appends a record to a queue; with `opens`, also creates the queue if there is none of that name. Returns the
    /// record's future, and whether it is the first record, so that a thread has to serve the queue; `None` if there is
    /// no such queue.
    fn stand(
        &self,
        py: Python<'_>,
        line: &str,
        record: Py<PyAny>,
        opens: bool,
    ) -> PyResult<Option<(SendFuture, bool)>> {
        let shared = self.shared.get()?;
        let late = Arc::<Late>::default();
        let held = Held(Arc::new((record, late.clone())));
        let stands = shared.lines.join(line, opens, || held).map_err(|error| refused(py, error))?;
        Ok(stands.map(|is_first| (SendFuture::late(late, &shared.callbacks), is_first)))
    }

    /// The first record of a queue, the seconds for which it has waited, and its transaction. `None` if no record is
    /// left to send: records of a transaction that is over have failed already, and are skipped.
    fn first(&self, py: Python<'_>, line: &str) -> PyResult<Option<(Py<PyAny>, f64, u64)>> {
        let shared = self.shared.get()?;
        while let Some(first) = shared.lines.first(line) {
            if first.goes {
                return Ok(Some((first.what.0.0.clone_ref(py), first.waited.as_secs_f64(), first.sent_in)));
            }
            if !shared.lines.done(line, None) {
                break;
            }
        }
        Ok(None)
    }

    /// Reports that the first record of a queue was sent, and removes it. Returns whether the queue has more records.
    fn sent(&self, py: Python<'_>, line: &str, sent: &SendFuture) -> PyResult<bool> {
        let shared = self.shared.get()?;
        let sent = sent.sent()?;
        let Some(first) = shared.lines.first(line) else { return Ok(false) };
        py.detach(|| first.what.0.1.send(sent));
        // Only after the record was sent: a `send` in between must find the queue and join it, to keep the order.
        Ok(shared.lines.done(line, None))
    }

    /// Reports that the first record of a queue can never be sent, and removes it. Returns whether the queue has more
    /// records.
    fn failed(&self, py: Python<'_>, line: &str, error: Py<PyBaseException>) -> PyResult<bool> {
        let shared = self.shared.get()?;
        let text = |of: PyResult<Bound<'_, PyString>>| of.map(|text| text.to_string()).unwrap_or_default();
        let reason = text(error.bind(py).str());
        let reason = if reason.is_empty() { text(error.bind(py).repr()) } else { reason };
        let Some(first) = shared.lines.first(line) else { return Ok(false) };
        let goes_on = shared.lines.done(line, Some(&reason));
        // Only after the removal, which makes the transaction fail: a caller that sees this error must not be able to
        // commit without the record.
        py.detach(|| first.what.0.1.fail(error));
        Ok(goes_on)
    }

    /// Waits until all records that are in queues now are sent or failed, at most `timeout` seconds. Returns whether
    /// they are.
    fn wait(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<bool> {
        let shared = self.shared.get()?;
        let timeout = timeout.map(|timeout| timeout.duration(py)).transpose()?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let last = shared.lines.last();
        in_slices(py, |until| {
            let until = deadline.map_or(until, |deadline| until.min(deadline));
            if shared.lines.wait(last, until) {
                return Ok(Some(true));
            }
            Ok(deadline.is_some_and(|deadline| deadline <= Instant::now()).then_some(false))
        })
    }

    /// The number of records in all queues.
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.shared.get()?.lines.len())
    }
}

impl Shared {
    /// Fails the waiting records of the transaction that is being aborted.
    pub(super) fn take_back(&self, py: Python<'_>) {
        let taken_back = self.lines.take_back();
        if taken_back.is_empty() {
            return;
        }
        let error = to_py(py, SendFault::Aborted.into()).into_value(py);
        for held in taken_back {
            let error = error.clone_ref(py);
            py.detach(|| held.0.1.fail(error));
        }
    }
}
