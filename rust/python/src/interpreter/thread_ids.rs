//! Ids of the user's threads and tasks, by which a consumer knows which of them holds which rows.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use monedula_client::consumer::{Consumer, Unfinished};
use monedula_client::share::{ShareConsumer, Undecided};
use pyo3::prelude::*;

use crate::runtime::{Own, is_ending};

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The id of a thread, and what it has of each consumer, which is notified when the thread ends.
struct ThreadId {
    // A number of our own, and not the system's thread id, which a later thread may get again.
    id: u64,
    unfinished: RefCell<Vec<Own<Unfinished>>>,
    undecided: RefCell<Vec<Own<Undecided>>>,
}

impl Drop for ThreadId {
    fn drop(&mut self) {
        // When the interpreter ends, it closes every consumer, which handles unfinished rows.
        if is_ending() {
            self.unfinished.take().into_iter().for_each(std::mem::forget);
            self.undecided.take().into_iter().for_each(std::mem::forget);
        }
    }
}

thread_local! {
    static THREAD_ID: ThreadId =
        ThreadId { id: new_holder(), unfinished: RefCell::default(), undecided: RefCell::default() };
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
        let (is_void, is_of) = (Unfinished::is_void, |known: &Unfinished| known.is_of(consumer));
        keep(&thread.unfinished, is_void, is_of, || consumer.holder(thread.id));
        thread.id
    };
    // Fails only while the thread ends, which holds no rows then: a destructor is giving them back.
    THREAD_ID.try_with(holder).unwrap_or_default()
}

/// As [`thread_holder`], of a share group's consumer. If decisions are explicit, it is not notified: any thread that
/// has a batch decides of it, whichever took it.
pub(crate) fn share_thread_holder(consumer: &ShareConsumer) -> u64 {
    let holder = |thread: &ThreadId| {
        if consumer.config().share.is_implicit {
            let (is_void, is_of) = (Undecided::is_void, |known: &Undecided| consumer.has(known));
            keep(&thread.undecided, is_void, is_of, || consumer.undecided_of(thread.id));
        }
        thread.id
    };
    THREAD_ID.try_with(holder).unwrap_or_default()
}

/// Keeps what a thread has of a consumer until the thread ends, once for each consumer.
fn keep<T>(
    of_thread: &RefCell<Vec<Own<T>>>,
    is_void: fn(&T) -> bool,
    is_of: impl Fn(&T) -> bool,
    new: impl FnOnce() -> T,
) {
    let mut kept = of_thread.borrow_mut();
    if !kept.iter().any(|known| known.get().is_ok_and(&is_of)) {
        kept.retain(|known| known.get().is_ok_and(|known| !is_void(known)));
        kept.push(Own::new(new()));
    }
}
