//! Calls of Python code from Rust. The interpreter may end while such a call runs in any thread but its own.
//!
//! Until 3.13, CPython ends a thread that wants the GIL then by `pthread_exit`, which unwinds the thread's stack. Rust's
//! frames cannot be unwound so: one that catches panics aborts the process, and destructors would touch objects of an
//! interpreter that is gone. So the thread stops for ever in the frame that called Python, as CPython does itself from 3.14
//! on, and as PyO3 does where a thread attaches. `clippy.toml` forbids PyO3's own methods for calls.

use std::hint::black_box;
use std::mem::forget;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::runtime::park_for_ever;

/// Stops the thread for ever when its frame is unwound by something that is no panic.
struct StopUnwinding;

impl Drop for StopUnwinding {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            park_for_ever();
        }
    }
}

/// The result of `call`, in which another language's code may end this thread.
pub(crate) fn may_end_thread<T>(call: impl FnOnce() -> T) -> T {
    let stop = StopUnwinding;
    let result = call();
    forget(stop);
    result
}

type Object = *mut ffi::PyObject;

/// `callable(*arguments, **keywords)`.
pub(crate) fn call_with<'py, A>(
    callable: &Bound<'py, PyAny>,
    arguments: A,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
    PyErr: From<A::Error>,
{
    type Declared = unsafe extern "C" fn(Object, Object, Object) -> Object;
    type Unwinding = unsafe extern "C-unwind" fn(Object, Object, Object) -> Object;
    let py = callable.py();
    let arguments = arguments.into_pyobject(py)?;
    let keywords = keywords.map_or(std::ptr::null_mut(), |keywords| keywords.as_ptr());
    // PyO3 declares the function as one that never unwinds. The compiler must not see that this is the same one, or it
    // leaves out what happens when it does.
    // SAFETY: the two ABIs differ only in whether the call may unwind.
    let function = black_box(unsafe { std::mem::transmute::<Declared, Unwinding>(ffi::PyObject_Call) });
    // SAFETY: the arguments are a callable, a tuple, and a dict or null; the result is a new reference, or null with an
    // exception set.
    unsafe {
        Bound::from_owned_ptr_or_err(py, may_end_thread(|| function(callable.as_ptr(), arguments.as_ptr(), keywords)))
    }
}

/// `callable(*arguments)`.
pub(crate) fn call<'py, A>(callable: &Bound<'py, PyAny>, arguments: A) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
    PyErr: From<A::Error>,
{
    call_with(callable, arguments, None)
}

/// `object.name(*arguments)`.
pub(crate) fn call_method<'py, A>(object: &Bound<'py, PyAny>, name: &str, arguments: A) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
    PyErr: From<A::Error>,
{
    call(&object.getattr(name)?, arguments)
}

/// The module of this name, whose code runs if it is not imported yet.
pub(crate) fn import<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    type Declared = unsafe extern "C" fn(Object) -> Object;
    type Unwinding = unsafe extern "C-unwind" fn(Object) -> Object;
    let name = PyString::new(py, name);
    // SAFETY: as in `call_with`.
    let function = black_box(unsafe { std::mem::transmute::<Declared, Unwinding>(ffi::PyImport_Import) });
    // SAFETY: the argument is a string; the result is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, may_end_thread(|| function(name.as_ptr()))) }
}
