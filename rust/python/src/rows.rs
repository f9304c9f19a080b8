//! Who holds rows: threads and tasks of the user's, each with a number.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use monedula_client::consumer::{Consumer, Unfinished};
use pyo3::prelude::*;

use crate::runtime::{Own, is_ending};

static HOLDERS: AtomicU64 = AtomicU64::new(1);

/// This thread, and the consumers that are told when it ends.
struct Thread {
    // Not the thread's id, which the system gives to a later thread again.
    holder: u64,
    reads: RefCell<Vec<Own<Unfinished>>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        // The interpreter's end closes every consumer, and says what is to be said.
        if is_ending() {
            self.reads.take().into_iter().for_each(std::mem::forget);
        }
    }
}

thread_local! {
    static THREAD: Thread = Thread { holder: new_holder(), reads: RefCell::default() };
}

/// A number that no thread and no task has.
#[pyfunction]
pub(crate) fn new_holder() -> u64 {
    HOLDERS.fetch_add(1, Ordering::Relaxed)
}

/// The number of this thread, whose end the consumer hears of.
pub(crate) fn thread_holder(consumer: &Consumer) -> u64 {
    let holder = |thread: &Thread| {
        let mut reads = thread.reads.borrow_mut();
        if !reads.iter().any(|read| read.get().is_ok_and(|read| read.is_of(consumer))) {
            reads.retain(|read| read.get().is_ok_and(|read| !read.is_void()));
            reads.push(Own::new(consumer.holder(thread.holder)));
        }
        thread.holder
    };
    // A thread that ends holds nothing: what runs then is a destructor that gives back.
    THREAD.try_with(holder).unwrap_or_default()
}
