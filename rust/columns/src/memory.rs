//! Where a pool's buffers come from.

use std::panic::resume_unwind;

use memmap2::MmapMut;

/// What a thread unwinds with that cannot have a large buffer.
#[derive(Clone, Copy, Debug)]
pub struct OutOfMemory {
    /// The buffer's size.
    pub bytes: usize,
}

/// Arrow wants its widest type's alignment; the allocator's own gives `calloc` and with it pages
/// that the kernel zeroes on first touch only.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Line([u8; LINE_BYTES]);

pub(crate) const LINE_BYTES: usize = 16;

/// From here on memory is mapped for itself. The allocator would cut such buffers out of its heap once one of them
/// was freed (glibc raises its mmap threshold then), and keep the holes: 40 MB of them in a run with a 64 MB budget.
const MIN_MAPPED_BYTES: usize = 256 << 10;

/// From here on huge pages are asked for.
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
    /// At least `bytes` bytes of zeros.
    pub(crate) fn zeroed(bytes: usize) -> Self {
        if bytes >= MIN_MAPPED_BYTES {
            // Under a limit (Spark sets one for its workers) this is where memory ends. The allocator would abort the
            // process; unwound, it is an error of one read.
            let Ok(mapped) = MmapMut::map_anon(bytes) else { resume_unwind(Box::new(OutOfMemory { bytes })) };
            #[cfg(target_os = "linux")]
            if bytes >= MIN_HUGE_BYTES {
                // One fault for 2 MiB in place of 512. Only a wish: a kernel without huge pages goes on as ever.
                let _ = mapped.advise(memmap2::Advice::HugePage);
            }
            return Self::Mapped(mapped);
        }
        // SAFETY: all zeros is a valid `Line`.
        Self::Heap(unsafe { Box::<[Line]>::new_zeroed_slice(bytes.div_ceil(LINE_BYTES)).assume_init() })
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
            // SAFETY: as in `bytes`, borrowed mutably.
            Self::Heap(lines) => unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<u8>(), len) },
            Self::Mapped(mapped) => mapped,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn memory_that_cannot_be_had_unwinds_and_says_how_much() {
        let bytes = 1 << 60;
        let payload = catch_unwind(|| Memory::zeroed(bytes).len()).expect_err("nobody has an exbibyte");
        assert_eq!(payload.downcast_ref::<OutOfMemory>().map(|lack| lack.bytes), Some(bytes));
    }
}
