//! The reserve: memory for requests that Rust's collections and futures cannot be refused. Without it the standard
//! library aborts the process as soon as the system grants no more. Buffers whose refusal is handled ask within
//! [`refusable`], and leave the reserve alone.
//!
//! [`refusable`]: monedula_columns::refusable

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::ptr::{copy_nonoverlapping, null_mut};
use std::sync::Mutex;

use monedula_client::error::ClientError;
use monedula_client::lock::lock;
use monedula_columns::{OutOfMemory, check_spare, is_refusable};

/// The size of the reserve. Pages that were never used take no memory.
const RESERVE_BYTES: usize = 16 << 20;

const GRANULE_BYTES: usize = 64;

/// The largest alignment that the reserve grants.
const MOST_ALIGN_BYTES: usize = 1024;

const GRANULES: usize = RESERVE_BYTES / GRANULE_BYTES;

/// The size up to which a request may use the reserve: the lists of a topic with twenty thousand partitions. A larger
/// one that cannot be refused ends the process.
const MOST_BYTES: usize = 4 << 20;

#[global_allocator]
static ALLOCATOR: ReserveAllocator =
    ReserveAllocator { reserve: UnsafeCell::new(Reserve([0; RESERVE_BYTES])), used: Mutex::new(UsedGranules::NONE) };

#[repr(align(1024))]
struct Reserve([u8; RESERVE_BYTES]);

/// The system's allocator; where it refuses, the reserve grants.
struct ReserveAllocator {
    reserve: UnsafeCell<Reserve>,
    used: Mutex<UsedGranules>,
}

struct UsedGranules {
    granules: [bool; GRANULES],
    count: usize,
    /// Start of the next search: thousands of small objects are found one after the other.
    next: usize,
}

impl UsedGranules {
    const NONE: Self = Self { granules: [false; GRANULES], count: 0, next: 0 };

    /// Takes `count` free granules in a row, the first of them at a multiple of `step`.
    fn take(&mut self, count: usize, step: usize) -> Option<usize> {
        let first = self.find(self.next, count, step).or_else(|| self.find(0, count, step))?;
        self.set(first..first + count, true);
        self.next = first + count;
        Some(first)
    }

    fn find(&self, from: usize, count: usize, step: usize) -> Option<usize> {
        let mut first = from.next_multiple_of(step);
        while first + count <= GRANULES {
            match self.granules[first..first + count].iter().rposition(|&is_used| is_used) {
                None => return Some(first),
                Some(last) => first = (first + last + 1).next_multiple_of(step),
            }
        }
        None
    }

    fn set(&mut self, range: Range<usize>, is_used: bool) {
        self.count = if is_used { self.count + range.len() } else { self.count - range.len() };
        self.granules[range].fill(is_used);
    }
}

/// Checks that a client may begin: once it has, the process may not survive a lack of memory.
///
/// # Errors
/// `NoMemory` if the system has next to none, or if half of the reserve is in use.
pub(crate) fn check() -> Result<(), ClientError> {
    check_spare()?;
    check_unused()
}

/// Checks that a call may begin: that half of the reserve is free. It asks the system for nothing, as an
/// `AsyncConsumer` begins one for each poll.
///
/// # Errors
/// `NoMemory` if it is not.
pub(crate) fn check_unused() -> Result<(), ClientError> {
    if lock(&ALLOCATOR.used).count <= GRANULES / 2 { Ok(()) } else { Err(OutOfMemory { bytes: RESERVE_BYTES }.into()) }
}

const fn granules(layout: Layout) -> usize {
    layout.size().div_ceil(GRANULE_BYTES)
}

impl ReserveAllocator {
    fn start(&self) -> *mut u8 {
        // SAFETY: no reference is made.
        unsafe { (&raw mut (*self.reserve.get()).0).cast() }
    }

    fn owns(&self, pointer: *mut u8) -> bool {
        (pointer as usize).wrapping_sub(self.start() as usize) < RESERVE_BYTES
    }

    /// Zeroed memory of the reserve; null if it has none, for very many bytes, and for who can do without.
    #[cold]
    fn grant(&self, layout: Layout) -> *mut u8 {
        if layout.size() > MOST_BYTES || layout.align() > MOST_ALIGN_BYTES || is_refusable() {
            return null_mut();
        }
        let first = lock(&self.used).take(granules(layout), layout.align().div_ceil(GRANULE_BYTES));
        // SAFETY: within the reserve, as `first` is the number of a granule.
        first.map_or(null_mut(), |first| unsafe { self.start().add(first * GRANULE_BYTES) })
    }

    /// Takes back what `grant` granted.
    ///
    /// # Safety
    /// `pointer` is of the reserve, was granted with this layout, and is not used any more.
    #[cold]
    unsafe fn take_back(&self, pointer: *mut u8, layout: Layout) {
        let first = (pointer as usize - self.start() as usize) / GRANULE_BYTES;
        // SAFETY: the caller has `pointer` of the reserve, with this layout; its granules are still this caller's.
        unsafe { pointer.write_bytes(0, layout.size()) };
        lock(&self.used).set(first..first + granules(layout), false);
    }

    /// A reallocation from the reserve, or into it.
    ///
    /// # Safety
    /// As [`GlobalAlloc::realloc`].
    #[cold]
    unsafe fn moved(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises: the new size does not overflow; the old memory has `layout`, and ends here.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !new.is_null() {
                copy_nonoverlapping(pointer, new, layout.size().min(new_size));
                self.dealloc(pointer, layout);
            }
            new
        }
    }
}

// SAFETY: each granule is granted to one caller at a time, under the lock of `used`.
unsafe impl Sync for ReserveAllocator {}

// SAFETY: memory is the system allocator's, or granules that no one else has; each goes back where it came from.
unsafe impl GlobalAlloc for ReserveAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's `layout` is of more than zero bytes.
        let granted = unsafe { System.alloc(layout) };
        if granted.is_null() { self.grant(layout) } else { granted }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's `layout` is of more than zero bytes.
        let granted = unsafe { System.alloc_zeroed(layout) };
        if granted.is_null() { self.grant(layout) } else { granted }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller has `pointer` of this allocator, with `layout`, and a `new_size` that is not zero and does
        // not overflow; a refused reallocation leaves the old memory as it was.
        unsafe {
            if self.owns(pointer) {
                return self.moved(pointer, layout, new_size);
            }
            let granted = System.realloc(pointer, layout, new_size);
            if granted.is_null() { self.moved(pointer, layout, new_size) } else { granted }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller has `pointer` of this allocator, with `layout`, and does not use it any more.
        unsafe { if self.owns(pointer) { self.take_back(pointer, layout) } else { System.dealloc(pointer, layout) } }
    }
}
