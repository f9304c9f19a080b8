//! The states of a member of a share group, and which may follow which.

use crate::named::named;

named! {
    /// The state of a member of a share group.
    pub enum ShareState {
        /// The member has no subscription.
        Unsubscribed,
        /// The member sends heartbeats with epoch 0 until one succeeds.
        Joining,
        /// The member is in the group and sends heartbeats.
        Stable,
        /// The heartbeat that leaves is about to be sent, or in flight.
        Leaving,
        /// An error that a retry cannot fix ended the membership.
        Fatal,
    }
}

impl ShareState {
    /// The states that may follow this one. docs/design/groups.md has the same table; a test compares the two.
    pub fn successors(self) -> &'static [Self] {
        match self {
            Self::Unsubscribed => &[Self::Joining],
            Self::Joining => &[Self::Stable, Self::Leaving, Self::Fatal, Self::Unsubscribed],
            // Joining: the coordinator does not know the member any more, or not with this epoch.
            Self::Stable => &[Self::Joining, Self::Leaving, Self::Fatal],
            Self::Leaving => &[Self::Unsubscribed],
            Self::Fatal => &[Self::Unsubscribed],
        }
    }
}
