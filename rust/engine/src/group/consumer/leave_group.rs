//! Leaving: unsubscribed, closed, or because the user does not poll.

use monedula_protocol::error_code::ErrorCode;

use super::member::Member;
use super::reactions::{api, reaction};
use super::{Reaction, State};
use crate::Now;
use crate::group::{Answer, CallId, Exit, GroupEvent, InFlight, Kind, Timer};

impl Member {
    /// The membership is to end.
    pub(super) fn leave_for(&mut self, exit: Exit, deadline: Now) {
        let close = exit.close || self.exit.is_some_and(|exit| exit.close);
        self.exit = Some(Exit { close, ..exit });
        self.subscription = None;
        self.first_seen.clear();
        self.listed = None;
        let deadline = self.out.timers.at(Timer::Close).map_or(deadline, |known| known.min(deadline));
        self.out.timers.set(Timer::Close, deadline);
        // What is given up grows to all that is owned, unless the user has done his part of it already.
        self.restart_revocation();
    }

    /// Gives up what is owned, then leaves.
    pub(super) fn advance_exit(&mut self, now: Now) {
        let Some(exit) = self.exit else { return };
        match self.state {
            State::Unsubscribed | State::Fatal | State::Fenced | State::Stale => {
                return self.end_exit("it was not in the group", now);
            }
            State::Leaving => return,
            _ => self.set_state(State::PrepareLeaving),
        }
        (self.working_on, self.assigned_callback) = (None, None);
        if self.revocation.is_some() {
            return;
        }
        if !self.owned.is_empty() {
            let all = self.owned.keys().cloned().collect();
            return self.revoke(all);
        }
        // A static member says that it will be back: as long as it has not, nobody else can have its id.
        let says = exit.leave || self.config.instance_id.is_some();
        if !says || !self.may_be_known() {
            return self.end_exit("closed without a word to the group", now);
        }
        // After a session without a word the member is out anyway.
        let late = now + self.config.session_timeout;
        let deadline = self.out.timers.at(Timer::Close).map_or(late, |known| known.min(late));
        self.out.timers.set(Timer::Close, deadline);
        self.out.timers.clear(Timer::HeartbeatBackoff);
        // Whatever the heartbeat in flight brings is too late (KAFKA-19335).
        self.heartbeat = None;
        self.heartbeat_attempts = 0;
        self.set_state(State::Leaving);
    }

    /// Says so to the coordinator, and again where it has moved.
    pub(super) fn advance_leave(&mut self, now: Now) {
        if self.state == State::Leaving
            && self.leaving.is_none()
            && !self.out.timers.waits(Timer::HeartbeatBackoff, now)
        {
            self.send_leave(now);
        }
    }

    pub(super) fn send_leave(&mut self, now: Now) {
        let call = self.leave_call();
        self.leaving = self.send(Kind::LeaveGroup, call, now);
    }

    pub(super) fn left(&mut self, id: CallId, call: InFlight, outcome: Result<Answer, String>, now: Now) {
        if self.leaving != Some(id) {
            return;
        }
        self.leaving = None;
        let code = match outcome {
            Ok(Answer::ConsumerGroupHeartbeat { code, .. }) => code,
            Ok(_) => ErrorCode::UnknownServerError,
            Err(reason) => {
                // The answer may be lost and the member gone: UNKNOWN_MEMBER_ID will say so then.
                self.coordinator_lost(call.node_id, &reason, now);
                self.may_have_place = true;
                return self.leave_again(&reason, now);
            }
        };
        self.coordinator_answered(code);
        if code == ErrorCode::None {
            (self.may_have_place, self.leave_first) = (false, false);
            return self.stop_leaving("left the group", now);
        }
        match reaction(api(Kind::LeaveGroup), code) {
            reacted @ (Reaction::Retry | Reaction::Rediscover) => {
                self.out.retried(api(Kind::LeaveGroup), code);
                self.coordinator_error(reacted, call, code.name(), now);
                self.may_have_place = true;
                self.leave_again(code.name(), now);
            }
            _ => {
                (self.may_have_place, self.leave_first) = (false, false);
                self.stop_leaving(code.name(), now);
            }
        }
    }

    /// A stale member tries once: the user may poll at any time, and its session ends as well.
    fn leave_again(&mut self, reason: &str, now: Now) {
        if self.exit.is_none() {
            return self.stop_leaving(reason, now);
        }
        let delay = self.out.delay(self.heartbeat_attempts);
        self.heartbeat_attempts = self.heartbeat_attempts.saturating_add(1);
        self.out.timers.set(Timer::HeartbeatBackoff, now + delay);
    }

    /// The heartbeat that leaves cannot be sent to this coordinator at all; the session's end will tell it.
    pub(super) fn cannot_leave(&mut self, id: CallId, reason: &str, now: Now) {
        if self.leaving == Some(id) {
            self.leaving = None;
            self.stop_leaving(reason, now);
        }
    }

    /// It has left, or there is nothing more to try.
    pub(super) fn stop_leaving(&mut self, how: &str, now: Now) {
        if self.exit.is_some() {
            return self.end_exit(how, now);
        }
        self.out.event(GroupEvent::Left { reason: how.into() });
        self.set_state(State::Stale);
    }

    /// The time for leaving in order is over.
    pub(super) fn exit_late(&mut self, now: Now) {
        if self.exit.is_some() {
            self.may_have_place |= self.epoch > 0 || self.leaving.is_some();
            self.close_commits(now);
            self.lose(None, "the time for leaving is over");
            self.end_exit("the time for leaving is over", now);
        }
    }

    pub(super) fn end_exit(&mut self, how: &str, now: Now) {
        let Some(exit) = self.exit.take() else { return };
        self.revocation = None;
        self.close_commits(now);
        self.leaving = None;
        if matches!(self.state, State::PrepareLeaving | State::Leaving) {
            self.out.event(GroupEvent::Left { reason: how.into() });
        }
        self.drop_epoch();
        self.end_lease(now);
        self.out.timers.clear_all();
        self.lost_callback = None;
        self.heartbeat_attempts = 0;
        self.leave_first = false;
        if matches!(self.state, State::Joining | State::Reconciling | State::Acknowledging | State::Stable) {
            self.set_state(State::PrepareLeaving);
        }
        self.set_state(State::Unsubscribed);
        if exit.close {
            self.closed = true;
        } else if self.subscription.is_some() {
            // Subscribed again while it left.
            self.begin_joining();
        }
    }
}
