//! FindCoordinator of a member under KIP-848, and the loss of its coordinator.

use monedula_protocol::error_code::ErrorCode;

use super::error_codes::reaction;
use super::member::ConsumerMember;
use crate::Now;
use crate::group::base::FoundCoordinator;
use crate::group::error::GroupError;
use crate::group::messages::{CallId, CallKind, GroupOutcome, Reaction};
use crate::group::outbox::Timer;
use crate::group::state::ConsumerState;

impl ConsumerMember {
    /// Sends FindCoordinator if the coordinator is needed and not known.
    pub(super) fn advance_find_coordinator(&mut self, now: Now) {
        let is_needed = match self.state {
            ConsumerState::Unsubscribed | ConsumerState::Stale | ConsumerState::Fatal | ConsumerState::Fenced => false,
            ConsumerState::Leaving => self.base.leave.in_flight.is_none(),
            _ => true,
        };
        if is_needed {
            self.base.coordinator.advance(&self.base.config.group_id, self.epoch, &mut self.base.out, now);
        }
    }

    pub(super) fn found(&mut self, id: CallId, outcome: &GroupOutcome, now: Now) {
        let is_fatal = |code| reaction(CallKind::FindCoordinator, code) == Reaction::Fail;
        match self.base.coordinator.answered(id, outcome, is_fatal, &mut self.base.out, now) {
            FoundCoordinator::Nothing | FoundCoordinator::Coordinator(_) => {}
            FoundCoordinator::Refused(code) => self.fail(self.group_error(CallKind::FindCoordinator.name(), code), now),
        }
    }

    /// The broker `asked` is gone, or is not the coordinator.
    pub(super) fn coordinator_lost(&mut self, asked: Option<i32>, reason: &str, now: Now) {
        // The answer to a heartbeat in flight may never arrive, and the new coordinator needs a heartbeat with all
        // fields.
        if self.base.coordinator.lost(asked, reason, &mut self.base.out, now)
            && self.base.heartbeats.in_flight.is_some()
        {
            self.forget_heartbeat(now);
        }
    }

    /// No heartbeat was answered for `session.timeout.ms`: the coordinator counts as dead (req S057).
    pub(super) fn session_timed_out(&mut self, now: Now) {
        self.coordinator_lost(None, "no heartbeat was answered for session.timeout.ms", now);
        self.base.out.timers.set(Timer::Session, now + self.base.config.session_timeout);
    }

    /// The user's error for an error code that the classic protocol has too.
    pub(super) fn group_error(&self, api: &'static str, code: ErrorCode) -> GroupError {
        GroupError::of_code(api, code, &self.base.config.group_id, self.base.config.instance_id.as_deref())
    }
}
