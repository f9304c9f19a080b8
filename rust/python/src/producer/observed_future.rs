//! A future as telemetry sees it: whoever only measures does not count as having seen a failure.

use pyo3::prelude::*;

use crate::producer::batch_future::BatchFuture;
use crate::producer::future::SendFuture;

/// A future that is done, and whose outcome can be read without its failure being seen.
#[pyclass(frozen, module = "monedula")]
pub(crate) struct ObservedFuture(Py<PyAny>);

impl ObservedFuture {
    pub(super) fn of(future: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Ok(Bound::new(future.py(), Self(future.clone().unbind()))?.into_any().unbind())
    }
}

#[pymethods]
impl ObservedFuture {
    /// The metadata of a record or the report of a table, or `None`, and the error, or `None`.
    fn outcome(&self, py: Python<'_>) -> PyResult<(Option<Py<PyAny>>, Option<PyErr>)> {
        let future = self.0.bind(py);
        if let Ok(sent) = future.cast::<SendFuture>() {
            return match sent.get().unseen_outcome(py)? {
                None => Ok((None, None)),
                Some(Ok(metadata)) => Ok((Some(Bound::new(py, metadata)?.into_any().unbind()), None)),
                Some(Err(error)) => Ok((None, Some(error))),
            };
        }
        let rows = future.cast::<BatchFuture>()?;
        Ok(rows.get().unseen_outcome(py)?.map_or((None, None), |(report, error)| (Some(report), error)))
    }
}
