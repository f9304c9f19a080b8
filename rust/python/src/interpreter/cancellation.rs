//! Calls in an executor's threads, whose callers may go away while a registry is asked.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyTuple;

thread_local! {
    /// True if the caller of what this thread does is gone, which it is at that time.
    static CURRENT: RefCell<Option<(Arc<AtomicBool>, Option<Instant>)>> = const { RefCell::new(None) };
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
        self.call(None, function, arguments)
    }

    /// The same for a caller who waits no longer than `seconds`.
    #[pyo3(signature = (seconds, function, *arguments))]
    fn run_within<'py>(
        &self,
        seconds: f64,
        function: &Bound<'py, PyAny>,
        arguments: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let until = Duration::try_from_secs_f64(seconds).ok().and_then(|patience| Instant::now().checked_add(patience));
        self.call(until, function, arguments)
    }

    /// Nobody waits for the call any more.
    fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl CancellableCall {
    fn call<'py>(
        &self,
        until: Option<Instant>,
        function: &Bound<'py, PyAny>,
        arguments: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let before = CURRENT.replace(Some((Arc::clone(&self.0), until)));
        let outcome = function.call1(arguments.clone());
        CURRENT.set(before);
        outcome
    }
}

/// True if nobody waits any more for the call that this thread runs.
pub(crate) fn is_cancelled() -> bool {
    CURRENT.with_borrow(|current| {
        let is_gone = |(gone, until): &(Arc<AtomicBool>, Option<Instant>)| {
            gone.load(Ordering::Relaxed) || until.is_some_and(|until| until <= Instant::now())
        };
        current.as_ref().is_some_and(is_gone)
    })
}
