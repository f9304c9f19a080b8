//! Calls in an executor's threads, whose callers may go away while a registry is asked.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyTuple;

thread_local! {
    /// True if the caller of what this thread does is gone.
    static CURRENT: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// A call whose waits for a registry end once nobody waits for the call any more.
#[pyclass(frozen, module = "monedula._monedula")]
#[derive(Default)]
pub(crate) struct CancellableCall(Arc<AtomicBool>);

#[pymethods]
impl CancellableCall {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    #[pyo3(signature = (function, *arguments))]
    fn run<'py>(&self, function: &Bound<'py, PyAny>, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let before = CURRENT.replace(Some(Arc::clone(&self.0)));
        let outcome = function.call1(arguments.clone());
        CURRENT.set(before);
        outcome
    }

    /// Nobody waits for the call any more.
    fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// True if nobody waits any more for the call that this thread runs.
pub(crate) fn is_cancelled() -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_some_and(|gone| gone.load(Ordering::Relaxed)))
}
