//! Out of the group without wanting it: fenced, failed, stale, or where the protocol is missing.

use std::collections::BTreeSet;

use monedula_protocol::error_code::ErrorCode;

use super::State;
use super::consumer_group_heartbeat::LastSentSubscription;
use super::member::Member;
use crate::group::{CallbackKind, GroupError, GroupEvent, Output, Timer};
use crate::{Now, TopicPartition};

impl Member {
    /// The coordinator does not have this member, or not in this epoch: what it owned may be others' already.
    pub(super) fn fence(&mut self, code: ErrorCode, now: Now) {
        let reason = format!("a heartbeat was answered {}", code.name());
        // Who is on its way out is where it wanted to be.
        if self.exit.is_some() {
            self.lose(Some(code), &reason);
            return self.end_exit(&reason, now);
        }
        let joining = self.state == State::Joining;
        if joining && code == ErrorCode::FencedMemberEpoch {
            self.leave_first = true;
        }
        // A place that is fenced is still there, and a static member's epoch 0 is refused as long as it is.
        self.may_have_place |= code == ErrorCode::FencedMemberEpoch;
        self.lose(Some(code), &reason);
        if joining || self.heartbeat_attempts > 0 {
            self.heartbeat_again(now);
        } else {
            self.heartbeat_attempts = 1;
        }
        self.set_state(State::Fenced);
    }

    /// Gives up everything without the user's consent: another may own it already.
    pub(super) fn lose(&mut self, code: Option<ErrorCode>, reason: &str) {
        // Those whose Revoked callback was asked for are told of already.
        let told = self.revocation.take().map(|it| it.notified()).unwrap_or_default();
        let lost: BTreeSet<TopicPartition> = std::mem::take(&mut self.owned).into_keys().collect();
        self.fail_commits(code);
        self.drop_epoch();
        if lost.is_empty() {
            return;
        }
        let untold: BTreeSet<TopicPartition> = lost.difference(&told).cloned().collect();
        self.out.push(Output::Released { partitions: lost.clone() });
        self.out.event(GroupEvent::Lost { partitions: lost, reason: reason.into() });
        if !untold.is_empty() {
            self.lost_callback = Some(self.out.call_back(CallbackKind::Lost, untold));
        }
    }

    /// Out of the group: no epoch, no target, nothing in flight that still counts.
    pub(super) fn drop_epoch(&mut self) {
        self.epoch = 0;
        self.heartbeat = None;
        self.owned_is_in_flight = false;
        self.last_sent = LastSentSubscription::default();
        (self.target, self.working_on, self.acknowledged) = (None, None, None);
        (self.assigned_callback, self.rebalance, self.moved) = (None, None, (0, 0));
        self.lease.unconfirm();
        self.revoke_by = None;
        (self.commit_awaits_epoch, self.offset_fetch_awaits_epoch) = (false, false);
        self.commits.forget_auto_commit();
        // What is looked up may be another's to commit meanwhile, and be gained again.
        self.offset_fetch.clear();
        for timer in [Timer::Heartbeat, Timer::Session, Timer::AutoCommit, Timer::ResolveTopicIds, Timer::Revocation] {
            self.out.timers.clear(timer);
        }
    }

    /// The membership is over, for good.
    pub(super) fn fail(&mut self, error: GroupError, now: Now) {
        match self.state {
            State::Fatal | State::Unsubscribed => return,
            // It is over anyway, and trying to leave again and again would not mend it.
            State::PrepareLeaving | State::Leaving => {
                let reason = error.to_string();
                self.lose(None, &reason);
                return self.stop_leaving(&reason, now);
            }
            _ => {}
        }
        self.lose(None, &error.to_string());
        if !matches!(self.state, State::Joining | State::Reconciling | State::Acknowledging | State::Stable) {
            return;
        }
        self.fatal = Some(error.clone());
        self.set_state(State::Fatal);
        self.out.push(Output::Raise { error, fatal: true });
    }

    /// The broker lacks the protocol, or does not allow it for this group.
    pub(super) fn protocol_missing(&mut self, reason: &str, now: Now) {
        if self.state != State::Joining || !self.config.falls_back {
            let group = self.config.group_id.clone();
            return self.fail(GroupError::Unsupported { group, reason: reason.into() }, now);
        }
        self.lose(None, reason);
        self.subscription = None;
        self.end_lease(now);
        self.out.timers.clear_all();
        self.set_state(State::Unsubscribed);
        self.out.event(GroupEvent::FellBack { reason: reason.into() });
        self.out.push(Output::FallBack);
    }

    /// Joins again once the user knows of what was lost, and, of a stale member, polls.
    pub(super) fn advance_out_of_group(&mut self) {
        let back = match self.state {
            State::Fenced => true,
            State::Stale => self.last_poll > self.stale_since,
            _ => false,
        };
        if back && self.lost_callback.is_none() {
            self.begin_joining();
        }
    }

    pub(super) fn keep_poll_timer(&mut self) {
        // Nor does a member join for a user who does not poll: it would get partitions that nobody reads.
        let watched = matches!(self.state, State::Joining | State::Reconciling | State::Acknowledging | State::Stable);
        // Leaving has a deadline of its own.
        let watched = watched && self.exit.is_none();
        self.out.timers.put(Timer::Poll, watched.then(|| self.last_poll + self.config.max_poll_interval));
    }

    /// The user does not poll: others are to read on. What it holds is lost, as its partitions are given away at once.
    pub(super) fn poll_expired(&mut self, now: Now) {
        let (group, after) = (self.config.group_id.clone(), self.config.max_poll_interval);
        let known = self.may_be_known();
        // Who is not in the group has nothing to leave.
        if self.epoch > 0 {
            let error = GroupError::MaxPollExceeded { group, after };
            self.out.push(Output::Raise { error, fatal: false });
        }
        self.stale_since = now;
        self.set_state(State::PrepareLeaving);
        self.lose(None, "the user did not poll for max.poll.interval.ms");
        self.set_state(State::Leaving);
        self.out.timers.clear(Timer::HeartbeatBackoff);
        if known && self.coordinator.node_id().is_some() {
            self.send_leave(now);
        } else {
            self.may_have_place |= known;
            self.set_state(State::Stale);
        }
    }

    /// Whether the coordinator may have a place for this member.
    pub(super) fn may_be_known(&self) -> bool {
        self.epoch > 0 || self.may_have_place || self.heartbeat.is_some()
    }
}
