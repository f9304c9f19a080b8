//! The machine: its state, its inputs, timers and flushes. What a partition may do is decided in `partition_queue`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::io::{Acknowledged, BatchId, Input, Output, ProduceConfig, ProducerIdentity, RequestId, SendFault, Ticket};
use super::partition_queue::{InTransaction, NextStep, PartitionQueue};
use crate::backoff::Jitter;
use crate::cluster::Cluster;
use crate::{Now, TopicPartition};

/// Index of a partition in `ProduceMachine::queues`, which only grows. Not Kafka's number of a partition.
pub(super) type PartitionIndex = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Linger, backoff or deadline of a partition.
    Partition(PartitionIndex),
    /// Backoff of a broker.
    Broker(i32),
    /// The next metadata request for partitions that have no leader.
    Refresh,
}

/// The state of one broker in the produce machine.
#[derive(Debug, Default)]
pub(super) struct ProduceNode {
    /// Partitions that it leads and that may have a batch to send. They are served in turn.
    pub(super) partitions: VecDeque<PartitionIndex>,
    /// The number of requests without an answer.
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
pub(super) struct Flush {
    ticket: Ticket,
    /// The last serial number of the batches that the flush waits for.
    pub(super) last_serial: u64,
    /// The number of unfinished ones.
    pub(super) unfinished: usize,
}

/// Decides when batches are closed, sent, retried and failed. It does no I/O: a driver gives it inputs, and does what it puts out.
///
/// # Contract
///
/// **Time** is an argument of [`handle`](Self::handle) alone, and never goes back. Timers that are due by then act after the input.
///
/// **Inputs.** [`handle`](Self::handle) is the only way to change the machine: what happened to batches, requests and transactions,
/// metadata, wishes of the user, or nothing but time ([`Input::Tick`]). Inputs about batches that are done, and answers to requests
/// that are answered, are ignored.
///
/// **Outputs.** Call [`poll`](Self::poll) after `handle`, until it returns `None`, and carry the outputs out in their order. It is best
/// to handle all inputs that are there before: requests are made by `poll`, when no other output is left, and are fuller then.
/// An output may lead to new inputs at once, which may be handled between two polls. These outputs have to be answered by an input,
/// each once: [`Output::Send`] by [`Input::Answer`]; [`Output::Close`] by [`Input::Packed`]; [`Output::Split`] by
/// [`Input::SplitInto`], unless [`Output::Done`] came first; [`Output::NewIdentity`] by [`Input::Identity`];
/// [`Output::AddToTransaction`] by [`Input::AddedToTransaction`], unless the transaction ends first.
///
/// **Waking.** [`wake_at`](Self::wake_at), asked once the outputs are drained, says when to give an [`Input::Tick`] if nothing else
/// happens before.
#[derive(Debug)]
pub struct ProduceMachine {
    pub(super) config: ProduceConfig,
    pub(super) jitter: Jitter,
    pub(super) now: Now,
    pub(super) cluster: Arc<Cluster>,
    pub(super) queues: Vec<PartitionQueue>,
    pub(super) by_partition: BTreeMap<TopicPartition, PartitionIndex>,
    pub(super) by_batch: BTreeMap<BatchId, PartitionIndex>,
    pub(super) nodes: BTreeMap<i32, ProduceNode>,
    /// Brokers that may have room for a request of one of their waiting partitions.
    pub(super) ready: BTreeSet<i32>,
    pub(super) requests: BTreeMap<RequestId, Request>,
    pub(super) next_request: RequestId,
    pub(super) identity: Option<ProducerIdentity>,
    /// [`Output::NewIdentity`] was put out and not answered yet.
    pub(super) identity_requested: bool,
    /// The current transaction can only be aborted.
    pub(super) transaction_failed: bool,
    /// The reason why nothing can be sent any more.
    pub(super) failed: Option<SendFault>,
    pub(super) flushes: Vec<Flush>,
    pub(super) timers: BTreeSet<(Now, Timer)>,
    pub(super) refresh_at: Option<Now>,
    pub(super) refreshes: u32,
    pub(super) refresh_wanted: bool,
    /// Batches that failed while the driver split them, and why: their parts may arrive before the driver learns of it.
    pub(super) failed_while_splitting: BTreeMap<BatchId, SendFault>,
    pub(super) outputs: VecDeque<Output>,
    pub(super) next_serial: u64,
    /// The number of batches without an [`Output::Done`].
    pub(super) unfinished: usize,
}

impl ProduceMachine {
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

    /// Takes an input.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.now = now;
        match input {
            Input::Tick => {}
            Input::MetadataUpdate { cluster } => self.update_metadata(cluster),
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

    /// The next output; `None` when all are drained.
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

    /// The time to give an [`Input::Tick`] if nothing else happens before.
    pub fn wake_at(&self) -> Option<Now> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// The number of batches that are not done yet.
    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    fn set_identity(&mut self, identity: ProducerIdentity) {
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

    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    pub(super) fn emit(&mut self, output: Output) {
        self.outputs.push_back(output);
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
    pub(super) fn request_prerequisites(&mut self, partition: PartitionIndex) {
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
        self.schedule_refresh(partition);
    }

    pub(super) fn request_identity(&mut self, reason: String) {
        if !std::mem::replace(&mut self.identity_requested, true) {
            self.emit(Output::NewIdentity { old: self.identity, reason });
        }
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
                Timer::Refresh => self.refresh_due(),
            }
        }
    }
}
