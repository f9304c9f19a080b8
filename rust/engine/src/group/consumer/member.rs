//! The state machine of a member under KIP-848: its fields, and what each input causes. Its parts are in the other
//! files of this folder, one for each task. [`ConsumerMember::advance`] lets each part take a step after every input,
//! so none depends on a particular input.

use std::time::Duration;

use super::config::ConsumerProtocolConfig;
use super::consumer_group_heartbeat::LastSentSubscription;
use super::error_codes::api;
use super::reconciliation::Reconciliation;
use super::topics::TopicNames;
use crate::Now;
use crate::assign::Protocol;
use crate::group::base::{Committing, Exit, MemberBase, Status};
use crate::group::error::{CallError, GroupError};
use crate::group::messages::{
    Call, CallId, CallKind, GroupEvent, GroupResponse, Input, Output, Reaction, Subscription, Ticket,
};
use crate::group::outbox::{InFlight, Timer};
use crate::group::state::{ConsumerState, MemberState};
use monedula_protocol::error_code::ErrorCode;

/// A member of a group under KIP-848; see the [module](super).
pub struct ConsumerMember {
    pub(in crate::group) base: MemberBase,
    pub(super) assignor: Option<String>,
    pub(super) falls_back: bool,
    pub(super) state: ConsumerState,

    /// The member id, which stays the same for the life of the process (KIP-1082), unless `leave_was_lost`.
    pub(super) member_id: String,
    /// The member epoch; 0 outside of the group.
    pub(super) epoch: i32,
    pub(super) subscription: Option<Subscription>,
    pub(super) topics: TopicNames,

    pub(super) reconciliation: Reconciliation,
    pub(super) last_rebalance: Option<Now>,

    /// The heartbeat interval that the coordinator last sent.
    pub(super) heartbeat_interval: Duration,
    pub(super) last_sent: LastSentSubscription,
    /// Until when a heartbeat without an answer may still arrive at the coordinator.
    pub(super) late_heartbeat_until: Option<Now>,
    /// Set once a pattern was sent: the coordinator keeps it until an empty one is sent.
    pub(super) regex_was_sent: bool,
    /// Set if the heartbeat in flight reports only owned partitions that are in the target.
    pub(super) owns_only_target: bool,
    /// Set if a heartbeat reported the owned partitions and has no answer yet.
    pub(super) owned_is_in_flight: bool,
    /// The error last reported with [`Output::Raise`]; reset when a heartbeat succeeds.
    pub(super) raised: Option<ErrorCode>,
    /// Set if the coordinator may know this member although this member has no epoch.
    pub(super) may_have_place: bool,
    /// Set to leave before joining: the coordinator refuses epoch 0 of a member that it still has (KAFKA-19233).
    pub(super) leave_first: bool,
    /// Set if a heartbeat that leaves has no answer. It may arrive at the coordinator after the next join, and would
    /// end that membership: nothing in it but the member id says whose end it is.
    pub(super) leave_was_lost: bool,
    /// The time from which on the coordinator may remove the member because it has not revoked partitions.
    pub(super) revoke_by: Option<Now>,
    pub(super) awaits_epoch: AwaitsEpoch,
    /// The Lost callback that has to end before the member joins again.
    pub(super) lost_callback: Option<Ticket>,
}

/// Requests that wait for a heartbeat whose answer brings a new epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AwaitsEpoch {
    pub(super) offset_commit: bool,
    pub(super) offset_fetch: bool,
}

impl ConsumerMember {
    /// A member without a subscription. Its id comes from [`super::member_id`]. `seed` determines its jitter.
    pub fn new(config: ConsumerProtocolConfig, member_id: String, seed: u64) -> Self {
        Self {
            base: MemberBase::new(config.member, seed),
            assignor: config.assignor,
            falls_back: config.falls_back,
            state: ConsumerState::Unsubscribed,
            member_id,
            epoch: 0,
            subscription: None,
            topics: TopicNames::default(),
            reconciliation: Reconciliation::default(),
            last_rebalance: None,
            heartbeat_interval: ConsumerProtocolConfig::FIRST_HEARTBEAT_INTERVAL,
            last_sent: LastSentSubscription::default(),
            late_heartbeat_until: None,
            regex_was_sent: false,
            owns_only_target: false,
            owned_is_in_flight: false,
            raised: None,
            may_have_place: false,
            leave_first: false,
            leave_was_lost: false,
            revoke_by: None,
            awaits_epoch: AwaitsEpoch::default(),
            lost_callback: None,
        }
    }

    pub(in crate::group) fn handle(&mut self, now: Now, input: Input) {
        for timer in self.base.out.timers.take_due(now) {
            self.due(timer, now);
        }
        match input {
            // The coordinator assigns, and decides when to rebalance.
            Input::Tick | Input::AssignmentComputed { .. } | Input::Rejoin { .. } => {}
            Input::Subscribe(subscription) => self.subscribe(subscription),
            Input::Listed { counts } => self.topics.listed = Some(counts),
            Input::Topics { topics } => self.learn_topics(topics),
            Input::Answer { id, outcome } => self.answered(id, outcome, now),
            Input::Finished { ticket, offsets } => self.finished(ticket, offsets, now),
            Input::CalledBack { ticket } => self.called_back(ticket, now),
            Input::Commit { ticket, offsets, deadline } => self.commit(ticket, offsets, deadline, now),
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
            state: MemberState::Consumer(self.state),
            coordinator: self.base.coordinator.node_id(),
            member_id: self.member_id.clone(),
            generation: if self.epoch > 0 { self.epoch } else { -1 },
            leader: false,
            assignor: self.assignor.clone(),
            protocol: Protocol::Cooperative,
            subscription: self.subscription.clone(),
            owned: self.base.owned.keys().cloned().collect(),
            unresolved: self.unresolved(),
            heartbeat_interval: self.heartbeat_interval,
            last_heartbeat: self.base.lease.confirmed(),
            lease_until: self.base.lease.until(),
            last_rebalance: self.last_rebalance,
            last_rebalance_reason: None,
            fatal: self.base.fatal.clone(),
            pending_commits: self.base.commits.len(),
            deferred_until: None,
            reserved: Vec::new(),
        }
    }

    /// Lets every part take the steps that it can take now.
    fn advance(&mut self, now: Now) {
        self.advance_revocation();
        self.advance_exit(now);
        self.advance_out_of_group();
        self.advance_reconciling(now);
        self.advance_resolve_topic_ids(now);
        self.advance_find_coordinator(now);
        self.advance_heartbeat(now);
        // The heartbeat may have been the acknowledgement, and a newer target may wait.
        self.advance_reconciling(now);
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
            Timer::CommitDeadline => self.expire_commits(now),
            Timer::Revocation => self.revocation_timed_out(now),
            Timer::RefusedOffsets => self.base.offset_fetch.retry_refused(),
            Timer::Close => self.exit_late(now),
            // `advance` takes the steps that these timers delayed.
            Timer::Heartbeat
            | Timer::HeartbeatBackoff
            | Timer::FindCoordinator
            | Timer::ResolveTopicIds
            | Timer::OffsetCommit
            | Timer::OffsetFetch => {}
            // Classic protocol only.
            Timer::JoinGroup | Timer::Rejoin | Timer::Deferred | Timer::KeptBack | Timer::RefreshMetadata => {}
        }
    }

    fn answered(&mut self, id: CallId, outcome: Result<GroupResponse, CallError>, now: Now) {
        let Some(call) = self.base.out.take_in_flight(id) else { return };
        let outcome = match outcome {
            Ok(answer) => Ok(answer),
            Err(CallError::Lost(reason) | CallError::Unsent(reason)) => {
                self.base.out.event(GroupEvent::Retried { api: api(call.kind), reason: reason.clone() });
                Err(reason)
            }
            Err(CallError::Never(reason)) => {
                match call.kind {
                    CallKind::LeaveGroup => return self.cannot_leave(id, &reason, now),
                    // Without this request there is no KIP-848: the member may go on under the classic protocol.
                    CallKind::Heartbeat => return self.heartbeat_impossible(id, &reason, now),
                    _ => {
                        let group = self.base.config.group_id.clone();
                        self.fail(GroupError::Call { group, reason: reason.clone() }, now);
                    }
                }
                Err(reason)
            }
        };
        match call.kind {
            CallKind::FindCoordinator => self.found(id, &outcome, now),
            CallKind::Heartbeat => self.heartbeat_answered(id, call, outcome, now),
            CallKind::LeaveGroup => self.left(id, call, outcome, now),
            CallKind::OffsetCommit => self.commit_answered(id, call, outcome, now),
            CallKind::OffsetFetch => self.offsets_fetched(id, call, outcome, now),
            // Classic protocol only.
            CallKind::JoinGroup | CallKind::SyncGroup => {}
        }
    }

    fn heartbeat_impossible(&mut self, id: CallId, reason: &str, now: Now) {
        if self.base.heartbeats.in_flight.take_if(|known| *known == id).is_some() {
            self.protocol_missing(reason, now);
        }
    }

    fn subscribe(&mut self, subscription: Subscription) {
        if self.base.leave.exit.is_some_and(|exit| exit.close) || self.state == ConsumerState::Fatal {
            return;
        }
        self.learn_subscription(&subscription);
        self.subscription = Some(subscription);
        if self.state == ConsumerState::Unsubscribed {
            self.base.fatal = None;
            self.begin_joining();
        }
    }

    /// Begins to join. The epoch is 0 already, and the next heartbeat carries all fields.
    pub(super) fn begin_joining(&mut self) {
        // A request to leave without an answer may still arrive, and would end the new membership: only the member id
        // tells the two apart. Once it is certain that the member has left, it has another id.
        self.leave_first |= self.leave_was_lost;
        self.set_state(ConsumerState::Joining);
    }

    fn called_back(&mut self, ticket: Ticket, now: Now) {
        if self.lost_callback == Some(ticket) {
            self.lost_callback = None;
        }
        if self.reconciliation.assigned_callback == Some(ticket) {
            self.reconciliation.assigned_callback = None;
        }
        self.called_back_revoked(ticket, now);
    }

    pub(super) fn send(&mut self, kind: CallKind, call: Call, now: Now) -> Option<CallId> {
        self.base.send(kind, call, self.epoch, now)
    }

    pub(super) fn set_state(&mut self, to: ConsumerState) {
        let from = self.state;
        if from == to {
            return;
        }
        debug_assert!(from.successors().contains(&to), "no way from {from:?} to {to:?}");
        self.state = to;
        let (from, to) = (MemberState::Consumer(from), MemberState::Consumer(to));
        self.base.out.event(GroupEvent::StateChanged { from, to });
    }

    /// Tells whether the coordinator has this member in the group, as far as the member knows.
    pub(super) fn in_group(&self) -> bool {
        self.epoch > 0
            && matches!(
                self.state,
                ConsumerState::Reconciling
                    | ConsumerState::Acknowledging
                    | ConsumerState::Stable
                    | ConsumerState::PrepareLeaving
            )
    }

    /// Handles an error that concerns the coordinator itself. The caller handles all others.
    pub(super) fn coordinator_error(&mut self, reaction: Reaction, call: InFlight, reason: &str, now: Now) {
        if reaction == Reaction::Rediscover {
            self.coordinator_lost(call.node_id, reason, now);
        }
    }
}
