//! Involuntary ends of a membership: fenced, failed, or the broker does not support KIP-848.

use monedula_protocol::error_code::ErrorCode;

use super::consumer_group_heartbeat::LastSentSubscription;
use super::member::{AwaitsEpoch, ConsumerMember};
use super::reconciliation::Reconciliation;
use crate::Now;
use crate::group::error::GroupError;
use crate::group::messages::{GroupEvent, Output};
use crate::group::outbox::Timer;
use crate::group::state::ConsumerState;

impl ConsumerMember {
    /// The coordinator does not know this member, or not with this epoch: its partitions may have other owners already.
    pub(super) fn fence(&mut self, code: ErrorCode, now: Now) {
        let reason = format!("a heartbeat was answered {}", code.name());
        // A member that is leaving is now out of the group, as intended.
        if self.base.leave.exit.is_some() {
            self.lose(Some(code), &reason);
            return self.end_exit(&reason, now);
        }
        let joining = self.state == ConsumerState::Joining;
        if joining && code == ErrorCode::FencedMemberEpoch {
            self.leave_first = true;
        }
        // The coordinator still has the fenced member, and refuses epoch 0 of a static member as long as it does.
        self.may_have_place |= code == ErrorCode::FencedMemberEpoch;
        self.lose(Some(code), &reason);
        if joining || self.base.heartbeats.attempts > 0 {
            self.heartbeat_again(now);
        } else {
            self.base.heartbeats.attempts = 1;
        }
        self.set_state(ConsumerState::Fenced);
    }

    /// Releases all owned partitions at once, without a revocation: other members may own them already.
    pub(super) fn lose(&mut self, code: Option<ErrorCode>, reason: &str) {
        if let Some(ticket) = self.base.lose(code, reason) {
            self.lost_callback = Some(ticket);
        }
        self.drop_epoch();
    }

    /// Resets everything that belongs to an epoch: no answer in flight counts any more.
    pub(super) fn drop_epoch(&mut self) {
        self.epoch = 0;
        self.base.heartbeats.in_flight = None;
        self.owned_is_in_flight = false;
        self.last_sent = LastSentSubscription::default();
        self.reconciliation = Reconciliation::default();
        self.base.lease.unconfirm();
        self.revoke_by = None;
        self.awaits_epoch = AwaitsEpoch::default();
        self.base.commits.forget_auto_commit();
        for timer in [Timer::Heartbeat, Timer::Session, Timer::AutoCommit, Timer::ResolveTopicIds] {
            self.base.out.timers.clear(timer);
        }
    }

    /// Ends the membership with an error that a retry cannot fix.
    pub(super) fn fail(&mut self, error: GroupError, now: Now) {
        match self.state {
            ConsumerState::Fatal | ConsumerState::Unsubscribed => return,
            // The member is leaving anyway, and further attempts to leave would fail too.
            ConsumerState::PrepareLeaving | ConsumerState::Leaving => {
                let reason = error.to_string();
                self.lose(None, &reason);
                return self.stop_leaving(&reason, now);
            }
            _ => {}
        }
        self.lose(None, &error.to_string());
        if !matches!(
            self.state,
            ConsumerState::Joining | ConsumerState::Reconciling | ConsumerState::Acknowledging | ConsumerState::Stable
        ) {
            return;
        }
        self.base.fatal = Some(error.clone());
        self.set_state(ConsumerState::Fatal);
        self.base.out.push(Output::Raise { error, fatal: true });
    }

    /// The broker does not support KIP-848, or does not allow it for this group.
    pub(super) fn protocol_missing(&mut self, reason: &str, now: Now) {
        if self.state != ConsumerState::Joining || !self.falls_back {
            let group = self.base.config.group_id.clone();
            return self.fail(GroupError::Unsupported { group, reason: reason.into() }, now);
        }
        self.lose(None, reason);
        self.subscription = None;
        self.base.lease.set(None, &mut self.base.out, now);
        self.base.out.timers.clear_all();
        self.set_state(ConsumerState::Unsubscribed);
        self.base.out.event(GroupEvent::FellBack { reason: reason.into() });
        self.base.out.push(Output::FallBack);
    }

    /// Joins again once the Lost callback has ended and, if the member is stale, the user has polled.
    pub(super) fn advance_out_of_group(&mut self) {
        let back = match self.state {
            ConsumerState::Fenced => true,
            ConsumerState::Stale => self.base.user_polls.is_polled_again(),
            _ => false,
        };
        if back && self.lost_callback.is_none() {
            self.begin_joining();
        }
    }

    pub(super) fn may_be_known(&self) -> bool {
        self.epoch > 0 || self.may_have_place || self.base.heartbeats.in_flight.is_some()
    }
}
