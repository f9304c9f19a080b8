//! The time until which a group member may hand records out. The machine of the group renews it by heartbeats.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lease {
    /// No end: the consumer is in no group.
    #[default]
    Unlimited,
    Until(Instant),
    Expired,
}

impl Lease {
    pub(super) fn holds(self, now: Instant) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Until(until) => now < until,
            Self::Expired => false,
        }
    }
}

/// The lease for rows that are handed out one by one, outside of the locks. It is held against the clock at each row,
/// because a process that was stopped for a minute wakes up in the middle of a batch. Also notes when the user last
/// wanted a row.
#[derive(Debug)]
pub(super) struct LeaseClock {
    started: Instant,
    /// Nanoseconds since `started`; [`Self::UNLIMITED`] outside of any group.
    until_ns: AtomicU64,
    row_wanted_ns: AtomicU64,
}

impl Default for LeaseClock {
    fn default() -> Self {
        Self { started: Instant::now(), until_ns: AtomicU64::new(Self::UNLIMITED), row_wanted_ns: AtomicU64::new(0) }
    }
}

impl LeaseClock {
    const UNLIMITED: u64 = u64::MAX;

    pub(super) fn set(&self, lease: Lease) {
        let until_ns = match lease {
            Lease::Unlimited => Self::UNLIMITED,
            Lease::Until(until) => nanos(until.saturating_duration_since(self.started)),
            Lease::Expired => 0,
        };
        self.until_ns.store(until_ns, Ordering::Release);
    }

    /// Time at which a row was last wanted, in a group.
    pub(super) fn row_wanted_at(&self) -> Option<Instant> {
        let at_ns = self.row_wanted_ns.load(Ordering::Acquire);
        (at_ns > 0).then(|| self.started + Duration::from_nanos(at_ns))
    }

    /// True if the lease holds now.
    pub(super) fn holds(&self) -> bool {
        let until_ns = self.until_ns.load(Ordering::Acquire);
        until_ns == Self::UNLIMITED || nanos(self.started.elapsed()) < until_ns
    }

    /// Notes that the user wants a row; returns false if the lease is over.
    #[inline]
    pub(super) fn row_wanted(&self) -> bool {
        let until_ns = self.until_ns.load(Ordering::Acquire);
        if until_ns == Self::UNLIMITED {
            return true;
        }
        let now_ns = nanos(self.started.elapsed());
        self.row_wanted_ns.fetch_max(now_ns, Ordering::AcqRel);
        now_ns < until_ns
    }
}

fn nanos(since: Duration) -> u64 {
    u64::try_from(since.as_nanos()).unwrap_or(LeaseClock::UNLIMITED - 1)
}
