//! The timers of a member, in one table.

use std::collections::BTreeMap;

use crate::Now;

/// A timer, named after what happens when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The next heartbeat. Under KIP-848 a heartbeat is sent earlier when the member has a change to send.
    Heartbeat,
    /// KIP-848 only: the backoff after a failed heartbeat; none is sent before.
    HeartbeatBackoff,
    /// No heartbeat was answered for `session.timeout.ms`: the coordinator counts as dead.
    Session,
    /// The lease runs out.
    Lease,
    /// The user did not poll for `max.poll.interval.ms`.
    Poll,
    /// The next automatic commit of finished offsets (`auto.commit.interval.ms`).
    AutoCommit,
    /// The next FindCoordinator.
    FindCoordinator,
    /// Classic only: the next JoinGroup or LeaveGroup.
    JoinGroup,
    /// Classic only: the rebalance that the user requested for a later time.
    Rejoin,
    /// Classic only: the rebalance for what the leader's assignor deferred.
    Deferred,
    /// Classic only: the leader kept partitions back until their owners revoke them, and by now these should have
    /// joined again to get them assigned.
    KeptBack,
    /// Classic only: the next request for metadata of assigned topics that are not known yet.
    RefreshMetadata,
    /// KIP-848 only: the next request for the names of topic ids.
    ResolveTopicIds,
    /// The next OffsetCommit.
    OffsetCommit,
    /// The first deadline of a waiting commit.
    CommitDeadline,
    /// The next OffsetFetch.
    OffsetFetch,
    /// The next OffsetFetch of partitions for which the coordinator answered with an error.
    RefusedOffsets,
    /// A revocation stops waiting for commits.
    Revocation,
    /// The deadline of unsubscribing, closing or leaving.
    Close,
}

/// The running timers of a member, with the time when each is due.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers(BTreeMap<Timer, Now>);

impl Timers {
    pub(crate) fn set(&mut self, timer: Timer, at: Now) {
        self.0.insert(timer, at);
    }

    /// Sets the timer, or clears it if `at` is `None`.
    pub(crate) fn put(&mut self, timer: Timer, at: Option<Now>) {
        match at {
            Some(at) => self.set(timer, at),
            None => self.clear(timer),
        }
    }

    /// Sets the timer, unless it is already due earlier.
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

    /// Tells whether the timer runs and is not due yet.
    pub(crate) fn waits(&self, timer: Timer, now: Now) -> bool {
        self.at(timer).is_some_and(|at| at > now)
    }

    /// The time when the earliest timer is due.
    pub(crate) fn first(&self) -> Option<Now> {
        self.0.values().min().copied()
    }

    /// Removes and returns the timers that are due, the earliest first.
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
