//! The gate before rows that are handed out one by one: the counter of the rows itself, so that it costs nothing a row and
//! nothing slips through. What the user is to hear of stops it, under the lock that decides it: from then on no row is counted,
//! and a row that is not counted is not handed out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::gates::Lease;

const STOPPED: u64 = 1 << 63;

/// Counts the rows of one batch that the user asked for.
#[derive(Debug)]
pub struct RowGate {
    /// How many, with [`STOPPED`] above.
    asked: AtomicU64,
    clock: Arc<RowClock>,
}

impl RowGate {
    pub(super) fn new(clock: Arc<RowClock>) -> Self {
        Self { asked: AtomicU64::new(0), clock }
    }

    /// Asks for the next row: its index, beyond the last one once all were handed out; `None` if no more may be. Asking counts
    /// as a poll.
    #[inline]
    pub fn ask(&self) -> Option<usize> {
        if !self.clock.ask() {
            self.stop();
        }
        let next = |asked| (asked & STOPPED == 0).then_some(asked + 1);
        self.asked.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok().map(|asked| asked as usize)
    }

    /// How many rows were asked for; more than there are once the batch is used up.
    pub fn asked(&self) -> usize {
        (self.asked.load(Ordering::Acquire) & !STOPPED) as usize
    }

    pub(super) fn stop(&self) {
        self.asked.fetch_or(STOPPED, Ordering::AcqRel);
    }
}

/// What rows have to do with time: the lease, against the clock at each row, because a process that was stopped for a minute
/// wakes up in the middle of a batch; and when the user last asked for one.
#[derive(Debug)]
pub(super) struct RowClock {
    started: Instant,
    /// Nanoseconds since then; [`Self::FREE`] outside of any group.
    lease_until_ns: AtomicU64,
    asked_ns: AtomicU64,
}

impl Default for RowClock {
    fn default() -> Self {
        Self { started: Instant::now(), lease_until_ns: AtomicU64::new(Self::FREE), asked_ns: AtomicU64::new(0) }
    }
}

impl RowClock {
    const FREE: u64 = u64::MAX;

    pub(super) fn set_lease(&self, lease: Lease) {
        let until_ns = match lease {
            Lease::Free => Self::FREE,
            Lease::Until(until) => nanos(until.saturating_duration_since(self.started)),
            Lease::Out => 0,
        };
        self.lease_until_ns.store(until_ns, Ordering::Release);
    }

    /// When a row was last asked for, in a group.
    pub(super) fn asked(&self) -> Option<Instant> {
        let asked_ns = self.asked_ns.load(Ordering::Acquire);
        (asked_ns > 0).then(|| self.started + Duration::from_nanos(asked_ns))
    }

    /// Whether the lease holds.
    #[inline]
    fn ask(&self) -> bool {
        let until_ns = self.lease_until_ns.load(Ordering::Acquire);
        if until_ns == Self::FREE {
            return true;
        }
        let now_ns = nanos(self.started.elapsed());
        self.asked_ns.fetch_max(now_ns, Ordering::AcqRel);
        now_ns < until_ns
    }
}

fn nanos(since: Duration) -> u64 {
    u64::try_from(since.as_nanos()).unwrap_or(RowClock::FREE - 1)
}
