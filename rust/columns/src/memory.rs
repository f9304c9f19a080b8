//! Allocation of a pool's buffers: on the heap, or by mmap if they are large.

use std::alloc::{Layout, alloc_zeroed};
use std::cell::Cell;

use memmap2::MmapMut;

/// The error of a buffer that cannot be allocated. Functions that do not return it unwind with it as their panic
/// payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory for a buffer of {bytes} bytes; raise the process's memory limit")]
pub struct OutOfMemory {
    /// The buffer's size in bytes.
    pub bytes: usize,
}

/// Memory that must be free before a client or a thread starts: for the interpreter's objects, and for glibc, which
/// aborts the process if it has no memory for its own data of a thread. (A thread may reuse the stack of one that has
/// ended.)
const SPARE_BYTES: usize = 256 << 10;

/// Checks that the system can spare this much. A mapping is used, because a heap block would raise glibc's mmap
/// threshold once it is freed.
///
/// # Errors
/// [`OutOfMemory`].
pub fn check_spare() -> Result<(), OutOfMemory> {
    MmapMut::map_anon(SPARE_BYTES).map(drop).map_err(|_| OutOfMemory { bytes: SPARE_BYTES })
}

thread_local! {
    static HANDLES_REFUSAL: Cell<bool> = const { Cell::new(false) };
}

/// Runs `allocate`, whose caller handles a refusal. An allocator that keeps memory for requests that cannot be refused
/// does not spend it on this one.
pub fn refusable<T>(allocate: impl FnOnce() -> T) -> T {
    let before = HANDLES_REFUSAL.replace(true);
    let allocated = allocate();
    HANDLES_REFUSAL.set(before);
    allocated
}

/// True inside of [`refusable`].
pub fn is_refusable() -> bool {
    HANDLES_REFUSAL.get()
}

/// 16 bytes with the alignment that Arrow needs for its widest type. It is also the system allocator's own alignment,
/// so that zeroed memory comes from `calloc`, whose new pages the kernel zeroes only on first touch.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Line([u8; LINE_BYTES]);

pub(crate) const LINE_BYTES: usize = 16;

/// Buffers of at least this size get their own mapping. On the heap, the first one that is freed would raise glibc's
/// mmap threshold, so that later ones are cut out of the heap and leave holes: 40 MB of them in a run with a 64 MB
/// budget.
const MIN_MAPPED_BYTES: usize = 256 << 10;

/// Buffers of at least this size are advised (`madvise`) to use huge pages.
#[cfg(target_os = "linux")]
const MIN_HUGE_BYTES: usize = 2 << 20;

/// Initialised memory that never moves.
pub(crate) enum Memory {
    Heap(Box<[Line]>),
    Mapped(MmapMut),
}

impl Default for Memory {
    fn default() -> Self {
        Self::Heap(Box::default())
    }
}

impl Memory {
    /// Allocates at least `bytes` bytes of zeros. It may fail, as under a memory limit (Spark sets one for its
    /// workers), where Rust's own collections would abort the process.
    pub(crate) fn try_zeroed(bytes: usize) -> Result<Self, OutOfMemory> {
        let lack = OutOfMemory { bytes };
        if bytes >= MIN_MAPPED_BYTES {
            let mapped = MmapMut::map_anon(bytes).map_err(|_| lack)?;
            #[cfg(target_os = "linux")]
            if bytes >= MIN_HUGE_BYTES {
                // Huge pages take one page fault per 2 MiB instead of 512. The result is ignored: a kernel may have
                // none.
                let _ = mapped.advise(memmap2::Advice::HugePage);
            }
            return Ok(Self::Mapped(mapped));
        }
        let lines = bytes.div_ceil(LINE_BYTES);
        if lines == 0 {
            return Ok(Self::default());
        }
        // `Box::new_zeroed_slice` would abort the process if there is no memory.
        let layout = Layout::array::<Line>(lines).map_err(|_| lack)?;
        // SAFETY: the layout is not empty.
        let memory = refusable(|| unsafe { alloc_zeroed(layout) }).cast::<Line>();
        if memory.is_null() {
            return Err(lack);
        }
        // SAFETY: the global allocator returned `memory` for the layout of a slice of `lines` lines; all zeros is a
        // valid `Line`.
        Ok(Self::Heap(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, lines)) }))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Heap(lines) => lines.len() * LINE_BYTES,
            Self::Mapped(mapped) => mapped.len(),
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: the lines are initialised bytes without padding.
            Self::Heap(lines) => unsafe { std::slice::from_raw_parts(lines.as_ptr().cast::<u8>(), self.len()) },
            Self::Mapped(mapped) => mapped,
        }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        match self {
            // SAFETY: same as in `bytes`, borrowed mutably.
            Self::Heap(lines) => unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<u8>(), len) },
            Self::Mapped(mapped) => mapped,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;
    use crate::BufferPool;

    #[test]
    #[cfg_attr(miri, ignore = "its allocator gives up where the system's says no")]
    fn memory_that_cannot_be_had_unwinds_and_says_how_much() {
        let bytes = 1 << 60;
        let refused = Memory::try_zeroed(bytes).map(|memory| memory.len());
        assert_eq!(refused, Err(OutOfMemory { bytes }), "nobody has an exbibyte");
        let payload = catch_unwind(|| BufferPool::new(0).take(bytes).len()).expect_err("nor a pool");
        assert_eq!(payload.downcast_ref::<OutOfMemory>().map(|lack| lack.bytes), Some(bytes));
    }

    #[test]
    fn all_sizes_are_zeros() {
        // Sampled under Miri: a check of all half a million bytes takes too long.
        let step = if cfg!(miri) { 1009 } else { 1 };
        for bytes in [0, 1, LINE_BYTES, 1000, MIN_MAPPED_BYTES - 1, MIN_MAPPED_BYTES] {
            let memory = Memory::try_zeroed(bytes).expect("memory");
            assert!(memory.len() >= bytes && memory.bytes().iter().step_by(step).all(|&byte| byte == 0), "{bytes}");
        }
    }
}
