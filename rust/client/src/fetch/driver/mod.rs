//! The task that owns the fetch machine: feeds it answers, commands and time, and does what it says.

mod credit;
mod fetches;
mod list_offsets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_engine::cluster::Cluster;
use monedula_engine::fetch::{Fault, FetchConfig, FetchMachine, ListedOffset, Output, Start};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;
use tokio::sync::mpsc;

use crate::config::ClientConfig;
use crate::error::{ClientError, RequestError};
use crate::fetch::budget::{Budget, Charge};
use crate::fetch::buffer::Delivery;
use crate::fetch::command::Command;
use crate::log::{Level, Log};
use crate::metrics::Metrics;
use crate::net::connection::Frame;
use crate::net::metadata::{Metadata, View};
use crate::net::network::Network;
use crate::offsets::{Offsets, UNKNOWN_TOPIC_ANSWERS};
use crate::starts::{CommittedStarts, Position};
use crate::tasks::caught;

enum Event {
    Fetched { node: i32, answer: Result<(Frame, i16), RequestError>, charge: Charge },
    ListedOffsets { answers: Vec<(TopicPartition, u64, Result<Option<ListedOffset>, ErrorCode>)> },
    EpochEnds { answers: Vec<(TopicPartition, u64, Result<Option<i64>, ErrorCode>)> },
}

/// What the driver works with.
pub(crate) struct Driver {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) network: Arc<Network>,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) offsets: Offsets,
    pub(crate) starts: CommittedStarts,
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
    topics: BTreeMap<Arc<str>, (Position, bool)>,
    /// Their partitions, as they were added.
    grown: BTreeMap<TopicPartition, u64>,
    /// Whether a fetch waits for budget.
    starved: bool,
    /// What the delivery was last told: hand out what is there.
    flush: bool,
    /// When a cluster that was never reached counts as unreachable.
    bootstrap_deadline: Option<Instant>,
    /// Nodes whose last fetch failed in a way that no repetition mends, until one succeeds or the user reads on elsewhere.
    refusing: BTreeMap<i32, ClientError>,
}

impl Driver {
    /// Runs until all senders of commands are gone. A panic is an error for every call from then on.
    pub(crate) async fn run(self, commands: mpsc::UnboundedReceiver<Command>, seed: u64) {
        let (delivery, log) = (self.delivery.clone(), self.log.clone());
        if let Err(reason) = caught(self.run_until_closed(commands, seed)).await {
            let error = ClientError::Internal(format!("the task that fetches ended: {reason}"));
            log.record(Level::Warning, "fetch", || error.to_string());
            delivery.set_fatal(Some(error));
        }
    }

    async fn run_until_closed(self, mut commands: mpsc::UnboundedReceiver<Command>, seed: u64) {
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
        let (budget, delivery) = (self.budget.clone(), self.delivery.clone());
        let mut running = Running {
            driver: self,
            machine: FetchMachine::new(config, seed),
            started: Instant::now(),
            cluster: Arc::default(),
            events,
            topics: BTreeMap::new(),
            grown: BTreeMap::new(),
            starved: false,
            flush: false,
            bootstrap_deadline: None,
            refusing: BTreeMap::new(),
        };
        loop {
            running.act();
            let wake_at = running.wake_at();
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
                    running.tick();
                }
                () = budget.freed(), if running.starved => {}
                () = budget.awaited() => {}
                () = delivery.drained.notified(), if running.starved => {}
            }
        }
    }
}

impl Running {
    fn now(&self) -> Now {
        self.started.elapsed()
    }

    fn wake_at(&self) -> Instant {
        let now = self.now();
        let latest = now + Duration::from_secs(60);
        let at = self.started + self.machine.wake_at(now).unwrap_or(latest).min(latest);
        // An unreachable cluster has to be told on time, even while an attempt hangs.
        match self.bootstrap_deadline.filter(|&deadline| deadline > Instant::now()) {
            Some(deadline) => at.min(deadline + Duration::from_millis(1)),
            None => at,
        }
    }

    fn command(&mut self, command: Command) {
        let now = self.now();
        if !matches!(command, Command::Pause { .. }) && !self.refusing.is_empty() {
            self.refusing.clear();
            self.tell_fatal();
        }
        match command {
            Command::Assign { partitions, is_owned } => {
                // What the assignment was told of the cluster came before the command, and must not be asked for again.
                if self.adopt(&self.driver.metadata.cluster()) {
                    self.grow();
                }
                for (partition, span, start, end) in partitions {
                    self.machine.assign(partition.clone(), span, start, &self.cluster, now);
                    if let Some(end) = end {
                        self.machine.bound(&partition, end, now);
                    }
                    if is_owned {
                        self.machine.wait_for_topic(&partition);
                    }
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
                self.machine.unreadable(&partition, span, offset, now);
            }
        }
    }

    fn seek_topic(&mut self, topic: &Arc<str>, start: Position) {
        let now = self.now();
        match self.topics.get_mut(topic) {
            None => {}
            Some((wanted, false)) => *wanted = start,
            // They became known after the user had asked.
            Some((_, true)) => {
                let known = self.cluster.topics.get(topic).into_iter().flat_map(|topic| topic.partitions.keys());
                for &index in known {
                    let partition = TopicPartition::new(topic.clone(), index);
                    let span = match start {
                        Position::At(_) => self.driver.delivery.restart(&partition),
                        Position::Committed => self.driver.delivery.wait_for_start(&partition),
                    };
                    let Some(span) = span else { continue };
                    self.grown.insert(partition.clone(), span);
                    match start {
                        Position::At(start) => self.machine.seek(&partition, span, start, &self.cluster, now),
                        Position::Committed => self.driver.starts.look_up(vec![(partition, span)]),
                    }
                }
            }
        }
    }

    fn event(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Fetched { node, answer, charge } => self.fetched(node, answer, charge),
            Event::ListedOffsets { answers } => {
                for (partition, span, answer) in answers {
                    self.machine.resolved(&partition, span, answer, now);
                }
            }
            Event::EpochEnds { answers } => {
                for (partition, span, answer) in answers {
                    self.machine.validated(&partition, span, answer, now);
                }
            }
        }
    }

    fn view(&mut self, view: &View) {
        let failing = view.failing.as_ref().filter(|_| view.answers == 0);
        self.bootstrap_deadline = failing.map(|(since, _)| *since + self.driver.config.bootstrap_timeout);
        self.tell_fatal();
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

    /// What keeps rows from coming is raised where there are none to hand out.
    fn tell_fatal(&self) {
        let unreachable = self.driver.metadata.unreachable(&self.driver.metadata.view());
        self.driver.delivery.set_fatal(unreachable.or_else(|| self.refusing.values().next().cloned()));
    }

    fn tick(&mut self) {
        self.tell_fatal();
        self.machine.tick(self.now());
    }

    /// Assigns partitions of whole topics that are new: the first ones where the user said, later ones at their
    /// smallest offset, so that none of their records is missed (seed S084).
    fn grow(&mut self) {
        let now = self.now();
        let topics: Vec<(Arc<str>, Position, bool)> =
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
            let mut waiting = Vec::new();
            for &index in topic.partitions.keys() {
                let partition = TopicPartition::new(name.clone(), index);
                if self.driver.delivery.status_of(&partition).is_some() {
                    continue;
                }
                let start = if known { Start::Earliest.into() } else { start };
                let span = match start {
                    Position::At(_) => self.driver.delivery.add(&partition, None),
                    Position::Committed => self.driver.delivery.add_waiting(&partition, None),
                };
                self.grown.insert(partition.clone(), span);
                match start {
                    Position::At(start) => self.machine.assign(partition, span, start, &self.cluster, now),
                    Position::Committed => waiting.push((partition, span)),
                }
            }
            self.driver.starts.look_up(waiting);
            self.topics.insert(name, (start, true));
        }
    }

    /// Does what the machine says, until it says nothing more.
    fn act(&mut self) {
        // By partition: of two in a row, such as an assignment and a seek right after it, only the later is asked. Brokers
        // answer INVALID_REQUEST for a partition that stands twice in a ListOffsets.
        let mut lookups = BTreeMap::new();
        let mut ranges = BTreeMap::new();
        let mut validations = BTreeMap::new();
        while let Some(output) = self.machine.poll() {
            match output {
                Output::ListOffset { partition, span, start } => {
                    lookups.insert(partition, (span, start));
                }
                Output::ListLogRange { partition, span } => {
                    ranges.insert(partition, span);
                }
                Output::OffsetForLeaderEpoch { partition, span, offset_epoch, .. } => {
                    validations.insert(partition, (span, offset_epoch));
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
}
