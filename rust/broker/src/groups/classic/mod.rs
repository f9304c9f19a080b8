//! The classic group: the members agree on a protocol, and the group leader, one of them, computes the assignment. The
//! coordinator only synchronises them.
//!
//! A classic group is a pure state machine that follows Kafka's. Its inputs are in [`join`], [`sync`], [`heartbeat`],
//! [`leave`] and [`commits`]; [`rebalance`] has the transitions between the four states, [`timers`] what happens
//! without a request.

mod commits;
mod converted;
mod heartbeat;
mod join;
mod leave;
mod member;
mod members;
#[cfg(test)]
mod model;
mod protocols;
mod rebalance;
mod stored;
mod sync;
mod timers;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::{Effects, JoinAnswer, SyncAnswer};

pub(crate) use converted::ConvertedMember;
pub(crate) use join::{Join, JoinRules};
pub(crate) use leave::Leaver;
pub(crate) use member::{ClassicMember, Protocol};
pub(crate) use members::MemberIdentity;
pub(crate) use sync::Sync;

/// The state of a classic group.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ClassicState {
    /// The group has no members. A group that only stores offsets is empty, too.
    Empty,
    /// A rebalance has begun, and the coordinator waits for the members to join.
    PreparingRebalance,
    /// All members have joined, and the coordinator waits for the leader's assignment.
    CompletingRebalance,
    /// Every member has its assignment.
    Stable,
}

impl ClassicState {
    /// Kafka's name of the state.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

impl fmt::Display for ClassicState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A group of the classic protocol.
#[derive(Clone, Debug)]
pub(crate) struct ClassicGroup {
    id: Arc<str>,
    state: ClassicState,
    /// True if the rebalance that is being prepared is the first of a group that was empty. It waits for more members,
    /// for `group.initial.rebalance.delay.ms`.
    initial: bool,
    /// The time at which the group entered its state; `None` for a group that a commit created.
    state_since_ms: Option<i64>,
    generation_id: i32,
    /// The protocol type of the members; `None` for a group that only stores offsets.
    protocol_type: Option<Arc<str>>,
    protocol_name: Option<Arc<str>>,
    leader: Option<Arc<str>>,
    members: BTreeMap<Arc<str>, ClassicMember>,
    /// The member ids of static members, by instance id.
    instances: BTreeMap<Arc<str>, Arc<str>>,
    /// Member ids that were assigned with MEMBER_ID_REQUIRED, and have not been used to join yet (KIP-394).
    pending: BTreeSet<Arc<str>>,
    /// Members that have not sent a SyncGroup in this generation.
    unsynced: BTreeSet<Arc<str>>,
    /// The number of members that support each protocol.
    supported: BTreeMap<Arc<str>, usize>,
    /// The number of members with a pending JoinGroup.
    joining: usize,
    /// True if a member joined since the initial delay was last started.
    member_added: bool,
    /// The topics that the members subscribe to; `None` if the subscriptions cannot be read.
    subscribed: Option<BTreeSet<String>>,
    /// The running timers by deadline; `due_ms` has the same ones by timer.
    timers: BTreeSet<(i64, Timer)>,
    due_ms: BTreeMap<Timer, i64>,
}

/// A timer of a classic group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Timer {
    /// The session of a member, or the time to join with an assigned member id.
    Session(Arc<str>),
    /// The time for members to join in a rebalance.
    Join,
    /// The initial delay of a group's first rebalance. If members joined during `delay_ms`, it is extended, by at most
    /// `remaining_ms` in total.
    FirstJoin { delay_ms: i64, remaining_ms: i64 },
    /// The time for members to send a SyncGroup.
    Sync,
}

impl ClassicGroup {
    pub(crate) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            state: ClassicState::Empty,
            initial: false,
            state_since_ms: None,
            generation_id: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            pending: BTreeSet::new(),
            unsynced: BTreeSet::new(),
            supported: BTreeMap::new(),
            joining: 0,
            member_added: false,
            subscribed: None,
            timers: BTreeSet::new(),
            due_ms: BTreeMap::new(),
        }
    }

    pub(crate) fn state(&self) -> ClassicState {
        self.state
    }

    pub(crate) fn generation_id(&self) -> i32 {
        self.generation_id
    }

    pub(crate) fn protocol_type(&self) -> Option<&Arc<str>> {
        self.protocol_type.as_ref()
    }

    pub(crate) fn protocol_name(&self) -> Option<&Arc<str>> {
        self.protocol_name.as_ref()
    }

    /// The protocol, if the group is stable.
    pub(crate) fn stable_protocol(&self) -> Option<&str> {
        self.protocol_name.as_deref().filter(|_| self.state == ClassicState::Stable)
    }

    /// The members by id.
    pub(crate) fn members(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &ClassicMember)> {
        self.members.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state == ClassicState::Empty
    }

    /// The time at which the group entered its state; `None` for a group that a commit created.
    pub(crate) fn state_since_ms(&self) -> Option<i64> {
        self.state_since_ms
    }

    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        self.timers.first().map(|(due_ms, _)| *due_ms)
    }

    fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    fn enter(&mut self, state: ClassicState, now_ms: i64) {
        log::debug!("group {}, generation {}: {} -> {state}", self.id, self.generation_id, self.state);
        self.initial = state == ClassicState::PreparingRebalance && self.state == ClassicState::Empty;
        self.state = state;
        self.state_since_ms = Some(now_ms);
    }

    fn schedule(&mut self, timer: Timer, at_ms: i64) {
        self.cancel(&timer);
        self.timers.insert((at_ms, timer.clone()));
        self.due_ms.insert(timer, at_ms);
    }

    fn cancel(&mut self, timer: &Timer) {
        if let Some((timer, at_ms)) = self.due_ms.remove_entry(timer) {
            self.timers.remove(&(at_ms, timer));
        }
    }

    /// Cancels the join timer, that of the first rebalance or that of a later one.
    fn cancel_join(&mut self) {
        let joins: Vec<_> = self.due_ms.range(Timer::Join..Timer::Sync).map(|(timer, _)| timer.clone()).collect();
        for timer in joins {
            self.cancel(&timer);
        }
    }

    /// Answers all pending requests with an error, because this coordinator drops the group.
    pub(crate) fn abandon(&mut self, error: ErrorCode, effects: &mut Effects) {
        for (id, member) in &mut self.members {
            if let Some(ticket) = member.joining.take() {
                effects.join(ticket, JoinAnswer::refused(error, Arc::clone(id)));
            }
            if let Some(ticket) = member.syncing.take() {
                effects.sync(ticket, SyncAnswer::refused(error));
            }
        }
        self.joining = 0;
    }
}
