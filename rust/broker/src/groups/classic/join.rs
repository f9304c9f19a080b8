//! JoinGroup of a classic group: the checks, the new, known and static members, the rebalance that follows, and the
//! answers. `api/join_group.rs` refuses a session timeout that is out of bounds.

use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::error_code::ErrorCode;

use super::{ClassicGroup, ClassicMember, ClassicState, Protocol, Timer};
use crate::groups::{Effects, JoinAnswer, SyncAnswer};
use crate::request::Ticket;

/// From this version of JoinGroup on, a dynamic member without an id is assigned one, and must join again with it
/// (KIP-394).
const MEMBER_ID_REQUIRED_FROM: i16 = 4;
/// From this version of JoinGroup on, the answer to a static leader that is replaced says `skip_assignment` (KIP-814).
const SKIP_ASSIGNMENT_FROM: i16 = 9;
/// The time for which the JoinGroup of a new member is kept pending. A new member sends no heartbeats, so without a
/// limit a client that is gone would stay in the group for ever.
const NEW_MEMBER_TIMEOUT_MS: i64 = 5 * 60 * 1000;

#[derive(Copy, Clone, Debug)]
pub(crate) struct JoinRules {
    /// The time for which the first rebalance of a group waits for more members (`group.initial.rebalance.delay.ms`).
    pub(crate) initial_delay_ms: i32,
    pub(crate) max_size: usize,
}

#[derive(Debug)]
pub(crate) struct Join<'a> {
    pub(crate) ticket: Ticket,
    /// Empty if the client has none.
    pub(crate) member_id: &'a str,
    /// The id to assign if the client has none.
    pub(crate) new_member_id: Arc<str>,
    /// The id to assign instead if the group is a consumer group.
    pub(crate) new_consumer_member_id: Arc<str>,
    pub(crate) instance_id: Option<&'a str>,
    pub(crate) client_id: &'a str,
    pub(crate) client_host: Arc<str>,
    pub(crate) session_timeout_ms: i32,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) protocol_type: &'a str,
    pub(crate) protocols: Box<[Protocol]>,
    pub(crate) reason: &'a str,
    pub(crate) rules: JoinRules,
}

impl JoinRules {
    /// The rules of a rebalance that cannot be the group's first.
    pub(super) const NONE: Self = Self { initial_delay_ms: 0, max_size: usize::MAX };
}

impl Join<'_> {
    fn refuse(&self, error: ErrorCode, member_id: &str, effects: &mut Effects) {
        effects.join(self.ticket, JoinAnswer::refused(error, member_id.into()));
    }
}

impl ClassicGroup {
    /// Handles a JoinGroup, of a new member or of a known one.
    pub(crate) fn join(&mut self, now_ms: i64, join: Join<'_>, effects: &mut Effects) {
        if !self.accepts(&join) {
            // As in Kafka, a member that rejoins too late and finds the group full is removed.
            self.remove(join.member_id, effects);
            return join.refuse(ErrorCode::GroupMaxSizeReached, "", effects);
        }
        if !self.supports(join.protocol_type, &join.protocols) {
            return join.refuse(ErrorCode::InconsistentGroupProtocol, join.member_id, effects);
        }
        match join.member_id.is_empty() {
            true => self.join_new(now_ms, join, effects),
            false => self.join_existing(now_ms, join, effects),
        }
    }

    fn accepts(&self, join: &Join<'_>) -> bool {
        let member = self.members.get(join.member_id);
        match self.state {
            ClassicState::Empty => true,
            // The pending joins are counted, not the members: in a group that is too large, the last to join are
            // refused.
            ClassicState::PreparingRebalance => {
                member.is_some_and(|member| member.joining.is_some()) || self.joining < join.rules.max_size
            }
            ClassicState::CompletingRebalance | ClassicState::Stable => {
                member.is_some() || self.members.len() < join.rules.max_size
            }
        }
    }

    fn join_new(&mut self, now_ms: i64, join: Join<'_>, effects: &mut Effects) {
        if let Some(instance_id) = join.instance_id {
            return match self.instances.get(instance_id).cloned() {
                Some(old_id) => self.replace(now_ms, &old_id, join, effects),
                None => self.add_joining(now_ms, Arc::clone(&join.new_member_id), join, effects),
            };
        }
        let id = Arc::clone(&join.new_member_id);
        if join.ticket.version < MEMBER_ID_REQUIRED_FROM {
            return self.add_joining(now_ms, id, join, effects);
        }
        log::info!("group {}: a new member is to join with the id {id}", self.id);
        self.schedule(Timer::Session(Arc::clone(&id)), now_ms.saturating_add(join.session_timeout_ms.into()));
        self.pending.insert(Arc::clone(&id));
        join.refuse(ErrorCode::MemberIdRequired, &id, effects);
    }

    fn join_existing(&mut self, now_ms: i64, join: Join<'_>, effects: &mut Effects) {
        let member_id = join.member_id;
        if let Some(id) = self.pending.get(member_id).cloned() {
            if join.instance_id.is_some() {
                // As in Kafka: member ids are assigned only to dynamic members.
                return join.refuse(ErrorCode::UnknownServerError, "", effects);
            }
            return self.add_joining(now_ms, id, join, effects);
        }
        if let Err(error) = self.check_member(member_id, join.instance_id) {
            return join.refuse(error, member_id, effects);
        }
        let Some((id, member)) = self.members.get_key_value(member_id) else {
            return join.refuse(ErrorCode::UnknownMemberId, member_id, effects);
        };
        let (id, same) = (Arc::clone(id), member.protocols == join.protocols);
        let answer_only = match self.state {
            ClassicState::Empty => return join.refuse(ErrorCode::UnknownMemberId, member_id, effects),
            ClassicState::PreparingRebalance => false,
            // The member may have missed the answer to its previous join.
            ClassicState::CompletingRebalance => same,
            // A join of the leader forces a rebalance: what it assigns may have changed, such as a topic's partition
            // count.
            ClassicState::Stable => same && !self.is_leader(&id),
        };
        if answer_only {
            let answer = self.generation_for(&id);
            return effects.join(join.ticket, answer);
        }
        let reason = format!("member {id} joins again while {}; client reason: {}", self.state, join.reason);
        self.update(&id, &join);
        self.await_join(&id, join.ticket, effects);
        self.rebalance_or_complete(now_ms, join.rules, &reason, effects);
    }

    /// Adds a new member and keeps its join pending.
    fn add_joining(&mut self, now_ms: i64, id: Arc<str>, join: Join<'_>, effects: &mut Effects) {
        if self.state == ClassicState::PreparingRebalance && self.initial {
            self.member_added = true;
        }
        let member = ClassicMember {
            instance_id: join.instance_id.map(Into::into),
            client_id: join.client_id.into(),
            client_host: Arc::clone(&join.client_host),
            session_timeout_ms: join.session_timeout_ms,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            protocols: join.protocols,
            assignment: Bytes::new(),
            joining: None,
            syncing: None,
            is_new: true,
        };
        self.add(Arc::clone(&id), join.protocol_type, member);
        self.await_join(&id, join.ticket, effects);
        self.schedule(Timer::Session(Arc::clone(&id)), now_ms.saturating_add(NEW_MEMBER_TIMEOUT_MS));
        let reason = format!("member {id} joins; client reason: {}", join.reason);
        self.rebalance_or_complete(now_ms, join.rules, &reason, effects);
    }

    fn update(&mut self, id: &Arc<str>, join: &Join<'_>) {
        let Some(mut member) = self.members.remove(id) else { return };
        self.uncount_protocols(&member.protocols);
        member.protocols = join.protocols.clone();
        self.count_protocols(&mut member.protocols);
        member.rebalance_timeout_ms = join.rebalance_timeout_ms;
        member.session_timeout_ms = join.session_timeout_ms;
        self.members.insert(Arc::clone(id), member);
    }

    /// Handles the join of a static member that came back without its member id (KIP-345): it gets a new id and takes
    /// over the state of the old one.
    fn replace(&mut self, now_ms: i64, old_id: &str, join: Join<'_>, effects: &mut Effects) {
        let new_id = Arc::clone(&join.new_member_id);
        let old_leader = self.leader.clone();
        log::info!("group {}: static member {old_id} is replaced by {new_id}", self.id);
        self.fence(old_id, effects);
        let Some(member) = self.members.remove(old_id) else { return };
        self.cancel(&Timer::Session(old_id.into()));
        self.unsynced.remove(old_id);
        if let Some(instance_id) = &member.instance_id {
            self.instances.insert(Arc::clone(instance_id), Arc::clone(&new_id));
        }
        if self.is_leader(old_id) {
            self.leader = Some(Arc::clone(&new_id));
        }
        let session_ms = i64::from(member.session_timeout_ms);
        self.members.insert(Arc::clone(&new_id), ClassicMember { is_new: false, ..member });
        self.schedule(Timer::Session(Arc::clone(&new_id)), now_ms.saturating_add(session_ms));
        self.update(&new_id, &join);
        self.await_join(&new_id, join.ticket, effects);
        match self.state {
            ClassicState::Stable if self.select_protocol() == self.protocol_name => {
                effects.store(self.record());
                let answer = self.answer_replaced(&new_id, old_leader, join.ticket.version);
                self.answer_join(&new_id, answer, effects);
            }
            ClassicState::Stable => {
                let reason = format!("static member {new_id} changes the protocol; client reason: {}", join.reason);
                self.rebalance_or_complete(now_ms, join.rules, &reason, effects);
            }
            // The leader may already have received the old id, and would assign partitions to it.
            ClassicState::CompletingRebalance => {
                let reason = format!("static member {new_id} is back; client reason: {}", join.reason);
                self.prepare_rebalance(now_ms, join.rules, &reason, effects);
            }
            ClassicState::PreparingRebalance | ClassicState::Empty => self.maybe_complete_join(now_ms, effects),
        }
    }

    /// The answer to a static member that is replaced without a rebalance. Before KIP-814 the answer named the leader's
    /// old member id, so that a replaced leader took itself for a follower and did not assign.
    fn answer_replaced(&self, new_id: &Arc<str>, old_leader: Option<Arc<str>>, version: i16) -> JoinAnswer {
        let answer = self.generation_for(new_id);
        if version >= SKIP_ASSIGNMENT_FROM {
            return JoinAnswer { skip_assignment: self.is_leader(new_id), ..answer };
        }
        JoinAnswer { leader: old_leader.unwrap_or_else(|| "".into()), members: Vec::new(), ..answer }
    }

    /// Answers the pending requests of a static member's old id with FENCED_INSTANCE_ID.
    fn fence(&mut self, old_id: &str, effects: &mut Effects) {
        self.answer_join(old_id, JoinAnswer::refused(ErrorCode::FencedInstanceId, old_id.into()), effects);
        if let Some(ticket) = self.members.get_mut(old_id).and_then(|member| member.syncing.take()) {
            effects.sync(ticket, SyncAnswer::refused(ErrorCode::FencedInstanceId));
        }
    }

    /// Answers a member's pending JoinGroup. Returns whether there was one.
    pub(super) fn answer_join(&mut self, member_id: &str, answer: JoinAnswer, effects: &mut Effects) -> bool {
        let Some(ticket) = self.members.get_mut(member_id).and_then(|member| member.joining.take()) else {
            return false;
        };
        self.joining -= 1;
        effects.join(ticket, answer);
        true
    }

    /// Keeps a member's JoinGroup pending. An earlier one is answered REBALANCE_IN_PROGRESS: the client has abandoned
    /// it.
    fn await_join(&mut self, member_id: &str, ticket: Ticket, effects: &mut Effects) {
        let replaced = JoinAnswer::refused(ErrorCode::RebalanceInProgress, member_id.into());
        self.answer_join(member_id, replaced, effects);
        if let Some(member) = self.members.get_mut(member_id) {
            member.joining = Some(ticket);
            self.joining += 1;
        }
    }

    /// The JoinGroup answer with the current generation, for one of its members.
    pub(super) fn generation_for(&self, member_id: &Arc<str>) -> JoinAnswer {
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
