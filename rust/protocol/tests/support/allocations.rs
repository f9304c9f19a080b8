//! The memory that a piece of work allocates, for tests of what hostile bytes may cost. The tests of other crates
//! include this file by its path.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that all threads have allocated.
static ALLOCATED_BY_ALL: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// An allocator that adds up the bytes that are allocated.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

fn count(bytes: usize) {
    ALLOCATED_BY_ALL.fetch_add(bytes, Ordering::Relaxed);
    // A thread that ends may allocate after its thread locals are destroyed.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + bytes));
}

/// The result of the work, and the sum of all its allocations on this thread, in bytes.
#[allow(dead_code, reason = "each crate's tests use one of the two")]
pub(crate) fn allocated_by<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    let result = work();
    (result, ALLOCATED.get() - before)
}

/// As [`allocated_by`], on all threads: for work that starts threads, while no other test runs.
#[allow(dead_code, reason = "each crate's tests use one of the two")]
pub(crate) fn allocated_by_all_threads<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED_BY_ALL.load(Ordering::Relaxed);
    let result = work();
    (result, ALLOCATED_BY_ALL.load(Ordering::Relaxed) - before)
}
