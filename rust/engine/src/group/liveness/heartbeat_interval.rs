//! The pause between heartbeats, which is shorter for a while after a change.
//!
//! A member learns of the others' steps with its next heartbeat, and partitions that move are not read until both their
//! old and their new owner have learned of it. One change is often followed by another: the second round of a
//! cooperative rebalance, partitions that others still have to revoke (KIP-848), a member that returns after a restart.
//! So heartbeats are more frequent for a limited time after a change. A group in which nothing changes causes no
//! additional load on its coordinator.

use std::time::Duration;

use crate::Now;
use crate::group::messages::CallId;

/// The heartbeat in flight, and when the next one follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeats {
    pub(crate) in_flight: Option<CallId>,
    /// The number of heartbeats that failed in a row.
    pub(crate) attempts: u32,
    pub(crate) cadence: Cadence,
}

impl Heartbeats {
    /// `times`: see [`Cadence::new`].
    pub(crate) fn new(times: u32) -> Self {
        Self { in_flight: None, attempts: 0, cadence: Cadence::new(times) }
    }
}

/// The heartbeat frequency: how many heartbeats per interval, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cadence {
    times: u32,
    until: Option<Now>,
}

impl Cadence {
    /// `times`: how many heartbeats go in one interval after a change; 0 counts as 1, which is the normal frequency.
    pub(crate) fn new(times: u32) -> Self {
        Self { times: times.max(1), until: None }
    }

    /// Something changed, and the assignment may change again within `time`: heartbeats are more frequent until then.
    pub(crate) fn quicken(&mut self, time: Duration, now: Now) {
        self.until = self.until.max(Some(now + time));
    }

    /// The pause between one heartbeat and the next.
    pub(crate) fn pause(&self, interval: Duration, now: Now) -> Duration {
        match self.until.is_some_and(|until| now < until) {
            true => interval / self.times,
            false => interval,
        }
    }
}
