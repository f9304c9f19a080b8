//! Records that wait, in the lines of the client; the threads that serve them are Python's.

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

/// A record as Python keeps it, and what its user has of it.
#[derive(Clone)]
pub(crate) struct Held(Arc<(Py<PyAny>, Arc<Late>)>);

/// A producer's lines; see `monedula._lines`.
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

    /// Has a record stand in a line; with `opens`, also where there is none of that name. Gives its future, and whether it is the
    /// first, so that a thread has to serve the line; nothing where it does not stand there.
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
        let stands = shared.lines.push(line, opens, || held).map_err(|error| refused(py, error))?;
        Ok(stands.map(|is_first| (SendFuture::late(late, &shared.callbacks), is_first)))
    }

    /// The first record of a line, for how many seconds it has waited, and its transaction; nothing when none is left to be sent:
    /// those whose transaction is over have failed already.
    fn first(&self, py: Python<'_>, line: &str) -> PyResult<Option<(Py<PyAny>, f64, u64)>> {
        let shared = self.shared.get()?;
        while let Some(first) = shared.lines.front(line) {
            if first.may_send {
                return Ok(Some((first.record.0.0.clone_ref(py), first.waited.as_secs_f64(), first.transaction)));
            }
            if !shared.lines.pop(line, None) {
                break;
            }
        }
        Ok(None)
    }

    /// The first record of a line was sent. Whether the line goes on.
    fn sent(&self, py: Python<'_>, line: &str, sent: &SendFuture) -> PyResult<bool> {
        let shared = self.shared.get()?;
        let sent = sent.sent()?;
        let Some(first) = shared.lines.front(line) else { return Ok(false) };
        py.detach(|| first.record.0.1.send(sent));
        // Only now: whoever looks for the line in between must find it, and stand behind.
        Ok(shared.lines.pop(line, None))
    }

    /// It was not, and never will be.
    fn failed(&self, py: Python<'_>, line: &str, error: Py<PyBaseException>) -> PyResult<bool> {
        let shared = self.shared.get()?;
        let text = |of: PyResult<Bound<'_, PyString>>| of.map(|text| text.to_string()).unwrap_or_default();
        let reason = text(error.bind(py).str());
        let reason = if reason.is_empty() { text(error.bind(py).repr()) } else { reason };
        let Some(first) = shared.lines.front(line) else { return Ok(false) };
        let goes_on = shared.lines.pop(line, Some(&reason));
        // Only now: whoever hears of it must not commit without this record.
        py.detach(|| first.record.0.1.fail(error));
        Ok(goes_on)
    }

    /// Waits until what stands in lines now is sent or failed, so many seconds at most; whether it is.
    fn wait(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<bool> {
        let shared = self.shared.get()?;
        let timeout = timeout.map(|timeout| timeout.duration(py)).transpose()?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let last = shared.lines.last_number();
        in_slices(py, |until| {
            let until = deadline.map_or(until, |deadline| until.min(deadline));
            if shared.lines.wait(last, until) {
                return Ok(Some(true));
            }
            Ok(deadline.is_some_and(|deadline| deadline <= Instant::now()).then_some(false))
        })
    }

    /// How many records stand in lines.
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.shared.get()?.lines.len())
    }
}

impl Shared {
    /// The transaction is aborted: what waits of it fails.
    pub(super) fn take_back(&self, py: Python<'_>) {
        let taken_back = self.lines.abort();
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
