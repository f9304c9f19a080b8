//! The task that owns the delivery machine: gives it batches, answers and time, and executes its outputs (`outputs`).

mod end;
mod outputs;
mod topics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::cluster::Cluster;
use monedula_engine::produce::{BatchId, Input, ProduceMachine, RequestFailure, SendFault, Ticket};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;
use tokio::sync::{mpsc, oneshot};

use super::accumulator::Accumulator;
use super::calls;
use super::command::ProduceCommand;
use super::config::ProducerConfig;
use super::failures::Failures;
use super::handle::PATIENCE;
use super::in_flight::RequestsInFlight;
use super::open_batch::ClosedBatch;
use super::pack::{Packed, PackedBatch, Packers};
use super::pending_topics::PendingTopics;
use super::receipt::Receipt;
use super::request::RequestOutcome;
use super::sender::Senders;
use super::session::Session;
use crate::base::ClientBase;
use crate::error::ClientError;
use crate::log::{Entry, kinds};
use crate::net::metadata::View;
use crate::reach::Reach;
use crate::run_time::{self, RunInstant};

/// Longest sleep, whatever the machine says.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// With a longer linger than this, exhausted memory has lingering batches sent.
const LONG_LINGER: Duration = Duration::from_millis(100);

pub(crate) struct Driver {
    pub(crate) config: Arc<ProducerConfig>,
    pub(crate) base: ClientBase,
    pub(crate) accumulator: Arc<Accumulator>,
    pub(crate) session: Session,
    pub(crate) in_flight: Arc<RequestsInFlight>,
    pub(crate) failures: Arc<Failures>,
    /// The zero of the machines' time.
    pub(crate) started: RunInstant,
    pub(crate) reach: Reach,
}

/// A flush that waits for records which await metadata.
struct Flush {
    reply: oneshot::Sender<()>,
    /// The topics whose waiting records are part of it.
    topics: BTreeSet<Arc<str>>,
}

struct Running {
    driver: Driver,
    commands: mpsc::UnboundedReceiver<ProduceCommand>,
    machine: ProduceMachine,
    started: RunInstant,
    cluster: Arc<Cluster>,
    senders: Senders,
    packers: Packers,
    pending_topics: PendingTopics,
    /// Packed batches, each until the machine is done with it.
    packed: BTreeMap<BatchId, PackedBatch>,
    /// The partitions of open batches, and of those that are being packed.
    open: BTreeMap<BatchId, TopicPartition>,
    /// Batches that are being packed or split: the receipt, and which of its records are in the batch.
    packing: BTreeMap<BatchId, (Arc<Receipt>, u32, u32)>,
    /// Batches that failed while they were being packed, with their faults.
    failed_while_packing: BTreeMap<BatchId, SendFault>,
    waiting_flushes: Vec<Flush>,
    flushes: BTreeMap<Ticket, oneshot::Sender<()>>,
    next_ticket: Ticket,
    /// Memory is exhausted, and the flush that makes room was not started yet.
    exhausted: bool,
    relief: Option<Ticket>,
    /// Time of the next search for idle topics.
    sweep_at: Now,
    /// The client was not let in.
    is_refused: bool,
    stopping: bool,
    stopped: bool,
}

impl Driver {
    fn count_failed(&self, records: u64, error: &ClientError) {
        self.base.metrics.records_failed(records);
        self.failures.add(records, error);
    }

    /// Runs until a command stops it, or all senders of commands are gone.
    pub(crate) async fn run(
        self,
        commands: mpsc::UnboundedReceiver<ProduceCommand>,
        mut calls: mpsc::UnboundedReceiver<calls::CallOutcome>,
        seed: u64,
    ) {
        let (outcomes, mut answered) = mpsc::unbounded_channel();
        let (done, mut packed) = mpsc::unbounded_channel();
        let mut view = self.base.metadata.watch();
        let mut running = Running::new(self, commands, outcomes, done, seed);
        while !running.stopped {
            running.note_refusal();
            running.act();
            if running.is_over() {
                break;
            }
            let wake_at = running.wake_at();
            tokio::select! {
                command = running.commands.recv() => {
                    match command {
                        Some(command) => running.command(command),
                        None => running.stopping = true,
                    }
                    while let Ok(command) = running.commands.try_recv() {
                        running.command(command);
                    }
                }
                Some(outcome) = answered.recv() => {
                    running.answered(outcome);
                    while let Ok(outcome) = answered.try_recv() {
                        running.answered(outcome);
                    }
                }
                Some(batch) = packed.recv() => {
                    running.packed(batch);
                    while let Ok(batch) = packed.try_recv() {
                        running.packed(batch);
                    }
                }
                Some(outcome) = calls.recv() => {
                    let now = running.now();
                    let inputs = running.driver.session.answered(now, outcome);
                    running.handle_inputs(inputs);
                }
                Ok(()) = view.changed() => {
                    let view = view.borrow_and_update().clone();
                    running.metadata_updated(&view);
                }
                () = run_time::sleep_until(wake_at) => running.tick(),
            }
        }
    }
}

impl Running {
    fn new(
        driver: Driver,
        commands: mpsc::UnboundedReceiver<ProduceCommand>,
        outcomes: mpsc::UnboundedSender<RequestOutcome>,
        packed: mpsc::UnboundedSender<Packed>,
        seed: u64,
    ) -> Self {
        let (config, pool) = (driver.config.clone(), driver.accumulator.pool.clone());
        Self {
            machine: ProduceMachine::new(config.machine(), seed),
            started: driver.started,
            cluster: Arc::default(),
            senders: Senders::new(driver.base.network.clone(), driver.base.metadata.clone(), outcomes),
            packers: Packers::new(config.codec, config.level, pool, tokio::runtime::Handle::current(), packed),
            pending_topics: PendingTopics::new(
                config.client.retry_backoff,
                config.client.propagation,
                config.delivery_timeout,
                config.client.bootstrap_timeout,
            ),
            packed: BTreeMap::new(),
            open: BTreeMap::new(),
            packing: BTreeMap::new(),
            failed_while_packing: BTreeMap::new(),
            waiting_flushes: Vec::new(),
            flushes: BTreeMap::new(),
            next_ticket: 0,
            exhausted: false,
            relief: None,
            sweep_at: Now::ZERO,
            is_refused: false,
            stopping: false,
            stopped: false,
            driver,
            commands,
        }
    }

    fn now(&self) -> Now {
        self.started.elapsed()
    }

    /// Where a broker does not let the client in, records that would only wait for the end of the producer are refused.
    fn note_refusal(&mut self) {
        if !self.is_refused
            && let Some(refusal) = self.driver.base.network.refusal()
        {
            self.is_refused = true;
            self.driver.session.refuse_client(refusal);
        }
    }

    fn wake_at(&self) -> RunInstant {
        let latest = self.now() + LONGEST_SLEEP;
        let others = [self.driver.session.wake_at(), self.pending_topics.wake_at(), Some(self.sweep_at), Some(latest)];
        let timers = others.into_iter().chain([self.machine.wake_at()]);
        self.started + timers.flatten().min().unwrap_or(latest)
    }

    fn is_over(&self) -> bool {
        self.stopping && self.machine.unfinished() == 0 && self.pending_topics.is_empty() && self.commands.is_empty()
    }

    fn command(&mut self, command: ProduceCommand) {
        let now = self.now();
        match command {
            ProduceCommand::BatchOpened { partition, batch, since } => {
                self.open.insert(batch, partition.clone());
                let since = now.saturating_sub(since.elapsed());
                self.machine.handle(now, Input::Opened { partition, batch, since });
            }
            ProduceCommand::BatchFull(batch) => {
                self.machine.handle(now, Input::Full { batch: batch.id });
                self.pack(batch);
            }
            ProduceCommand::TopicUnknown(topic) => {
                self.driver.base.metadata.hold([topic.clone()]);
                self.pending_topics.add(topic, now);
                self.check_pending_topics();
                self.driver.base.metadata.want();
            }
            ProduceCommand::PartitionUnknown(topic) => {
                let answers = self.driver.base.metadata.view().answers;
                self.pending_topics.add_known(topic, now, answers);
                self.driver.base.metadata.want();
            }
            ProduceCommand::MemoryExhausted => {
                self.exhausted = self.driver.config.linger > LONG_LINGER;
                self.driver.accumulator.exhaustion_handled();
            }
            ProduceCommand::Flush(reply) => self.flush(reply),
            ProduceCommand::FlushBatches(reply) => self.flush_machine(reply),
            ProduceCommand::Verb(verb, reply) => {
                let inputs = self.driver.session.verb(now, verb, reply);
                self.handle_inputs(inputs);
            }
            ProduceCommand::FailUnsent(fault) => {
                // Records that wait for metadata were not sent either.
                for topic in self.pending_topics.topics() {
                    self.topic_failed(&topic, &fault.clone().into());
                }
                // Metadata may just have arrived: the commands about records that waited for it are behind this one.
                self.driver.accumulator.send_command(ProduceCommand::FailUnsentBatches(fault));
            }
            ProduceCommand::FailUnsentBatches(fault) => self.machine.handle(now, Input::FailUnsent(fault)),
            ProduceCommand::Stop { at_once: true } => self.stopped = true,
            ProduceCommand::Stop { at_once: false } => {
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

    /// Flushes the batches that there are. If records wait for metadata, it ends once their batches are done as well.
    fn flush(&mut self, reply: oneshot::Sender<()>) {
        let topics = self.pending_topics.topics();
        if topics.is_empty() {
            // Metadata may just have arrived: the commands about batches of records that waited for it are behind this
            // one, and these batches are part of the flush.
            return self.driver.accumulator.send_command(ProduceCommand::FlushBatches(reply));
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
        if let Some(fault) = self.failed_while_packing.remove(&id) {
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
                // A codec fails only for lack of memory. The records are sent uncompressed.
                self.driver.base.log.record(&kinds::NOT_COMPRESSED, || {
                    Entry::new(format!("{}: {reason}", batch.partition)).partition(&batch.partition)
                });
                self.ready(batch.uncompressed());
            }
            Packed::Parts { batch, parts } => {
                self.packing.remove(&batch.id);
                if let Some(fault) = self.failed_while_packing.remove(&batch.id) {
                    return self.finish(*batch, &Err(fault));
                }
                let described = parts.iter().map(PackedBatch::described).collect();
                let id = batch.id;
                // Without parts the batch fails, and is needed to report that.
                if parts.is_empty() {
                    self.packed.insert(id, *batch);
                }
                self.packed.extend(parts.into_iter().map(|part| (part.id, part)));
                self.machine.handle(now, Input::SplitInto { batch: id, parts: described });
            }
        }
    }

    fn answered(&mut self, answered: RequestOutcome) {
        let now = self.now();
        if !answered.endpoints.is_empty() {
            self.driver.base.metadata.learn_endpoints(&answered.endpoints);
        }
        let broker = self.driver.in_flight.answered(answered.request).unwrap_or(-1);
        match &answered.outcome {
            Ok(partitions) => {
                self.driver.reach.answered(broker);
                for partition in partitions.iter().filter(|partition| partition.code != ErrorCode::None) {
                    self.driver.base.metrics.retriable_error(partition.code.name());
                    self.driver.base.log.record(&kinds::BATCH_RETRIED, || {
                        let message = partition.message.as_deref().unwrap_or(partition.code.message());
                        let text = format!("{}: {} ({message})", partition.partition, partition.code.name());
                        Entry::new(text).partition(&partition.partition).code(partition.code)
                    });
                }
            }
            Err(failure) => {
                let (RequestFailure::Lost(why) | RequestFailure::NotSent(why) | RequestFailure::Fatal(why)) = failure;
                self.driver.reach.failed(broker, why.clone(), PATIENCE);
                self.driver.base.metrics.retriable_error("produce");
                self.driver
                    .base
                    .log
                    .record(&kinds::PRODUCE_FAILED, || format!("a Produce request failed, and is repeated: {why}"));
            }
        }
        self.machine.handle(now, Input::Answer { request: answered.request, outcome: answered.outcome });
    }

    fn metadata_updated(&mut self, view: &View) {
        if !Arc::ptr_eq(&self.cluster, &view.cluster) {
            self.cluster = view.cluster.clone();
            self.machine.handle(self.now(), Input::MetadataUpdate { cluster: self.cluster.clone() });
        }
        if let Some(error) = &view.fatal {
            for topic in self.pending_topics.topics() {
                self.topic_missing(&topic, error);
            }
        }
        for failed in self.driver.accumulator.update_partitions(&self.cluster) {
            self.records_failed(&failed);
        }
        self.check_pending_topics();
    }

    fn tick(&mut self) {
        let now = self.now();
        self.machine.handle(now, Input::Tick);
        let inputs = self.driver.session.tick(now);
        self.handle_inputs(inputs);
        self.check_pending_topics();
        self.forget_idle_topics();
    }

    fn handle_inputs(&mut self, inputs: Vec<Input>) {
        let now = self.now();
        inputs.into_iter().for_each(|input| self.machine.handle(now, input));
    }
}
