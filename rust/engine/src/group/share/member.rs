//! The state machine of a member of a share group: its fields, and what each input causes.
//! [`ShareMember::advance`] lets each part take a step after every input, so none depends on a particular input.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::error_codes::{api, reaction};
use crate::backoff::Backoff;
use crate::group::base::{FindCoordinator, FoundCoordinator};
use crate::group::classic::QUICK_HEARTBEATS;
use crate::group::error::{CallError, GroupError};
use crate::group::liveness::Heartbeats;
use crate::group::messages::{
    Call, CallId, CallKind, GroupEvent, GroupOutcome, GroupResponse, Input, Output, Partitions, Reaction, Subscription,
    Target, TopicInfo,
};
use crate::group::outbox::{Outbox, Timer};
use crate::group::state::ShareState;
use crate::{Now, TopicPartition};

/// The settings of a member of a share group. Its session and its heartbeat interval are the broker's.
#[derive(Clone, Debug)]
pub struct ShareMemberConfig {
    /// `group.id`.
    pub group_id: String,
    /// `client.rack`.
    pub rack: Option<String>,
    /// `retry.backoff.ms` and `retry.backoff.max.ms`.
    pub backoff: Backoff,
}

/// A snapshot of a membership.
#[derive(Clone, Debug)]
pub struct ShareStatus {
    /// The state.
    pub state: ShareState,
    /// The coordinator's node id, if it is known.
    pub coordinator: Option<i32>,
    /// The member id.
    pub member_id: String,
    /// The member epoch; 0 outside of the group.
    pub epoch: i32,
    /// The subscribed topics.
    pub topics: BTreeSet<Arc<str>>,
    /// The partitions that are read, with the ids of their topics.
    pub assigned: BTreeMap<TopicPartition, Uuid>,
    /// The assigned topics whose names are not known yet.
    pub unresolved: BTreeSet<Uuid>,
    /// The time of the last acknowledged heartbeat.
    pub last_heartbeat: Option<Now>,
    /// The error that ended the membership.
    pub fatal: Option<GroupError>,
}

/// A member of a share group; see the [module](super). A driver owns it and the clock, as it owns a
/// [`Member`](crate::group::Member): it calls [`Self::handle`], drains [`Self::poll`], and wakes the member at
/// [`Self::wake_at`].
pub struct ShareMember {
    pub(super) config: ShareMemberConfig,
    pub(super) out: Outbox,
    pub(super) coordinator: FindCoordinator,
    pub(super) heartbeats: Heartbeats,
    pub(super) state: ShareState,
    /// The member id, which stays the same for the life of the process, also after the member was fenced.
    pub(super) member_id: String,
    /// The member epoch; 0 outside of the group.
    pub(super) epoch: i32,
    pub(super) subscription: BTreeSet<Arc<str>>,
    /// The topics that the coordinator knows the member to subscribe to; `None` if they have to be sent.
    pub(super) last_sent: Option<BTreeSet<Arc<str>>>,
    /// Until when a heartbeat without an answer may still arrive at the coordinator.
    pub(super) late_heartbeat_until: Option<Now>,
    pub(super) heartbeat_interval: Duration,
    pub(super) last_heartbeat: Option<Now>,
    /// The assignment as the coordinator sent it, by topic ids.
    pub(super) target: Partitions,
    /// The same by names, as far as these are known.
    pub(super) assigned: BTreeMap<TopicPartition, Uuid>,
    names: BTreeMap<Uuid, Arc<str>>,
    refresh_attempts: u32,
    /// The error last reported with [`Output::Raise`]; reset when a heartbeat succeeds.
    pub(super) raised: Option<ErrorCode>,
    pub(super) leaving: Option<CallId>,
    /// Set while the membership ends: whether [`Output::Closed`] follows.
    pub(super) exit: Option<bool>,
    pub(super) fatal: Option<GroupError>,
}

impl ShareMember {
    /// The default of brokers (`group.share.session.timeout.ms`): a coordinator that answers no heartbeat for so long
    /// counts as dead, and the member is out of the group.
    pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(45);

    /// A member without a subscription. Its id comes from [`crate::group::consumer::member_id`]. `seed` determines its
    /// jitter.
    pub fn new(config: ShareMemberConfig, member_id: String, seed: u64) -> Self {
        Self {
            out: Outbox::new(config.backoff, seed),
            coordinator: FindCoordinator::default(),
            heartbeats: Heartbeats::new(QUICK_HEARTBEATS),
            state: ShareState::Unsubscribed,
            member_id,
            epoch: 0,
            subscription: BTreeSet::new(),
            last_sent: None,
            late_heartbeat_until: None,
            // The default of brokers (`group.share.heartbeat.interval.ms`), until the coordinator sends its own.
            heartbeat_interval: Duration::from_secs(5),
            last_heartbeat: None,
            target: Partitions::new(),
            assigned: BTreeMap::new(),
            names: BTreeMap::new(),
            refresh_attempts: 0,
            raised: None,
            leaving: None,
            exit: None,
            fatal: None,
            config,
        }
    }

    /// Takes an input, at a time that never goes back; inputs of consumer groups are ignored. Drain [`Self::poll`]
    /// afterwards.
    pub fn handle(&mut self, now: Now, input: Input) {
        for timer in self.out.timers.take_due(now) {
            match timer {
                Timer::Session => self.session_timed_out(now),
                Timer::Close => self.end_exit("the time for leaving is over"),
                // `advance` takes the steps that the others delayed.
                _ => {}
            }
        }
        match input {
            Input::Subscribe(Subscription::Topics(topics)) => self.subscribe(topics),
            Input::Topics { topics } => self.learn(&topics),
            Input::Answer { id, outcome } => self.answered(id, outcome, now),
            Input::Unsubscribe => self.exit(false, now + Self::SESSION_TIMEOUT),
            Input::Close { deadline, .. } => self.exit(true, deadline),
            _ => {}
        }
        self.advance(now);
    }

    /// The next output; `None` when all are drained. [`Output::Assigned`] and [`Output::Released`] say how the partitions
    /// of [`Self::assigned`] change.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.poll()
    }

    /// The time to call [`Self::handle`] if nothing else happens before.
    pub fn wake_at(&self) -> Option<Now> {
        self.out.timers.first()
    }

    /// The partitions to read, with the ids of their topics.
    pub fn assigned(&self) -> &BTreeMap<TopicPartition, Uuid> {
        &self.assigned
    }

    /// The error that ended the membership.
    pub fn fatal(&self) -> Option<&GroupError> {
        self.fatal.as_ref()
    }

    /// A snapshot of the membership.
    pub fn status(&self) -> ShareStatus {
        ShareStatus {
            state: self.state,
            coordinator: self.coordinator.node_id(),
            member_id: self.member_id.clone(),
            epoch: self.epoch,
            topics: self.subscription.clone(),
            assigned: self.assigned.clone(),
            unresolved: self.unresolved().collect(),
            last_heartbeat: self.last_heartbeat,
            fatal: self.fatal.clone(),
        }
    }

    fn advance(&mut self, now: Now) {
        self.advance_exit(now);
        self.advance_names(now);
        let needs_coordinator = match self.state {
            ShareState::Joining | ShareState::Stable => true,
            ShareState::Leaving => self.leaving.is_none(),
            ShareState::Unsubscribed | ShareState::Fatal => false,
        };
        if needs_coordinator {
            self.coordinator.advance(&self.config.group_id, self.epoch, &mut self.out, now);
        }
        self.advance_heartbeat(now);
        self.advance_leave(now);
    }

    fn subscribe(&mut self, topics: BTreeSet<Arc<str>>) {
        if self.exit == Some(true) || self.state == ShareState::Fatal {
            return;
        }
        self.subscription = topics;
        if self.state == ShareState::Unsubscribed {
            self.set_state(ShareState::Joining);
        }
    }

    fn answered(&mut self, id: CallId, outcome: Result<GroupResponse, CallError>, now: Now) {
        let Some(call) = self.out.take_in_flight(id) else { return };
        let outcome: GroupOutcome = match outcome {
            Ok(answer) => Ok(answer),
            Err(CallError::Lost(reason) | CallError::Unsent(reason)) => {
                self.out.event(GroupEvent::Retried { api: api(call.kind), reason: reason.clone() });
                Err(reason)
            }
            Err(CallError::Never(reason)) => {
                match call.kind {
                    CallKind::LeaveGroup => self.end_exit(&reason),
                    // A broker before Kafka 4.1 does not offer the request at all.
                    _ => self.fail(GroupError::NoShareGroups { group: self.config.group_id.clone(), reason }),
                }
                return;
            }
        };
        match call.kind {
            CallKind::FindCoordinator => self.found(id, &outcome, now),
            CallKind::Heartbeat => self.heartbeat_answered(id, call, outcome, now),
            CallKind::LeaveGroup => self.left(id, call, outcome, now),
            CallKind::JoinGroup | CallKind::SyncGroup | CallKind::OffsetCommit | CallKind::OffsetFetch => {}
        }
    }

    fn found(&mut self, id: CallId, outcome: &GroupOutcome, now: Now) {
        let is_fatal = |code| reaction(CallKind::FindCoordinator, code) == Reaction::Fail;
        match self.coordinator.answered(id, outcome, is_fatal, &mut self.out, now) {
            FoundCoordinator::Nothing | FoundCoordinator::Coordinator(_) => {}
            FoundCoordinator::Refused(code) => {
                self.fail(GroupError::of_code(CallKind::FindCoordinator.name(), code, &self.config.group_id, None));
            }
        }
    }

    /// The broker `asked` is gone, or is not the coordinator.
    pub(super) fn coordinator_lost(&mut self, asked: Option<i32>, reason: &str, now: Now) {
        if self.coordinator.lost(asked, reason, &mut self.out, now) && self.heartbeats.in_flight.is_some() {
            self.forget_heartbeat(now);
        }
    }

    fn session_timed_out(&mut self, now: Now) {
        self.coordinator_lost(None, "no heartbeat was answered for 45 s", now);
        self.out.timers.set(Timer::Session, now + Self::SESSION_TIMEOUT);
    }

    /// Takes the names of topics. A topic that metadata leaves out may be new to the broker that answered: names of
    /// assigned topics stay.
    fn learn(&mut self, topics: &BTreeMap<Arc<str>, TopicInfo>) {
        let target = &self.target;
        self.names.retain(|id, _| target.iter().any(|(assigned, _)| assigned == id));
        let known = topics.iter().filter(|(_, info)| !info.id.is_zero());
        self.names.extend(known.map(|(name, info)| (info.id, name.clone())));
        self.resolve();
    }

    fn unresolved(&self) -> impl Iterator<Item = Uuid> {
        self.target.iter().map(|(id, _)| *id).filter(|id| !self.names.contains_key(id))
    }

    /// Takes the target as the assignment, as far as the names of its topics are known. The coordinator does not repeat
    /// an assignment, so that the rest waits for its names.
    pub(super) fn resolve(&mut self) {
        let named = self
            .target
            .iter()
            .filter_map(|&(id, partition)| Some((TopicPartition::new(self.names.get(&id)?.clone(), partition), id)));
        let assigned: BTreeMap<TopicPartition, Uuid> = named.collect();
        let only_in = |these: &BTreeMap<TopicPartition, Uuid>, those: &BTreeMap<TopicPartition, Uuid>| {
            let only = these.iter().filter(|(partition, id)| those.get(partition) != Some(id));
            only.map(|(partition, _)| partition.clone()).collect::<BTreeSet<_>>()
        };
        let (released, added) = (only_in(&self.assigned, &assigned), only_in(&assigned, &self.assigned));
        self.assigned = assigned;
        if !released.is_empty() {
            self.out.push(Output::Released { partitions: released, are_lost: false });
        }
        if !added.is_empty() {
            self.out.push(Output::Assigned { partitions: added });
        }
    }

    fn advance_names(&mut self, now: Now) {
        if self.unresolved().next().is_none() {
            self.out.timers.clear(Timer::ResolveTopicIds);
            self.refresh_attempts = 0;
        } else if !self.out.timers.waits(Timer::ResolveTopicIds, now) {
            self.out.back_off(Timer::ResolveTopicIds, &mut self.refresh_attempts, now);
            self.out.push(Output::RefreshMetadata);
        }
    }

    /// Sends a call to the coordinator, if it is known.
    pub(super) fn send(&mut self, kind: CallKind, call: Call, now: Now) -> Option<CallId> {
        let target = Target::Coordinator { node_id: self.coordinator.node_id()? };
        Some(self.out.send(kind, target, call, self.epoch, now))
    }

    /// Resets everything that belongs to an epoch. Records in hand stay: their locks are the leaders' business.
    pub(super) fn drop_epoch(&mut self) {
        (self.epoch, self.last_sent, self.heartbeats.in_flight) = (0, None, None);
        self.target.clear();
        self.resolve();
        self.out.timers.clear(Timer::Heartbeat);
        self.out.timers.clear(Timer::Session);
    }

    /// Ends the membership with an error that a retry cannot fix.
    pub(super) fn fail(&mut self, error: GroupError) {
        if self.exit.is_some() {
            return self.end_exit(&error.to_string());
        }
        if matches!(self.state, ShareState::Joining | ShareState::Stable) {
            self.drop_epoch();
            self.fatal = Some(error.clone());
            self.set_state(ShareState::Fatal);
            self.out.push(Output::Raise { error, fatal: true });
        }
    }

    pub(super) fn set_state(&mut self, to: ShareState) {
        debug_assert!(self.state.successors().contains(&to), "no way from {:?} to {to:?}", self.state);
        self.state = to;
    }
}
