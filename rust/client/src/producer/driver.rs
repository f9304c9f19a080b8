//! The task that owns the delivery machine: feeds it batches, answers and time, and does what it says (`outputs`).

mod outputs;
mod topics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_engine::cluster::Cluster;
use monedula_engine::produce::{BatchId, Input, ProduceMachine, SendFault, Ticket};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;
use tokio::sync::{mpsc, oneshot};

use super::accumulator::Accumulator;
use super::calls;
use super::config::ProducerConfig;
use super::lanes::{self, Lanes};
use super::lookups::Lookups;
use super::open_batch::ClosedBatch;
use super::pack::{Packed, PackedBatch, Packers};
use super::receipt::Receipt;
use super::session::{Reply, Session, Verb};
use super::under_way::InFlight;
use crate::log::{Level, Log};
use crate::metrics::Metrics;
use crate::net::metadata::{Metadata, View};
use crate::net::network::Network;

/// Longest sleep, whatever the machine says.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// With more lingering than this, memory that runs out sends what lingers.
const LONG_LINGER: Duration = Duration::from_millis(100);

/// What senders and the user tell the driver.
pub(crate) enum Order {
    /// A batch has its first record, which was sent then.
    Opened { place: TopicPartition, batch: BatchId, since: Instant },
    /// A batch is full.
    Full(Box<ClosedBatch>),
    /// Records are parked for a topic.
    Topic(Arc<str>),
    /// Records wait for partitions that a known topic may have by now.
    Beyond(Arc<str>),
    /// There is no memory left.
    Exhausted,
    /// Everything that was sent before is to be done.
    Flush(oneshot::Sender<()>),
    /// The same, behind all batches of records that were parked.
    FlushBatches(oneshot::Sender<()>),
    /// A verb of transactions.
    Verb(Verb, Reply),
    /// What was not sent yet fails.
    FailUnsent(SendFault),
    /// The same, behind all batches of records that were parked.
    FailUnsentBatches(SendFault),
    /// The end: once everything is done, or at once.
    Stop { at_once: bool },
}

/// What the driver works with.
pub(crate) struct Driver {
    pub(crate) config: Arc<ProducerConfig>,
    pub(crate) network: Arc<Network>,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) accumulator: Arc<Accumulator>,
    pub(crate) session: Session,
    pub(crate) in_flight: Arc<InFlight>,
    /// What deadlines of verbs count from.
    pub(crate) started: Instant,
    pub(crate) log: Log,
    pub(crate) metrics: Metrics,
}

/// A flush that is not over.
struct Flush {
    reply: oneshot::Sender<()>,
    /// Topics whose parked records are part of it.
    topics: BTreeSet<Arc<str>>,
}

struct Running {
    driver: Driver,
    orders: mpsc::UnboundedReceiver<Order>,
    machine: ProduceMachine,
    started: Instant,
    cluster: Arc<Cluster>,
    lanes: Lanes,
    packers: Packers,
    lookups: Lookups,
    /// Batches that are closed; each until the machine is done with it.
    packed: BTreeMap<BatchId, PackedBatch>,
    /// Where the open ones are, and those that are being packed.
    open: BTreeMap<BatchId, TopicPartition>,
    /// Being packed, or divided: whom to tell of which records.
    packing: BTreeMap<BatchId, (Arc<Receipt>, u32, u32)>,
    /// Batches that the machine gave up while they were being packed, with what is to be said of them.
    given_up: BTreeMap<BatchId, SendFault>,
    waiting_flushes: Vec<Flush>,
    flushes: BTreeMap<Ticket, oneshot::Sender<()>>,
    next_ticket: Ticket,
    /// Whether memory ran out, and nothing was done about it yet.
    exhausted: bool,
    /// The flush that memory asked for.
    relief: Option<Ticket>,
    /// When topics that nobody sends to are looked for again.
    sweep_at: Now,
    stopping: bool,
    stopped: bool,
}

impl Driver {
    /// Runs until it is told to stop, or nobody is left who could.
    pub(crate) async fn run(
        self,
        orders: mpsc::UnboundedReceiver<Order>,
        mut calls: mpsc::UnboundedReceiver<calls::Answered>,
        seed: u64,
    ) {
        let (answers, mut answered) = mpsc::unbounded_channel();
        let (done, mut packed) = mpsc::unbounded_channel();
        let mut view = self.metadata.watch();
        let (config, runtime) = (self.config.clone(), tokio::runtime::Handle::current());
        let mut running = Running {
            machine: ProduceMachine::new(config.machine(), seed),
            started: self.started,
            cluster: Arc::default(),
            lanes: Lanes::new(self.network.clone(), self.metadata.clone(), answers),
            packers: Packers::new(config.codec, config.level, self.accumulator.pool.clone(), runtime, done),
            lookups: Lookups::new(config.client.retry_backoff, config.delivery_timeout),
            packed: BTreeMap::new(),
            open: BTreeMap::new(),
            packing: BTreeMap::new(),
            given_up: BTreeMap::new(),
            waiting_flushes: Vec::new(),
            flushes: BTreeMap::new(),
            next_ticket: 0,
            exhausted: false,
            relief: None,
            sweep_at: Now::ZERO,
            stopping: false,
            stopped: false,
            driver: self,
            orders,
        };
        while !running.stopped {
            running.act();
            if running.is_over() {
                break;
            }
            let wake_at = running.wake_at();
            tokio::select! {
                order = running.orders.recv() => {
                    match order {
                        Some(order) => running.order(order),
                        None => running.stopping = true,
                    }
                    while let Ok(order) = running.orders.try_recv() {
                        running.order(order);
                    }
                }
                Some(answer) = answered.recv() => {
                    running.answered(answer);
                    while let Ok(answer) = answered.try_recv() {
                        running.answered(answer);
                    }
                }
                Some(batch) = packed.recv() => {
                    running.packed(batch);
                    while let Ok(batch) = packed.try_recv() {
                        running.packed(batch);
                    }
                }
                Some(answer) = calls.recv() => {
                    let now = running.now();
                    let inputs = running.driver.session.answered(now, answer);
                    running.tell(inputs);
                }
                Ok(()) = view.changed() => {
                    let view = view.borrow_and_update().clone();
                    running.view(&view);
                }
                () = tokio::time::sleep_until(wake_at.into()) => running.tick(),
            }
        }
    }
}

impl Running {
    fn now(&self) -> Now {
        self.started.elapsed()
    }

    fn wake_at(&self) -> Instant {
        let latest = self.now() + LONGEST_SLEEP;
        let others = [self.driver.session.wake_at(), self.lookups.wake_at(), Some(self.sweep_at), Some(latest)];
        let timers = others.into_iter().chain([self.machine.wake_at()]);
        self.started + timers.flatten().min().unwrap_or(latest)
    }

    fn is_over(&self) -> bool {
        self.stopping && self.machine.unfinished() == 0 && self.lookups.is_empty() && self.orders.is_empty()
    }

    fn order(&mut self, order: Order) {
        let now = self.now();
        match order {
            Order::Opened { place, batch, since } => {
                self.open.insert(batch, place.clone());
                let since = since.saturating_duration_since(self.started);
                self.machine.handle(now, Input::Opened { partition: place, batch, since });
            }
            Order::Full(batch) => {
                self.machine.handle(now, Input::Full { batch: batch.id });
                self.pack(batch);
            }
            Order::Topic(topic) => {
                self.driver.metadata.hold([topic.clone()]);
                self.lookups.begin(topic, now);
                self.look();
                self.driver.metadata.want();
            }
            Order::Beyond(topic) => {
                let answers = self.driver.metadata.view().answers;
                self.lookups.begin_beyond(topic, now, answers);
                self.driver.metadata.want();
            }
            Order::Exhausted => {
                self.exhausted = self.driver.config.linger > LONG_LINGER;
                self.driver.accumulator.relieved();
            }
            Order::Flush(reply) => self.flush(reply),
            Order::FlushBatches(reply) => self.flush_machine(reply),
            Order::Verb(verb, reply) => {
                let inputs = self.driver.session.verb(now, verb, reply);
                self.tell(inputs);
            }
            Order::FailUnsent(fault) => {
                // Parked records were not sent either.
                for topic in self.lookups.topics() {
                    self.topic_failed(&topic, &fault.clone().into());
                }
                // A lookup may just have ended: what it says of its batches stands behind this order.
                self.driver.accumulator.order(Order::FailUnsentBatches(fault));
            }
            Order::FailUnsentBatches(fault) => self.machine.handle(now, Input::FailUnsent(fault)),
            Order::Stop { at_once: true } => self.stopped = true,
            Order::Stop { at_once: false } => {
                self.stopping = true;
                let ticket = self.ticket();
                self.machine.handle(now, Input::Flush { ticket });
            }
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Batches that are there go at once; the flush is over when those of parked records are done as well.
    fn flush(&mut self, reply: oneshot::Sender<()>) {
        let topics = self.lookups.topics();
        if topics.is_empty() {
            // A lookup may just have ended: what it says of its batches stands behind this order, and is part of the flush.
            return self.driver.accumulator.order(Order::FlushBatches(reply));
        }
        let (now, ticket) = (self.now(), self.ticket());
        self.machine.handle(now, Input::Flush { ticket });
        self.waiting_flushes.push(Flush { reply, topics });
    }

    fn flush_machine(&mut self, reply: oneshot::Sender<()>) {
        let (now, ticket) = (self.now(), self.ticket());
        self.flushes.insert(ticket, reply);
        self.machine.handle(now, Input::Flush { ticket });
    }

    fn pack(&mut self, batch: Box<ClosedBatch>) {
        self.packing.insert(batch.id, (batch.receipt.clone(), 0, batch.records));
        if let Some(packed) = self.packers.pack(batch) {
            self.ready(packed);
        }
    }

    fn ready(&mut self, batch: PackedBatch) {
        let (now, id) = (self.now(), batch.id);
        self.packing.remove(&id);
        self.open.remove(&id);
        if let Some(fault) = self.given_up.remove(&id) {
            return self.finish(batch, &Err(fault));
        }
        self.machine.handle(now, Input::Packed(batch.described()));
        self.packed.insert(id, batch);
    }

    fn packed(&mut self, packed: Packed) {
        let now = self.now();
        match packed {
            Packed::Batch(batch) => self.ready(*batch),
            Packed::Failed { batch, reason } => {
                // No codec refuses what its encoder was given, but for want of memory. The records go uncompressed.
                self.driver.log.record(Level::Warning, "producer", || format!("{}: {reason}", batch.place));
                self.ready(batch.uncompressed());
            }
            Packed::Parts { batch, parts } => {
                self.packing.remove(&batch.id);
                if let Some(fault) = self.given_up.remove(&batch.id) {
                    return self.finish(*batch, &Err(fault));
                }
                let described = parts.iter().map(PackedBatch::described).collect();
                let id = batch.id;
                // Without parts it is told of as failed, and has to be there for it.
                if parts.is_empty() {
                    self.packed.insert(id, *batch);
                }
                self.packed.extend(parts.into_iter().map(|part| (part.id, part)));
                self.machine.handle(now, Input::SplitInto { batch: id, parts: described });
            }
        }
    }

    fn answered(&mut self, answered: lanes::Answered) {
        let now = self.now();
        if !answered.endpoints.is_empty() {
            self.driver.metadata.learn_endpoints(&answered.endpoints);
        }
        match &answered.outcome {
            Ok(partitions) => {
                for partition in partitions.iter().filter(|partition| partition.code != ErrorCode::None) {
                    self.driver.metrics.retriable_error(partition.code.name());
                    self.driver.log.record(Level::Debug, "producer", || {
                        let message = partition.message.as_deref().unwrap_or(partition.code.message());
                        format!("{}: {} ({message})", partition.partition, partition.code.name())
                    });
                }
            }
            Err(failure) => {
                self.driver.metrics.retriable_error("produce");
                self.driver.log.record(Level::Info, "producer", || format!("a request failed: {failure:?}"));
            }
        }
        self.driver.in_flight.answered(answered.request);
        self.machine.handle(now, Input::Answer { request: answered.request, outcome: answered.outcome });
    }

    fn view(&mut self, view: &View) {
        if !Arc::ptr_eq(&self.cluster, &view.cluster) {
            self.cluster = view.cluster.clone();
            self.machine.handle(self.now(), Input::MetadataUpdate { cluster: self.cluster.clone() });
        }
        if let Some(error) = &view.fatal {
            for topic in self.lookups.topics() {
                self.topic_missing(&topic, error);
            }
        }
        for stranded in self.driver.accumulator.cluster_changed(&self.cluster) {
            self.stranded(&stranded);
        }
        self.look();
    }

    fn tick(&mut self) {
        let now = self.now();
        self.machine.handle(now, Input::Tick);
        let inputs = self.driver.session.tick(now);
        self.tell(inputs);
        self.look();
        self.drop_idle();
    }

    fn tell(&mut self, inputs: Vec<Input>) {
        let now = self.now();
        inputs.into_iter().for_each(|input| self.machine.handle(now, input));
    }
}
