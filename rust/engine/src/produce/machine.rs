//! The machine itself: inputs, timers, flushes; what a partition may do is decided in `queue`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::io::{
    Acknowledged, Batch, BatchId, Identity, Input, Output, ProduceConfig, RequestId, SendFault, Ticket, WakeAt,
};
use super::queue::{Entry, Membership, Next, Phase, Queue};
use crate::backoff::Jitter;
use crate::cluster::Cluster;
use crate::{Now, TopicPartition};

/// Names a partition; never used twice.
pub(super) type Slot = usize;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Linger, backoff or deadline of a partition.
    Queue(Slot),
    /// Backoff of a broker.
    Node(i32),
    /// The next question for the leaders of partitions that have none.
    Refresh,
}

/// A broker, as far as sending to it goes.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Partitions with something to be done, in turns.
    pub(super) line: VecDeque<Slot>,
    /// Requests without an answer.
    pub(super) in_flight: usize,
    pub(super) attempts: u32,
    pub(super) retry_at: Now,
}

/// A request without an answer.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) broker: i32,
    pub(super) batches: Vec<(Slot, BatchId)>,
}

/// A flush that is not over.
#[derive(Debug)]
struct Flush {
    ticket: Ticket,
    /// Batches up to this serial number belong to it.
    up_to: u64,
    left: usize,
}

/// See the [module](super). After every call of [`Self::handle`] and [`Self::cluster_changed`], drain [`Self::poll`];
/// handling all that is there before draining makes requests fuller.
#[derive(Debug)]
pub struct ProduceMachine {
    pub(super) config: ProduceConfig,
    pub(super) jitter: Jitter,
    pub(super) now: Now,
    pub(super) cluster: Arc<Cluster>,
    pub(super) queues: Vec<Queue>,
    by_partition: BTreeMap<TopicPartition, Slot>,
    pub(super) by_batch: BTreeMap<BatchId, Slot>,
    pub(super) nodes: BTreeMap<i32, Node>,
    /// Brokers that may have a request to spare for someone in their line.
    pub(super) ready: BTreeSet<i32>,
    pub(super) requests: BTreeMap<RequestId, Request>,
    pub(super) next_request: RequestId,
    pub(super) identity: Option<Identity>,
    /// An identity was asked for and has not come yet.
    pub(super) identity_wanted: bool,
    /// The current transaction can only be aborted.
    pub(super) transaction_failed: bool,
    /// Nothing can be sent any more.
    ended: Option<SendFault>,
    flushes: Vec<Flush>,
    timers: BTreeSet<(Now, Timer)>,
    refresh_at: Option<Now>,
    refreshes: u32,
    pub(super) refresh_wanted: bool,
    /// Why batches were given up while the driver divided them: their parts may be told of before it hears of that.
    pub(super) split_in_vain: BTreeMap<BatchId, SendFault>,
    outputs: VecDeque<Output>,
    next_serial: u64,
    /// Batches whose end was not told yet.
    unfinished: usize,
}

impl ProduceMachine {
    /// After how many answers in a row that do not know a topic it counts as missing.
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
            identity_wanted: false,
            transaction_failed: false,
            ended: None,
            flushes: Vec::new(),
            timers: BTreeSet::new(),
            refresh_at: None,
            refreshes: 0,
            refresh_wanted: false,
            split_in_vain: BTreeMap::new(),
            outputs: VecDeque::new(),
            next_serial: 0,
            unfinished: 0,
        }
    }

    /// Takes what happened.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.now = now;
        match input {
            Input::Tick => {}
            Input::Opened { partition, batch, since } => self.opened(partition, batch, since.min(now)),
            Input::Full { batch } => self.full(batch),
            Input::Packed(batch) => self.packed(batch),
            Input::SplitInto { batch, parts } => self.split_into(batch, parts),
            Input::Identity(identity) => self.identified(identity),
            Input::InTransaction(partition) => self.joined(&partition),
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

    /// Takes over who leads what.
    pub fn cluster_changed(&mut self, now: Now, cluster: &Arc<Cluster>) {
        self.now = now;
        self.cluster = Arc::clone(cluster);
        for slot in 0..self.queues.len() {
            self.look_for_leader(slot);
            self.touch(slot);
        }
        self.run_timers();
    }

    /// Drains what is to be done.
    pub fn poll(&mut self) -> Option<Output> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return Some(output);
            }
            if std::mem::take(&mut self.refresh_wanted) {
                return Some(Output::RefreshMetadata);
            }
            let broker = self.ready.pop_first()?;
            self.serve(broker);
        }
    }

    /// When to be called with [`Input::Tick`] if nothing else happens.
    pub fn wake_at(&self) -> WakeAt {
        self.timers.first().map(|&(at, _)| at)
    }

    /// How many batches are not done yet.
    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    fn opened(&mut self, partition: TopicPartition, batch: BatchId, since: Now) {
        let slot = self.slot(partition);
        let serial = self.next_serial;
        self.next_serial += 1;
        let refused = self.ended.clone().or(self.transaction_failed.then_some(SendFault::Aborted));
        if let Some(fault) = refused {
            return self.emit(Output::Done { batch, outcome: Err(fault) });
        }
        self.unfinished += 1;
        self.by_batch.insert(batch, slot);
        if self.queues[slot].entries.is_empty() {
            self.queues[slot].unknown_before = self.unknown_answers(slot);
        }
        let entry = Entry::new(Batch { id: batch, records: 0, bytes: 0 }, serial, since);
        self.queues[slot].entries.push_back(entry);
        self.touch(slot);
    }

    fn slot(&mut self, partition: TopicPartition) -> Slot {
        if let Some(&slot) = self.by_partition.get(&partition) {
            return slot;
        }
        let slot = self.queues.len();
        self.queues.push(Queue::new(partition.clone()));
        self.by_partition.insert(partition, slot);
        self.look_for_leader(slot);
        slot
    }

    pub(super) fn locate(&self, batch: BatchId) -> Option<(Slot, usize)> {
        let slot = *self.by_batch.get(&batch)?;
        Some((slot, self.queues[slot].find(batch)?))
    }

    fn full(&mut self, batch: BatchId) {
        let Some((slot, index)) = self.locate(batch) else { return };
        let entry = &mut self.queues[slot].entries[index];
        if entry.phase == Phase::Open {
            entry.phase = Phase::Closing;
        }
        self.touch(slot);
    }

    fn packed(&mut self, batch: Batch) {
        // What was given up meanwhile is not known any more.
        let Some((slot, index)) = self.locate(batch.id) else { return };
        let entry = &mut self.queues[slot].entries[index];
        if matches!(entry.phase, Phase::Open | Phase::Closing) {
            (entry.phase, entry.batch) = (Phase::Packed, batch);
        }
        self.touch(slot);
    }

    fn split_into(&mut self, batch: BatchId, parts: Vec<Batch>) {
        if let Some(fault) = self.split_in_vain.remove(&batch) {
            let ends = parts.iter().map(|part| Output::Done { batch: part.id, outcome: Err(fault.clone()) });
            return self.outputs.extend(ends);
        }
        let Some((slot, index)) = self.locate(batch) else { return };
        let whole = self.queues[slot].entries[index].clone();
        if whole.phase != Phase::Splitting {
            return;
        }
        if parts.is_empty() {
            let fault = self.refused(slot, index, ErrorCode::MessageTooLarge, None, Vec::new());
            self.give_up(slot, index, fault);
            return self.touch(slot);
        }
        // The parts have the records of the whole, so they have its numbers too; the broker has seen none of them.
        let mut sequence = whole.sequence;
        self.by_batch.remove(&batch);
        self.queues[slot].entries.remove(index);
        self.count_parts(whole.serial, parts.len());
        for (place, part) in parts.into_iter().enumerate() {
            let mut entry = Entry::new(part, whole.serial, whole.opened_at);
            (entry.phase, entry.sequence) = (Phase::Packed, sequence);
            sequence = entry.sequence_end();
            self.by_batch.insert(part.id, slot);
            self.queues[slot].entries.insert(index + place, entry);
        }
        self.touch(slot);
    }

    fn count_parts(&mut self, serial: u64, parts: usize) {
        self.unfinished = self.unfinished + parts - 1;
        for flush in self.flushes.iter_mut().filter(|flush| serial <= flush.up_to) {
            flush.left = flush.left + parts - 1;
        }
    }

    fn identified(&mut self, identity: Identity) {
        self.identity = Some(identity);
        self.identity_wanted = false;
        (0..self.queues.len()).for_each(|slot| self.touch(slot));
    }

    fn joined(&mut self, partition: &TopicPartition) {
        let Some(&slot) = self.by_partition.get(partition) else { return };
        if self.queues[slot].membership == Membership::Joining {
            self.queues[slot].membership = Membership::Inside;
        }
        self.touch(slot);
    }

    fn transaction_ended(&mut self) {
        self.transaction_failed = false;
        for slot in 0..self.queues.len() {
            self.queues[slot].membership = Membership::Outside;
            self.touch(slot);
        }
    }

    fn flush(&mut self, ticket: Ticket) {
        if self.unfinished == 0 {
            return self.emit(Output::Flushed { ticket });
        }
        let up_to = self.next_serial.saturating_sub(1);
        self.flushes.push(Flush { ticket, up_to, left: self.unfinished });
        for slot in 0..self.queues.len() {
            self.queues[slot].entries.iter_mut().for_each(|entry| entry.flushed = true);
            self.touch(slot);
        }
    }

    fn fail_all(&mut self, fault: SendFault) {
        self.ended = Some(fault.clone());
        for slot in 0..self.queues.len() {
            while let Some((index, _)) = self.queues[slot].oldest() {
                self.drop_entry(slot, index, fault.clone());
            }
            self.touch(slot);
        }
    }

    /// Tells the end of a batch, once.
    pub(super) fn report(&mut self, slot: Slot, index: usize, outcome: Result<Acknowledged, SendFault>) {
        let entry = &mut self.queues[slot].entries[index];
        if std::mem::replace(&mut entry.reported, true) {
            return;
        }
        let (batch, serial) = (entry.batch.id, entry.serial);
        self.unfinished -= 1;
        self.emit(Output::Done { batch, outcome });
        for flush in self.flushes.iter_mut().filter(|flush| serial <= flush.up_to) {
            flush.left -= 1;
        }
        let outputs = &mut self.outputs;
        self.flushes.retain(|flush| {
            if flush.left == 0 {
                outputs.push_back(Output::Flushed { ticket: flush.ticket });
            }
            flush.left > 0
        });
    }

    /// Whether everything failed already.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    pub(super) fn end(&mut self, fault: SendFault) {
        if self.ended.is_none() {
            self.fail_all(fault);
        }
    }

    pub(super) fn emit(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    fn unknown_answers(&self, slot: Slot) -> u32 {
        self.cluster.topics.get(&self.queues[slot].partition.topic).map_or(0, |topic| topic.unknown_answers)
    }

    fn look_for_leader(&mut self, slot: Slot) {
        let queue = &mut self.queues[slot];
        let known = self.cluster.partition(&queue.partition);
        let leader = known.and_then(|known| known.leader).filter(|leader| self.cluster.brokers.contains_key(leader));
        let epoch = known.map_or(-1, |known| known.leader_epoch);
        let id = self.cluster.topics.get(&queue.partition.topic).map_or(Uuid::ZERO, |topic| topic.id);
        if (queue.leader, queue.leader_epoch, queue.topic_id) != (leader, epoch, id) {
            (queue.leader, queue.leader_epoch, queue.topic_id) = (leader, epoch, id);
            // Another leader need not be waited for (KIP-951).
            queue.retry_at = Now::ZERO;
            queue.doubt_refusals();
        }
        let topic = self.cluster.topics.get(&queue.partition.topic);
        let answers = topic.map_or(0, |topic| topic.unknown_answers);
        queue.unknown_before = queue.unknown_before.min(answers);
        let vanished =
            topic.is_some_and(|topic| !topic.partitions.is_empty() && topic.unknown_answers == 0) && known.is_none();
        if vanished || answers - queue.unknown_before >= Self::UNKNOWN_ANSWERS {
            let fault = SendFault::UnknownTopicOrPartition { partition: queue.partition.clone() };
            self.give_up_all(slot, &fault);
        }
    }

    /// Brings a partition's numbers, timers and place in line up to date.
    pub(super) fn touch(&mut self, slot: Slot) {
        self.expire(slot);
        self.repair(slot);
        self.ask_for(slot);
        let (queue, now) = (&mut self.queues[slot], self.now);
        let due = queue.due_at(&self.config, now);
        if queue.timer != due {
            if let Some(old) = std::mem::replace(&mut queue.timer, due) {
                self.timers.remove(&(old, Timer::Queue(slot)));
            }
            self.timers.extend(due.map(|at| (at, Timer::Queue(slot))));
        }
        let wanted = queue.next(&self.config, self.identity, now) != Next::Wait;
        let Some(leader) = queue.leader.filter(|_| wanted) else { return };
        if queue.lined_up_at != Some(leader) {
            queue.lined_up_at = Some(leader);
            self.nodes.entry(leader).or_default().line.push_back(slot);
        }
        self.ready.insert(leader);
    }

    /// Asks for what has to be there before a batch of the partition can be sent.
    fn ask_for(&mut self, slot: Slot) {
        let queue = &mut self.queues[slot];
        if queue.oldest().is_none() {
            return;
        }
        if self.config.transactional && queue.membership == Membership::Outside {
            queue.membership = Membership::Joining;
            let partition = queue.partition.clone();
            self.emit(Output::JoinTransaction(partition));
        }
        if self.config.idempotent && self.identity.is_none() {
            self.want_identity("the producer has none yet".to_owned());
        }
        if self.is_lost(slot) && self.refresh_at.is_none() {
            let at = self.now + self.config.backoff.delay(self.refreshes, &mut self.jitter);
            self.refreshes = self.refreshes.saturating_add(1);
            self.refresh_at = Some(at);
            self.timers.insert((at, Timer::Refresh));
        }
    }

    pub(super) fn want_identity(&mut self, reason: String) {
        if !std::mem::replace(&mut self.identity_wanted, true) {
            self.emit(Output::NewIdentity { old: self.identity, reason });
        }
    }

    /// Whether something waits and nobody is known to take it.
    fn is_lost(&self, slot: Slot) -> bool {
        let queue = &self.queues[slot];
        let unknown = self.unknown_answers(slot) > 0;
        queue.oldest().is_some() && (queue.leader.is_none() || unknown)
    }

    /// Holds a broker back that could not be reached.
    pub(super) fn back_off_from(&mut self, broker: i32) {
        let Some(node) = self.nodes.get_mut(&broker) else { return };
        // The requests that fail together count as one.
        if node.retry_at > self.now {
            return;
        }
        node.retry_at = self.now + self.config.backoff.delay(node.attempts, &mut self.jitter);
        node.attempts = node.attempts.saturating_add(1);
        self.timers.insert((node.retry_at, Timer::Node(broker)));
    }

    fn run_timers(&mut self) {
        while let Some(&(at, timer)) = self.timers.first()
            && at <= self.now
        {
            self.timers.pop_first();
            match timer {
                Timer::Queue(slot) => {
                    self.queues[slot].timer = None;
                    self.touch(slot);
                }
                Timer::Node(broker) => drop(self.ready.insert(broker)),
                Timer::Refresh => {
                    self.refresh_at = None;
                    match (0..self.queues.len()).find(|&slot| self.is_lost(slot)) {
                        Some(slot) => {
                            self.refresh_wanted = true;
                            self.ask_for(slot);
                        }
                        None => self.refreshes = 0,
                    }
                }
            }
        }
    }
}
