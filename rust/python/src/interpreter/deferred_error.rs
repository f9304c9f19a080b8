//! Exceptions of signal handlers in Python code that the core calls: they are the program's, and never dropped.
//!
//! Python runs signal handlers in its main thread, between any two instructions. One that is due when the core calls
//! Python runs inside that call, whose errors the core may handle: those of a `repr` in a message, or of a library.
//! Calls that wait in Rust look for signals in [`crate::runtime`].

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;

use monedula_client::lock::lock;
use pyo3::exceptions::{PyException, PyMemoryError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Raises an error later if it is not about the code that it came out of: one that is no `Exception`, as Ctrl-C is not,
/// or that a signal handler raised. The interpreter raises it as soon as it runs on. Other errors are dropped.
pub(crate) fn put_off(py: Python<'_>, error: PyErr) {
    if !error.is_instance_of::<PyException>(py) || is_of_signal_handler(py, &error) {
        put_off_any(py, error);
    }
}

/// Raises any error later. But a lack of memory is over then, and not the fault of the line that runs: a `MemoryError`
/// is dropped.
pub(crate) fn put_off_any(py: Python<'_>, error: PyErr) {
    if error.is_instance_of::<PyMemoryError>(py) {
        return;
    }
    lock(&PUT_OFF).push_back(error);
    add_pending_call();
}

/// True if a signal handler raised the error, and not the code that was called. Without memory to tell, it did not.
pub(crate) fn is_of_signal_handler(py: Python<'_>, error: &PyErr) -> bool {
    let found = py.import("monedula._process.signals").and_then(|signals| signals.getattr("is_of_signal_handler"));
    // Beside the error: it has no traceback of its own before it is raised again.
    let answer = found.and_then(|ask| ask.call1((error.value(py), error.traceback(py)))?.extract());
    answer.unwrap_or_else(|of_the_next_signal| {
        let is_of_a_signal = !of_the_next_signal.is_instance_of::<PyMemoryError>(py);
        put_off_any(py, of_the_next_signal);
        is_of_a_signal
    })
}

pub(crate) fn text(object: &Bound<'_, PyAny>) -> String {
    or_unknown(object.py(), object.str())
}

pub(crate) fn repr(object: &Bound<'_, PyAny>) -> String {
    or_unknown(object.py(), object.repr())
}

fn or_unknown(py: Python<'_>, text: PyResult<Bound<'_, PyString>>) -> String {
    match text {
        // `to_string` would not do: it asks for the text of the text, and so for signals.
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(error) => {
            put_off(py, error);
            "?".into()
        }
    }
}

static PUT_OFF: Mutex<VecDeque<PyErr>> = Mutex::new(VecDeque::new());

/// Fails if too many calls wait; the next one that is added raises all errors, one after the other.
fn add_pending_call() {
    // SAFETY: the function needs no argument, and lives as long as the process.
    unsafe { ffi::Py_AddPendingCall(Some(raise_put_off), null_mut()) };
}

extern "C" fn raise_put_off(_nothing: *mut c_void) -> c_int {
    let mut put_off = lock(&PUT_OFF);
    let (first, has_more) = (put_off.pop_front(), !put_off.is_empty());
    drop(put_off);
    if has_more {
        add_pending_call();
    }
    let Some(error) = first else {
        return 0;
    };
    Python::attach(|py| error.restore(py));
    -1
}
