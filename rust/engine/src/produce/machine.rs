//! The machine: its state, its inputs, timers and flushes. What a partition may do is decided in `partition_queue`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::io::{
    Acknowledged, Batch, BatchId, Identity, Input, Output, ProduceConfig, RequestId, SendFault, Ticket, WakeAt,
};
use super::partition_queue::{InTransaction, NextStep, PartitionQueue, Phase, QueuedBatch};
use crate::backoff::Jitter;
use crate::cluster::Cluster;
use crate::{Now, TopicPartition};

/// Index of a partition in `ProduceMachine::queues`, which only grows. Not Kafka's number of a partition.
pub(super) type PartitionIndex = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Linger, backoff or deadline of a partition.
    Partition(PartitionIndex),
    /// Backoff of a broker.
    Broker(i32),
    /// The next metadata request for partitions that have no leader.
    Refresh,
}

/// The state of one broker in the produce machine.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Partitions that it leads and that may have a batch to send. They are served in turn.
    pub(super) partitions: VecDeque<PartitionIndex>,
    /// How many requests have no answer yet.
    pub(super) in_flight: usize,
    pub(super) attempts: u32,
    pub(super) retry_at: Now,
}

/// A request without an answer.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) broker: i32,
    pub(super) batches: Vec<(PartitionIndex, BatchId)>,
}

/// A flush that has not ended.
#[derive(Debug)]
struct Flush {
    ticket: Ticket,
    /// It waits for batches with serial numbers up to this one.
    last_serial: u64,
    /// How many of them are unfinished.
    unfinished: usize,
}

/// See the [module](super). After every call of [`Self::handle`] and [`Self::cluster_changed`], drain [`Self::poll`]. Requests
/// are fuller if all inputs that are there are handled before draining.
#[derive(Debug)]
pub struct ProduceMachine {
    pub(super) config: ProduceConfig,
    pub(super) jitter: Jitter,
    pub(super) now: Now,
    pub(super) cluster: Arc<Cluster>,
    pub(super) queues: Vec<PartitionQueue>,
    by_partition: BTreeMap<TopicPartition, PartitionIndex>,
    pub(super) by_batch: BTreeMap<BatchId, PartitionIndex>,
    pub(super) nodes: BTreeMap<i32, Node>,
    /// Brokers that may have room for a request of one of their waiting partitions.
    pub(super) ready: BTreeSet<i32>,
    pub(super) requests: BTreeMap<RequestId, Request>,
    pub(super) next_request: RequestId,
    pub(super) identity: Option<Identity>,
    /// [`Output::NewIdentity`] was put out and not answered yet.
    pub(super) identity_requested: bool,
    /// The current transaction can only be aborted.
    pub(super) transaction_failed: bool,
    /// Why nothing can be sent any more.
    failed: Option<SendFault>,
    flushes: Vec<Flush>,
    timers: BTreeSet<(Now, Timer)>,
    refresh_at: Option<Now>,
    refreshes: u32,
    pub(super) refresh_wanted: bool,
    /// Batches that failed while the driver split them, and why: their parts may arrive before the driver learns of it.
    pub(super) failed_while_splitting: BTreeMap<BatchId, SendFault>,
    outputs: VecDeque<Output>,
    next_serial: u64,
    /// How many batches have no [`Output::Done`] yet.
    unfinished: usize,
}

impl ProduceMachine {
    /// A topic counts as missing after this many metadata answers in a row that do not know it.
    const UNKNOWN_ANSWERS: u32 = 5;

    /// A machine without batches; `seed` decides its jitter.
    pub fn new(config: ProduceConfig, seed: u64) -> Self {
        Self {
            config,
            jitter: Jitter::new(seed),
            now: Now::ZERO,
            cluster: Arc::default(),
            queues: Vec::new(),
            by_partition: BTreeMap::new(),
            by_batch: BTreeMap::new(),
            nodes: BTreeMap::new(),
            ready: BTreeSet::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            identity: None,
            identity_requested: false,
            transaction_failed: false,
            failed: None,
            flushes: Vec::new(),
            timers: BTreeSet::new(),
            refresh_at: None,
            refreshes: 0,
            refresh_wanted: false,
            failed_while_splitting: BTreeMap::new(),
            outputs: VecDeque::new(),
            next_serial: 0,
            unfinished: 0,
        }
    }

    /// Takes an input, at a time that never goes back.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.now = now;
        match input {
            Input::Tick => {}
            Input::Opened { partition, batch, since } => self.opened(partition, batch, since.min(now)),
            Input::Full { batch } => self.full(batch),
            Input::Packed(batch) => self.packed(batch),
            Input::SplitInto { batch, parts } => self.split_into(batch, parts),
            Input::Identity(identity) => self.set_identity(identity),
            Input::AddedToTransaction(partition) => self.added_to_transaction(&partition),
            Input::TransactionEnded => self.transaction_ended(),
            Input::Answer { request, outcome } => self.answered(request, outcome),
            Input::Flush { ticket } => self.flush(ticket),
            Input::FailAll(fault) => self.fail_all(fault),
            Input::FailUnsent(fault) => self.fail_unsent(&fault),
            Input::TransactionFailed(fault) => {
                self.transaction_failed = true;
                self.fail_unsent(&fault);
            }
        }
        self.run_timers();
    }

    /// Takes new metadata: who leads what.
    pub fn cluster_changed(&mut self, now: Now, cluster: &Arc<Cluster>) {
        self.now = now;
        self.cluster = Arc::clone(cluster);
        for partition in 0..self.queues.len() {
            self.update_leader(partition);
            self.update_partition(partition);
        }
        self.run_timers();
    }

    /// What is to be done next; `None` if nothing is.
    pub fn poll(&mut self) -> Option<Output> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return Some(output);
            }
            if std::mem::take(&mut self.refresh_wanted) {
                return Some(Output::RefreshMetadata);
            }
            let broker = self.ready.pop_first()?;
            self.make_requests(broker);
        }
    }

    /// When to give it an [`Input::Tick`] if nothing else happens.
    pub fn wake_at(&self) -> WakeAt {
        self.timers.first().map(|&(at, _)| at)
    }

    /// How many batches are not done yet.
    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    fn opened(&mut self, topic_partition: TopicPartition, batch: BatchId, since: Now) {
        let partition = self.partition_index(topic_partition);
        let serial = self.next_serial;
        self.next_serial += 1;
        let refused = self.failed.clone().or(self.transaction_failed.then_some(SendFault::Aborted));
        if let Some(fault) = refused {
            return self.emit(Output::Done { batch, outcome: Err(fault) });
        }
        self.unfinished += 1;
        self.by_batch.insert(batch, partition);
        if self.queues[partition].batches.is_empty() {
            self.queues[partition].unknown_answers_before = self.unknown_answers(partition);
        }
        let opened = QueuedBatch::new(Batch { id: batch, records: 0, bytes: 0 }, serial, since);
        self.queues[partition].batches.push_back(opened);
        self.update_partition(partition);
    }

    fn partition_index(&mut self, topic_partition: TopicPartition) -> PartitionIndex {
        if let Some(&partition) = self.by_partition.get(&topic_partition) {
            return partition;
        }
        let partition = self.queues.len();
        self.queues.push(PartitionQueue::new(topic_partition.clone()));
        self.by_partition.insert(topic_partition, partition);
        self.update_leader(partition);
        partition
    }

    pub(super) fn locate(&self, batch: BatchId) -> Option<(PartitionIndex, usize)> {
        let partition = *self.by_batch.get(&batch)?;
        Some((partition, self.queues[partition].find(batch)?))
    }

    fn full(&mut self, batch: BatchId) {
        let Some((partition, index)) = self.locate(batch) else { return };
        let batch = &mut self.queues[partition].batches[index];
        if batch.phase == Phase::Open {
            batch.phase = Phase::Closing;
        }
        self.update_partition(partition);
    }

    fn packed(&mut self, packed: Batch) {
        // A batch that failed meanwhile is not found.
        let Some((partition, index)) = self.locate(packed.id) else { return };
        let batch = &mut self.queues[partition].batches[index];
        if matches!(batch.phase, Phase::Open | Phase::Closing) {
            (batch.phase, batch.batch) = (Phase::Packed, packed);
        }
        self.update_partition(partition);
    }

    fn split_into(&mut self, batch: BatchId, parts: Vec<Batch>) {
        if let Some(fault) = self.failed_while_splitting.remove(&batch) {
            let ends = parts.iter().map(|part| Output::Done { batch: part.id, outcome: Err(fault.clone()) });
            return self.outputs.extend(ends);
        }
        let Some((partition, index)) = self.locate(batch) else { return };
        let whole = self.queues[partition].batches[index].clone();
        if whole.phase != Phase::Splitting {
            return;
        }
        if parts.is_empty() {
            let fault = self.refused_fault(partition, index, ErrorCode::MessageTooLarge, None, Vec::new());
            self.fail_batch(partition, index, fault);
            return self.update_partition(partition);
        }
        // The parts have the records of the whole, so they also have its sequence numbers. The broker has appended none of them.
        let mut sequence = whole.sequence;
        self.by_batch.remove(&batch);
        self.queues[partition].batches.remove(index);
        self.count_parts(whole.serial, parts.len());
        for (offset, part) in parts.into_iter().enumerate() {
            let mut queued = QueuedBatch::new(part, whole.serial, whole.opened_at);
            (queued.phase, queued.sequence) = (Phase::Packed, sequence);
            sequence = queued.sequence_end();
            self.by_batch.insert(part.id, partition);
            self.queues[partition].batches.insert(index + offset, queued);
        }
        self.update_partition(partition);
    }

    fn count_parts(&mut self, serial: u64, parts: usize) {
        self.unfinished = self.unfinished + parts - 1;
        for flush in self.flushes.iter_mut().filter(|flush| serial <= flush.last_serial) {
            flush.unfinished = flush.unfinished + parts - 1;
        }
    }

    fn set_identity(&mut self, identity: Identity) {
        self.identity = Some(identity);
        self.identity_requested = false;
        (0..self.queues.len()).for_each(|partition| self.update_partition(partition));
    }

    fn added_to_transaction(&mut self, topic_partition: &TopicPartition) {
        let Some(&partition) = self.by_partition.get(topic_partition) else { return };
        if self.queues[partition].in_transaction == InTransaction::Pending {
            self.queues[partition].in_transaction = InTransaction::Yes;
        }
        self.update_partition(partition);
    }

    fn transaction_ended(&mut self) {
        self.transaction_failed = false;
        for partition in 0..self.queues.len() {
            self.queues[partition].in_transaction = InTransaction::No;
            self.update_partition(partition);
        }
    }

    fn flush(&mut self, ticket: Ticket) {
        if self.unfinished == 0 {
            return self.emit(Output::Flushed { ticket });
        }
        let last_serial = self.next_serial.saturating_sub(1);
        self.flushes.push(Flush { ticket, last_serial, unfinished: self.unfinished });
        for partition in 0..self.queues.len() {
            self.queues[partition].batches.iter_mut().for_each(|batch| batch.flushed = true);
            self.update_partition(partition);
        }
    }

    pub(super) fn fail_all(&mut self, fault: SendFault) {
        self.failed = Some(fault.clone());
        for partition in 0..self.queues.len() {
            while let Some((index, _)) = self.queues[partition].oldest_unreported() {
                self.finish_failed(partition, index, fault.clone());
            }
            self.update_partition(partition);
        }
    }

    /// Reports the end of a batch, once.
    pub(super) fn report(&mut self, partition: PartitionIndex, index: usize, outcome: Result<Acknowledged, SendFault>) {
        let batch = &mut self.queues[partition].batches[index];
        if std::mem::replace(&mut batch.reported, true) {
            return;
        }
        let (batch, serial) = (batch.batch.id, batch.serial);
        self.unfinished -= 1;
        self.emit(Output::Done { batch, outcome });
        for flush in self.flushes.iter_mut().filter(|flush| serial <= flush.last_serial) {
            flush.unfinished -= 1;
        }
        let outputs = &mut self.outputs;
        self.flushes.retain(|flush| {
            if flush.unfinished == 0 {
                outputs.push_back(Output::Flushed { ticket: flush.ticket });
            }
            flush.unfinished > 0
        });
    }

    /// Whether everything failed already.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    pub(super) fn emit(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    fn unknown_answers(&self, partition: PartitionIndex) -> u32 {
        let topic = self.cluster.topics.get(&self.queues[partition].topic_partition.topic);
        topic.map_or(0, |topic| topic.unknown_answers)
    }

    fn update_leader(&mut self, partition: PartitionIndex) {
        let queue = &mut self.queues[partition];
        let known = self.cluster.partition(&queue.topic_partition);
        let leader = known.and_then(|known| known.leader).filter(|leader| self.cluster.brokers.contains_key(leader));
        let epoch = known.map_or(-1, |known| known.leader_epoch);
        let id = self.cluster.topics.get(&queue.topic_partition.topic).map_or(Uuid::ZERO, |topic| topic.id);
        if (queue.leader, queue.leader_epoch, queue.topic_id) != (leader, epoch, id) {
            (queue.leader, queue.leader_epoch, queue.topic_id) = (leader, epoch, id);
            // The backoff was for the old leader (KIP-951).
            queue.retry_at = Now::ZERO;
            queue.retry_out_of_order();
        }
        let topic = self.cluster.topics.get(&queue.topic_partition.topic);
        let answers = topic.map_or(0, |topic| topic.unknown_answers);
        queue.unknown_answers_before = queue.unknown_answers_before.min(answers);
        let vanished =
            topic.is_some_and(|topic| !topic.partitions.is_empty() && topic.unknown_answers == 0) && known.is_none();
        if vanished || answers - queue.unknown_answers_before >= Self::UNKNOWN_ANSWERS {
            let fault = SendFault::UnknownTopicOrPartition { partition: queue.topic_partition.clone() };
            self.fail_partition(partition, &fault);
        }
    }

    /// Brings a partition's sequence numbers, timer and place among the waiting partitions of its leader up to date.
    pub(super) fn update_partition(&mut self, partition: PartitionIndex) {
        self.expire(partition);
        self.repair_sequence(partition);
        self.request_prerequisites(partition);
        let (queue, now) = (&mut self.queues[partition], self.now);
        let due = queue.due_at(&self.config, now);
        if queue.timer != due {
            if let Some(old) = std::mem::replace(&mut queue.timer, due) {
                self.timers.remove(&(old, Timer::Partition(partition)));
            }
            self.timers.extend(due.map(|at| (at, Timer::Partition(partition))));
        }
        let wanted = queue.next_step(&self.config, self.identity, now) != NextStep::Wait;
        let Some(leader) = queue.leader.filter(|_| wanted) else { return };
        if queue.waits_at != Some(leader) {
            queue.waits_at = Some(leader);
            self.nodes.entry(leader).or_default().partitions.push_back(partition);
        }
        self.ready.insert(leader);
    }

    /// Asks for what a batch of the partition needs before it can be sent: transaction, identity, leader.
    fn request_prerequisites(&mut self, partition: PartitionIndex) {
        let queue = &mut self.queues[partition];
        if queue.oldest_unreported().is_none() {
            return;
        }
        if self.config.transactional && queue.in_transaction == InTransaction::No {
            queue.in_transaction = InTransaction::Pending;
            let topic_partition = queue.topic_partition.clone();
            self.emit(Output::AddToTransaction(topic_partition));
        }
        if self.config.idempotent && self.identity.is_none() {
            self.request_identity("the producer has none yet".to_owned());
        }
        if self.lacks_leader(partition) && self.refresh_at.is_none() {
            let at = self.now + self.config.backoff.delay(self.refreshes, &mut self.jitter);
            self.refreshes = self.refreshes.saturating_add(1);
            self.refresh_at = Some(at);
            self.timers.insert((at, Timer::Refresh));
        }
    }

    pub(super) fn request_identity(&mut self, reason: String) {
        if !std::mem::replace(&mut self.identity_requested, true) {
            self.emit(Output::NewIdentity { old: self.identity, reason });
        }
    }

    /// Whether batches wait and metadata knows no leader for them, or does not know the topic.
    fn lacks_leader(&self, partition: PartitionIndex) -> bool {
        let queue = &self.queues[partition];
        let unknown = self.unknown_answers(partition) > 0;
        queue.oldest_unreported().is_some() && (queue.leader.is_none() || unknown)
    }

    /// Sends nothing to a broker for a while, because it could not be reached.
    pub(super) fn back_off_broker(&mut self, broker: i32) {
        let Some(node) = self.nodes.get_mut(&broker) else { return };
        // Requests that fail together count as one failure.
        if node.retry_at > self.now {
            return;
        }
        node.retry_at = self.now + self.config.backoff.delay(node.attempts, &mut self.jitter);
        node.attempts = node.attempts.saturating_add(1);
        self.timers.insert((node.retry_at, Timer::Broker(broker)));
    }

    fn run_timers(&mut self) {
        while let Some(&(at, timer)) = self.timers.first()
            && at <= self.now
        {
            self.timers.pop_first();
            match timer {
                Timer::Partition(partition) => {
                    self.queues[partition].timer = None;
                    self.update_partition(partition);
                }
                Timer::Broker(broker) => drop(self.ready.insert(broker)),
                Timer::Refresh => {
                    self.refresh_at = None;
                    match (0..self.queues.len()).find(|&partition| self.lacks_leader(partition)) {
                        Some(partition) => {
                            self.refresh_wanted = true;
                            self.request_prerequisites(partition);
                        }
                        None => self.refreshes = 0,
                    }
                }
            }
        }
    }
}
