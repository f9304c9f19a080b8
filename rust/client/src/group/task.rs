//! The task of a membership: gives the member commands, answers, metadata updates and time, and executes its outputs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_engine::assign::AssignError;
use monedula_engine::cluster::Cluster;
use monedula_engine::group::{
    self, CallError, CallId, CallbackKind, GroupError, GroupEvent, GroupProtocol, GroupResponse, Input, MemberState,
    Output, Scope, Ticket, TopicInfo,
};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;
use tokio::sync::{mpsc, oneshot};

use super::assigning::LeaderAssignment;
use super::commits::PendingCommits;
use super::handle::{GroupCommand, MembershipParts, Shared};
use super::request_order::RequestOrder;
use super::subscription::{CompiledSubscription, topic_infos};
use super::{Listens, PendingCallback};
use crate::coordinator::fault;
use crate::error::ClientError;
use crate::fetch::buffer::{Lease, MembershipGate, PendingErrors};
use crate::log::{Entry, kinds};
use crate::net::metadata::View;
use crate::net::network::NodeId;

/// The result of a task that the membership's task has spawned.
pub(super) enum Event {
    Answered {
        id: CallId,
        outcome: Result<GroupResponse, CallError>,
    },
    /// Topics that were looked up by their ids.
    Named(Result<Box<Cluster>, ClientError>),
    /// All topics of the cluster, listed before the member subscribes to a pattern that the broker matches.
    Listed {
        pattern: String,
        cluster: Result<Box<Cluster>, ClientError>,
    },
    Assigned {
        ticket: Ticket,
        outcome: Result<Box<LeaderAssignment>, AssignError>,
    },
    /// A subscribed topic does not exist; one with nearly the same name does, or none.
    Unknown {
        topic: Arc<str>,
        nearest: Option<Arc<str>>,
    },
}

/// The membership's task; see the [module](self).
pub(super) struct Task {
    pub(super) parts: MembershipParts,
    pub(super) shared: Arc<Shared>,
    pub(super) events: mpsc::UnboundedSender<Event>,
    pub(super) commits: PendingCommits,
    /// The member's calls in flight, by which each can be cancelled.
    pub(super) calls: BTreeMap<CallId, oneshot::Sender<()>>,
    pub(super) request_order: RequestOrder,
    inbox: mpsc::UnboundedReceiver<Event>,
    pub(super) subscription: Option<CompiledSubscription>,
    listens: Listens,
    /// True if the member was given the present subscription.
    is_subscription_given: bool,
    /// The topics of the member's subscription, and (`counted`) what was last given to it about them.
    pub(super) subscribed: BTreeSet<Arc<str>>,
    counted: Option<BTreeMap<Arc<str>, TopicInfo>>,
    /// Under KIP-848: what was last given to the member about topics, and (`resolved`) the topics it looked up by id.
    pub(super) known: Option<BTreeMap<Arc<str>, TopicInfo>>,
    pub(super) resolved: BTreeSet<Arc<str>>,
    pub(super) resolving: bool,
    /// True if the member was given topics since it last asked for an assignment.
    topics_changed: bool,
    /// All topics that the group subscribes to, while this member is the leader.
    led: BTreeSet<Arc<str>>,
    unauthorized: BTreeSet<Arc<str>>,
    /// Subscribed topics that do not exist, of which the user has been told or is being told.
    pub(super) unknown: BTreeSet<Arc<str>>,
    pub(super) state: MemberState,
    /// The user runs no more callbacks.
    abandoned: bool,
    closed: bool,
    pub(super) inputs: VecDeque<Input>,
}

impl Task {
    pub(super) fn new(parts: MembershipParts, shared: Arc<Shared>) -> Self {
        let (events, inbox) = mpsc::unbounded_channel();
        let state = MemberState::first(shared.member().protocol());
        Self {
            parts,
            shared,
            events,
            inbox,
            commits: PendingCommits::default(),
            calls: BTreeMap::new(),
            request_order: RequestOrder::default(),
            subscription: None,
            listens: Listens::default(),
            is_subscription_given: false,
            subscribed: BTreeSet::new(),
            counted: None,
            known: None,
            resolved: BTreeSet::new(),
            resolving: false,
            topics_changed: false,
            led: BTreeSet::new(),
            unauthorized: BTreeSet::new(),
            unknown: BTreeSet::new(),
            state,
            abandoned: false,
            closed: false,
            inputs: VecDeque::new(),
        }
    }

    /// Runs until the membership is closed or its [`Group`](super::handle::Group) is dropped.
    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<GroupCommand>) {
        let mut view = self.parts.base.metadata.watch();
        let buffer = self.parts.buffer.clone();
        while !self.closed {
            let wake_at = self.wake_at();
            tokio::select! {
                command = commands.recv() => {
                    let Some(command) = command else { break };
                    self.command(command);
                }
                Some(event) = self.inbox.recv() => self.event(event),
                Ok(()) = view.changed() => {
                    let view = view.borrow_and_update().clone();
                    self.view(&view);
                }
                () = buffer.group().wanted().notified() => self.look(),
                () = tokio::time::sleep_until(wake_at.into()) => self.handle(Input::Tick),
            }
        }
        self.parts.buffer.group().set_leaving(false);
    }

    fn wake_at(&self) -> Instant {
        let latest = self.shared.now() + Duration::from_secs(60);
        self.shared.started + self.shared.member().wake_at().unwrap_or(latest).min(latest)
    }

    fn command(&mut self, order: GroupCommand) {
        match order {
            GroupCommand::Subscribe { subscription, listens } => self.subscribe(subscription, listens),
            GroupCommand::Commit { offsets, deadline, reply, call } => {
                self.commit(offsets, deadline, reply);
                drop(call);
            }
            GroupCommand::CalledBack { ticket } => self.handle(Input::CalledBack { ticket }),
            GroupCommand::Rejoin { at, reason } => self.rejoin(at, reason),
            GroupCommand::Unsubscribe => {
                self.forget_subscription();
                match self.state.is_unsubscribed() {
                    true => self.parts.buffer.group().set_leaving(false),
                    false => self.handle(Input::Unsubscribe),
                }
            }
            GroupCommand::Close { deadline } => {
                self.forget_subscription();
                self.handle(Input::Close { deadline, leave: true });
            }
            GroupCommand::Abandon => {
                self.abandoned = true;
                for callback in self.parts.buffer.group().membership(MembershipGate::take_callbacks) {
                    self.handle(Input::CalledBack { ticket: callback.ticket });
                }
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Answered { id, outcome } => {
                self.calls.remove(&id);
                self.parts.reach.note_coordinator(&outcome);
                self.handle(Input::Answer { id, outcome });
            }
            Event::Named(cluster) => self.named(cluster),
            Event::Listed { pattern, cluster } => self.listed(pattern, cluster),
            Event::Unknown { topic, nearest } => self.tell_unknown(topic, nearest),
            Event::Assigned { ticket, outcome } => {
                let outcome = outcome.map(|led| {
                    self.lead(led.topics);
                    // Before the member gets the partition counts: those of other members' topics
                    // must not look like a change.
                    self.parts.base.metadata.learn(&led.cluster);
                    led.assigned
                });
                self.handle(Input::AssignmentComputed { ticket, outcome });
                self.give_topics_changed_meanwhile();
            }
        }
    }

    /// Rejoins at the user's request. Under KIP-848 only the coordinator can start a rebalance.
    fn rejoin(&mut self, at: Now, reason: String) {
        if self.state.protocol() == GroupProtocol::Consumer {
            return self.parts.base.log.record(&kinds::GROUP_WARNING, || {
                "enforce_rebalance() does nothing under group.protocol=consumer: the coordinator decides when"
                    .to_owned()
            });
        }
        self.handle(Input::Rejoin { at, reason });
    }

    /// The user polled, or finished records that a revocation or a commit waits for.
    fn look(&mut self) {
        for (ticket, offsets) in self.parts.buffer.group().take_finished_revocations() {
            self.inputs.push_back(Input::Finished { ticket, offsets });
        }
        let counted = self.commit_by_count();
        self.inputs.extend(counted);
        self.handle(Input::Tick);
    }

    fn subscribe(&mut self, subscription: CompiledSubscription, listens: Listens) {
        self.forget_subscription();
        self.parts.base.metadata.set_filter(subscription.filter());
        if let CompiledSubscription::Topics(topics) = &subscription {
            self.parts.base.metadata.hold(topics.iter().cloned());
        }
        self.subscription = Some(subscription);
        (self.listens, self.abandoned) = (listens, false);
        self.parts.base.metadata.want();
        self.look_at_topics();
    }

    fn look_at_topics(&mut self) {
        if let Some(CompiledSubscription::ServerPattern(pattern)) = &self.subscription {
            if self.state.protocol() == GroupProtocol::Classic {
                let error = super::subscription::pattern_for_nobody(pattern);
                return self.parts.buffer.group().raise(error, true);
            }
            self.give_pattern(pattern.clone());
        }
        let view = self.parts.base.metadata.view();
        self.view(&view);
    }

    fn forget_subscription(&mut self) {
        if let Some(CompiledSubscription::Topics(topics)) = self.subscription.take() {
            self.parts.base.metadata.release(topics);
        }
        self.parts.base.metadata.set_filter(None);
        self.parts.buffer.driver().errors(PendingErrors::forget_topics);
        self.unauthorized.clear();
        self.forget_unknown();
        self.release_resolved();
        (self.counted, self.known) = (None, None);
        self.subscribed.clear();
        self.is_subscription_given = false;
    }

    /// Holds the metadata of all topics of the group, and releases the topics held before.
    fn lead(&mut self, topics: BTreeSet<Arc<str>>) {
        self.parts.base.metadata.hold(topics.iter().cloned());
        let before = std::mem::replace(&mut self.led, topics);
        self.parts.base.metadata.release(before);
    }

    fn view(&mut self, view: &View) {
        let Some(topics) = self.subscription.as_ref().and_then(|subscription| subscription.topics(view)) else {
            return;
        };
        self.note_unmatched(matches!(self.subscription, Some(CompiledSubscription::Pattern(_))) && topics.is_empty());
        // No member joins without topics. A member in the group revokes everything it owns.
        if topics != self.subscribed || !self.is_subscription_given && !self.state.is_unsubscribed() {
            self.subscribed.clone_from(&topics);
            self.give_subscription(topics);
        }
        self.report_unauthorized(view);
        self.report_unknown(view);
        match self.state {
            MemberState::Classic(_) => self.give_topics(view),
            MemberState::Consumer(_) => self.give_topic_ids(view),
        }
    }

    fn give_subscription(&mut self, topics: BTreeSet<Arc<str>>) {
        self.is_subscription_given = true;
        let subscription = match self.subscription {
            Some(CompiledSubscription::Topics(_)) => group::Subscription::Topics(topics),
            Some(CompiledSubscription::Pattern(_)) => group::Subscription::Matched(topics),
            Some(CompiledSubscription::ServerPattern(_)) | None => return,
        };
        self.handle(Input::Subscribe(subscription));
    }

    fn give_topics(&mut self, view: &View) {
        // Topics that the leader of a group holds for other members need not exist.
        let known = topic_infos(
            (&view.cluster, self.parts.base.config.propagation),
            view.complete,
            self.subscribed.union(&self.led),
        );
        if let Some(known) = known.filter(|known| self.counted.as_ref() != Some(known)) {
            self.counted = Some(known.clone());
            self.topics_changed = true;
            self.handle(Input::Topics { topics: known });
        }
    }

    /// Gives the topics to the member again if they changed while its assignment was being computed: it could not
    /// compare them with an assignment then, so a new topic would stay unassigned until another one changed. If none
    /// changed, nothing is given: brokers that contradict each other must not cause rebalances without end.
    fn give_topics_changed_meanwhile(&mut self) {
        if std::mem::take(&mut self.topics_changed) {
            self.counted = None;
            self.give_topics(&self.parts.base.metadata.view());
            self.topics_changed = false;
        }
    }

    /// Raises an error for each topic that the user may not read, once per topic.
    fn report_unauthorized(&mut self, view: &View) {
        for topic in &self.subscribed {
            let first = TopicPartition::new(topic.clone(), 0);
            if let Err(error @ ClientError::Partition(monedula_engine::fetch::Fault::TopicDenied { .. })) =
                crate::offsets::missing(&first, &view.cluster, Duration::ZERO)
                && self.unauthorized.insert(topic.clone())
            {
                self.parts.buffer.driver().topic_failed(error);
            }
        }
    }

    /// Gives the member an input and executes its outputs, until there are no further inputs.
    pub(super) fn handle(&mut self, input: Input) {
        self.inputs.push_back(input);
        while let Some(input) = self.inputs.pop_front() {
            let polled = self
                .parts
                .buffer
                .group()
                .membership(|gate| gate.polled())
                .saturating_duration_since(self.shared.started);
            let mut outputs = Vec::new();
            {
                let mut member = self.shared.member();
                member.polled(polled);
                member.handle(self.shared.now(), input);
                outputs.extend(std::iter::from_fn(|| member.poll()));
            }
            for output in outputs {
                self.act(output);
            }
        }
    }

    fn act(&mut self, output: Output) {
        let buffer = &self.parts.buffer;
        match output {
            Output::Call { id, target, call } => self.send(id, target, call),
            Output::CancelCall { id } => {
                // The call's task may have ended, and its answer may be on the way.
                let _ = self.calls.remove(&id).map(|cancel| cancel.send(()));
            }
            Output::ComputeAssignment { ticket, assignor, members } => {
                self.topics_changed = false;
                self.assign(ticket, assignor, members);
            }
            Output::RefreshMetadata => self.parts.base.metadata.want(),
            Output::ResolveTopicIds { ids } => self.resolve(ids),
            Output::Raise { error, fatal } => self.raise(error, fatal),
            Output::FallBack => self.fall_back(),
            Output::Event(event) => self.record(event),
            Output::Assigned { partitions } => {
                self.parts.base.metadata.hold(partitions.iter().map(|partition| partition.topic.clone()));
                buffer.group().assigned(&partitions);
            }
            Output::StartingOffsets { partitions } => buffer.group().start(partitions),
            Output::StartingOffsetFailed { partition, code } => {
                buffer.assignment().start_failed(&partition, None, fault(partition.clone(), code).into());
            }
            Output::PrepareRevocation { ticket, partitions } => {
                buffer.group().revoke(ticket, partitions, self.listens.revoked && !self.abandoned);
                self.give_finished();
            }
            Output::CollectFinished { ticket, scope } => {
                let offsets = match &scope {
                    Scope::All => buffer.handed_out(|handed_out| handed_out.snapshot(None)),
                    Scope::Only(partitions) => buffer.handed_out(|handed_out| handed_out.snapshot(Some(partitions))),
                };
                self.inputs.push_back(Input::Finished { ticket, offsets });
            }
            Output::Callback { ticket, kind, partitions } => self.call_back(ticket, kind, partitions),
            Output::Released { partitions, are_lost } => {
                let uncalled = match are_lost {
                    true => buffer.group().lost(&partitions, self.listens.to(CallbackKind::Lost)),
                    false => {
                        buffer.group().released(&partitions);
                        Vec::new()
                    }
                };
                self.inputs.extend(uncalled.into_iter().map(|ticket| Input::CalledBack { ticket }));
                self.parts.base.metadata.release(partitions.iter().map(|partition| partition.topic.clone()));
            }
            Output::Committed { ticket, outcomes } => self.committed(ticket, outcomes),
            Output::Lease { until } => {
                buffer
                    .group()
                    .set_lease(until.map_or(Lease::Expired, |until| Lease::Until(self.shared.started + until)));
            }
            Output::Closed => self.closed = true,
        }
    }

    /// The broker lacks the protocol of KIP-848: replaces the member by one of the classic protocol
    /// with the same subscription.
    fn fall_back(&mut self) {
        let config = self.parts.base.config.membership(self.parts.assignors.clone());
        self.shared.member().fall_back(config, self.parts.seed);
        self.state = MemberState::first(GroupProtocol::Classic);
        self.subscribed.clear();
        self.is_subscription_given = false;
        if self.subscription.is_some() {
            self.look_at_topics();
        }
    }

    fn give_finished(&mut self) {
        for (ticket, offsets) in self.parts.buffer.group().take_finished_revocations() {
            self.inputs.push_back(Input::Finished { ticket, offsets });
        }
    }

    fn call_back(&mut self, ticket: Ticket, kind: CallbackKind, partitions: BTreeSet<TopicPartition>) {
        if self.listens.to(kind) && !self.abandoned {
            let partitions = partitions.into_iter().collect();
            return self.parts.buffer.group().queue_callback(PendingCallback { ticket, kind, partitions });
        }
        if kind == CallbackKind::Assigned {
            self.parts.buffer.group().on_assigned_done(&partitions);
        }
        self.inputs.push_back(Input::CalledBack { ticket });
    }

    fn raise(&self, error: GroupError, fatal: bool) {
        self.parts.base.log.record(&kinds::GROUP_FAILED, || error.to_string());
        // Where a broker does not let the client in, the membership fails because of that.
        let error = self.parts.base.network.refusal().unwrap_or_else(|| error.into());
        self.parts.buffer.group().raise(error, fatal);
    }

    pub(super) fn record(&mut self, event: GroupEvent) {
        let group = || self.parts.base.config.group_id.as_deref().unwrap_or_default();
        let kind = super::status::kind(&event);
        self.parts.base.log.record(kind, || {
            let text = super::status::sentence(&event, self.state.protocol() == GroupProtocol::Consumer);
            let entry = Entry::new(format!("group {}: {text}", group()));
            match &event {
                GroupEvent::CoordinatorFound { node_id } => {
                    entry.broker(self.parts.base.network.name_of(NodeId::Broker(*node_id)))
                }
                GroupEvent::UnknownTopic { topic, .. } => entry.topic(topic).code(ErrorCode::UnknownTopicOrPartition),
                GroupEvent::TopicFound { topic } => entry.topic(topic),
                _ => entry,
            }
        });
        match &event {
            GroupEvent::StateChanged { to, .. } => {
                self.state = *to;
                self.parts.buffer.group().membership(|gate| gate.set_awaits_poll(to.is_stale()));
                if to.is_unsubscribed() {
                    self.lead(BTreeSet::new());
                    self.parts.buffer.group().set_leaving(false);
                }
            }
            GroupEvent::Joined { leader: false, .. } => {
                self.lead(BTreeSet::new());
                self.check_heartbeat_interval();
            }
            GroupEvent::Retried { api, .. } => self.parts.base.metrics.retriable_error(api),
            GroupEvent::LeaseExpired => {
                let stalled = self.parts.buffer.look(|state| state.partitions().queued_records());
                self.shared.figures().counted.records_stalled += stalled;
            }
            _ => {}
        }
        self.shared.figures().take(event);
    }

    /// Under KIP-848 the broker sets the heartbeat interval, so only now is it known whether the
    /// lease lasts for three of them.
    fn check_heartbeat_interval(&self) {
        let status = self.shared.member().status();
        let (interval, session) = (status.heartbeat_interval, self.parts.base.config.session_timeout);
        if status.state.protocol() == GroupProtocol::Consumer && interval * 3 > session {
            self.parts.base.log.record(&kinds::GROUP_WARNING, || {
                format!(
                    "session.timeout.ms ({} ms) is less than three of the broker's heartbeat intervals ({} ms): one lost \
                     heartbeat stops delivery until the next. Raise it, up to group.consumer.session.timeout.ms of the broker",
                    session.as_millis(),
                    interval.as_millis()
                )
            });
        }
    }
}
