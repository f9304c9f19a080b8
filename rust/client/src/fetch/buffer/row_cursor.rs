//! The counter of rows that are handed out one by one. It is also what stops them: a stop bit in the same number, set
//! under the lock of the fetch buffer, or by `take` itself once the lease is over. From then on no row is counted, and
//! a row that is not counted is not handed out. So taking a row needs no lock, and none slips through.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use monedula_engine::ledger::Holder;

use super::lease::LeaseClock;

const STOPPED: u64 = 1 << 63;

/// Counts the rows of one batch that the user took.
#[derive(Debug)]
pub struct RowCursor {
    /// Number of rows taken, and [`STOPPED`] as the highest bit.
    taken: AtomicU64,
    /// Holder of the last row, as far as takers have named themselves; 0 if nobody has.
    taker: AtomicU64,
    clock: Arc<LeaseClock>,
}

impl RowCursor {
    pub(super) fn new(clock: Arc<LeaseClock>) -> Self {
        Self { taken: AtomicU64::new(0), taker: AtomicU64::new(0), clock }
    }

    /// Takes the next row: its index, beyond the last one once all were handed out; `None` if no more may be. Counts as
    /// a poll.
    #[inline]
    pub fn take(&self) -> Option<usize> {
        if !self.clock.row_wanted() {
            self.stop();
        }
        let next = |taken| (taken & STOPPED == 0).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok().map(|taken| taken as usize)
    }

    /// As [`Self::take`], by this holder.
    #[inline]
    pub fn take_by(&self, holder: Holder) -> Option<usize> {
        let taken = self.take()?;
        self.taker.store(holder, Ordering::Release);
        Some(taken)
    }

    pub(super) fn taker(&self) -> Option<Holder> {
        Some(self.taker.load(Ordering::Acquire)).filter(|taker| *taker != 0)
    }

    /// Number of rows taken; more than there are once the batch is used up.
    pub fn taken(&self) -> usize {
        (self.taken.load(Ordering::Acquire) & !STOPPED) as usize
    }

    pub(super) fn stop(&self) {
        self.taken.fetch_or(STOPPED, Ordering::AcqRel);
    }
}
