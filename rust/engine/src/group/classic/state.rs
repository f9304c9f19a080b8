//! The states of a member, and which may follow which.

/// Where a member stands; the names are those of the Java consumer where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It subscribes to nothing.
    Unsubscribed,
    /// It wants to join: it looks for the coordinator, or waits before it tries again.
    Unjoined,
    /// JoinGroup is out. Under the cooperative protocol what it owns flows on.
    PreparingRebalance,
    /// SyncGroup is out, or the leader computes what goes into it.
    CompletingRebalance,
    /// It has its assignment and sends heartbeats.
    Stable,
    /// As Stable, but it gives up partitions: settling, committing, calling back. It joins again, or leaves, afterwards; where the
    /// assignor defers, it joins meanwhile if the group meets.
    Revoking,
    /// LeaveGroup is out.
    Leaving,
    /// It left because the user did not poll for `max.poll.interval.ms`; the next poll makes it join again.
    Stale,
    /// An error that no repetition mends.
    Fatal,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Unsubscribed,
        Self::Unjoined,
        Self::PreparingRebalance,
        Self::CompletingRebalance,
        Self::Stable,
        Self::Revoking,
        Self::Leaving,
        Self::Stale,
        Self::Fatal,
    ];

    /// The states that may come after this one. docs/design/groups.md has the same table, and a test holds one against the other.
    pub fn successors(self) -> &'static [Self] {
        match self {
            Self::Unsubscribed => &[Self::Unjoined],
            // It owns nothing, so there is nothing to revoke.
            Self::Unjoined => &[Self::PreparingRebalance, Self::Leaving, Self::Stale, Self::Fatal],
            Self::PreparingRebalance => &[
                Self::CompletingRebalance,
                Self::Unjoined,
                Self::Stable,
                Self::Revoking,
                Self::Leaving,
                Self::Stale,
                Self::Fatal,
            ],
            Self::CompletingRebalance => {
                &[Self::Stable, Self::Revoking, Self::Unjoined, Self::Leaving, Self::Stale, Self::Fatal]
            }
            Self::Stable => {
                &[Self::Revoking, Self::PreparingRebalance, Self::Unjoined, Self::Leaving, Self::Stale, Self::Fatal]
            }
            // To join while it gives up, where the assignor can deal with that.
            Self::Revoking => {
                &[Self::Stable, Self::PreparingRebalance, Self::Unjoined, Self::Leaving, Self::Stale, Self::Fatal]
            }
            Self::Leaving => &[Self::Unsubscribed],
            Self::Stale => &[Self::Unjoined, Self::Leaving, Self::Fatal],
            Self::Fatal => &[Self::Leaving, Self::Unsubscribed],
        }
    }

    /// Its name in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unsubscribed => "Unsubscribed",
            Self::Unjoined => "Unjoined",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
            Self::Revoking => "Revoking",
            Self::Leaving => "Leaving",
            Self::Stale => "Stale",
            Self::Fatal => "Fatal",
        }
    }
}
