//! The task that owns the fetch machine: feeds it answers, commands and time, and does what it says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use monedula_engine::cluster::Cluster;
use monedula_engine::fetch::{Fault, FetchConfig, FetchMachine, FetchPlan, Output, Resolved, Start};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};
use monedula_protocol::types::Uuid;
use tokio::sync::mpsc;

use crate::budget::{Budget, Charge};
use crate::config::ClientConfig;
use crate::connection::Frame;
use crate::delivery::Delivery;
use crate::error::RequestError;
use crate::log::{Level, Log};
use crate::metadata::{Endpoint, Metadata, View};
use crate::metrics::Metrics;
use crate::network::{Network, NodeId, Purpose};
use crate::offsets::{Answer, EARLIEST, LATEST, Offsets, Question, UNKNOWN_TOPIC_ANSWERS};

/// What the user wants of the driver. Spans come from the delivery, which is told first.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Assign {
        partitions: Vec<(TopicPartition, u64, Start)>,
    },
    /// All partitions of a topic, those added later too.
    AssignTopic {
        topic: Arc<str>,
        start: Start,
    },
    Unassign {
        partitions: Vec<TopicPartition>,
        topics: Vec<Arc<str>>,
    },
    Seek {
        partition: TopicPartition,
        span: u64,
        start: Start,
    },
    /// All partitions of a topic that was assigned as a whole, before they were known.
    SeekTopic {
        topic: Arc<str>,
        start: Start,
    },
    Pause {
        partition: TopicPartition,
        paused: bool,
    },
    /// The records at `offset` cannot be decoded.
    Unreadable {
        partition: TopicPartition,
        span: u64,
        offset: i64,
    },
}

enum Event {
    Fetched { node: i32, answer: Result<(Frame, i16), RequestError>, charge: Charge },
    Resolved { answers: Vec<(TopicPartition, u64, Result<Option<Resolved>, ErrorCode>)> },
    Validated { answers: Vec<(TopicPartition, u64, Result<Option<i64>, ErrorCode>)> },
}

/// What the driver works with.
pub(crate) struct Driver {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) network: Arc<Network>,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) offsets: Offsets,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) budget: Budget,
    pub(crate) log: Log,
    pub(crate) metrics: Metrics,
}

struct Running {
    driver: Driver,
    machine: FetchMachine,
    started: Instant,
    cluster: Arc<Cluster>,
    events: mpsc::UnboundedSender<Event>,
    /// Topics assigned as a whole: where they start, and whether their first partitions are assigned.
    topics: BTreeMap<Arc<str>, (Start, bool)>,
    /// Their partitions, as they were added.
    grown: BTreeMap<TopicPartition, u64>,
    starved: bool,
}

/// A fetch answer's bytes with their share of the budget; both go when the last record is walked.
struct ChargedFrame {
    frame: Frame,
    _charge: Charge,
}

impl AsRef<[u8]> for ChargedFrame {
    fn as_ref(&self) -> &[u8] {
        self.frame.as_slice()
    }
}

impl Driver {
    /// Runs until all senders of commands are gone.
    pub(crate) async fn run(self, mut commands: mpsc::UnboundedReceiver<Command>, seed: u64) {
        let (events, mut inbox) = mpsc::unbounded_channel();
        let config = FetchConfig {
            reset: self.config.reset,
            max_wait: self.config.fetch_max_wait,
            max_partition_bytes: self.config.max_partition_fetch_bytes,
            preferred_replica_ttl: self.config.metadata_max_age,
            backoff: self.config.retry_backoff,
            unknown_topic_answers: UNKNOWN_TOPIC_ANSWERS,
        };
        let mut view = self.metadata.watch();
        let budget = self.budget.clone();
        let bootstrap_timeout = self.config.bootstrap_timeout;
        let mut running = Running {
            driver: self,
            machine: FetchMachine::new(config, seed),
            started: Instant::now(),
            cluster: Arc::default(),
            events,
            topics: BTreeMap::new(),
            grown: BTreeMap::new(),
            starved: false,
        };
        let bootstrap_deadline = Instant::now() + bootstrap_timeout;
        loop {
            running.act();
            let wake_at = running.wake_at(bootstrap_deadline);
            tokio::select! {
                command = commands.recv() => {
                    let Some(command) = command else { break };
                    running.command(command);
                    while let Ok(command) = commands.try_recv() {
                        running.command(command);
                    }
                }
                Some(event) = inbox.recv() => {
                    running.event(event);
                    while let Ok(event) = inbox.try_recv() {
                        running.event(event);
                    }
                }
                Ok(()) = view.changed() => {
                    let view = view.borrow_and_update().clone();
                    running.view(&view);
                }
                () = tokio::time::sleep_until(wake_at.into()) => {
                    let view = view.borrow().clone();
                    running.tick(&view);
                }
                () = budget.freed(), if running.starved => {}
            }
        }
    }
}

impl Running {
    fn now(&self) -> Now {
        self.started.elapsed()
    }

    fn wake_at(&self, bootstrap_deadline: Instant) -> Instant {
        let now = self.now();
        let latest = now + Duration::from_secs(60);
        let at = self.started + self.machine.wake_at(now).unwrap_or(latest).min(latest);
        // An unreachable cluster has to be told on time, even if nothing else happens.
        if bootstrap_deadline > Instant::now() { at.min(bootstrap_deadline + Duration::from_millis(1)) } else { at }
    }

    fn command(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::Assign { partitions } => {
                for (partition, span, start) in partitions {
                    self.machine.assign(partition, span, start, &self.cluster, now);
                }
            }
            Command::AssignTopic { topic, start } => {
                self.topics.insert(topic, (start, false));
                // The assignment made metadata forget what it had against the topic.
                self.adopt(&self.driver.metadata.cluster());
                self.driver.metadata.want();
                self.grow();
            }
            Command::Unassign { partitions, topics } => {
                for partition in partitions {
                    self.machine.unassign(&partition, now);
                }
                for topic in &topics {
                    self.topics.remove(topic);
                    // Some may have been added after the user's side listed what there was.
                    for (partition, span) in self.grown.extract_if(.., |partition, _| partition.topic == *topic) {
                        self.driver.delivery.remove_span(&partition, span);
                        self.machine.unassign(&partition, now);
                    }
                }
                // Once more after the user's own call: the error may have come in between.
                self.driver.delivery.forget_topics();
            }
            Command::Seek { partition, span, start } => {
                self.machine.seek(&partition, span, start, &self.cluster, now);
            }
            Command::SeekTopic { topic, start } => self.seek_topic(&topic, start),
            Command::Pause { partition, paused } => self.machine.set_paused(&partition, paused, now),
            Command::Unreadable { partition, span, offset } => {
                self.machine.rewind(&partition, span, offset, true, now);
            }
        }
    }

    fn seek_topic(&mut self, topic: &Arc<str>, start: Start) {
        let now = self.now();
        match self.topics.get_mut(topic) {
            None => {}
            Some((wanted, false)) => *wanted = start,
            // They became known after the user had asked.
            Some((_, true)) => {
                let known = self.cluster.topics.get(topic).into_iter().flat_map(|topic| topic.partitions.keys());
                for &index in known {
                    let partition = TopicPartition::new(topic.clone(), index);
                    if let Some(span) = self.driver.delivery.restart(&partition) {
                        self.grown.insert(partition.clone(), span);
                        self.machine.seek(&partition, span, start, &self.cluster, now);
                    }
                }
            }
        }
    }

    fn event(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Fetched { node, answer, charge } => self.fetched(node, answer, charge),
            Event::Resolved { answers } => {
                for (partition, span, answer) in answers {
                    self.machine.resolved(&partition, span, answer, now);
                }
            }
            Event::Validated { answers } => {
                for (partition, span, answer) in answers {
                    self.machine.validated(&partition, span, answer, now);
                }
            }
        }
    }

    fn view(&mut self, view: &View) {
        self.driver.delivery.set_fatal(self.driver.metadata.unreachable(view));
        if self.adopt(&view.cluster) {
            self.grow();
        }
    }

    /// Takes a newer view of the cluster; false if it is the one that is known.
    fn adopt(&mut self, cluster: &Arc<Cluster>) -> bool {
        let newer = !Arc::ptr_eq(&self.cluster, cluster);
        if newer {
            self.cluster = cluster.clone();
            self.machine.cluster_changed(&self.cluster, self.now());
        }
        newer
    }

    fn tick(&mut self, view: &View) {
        self.driver.delivery.set_fatal(self.driver.metadata.unreachable(view));
        self.machine.tick(self.now());
    }

    /// Assigns partitions of whole topics that are new: the first ones where the user said, later ones at their
    /// smallest offset, so that none of their records is missed (seed S084).
    fn grow(&mut self) {
        let now = self.now();
        let topics: Vec<(Arc<str>, Start, bool)> =
            self.topics.iter().map(|(topic, &(start, known))| (topic.clone(), start, known)).collect();
        for (name, start, known) in topics {
            let Some(topic) = self.cluster.topics.get(&name) else { continue };
            let first = TopicPartition::new(name.clone(), 0);
            match crate::offsets::missing(&first, &self.cluster) {
                Err(error) if !known => {
                    self.driver.delivery.topic_failed(error);
                    self.topics.remove(&name);
                    continue;
                }
                _ if topic.error != ErrorCode::None => {
                    self.driver.metadata.want();
                    continue;
                }
                _ => {}
            }
            let start = if known { Start::Earliest } else { start };
            for &index in topic.partitions.keys() {
                let partition = TopicPartition::new(name.clone(), index);
                if self.driver.delivery.status_of(&partition).is_none() {
                    let span = self.driver.delivery.add(&partition, None);
                    self.grown.insert(partition.clone(), span);
                    self.machine.assign(partition, span, start, &self.cluster, now);
                }
            }
            self.topics.insert(name, (start, true));
        }
    }

    /// Does what the machine says, until it says nothing more.
    fn act(&mut self) {
        let mut lookups = Vec::new();
        let mut ranges = Vec::new();
        let mut validations = Vec::new();
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Resolve { partition, span, start } => lookups.push((partition, span, start)),
                Output::ResolveRange { partition, span } => ranges.push((partition, span)),
                Output::Validate { partition, span, offset_epoch, .. } => {
                    validations.push((partition, span, offset_epoch));
                }
                Output::RefreshMetadata => self.driver.metadata.want(),
                // The view's watcher brings it back as a change of the cluster.
                Output::LeaderHint { partition, leader, leader_epoch } => {
                    self.driver.metadata.hint(&partition, leader, leader_epoch);
                }
                Output::Positioned { partition, span, offset, moved_from } => {
                    self.positioned(&partition, span, offset, moved_from);
                }
                Output::Stopped { span, fault } => self.stopped(span, fault),
            }
        }
        self.resolve(lookups);
        self.resolve_ranges(ranges);
        self.validate(validations);
        self.send_fetches();
    }

    fn positioned(&self, partition: &TopicPartition, span: u64, offset: i64, moved_from: Option<i64>) {
        if let Some(lost) = moved_from {
            self.driver.metrics.positions_lost(1);
            self.driver.log.record(Level::Warning, "fetch", || {
                format!("{partition}: the log no longer holds offset {lost}; reading goes on at {offset}")
            });
        }
        self.driver.delivery.positioned(partition, span, offset);
    }

    fn stopped(&self, span: u64, fault: Fault) {
        self.driver.log.record(Level::Warning, "fetch", || format!("stopped: {fault}"));
        let partition = fault.partition().clone();
        self.driver.delivery.stopped(&partition, span, fault.into());
    }

    fn resolve(&self, lookups: Vec<(TopicPartition, u64, Start)>) {
        if lookups.is_empty() {
            return;
        }
        let (offsets, events) = (self.driver.offsets.clone(), self.events.clone());
        tokio::spawn(async move {
            let spans: BTreeMap<TopicPartition, u64> =
                lookups.iter().map(|(partition, span, _)| (partition.clone(), *span)).collect();
            let by_time = lookups.iter().any(|(_, _, start)| matches!(start, Start::Timestamp(_)));
            let questions = lookups.into_iter().map(|(partition, _, start)| {
                let what = match start {
                    Start::Earliest => EARLIEST,
                    Start::Timestamp(timestamp_ms) => timestamp_ms,
                    Start::Latest | Start::Policy | Start::Offset(..) => LATEST,
                };
                Question { partition, what }
            });
            let answers = offsets.list_once(questions.collect()).await;
            let answers = answers.into_iter().filter_map(|(partition, answer)| {
                let span = *spans.get(&partition)?;
                Some((partition, span, resolved(answer, by_time, None)))
            });
            let _ = events.send(Event::Resolved { answers: answers.collect() });
        });
    }

    /// Both ends of logs that do not hold a position.
    fn resolve_ranges(&self, ranges: Vec<(TopicPartition, u64)>) {
        if ranges.is_empty() {
            return;
        }
        let (offsets, events) = (self.driver.offsets.clone(), self.events.clone());
        tokio::spawn(async move {
            let ask =
                |what| ranges.iter().map(|(partition, _)| Question { partition: partition.clone(), what }).collect();
            let starts: BTreeMap<TopicPartition, Answer> = offsets.list_once(ask(EARLIEST)).await.into_iter().collect();
            let ends: BTreeMap<TopicPartition, Answer> = offsets.list_once(ask(LATEST)).await.into_iter().collect();
            let answers = ranges.into_iter().map(|(partition, span)| {
                let missing = Err(ErrorCode::LeaderNotAvailable);
                let start = starts.get(&partition).copied().unwrap_or(missing);
                let end = ends.get(&partition).copied().unwrap_or(missing);
                let answer = match start {
                    Ok(Some(start)) => resolved(end, false, Some(start.offset)),
                    Ok(None) => Err(ErrorCode::UnknownServerError),
                    Err(code) => Err(code),
                };
                (partition, span, answer)
            });
            let _ = events.send(Event::Resolved { answers: answers.collect() });
        });
    }

    fn validate(&self, validations: Vec<(TopicPartition, u64, i32)>) {
        if validations.is_empty() {
            return;
        }
        let (offsets, events) = (self.driver.offsets.clone(), self.events.clone());
        tokio::spawn(async move {
            let spans: BTreeMap<TopicPartition, u64> =
                validations.iter().map(|(partition, span, _)| (partition.clone(), *span)).collect();
            let questions = validations
                .into_iter()
                .map(|(partition, _, epoch)| Question { partition, what: i64::from(epoch) })
                .collect();
            let answers = offsets.epoch_ends_once(questions).await.into_iter().filter_map(|(partition, answer)| {
                let span = *spans.get(&partition)?;
                Some((partition, span, answer.map(|found| found.map(|end| end.offset))))
            });
            let _ = events.send(Event::Validated { answers: answers.collect() });
        });
    }

    /// Sends a fetch to every node that wants one and for which there is budget.
    fn send_fetches(&mut self) {
        let now = self.now();
        let nodes = self.machine.ready_nodes(now);
        let mut starved = false;
        for node in &nodes {
            let Some(charge) = self.credit(nodes.len()) else {
                starved = true;
                break;
            };
            let Some(plan) = self.machine.next_fetch(*node, now) else { continue };
            self.send_fetch(*node, plan, charge);
        }
        if starved && !self.starved {
            self.driver.metrics.budget_waits(1);
            for (partition, span, offset) in self.driver.delivery.evict_paused() {
                self.machine.rewind(&partition, span, offset, false, now);
            }
        }
        if starved != self.starved {
            self.starved = starved;
            self.driver.delivery.set_starved(starved);
        }
    }

    /// Budget for one fetch: its cap, but no more than its share of what fetches may take together. That is not all:
    /// three eighths stay for decompressing ahead, and for answers that are larger than asked (KIP-74).
    fn credit(&self, nodes: usize) -> Option<Charge> {
        let ceiling = self.driver.budget.limit() / 8 * 5;
        let share = ceiling / 2 / nodes.max(1);
        let bytes = self.driver.config.fetch_max_bytes.min(share.max(64 << 10));
        self.driver.budget.try_take_below(bytes, ceiling)
    }

    fn send_fetch(&self, node: i32, plan: FetchPlan, charge: Charge) {
        self.driver.metrics.fetches_sent(1);
        let (network, config, events) = (self.driver.network.clone(), self.driver.config.clone(), self.events.clone());
        tokio::spawn(async move {
            let max_version = if plan.by_topic_id { *FetchRequest::VERSIONS.end() } else { 12 };
            let versions = *FetchRequest::VERSIONS.start()..=max_version;
            let max_bytes = charge.bytes();
            let build = |version| fetch_request(&plan, &config, max_bytes, version);
            let answer =
                network.call(NodeId::Broker(node), Purpose::Fetch, versions, config.fetch_max_wait, build).await;
            let _ = events.send(Event::Fetched { node, answer, charge });
        });
    }

    fn fetched(&mut self, node: i32, answer: Result<(Frame, i16), RequestError>, mut charge: Charge) {
        let now = self.now();
        let (frame, version) = match answer {
            Ok(answered) => answered,
            Err(error) => return self.fetch_failed(node, &error),
        };
        charge.set(frame.capacity());
        let frame = Bytes::from_owner(ChargedFrame { frame, _charge: charge });
        let response = match frame::decode_response::<FetchRequest<'_>>(&frame, version) {
            Ok(response) => response,
            Err(error) => {
                let broker = format!("broker {node}");
                return self.fetch_failed(node, &RequestError::Wire { broker, error });
            }
        };
        if !response.node_endpoints.is_empty() {
            let endpoints: Vec<Endpoint> = response.node_endpoints.iter().filter_map(Endpoint::new).collect();
            self.driver.metadata.learn_endpoints(&endpoints);
        }
        let accepted = self.machine.fetched(node, &response, now);
        if accepted.iter().all(|fetched| fetched.records.is_empty()) {
            self.driver.metrics.fetches_empty(1);
        }
        for fetched in accepted {
            self.driver.delivery.push(fetched, &frame);
        }
    }

    fn fetch_failed(&mut self, node: i32, error: &RequestError) {
        self.driver.metrics.retriable_error("fetch");
        self.driver.log.record(Level::Info, "fetch", || format!("fetch from broker {node} failed: {error}"));
        if let RequestError::Fatal(error) = error {
            self.driver.delivery.set_fatal(Some((**error).clone()));
        }
        let now = self.now();
        self.machine.fetch_failed(node, now);
    }
}

/// An offset lookup's answer for the machine. Only a lookup by time may find nothing.
fn resolved(answer: Answer, by_time: bool, log_start: Option<i64>) -> Result<Option<Resolved>, ErrorCode> {
    match answer? {
        Some(found) => Ok(Some(Resolved { offset: found.offset, leader_epoch: found.leader_epoch, log_start })),
        None if by_time => Ok(None),
        None => Err(ErrorCode::UnknownServerError),
    }
}

/// The plan as a request in `version`.
fn fetch_request<'p>(
    plan: &'p FetchPlan,
    config: &'p ClientConfig,
    max_bytes: usize,
    version: i16,
) -> FetchRequest<'p> {
    // Topics in the order in which the plan first names them: brokers fill their answers in the order of the request.
    let mut topics: Vec<FetchTopic<'_>> = Vec::new();
    let mut places: BTreeMap<(&str, Uuid), usize> = BTreeMap::new();
    for (partition, topic_id, sent) in &plan.partitions {
        let place = *places.entry((&partition.topic, *topic_id)).or_insert(topics.len());
        if place == topics.len() {
            topics.push(FetchTopic { topic: &partition.topic, topic_id: *topic_id, ..Default::default() });
        }
        topics[place].partitions.push(FetchPartition {
            partition: partition.partition,
            current_leader_epoch: sent.leader_epoch,
            fetch_offset: sent.offset,
            last_fetched_epoch: if version >= 12 { sent.offset_epoch } else { -1 },
            partition_max_bytes: sent.max_bytes,
            ..Default::default()
        });
    }
    let mut forgotten: BTreeMap<(&str, Uuid), Vec<i32>> = BTreeMap::new();
    for (partition, id) in &plan.forget {
        forgotten.entry((&partition.topic, *id)).or_default().push(partition.partition);
    }
    let sessions = version >= 7;
    FetchRequest {
        replica_id: -1,
        max_wait_ms: i32::try_from(config.fetch_max_wait.as_millis()).unwrap_or(i32::MAX),
        min_bytes: config.fetch_min_bytes,
        max_bytes: i32::try_from(max_bytes).unwrap_or(i32::MAX),
        isolation_level: i8::from(config.read_committed),
        session_id: if sessions { plan.session_id } else { 0 },
        session_epoch: if sessions { plan.session_epoch } else { -1 },
        topics,
        forgotten_topics_data: forgotten
            .into_iter()
            .map(|((topic, topic_id), partitions)| ForgottenTopic { topic, topic_id, partitions, ..Default::default() })
            .collect(),
        rack_id: config.client_rack.as_deref().unwrap_or(""),
        ..Default::default()
    }
}
