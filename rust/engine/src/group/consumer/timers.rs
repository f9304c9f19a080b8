//! What a member's timers are for.

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The next heartbeat, if nothing has to be said before.
    Heartbeat,
    /// No heartbeat at all before this.
    Backoff,
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
    /// The names of topics are asked for again.
    Resolve,
    /// The next attempt of the commit at hand.
    Commit,
    /// The first deadline of a commit that waits.
    CommitDeadline,
    /// The next lookup of committed offsets.
    Offsets,
    /// The next lookup of those that were refused.
    Refused,
    /// How long giving up partitions may wait for its commit.
    Revocation,
    /// When closing ends in any case.
    Close,
}

/// When each is due.
pub(super) type Timers = crate::group::Timers<Timer>;
