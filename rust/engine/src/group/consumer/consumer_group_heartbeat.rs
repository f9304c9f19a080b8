//! ConsumerGroupHeartbeat: its contents, when it is sent, and how its answer is handled (contract 6).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;

use super::error_codes::{api, reaction};
use super::member::ConsumerMember;
use crate::Now;
use crate::group::error::GroupError;
use crate::group::messages::{
    Call, CallId, CallKind, GroupEvent, GroupOutcome, GroupResponse, HeartbeatCall, Output, Partitions, Reaction,
    Subscription,
};
use crate::group::outbox::{InFlight, Timer};
use crate::group::state::ConsumerState;

/// The member epoch of a heartbeat that joins.
const JOIN: i32 = 0;
/// The member epoch of a heartbeat that leaves.
const LEAVE: i32 = -1;
/// The member epoch of a heartbeat with which a static member leaves temporarily.
const LEAVE_STATIC: i32 = -2;
/// The number of retries of a join that the coordinator answered UNKNOWN_SERVER_ERROR: about half a minute of attempts.
const FAILED_JOINS: u32 = 30;

/// The subscription that the coordinator has, as far as the member knows. `None` if it has to be sent: at a join, and
/// if it is not certain that the last one arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LastSentSubscription(Option<Subscribed>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Subscribed {
    topics: BTreeSet<Arc<str>>,
    regex: Option<String>,
}

impl Subscribed {
    fn of(subscription: Option<&Subscription>) -> Self {
        match subscription {
            Some(Subscription::Topics(topics) | Subscription::Matched(topics)) => {
                Self { topics: topics.clone(), regex: None }
            }
            Some(Subscription::Regex(regex)) => Self { topics: BTreeSet::new(), regex: Some(regex.clone()) },
            None => Self { topics: BTreeSet::new(), regex: None },
        }
    }
}

impl ConsumerMember {
    /// Sends a heartbeat if one is due, or if there is a change to send. Only one is in flight at a time, so each
    /// answer refers to the state of the member when that heartbeat was sent.
    pub(super) fn advance_heartbeat(&mut self, now: Now) {
        let may = self.state == ConsumerState::Joining || self.in_group();
        let held = self.base.heartbeats.in_flight.is_some()
            || self.base.coordinator.node_id().is_none()
            || self.base.out.timers.waits(Timer::HeartbeatBackoff, now);
        if !may || held || self.would_overtake_a_commit() {
            return;
        }
        if self.leave_first {
            let call = self.leave_call();
            self.base.heartbeats.in_flight = self.send(CallKind::Heartbeat, call, now);
            return;
        }
        if self.has_change_to_send() || !self.base.out.timers.waits(Timer::Heartbeat, now) {
            self.send_heartbeat(now);
        }
    }

    /// A static member that joins again may get its former epoch back. A commit from before uses another connection,
    /// and must not arrive after the join: the coordinator would accept it like a new one.
    fn would_overtake_a_commit(&self) -> bool {
        self.state == ConsumerState::Joining
            && self.base.config.instance_id.is_some()
            && self.base.commits.is_in_flight()
    }

    /// Tells whether the next heartbeat does not wait for its interval. While the member prepares to leave, its
    /// subscription is already empty, and that is not a change to send.
    fn has_change_to_send(&self) -> bool {
        match self.state {
            ConsumerState::Joining | ConsumerState::Acknowledging => true,
            ConsumerState::Reconciling | ConsumerState::Stable => self
                .last_sent
                .0
                .as_ref()
                .is_none_or(|last_sent| *last_sent != Subscribed::of(self.subscription.as_ref())),
            _ => false,
        }
    }

    fn send_heartbeat(&mut self, now: Now) {
        let call = self.heartbeat_call(now);
        self.owns_only_target = match (&call.owned, &self.reconciliation.target) {
            (Some(owned), Some(target)) => owned.is_subset(target),
            _ => false,
        };
        self.owned_is_in_flight |= call.owned.is_some();
        self.last_sent = LastSentSubscription(Some(Subscribed::of(self.subscription.as_ref())));
        self.regex_was_sent |= call.regex.as_ref().is_some_and(|regex| !regex.is_empty());
        self.base.heartbeats.in_flight = self.send(CallKind::Heartbeat, Call::ConsumerGroupHeartbeat(call), now);
        self.base
            .out
            .timers
            .set(Timer::Heartbeat, now + self.base.heartbeats.cadence.pause(self.heartbeat_interval, now));
        if self.state == ConsumerState::Acknowledging {
            self.acknowledgement_sent(now);
        }
    }

    /// The next heartbeat: all fields at a join and after a failure, otherwise only changed ones. An acknowledgement
    /// always carries the owned partitions, even if they are the same as before: `None` never acknowledges anything.
    fn heartbeat_call(&self, now: Now) -> HeartbeatCall {
        let leaving = self.state == ConsumerState::PrepareLeaving;
        let last_sent =
            self.last_sent.0.as_ref().filter(|_| self.late_heartbeat_until.is_none_or(|until| now >= until));
        let is_full = last_sent.is_none() && !leaving;
        let is = Subscribed::of(self.subscription.as_ref());
        let regex = match (is.regex, last_sent) {
            _ if leaving => None,
            (regex, Some(last_sent)) if regex == last_sent.regex => None,
            (Some(regex), _) => Some(regex),
            // The coordinator keeps a pattern until an empty one is sent.
            (None, _) => self.regex_was_sent.then(String::new),
        };
        let topics =
            Some(is.topics).filter(|topics| !leaving && last_sent.is_none_or(|last_sent| last_sent.topics != *topics));
        HeartbeatCall {
            group_id: self.base.config.group_id.clone(),
            member_id: self.member_id.clone(),
            epoch: self.epoch,
            instance_id: self.base.config.instance_id.clone(),
            rack: self.base.config.rack.clone().filter(|_| is_full),
            rebalance_timeout: is_full.then_some(self.base.config.max_poll_interval),
            topics,
            regex,
            assignor: self.assignor.clone().filter(|_| is_full),
            // A member that leaves after a lost answer sends them too: the coordinator recognizes a member that missed
            // its last epoch by its owned partitions.
            owned: (last_sent.is_none() || self.state == ConsumerState::Acknowledging).then(|| self.owned_by_id()),
        }
    }

    /// The heartbeat that leaves; for a static member, the one that leaves temporarily.
    pub(super) fn leave_call(&self) -> Call {
        Call::ConsumerGroupHeartbeat(HeartbeatCall {
            group_id: self.base.config.group_id.clone(),
            member_id: self.member_id.clone(),
            epoch: if self.base.config.instance_id.is_some() { LEAVE_STATIC } else { LEAVE },
            instance_id: self.base.config.instance_id.clone(),
            rack: None,
            rebalance_timeout: None,
            topics: None,
            regex: None,
            assignor: None,
            owned: None,
        })
    }

    pub(super) fn owned_by_id(&self) -> Partitions {
        self.base.owned.iter().map(|(partition, &id)| (id, partition.partition)).collect()
    }

    /// Cancels the heartbeat in flight, whose contents may not have arrived. Or it arrives after the next one: then
    /// its answer, which is ignored, may carry a new assignment, and the coordinator repeats that only for a heartbeat
    /// with all fields.
    pub(super) fn forget_heartbeat(&mut self, now: Now) {
        if self.base.heartbeats.in_flight.take().is_some() {
            self.late_heartbeat_until = Some(now + self.base.config.session_timeout * 2);
            self.leave_was_lost |= self.leave_first;
        }
        self.last_sent = LastSentSubscription::default();
        self.may_have_place |= self.epoch == JOIN;
    }

    pub(super) fn heartbeat_answered(&mut self, id: CallId, call: InFlight, outcome: GroupOutcome, now: Now) {
        // The answer to a heartbeat sent before the member was fenced or left says nothing about its current state
        // (KAFKA-19335).
        if self.base.heartbeats.in_flight != Some(id) {
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
        self.base.coordinator.heard(code);
        if self.leave_first {
            return self.left_first(code, call, now);
        }
        if code != ErrorCode::None {
            return self.heartbeat_refused(code, message, call, now);
        }
        if epoch <= JOIN {
            return self.heartbeat_lost(now);
        }
        self.base.heartbeats.in_flight = None;
        let confirmed_before = self.base.lease.confirmed().unwrap_or(call.sent);
        self.take_answer(epoch, interval, call, now);
        if self.state != ConsumerState::PrepareLeaving {
            self.take_assignment(assignment, confirmed_before, now);
        }
        self.base
            .out
            .timers
            .set(Timer::Heartbeat, call.sent + self.base.heartbeats.cadence.pause(self.heartbeat_interval, now));
    }

    fn take_answer(&mut self, epoch: i32, interval: Duration, call: InFlight, now: Now) {
        self.base.out.event(GroupEvent::Heartbeat { took: now - call.sent });
        self.raised = None;
        self.may_have_place = false;
        // If the broker sends no interval, the last one remains: heartbeats must not follow each other at once.
        if !interval.is_zero() {
            self.heartbeat_interval = interval;
        }
        match self.state == ConsumerState::Joining {
            true => {
                let (protocol, took) = (self.assignor.clone().unwrap_or_default(), now - call.sent);
                self.base.out.event(GroupEvent::Joined { generation: epoch, leader: false, protocol, took });
                // Others learn of this member within one interval, and it learns of the partitions that they revoked
                // within another.
                self.base.heartbeats.cadence.quicken(self.heartbeat_interval * 2, now);
                if let Some(interval) = self.base.config.auto_commit_interval {
                    self.base.out.timers.set(Timer::AutoCommit, now + interval);
                }
            }
            // A join does not reset them: a member that is removed right after each join must not join repeatedly
            // without a pause.
            false => self.base.heartbeats.attempts = 0,
        }
        self.epoch = epoch;
        self.owned_is_in_flight = false;
        (self.awaits_epoch.offset_commit, self.awaits_epoch.offset_fetch) = (false, false);
        if self.owns_only_target {
            self.revoke_by = None;
        }
        self.confirm(call.sent, now);
    }

    fn take_assignment(&mut self, assignment: Option<Partitions>, confirmed_before: Now, now: Now) {
        match assignment {
            Some(assignment) if self.reconciliation.target.as_ref() != Some(&assignment) => {
                self.reconciliation.target = Some(assignment);
                self.base.heartbeats.cadence.quicken(self.heartbeat_interval, now);
                self.watch_revocation(confirmed_before);
                if matches!(self.state, ConsumerState::Joining | ConsumerState::Stable) {
                    self.set_state(ConsumerState::Reconciling);
                }
                self.reconciliation.since.get_or_insert(now);
                self.base.out.event(GroupEvent::RebalanceStarted { reason: "the coordinator has a new target".into() });
            }
            // A member without a target has nothing to reach, and nothing to acknowledge.
            _ if self.state == ConsumerState::Joining => self.set_state(ConsumerState::Stable),
            _ => {}
        }
    }

    /// The heartbeat or its answer was lost: the next one carries all fields.
    fn heartbeat_lost(&mut self, now: Now) {
        self.forget_heartbeat(now);
        self.heartbeat_again(now);
    }

    pub(super) fn heartbeat_again(&mut self, now: Now) {
        let delay = self.base.out.delay(self.base.heartbeats.attempts);
        self.base.heartbeats.attempts = self.base.heartbeats.attempts.saturating_add(1);
        self.base.out.timers.set(Timer::HeartbeatBackoff, now + delay);
        // The next heartbeat is due then, even without a change to send.
        self.base.out.timers.bring_forward(Timer::Heartbeat, now + delay);
    }

    fn heartbeat_refused(&mut self, code: ErrorCode, message: String, call: InFlight, now: Now) {
        self.base.heartbeats.in_flight = None;
        self.last_sent = LastSentSubscription::default();
        let joining = self.state == ConsumerState::Joining;
        match reaction(CallKind::Heartbeat, code) {
            Reaction::Retry => {
                self.base.out.retried(api(CallKind::Heartbeat), code);
                self.heartbeat_again(now);
            }
            Reaction::Rediscover => {
                self.base.out.retried(api(CallKind::Heartbeat), code);
                self.base.out.timers.bring_forward(Timer::Heartbeat, now);
                self.coordinator_lost(call.node_id, code.name(), now);
            }
            Reaction::Report => {
                self.heartbeat_again(now);
                if self.raised.replace(code) != Some(code) {
                    let error = self.heartbeat_error(code, message);
                    self.base.out.push(Output::Raise { error, fatal: false });
                }
            }
            Reaction::Fence => self.fence(code, now),
            Reaction::FallBack if joining => {
                let reason = if message.is_empty() { code.name().to_owned() } else { message };
                self.protocol_missing(&reason, now);
            }
            Reaction::FallBack => self.fence(code, now),
            // The static id may be held by this member itself: by a join whose answer was lost, or by an epoch that was
            // fenced.
            _ if code == ErrorCode::UnreleasedInstanceId && joining && self.may_have_own_place() => {
                self.base.out.retried(api(CallKind::Heartbeat), code);
                self.leave_first = true;
                self.heartbeat_again(now);
            }
            // Kafka's coordinator answers this while a classic group that it has to upgrade has no generation yet, at
            // the start of a rolling upgrade.
            _ if code == ErrorCode::UnknownServerError && joining && self.base.heartbeats.attempts < FAILED_JOINS => {
                self.base.out.retried(api(CallKind::Heartbeat), code);
                self.heartbeat_again(now);
            }
            _ => self.fail(self.heartbeat_error(code, message), now),
        }
    }

    /// Tells whether the coordinator's static member may be this one. True only once: if the id is still held after
    /// leaving, another consumer has it.
    fn may_have_own_place(&mut self) -> bool {
        std::mem::take(&mut self.may_have_place) && self.base.config.instance_id.is_some()
    }

    /// Takes the answer to leaving before a join. A refusal means that there is nothing to leave, except
    /// FENCED_INSTANCE_ID: another consumer has the static id.
    fn left_first(&mut self, code: ErrorCode, call: InFlight, now: Now) {
        self.base.heartbeats.in_flight = None;
        match reaction(CallKind::LeaveGroup, code) {
            Reaction::Retry => self.heartbeat_again(now),
            Reaction::Rediscover => self.coordinator_lost(call.node_id, code.name(), now),
            _ => {
                self.has_left();
                if code == ErrorCode::FencedInstanceId {
                    self.fail(self.heartbeat_error(ErrorCode::UnreleasedInstanceId, String::new()), now);
                }
            }
        }
    }

    /// The user's error for an error code in the answer to a heartbeat.
    pub(super) fn heartbeat_error(&self, code: ErrorCode, message: String) -> GroupError {
        let group = self.base.config.group_id.clone();
        match code {
            ErrorCode::GroupAuthorizationFailed => GroupError::Denied { group },
            ErrorCode::FencedInstanceId => self.group_error(api(CallKind::Heartbeat), code),
            ErrorCode::UnsupportedAssignor => {
                let assignor = self.assignor.clone().unwrap_or_default();
                GroupError::UnsupportedAssignor { assignor, message }
            }
            ErrorCode::InvalidRegularExpression => {
                let pattern = match &self.subscription {
                    Some(Subscription::Regex(regex)) => regex.clone(),
                    _ => String::new(),
                };
                GroupError::InvalidRegex { pattern, message }
            }
            ErrorCode::GroupMaxSizeReached => GroupError::GroupFull { group, message },
            ErrorCode::UnreleasedInstanceId => {
                let instance = self.base.config.instance_id.clone().unwrap_or_default();
                GroupError::UnreleasedInstance { group, instance }
            }
            ErrorCode::TopicAuthorizationFailed => GroupError::TopicDenied { group, message },
            code => GroupError::Heartbeat { group, api: api(CallKind::Heartbeat), code, message },
        }
    }
}
