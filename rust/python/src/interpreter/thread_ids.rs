//! Ids of the user's threads and tasks, by which a consumer knows which of them holds which rows.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use monedula_client::consumer::{Consumer, Unfinished};
use pyo3::prelude::*;

use crate::runtime::{Own, is_ending};

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The id of a thread, and the consumers that are notified when the thread ends.
struct ThreadId {
    // A number of our own, and not the system's thread id, which a later thread may get again.
    id: u64,
    consumers: RefCell<Vec<Own<Unfinished>>>,
}

impl Drop for ThreadId {
    fn drop(&mut self) {
        // When the interpreter ends, it closes every consumer, which handles unfinished rows.
        if is_ending() {
            self.consumers.take().into_iter().for_each(std::mem::forget);
        }
    }
}

thread_local! {
    static THREAD_ID: ThreadId = ThreadId { id: new_holder(), consumers: RefCell::default() };
}

/// A new id, which no other thread or task has.
#[pyfunction]
pub(crate) fn new_holder() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

/// The id of this thread; 0 while it ends.
#[inline]
pub(crate) fn this_thread() -> u64 {
    THREAD_ID.try_with(|thread| thread.id).unwrap_or_default()
}

/// The id of this thread. The consumer is notified when the thread ends.
pub(crate) fn thread_holder(consumer: &Consumer) -> u64 {
    let holder = |thread: &ThreadId| {
        let mut consumers = thread.consumers.borrow_mut();
        if !consumers.iter().any(|known| known.get().is_ok_and(|known| known.is_of(consumer))) {
            consumers.retain(|known| known.get().is_ok_and(|known| !known.is_void()));
            consumers.push(Own::new(consumer.holder(thread.id)));
        }
        thread.id
    };
    // Fails only while the thread ends, which holds no rows then: a destructor is giving them back.
    THREAD_ID.try_with(holder).unwrap_or_default()
}
