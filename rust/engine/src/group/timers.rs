//! The timers of a member, in one table.

use std::collections::BTreeMap;

use crate::Now;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The next heartbeat. Under KIP-848 it goes earlier when the member has a change to send.
    Heartbeat,
    /// KIP-848 only: no heartbeat at all before this time, after one that failed.
    HeartbeatBackoff,
    /// No heartbeat was answered for `session.timeout.ms`: the coordinator counts as dead.
    Session,
    /// The lease runs out.
    Lease,
    /// The user did not poll for `max.poll.interval.ms`.
    Poll,
    /// The next commit of what the user finished (`auto.commit.interval.ms`).
    AutoCommit,
    /// The next FindCoordinator.
    FindCoordinator,
    /// Classic only: the next JoinGroup or LeaveGroup.
    JoinGroup,
    /// Classic only: the rebalance that the user asked for at a later time.
    Rejoin,
    /// Classic only: what the leader's assignor deferred is due.
    Deferred,
    /// Classic only: the members should have asked for partitions that the leader kept back until their owners revoked them.
    KeptBack,
    /// KIP-848 only: the names of topic ids are asked for again.
    ResolveTopicIds,
    /// The next OffsetCommit.
    OffsetCommit,
    /// The first deadline of a waiting commit.
    CommitDeadline,
    /// The next OffsetFetch.
    OffsetFetch,
    /// The next OffsetFetch of partitions whose committed offset was refused.
    RefusedOffsets,
    /// A revocation waits no longer for its commit.
    Revocation,
    /// Closing ends in any case.
    Close,
}

/// When each timer is due.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers(BTreeMap<Timer, Now>);

impl Timers {
    pub(crate) fn set(&mut self, timer: Timer, at: Now) {
        self.0.insert(timer, at);
    }

    /// Sets it, or clears it if `at` is `None`.
    pub(crate) fn put(&mut self, timer: Timer, at: Option<Now>) {
        match at {
            Some(at) => self.set(timer, at),
            None => self.clear(timer),
        }
    }

    /// Sets it, unless it is due earlier already.
    pub(crate) fn bring_forward(&mut self, timer: Timer, at: Now) {
        let due = self.0.entry(timer).or_insert(at);
        *due = at.min(*due);
    }

    pub(crate) fn clear(&mut self, timer: Timer) {
        self.0.remove(&timer);
    }

    pub(crate) fn clear_all(&mut self) {
        self.0.clear();
    }

    pub(crate) fn at(&self, timer: Timer) -> Option<Now> {
        self.0.get(&timer).copied()
    }

    /// Whether it runs and is not due yet.
    pub(crate) fn waits(&self, timer: Timer, now: Now) -> bool {
        self.at(timer).is_some_and(|at| at > now)
    }

    /// When the first is due.
    pub(crate) fn first(&self) -> Option<Now> {
        self.0.values().min().copied()
    }

    /// Takes those that are due, each once, the earliest first.
    pub(crate) fn take_due(&mut self, now: Now) -> Vec<Timer> {
        let mut due: Vec<(Now, Timer)> =
            self.0.iter().filter(|(_, at)| **at <= now).map(|(timer, at)| (*at, *timer)).collect();
        due.sort();
        for (_, timer) in &due {
            self.0.remove(timer);
        }
        due.into_iter().map(|(_, timer)| timer).collect()
    }
}
