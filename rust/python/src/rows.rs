//! Holders of rows: the user's threads and tasks that have received rows, each with a unique number. When a holder
//! ends, rows that it has not finished stay uncommitted.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use monedula_client::consumer::{Consumer, Unfinished};
use pyo3::prelude::*;

use crate::runtime::{Own, is_ending};

static HOLDERS: AtomicU64 = AtomicU64::new(1);

/// The holder number of this thread, and the consumers to which the thread's end is reported.
struct Thread {
    // Not the thread's id, which the system reuses for a later thread.
    holder: u64,
    reads: RefCell<Vec<Own<Unfinished>>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        // At the interpreter's end, `shutdown` closes every consumer and logs unfinished rows.
        if is_ending() {
            self.reads.take().into_iter().for_each(std::mem::forget);
        }
    }
}

thread_local! {
    static THREAD: Thread = Thread { holder: new_holder(), reads: RefCell::default() };
}

/// A new holder number.
#[pyfunction]
pub(crate) fn new_holder() -> u64 {
    HOLDERS.fetch_add(1, Ordering::Relaxed)
}

/// The holder number of this thread. The thread's end is reported to the consumer.
pub(crate) fn thread_holder(consumer: &Consumer) -> u64 {
    let holder = |thread: &Thread| {
        let mut reads = thread.reads.borrow_mut();
        if !reads.iter().any(|read| read.get().is_ok_and(|read| read.is_of(consumer))) {
            reads.retain(|read| read.get().is_ok_and(|read| !read.is_void()));
            reads.push(Own::new(consumer.holder(thread.holder)));
        }
        thread.holder
    };
    // In a thread that is ending, only destructors run, which give rows back: it holds none.
    THREAD.try_with(holder).unwrap_or_default()
}
