//! Leaving the group: on unsubscribe, on close, or because the user does not poll.

use monedula_protocol::error_code::ErrorCode;

use super::config::member_id_after;
use super::error_codes::{api, reaction};
use super::member::ConsumerMember;
use crate::Now;
use crate::group::base::{Committing, Exit};
use crate::group::messages::{CallId, CallKind, GroupEvent, GroupOutcome, GroupResponse, Reaction};
use crate::group::outbox::{InFlight, Timer};
use crate::group::state::ConsumerState;

impl ConsumerMember {
    /// Begins to end the membership.
    pub(super) fn leave_for(&mut self, exit: Exit, deadline: Now) {
        self.subscription = None;
        self.topics.first_seen.clear();
        self.topics.listed = None;
        self.base.leave_for(exit, deadline);
    }

    /// Revokes the owned partitions, then leaves.
    pub(super) fn advance_exit(&mut self, now: Now) {
        let Some(exit) = self.base.leave.exit else { return };
        match self.state {
            ConsumerState::Unsubscribed | ConsumerState::Fatal | ConsumerState::Fenced | ConsumerState::Stale => {
                return self.end_exit("it was not in the group", now);
            }
            ConsumerState::Leaving => return,
            _ => self.set_state(ConsumerState::PrepareLeaving),
        }
        (self.reconciliation.working_on, self.reconciliation.assigned_callback) = (None, None);
        if self.base.revocation.is_some() {
            return;
        }
        if !self.base.owned.is_empty() {
            let all = self.base.owned.keys().cloned().collect();
            return self.base.begin_revocation(all);
        }
        // A static member always sends the heartbeat that leaves temporarily: until then no other consumer can use its
        // id.
        let says = exit.leave || self.base.config.instance_id.is_some();
        if !says || !self.may_be_known() {
            return self.end_exit("closed without a word to the group", now);
        }
        // After the session timeout the coordinator removes the member anyway.
        self.base.out.timers.bring_forward(Timer::Close, now + self.base.config.session_timeout);
        self.base.out.timers.clear(Timer::HeartbeatBackoff);
        // The answer to a heartbeat in flight is ignored from now on (KAFKA-19335).
        self.base.heartbeats.in_flight = None;
        self.base.heartbeats.attempts = 0;
        self.set_state(ConsumerState::Leaving);
    }

    /// Sends the heartbeat that leaves, and sends it again if the coordinator has moved.
    pub(super) fn advance_leave(&mut self, now: Now) {
        if self.state == ConsumerState::Leaving
            && self.base.leave.in_flight.is_none()
            && !self.base.out.timers.waits(Timer::HeartbeatBackoff, now)
        {
            self.send_leave(now);
        }
    }

    pub(super) fn send_leave(&mut self, now: Now) {
        let call = self.leave_call();
        self.base.leave.in_flight = self.send(CallKind::LeaveGroup, call, now);
    }

    pub(super) fn left(&mut self, id: CallId, call: InFlight, outcome: GroupOutcome, now: Now) {
        if self.base.leave.in_flight.take_if(|known| *known == id).is_none() {
            return;
        }
        let code = match outcome {
            Ok(GroupResponse::ConsumerGroupHeartbeat { code, .. }) => code,
            Ok(_) => ErrorCode::UnknownServerError,
            Err(reason) => {
                // The coordinator may have removed the member although the answer was lost; the next attempt is then
                // answered UNKNOWN_MEMBER_ID.
                self.coordinator_lost(call.node_id, &reason, now);
                (self.may_have_place, self.leave_was_lost) = (true, true);
                return self.leave_again(&reason, now);
            }
        };
        self.base.coordinator.heard(code);
        if code == ErrorCode::None {
            self.has_left();
            return self.stop_leaving("left the group", now);
        }
        match reaction(CallKind::LeaveGroup, code) {
            reacted @ (Reaction::Retry | Reaction::Rediscover) => {
                self.base.out.retried(api(CallKind::LeaveGroup), code);
                self.coordinator_error(reacted, call, code.name(), now);
                self.may_have_place = true;
                self.leave_again(code.name(), now);
            }
            _ => {
                self.has_left();
                self.stop_leaving(code.name(), now);
            }
        }
    }

    /// The coordinator does not have this member, so nothing is lost with its id.
    pub(super) fn has_left(&mut self) {
        (self.may_have_place, self.leave_first) = (false, false);
        if std::mem::take(&mut self.leave_was_lost) {
            self.member_id = member_id_after(&self.member_id);
        }
    }

    /// Retries leaving. A stale member tries only once: the user may poll at any time, and its session ends anyway.
    fn leave_again(&mut self, reason: &str, now: Now) {
        if self.base.leave.exit.is_none() {
            return self.stop_leaving(reason, now);
        }
        self.base.out.back_off(Timer::HeartbeatBackoff, &mut self.base.heartbeats.attempts, now);
    }

    /// The heartbeat that leaves cannot be sent to this coordinator at all. It removes the member when the session
    /// ends.
    pub(super) fn cannot_leave(&mut self, id: CallId, reason: &str, now: Now) {
        if self.base.leave.in_flight == Some(id) {
            self.base.leave.in_flight = None;
            self.stop_leaving(reason, now);
        }
    }

    /// Ends leaving: the member has left, or there is no further attempt.
    pub(super) fn stop_leaving(&mut self, how: &str, now: Now) {
        if self.base.leave.exit.is_some() {
            return self.end_exit(how, now);
        }
        self.base.out.event(GroupEvent::Left { reason: how.into() });
        self.set_state(ConsumerState::Stale);
    }

    /// The deadline for leaving in order has passed.
    pub(super) fn exit_late(&mut self, now: Now) {
        if self.base.leave.exit.is_some() {
            self.may_have_place |= self.epoch > 0 || self.base.leave.in_flight.is_some();
            self.leave_was_lost |= self.base.leave.in_flight.is_some();
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
        if matches!(self.state, ConsumerState::PrepareLeaving | ConsumerState::Leaving) {
            self.base.out.event(GroupEvent::Left { reason: how.into() });
        }
        self.drop_epoch();
        self.base.lease.set(None, &mut self.base.out, now);
        self.base.out.timers.clear_all();
        self.lost_callback = None;
        self.base.heartbeats.attempts = 0;
        self.leave_first = false;
        if matches!(
            self.state,
            ConsumerState::Joining | ConsumerState::Reconciling | ConsumerState::Acknowledging | ConsumerState::Stable
        ) {
            self.set_state(ConsumerState::PrepareLeaving);
        }
        self.set_state(ConsumerState::Unsubscribed);
        if exit.close {
            self.base.leave.closed = true;
        } else if self.subscription.is_some() {
            // The user subscribed again while the member left.
            self.begin_joining();
        }
    }
}
