//! How often heartbeats go after a change.
//!
//! A member hears of what others did with its next heartbeat, and partitions that move stand still until their old owner and
//! their new one have both heard. One change seldom comes alone: the second round of a cooperative rebalance, partitions that
//! others still have to give back (KIP-848), the member that comes back after a bounce. So right after a change heartbeats go
//! more often, for a time that ends: a group in which nothing changes costs its coordinator what it always did.

use std::time::Duration;

use crate::Now;

/// Until when heartbeats go more often, and how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cadence {
    times: u32,
    until: Option<Now>,
}

impl Cadence {
    /// `times` in one interval; 0 counts as 1, as often as always.
    pub(crate) fn new(times: u32) -> Self {
        Self { times: times.max(1), until: None }
    }

    /// Something changed: what is shared out may change once more within this time.
    pub(crate) fn quicken(&mut self, time: Duration, now: Now) {
        self.until = self.until.max(Some(now + time));
    }

    /// From one heartbeat to the next.
    pub(crate) fn pause(&self, interval: Duration, now: Now) -> Duration {
        match self.until.is_some_and(|until| now < until) {
            true => interval / self.times,
            false => interval,
        }
    }
}
