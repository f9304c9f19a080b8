//! The states of a classic member, and which may follow which.

use crate::named::named;

named! {
    /// The state of a classic member. The names are those of the Java consumer where it has such a state.
    pub enum ClassicState {
        /// The member has no subscription.
        Unsubscribed,
        /// The member is about to join: it looks for the coordinator, or waits for a backoff.
        Unjoined,
        /// JoinGroup is in flight. Under the cooperative protocol, owned partitions are read meanwhile.
        PreparingRebalance,
        /// SyncGroup is in flight, or the leader computes the assignments that go into it.
        CompletingRebalance,
        /// The member has its assignment and sends heartbeats.
        Stable,
        /// As Stable, but partitions are being revoked: the user finishes, offsets are committed, callbacks run.
        /// Afterwards the member joins again, or leaves. If the assignor defers, it joins before that when the group
        /// rebalances.
        Revoking,
        /// The member leaves: LeaveGroup is in flight, or waits for the coordinator or a backoff.
        Leaving,
        /// The member left because the user did not poll for `max.poll.interval.ms`. It joins again at the next poll.
        Stale,
        /// An error that a retry cannot fix ended the membership.
        Fatal,
    }
}

impl ClassicState {
    /// The states that may follow this one. docs/design/groups.md has the same table; a test compares the two.
    pub fn successors(self) -> &'static [Self] {
        match self {
            Self::Unsubscribed => &[Self::Unjoined],
            // The member owns nothing, so there is nothing to revoke.
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
            // PreparingRebalance: with an assignor that defers, the member joins during a revocation.
            Self::Revoking => {
                &[Self::Stable, Self::PreparingRebalance, Self::Unjoined, Self::Leaving, Self::Stale, Self::Fatal]
            }
            Self::Leaving => &[Self::Unsubscribed],
            Self::Stale => &[Self::Unjoined, Self::Leaving, Self::Fatal],
            Self::Fatal => &[Self::Leaving, Self::Unsubscribed],
        }
    }
}
