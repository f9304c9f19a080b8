//! Finding the coordinator, and noticing that it is gone.

use super::member::{Kind, Member};
use super::reactions::reaction;
use super::timers::Timer;
use super::{Reaction, State};
use crate::Now;
use crate::group::{Answer, Call, CallId, GroupError, GroupEvent};
use monedula_protocol::error_code::ErrorCode;

impl Member {
    /// Asks for the coordinator if it is needed and not known.
    pub(super) fn advance_find(&mut self, now: Now) {
        let needed = match self.state {
            State::Unsubscribed | State::Stale | State::Fatal | State::Fenced => false,
            State::Leaving => self.leaving.is_none(),
            _ => true,
        };
        if !needed || self.coordinator.is_some() || self.finding.is_some() || self.timers.waits(Timer::Find, now) {
            return;
        }
        let call = Call::FindCoordinator { group_id: self.config.group_id.clone() };
        self.finding = Some(self.send_to_any(call, self.find_attempts, now));
        self.find_attempts = self.find_attempts.saturating_add(1);
    }

    pub(super) fn found(&mut self, id: CallId, outcome: Result<Answer, String>, now: Now) {
        if self.finding != Some(id) {
            return;
        }
        self.finding = None;
        let code = match outcome {
            Ok(Answer::FindCoordinator { code: ErrorCode::None, node_id, .. }) => {
                self.coordinator = Some(node_id);
                self.timers.clear(Timer::Find);
                self.event(GroupEvent::CoordinatorFound { node_id });
                return;
            }
            Ok(Answer::FindCoordinator { code, .. }) => code,
            _ => ErrorCode::NetworkException,
        };
        match reaction(Kind::Find.api(), code) {
            Reaction::Fail => self.fail(self.group_error("FindCoordinator", code), now),
            _ => {
                if code != ErrorCode::NetworkException {
                    self.retried(Kind::Find.api(), code);
                }
                let delay = self.config.backoff.delay(self.find_attempts.saturating_sub(1), &mut self.jitter);
                self.timers.set(Timer::Find, now + delay);
            }
        }
    }

    /// The coordinator `asked` is gone, or is not the coordinator.
    pub(super) fn coordinator_lost(&mut self, asked: Option<i32>, reason: &str, now: Now) {
        // An old coordinator's last words say nothing about the new one.
        if self.coordinator.is_none() || (asked.is_some() && asked != self.coordinator) {
            return;
        }
        self.coordinator = None;
        // Its answer may never come, and the new coordinator has to be told everything.
        if self.heartbeat.is_some() {
            self.forget_heartbeat(now);
        }
        self.event(GroupEvent::CoordinatorLost { reason: reason.into() });
        // Nothing was heard of it since it was found: who named it may not know better yet, so it is another's turn, and not
        // at once (seed S056).
        if self.find_attempts > 0 {
            let delay = self.config.backoff.delay(self.find_attempts - 1, &mut self.jitter);
            self.timers.set(Timer::Find, now + delay);
        }
    }

    /// No heartbeat was answered for as long as the session lasts (seed S057).
    pub(super) fn session_silent(&mut self, now: Now) {
        self.coordinator_lost(None, "no heartbeat was answered for session.timeout.ms", now);
        self.timers.set(Timer::Session, now + self.config.session_timeout);
    }

    /// Something was heard of the coordinator, and not that it is none: attempts to find it start anew.
    pub(super) fn coordinator_answered(&mut self, code: ErrorCode) {
        if !matches!(code, ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable) {
            self.find_attempts = 0;
        }
    }

    /// An error that the classic protocol knows as well.
    pub(super) fn group_error(&self, api: &'static str, code: ErrorCode) -> GroupError {
        let group = self.config.group_id.clone();
        match code {
            ErrorCode::GroupAuthorizationFailed => GroupError::Denied { group },
            ErrorCode::FencedInstanceId => {
                GroupError::FencedInstance { group, instance: self.config.instance_id.clone().unwrap_or_default() }
            }
            code => GroupError::Broker { group, api, code },
        }
    }
}
