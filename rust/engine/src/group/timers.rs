//! All timers of a member in one table.

use std::collections::BTreeMap;

use crate::Now;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The next heartbeat.
    Heartbeat,
    /// No heartbeat was answered for the session's time: the coordinator counts as dead.
    Session,
    /// The lease runs out.
    Lease,
    /// The user did not poll for `max.poll.interval.ms`.
    Poll,
    /// The next commit of what the user finished.
    AutoCommit,
    /// The next attempt to find the coordinator.
    Find,
    /// The next attempt to join.
    Join,
    /// A join at a time that was asked for.
    Rejoin,
    /// What the leader left for later is due.
    Deferred,
    /// Partitions that the leader kept back until their owners had given them up should have been asked for.
    KeptBack,
    /// The next attempt of the commit at hand.
    Commit,
    /// The first deadline of a commit that waits.
    CommitDeadline,
    /// The next lookup of committed offsets.
    Offsets,
    /// How long giving up partitions may wait for its commit.
    Revocation,
    /// When closing ends in any case.
    Close,
}

/// When each is due.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers(BTreeMap<Timer, Now>);

impl Timers {
    pub(super) fn set(&mut self, timer: Timer, at: Now) {
        self.0.insert(timer, at);
    }

    pub(super) fn clear(&mut self, timer: Timer) {
        self.0.remove(&timer);
    }

    pub(super) fn clear_all(&mut self) {
        self.0.clear();
    }

    pub(super) fn at(&self, timer: Timer) -> Option<Now> {
        self.0.get(&timer).copied()
    }

    /// Whether it runs and is not due yet.
    pub(super) fn waits(&self, timer: Timer, now: Now) -> bool {
        self.at(timer).is_some_and(|at| at > now)
    }

    /// When the first is due.
    pub(super) fn first(&self) -> Option<Now> {
        self.0.values().min().copied()
    }

    /// Takes those that are due, each once, the earliest first.
    pub(super) fn take_due(&mut self, now: Now) -> Vec<Timer> {
        let mut due: Vec<(Now, Timer)> =
            self.0.iter().filter(|(_, at)| **at <= now).map(|(timer, at)| (*at, *timer)).collect();
        due.sort();
        for (_, timer) in &due {
            self.0.remove(timer);
        }
        due.into_iter().map(|(_, timer)| timer).collect()
    }
}
