//! Waits in programs whose threads are greenlets of gevent or eventlet: they wait in the hub, so that others run.

use std::time::Duration;

use pyo3::ffi;
use pyo3::prelude::*;

/// First pause of a greenlet; each is twice as long as the one before it.
const SHORTEST: Duration = Duration::from_millis(1);

/// Longest pause: so much later may a greenlet see the end of its wait.
const LONGEST: Duration = Duration::from_millis(10);

pub(crate) struct Pauses(Duration);

impl Pauses {
    /// `None` where there are no other greenlets: the thread may block.
    pub(crate) fn begin(py: Python<'_>) -> PyResult<Option<Self>> {
        Ok((is_patched(py)? && has_hub(py)?).then_some(Self(SHORTEST)))
    }

    /// Lets other greenlets run.
    pub(crate) fn pause(&mut self, py: Python<'_>) -> PyResult<()> {
        module(py)?.call_method1("pause", (self.0.as_secs_f64(),))?;
        self.0 = (self.0 * 2).min(LONGEST);
        Ok(())
    }
}

/// True if threads are greenlets. Most programs have not even loaded what could replace them.
pub(crate) fn is_patched(py: Python<'_>) -> PyResult<bool> {
    let is_loaded =
        [pyo3::intern!(py, "gevent.monkey"), pyo3::intern!(py, "eventlet.patcher")].into_iter().any(|name| {
            // SAFETY: attached to the interpreter; the result is a new reference, or null without an error of its own.
            let found = unsafe { Bound::from_owned_ptr_or_opt(py, ffi::PyImport_GetModule(name.as_ptr())) };
            found.is_some()
        });
    Ok(is_loaded && module(py)?.call_method0("is_patched")?.extract::<bool>()?)
}

/// True if other greenlets may run in this thread.
pub(crate) fn has_hub(py: Python<'_>) -> PyResult<bool> {
    module(py)?.call_method0("has_hub")?.extract()
}

fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("monedula._process.greenlets")
}
