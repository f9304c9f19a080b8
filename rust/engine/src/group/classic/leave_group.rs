//! Leaving the group: on unsubscribe, on close, or because the user does not poll.

use super::error_codes::reaction;
use super::member::ClassicMember;
use super::revocation::AfterRevocation;
use crate::Now;
use crate::group::base::{Committing, Exit};
use crate::group::messages::{Call, CallId, CallKind, GroupEvent, GroupOutcome, GroupResponse, Reaction};
use crate::group::outbox::{InFlight, Timer};
use crate::group::state::ClassicState;
use monedula_protocol::error_code::ErrorCode;

impl ClassicMember {
    /// Begins to end the membership.
    pub(super) fn leave_for(&mut self, exit: Exit, deadline: Now) {
        self.topics.subscribed = false;
        self.topics.names.clear();
        self.topics.first_seen.clear();
        (self.join.reason, self.join.rebalance) = (None, None);
        self.base.out.timers.clear(Timer::Rejoin);
        self.base.leave_for(exit, deadline);
    }

    /// Revokes the owned partitions, then leaves.
    pub(super) fn advance_exit(&mut self, now: Now) {
        let Some(exit) = self.base.leave.exit else { return };
        if self.base.revocation.is_some() || self.state == ClassicState::Leaving {
            return;
        }
        if !self.base.owned.is_empty() {
            let all = self.base.owned.keys().cloned().collect();
            self.revoke(all, AfterRevocation::Leave);
            return;
        }
        (self.join.join_group, self.join.sync_group, self.join.computing_assignment) = (None, None, None);
        if self.generation < 0 && self.member_id.is_empty() || !exit.leave || self.base.config.instance_id.is_some() {
            return self.end_exit("closed without a word to the group", now);
        }
        // After the session timeout the coordinator removes the member anyway.
        self.base.out.timers.bring_forward(Timer::Close, now + self.base.config.session_timeout);
        self.base.out.timers.clear(Timer::JoinGroup);
        self.join.attempts = 0;
        self.set_state(ClassicState::Leaving);
    }

    /// Sends LeaveGroup, and sends it again if the coordinator has moved.
    pub(super) fn advance_leave(&mut self, now: Now) {
        if self.state != ClassicState::Leaving
            || self.base.leave.in_flight.is_some()
            || self.base.out.timers.waits(Timer::JoinGroup, now)
        {
            return;
        }
        // The answer to a heartbeat was UNKNOWN_MEMBER_ID, so there is nothing to leave.
        if self.member_id.is_empty() {
            return self.end_exit("the coordinator does not know the member any more", now);
        }
        self.base.leave.in_flight = self.send_leave("the consumer unsubscribed or was closed", now);
    }

    /// Sends LeaveGroup if the member has an id and is not static: a static member keeps its place in the group for its
    /// return.
    pub(super) fn send_leave(&mut self, reason: &str, now: Now) -> Option<CallId> {
        if self.member_id.is_empty() || self.base.config.instance_id.is_some() {
            return None;
        }
        let call = Call::LeaveGroup {
            group_id: self.base.config.group_id.clone(),
            member_id: self.member_id.clone(),
            instance_id: None,
            reason: reason.into(),
        };
        self.send(CallKind::LeaveGroup, call, now)
    }

    pub(super) fn left(&mut self, id: CallId, call: InFlight, outcome: GroupOutcome, now: Now) {
        if self.base.leave.in_flight.take_if(|known| *known == id).is_none() {
            return;
        }
        let code = match outcome {
            Ok(GroupResponse::LeaveGroup { code }) => code,
            Ok(_) => ErrorCode::UnknownServerError,
            Err(reason) => {
                // The coordinator may have removed the member although the answer was lost; the next attempt is then
                // answered UNKNOWN_MEMBER_ID.
                self.coordinator_lost(call.node_id, &reason, false, now);
                return self.back_off_join(now);
            }
        };
        self.base.coordinator.heard(code);
        if code == ErrorCode::None {
            return self.end_exit("left the group", now);
        }
        match reaction(CallKind::LeaveGroup, code) {
            reacted @ (Reaction::Retry | Reaction::Rediscover) => {
                self.base.out.retried(CallKind::LeaveGroup.name(), code);
                self.coordinator_error(reacted, call, code.name(), now);
                self.back_off_join(now);
            }
            _ => self.end_exit(code.name(), now),
        }
    }

    /// Takes the answer to a JoinGroup or SyncGroup that was in flight when the member began to leave.
    pub(super) fn answered_on_exit(&mut self, id: CallId, call: InFlight, answer: GroupOutcome, now: Now) {
        let waited = self.join.join_group == Some(id) || self.join.sync_group == Some(id);
        self.join.join_group.take_if(|join| *join == id);
        self.join.sync_group.take_if(|sync| *sync == id);
        let Ok(answer) = answer else { return };
        if !self.in_group() || call.generation_or_epoch != self.generation {
            return;
        }
        match answer {
            answer @ GroupResponse::JoinGroup { code: ErrorCode::None, .. } if waited => {
                self.joined_while_leaving(call, answer, now)
            }
            GroupResponse::SyncGroup { code: ErrorCode::None, .. } => self.join.deadline = None,
            GroupResponse::JoinGroup { code, .. } | GroupResponse::SyncGroup { code, .. } => {
                self.refused_while_leaving(code, &call, now)
            }
            _ => {}
        }
    }

    /// From here on the coordinator refuses commits of the previous generation, and those of the new one until all
    /// members have their assignments. So the member enters the new generation for as long as its revocation lasts:
    /// then its finished offsets can be committed, and the records are not read again.
    fn joined_while_leaving(&mut self, call: InFlight, answer: GroupResponse, now: Now) {
        let GroupResponse::JoinGroup { generation, leader, protocol, skip_assignment, members, .. } = answer else {
            return;
        };
        let ours = self.assignors.iter().any(|assignor| protocol.as_deref() == Some(assignor.name()));
        self.lose_if_missed(generation, &leader, now);
        if !ours || self.base.revocation.is_none() {
            return;
        }
        self.join.is_led = !leader.is_empty();
        self.leader = leader == self.member_id;
        (self.generation, self.assignor) = (generation, protocol);
        self.confirm(call.sent);
        self.join.deadline = Some(call.sent + self.base.config.max_poll_interval);
        let (protocol, took) = (self.assignor.clone().unwrap_or_default(), now - call.sent);
        self.base.out.event(GroupEvent::Joined { generation, leader: self.leader, protocol, took });
        self.ask_for_assignment(skip_assignment, members, now);
    }

    /// The member is not in the group any more, or another has its static id: the partitions that it is still revoking
    /// belong to others.
    fn refused_while_leaving(&mut self, code: ErrorCode, call: &InFlight, now: Now) {
        match code {
            ErrorCode::UnknownMemberId => self.lose_and_rejoin(code, call.kind.name(), true),
            ErrorCode::FencedInstanceId => self.fail(self.group_error(call.kind.name(), code), now),
            _ => {}
        }
    }

    /// LeaveGroup cannot be sent to this coordinator at all. It removes the member when the session ends.
    pub(super) fn cannot_leave(&mut self, id: CallId, reason: &str, now: Now) {
        if self.base.leave.in_flight == Some(id) {
            self.end_exit(reason, now);
        }
    }

    /// The deadline for leaving in order has passed.
    pub(super) fn exit_late(&mut self, now: Now) {
        if self.base.leave.exit.is_some() {
            self.close_commits(now);
            self.lose(None, "the time for leaving is over");
            self.end_exit("the time for leaving is over", now);
        }
    }

    pub(super) fn end_exit(&mut self, how: &str, now: Now) {
        let Some(exit) = self.base.leave.exit.take() else { return };
        self.base.revocation = None;
        self.close_commits(now);
        self.base.leave.in_flight = None;
        // A heartbeat may be answered UNKNOWN_MEMBER_ID before LeaveGroup is answered: then the member has no id any
        // more.
        if self.generation >= 0 || !self.member_id.is_empty() || self.state == ClassicState::Leaving {
            self.base.out.event(GroupEvent::Left { reason: how.into() });
        }
        self.forget_member();
        self.base.lease.set(None, &mut self.base.out, now);
        self.base.out.timers.clear_all();
        self.join.attempts = 0;
        self.topics.joined.clear();
        if self.state != ClassicState::Unsubscribed
            && self.state != ClassicState::Leaving
            && self.state != ClassicState::Fatal
        {
            // Every state of a group member may be followed by Leaving.
            self.set_state(ClassicState::Leaving);
        }
        self.set_state(ClassicState::Unsubscribed);
        if exit.close {
            self.base.leave.closed = true;
        } else if self.topics.subscribed {
            // The user subscribed again while the member left.
            self.set_state(ClassicState::Unjoined);
            self.want_rejoin("subscribed again".into());
        }
    }
}
