//! The classic group: its members choose a protocol and one of them assigns; the coordinator only keeps the barriers.
//!
//! A pure machine, after Kafka's: what it is told in [`join`], [`sync`] and [`members`] moves it between the four states, and
//! [`rebalance`] has the steps from one to the next.

mod converted;
mod join;
mod member;
mod members;
#[cfg(test)]
mod model;
mod protocols;
mod rebalance;
mod stored;
mod sync;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::{Effects, JoinAnswer, SyncAnswer};
use crate::core::Ticket;

pub(crate) use converted::ConvertedMember;
pub(crate) use join::{Join, JoinRules};
pub(crate) use member::{Member, Protocol};
pub(crate) use members::{Identity, Leaver};
pub(crate) use sync::Sync;

/// Where a group stands.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ClassicState {
    /// No members. A group that only keeps offsets is empty, too.
    Empty,
    /// A rebalance waits for the members to join.
    PreparingRebalance,
    /// All have joined; the leader is assigning.
    CompletingRebalance,
    /// Every member has its assignment.
    Stable,
}

impl ClassicState {
    /// Kafka's name of it.
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

/// A group whose members assign among themselves.
#[derive(Clone, Debug)]
pub(crate) struct ClassicGroup {
    id: Arc<str>,
    state: ClassicState,
    /// Whether the rebalance that is being prepared is the first of a group that was empty, which waits for more members.
    initial: bool,
    /// When the group came into its state; unknown of one that was only made by a commit.
    state_since_ms: Option<i64>,
    generation_id: i32,
    /// What kind of group it is; `None` where it only keeps offsets.
    protocol_type: Option<Arc<str>>,
    protocol_name: Option<Arc<str>>,
    leader: Option<Arc<str>>,
    members: BTreeMap<Arc<str>, Member>,
    /// Static members by their instance id.
    instances: BTreeMap<Arc<str>, Arc<str>>,
    /// Ids that were handed out, and with which nobody has joined yet (KIP-394).
    pending: BTreeSet<Arc<str>>,
    /// Members whose SyncGroup of this generation has not come.
    unsynced: BTreeSet<Arc<str>>,
    /// How many members support each protocol.
    supported: BTreeMap<Arc<str>, usize>,
    /// How many members' joins wait.
    joining: usize,
    /// Whether someone joined since the initial delay was last looked at.
    member_added: bool,
    /// The topics that its members subscribe to; `None` where that cannot be read.
    subscribed: Option<BTreeSet<String>>,
    /// What is due when, and the same by what.
    timers: BTreeSet<(i64, Timer)>,
    due_ms: BTreeMap<Timer, i64>,
}

/// What a classic group waits for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Timer {
    /// A member is silent, or has not joined with the id that it was given.
    Session(Arc<str>),
    /// The rebalance waits no longer.
    Join,
    /// The first rebalance of a group waits no longer, or once more by the milliseconds that remain.
    FirstJoin { delay_ms: i64, remaining_ms: i64 },
    /// Members that have not synced are given up.
    Sync,
}

impl ClassicGroup {
    /// A group that has nothing yet.
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

    /// The protocol, while every member follows it.
    pub(crate) fn stable_protocol(&self) -> Option<&str> {
        self.protocol_name.as_deref().filter(|_| self.state == ClassicState::Stable)
    }

    /// By id.
    pub(crate) fn members(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Member)> {
        self.members.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state == ClassicState::Empty
    }

    /// Since when the group is empty, if it is and has been more than a place for offsets.
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

    /// The time of the joins that are waited for is over, whichever way it was measured.
    fn cancel_join(&mut self) {
        let joins: Vec<_> = self.due_ms.range(Timer::Join..Timer::Sync).map(|(timer, _)| timer.clone()).collect();
        for timer in joins {
            self.cancel(&timer);
        }
    }

    /// Answers all that wait with an error: another node coordinates the group from now on.
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

    /// Answers a join that waits. Whether there was one.
    fn answer_join(&mut self, member_id: &str, answer: JoinAnswer, effects: &mut Effects) -> bool {
        let Some(ticket) = self.members.get_mut(member_id).and_then(|member| member.joining.take()) else {
            return false;
        };
        self.joining -= 1;
        effects.join(ticket, answer);
        true
    }

    /// Lets a member's join wait. If one waits already, its client has given that up: whoever reads the answer is to ask again.
    fn await_join(&mut self, member_id: &str, ticket: Ticket, effects: &mut Effects) {
        let replaced = JoinAnswer::refused(ErrorCode::RebalanceInProgress, member_id.into());
        self.answer_join(member_id, replaced, effects);
        if let Some(member) = self.members.get_mut(member_id) {
            member.joining = Some(ticket);
            self.joining += 1;
        }
    }

    /// The generation as it is told to one of its members.
    fn generation_for(&self, member_id: &Arc<str>) -> JoinAnswer {
        let members = if self.is_leader(member_id) { self.joined_members() } else { Vec::new() };
        JoinAnswer {
            error: ErrorCode::None,
            generation_id: self.generation_id,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.clone().unwrap_or_else(|| "".into()),
            skip_assignment: false,
            member_id: Arc::clone(member_id),
            members,
        }
    }
}
