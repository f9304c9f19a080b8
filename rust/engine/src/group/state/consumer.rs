//! The states of a member under KIP-848, and which may follow which.

use crate::named::named;

named! {
    /// The state of a member. The names are those of Kafka's own consumer.
    pub enum ConsumerState {
        /// The member has no subscription.
        Unsubscribed,
        /// The member sends heartbeats with epoch 0 until one succeeds.
        Joining,
        /// The member has not reached its target assignment: it revokes partitions, or waits for topic names or for the
        /// user's callbacks.
        Reconciling,
        /// The member has reached its target as far as topic names are known. The next heartbeat, sent at once,
        /// acknowledges that.
        Acknowledging,
        /// The member has reached its target assignment and sends heartbeats.
        Stable,
        /// The member revokes its partitions before it leaves; heartbeats continue.
        PrepareLeaving,
        /// The heartbeat that leaves is about to be sent, or in flight.
        Leaving,
        /// The coordinator does not know the member any more, or not with this epoch. All partitions are lost; after
        /// the user's callback the member joins again.
        Fenced,
        /// The member left because the user did not poll for `max.poll.interval.ms`. It joins again at the next poll.
        Stale,
        /// An error that a retry cannot fix ended the membership.
        Fatal,
    }
}

impl ConsumerState {
    /// The states that may follow this one. docs/design/groups.md has the same table; a test compares the two.
    pub fn successors(self) -> &'static [Self] {
        match self {
            Self::Unsubscribed => &[Self::Joining],
            // Unsubscribed: the broker does not support KIP-848, and a classic member takes over.
            Self::Joining => {
                &[Self::Reconciling, Self::Stable, Self::PrepareLeaving, Self::Fenced, Self::Fatal, Self::Unsubscribed]
            }
            // Never Stable directly: a reached target has to be acknowledged first.
            Self::Reconciling => &[Self::Acknowledging, Self::PrepareLeaving, Self::Fenced, Self::Fatal],
            Self::Acknowledging => &[Self::Stable, Self::Reconciling, Self::PrepareLeaving, Self::Fenced, Self::Fatal],
            Self::Stable => &[Self::Reconciling, Self::PrepareLeaving, Self::Fenced, Self::Fatal],
            // Unsubscribed: a member that is fenced while it leaves has nothing to leave any more.
            Self::PrepareLeaving => &[Self::Leaving, Self::Unsubscribed],
            Self::Leaving => &[Self::Unsubscribed, Self::Stale],
            Self::Fenced => &[Self::Joining, Self::Unsubscribed],
            Self::Stale => &[Self::Joining, Self::Unsubscribed],
            Self::Fatal => &[Self::Unsubscribed],
        }
    }
}
