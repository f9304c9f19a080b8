//! SyncGroup of a classic group: the leader sends all assignments, and each member receives its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::error_code::ErrorCode;

use super::{ClassicGroup, ClassicState, MemberIdentity, Timer};
use crate::groups::{Effects, SyncAnswer};
use crate::planted::{Bug, planted};
use crate::request::Ticket;

#[derive(Debug)]
pub(crate) struct Sync<'a> {
    pub(crate) ticket: Ticket,
    pub(crate) who: MemberIdentity<'a>,
    pub(crate) protocol_type: Option<&'a str>,
    pub(crate) protocol_name: Option<&'a str>,
    /// The assignments by member id; only the leader sends them.
    pub(crate) assignments: BTreeMap<&'a str, &'a [u8]>,
}

impl ClassicGroup {
    /// Handles a SyncGroup.
    pub(crate) fn sync(&mut self, now_ms: i64, sync: &Sync<'_>, effects: &mut Effects) {
        if let Err(error) = self.check_sync(sync) {
            return effects.sync(sync.ticket, SyncAnswer::refused(error));
        }
        let member_id = sync.who.member_id;
        match self.state {
            // Empty cannot occur: an empty group has no members, so the check has failed.
            ClassicState::Empty | ClassicState::PreparingRebalance => {
                effects.sync(sync.ticket, SyncAnswer::refused(ErrorCode::RebalanceInProgress));
            }
            ClassicState::CompletingRebalance => {
                self.await_sync(member_id, sync.ticket, effects);
                self.synced(member_id);
                if self.is_leader(member_id) {
                    self.assign(now_ms, &sync.assignments, effects);
                } else if planted(Bug::AnswerSyncEarly) {
                    effects.sync(sync.ticket, self.assignment_of(member_id));
                }
            }
            ClassicState::Stable => {
                self.synced(member_id);
                let answer = self.assignment_of(member_id);
                effects.sync(sync.ticket, answer);
            }
        }
    }

    fn check_sync(&self, sync: &Sync<'_>) -> Result<(), ErrorCode> {
        self.check_member(sync.who.member_id, sync.who.instance_id)?;
        if sync.who.generation_id != self.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |own: &Option<Arc<str>>, asked: Option<&str>| match (own, asked) {
            (Some(own), Some(asked)) => &**own != asked,
            _ => false,
        };
        if differs(&self.protocol_type, sync.protocol_type) || differs(&self.protocol_name, sync.protocol_name) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    /// Keeps a member's SyncGroup pending. An earlier one is answered REBALANCE_IN_PROGRESS: the client has abandoned
    /// it.
    fn await_sync(&mut self, member_id: &str, ticket: Ticket, effects: &mut Effects) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        if let Some(replaced) = member.syncing.replace(ticket) {
            effects.sync(replaced, SyncAnswer::refused(ErrorCode::RebalanceInProgress));
        }
    }

    fn synced(&mut self, member_id: &str) {
        self.unsynced.remove(member_id);
        if self.unsynced.is_empty() {
            self.cancel(&Timer::Sync);
        }
    }

    /// Stores the leader's assignment, then answers all pending SyncGroups.
    fn assign(&mut self, now_ms: i64, assignments: &BTreeMap<&str, &[u8]>, effects: &mut Effects) {
        for (id, member) in &mut self.members {
            let assigned = assignments.get(&**id).copied().unwrap_or_else(|| {
                log::warn!("group {}: the leader assigns nothing to member {id}", self.id);
                &[]
            });
            member.assignment = Bytes::copy_from_slice(assigned);
        }
        self.enter(ClassicState::Stable, now_ms);
        effects.store(self.record());
        let waiting: Vec<_> =
            self.members.iter_mut().filter_map(|(id, member)| Some((Arc::clone(id), member.syncing.take()?))).collect();
        for (id, ticket) in waiting {
            effects.sync(ticket, self.assignment_of(&id));
            self.renew_session(now_ms, &id);
        }
    }

    fn assignment_of(&self, member_id: &str) -> SyncAnswer {
        SyncAnswer {
            error: ErrorCode::None,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment: self.members.get(member_id).map(|member| member.assignment.clone()).unwrap_or_default(),
        }
    }
}
