//! The state machine of a classic member: its fields, and what each input causes. Its parts are in the other files of
//! this folder, one for each task. [`ClassicMember::advance`] lets each part take a step after every input, so none
//! depends on a particular input.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::assignor_deferrals::AssignorDeferrals;
use super::config::ClassicConfig;
use super::join_group::Join;
use super::revocation::AfterRevocation;
use super::topics::SubscribedTopics;
use crate::Now;
use crate::assign::{Assignor, LastAssignment, Protocol};
use crate::group::base::{Committing, Exit, MemberBase, Status};
use crate::group::error::{CallError, GroupError};
use crate::group::messages::{
    Call, CallId, CallKind, GroupEvent, GroupResponse, Input, Output, Reaction, Subscription,
};
use crate::group::outbox::{InFlight, Timer};
use crate::group::state::{ClassicState, MemberState};
use monedula_protocol::error_code::ErrorCode;

/// A classic member of a group; see the [module](super).
pub struct ClassicMember {
    pub(in crate::group) base: MemberBase,
    pub(super) assignors: Vec<Arc<dyn Assignor>>,
    pub(super) heartbeat_interval: Duration,
    pub(super) protocol: Protocol,
    pub(super) state: ClassicState,

    pub(super) member_id: String,
    /// The generation; -1 outside of the group.
    pub(super) generation: i32,
    pub(super) leader: bool,
    pub(super) assignor: Option<String>,
    pub(super) topics: SubscribedTopics,
    pub(super) last: LastAssignment,
    /// The time when the last assignment arrived.
    pub(super) last_at: Now,
    pub(super) assignor_deferrals: AssignorDeferrals,

    pub(super) join: Join,
    pub(super) last_rebalance: Option<(Now, String)>,

    /// The number of partitions that this member, as the leader, assigned to nobody, because their owners have to
    /// revoke them first.
    pub(super) kept_back: usize,

    pub(super) then: AfterRevocation,
}

impl ClassicMember {
    /// A member without a subscription. `seed` determines its jitter.
    pub fn new(config: ClassicConfig, seed: u64) -> Self {
        Self {
            protocol: config.protocol(),
            base: MemberBase::new(config.member, seed),
            assignors: config.assignors,
            heartbeat_interval: config.heartbeat_interval,
            state: ClassicState::Unsubscribed,
            member_id: String::new(),
            generation: -1,
            leader: false,
            assignor: None,
            topics: SubscribedTopics::default(),
            last: LastAssignment { generation: -1, ..LastAssignment::default() },
            last_at: Now::ZERO,
            assignor_deferrals: AssignorDeferrals::default(),
            join: Join::default(),
            last_rebalance: None,
            kept_back: 0,
            then: AfterRevocation::Join,
        }
    }

    pub(in crate::group) fn handle(&mut self, now: Now, input: Input) {
        for timer in self.base.out.timers.take_due(now) {
            self.due(timer, now);
        }
        match input {
            // The coordinator of a classic group does not evaluate patterns.
            Input::Tick | Input::Listed { .. } | Input::Subscribe(Subscription::Regex(_)) => {}
            Input::Subscribe(Subscription::Topics(topics)) => self.subscribe(topics, false),
            Input::Subscribe(Subscription::Matched(topics)) => self.subscribe(topics, true),
            Input::Topics { topics } => self.learn_topics(topics),
            Input::Answer { id, outcome } => self.answered(id, outcome, now),
            Input::AssignmentComputed { ticket, outcome } => self.assigned_by_leader(ticket, outcome, now),
            Input::Finished { ticket, offsets } => self.finished(ticket, offsets, now),
            Input::CalledBack { ticket } => self.called_back_revoked(ticket, now),
            Input::Commit { ticket, offsets, deadline } => self.commit(ticket, offsets, deadline, now),
            Input::Rejoin { at, reason } => self.rejoin_at(at, reason, now),
            Input::Unsubscribe => {
                let deadline = now + self.base.config.max_poll_interval;
                self.leave_for(Exit { close: false, leave: true }, deadline);
            }
            Input::Close { deadline, leave } => self.leave_for(Exit { close: true, leave }, deadline),
        }
        self.advance(now);
    }

    pub(in crate::group) fn status(&self) -> Status {
        Status {
            state: MemberState::Classic(self.state),
            coordinator: self.base.coordinator.node_id(),
            member_id: self.member_id.clone(),
            generation: self.generation,
            leader: self.leader,
            assignor: self.assignor.clone(),
            protocol: self.protocol,
            subscription: self.subscription(),
            owned: self.base.owned.keys().cloned().collect(),
            unresolved: BTreeSet::new(),
            heartbeat_interval: self.heartbeat_interval,
            last_heartbeat: self.base.lease.confirmed(),
            lease_until: self.base.lease.until(),
            last_rebalance: self.last_rebalance.as_ref().map(|(at, _)| *at),
            last_rebalance_reason: self.last_rebalance.as_ref().map(|(_, reason)| reason.clone()),
            fatal: self.base.fatal.clone(),
            pending_commits: self.base.commits.len(),
            deferred_until: self.base.out.timers.at(Timer::Deferred),
            reserved: self.reserved(),
        }
    }

    /// The subscription. For a pattern, which the client evaluates, these are the matched topics.
    fn subscription(&self) -> Option<Subscription> {
        self.topics.subscribed.then(|| Subscription::Topics(self.topics.names.clone()))
    }

    /// Lets every part take the steps that it can take now.
    fn advance(&mut self, now: Now) {
        self.advance_revocation();
        self.advance_exit(now);
        self.advance_find_coordinator(now);
        self.advance_join(now);
        self.advance_heartbeat(now);
        // The lease comes before the commits, which depend on it.
        self.advance_lease(now);
        self.advance_commits(now);
        self.advance_offset_fetch(now);
        self.advance_leave(now);
        self.keep_poll_timer();
        if std::mem::take(&mut self.base.leave.closed) {
            self.base.out.push(Output::Closed);
        }
    }

    fn due(&mut self, timer: Timer, now: Now) {
        match timer {
            Timer::Session => self.session_timed_out(now),
            Timer::Lease => self.base.lease_over(),
            Timer::Poll => self.poll_expired(now),
            Timer::AutoCommit => self.auto_commit_due(now),
            Timer::Rejoin => self.rejoin_now(self.join.later_reason.clone()),
            Timer::Deferred => self.deferred_due(),
            Timer::KeptBack => self.want_rejoin("partitions that were released have no owner yet".into()),
            Timer::CommitDeadline => self.expire_commits(now),
            Timer::Revocation => self.revocation_timed_out(now),
            Timer::RefusedOffsets => self.base.offset_fetch.retry_refused(),
            Timer::Close => self.exit_late(now),
            // `advance` takes the steps that these timers delayed.
            Timer::Heartbeat
            | Timer::FindCoordinator
            | Timer::JoinGroup
            | Timer::RefreshMetadata
            | Timer::OffsetCommit
            | Timer::OffsetFetch => {}
            // KIP-848 only.
            Timer::HeartbeatBackoff | Timer::ResolveTopicIds => {}
        }
    }

    fn answered(&mut self, id: CallId, outcome: Result<GroupResponse, CallError>, now: Now) {
        let Some(call) = self.base.out.take_in_flight(id) else { return };
        let is_unsent = matches!(outcome, Err(CallError::Unsent(_)));
        let outcome = match outcome {
            Ok(answer) => Ok(answer),
            Err(CallError::Lost(reason) | CallError::Unsent(reason)) => {
                self.base.out.event(GroupEvent::Retried { api: call.kind.name(), reason: reason.clone() });
                Err(reason)
            }
            Err(CallError::Never(reason)) => {
                let group = self.base.config.group_id.clone();
                if call.kind == CallKind::LeaveGroup {
                    return self.cannot_leave(id, &reason, now);
                }
                self.fail(GroupError::Call { group, reason: reason.clone() }, now);
                Err(reason)
            }
        };
        match (call.kind, outcome) {
            (CallKind::FindCoordinator, outcome) => self.found(id, &outcome, now),
            (CallKind::JoinGroup | CallKind::SyncGroup, outcome) if self.base.leave.exit.is_some() => {
                self.answered_on_exit(id, call, outcome, now)
            }
            (CallKind::JoinGroup, Ok(answer)) => self.joined(id, call, answer, now),
            (CallKind::JoinGroup, Err(reason)) => self.join_failed(id, call, is_unsent, &reason, now),
            (CallKind::SyncGroup, outcome) => self.synced(id, call, outcome, now),
            (CallKind::Heartbeat, outcome) => self.heartbeat_answered(id, call, outcome, now),
            (CallKind::LeaveGroup, outcome) => self.left(id, call, outcome, now),
            (CallKind::OffsetCommit, outcome) => self.commit_answered(id, call, outcome, now),
            (CallKind::OffsetFetch, outcome) => self.offsets_fetched(id, call, outcome, now),
        }
    }

    fn subscribe(&mut self, topics: BTreeSet<Arc<str>>, from_pattern: bool) {
        if self.base.leave.exit.is_some_and(|exit| exit.close) || self.state == ClassicState::Fatal {
            return;
        }
        // A pattern matches a new topic. It did not exist before, so it is read from its start (req S084).
        if from_pattern && self.topics.subscribed {
            for topic in topics.difference(&self.topics.names) {
                self.topics.first_seen.expect(topic);
            }
        }
        self.topics.first_seen.keep(&topics);
        self.topics.names = topics;
        self.topics.subscribed = true;
        if self.state == ClassicState::Unsubscribed {
            self.base.fatal = None;
            self.set_state(ClassicState::Unjoined);
            self.want_rejoin("first join".into());
        } else if self.topics.names != self.topics.joined && self.base.leave.exit.is_none() {
            self.want_rejoin("the subscription changed".into());
        }
    }

    /// Releases all owned partitions at once, without a revocation: other members may own them already.
    pub(super) fn lose(&mut self, code: Option<ErrorCode>, reason: &str) {
        self.base.lose(code, reason);
        self.join.prepared = false;
        self.join.outcome_unknown = false;
        self.last.current = false;
    }

    /// Leaves the generation: no answer in flight counts any more.
    pub(super) fn drop_generation(&mut self) {
        self.generation = -1;
        self.last.current = false;
        self.assignor_deferrals.losses.clear();
        self.leader = false;
        self.topics.assigned_counts = None;
        (self.join.join_group, self.join.sync_group, self.base.heartbeats.in_flight, self.join.computing_assignment) =
            (None, None, None, None);
        self.base.lease.unconfirm();
        self.join.deadline = None;
        self.base.commits.forget_auto_commit();
        for timer in
            [Timer::Heartbeat, Timer::Session, Timer::Lease, Timer::AutoCommit, Timer::KeptBack, Timer::Deferred]
        {
            self.base.out.timers.clear(timer);
        }
    }

    /// As [`Self::drop_generation`], and forgets the member id.
    pub(super) fn forget_member(&mut self) {
        self.drop_generation();
        self.member_id.clear();
    }

    /// The owned partitions are lost, and the member joins again: with its id, or without one (`forget`).
    pub(super) fn lose_and_rejoin(&mut self, code: ErrorCode, api: &str, forget: bool) {
        let reason = format!("{api} was answered {}", code.name());
        self.lose(Some(code), &reason);
        match forget {
            true => self.forget_member(),
            false => self.drop_generation(),
        }
        if !matches!(self.state, ClassicState::Leaving | ClassicState::Unjoined) {
            self.set_state(ClassicState::Unjoined);
        }
        self.want_rejoin(reason);
    }

    /// Ends the membership with an error that a retry cannot fix.
    pub(super) fn fail(&mut self, error: GroupError, now: Now) {
        match self.state {
            ClassicState::Fatal | ClassicState::Unsubscribed => return,
            // The member is leaving anyway, and further attempts to leave would fail too.
            ClassicState::Leaving => return self.end_exit(&error.to_string(), now),
            _ => {}
        }
        self.lose(None, &error.to_string());
        self.drop_generation();
        (self.join.reason, self.join.rebalance) = (None, None);
        self.base.fatal = Some(error.clone());
        self.set_state(ClassicState::Fatal);
        self.base.out.push(Output::Raise { error, fatal: true });
    }

    /// The user's error for an error code in an answer of `api`.
    pub(super) fn group_error(&self, api: &'static str, code: ErrorCode) -> GroupError {
        let group = self.base.config.group_id.clone();
        match code {
            ErrorCode::InconsistentGroupProtocol => {
                let assignors: Vec<&str> = self.assignors.iter().map(|assignor| assignor.name()).collect();
                GroupError::InconsistentProtocol { group, assignors: assignors.join(", ") }
            }
            ErrorCode::InvalidSessionTimeout => {
                GroupError::InvalidSessionTimeout { session_timeout: self.base.config.session_timeout }
            }
            code => GroupError::of_code(api, code, &group, self.base.config.instance_id.as_deref()),
        }
    }

    /// Makes the member join again as soon as it can.
    pub(super) fn want_rejoin(&mut self, reason: String) {
        if !self.topics.subscribed || matches!(self.state, ClassicState::Fatal | ClassicState::Stale) {
            return;
        }
        self.join.reason.get_or_insert(reason);
    }

    pub(super) fn send(&mut self, kind: CallKind, call: Call, now: Now) -> Option<CallId> {
        self.base.send(kind, call, self.generation, now)
    }

    pub(super) fn set_state(&mut self, to: ClassicState) {
        let from = self.state;
        if from == to {
            return;
        }
        debug_assert!(from.successors().contains(&to), "no way from {from:?} to {to:?}");
        self.state = to;
        let (from, to) = (MemberState::Classic(from), MemberState::Classic(to));
        self.base.out.event(GroupEvent::StateChanged { from, to });
    }

    /// Tells whether the member is in the group: it has a generation, and a state in which that is valid.
    pub(super) fn in_group(&self) -> bool {
        self.generation >= 0
            && matches!(
                self.state,
                ClassicState::CompletingRebalance
                    | ClassicState::Stable
                    | ClassicState::Revoking
                    | ClassicState::PreparingRebalance
            )
    }

    /// Handles an error that concerns the coordinator itself. The caller handles all others.
    pub(super) fn coordinator_error(&mut self, reaction: Reaction, call: InFlight, reason: &str, now: Now) {
        if reaction == Reaction::Rediscover {
            self.coordinator_lost(call.node_id, reason, true, now);
        }
    }
}
