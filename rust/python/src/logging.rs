//! Passes log events of clients and embedded brokers to Python's `logging`, from calls that are attached to the
//! interpreter anyway.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::time::UNIX_EPOCH;

use monedula_client::lock::lock;
use monedula_client::log::Log;
use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// A log event: level, part, message, seconds since the epoch.
type PyLogged = (u8, &'static str, String, f64);

fn drained(log: &Log) -> (Vec<PyLogged>, usize) {
    let (events, lost) = log.drain();
    let logged = events.into_iter().map(|event| {
        let at = event.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        (event.level as u8, event.target, event.message, at.as_secs_f64())
    });
    (logged.collect(), lost)
}

/// Passes events to `logging`, and updates the log's level from the logger.
pub(crate) fn flush_log(py: Python<'_>, log: &Log) {
    flush_part(py, log, "");
}

/// Like [`flush_log`], while the interpreter ends.
pub(crate) fn flush_last(py: Python<'_>, log: &Log) {
    let (events, lost) = drained(log);
    if let Err(error) = function(py, &EMIT_LAST, "emit_last").and_then(|emit| emit.call1((events, lost))) {
        put_off(py, error);
    }
}

/// Like [`flush_log`], for a part of monedula whose child logger has its own level.
pub(crate) fn flush_part(py: Python<'_>, log: &Log, part: &str) {
    if !log.is_empty() {
        let (events, lost) = drained(log);
        // Logging must not break the call that it reports on.
        if let Err(error) = function(py, &EMIT, "emit").and_then(|emit| emit.call1((events, lost))) {
            put_off(py, error);
        }
    }
    follow_part(py, log, part);
}

/// Updates the log's level from the logger, which the program may change at any time.
pub(crate) fn follow_level(py: Python<'_>, log: &Log) {
    follow_part(py, log, "");
}

pub(crate) fn follow_part(py: Python<'_>, log: &Log, part: &str) {
    let threshold = function(py, &THRESHOLD, "threshold");
    let threshold = threshold.and_then(|threshold| threshold.call1((part,))?.extract::<u8>());
    match threshold {
        Ok(threshold) => log.set_threshold(threshold),
        Err(error) => put_off(py, error),
    }
}

/// Raises an error later if it does not concern logging. Ctrl-C just before a call to Python is raised inside that
/// call; the interpreter raises it again as soon as it runs on. Errors of logging itself are dropped.
fn put_off(py: Python<'_>, error: PyErr) {
    if error.is_instance_of::<PyException>(py) {
        return;
    }
    *lock(&PUT_OFF) = Some(error);
    // SAFETY: the function needs no argument, and lives as long as the process.
    unsafe { ffi::Py_AddPendingCall(Some(raise_put_off), null_mut()) };
}

static PUT_OFF: Mutex<Option<PyErr>> = Mutex::new(None);

extern "C" fn raise_put_off(_nothing: *mut c_void) -> c_int {
    let Some(error) = lock(&PUT_OFF).take() else {
        return 0;
    };
    Python::attach(|py| error.restore(py));
    -1
}

static EMIT_LAST: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static EMIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static THRESHOLD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn function<'py>(py: Python<'py>, once: &PyOnceLock<Py<PyAny>>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let found = || Ok::<_, PyErr>(py.import("monedula._logging")?.getattr(name)?.unbind());
    Ok(once.get_or_try_init(py, found)?.bind(py).clone())
}
