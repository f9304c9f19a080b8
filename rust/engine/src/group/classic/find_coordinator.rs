//! Finding the coordinator, and noticing that it is gone.

use super::member::{Kind, Member};
use super::reactions::reaction;
use super::timers::Timer;
use super::{Reaction, State};
use crate::Now;
use crate::group::{Answer, Call, CallId, GroupEvent};
use monedula_protocol::error_code::ErrorCode;

impl Member {
    /// Asks for the coordinator if it is needed and not known.
    pub(super) fn advance_find(&mut self, now: Now) {
        let needed = match self.state {
            State::Unsubscribed | State::Stale | State::Fatal => false,
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
                self.coordinator_found(node_id);
                return;
            }
            Ok(Answer::FindCoordinator { code, .. }) => code,
            _ => ErrorCode::NetworkException,
        };
        match reaction(Kind::Find.api(), code) {
            Reaction::Fail => self.fail(self.error_of(Kind::Find.api(), code), now),
            _ => {
                if code != ErrorCode::NetworkException {
                    self.retried(Kind::Find.api(), code);
                }
                let delay = self.config.backoff.delay(self.find_attempts.saturating_sub(1), &mut self.jitter);
                self.timers.set(Timer::Find, now + delay);
            }
        }
    }

    fn coordinator_found(&mut self, node_id: i32) {
        self.coordinator = Some(node_id);
        self.timers.clear(Timer::Find);
        self.event(GroupEvent::CoordinatorFound { node_id });
        // A join or sync that still waits at another broker waits for nothing.
        let elsewhere = |id: Option<CallId>| {
            id.and_then(|id| self.in_flight.get(&id)).is_some_and(|call| call.node_id != Some(node_id))
        };
        if elsewhere(self.join) || elsewhere(self.sync) {
            self.abandon_join();
        }
    }

    /// The coordinator `asked` is gone, or is not the coordinator. What waits at it is asked again elsewhere, if `abandon`.
    pub(super) fn coordinator_lost(&mut self, asked: Option<i32>, reason: &str, abandon: bool, now: Now) {
        // An old coordinator's last words say nothing about the new one.
        if self.coordinator.is_none() || (asked.is_some() && asked != self.coordinator) {
            return;
        }
        self.coordinator = None;
        self.heartbeat = None;
        self.event(GroupEvent::CoordinatorLost { reason: reason.into() });
        // Nothing was heard of it since it was found: who named it may not know better yet, so it is another's turn, and not
        // at once (seed S056).
        if self.find_attempts > 0 {
            let delay = self.config.backoff.delay(self.find_attempts - 1, &mut self.jitter);
            self.timers.set(Timer::Find, now + delay);
        }
        if abandon {
            self.abandon_join();
        }
    }

    /// No heartbeat was answered for as long as the session lasts (seed S057).
    pub(super) fn session_silent(&mut self, now: Now) {
        // A join is held for as long as others take, without heartbeats; its own timeout watches over it (seed S072).
        if !matches!(self.state, State::PreparingRebalance | State::CompletingRebalance) {
            self.coordinator_lost(None, "no heartbeat was answered for session.timeout.ms", true, now);
        }
        self.timers.set(Timer::Session, now + self.config.session_timeout);
    }

    /// Something was heard of the coordinator, and not that it is none: attempts to find it start anew.
    pub(super) fn coordinator_answered(&mut self, code: ErrorCode) {
        if !matches!(code, ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable) {
            self.find_attempts = 0;
        }
    }
}
