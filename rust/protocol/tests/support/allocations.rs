//! The memory that a piece of work allocates, for tests of what hostile bytes may cost. The tests of other crates
//! include this file by its path.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// An allocator that adds up the bytes that the current thread allocates.
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
    // A thread that ends may allocate after its thread locals are destroyed.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + bytes));
}

/// The result of the work, and the sum of all its allocations on this thread, in bytes.
pub(crate) fn allocated_by<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    let result = work();
    (result, ALLOCATED.get() - before)
}
