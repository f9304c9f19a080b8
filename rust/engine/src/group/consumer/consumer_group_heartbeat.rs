//! Heartbeats: what is in them, when they go, and what their answers say (contract 6).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;

use super::member::Member;
use super::reactions::{api, reaction};
use super::{Reaction, State};
use crate::Now;
use crate::group::{
    Answer, Call, CallId, GroupError, GroupEvent, HeartbeatCall, InFlight, Kind, Output, Partitions, Subscription,
    Timer,
};

/// The epoch that joins.
const JOIN: i32 = 0;
/// The epoch that leaves.
const LEAVE: i32 = -1;
/// The epoch with which a static member leaves for a while.
const LEAVE_STATIC: i32 = -2;
/// How often a join is worth another attempt that the coordinator failed at without a word: half a minute of them.
const FAILED_JOINS: u32 = 30;

/// What the coordinator was told of the subscription and not told anything else since; `None` where it has to be told: at a
/// join, and whenever it is not certain what arrived.
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

impl Member {
    /// Sends a heartbeat if one is due, or something is to be said. One is in flight at a time, so that each answer is about
    /// what this member was when it was asked.
    pub(super) fn advance_heartbeat(&mut self, now: Now) {
        let may = self.state == State::Joining || self.in_group();
        let held = self.heartbeat.is_some()
            || self.coordinator.node_id().is_none()
            || self.out.timers.waits(Timer::HeartbeatBackoff, now);
        if !may || held || self.would_overtake_a_commit() {
            return;
        }
        if self.leave_first {
            let call = self.leave_call();
            self.heartbeat = self.send(Kind::Heartbeat, call, now);
            return;
        }
        if self.has_change_to_send() || !self.out.timers.waits(Timer::Heartbeat, now) {
            self.send_heartbeat(now);
        }
    }

    /// A static member that joins again may come back in the epoch that it had. A commit of before goes over another connection: it
    /// must not arrive afterwards, when it looks as good as those of now.
    fn would_overtake_a_commit(&self) -> bool {
        self.state == State::Joining && self.config.instance_id.is_some() && self.commits.is_in_flight()
    }

    /// Whether the next heartbeat does not wait for its interval. While the member prepares to leave, its subscription is gone
    /// already and no news.
    fn has_change_to_send(&self) -> bool {
        match self.state {
            State::Joining | State::Acknowledging => true,
            State::Reconciling | State::Stable => {
                self.last_sent.0.as_ref().is_none_or(|told| *told != Subscribed::of(self.subscription.as_ref()))
            }
            _ => false,
        }
    }

    fn send_heartbeat(&mut self, now: Now) {
        let call = self.heartbeat_call(now);
        self.owns_only_target = match (&call.owned, &self.target) {
            (Some(owned), Some(target)) => owned.is_subset(target),
            _ => false,
        };
        self.owned_is_in_flight |= call.owned.is_some();
        self.last_sent = LastSentSubscription(Some(Subscribed::of(self.subscription.as_ref())));
        self.regex_was_sent |= call.regex.as_ref().is_some_and(|regex| !regex.is_empty());
        self.heartbeat = self.send(Kind::Heartbeat, Call::ConsumerGroupHeartbeat(call), now);
        self.out.timers.set(Timer::Heartbeat, now + self.cadence.pause(self.heartbeat_interval, now));
        if self.state == State::Acknowledging {
            self.acknowledgement_sent(now);
        }
    }

    /// Everything at a join and where it is not certain what arrived, else what changed. What is owned is said in an
    /// acknowledgement too, even if it is what was said before: that it is `None` never acknowledges anything.
    fn heartbeat_call(&self, now: Now) -> HeartbeatCall {
        let leaving = self.state == State::PrepareLeaving;
        let told = self.last_sent.0.as_ref().filter(|_| self.late_heartbeat_until.is_none_or(|until| now >= until));
        let is_full = told.is_none() && !leaving;
        let is = Subscribed::of(self.subscription.as_ref());
        let regex = match (is.regex, told) {
            _ if leaving => None,
            (regex, Some(told)) if regex == told.regex => None,
            (Some(regex), _) => Some(regex),
            // The coordinator keeps a pattern until it is told that there is none.
            (None, _) => self.regex_was_sent.then(String::new),
        };
        let topics = Some(is.topics).filter(|topics| !leaving && told.is_none_or(|told| told.topics != *topics));
        HeartbeatCall {
            group_id: self.config.group_id.clone(),
            member_id: self.member_id.clone(),
            epoch: self.epoch,
            instance_id: self.config.instance_id.clone(),
            rack: self.config.rack.clone().filter(|_| is_full),
            rebalance_timeout: is_full.then_some(self.config.max_poll_interval),
            topics,
            regex,
            assignor: self.config.assignor.clone().filter(|_| is_full),
            // After a lost answer too while it leaves: by it the coordinator knows a member that missed its last epoch.
            owned: (told.is_none() || self.state == State::Acknowledging).then(|| self.owned_by_id()),
        }
    }

    /// Leaves, or for a static member, leaves for a while.
    pub(super) fn leave_call(&self) -> Call {
        Call::ConsumerGroupHeartbeat(HeartbeatCall {
            group_id: self.config.group_id.clone(),
            member_id: self.member_id.clone(),
            epoch: if self.config.instance_id.is_some() { LEAVE_STATIC } else { LEAVE },
            instance_id: self.config.instance_id.clone(),
            rack: None,
            rebalance_timeout: None,
            topics: None,
            regex: None,
            assignor: None,
            owned: None,
        })
    }

    pub(super) fn owned_by_id(&self) -> Partitions {
        self.owned.iter().map(|(partition, &id)| (id, partition.partition)).collect()
    }

    /// Whatever the heartbeat in flight says, it is not waited for, and what it said may not have arrived. Or it arrives later than
    /// the next: a new assignment is in its answer then, which nobody hears, and is repeated only to who says everything.
    pub(super) fn forget_heartbeat(&mut self, now: Now) {
        if self.heartbeat.take().is_some() {
            self.late_heartbeat_until = Some(now + self.config.session_timeout * 2);
        }
        self.last_sent = LastSentSubscription::default();
        self.may_have_place |= self.epoch == JOIN;
    }

    pub(super) fn heartbeat_answered(&mut self, id: CallId, call: InFlight, outcome: Result<Answer, String>, now: Now) {
        // A heartbeat of before the member was fenced, or left, says nothing of what it is now (KAFKA-19335).
        if self.heartbeat != Some(id) {
            return;
        }
        let (code, message, epoch, interval, assignment) = match outcome {
            Ok(Answer::ConsumerGroupHeartbeat { code, message, epoch, interval, assignment }) => {
                (code, message, epoch, interval, assignment)
            }
            Ok(_) => return self.heartbeat_lost(now),
            Err(reason) => {
                self.heartbeat_lost(now);
                return self.coordinator_lost(call.node_id, &reason, now);
            }
        };
        self.coordinator_answered(code);
        if self.leave_first {
            return self.left_first(code, call, now);
        }
        if code != ErrorCode::None {
            return self.heartbeat_refused(code, message, call, now);
        }
        if epoch <= JOIN {
            return self.heartbeat_lost(now);
        }
        self.heartbeat = None;
        let confirmed_before = self.lease.confirmed().unwrap_or(call.sent);
        self.take_answer(epoch, interval, call, now);
        if self.state != State::PrepareLeaving {
            self.take_assignment(assignment, confirmed_before, now);
        }
        self.out.timers.set(Timer::Heartbeat, call.sent + self.cadence.pause(self.heartbeat_interval, now));
    }

    fn take_answer(&mut self, epoch: i32, interval: Duration, call: InFlight, now: Now) {
        self.out.event(GroupEvent::Heartbeat { took: now - call.sent });
        self.raised = None;
        self.may_have_place = false;
        // Of a broker that says none, the last one counts: heartbeats must not follow each other at once.
        if !interval.is_zero() {
            self.heartbeat_interval = interval;
        }
        match self.state == State::Joining {
            true => {
                let (protocol, took) = (self.config.assignor.clone().unwrap_or_default(), now - call.sent);
                self.out.event(GroupEvent::Joined { generation: epoch, leader: false, protocol, took });
                // Others hear of this member within one interval, and it hears of what they gave back within another.
                self.cadence.quicken(self.heartbeat_interval * 2, now);
                if let Some(interval) = self.config.auto_commit_interval {
                    self.out.timers.set(Timer::AutoCommit, now + interval);
                }
            }
            // A member that is thrown out right after each join must not join again and again without a pause.
            false => self.heartbeat_attempts = 0,
        }
        self.epoch = epoch;
        self.owned_is_in_flight = false;
        (self.commit_awaits_epoch, self.offset_fetch_awaits_epoch) = (false, false);
        if self.owns_only_target {
            self.revoke_by = None;
        }
        self.confirm(call.sent, now);
    }

    fn take_assignment(&mut self, assignment: Option<Partitions>, confirmed_before: Now, now: Now) {
        match assignment {
            Some(assignment) if self.target.as_ref() != Some(&assignment) => {
                self.target = Some(assignment);
                self.cadence.quicken(self.heartbeat_interval, now);
                self.watch_revocation(confirmed_before);
                if matches!(self.state, State::Joining | State::Stable) {
                    self.set_state(State::Reconciling);
                }
                self.rebalance.get_or_insert(now);
                self.out.event(GroupEvent::RebalanceStarted { reason: "the coordinator has a new target".into() });
            }
            // Nothing to reach, and nothing to acknowledge.
            _ if self.state == State::Joining => self.set_state(State::Stable),
            _ => {}
        }
    }

    /// It did not arrive, or its answer did not: the next says everything.
    fn heartbeat_lost(&mut self, now: Now) {
        self.forget_heartbeat(now);
        self.heartbeat_again(now);
    }

    pub(super) fn heartbeat_again(&mut self, now: Now) {
        let delay = self.out.delay(self.heartbeat_attempts);
        self.heartbeat_attempts = self.heartbeat_attempts.saturating_add(1);
        self.out.timers.set(Timer::HeartbeatBackoff, now + delay);
        // What was to be said is said then; with nothing to be said, everything is.
        self.out.timers.bring_forward(Timer::Heartbeat, now + delay);
    }

    fn heartbeat_refused(&mut self, code: ErrorCode, message: String, call: InFlight, now: Now) {
        self.heartbeat = None;
        self.last_sent = LastSentSubscription::default();
        let joining = self.state == State::Joining;
        match reaction(api(Kind::Heartbeat), code) {
            Reaction::Retry => {
                self.out.retried(api(Kind::Heartbeat), code);
                self.heartbeat_again(now);
            }
            Reaction::Rediscover => {
                self.out.retried(api(Kind::Heartbeat), code);
                self.out.timers.bring_forward(Timer::Heartbeat, now);
                self.coordinator_lost(call.node_id, code.name(), now);
            }
            Reaction::Tell => {
                self.heartbeat_again(now);
                if self.raised.replace(code) != Some(code) {
                    let error = self.heartbeat_error(code, message);
                    self.out.push(Output::Raise { error, fatal: false });
                }
            }
            Reaction::Fence => self.fence(code, now),
            Reaction::FallBack if joining => {
                let reason = if message.is_empty() { code.name().to_owned() } else { message };
                self.protocol_missing(&reason, now);
            }
            Reaction::FallBack => self.fence(code, now),
            // The place may be this member's own: of a join whose answer was lost, or of an epoch that was fenced.
            _ if code == ErrorCode::UnreleasedInstanceId && joining && self.may_have_own_place() => {
                self.out.retried(api(Kind::Heartbeat), code);
                self.leave_first = true;
                self.heartbeat_again(now);
            }
            // As Kafka's does while a classic group that it is to upgrade has no generation: at the start of a rolling upgrade.
            _ if code == ErrorCode::UnknownServerError && joining && self.heartbeat_attempts < FAILED_JOINS => {
                self.out.retried(api(Kind::Heartbeat), code);
                self.heartbeat_again(now);
            }
            _ => self.fail(self.heartbeat_error(code, message), now),
        }
    }

    /// Only one try: whoever has the id then is another.
    fn may_have_own_place(&mut self) -> bool {
        std::mem::take(&mut self.may_have_place) && self.config.instance_id.is_some()
    }

    /// The answer to leaving before a join. What refuses it says that there is nothing to leave, but for another's static id.
    fn left_first(&mut self, code: ErrorCode, call: InFlight, now: Now) {
        self.heartbeat = None;
        match reaction(api(Kind::LeaveGroup), code) {
            Reaction::Retry => self.heartbeat_again(now),
            Reaction::Rediscover => self.coordinator_lost(call.node_id, code.name(), now),
            _ => {
                (self.leave_first, self.may_have_place) = (false, false);
                if code == ErrorCode::FencedInstanceId {
                    self.fail(self.heartbeat_error(ErrorCode::UnreleasedInstanceId, String::new()), now);
                }
            }
        }
    }

    /// The error for the user that an answer means.
    pub(super) fn heartbeat_error(&self, code: ErrorCode, message: String) -> GroupError {
        let group = self.config.group_id.clone();
        match code {
            ErrorCode::GroupAuthorizationFailed => GroupError::Denied { group },
            ErrorCode::FencedInstanceId => self.group_error(api(Kind::Heartbeat), code),
            ErrorCode::UnsupportedAssignor => {
                let assignor = self.config.assignor.clone().unwrap_or_default();
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
                let instance = self.config.instance_id.clone().unwrap_or_default();
                GroupError::UnreleasedInstance { group, instance }
            }
            ErrorCode::TopicAuthorizationFailed => GroupError::TopicDenied { group, message },
            code => GroupError::Heartbeat { group, code, message },
        }
    }
}
