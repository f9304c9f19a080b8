//! Attaching to the interpreter, for threads that Python did not start: not any more once it is about to end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::interpreter::thread_exit::park_instead;
use crate::runtime::park_for_ever;

/// True if no thread may attach any more.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Number of threads that have seen that they may attach, and wait for the GIL.
static ARRIVING: AtomicUsize = AtomicUsize::new(0);

struct Arrival;

impl Arrival {
    fn begin() -> Option<Self> {
        ARRIVING.fetch_add(1, Ordering::SeqCst);
        let arrival = Self;
        (!IS_OVER.load(Ordering::SeqCst)).then_some(arrival)
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        ARRIVING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The result of `work`, done attached; `None` if the interpreter ends.
pub(crate) fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    park_instead();
    let arrival = Arrival::begin()?;
    Python::try_attach(|py| {
        drop(arrival);
        work(py)
    })
}

/// Likewise, for a thread that has nowhere to go without the result: it stops if the interpreter has ended.
pub(crate) fn attached_or_stopped<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    park_instead();
    Python::try_attach(work).unwrap_or_else(|| park_for_ever())
}

/// Lets no thread attach any more, and waits at most for `patience` until those that are about to have done so: a
/// thread that is late would find an interpreter that is half gone. Called detached.
pub(crate) fn end(patience: Duration) {
    IS_OVER.store(true, Ordering::SeqCst);
    let until = Instant::now() + patience;
    while ARRIVING.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A forked child has none of the parent's threads.
pub(crate) fn forked() {
    ARRIVING.store(0, Ordering::SeqCst);
}
