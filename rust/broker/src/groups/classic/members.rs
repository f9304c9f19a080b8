//! The members of a classic group: adding and removing them, Heartbeat, LeaveGroup and the check of commits.

use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::{ClassicGroup, ClassicState, JoinRules, Member, Timer};
use crate::groups::{Effects, JoinAnswer, SyncAnswer};

/// The member that a request names as its sender.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Identity<'a> {
    pub(crate) member_id: &'a str,
    pub(crate) instance_id: Option<&'a str>,
    /// The generation id (classic) or the member epoch (KIP-848); -1 from a client that is not a member.
    pub(crate) generation_id: i32,
}

/// A member that a LeaveGroup names.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Leaver<'a> {
    /// May be empty for a static member.
    pub(crate) member_id: &'a str,
    pub(crate) instance_id: Option<&'a str>,
    pub(crate) reason: &'a str,
}

impl ClassicGroup {
    /// Checks that a request is from a member of the group.
    pub(super) fn check_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            let existing = self.instances.get(instance_id).ok_or(ErrorCode::UnknownMemberId)?;
            if &**existing != member_id {
                return Err(ErrorCode::FencedInstanceId);
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    pub(super) fn add(&mut self, id: Arc<str>, protocol_type: &str, mut member: Member) {
        self.pending.remove(&id);
        if let Some(instance_id) = &member.instance_id {
            self.instances.insert(Arc::clone(instance_id), Arc::clone(&id));
        }
        if self.members.is_empty() {
            self.protocol_type = Some(protocol_type.into());
        }
        if self.leader.is_none() {
            self.leader = Some(Arc::clone(&id));
        }
        self.count_protocols(&mut member.protocols);
        self.members.insert(id, member);
    }

    /// Removes a member, or a member id that was assigned. Its pending requests are answered UNKNOWN_MEMBER_ID, so that
    /// a client that still runs joins again.
    pub(super) fn remove(&mut self, id: &str, effects: &mut Effects) {
        self.answer_join(id, JoinAnswer::refused(ErrorCode::UnknownMemberId, "".into()), effects);
        self.cancel(&Timer::Session(id.into()));
        self.pending.remove(id);
        self.unsynced.remove(id);
        let Some(member) = self.members.remove(id) else { return };
        if let Some(ticket) = member.syncing {
            effects.sync(ticket, SyncAnswer::refused(ErrorCode::UnknownMemberId));
        }
        self.uncount_protocols(&member.protocols);
        if let Some(instance_id) = &member.instance_id {
            self.instances.remove(instance_id);
        }
        if self.is_leader(id) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    /// Restarts the session timer of a member.
    pub(super) fn renew_session(&mut self, now_ms: i64, member_id: &str) {
        if let Some((id, member)) = self.members.get_key_value(member_id) {
            let at_ms = now_ms.saturating_add(member.session_timeout_ms.into());
            self.schedule(Timer::Session(Arc::clone(id)), at_ms);
        }
    }

    /// Handles a Heartbeat.
    ///
    /// # Errors
    /// REBALANCE_IN_PROGRESS if the member must join again; UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    pub(crate) fn heartbeat(&mut self, now_ms: i64, who: Identity<'_>) -> Result<(), ErrorCode> {
        self.check_member(who.member_id, who.instance_id)?;
        if who.generation_id != self.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        self.renew_session(now_ms, who.member_id);
        match self.state {
            ClassicState::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    /// Handles a LeaveGroup, from members or from an administrator. Returns the outcome of each, in order.
    pub(crate) fn leave(
        &mut self,
        now_ms: i64,
        leavers: &[Leaver<'_>],
        effects: &mut Effects,
    ) -> Vec<Result<(), ErrorCode>> {
        let outcomes: Vec<_> = leavers.iter().map(|leaver| self.leave_one(leaver, effects)).collect();
        if outcomes.iter().any(Result::is_ok) {
            match self.state {
                ClassicState::Stable | ClassicState::CompletingRebalance => {
                    self.prepare_rebalance(now_ms, JoinRules::NONE, "members have left", effects);
                }
                ClassicState::PreparingRebalance => self.maybe_complete_join(now_ms, effects),
                ClassicState::Empty => {}
            }
        }
        outcomes
    }

    fn leave_one(&mut self, leaver: &Leaver<'_>, effects: &mut Effects) -> Result<(), ErrorCode> {
        let id: Arc<str> = if leaver.member_id.is_empty() {
            let instance = leaver.instance_id.and_then(|instance_id| self.instances.get(instance_id));
            Arc::clone(instance.ok_or(ErrorCode::UnknownMemberId)?)
        } else {
            if !self.pending.contains(leaver.member_id) {
                self.check_member(leaver.member_id, leaver.instance_id)?;
            }
            leaver.member_id.into()
        };
        log::info!("group {}: member {id} leaves; client reason: {}", self.id, leaver.reason);
        self.remove(&id, effects);
        Ok(())
    }

    /// Checks whether the client may commit offsets. A commit renews the member's session, as a heartbeat does.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS.
    pub(crate) fn check_commit(
        &mut self,
        now_ms: i64,
        who: Identity<'_>,
        in_transaction: bool,
    ) -> Result<(), ErrorCode> {
        if who.generation_id < 0 && self.is_empty() {
            return Ok(());
        }
        if who.generation_id >= 0 || !who.member_id.is_empty() || who.instance_id.is_some() {
            self.check_member(who.member_id, who.instance_id)?;
            if who.generation_id != self.generation_id {
                return Err(ErrorCode::IllegalGeneration);
            }
        } else if !in_transaction && !self.is_empty() {
            return Err(ErrorCode::UnknownMemberId);
        }
        if in_transaction {
            return Ok(());
        }
        match self.state {
            // The leader is computing the assignment: the partition may soon belong to another member.
            ClassicState::CompletingRebalance => Err(ErrorCode::RebalanceInProgress),
            _ => {
                self.renew_session(now_ms, who.member_id);
                Ok(())
            }
        }
    }
}

impl JoinRules {
    /// The rules of a rebalance that cannot be the group's first.
    pub(super) const NONE: Self = Self { initial_delay_ms: 0, max_size: usize::MAX };
}
