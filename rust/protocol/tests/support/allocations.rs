//! Memory that a piece of work allocates, for tests of the cost of hostile bytes. The tests of other crates include
//! this file by its path.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

static BY_ALL_THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static BY_THIS_THREAD: Cell<usize> = const { Cell::new(0) };
}

/// An allocator that adds up the bytes that are allocated.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise, forwarded.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, forwarded.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: the caller's promise, forwarded.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

fn count(bytes: usize) {
    BY_ALL_THREADS.fetch_add(bytes, Ordering::Relaxed);
    // Ignored if unavailable: an ending thread may allocate after its thread locals are destroyed.
    let _ = BY_THIS_THREAD.try_with(|allocated| allocated.set(allocated.get() + bytes));
}

/// Returns the result of the work, and the sum of all its allocations on this thread, in bytes.
#[allow(dead_code, reason = "each test uses one of the two")]
pub(crate) fn allocated_by<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = BY_THIS_THREAD.get();
    let result = work();
    (result, BY_THIS_THREAD.get() - before)
}

/// Returns the result of the work, and the sum of all allocations of the process meanwhile, in bytes: for work with
/// threads of its own. Tests that call it must run one by one.
#[allow(dead_code, reason = "each test uses one of the two")]
pub(crate) fn allocated_meanwhile<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = BY_ALL_THREADS.load(Ordering::Relaxed);
    let result = work();
    (result, BY_ALL_THREADS.load(Ordering::Relaxed) - before)
}
