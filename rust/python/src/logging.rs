//! The log events of clients and embedded brokers into Python's `logging`, wherever the interpreter is held anyway.

use monedula_client::log::Log;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Passes events on, and asks which ones are wanted from now on.
pub(crate) fn flush_log(py: Python<'_>, log: &Log) {
    flush_part(py, log, "");
}

/// The same for a part of monedula whose child logger decides by itself what is wanted.
pub(crate) fn flush_part(py: Python<'_>, log: &Log, part: &str) {
    if !log.is_empty() {
        let (events, lost) = log.drain();
        let events: Vec<(u8, &str, String)> =
            events.into_iter().map(|event| (event.level as u8, event.target, event.message)).collect();
        // Logging must not break the call that it reports on.
        if let Ok(emit) = function(py, &EMIT, "emit") {
            let _ = emit.call1((events, lost));
        }
    }
    follow_part(py, log, part);
}

/// Takes the level of the logger, which the program may change at any time.
pub(crate) fn follow_level(py: Python<'_>, log: &Log) {
    follow_part(py, log, "");
}

pub(crate) fn follow_part(py: Python<'_>, log: &Log, part: &str) {
    let threshold = function(py, &THRESHOLD, "threshold");
    let threshold = threshold.and_then(|threshold| threshold.call1((part,))?.extract::<u8>());
    if let Ok(threshold) = threshold {
        log.set_threshold(threshold);
    }
}

static EMIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static THRESHOLD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn function<'py>(py: Python<'py>, once: &PyOnceLock<Py<PyAny>>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let found = || Ok::<_, PyErr>(py.import("monedula._logging")?.getattr(name)?.unbind());
    Ok(once.get_or_try_init(py, found)?.bind(py).clone())
}
