//! Leaving the group: on unsubscribe or on close.

use monedula_protocol::error_code::ErrorCode;

use super::error_codes::{api, reaction};
use super::member::ShareMember;
use super::share_group_heartbeat::LEAVE;
use crate::Now;
use crate::group::messages::{CallId, CallKind, GroupEvent, GroupOutcome, GroupResponse, Output, Reaction};
use crate::group::outbox::{InFlight, Timer};
use crate::group::state::ShareState;

impl ShareMember {
    /// Begins to end the membership, at `deadline` at the latest.
    pub(super) fn exit(&mut self, close: bool, deadline: Now) {
        self.subscription.clear();
        self.exit = Some(close || self.exit == Some(true));
        self.out.timers.bring_forward(Timer::Close, deadline);
    }

    pub(super) fn advance_exit(&mut self, now: Now) {
        if self.exit.is_none() || self.state == ShareState::Leaving {
            return;
        }
        // The answer to a join in flight is not waited for: the coordinator may have the member by then.
        let may_be_known = self.epoch > 0 || self.heartbeats.in_flight.is_some() || self.late_heartbeat_until.is_some();
        if !matches!(self.state, ShareState::Joining | ShareState::Stable) || !may_be_known {
            return self.end_exit("it was not in the group");
        }
        // The coordinator removes the member anyway once its session has timed out.
        self.out.timers.bring_forward(Timer::Close, now + Self::SESSION_TIMEOUT);
        self.out.timers.clear(Timer::HeartbeatBackoff);
        self.drop_epoch();
        self.heartbeats.attempts = 0;
        self.set_state(ShareState::Leaving);
    }

    /// Sends the heartbeat that leaves, again if the coordinator has moved.
    pub(super) fn advance_leave(&mut self, now: Now) {
        let may = self.state == ShareState::Leaving && self.leaving.is_none();
        if may && !self.out.timers.waits(Timer::HeartbeatBackoff, now) {
            let call = self.heartbeat_call(LEAVE, false);
            self.leaving = self.send(CallKind::LeaveGroup, call, now);
        }
    }

    pub(super) fn left(&mut self, id: CallId, call: InFlight, outcome: GroupOutcome, now: Now) {
        if self.leaving.take_if(|known| *known == id).is_none() {
            return;
        }
        let code = match outcome {
            Ok(GroupResponse::ConsumerGroupHeartbeat { code, .. }) => code,
            Ok(_) => ErrorCode::UnknownServerError,
            Err(reason) => {
                self.coordinator_lost(call.node_id, &reason, now);
                return self.out.back_off(Timer::HeartbeatBackoff, &mut self.heartbeats.attempts, now);
            }
        };
        self.coordinator.heard(code);
        match (code, reaction(CallKind::LeaveGroup, code)) {
            (ErrorCode::None, _) => self.end_exit("left the group"),
            (_, reacted @ (Reaction::Retry | Reaction::Rediscover)) => {
                self.out.retried(api(CallKind::LeaveGroup), code);
                if reacted == Reaction::Rediscover {
                    self.coordinator_lost(call.node_id, code.name(), now);
                }
                self.out.back_off(Timer::HeartbeatBackoff, &mut self.heartbeats.attempts, now);
            }
            _ => self.end_exit(code.name()),
        }
    }

    pub(super) fn end_exit(&mut self, how: &str) {
        let Some(close) = self.exit.take() else { return };
        if self.state == ShareState::Leaving {
            self.out.event(GroupEvent::Left { reason: how.into() });
        }
        self.drop_epoch();
        self.out.timers.clear_all();
        (self.leaving, self.late_heartbeat_until, self.fatal) = (None, None, None);
        if self.state == ShareState::Stable {
            self.set_state(ShareState::Leaving);
        }
        if self.state != ShareState::Unsubscribed {
            self.set_state(ShareState::Unsubscribed);
        }
        if close {
            self.out.push(Output::Closed);
        } else if !self.subscription.is_empty() {
            // The user subscribed again while the member left.
            self.set_state(ShareState::Joining);
        }
    }
}
