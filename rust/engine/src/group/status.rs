//! The status of a member: its protocol, state, and everything that users and metrics may see of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::types::Uuid;

use super::error::GroupError;
use super::input::Subscription;
use super::{classic, consumer};
use crate::assign::Protocol;
use crate::{Now, TopicPartition};

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
    Classic(classic::ClassicState),
    /// The state of a member under KIP-848.
    Consumer(consumer::ConsumerState),
}

impl From<classic::ClassicState> for MemberState {
    fn from(state: classic::ClassicState) -> Self {
        Self::Classic(state)
    }
}

impl From<consumer::ConsumerState> for MemberState {
    fn from(state: consumer::ConsumerState) -> Self {
        Self::Consumer(state)
    }
}

impl MemberState {
    /// The initial state of a member.
    pub fn first(protocol: GroupProtocol) -> Self {
        match protocol {
            GroupProtocol::Classic => Self::Classic(classic::ClassicState::Unsubscribed),
            GroupProtocol::Consumer => Self::Consumer(consumer::ConsumerState::Unsubscribed),
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

    /// Whether `next` may follow this state.
    pub fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Classic(from), Self::Classic(to)) => from.successors().contains(&to),
            (Self::Consumer(from), Self::Consumer(to)) => from.successors().contains(&to),
            _ => false,
        }
    }

    /// Whether the member has no subscription.
    pub fn is_unsubscribed(self) -> bool {
        matches!(
            self,
            Self::Classic(classic::ClassicState::Unsubscribed) | Self::Consumer(consumer::ConsumerState::Unsubscribed)
        )
    }

    /// Whether the member left because the user did not poll.
    pub fn is_stale(self) -> bool {
        matches!(self, Self::Classic(classic::ClassicState::Stale) | Self::Consumer(consumer::ConsumerState::Stale))
    }
}

/// Partitions that are reserved for members that were lost in one rebalance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The partitions.
    pub partitions: BTreeSet<TopicPartition>,
    /// How many of these members have not come back yet.
    pub members: usize,
    /// Their static ids, or else member ids; empty if the leader did not send them.
    pub names: BTreeSet<Arc<str>>,
    /// When the reservation ends.
    pub until: Now,
}

/// A snapshot of a membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The state.
    pub state: MemberState,
    /// The coordinator's node id.
    pub coordinator: Option<i32>,
    /// The member's id; empty before a classic member has one.
    pub member_id: String,
    /// The generation, or the member epoch under KIP-848; -1 outside of the group.
    pub generation: i32,
    /// Whether the member is the leader; always false under KIP-848.
    pub leader: bool,
    /// The assignor that the group chose; under KIP-848 the one that this member requests.
    pub assignor: Option<String>,
    /// The rebalance protocol, eager or cooperative; always cooperative under KIP-848.
    pub protocol: Protocol,
    /// The subscription.
    pub subscription: Option<Subscription>,
    /// The owned partitions.
    pub owned: BTreeSet<TopicPartition>,
    /// Topics of the target assignment whose names are not known yet; always empty under the classic protocol.
    pub unresolved: BTreeSet<Uuid>,
    /// The heartbeat interval: `heartbeat.interval.ms`; under KIP-848 the one that the coordinator last sent.
    pub heartbeat_interval: Duration,
    /// When the last acknowledged heartbeat was sent.
    pub last_heartbeat: Option<Now>,
    /// Until when records may be handed out.
    pub lease_until: Option<Now>,
    /// When the last rebalance ended; under KIP-848, when the member last reached its target assignment.
    pub last_rebalance: Option<Now>,
    /// The reason for that rebalance; `None` under KIP-848, where it is not known.
    pub last_rebalance_reason: Option<String>,
    /// The error that ended the membership.
    pub fatal: Option<GroupError>,
    /// Commits that wait or are in flight.
    pub pending_commits: usize,
    /// When the group rebalances again for what the assignor deferred.
    pub deferred_until: Option<Now>,
    /// Partitions that are reserved for lost members.
    pub reserved: Vec<Reserved>,
}

impl Status {
    /// The subscribed topics; if the broker evaluates a pattern, the topics of the owned partitions.
    pub fn topics(&self) -> BTreeSet<Arc<str>> {
        match &self.subscription {
            Some(Subscription::Topics(topics) | Subscription::Matched(topics)) => topics.clone(),
            Some(Subscription::Regex(_)) => self.owned.iter().map(|partition| partition.topic.clone()).collect(),
            None => BTreeSet::new(),
        }
    }
}
