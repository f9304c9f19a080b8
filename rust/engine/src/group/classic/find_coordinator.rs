//! FindCoordinator of a classic member, and the loss of its coordinator.

use super::error_codes::reaction;
use super::member::ClassicMember;
use crate::Now;
use crate::group::base::FoundCoordinator;
use crate::group::messages::{CallId, CallKind, GroupOutcome, Reaction};
use crate::group::outbox::Timer;
use crate::group::state::ClassicState;

impl ClassicMember {
    /// Sends FindCoordinator if the coordinator is needed and not known.
    pub(super) fn advance_find_coordinator(&mut self, now: Now) {
        let is_needed = match self.state {
            ClassicState::Unsubscribed | ClassicState::Stale | ClassicState::Fatal => false,
            ClassicState::Leaving => self.base.leave.in_flight.is_none(),
            _ => true,
        };
        if is_needed {
            self.base.coordinator.advance(&self.base.config.group_id, self.generation, &mut self.base.out, now);
        }
    }

    pub(super) fn found(&mut self, id: CallId, outcome: &GroupOutcome, now: Now) {
        let is_fatal = |code| reaction(CallKind::FindCoordinator, code) == Reaction::Fail;
        match self.base.coordinator.answered(id, outcome, is_fatal, &mut self.base.out, now) {
            FoundCoordinator::Nothing => {}
            FoundCoordinator::Coordinator(node_id) => {
                // A JoinGroup or SyncGroup that still waits at another broker will not get a useful answer.
                let elsewhere = |id: Option<CallId>| {
                    id.and_then(|id| self.base.out.in_flight(id)).is_some_and(|call| call.node_id != Some(node_id))
                };
                if elsewhere(self.join.join_group) || elsewhere(self.join.sync_group) {
                    self.cancel_join();
                }
            }
            FoundCoordinator::Refused(code) => self.fail(self.group_error(CallKind::FindCoordinator.name(), code), now),
        }
    }

    /// The broker `asked` is gone, or is not the coordinator. With `cancel`, a JoinGroup or SyncGroup that waits there
    /// is cancelled, and the member joins again.
    pub(super) fn coordinator_lost(&mut self, asked: Option<i32>, reason: &str, cancel: bool, now: Now) {
        if !self.base.coordinator.lost(asked, reason, &mut self.base.out, now) {
            return;
        }
        self.base.heartbeats.in_flight = None;
        if cancel {
            self.cancel_join();
        }
    }

    /// No heartbeat was answered for `session.timeout.ms`: the coordinator counts as dead (req S057).
    pub(super) fn session_timed_out(&mut self, now: Now) {
        // The coordinator holds a JoinGroup for as long as the others take, without heartbeats; JoinGroup has its own
        // timeout (req S072).
        if !matches!(self.state, ClassicState::PreparingRebalance | ClassicState::CompletingRebalance) {
            self.coordinator_lost(None, "no heartbeat was answered for session.timeout.ms", true, now);
        }
        self.base.out.timers.set(Timer::Session, now + self.base.config.session_timeout);
    }
}
