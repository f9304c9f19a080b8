//! The states of a member under either protocol.

mod classic;
mod consumer;
mod share;

pub use classic::ClassicState;
pub use consumer::ConsumerState;
pub use share::ShareState;

/// The protocol of a group (`group.protocol`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// The leader, one of the members, assigns.
    Classic,
    /// The coordinator assigns (KIP-848).
    Consumer,
}

/// The state of a member. Each protocol has its own states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// The state of a classic member.
    Classic(ClassicState),
    /// The state of a member under KIP-848.
    Consumer(ConsumerState),
}

impl MemberState {
    /// The initial state of a member.
    pub fn first(protocol: GroupProtocol) -> Self {
        match protocol {
            GroupProtocol::Classic => Self::Classic(ClassicState::Unsubscribed),
            GroupProtocol::Consumer => Self::Consumer(ConsumerState::Unsubscribed),
        }
    }

    /// The protocol that this state belongs to.
    pub fn protocol(self) -> GroupProtocol {
        match self {
            Self::Classic(_) => GroupProtocol::Classic,
            Self::Consumer(_) => GroupProtocol::Consumer,
        }
    }

    /// The name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic(state) => state.name(),
            Self::Consumer(state) => state.name(),
        }
    }

    /// Tells whether the member has no subscription.
    pub fn is_unsubscribed(self) -> bool {
        matches!(self, Self::Classic(ClassicState::Unsubscribed) | Self::Consumer(ConsumerState::Unsubscribed))
    }

    /// Tells whether the member left because the user did not poll.
    pub fn is_stale(self) -> bool {
        matches!(self, Self::Classic(ClassicState::Stale) | Self::Consumer(ConsumerState::Stale))
    }
}
