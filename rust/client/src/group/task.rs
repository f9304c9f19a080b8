//! The task that owns the machine: feeds it orders, answers, metadata and time, and does what it says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_engine::assign::AssignError;
use monedula_engine::group::{
    Answer, CallError, CallId, CallbackKind, GroupError, GroupEvent, Input, Output, Scope, State, Ticket,
};
use monedula_protocol::error_code::ErrorCode;
use tokio::sync::mpsc;

use super::assigning::Led;
use super::commits::Waiting;
use super::handle::{Order, Parts, Shared};
use super::subscription::{Subscription, counts};
use super::{Listens, PendingCallback};
use crate::coordinator::fault;
use crate::delivery::Lease;
use crate::error::ClientError;
use crate::log::Level;
use crate::metadata::View;

/// What comes back from the task's own tasks.
pub(super) enum Event {
    Answered { id: CallId, outcome: Result<Answer, CallError> },
    Assigned { ticket: Ticket, outcome: Result<Box<Led>, AssignError> },
}

/// See the [module](self).
pub(super) struct Task {
    pub(super) parts: Parts,
    pub(super) shared: Arc<Shared>,
    pub(super) events: mpsc::UnboundedSender<Event>,
    pub(super) commits: Waiting,
    inbox: mpsc::UnboundedReceiver<Event>,
    subscription: Option<Subscription>,
    listens: Listens,
    /// The topics that the machine was last told to subscribe to, and the partition counts that it was told.
    subscribed: BTreeSet<Arc<str>>,
    counted: Option<BTreeMap<Arc<str>, usize>>,
    /// Topics of the whole group, while this member leads it.
    led: BTreeSet<Arc<str>>,
    denied: BTreeSet<Arc<str>>,
    missing: BTreeSet<Arc<str>>,
    state: State,
    /// Nobody runs callbacks any more.
    abandoned: bool,
    closed: bool,
    pub(super) inputs: VecDeque<Input>,
}

impl Task {
    pub(super) fn new(parts: Parts, shared: Arc<Shared>) -> Self {
        let (events, inbox) = mpsc::unbounded_channel();
        Self {
            parts,
            shared,
            events,
            inbox,
            commits: Waiting::default(),
            subscription: None,
            listens: Listens::default(),
            subscribed: BTreeSet::new(),
            counted: None,
            led: BTreeSet::new(),
            denied: BTreeSet::new(),
            missing: BTreeSet::new(),
            state: State::Unsubscribed,
            abandoned: false,
            closed: false,
            inputs: VecDeque::new(),
        }
    }

    /// Runs until the membership is closed, or its user's side is gone.
    pub(super) async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut view = self.parts.metadata.watch();
        let delivery = self.parts.delivery.clone();
        while !self.closed {
            let wake_at = self.wake_at();
            tokio::select! {
                order = orders.recv() => {
                    let Some(order) = order else { break };
                    self.order(order);
                }
                Some(event) = self.inbox.recv() => self.event(event),
                Ok(()) = view.changed() => {
                    let view = view.borrow_and_update().clone();
                    self.view(&view);
                }
                () = delivery.group_wanted.notified() => self.look(),
                () = tokio::time::sleep_until(wake_at.into()) => self.handle(Input::Tick),
            }
        }
        self.parts.delivery.set_leaving(false);
    }

    fn wake_at(&self) -> Instant {
        let latest = self.shared.now() + Duration::from_secs(60);
        self.shared.started + self.shared.member().wake_at().unwrap_or(latest).min(latest)
    }

    fn order(&mut self, order: Order) {
        match order {
            Order::Subscribe { subscription, listens } => self.subscribe(subscription, listens),
            Order::Commit { offsets, deadline, reply, call } => {
                self.commit(offsets, deadline, reply);
                drop(call);
            }
            Order::CalledBack { ticket } => self.handle(Input::CalledBack { ticket }),
            Order::Rejoin { at, reason } => self.handle(Input::Rejoin { at, reason }),
            Order::Unsubscribe => {
                self.forget_subscription();
                match self.state {
                    State::Unsubscribed => self.parts.delivery.set_leaving(false),
                    _ => self.handle(Input::Unsubscribe),
                }
            }
            Order::Close { deadline } => {
                self.forget_subscription();
                self.handle(Input::Close { deadline, leave: true });
            }
            Order::Abandon => {
                self.abandoned = true;
                for callback in self.parts.delivery.take_callbacks() {
                    self.handle(Input::CalledBack { ticket: callback.ticket });
                }
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Answered { id, outcome } => self.handle(Input::Answer { id, outcome }),
            Event::Assigned { ticket, outcome } => {
                let outcome = outcome.map(|led| {
                    self.lead(led.topics);
                    // Before the machine hears of the counts: those of other members' topics are not to look like a change.
                    self.parts.metadata.learn(&led.cluster);
                    led.assigned
                });
                self.handle(Input::Assigned { ticket, outcome });
            }
        }
    }

    /// The user came into a call, or finished something that was waited for.
    fn look(&mut self) {
        for (ticket, offsets) in self.parts.delivery.settled() {
            self.inputs.push_back(Input::Settled { ticket, offsets });
        }
        let counted = self.commit_by_count();
        self.inputs.extend(counted);
        self.handle(Input::Tick);
    }

    fn subscribe(&mut self, subscription: Subscription, listens: Listens) {
        self.forget_subscription();
        self.parts.metadata.set_filter(subscription.filter());
        if let Subscription::Topics(topics) = &subscription {
            self.parts.metadata.hold(topics.iter().cloned());
        }
        self.subscription = Some(subscription);
        (self.listens, self.abandoned) = (listens, false);
        self.parts.metadata.want();
        let view = self.parts.metadata.watch().borrow().clone();
        self.view(&view);
    }

    fn forget_subscription(&mut self) {
        if let Some(Subscription::Topics(topics)) = self.subscription.take() {
            self.parts.metadata.release(topics);
        }
        self.parts.metadata.set_filter(None);
        self.parts.delivery.forget_topics();
        self.denied.clear();
        self.missing.clear();
        self.counted = None;
        self.subscribed.clear();
    }

    /// Holds the topics of the whole group, in place of those before.
    fn lead(&mut self, topics: BTreeSet<Arc<str>>) {
        self.parts.metadata.hold(topics.iter().cloned());
        let before = std::mem::replace(&mut self.led, topics);
        self.parts.metadata.release(before);
    }

    fn view(&mut self, view: &View) {
        let Some(topics) = self.subscription.as_ref().and_then(|subscription| subscription.topics(view)) else {
            return;
        };
        let from_pattern = matches!(self.subscription, Some(Subscription::Pattern(_)));
        // Without any topic there is nothing to join for; a member that is in the group gives up all that it has.
        if topics != self.subscribed {
            self.subscribed.clone_from(&topics);
            self.handle(Input::Subscribe { topics, from_pattern });
        }
        self.tell_denied(view);
        self.tell_missing(view);
        let known = counts(&view.cluster, self.subscribed.union(&self.led));
        if let Some(known) = known.filter(|known| self.counted.as_ref() != Some(known)) {
            self.counted = Some(known.clone());
            self.handle(Input::Topics { counts: known });
        }
    }

    /// Topics that the user may not read are told once each.
    fn tell_denied(&mut self, view: &View) {
        for topic in &self.subscribed {
            let first = TopicPartition::new(topic.clone(), 0);
            if let Err(error @ ClientError::Partition(monedula_engine::fetch::Fault::TopicDenied { .. })) =
                crate::offsets::missing(&first, &view.cluster)
                && self.denied.insert(topic.clone())
            {
                self.parts.delivery.topic_failed(error);
            }
        }
    }

    /// A topic may come to exist later, so a name that nothing has is no error; but it may be mistyped.
    fn tell_missing(&mut self, view: &View) {
        for topic in &self.subscribed {
            let Some(known) = view.cluster.topics.get(topic) else { continue };
            if !known.partitions.is_empty() {
                self.missing.remove(topic);
            } else if known.error == ErrorCode::UnknownTopicOrPartition && self.missing.insert(topic.clone()) {
                self.parts.log.record(Level::Warning, "groups", || {
                    let after_ms = self.parts.config.metadata_max_age.as_millis();
                    format!(
                        "topic {topic} does not exist; once it does, it is read within metadata.max.age.ms={after_ms}"
                    )
                });
            }
        }
    }

    /// Gives the machine an input, does what it says, and brings what comes of that.
    pub(super) fn handle(&mut self, input: Input) {
        self.inputs.push_back(input);
        while let Some(input) = self.inputs.pop_front() {
            let polled = self.parts.delivery.polled().saturating_duration_since(self.shared.started);
            let mut outputs = Vec::new();
            {
                let mut member = self.shared.member();
                for input in [Input::Polled { at: polled }, input] {
                    member.handle(self.shared.now(), input);
                    outputs.extend(std::iter::from_fn(|| member.poll()));
                }
            }
            for output in outputs {
                self.act(output);
            }
        }
    }

    fn act(&mut self, output: Output) {
        let delivery = &self.parts.delivery;
        match output {
            Output::Call { id, target, call } => self.send(id, target, call),
            Output::Assign { ticket, assignor, members } => self.assign(ticket, assignor, members),
            Output::Gained { partitions } => {
                self.parts.metadata.hold(partitions.iter().map(|partition| partition.topic.clone()));
                delivery.gained(&partitions);
            }
            Output::Start { partitions } => delivery.start(partitions),
            Output::StartFailed { partition, code } => {
                delivery.start_failed(&partition, fault(partition.clone(), code).into());
            }
            Output::Settle { ticket, partitions } => {
                delivery.settle(ticket, partitions, self.listens.revoked && !self.abandoned);
                self.bring_settled();
            }
            Output::Snapshot { ticket, scope } => {
                let offsets = match &scope {
                    Scope::All => delivery.snapshot(None),
                    Scope::Only(partitions) => delivery.snapshot(Some(partitions)),
                };
                self.inputs.push_back(Input::Settled { ticket, offsets });
            }
            Output::Callback { ticket, kind, partitions } => self.call_back(ticket, kind, partitions),
            Output::Dropped { partitions } => {
                delivery.dropped(&partitions);
                self.parts.metadata.release(partitions.iter().map(|partition| partition.topic.clone()));
            }
            Output::Committed { ticket, outcomes } => self.committed(ticket, outcomes),
            Output::Lease { until } => {
                delivery.set_lease(until.map_or(Lease::Out, |until| Lease::Until(self.shared.started + until)));
            }
            Output::Raise { error, fatal } => self.raise(error, fatal),
            Output::RefreshMetadata => self.parts.metadata.want(),
            Output::Event(event) => self.happened(&event),
            Output::Closed => self.closed = true,
        }
    }

    fn bring_settled(&mut self) {
        for (ticket, offsets) in self.parts.delivery.settled() {
            self.inputs.push_back(Input::Settled { ticket, offsets });
        }
    }

    fn call_back(&mut self, ticket: Ticket, kind: CallbackKind, partitions: BTreeSet<TopicPartition>) {
        if self.listens.to(kind) && !self.abandoned {
            let partitions = partitions.into_iter().collect();
            return self.parts.delivery.call_back(PendingCallback { ticket, kind, partitions });
        }
        if kind == CallbackKind::Assigned {
            self.parts.delivery.announced(&partitions);
        }
        self.inputs.push_back(Input::CalledBack { ticket });
    }

    fn raise(&self, error: GroupError, fatal: bool) {
        self.parts.log.record(Level::Warning, "groups", || error.to_string());
        self.parts.delivery.raise(error.into(), fatal);
    }

    fn happened(&mut self, event: &GroupEvent) {
        let group = || self.parts.config.group_id.as_deref().unwrap_or_default();
        let (level, text) = super::status::sentence(event);
        self.parts.log.record(level, "groups", || format!("group {}: {text}", group()));
        match event {
            GroupEvent::StateChanged { to, .. } => {
                self.state = *to;
                self.parts.delivery.set_stale(*to == State::Stale);
                if *to == State::Unsubscribed {
                    self.lead(BTreeSet::new());
                    self.parts.delivery.set_leaving(false);
                }
            }
            GroupEvent::Joined { leader: false, .. } => self.lead(BTreeSet::new()),
            GroupEvent::Retried { api, .. } => self.parts.metrics.retriable_error(api),
            GroupEvent::LeaseExpired => {
                let stalled = self.parts.delivery.queued_records();
                self.shared.figures().counted.records_stalled += stalled;
            }
            _ => {}
        }
        self.shared.figures().take(event);
    }
}
