//! Who holds rows: threads and tasks of the user's, each with a number.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

static HOLDERS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    // Not the thread's id, which the system gives to a later thread again.
    static THREAD: u64 = new_holder();
}

/// A number that no thread and no task has.
#[pyfunction]
pub(crate) fn new_holder() -> u64 {
    HOLDERS.fetch_add(1, Ordering::Relaxed)
}

/// The number of this thread.
pub(crate) fn thread_holder() -> u64 {
    THREAD.with(|holder| *holder)
}
