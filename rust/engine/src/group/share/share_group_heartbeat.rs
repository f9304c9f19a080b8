//! ShareGroupHeartbeat: its contents, when it is sent, and how its answer is handled.

use monedula_protocol::error_code::ErrorCode;

use super::error_codes::{api, reaction};
use super::member::ShareMember;
use crate::Now;
use crate::group::error::GroupError;
use crate::group::messages::{
    Call, CallId, CallKind, GroupEvent, GroupOutcome, GroupResponse, HeartbeatCall, Output, Reaction,
};
use crate::group::outbox::{InFlight, Timer};
use crate::group::state::ShareState;

/// The member epoch of a heartbeat that joins.
pub(super) const JOIN: i32 = 0;
/// The member epoch of a heartbeat that leaves.
pub(super) const LEAVE: i32 = -1;

impl ShareMember {
    /// Sends a heartbeat if one is due, or if the subscription changed. Only one is in flight at a time.
    pub(super) fn advance_heartbeat(&mut self, now: Now) {
        let may = matches!(self.state, ShareState::Joining | ShareState::Stable) && self.exit.is_none();
        let held = self.heartbeats.in_flight.is_some()
            || self.coordinator.node_id().is_none()
            || self.out.timers.waits(Timer::HeartbeatBackoff, now);
        let changed = self.last_sent.as_ref() != Some(&self.subscription);
        if !may || held || (!changed && self.out.timers.waits(Timer::Heartbeat, now)) {
            return;
        }
        // The answer that was lost may have had an assignment. Every coordinator repeats it for a heartbeat that joins,
        // whoever is in the group already; that of Kafka 4.4 for any with topics, too, and earlier ones may not.
        let is_again = self.late_heartbeat_until.is_some_and(|until| now < until);
        let call = self.heartbeat_call(if is_again { JOIN } else { self.epoch }, changed || is_again);
        self.last_sent = Some(self.subscription.clone());
        self.heartbeats.in_flight = self.send(CallKind::Heartbeat, call, now);
        self.out.timers.set(Timer::Heartbeat, now + self.heartbeats.cadence.pause(self.heartbeat_interval, now));
    }

    /// A heartbeat with this epoch, and with topics and rack if it `is_full`.
    pub(super) fn heartbeat_call(&self, epoch: i32, is_full: bool) -> Call {
        Call::ShareGroupHeartbeat(HeartbeatCall {
            group_id: self.config.group_id.clone(),
            member_id: self.member_id.clone(),
            epoch,
            rack: self.config.rack.clone().filter(|_| is_full),
            topics: is_full.then(|| self.subscription.clone()),
            ..HeartbeatCall::default()
        })
    }

    /// Cancels the heartbeat in flight, which may arrive after the next one.
    pub(super) fn forget_heartbeat(&mut self, now: Now) {
        if self.heartbeats.in_flight.take().is_some() {
            self.late_heartbeat_until = Some(now + Self::SESSION_TIMEOUT * 2);
        }
        self.last_sent = None;
    }

    pub(super) fn heartbeat_answered(&mut self, id: CallId, call: InFlight, outcome: GroupOutcome, now: Now) {
        if self.heartbeats.in_flight != Some(id) {
            return;
        }
        let (code, message, epoch, interval, assignment) = match outcome {
            Ok(GroupResponse::ConsumerGroupHeartbeat { code, message, epoch, interval, assignment }) => {
                (code, message, epoch, interval, assignment)
            }
            Ok(_) => return self.heartbeat_lost(now),
            Err(reason) => {
                self.heartbeat_lost(now);
                return self.coordinator_lost(call.node_id, &reason, now);
            }
        };
        self.coordinator.heard(code);
        if code != ErrorCode::None {
            return self.heartbeat_refused(code, message, call, now);
        }
        if epoch <= JOIN {
            return self.heartbeat_lost(now);
        }
        self.heartbeats.in_flight = None;
        (self.heartbeats.attempts, self.raised) = (0, None);
        self.last_heartbeat = Some(call.sent);
        self.out.event(GroupEvent::Heartbeat { took: now - call.sent });
        // If the broker sends no interval, the last one remains: heartbeats must not follow each other at once.
        if !interval.is_zero() {
            self.heartbeat_interval = interval;
        }
        self.epoch = epoch;
        if self.state == ShareState::Joining {
            self.set_state(ShareState::Stable);
            // The state of a partition is initialized before it is assigned, so that a new group has none at first.
            self.heartbeats.cadence.quicken(self.heartbeat_interval * 2, now);
            let took = now - call.sent;
            self.out.event(GroupEvent::Joined { generation: epoch, leader: false, protocol: String::new(), took });
        }
        self.out.timers.set(Timer::Session, call.sent + Self::SESSION_TIMEOUT);
        let pause = self.heartbeats.cadence.pause(self.heartbeat_interval, now);
        self.out.timers.set(Timer::Heartbeat, call.sent + pause);
        if let Some(target) = assignment
            && target != self.target
        {
            self.target = target;
            self.resolve();
        }
    }

    fn heartbeat_lost(&mut self, now: Now) {
        self.forget_heartbeat(now);
        self.heartbeat_again(now);
    }

    fn heartbeat_again(&mut self, now: Now) {
        self.out.back_off(Timer::HeartbeatBackoff, &mut self.heartbeats.attempts, now);
    }

    fn heartbeat_refused(&mut self, code: ErrorCode, message: String, call: InFlight, now: Now) {
        self.heartbeats.in_flight = None;
        self.last_sent = None;
        let is_joining = self.state == ShareState::Joining;
        match reaction(CallKind::Heartbeat, code) {
            Reaction::Retry => {
                self.out.retried(api(CallKind::Heartbeat), code);
                self.heartbeat_again(now);
            }
            Reaction::Rediscover => {
                self.out.retried(api(CallKind::Heartbeat), code);
                self.coordinator_lost(call.node_id, code.name(), now);
            }
            Reaction::Report => {
                self.heartbeat_again(now);
                if self.raised.replace(code) != Some(code) {
                    let error = self.heartbeat_error(code, message);
                    self.out.push(Output::Raise { error, fatal: false });
                }
            }
            Reaction::Fence if !is_joining => self.fence(code, now),
            // The coordinator has a later epoch of a join whose answer was lost: the next one is taken.
            Reaction::Fence if code != ErrorCode::GroupIdNotFound => {
                self.out.retried(api(CallKind::Heartbeat), code);
                self.heartbeat_again(now);
            }
            _ => self.fail(self.heartbeat_error(code, message)),
        }
    }

    /// The coordinator does not know this member, or not with this epoch: it joins again, with its id and epoch 0.
    fn fence(&mut self, code: ErrorCode, now: Now) {
        let partitions = self.assigned.keys().cloned().collect();
        self.out.event(GroupEvent::Lost { partitions, reason: format!("a heartbeat was answered {}", code.name()) });
        self.drop_epoch();
        // A member that is removed right after each join does not join without a pause.
        if self.heartbeats.attempts > 0 {
            self.heartbeat_again(now);
        } else {
            self.heartbeats.attempts = 1;
        }
        self.set_state(ShareState::Joining);
    }

    fn heartbeat_error(&self, code: ErrorCode, message: String) -> GroupError {
        let group = self.config.group_id.clone();
        match code {
            ErrorCode::GroupAuthorizationFailed => GroupError::Denied { group },
            ErrorCode::GroupMaxSizeReached => GroupError::GroupFull { group, message },
            ErrorCode::TopicAuthorizationFailed => GroupError::TopicDenied { group, message },
            ErrorCode::UnsupportedVersion => GroupError::NoShareGroups { group, reason: message },
            ErrorCode::GroupIdNotFound => GroupError::NoShareGroup { group, message },
            code => GroupError::Heartbeat { group, api: api(CallKind::Heartbeat), code, message },
        }
    }
}
