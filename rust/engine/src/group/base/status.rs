//! The status of a member: everything that users and metrics may see of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::types::Uuid;

use crate::assign::Protocol;
use crate::group::error::GroupError;
use crate::group::messages::Subscription;
use crate::group::state::MemberState;
use crate::{Now, TopicPartition};

/// Partitions that are reserved for members that were lost in one rebalance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The partitions.
    pub partitions: BTreeSet<TopicPartition>,
    /// The number of these members that have not come back yet.
    pub members: usize,
    /// Their static ids, or else member ids; empty if the leader did not send them.
    pub names: BTreeSet<Arc<str>>,
    /// The end of the reservation.
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
    /// Set if the member is the leader; never under KIP-848.
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
    /// The time when the last acknowledged heartbeat was sent.
    pub last_heartbeat: Option<Now>,
    /// Until when records may be handed out.
    pub lease_until: Option<Now>,
    /// The end of the last rebalance; under KIP-848, the time when the member last reached its target assignment.
    pub last_rebalance: Option<Now>,
    /// The reason for that rebalance; `None` under KIP-848, where it is not known.
    pub last_rebalance_reason: Option<String>,
    /// The error that ended the membership.
    pub fatal: Option<GroupError>,
    /// Commits that wait or are in flight.
    pub pending_commits: usize,
    /// The time when the group rebalances again for what the assignor deferred.
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
