//! The task that owns the machines of a share group's member: gives them answers, commands, metadata and time, and does
//! what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monedula_columns::WalkOptions;
use monedula_engine::group::share::{ShareMember, ShareStatus};
use monedula_engine::group::{
    self, Call, CallError, CallId, GroupEvent, GroupResponse, Input, Subscription, Target, TopicInfo,
};
use monedula_engine::share::{AcknowledgeError, Acknowledgement, SessionId, ShareSessions, ShareSettings};
use monedula_engine::{Now, TopicPartition};
use tokio::sync::{mpsc, oneshot};

use super::answer_sizes::AnswerSizes;
use super::buffer::{Demand, ShareBuffer};
use super::command::{AcknowledgeOutcome, Reply, ShareCommand};
use crate::base::ClientBase;
use crate::budget::{Budget, Charge};
use crate::error::{ClientError, RequestError, counted};
use crate::group::calls::answer_of;
use crate::group::handle::Figures;
use crate::group::request_order::RequestOrder;
use crate::group::status::{kind, sentence};
use crate::group::subscription::topic_infos;
use crate::group::unknown_topics::{TopicsKnown, nearest_topic};
use crate::lock::lock;
use crate::log::{Entry, kinds};
use crate::net::connection::Frame;
use crate::net::metadata::View;
use crate::reach::Reach;
use crate::tasks::caught;

/// The result of a task that the driver has spawned.
pub(super) enum Event {
    Fetched {
        node: i32,
        answer: Result<(Frame, i16), RequestError>,
        charge: Charge,
    },
    Acknowledged {
        node: i32,
        answer: Result<(Frame, i16), RequestError>,
    },
    /// The connection of a session has ended.
    Disconnected {
        session: SessionId,
    },
    Called {
        id: CallId,
        outcome: Result<GroupResponse, CallError>,
    },
    /// A subscribed topic does not exist; one with nearly the same name does, or none.
    Unknown {
        topic: Arc<str>,
        nearest: Option<Arc<str>>,
    },
}

/// What the user's calls read of the driver.
#[derive(Default)]
pub(super) struct Observed {
    pub(super) status: Option<ShareStatus>,
    pub(super) figures: Figures,
    /// Records whose acknowledgement took no effect, or may not have.
    pub(super) unacknowledged: u64,
    /// What a broker refuses to give, as of now.
    pub(super) denied: Option<ClientError>,
}

/// The parts that the driver works with.
pub(super) struct Driver {
    pub(super) base: ClientBase,
    pub(super) buffer: Arc<ShareBuffer>,
    pub(super) budget: Budget,
    pub(super) reach: Reach,
    pub(super) member_id: Arc<str>,
    pub(super) observed: Arc<Mutex<Observed>>,
    pub(super) seed: u64,
}

/// A call that waits for outcomes of acknowledgements.
struct Awaiting {
    tickets: BTreeSet<u64>,
    outcomes: Vec<AcknowledgeOutcome>,
    reply: Option<Reply>,
}

pub(super) struct Running {
    pub(super) driver: Driver,
    member: ShareMember,
    pub(super) sessions: ShareSessions,
    pub(super) walk_options: WalkOptions,
    pub(super) events: mpsc::UnboundedSender<Event>,
    order: RequestOrder,
    /// The member's calls in flight; dropping one's sender changes nothing.
    calls: BTreeMap<CallId, oneshot::Sender<()>>,
    subscribed: BTreeSet<Arc<str>>,
    known: Option<BTreeMap<Arc<str>, TopicInfo>>,
    /// Subscribed topics that do not exist.
    unknown: BTreeSet<Arc<str>>,
    /// Acknowledgements under way, without renewals.
    under_way: BTreeSet<u64>,
    renewals: BTreeSet<u64>,
    awaiting: Vec<Awaiting>,
    pub(super) answer_sizes: AnswerSizes,
    pub(super) is_starved: bool,
    /// What the user's calls want of brokers, as of now.
    pub(super) demand: Demand,
    /// Nodes whose last request failed in a way that no repetition mends.
    pub(super) refusing: BTreeMap<i32, ClientError>,
    closing: Option<Now>,
    is_done: bool,
}

impl Driver {
    /// Runs until the consumer is closed or dropped. A panic is an error for every call from then on.
    pub(super) async fn run(self, commands: mpsc::UnboundedReceiver<ShareCommand>) {
        let (buffer, log) = (self.buffer.clone(), self.base.log.clone());
        if let Err(reason) = caught(self.run_until_closed(commands)).await {
            let error = ClientError::Internal(format!("the task of the share group ended: {reason}"));
            log.record(&kinds::FETCH_TASK_ENDED, || error.to_string());
            buffer.push_error(error, true);
        }
    }

    async fn run_until_closed(self, mut commands: mpsc::UnboundedReceiver<ShareCommand>) {
        let (events, mut inbox) = mpsc::unbounded_channel();
        let mut view = self.base.metadata.watch();
        let (buffer, budget) = (self.buffer.clone(), self.budget.clone());
        let mut running = Running::new(self, events);
        while !running.is_done {
            while let Ok(event) = inbox.try_recv() {
                running.event(event);
            }
            running.look_at_demand();
            // A call gives what it acknowledges before it waits: taken after that wait was seen, its fetch has them along.
            while let Ok(command) = commands.try_recv() {
                running.command(command);
            }
            running.work();
            if running.is_done {
                break;
            }
            let wake_at = buffer.instant(running.wake_at());
            tokio::select! {
                command = commands.recv() => {
                    let Some(command) = command else { break };
                    running.command(command);
                }
                Some(event) = inbox.recv() => running.event(event),
                Ok(()) = view.changed() => {
                    let view = view.borrow_and_update().clone();
                    running.view(&view);
                }
                () = buffer.wanted().notified() => {}
                () = budget.freed(), if running.is_starved => {}
                () = tokio::time::sleep_until(wake_at.into()) => {}
            }
        }
    }
}

impl Running {
    fn new(driver: Driver, events: mpsc::UnboundedSender<Event>) -> Self {
        let config = driver.base.config.clone();
        let settings = ShareSettings {
            max_wait: config.fetch_max_wait,
            max_records: config.share.max_poll_records,
            is_strict: config.share.is_strict,
            backoff: config.retry_backoff,
        };
        let member = ShareMember::new(config.share_membership(), driver.member_id.to_string(), driver.seed);
        Self {
            member,
            sessions: ShareSessions::new(settings, driver.seed),
            walk_options: WalkOptions {
                check_crcs: config.check_crcs,
                // Aborted records are never among the acquired ones of a group with read_committed.
                read_committed: false,
                max_decompressed_bytes: config.max_decompressed_batch_bytes,
            },
            driver,
            events,
            order: RequestOrder::default(),
            calls: BTreeMap::new(),
            subscribed: BTreeSet::new(),
            known: None,
            unknown: BTreeSet::new(),
            under_way: BTreeSet::new(),
            renewals: BTreeSet::new(),
            awaiting: Vec::new(),
            answer_sizes: AnswerSizes::default(),
            is_starved: false,
            demand: Demand::Nothing,
            refusing: BTreeMap::new(),
            closing: None,
            is_done: false,
        }
    }

    fn look_at_demand(&mut self) {
        self.demand = match self.driver.buffer.demand() {
            // An answer without records would keep the next request, and what it acknowledges, waiting.
            Demand::Ahead if !self.sessions.has_more() => Demand::Nothing,
            demand => demand,
        };
    }

    /// Does everything that is due.
    fn work(&mut self) {
        let now = self.driver.buffer.now();
        self.sessions.set_wanted(self.demand != Demand::Nothing);
        self.sessions.set_max_records(self.driver.buffer.max_records());
        let (acknowledgements, renewals) = self.driver.buffer.due(now);
        self.acknowledge(acknowledgements, None);
        self.renew(renewals.into_iter().map(|renewal| (renewal, None)).collect(), None);
        self.sessions.tick(now);
        self.handle(Input::Tick);
        self.take_outputs(None);
        if !self.is_done {
            self.send_requests();
            self.take_outputs(None);
        }
        self.update_fatal();
    }

    fn wake_at(&self) -> Now {
        let now = self.driver.buffer.now();
        let due = [self.member.wake_at(), self.sessions.wake_at(now), self.driver.buffer.due_at()];
        let latest = now + Duration::from_secs(60);
        let due = due.into_iter().flatten().min().unwrap_or(latest).min(latest);
        // An error of an unreachable cluster comes on time, also while an attempt to connect hangs.
        let view = self.driver.base.metadata.view();
        let bootstrap = view.failing.filter(|_| view.answers == 0).map(|(since, _)| {
            let left = self.driver.base.config.bootstrap_timeout.saturating_sub(since.elapsed());
            now + left + Duration::from_millis(1)
        });
        bootstrap.map_or(due, |at| at.min(due))
    }

    fn update_fatal(&self) {
        let base = &self.driver.base;
        let unreachable = base.metadata.unreachable(&base.metadata.view());
        let refused = || self.refusing.values().next().cloned().or_else(|| base.network.refusal());
        let ended = || self.member.fatal().cloned().map(ClientError::Group);
        self.driver.buffer.set_fatal(unreachable.or_else(refused).or_else(ended));
        let denied = self.sessions.denied().map(|(partition, code)| self.denial(partition, code));
        lock(&self.driver.observed).denied = denied;
    }

    fn command(&mut self, command: ShareCommand) {
        match command {
            ShareCommand::Subscribe(topics) => {
                self.release_topics();
                self.driver.base.metadata.hold(topics.iter().cloned());
                self.subscribed = topics.clone();
                self.driver.base.metadata.want();
                self.handle(Input::Subscribe(Subscription::Topics(topics)));
                let view = self.driver.base.metadata.view();
                self.view(&view);
            }
            ShareCommand::Unsubscribe => {
                self.release_topics();
                self.handle(Input::Unsubscribe);
            }
            ShareCommand::Acknowledge { acknowledgements, reply } => self.acknowledge(acknowledgements, reply),
            ShareCommand::Renew { renewals, reply } => self.renew(renewals, Some(reply)),
            ShareCommand::Close { deadline } => {
                self.closing = Some(deadline);
                // A broker that does not answer must not take the time for leaving the group, too: until the session of a
                // member that has not left is over, nobody else gets its partitions.
                self.sessions.close(deadline - deadline.saturating_sub(self.driver.buffer.now()) / 4);
            }
        }
    }

    fn release_topics(&mut self) {
        self.driver.base.metadata.release(std::mem::take(&mut self.subscribed));
        self.known = None;
        self.unknown.clear();
        lock(&self.driver.observed).figures.unknown_topics.clear();
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Fetched { node, answer, charge } => self.fetched(node, answer, charge),
            Event::Acknowledged { node, answer } => self.acknowledged(node, answer),
            Event::Disconnected { session } => self.sessions.disconnected(session),
            Event::Called { id, outcome } => {
                self.calls.remove(&id);
                self.driver.reach.note_coordinator(&outcome);
                self.handle(Input::Answer { id, outcome });
            }
            Event::Unknown { topic, nearest } => self.tell_unknown(topic, nearest),
        }
    }

    fn view(&mut self, view: &View) {
        self.sessions.update_metadata(&view.cluster);
        let propagation = self.driver.base.config.propagation;
        self.look_for_unknown(view, propagation);
        let Some(topics) = topic_infos((&view.cluster, propagation), false, &self.subscribed) else { return };
        if self.known.as_ref() != Some(&topics) {
            self.known = Some(topics.clone());
            self.handle(Input::Topics { topics });
        }
    }

    /// Tells the user once of each subscribed topic that does not exist, and once when it does.
    fn look_for_unknown(&mut self, view: &View, propagation: Duration) {
        let TopicsKnown { found, unknown, .. } =
            TopicsKnown::of(view, &self.subscribed, propagation, &mut self.unknown);
        for topic in unknown {
            let (base, events) = (self.driver.base.clone(), self.events.clone());
            tokio::spawn(async move {
                let nearest = nearest_topic(base, topic.clone()).await;
                let _ = events.send(Event::Unknown { topic, nearest });
            });
        }
        for topic in found {
            let was_told = lock(&self.driver.observed).figures.unknown_topics.remove(&topic);
            if was_told {
                self.note(GroupEvent::TopicFound { topic });
            }
        }
    }

    fn tell_unknown(&self, topic: Arc<str>, nearest: Option<Arc<str>>) {
        // The subscription may have changed meanwhile, or the topic may have been created.
        if self.unknown.contains(&topic) && lock(&self.driver.observed).figures.unknown_topics.insert(topic.clone()) {
            self.note(GroupEvent::UnknownTopic { topic, nearest });
        }
    }

    /// Gives the member an input and does what it says.
    fn handle(&mut self, input: Input) {
        let mut has_changed = !matches!(input, Input::Tick);
        self.member.handle(self.driver.buffer.now(), input);
        while let Some(output) = self.member.poll() {
            has_changed = true;
            match output {
                group::Output::Call { id, target, call } => self.call(id, target, call),
                group::Output::Assigned { .. } | group::Output::Released { .. } => {
                    self.sessions.assign(self.member.assigned().clone());
                }
                group::Output::RefreshMetadata => self.driver.base.metadata.want(),
                group::Output::Raise { error, fatal } => self.driver.buffer.push_error(error.into(), fatal),
                group::Output::Event(event) => self.note(event),
                group::Output::Closed => self.is_done = true,
                // A share group has no others.
                _ => {}
            }
        }
        if has_changed {
            lock(&self.driver.observed).status = Some(self.member.status());
        }
    }

    fn note(&self, event: GroupEvent) {
        self.driver.base.log.record(kind(&event), || format!("{}: {}", self.group(), sentence(&event, true)));
        lock(&self.driver.observed).figures.take(event);
    }

    /// The group, as lines of the log name it.
    fn group(&self) -> String {
        format!("group {}", self.driver.base.log.group().unwrap_or_default())
    }

    fn call(&mut self, id: CallId, target: Target, call: Call) {
        let (base, events) = (self.driver.base.clone(), self.events.clone());
        let (cancel, cancelled) = oneshot::channel();
        self.calls.insert(id, cancel);
        // The turn is taken before the task is spawned, for tasks begin in any order.
        let turn = self.order.next(target, call.purpose());
        tokio::spawn(async move {
            let outcome = answer_of(&base, cancelled, target, call, turn).await;
            let _ = events.send(Event::Called { id, outcome });
        });
    }

    fn acknowledge(
        &mut self,
        acknowledgements: Vec<(Acknowledgement, Option<AcknowledgeError>)>,
        reply: Option<Reply>,
    ) {
        self.under_way.extend(acknowledgements.iter().map(|(acknowledgement, _)| acknowledgement.ticket));
        if let Some(reply) = reply {
            self.await_outcomes(self.under_way.clone(), reply);
        }
        for (acknowledgement, error) in acknowledgements {
            match error {
                Some(error) => self.acknowledgement_ended(&acknowledgement, Err(error)),
                None => self.sessions.acknowledge(acknowledgement),
            }
        }
    }

    fn renew(&mut self, renewals: Vec<(Acknowledgement, Option<AcknowledgeError>)>, reply: Option<Reply>) {
        let tickets: BTreeSet<u64> = renewals.iter().map(|(renewal, _)| renewal.ticket).collect();
        self.renewals.extend(&tickets);
        if let Some(reply) = reply {
            self.await_outcomes(tickets, reply);
        }
        for (renewal, error) in renewals {
            match error {
                Some(error) => self.acknowledgement_ended(&renewal, Err(error)),
                None => self.sessions.renew(renewal),
            }
        }
    }

    fn await_outcomes(&mut self, tickets: BTreeSet<u64>, reply: Reply) {
        self.awaiting.push(Awaiting { tickets, outcomes: Vec::new(), reply: Some(reply) });
        self.reply();
    }

    /// Answers the calls that wait for nothing any more.
    fn reply(&mut self) {
        for awaiting in self.awaiting.iter_mut().filter(|awaiting| awaiting.tickets.is_empty()) {
            if let Some(reply) = awaiting.reply.take() {
                // The caller may have stopped waiting.
                let _ = reply.send(std::mem::take(&mut awaiting.outcomes));
            }
        }
        self.awaiting.retain(|awaiting| awaiting.reply.is_some());
    }

    pub(super) fn acknowledgement_ended(
        &mut self,
        acknowledgement: &Acknowledgement,
        outcome: Result<Now, AcknowledgeError>,
    ) {
        let (ticket, records) = (acknowledgement.ticket, acknowledgement.records());
        let is_renewal = self.renewals.remove(&ticket);
        self.under_way.remove(&ticket);
        if is_renewal {
            self.driver.buffer.state().held.renewed(ticket, &outcome);
        }
        self.note_acknowledged(&acknowledgement.partition, records, is_renewal, &outcome);
        let outcome: AcknowledgeOutcome = (acknowledgement.partition.clone(), records, outcome.map(drop));
        for awaiting in &mut self.awaiting {
            if awaiting.tickets.remove(&ticket) {
                awaiting.outcomes.push(outcome.clone());
            }
        }
        self.reply();
    }

    fn note_acknowledged(
        &self,
        partition: &TopicPartition,
        records: u64,
        is_renewal: bool,
        outcome: &Result<Now, AcknowledgeError>,
    ) {
        let Err(error) = outcome else {
            return self.driver.base.metrics.records_acknowledged(if is_renewal { 0 } else { records });
        };
        if records == 0 {
            return;
        }
        let what = if is_renewal { "not renewed" } else { "not acknowledged" };
        lock(&self.driver.observed).unacknowledged += if is_renewal { 0 } else { records };
        self.driver.base.log.record(&kinds::ACKNOWLEDGEMENT_FAILED, || {
            let records = counted(records, "record");
            Entry::new(format!("{}: {partition}: {records} {what}: {error}", self.group())).partition(partition)
        });
    }

    /// All sessions are closed: the member leaves.
    pub(super) fn sessions_closed(&mut self) {
        let deadline = self.closing.unwrap_or_default();
        self.handle(Input::Close { deadline, leave: true });
    }
}
