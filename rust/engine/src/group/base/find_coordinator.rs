//! FindCoordinator, and the loss of a known coordinator.

use monedula_protocol::error_code::ErrorCode;

use crate::Now;
use crate::group::messages::{Call, CallId, CallKind, GroupEvent, GroupOutcome, GroupResponse, Target};
use crate::group::outbox::{Outbox, Timer};

/// The group's coordinator, and the FindCoordinator calls that look for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FindCoordinator {
    node_id: Option<i32>,
    in_flight: Option<CallId>,
    /// FindCoordinator calls since a coordinator last answered any request.
    attempts: u32,
}

/// The result of the answer to a FindCoordinator for the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundCoordinator {
    /// Nothing: the call is retried, or it was not the one in flight.
    Nothing,
    /// This broker coordinates the group.
    Coordinator(i32),
    /// The error ends the membership.
    Refused(ErrorCode),
}

impl FindCoordinator {
    pub(crate) fn node_id(&self) -> Option<i32> {
        self.node_id
    }

    /// Sends a FindCoordinator, unless the coordinator is known, a call is in flight, or its backoff is not over.
    pub(crate) fn advance(&mut self, group_id: &str, generation_or_epoch: i32, out: &mut Outbox, now: Now) {
        if self.node_id.is_some() || self.in_flight.is_some() || out.timers.waits(Timer::FindCoordinator, now) {
            return;
        }
        let call = Call::FindCoordinator { group_id: group_id.to_owned() };
        let target = Target::Any { attempt: self.attempts };
        self.in_flight = Some(out.send(CallKind::FindCoordinator, target, call, generation_or_epoch, now));
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Takes the answer to a call. `is_fatal` says which errors end the membership; all others are retried.
    pub(crate) fn answered(
        &mut self,
        id: CallId,
        outcome: &GroupOutcome,
        is_fatal: impl Fn(ErrorCode) -> bool,
        out: &mut Outbox,
        now: Now,
    ) -> FoundCoordinator {
        if self.in_flight.take_if(|known| *known == id).is_none() {
            return FoundCoordinator::Nothing;
        }
        match *outcome {
            Ok(GroupResponse::FindCoordinator { code: ErrorCode::None, node_id, .. }) => {
                self.node_id = Some(node_id);
                out.timers.clear(Timer::FindCoordinator);
                out.event(GroupEvent::CoordinatorFound { node_id });
                return FoundCoordinator::Coordinator(node_id);
            }
            Ok(GroupResponse::FindCoordinator { code, .. }) if is_fatal(code) => {
                return FoundCoordinator::Refused(code);
            }
            Ok(GroupResponse::FindCoordinator { code, .. }) => out.retried(CallKind::FindCoordinator.name(), code),
            _ => {}
        }
        out.back_off_after(self.attempts.saturating_sub(1), Timer::FindCoordinator, now);
        FoundCoordinator::Nothing
    }

    /// Forgets the coordinator, because the broker `asked` is gone or is not the coordinator; `None` stands for the
    /// known coordinator. Returns whether a coordinator was forgotten: a late answer of a former coordinator says
    /// nothing about the current one.
    pub(crate) fn lost(&mut self, asked: Option<i32>, reason: &str, out: &mut Outbox, now: Now) -> bool {
        if self.node_id.is_none() || (asked.is_some() && asked != self.node_id) {
            return false;
        }
        self.node_id = None;
        out.event(GroupEvent::CoordinatorLost { reason: reason.into() });
        // This coordinator never answered, so the broker that named it may have outdated metadata: the next call goes
        // to another broker, after a backoff (req S056).
        if self.attempts > 0 {
            out.back_off_after(self.attempts - 1, Timer::FindCoordinator, now);
        }
        true
    }

    /// The coordinator answered a call with this error code, or without an error. Resets the attempts, unless the code
    /// says that it is not the coordinator.
    pub(crate) fn heard(&mut self, code: ErrorCode) {
        if !matches!(code, ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable) {
            self.attempts = 0;
        }
    }
}
