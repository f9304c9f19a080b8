//! The partitions' queues together: the ready ones, the amount in them, and commands for the driver.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_columns::{AbortedTransaction, PartitionWalker, WalkOptions};
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Fetched;
use tokio::sync::mpsc;

use super::errors::PendingErrors;
use super::partition_buffer::{Bound, HoldReason, PartitionBuffer, Piece};
use super::until::UntilLoop;
use crate::error::ClientError;
use crate::fetch::command::FetchCommand;
use crate::fetch::inflate::Segment;
use crate::fetch::polled::HandedBatch;

/// Partitions of a read in their order of which something is fetched before their turn.
const READ_AHEAD: usize = 8;

/// Limits of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Most rows.
    pub max_rows: usize,
    /// Most bytes of its columns; one larger record makes a batch of its own.
    pub max_bytes: usize,
    /// Longest wait of rows for more to fill the batch.
    pub max_wait: Duration,
    /// Time at which the rows so far are handed out whatever `max_wait` says.
    pub deadline: Option<Instant>,
}

pub(crate) struct Partitions {
    buffers: BTreeMap<TopicPartition, PartitionBuffer>,
    /// Partitions with something to hand out, each once.
    ready: VecDeque<TopicPartition>,
    /// Arrival of the oldest rows that are ready.
    ready_since: Option<Instant>,
    /// Records and bytes that may be handed out.
    queued_records: u64,
    queued_bytes: usize,
    /// Nothing more is fetched before what is ready is handed out: that need not wait for more.
    flush: bool,
    /// The last batch was full, though what was queued is less than one by its bytes: typed columns may be larger than
    /// the records. The rest need not wait for more.
    is_cut: bool,
    /// Partitions are handed out one after another, each to its end, in the order of their names.
    in_order: bool,
    next_reading_id: u64,
    /// The loop with `until`, if one goes on; and the number of the last one.
    until: Option<UntilLoop>,
    last_until: u64,
    options: WalkOptions,
    commands: mpsc::UnboundedSender<FetchCommand>,
}

impl Partitions {
    pub(super) fn new(options: WalkOptions, commands: mpsc::UnboundedSender<FetchCommand>) -> Self {
        Self {
            buffers: BTreeMap::new(),
            ready: VecDeque::new(),
            ready_since: None,
            queued_records: 0,
            queued_bytes: 0,
            flush: false,
            is_cut: false,
            in_order: false,
            next_reading_id: 0,
            until: None,
            last_until: 0,
            options,
            commands,
        }
    }

    /// Tells the driver. Under the lock, so that two commands cannot overtake each other.
    pub(super) fn command(&self, command: FetchCommand) {
        // The driver may be gone already; then nothing is fetched any more either.
        let _ = self.commands.send(command);
    }

    pub(super) fn get(&self, partition: &TopicPartition) -> Option<&PartitionBuffer> {
        self.buffers.get(partition)
    }

    pub(super) fn get_mut(&mut self, partition: &TopicPartition) -> Option<&mut PartitionBuffer> {
        self.buffers.get_mut(partition)
    }

    /// The buffer of a partition, if this is still its reading.
    pub(super) fn current(&mut self, partition: &TopicPartition, reading_id: u64) -> Option<&mut PartitionBuffer> {
        self.buffers.get_mut(partition).filter(|buffer| buffer.reading_id() == reading_id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&TopicPartition, &PartitionBuffer)> {
        self.buffers.iter()
    }

    pub(super) fn names(&self) -> Vec<TopicPartition> {
        self.buffers.keys().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    pub(crate) fn owns(&self, partition: &TopicPartition) -> bool {
        self.buffers.contains_key(partition)
    }

    /// The partitions that were assigned by hand, and not by a group.
    pub(crate) fn assigned_by_hand(&self) -> Vec<TopicPartition> {
        let by_hand = self.buffers.iter().filter(|(_, buffer)| !buffer.is_owned());
        by_hand.map(|(partition, _)| partition.clone()).collect()
    }

    /// True if a partition waits for its committed offset.
    pub(crate) fn waits_for_start(&self, partition: &TopicPartition, reading_id: u64) -> bool {
        let buffer = self.buffers.get(partition).filter(|buffer| buffer.reading_id() == reading_id);
        buffer.is_some_and(|buffer| buffer.is_held_by(HoldReason::StartUnknown))
    }

    /// True if a partition has records that wait for something.
    pub(crate) fn awaits_any(&self) -> bool {
        self.buffers.values().any(|buffer| buffer.is_held_by(HoldReason::Lookup))
    }

    /// True if every partition of a batch may be handed out as it was then: none was sought, paused or lost since.
    pub(super) fn may_hand_out(&self, batch: &HandedBatch) -> bool {
        let is_open = |buffer: &PartitionBuffer, reading_id| buffer.counts(reading_id) && !buffer.is_closed_to_rows();
        let mut places = batch.places.iter();
        places.all(|(partition, reading_id, _)| {
            self.buffers.get(partition).is_some_and(|buffer| is_open(buffer, *reading_id))
        })
    }

    pub(crate) fn revoked_partitions(&self, batch: &HandedBatch) -> Vec<TopicPartition> {
        let stays =
            |buffer: &PartitionBuffer, reading_id| buffer.counts(reading_id) && !buffer.is_held_by(HoldReason::Revoked);
        let is_gone = |partition: &TopicPartition, reading_id: u64| {
            self.buffers.get(partition).is_none_or(|buffer| !stays(buffer, reading_id))
        };
        let places = batch.places.iter().filter(|(partition, reading_id, _)| is_gone(partition, *reading_id));
        places.map(|(partition, ..)| partition.clone()).collect()
    }

    fn new_reading_id(&mut self) -> u64 {
        self.next_reading_id += 1;
        self.next_reading_id
    }

    fn bound_of(&self, partition: &TopicPartition) -> Bound {
        self.until.as_ref().map_or(Bound::None, |until| until.bound_of(partition))
    }

    /// Adds a partition that is assigned by hand, and returns the id of its reading.
    pub(super) fn add(&mut self, partition: &TopicPartition, end: Option<i64>) -> u64 {
        let (reading_id, bound) = (self.new_reading_id(), self.bound_of(partition));
        let mut buffer = PartitionBuffer::new(reading_id, end, bound);
        buffer.set_held(HoldReason::Turn, self.in_order && !self.buffers.is_empty());
        self.buffers.insert(partition.clone(), buffer);
        reading_id
    }

    /// From now on, partitions are added in their order, each with its end, and handed out so.
    pub(super) fn read_in_order(&mut self) {
        self.in_order = true;
    }

    /// Has the driver fetch only the first of the partitions that were added, and those that are read ahead.
    pub(super) fn pause_later_turns(&self) {
        let later = self.buffers.keys().skip(if self.in_order { 1 + READ_AHEAD } else { usize::MAX });
        later.for_each(|partition| self.command(FetchCommand::Pause { partition: partition.clone(), paused: true }));
    }

    /// The partition whose turn it is once `partition` is read to its end; one more is read ahead then.
    pub(super) fn next_turn(&self, partition: &TopicPartition) -> Option<TopicPartition> {
        if !self.in_order || !self.buffers.get(partition)?.is_done() {
            return None;
        }
        let mut later = self.buffers.range((Excluded(partition), Unbounded));
        let (next, _) = later.next().filter(|(_, buffer)| buffer.is_held_by(HoldReason::Turn))?;
        if let Some((ahead, _)) = later.nth(READ_AHEAD - 1) {
            self.command(FetchCommand::Pause { partition: ahead.clone(), paused: false });
        }
        Some(next.clone())
    }

    /// Adds a partition that the group assigned, and returns the id of its reading.
    pub(super) fn add_owned(&mut self, partition: &TopicPartition) -> u64 {
        let (reading_id, bound) = (self.new_reading_id(), self.bound_of(partition));
        self.buffers.insert(partition.clone(), PartitionBuffer::owned(reading_id, bound));
        reading_id
    }

    /// Drops everything of a partition. False if it was not assigned.
    pub(super) fn remove(&mut self, partition: &TopicPartition) -> bool {
        self.forget_queued(partition);
        self.ready.retain(|ready| ready != partition);
        self.buffers.remove(partition).is_some()
    }

    /// Takes everything, to be dropped without the lock.
    pub(super) fn take_all(&mut self) -> BTreeMap<TopicPartition, PartitionBuffer> {
        self.ready.clear();
        std::mem::take(&mut self.buffers)
    }

    /// Drops what was fetched of a partition and begins a new reading, whose id it returns; `None` if it is
    /// not assigned.
    pub(super) fn seek(&mut self, partition: &TopicPartition) -> Option<u64> {
        self.forget_queued(partition);
        let reading_id = self.new_reading_id();
        self.buffers.get_mut(partition)?.seek(reading_id);
        Some(reading_id)
    }

    pub(super) fn read_again(&mut self, partition: &TopicPartition, from: i64) -> Option<u64> {
        self.forget_queued(partition);
        let reading_id = self.new_reading_id();
        self.buffers.get_mut(partition)?.read_again(reading_id, from);
        Some(reading_id)
    }

    /// Changes what holds a partition back: whether not even rows of batches that were handed out may be taken now.
    /// [`Self::follow`] is due then.
    pub(super) fn change(
        &mut self,
        partition: &TopicPartition,
        change: impl FnOnce(&mut PartitionBuffer),
    ) -> Option<bool> {
        let buffer = self.buffers.get_mut(partition)?;
        let before = buffer.is_held_back();
        change(buffer);
        let after = buffer.is_held_back();
        let (is_closed, (records, bytes)) = (buffer.is_closed_to_rows(), buffer.queued());
        if after {
            // It may be held back for long: only the first partition of the ready queue may hold a batch that it
            // decompressed.
            buffer.shelve();
        }
        match (before, after) {
            (false, true) => self.uncount(records, bytes),
            (true, false) => {
                self.queued_records += records;
                self.queued_bytes += bytes;
            }
            _ => {}
        }
        Some(is_closed)
    }

    /// A partition was changed: it is offered if it may be handed out, and the driver pauses or resumes it.
    pub(super) fn follow(&mut self, partition: &TopicPartition) {
        self.offer(partition);
        let Some(buffer) = self.buffers.get(partition) else { return };
        if !buffer.is_held_by(HoldReason::StartUnknown) {
            self.command(FetchCommand::Pause { partition: partition.clone(), paused: buffer.is_held_back() });
        }
    }

    /// So many records and bytes may not be handed out any more.
    fn uncount(&mut self, records: u64, bytes: usize) {
        self.queued_records = self.queued_records.saturating_sub(records);
        self.queued_bytes = self.queued_bytes.saturating_sub(bytes);
    }

    /// Nothing that is queued of a partition will be handed out.
    fn forget_queued(&mut self, partition: &TopicPartition) {
        let Some(buffer) = self.buffers.get(partition) else { return };
        if !buffer.is_held_back() {
            let (records, bytes) = buffer.queued();
            self.uncount(records, bytes);
        }
    }

    /// Puts a partition that has something to hand out into the ready queue, once. One in the middle of a batch that it
    /// decompressed goes first: there is memory for one such batch beyond the budget, not for one of each partition.
    pub(super) fn offer(&mut self, partition: &TopicPartition) {
        let Some(buffer) = self.buffers.get_mut(partition) else { return };
        if !buffer.has_data() {
            return;
        }
        let was_queued = buffer.enter_ready_queue();
        if buffer.holds_payload() {
            if was_queued {
                self.ready.retain(|ready| ready != partition);
            }
            self.ready.push_front(partition.clone());
        } else if !was_queued {
            self.ready.push_back(partition.clone());
        }
        if !was_queued {
            self.ready_since.get_or_insert_with(Instant::now);
        }
    }

    pub(super) fn is_any_queued(&self) -> bool {
        !self.ready.is_empty()
    }

    /// True if there is anything to hand out. Forgets partitions in the queue that have nothing any more.
    pub(super) fn has_ready(&mut self) -> bool {
        while let Some(partition) = self.ready.front() {
            let buffer = self.buffers.get_mut(partition);
            if buffer.as_ref().is_some_and(|buffer| buffer.has_data()) {
                return true;
            }
            if let Some(buffer) = buffer {
                buffer.leave_ready_queue();
            }
            self.ready.pop_front();
        }
        false
    }

    /// Takes the walker of the next partition that has something to hand out, with the partition and its reading.
    pub(super) fn take_ready(&mut self) -> Option<(TopicPartition, u64, PartitionWalker)> {
        loop {
            let partition = self.ready.pop_front()?;
            let Some(buffer) = self.buffers.get_mut(&partition) else { continue };
            buffer.leave_ready_queue();
            if !buffer.has_data() {
                continue;
            }
            let Some(walker) = buffer.take_walker() else { continue };
            return Some((partition, buffer.reading_id(), walker));
        }
    }

    /// The driver found where a partition starts, or where it goes on because the log lost the position. `None` if it
    /// has another reading by now; else whether it starts now.
    pub(super) fn positioned(&mut self, partition: &TopicPartition, reading_id: u64, offset: i64) -> Option<bool> {
        let options = self.options;
        let starts = self.current(partition, reading_id)?.positioned(partition, offset, &options);
        if !starts {
            self.offer(partition);
        }
        Some(starts)
    }

    /// Takes what a fetch brought. False if nothing of it will be handed out.
    pub(super) fn push(
        &mut self,
        fetched: &Fetched,
        bytes: usize,
        segments: &[Arc<Segment>],
        aborted: &Arc<[AbortedTransaction]>,
    ) -> bool {
        let Some(buffer) = self.current(&fetched.partition, fetched.reading_id) else { return false };
        let pieces = segments.iter().map(|segment| Piece::Records(segment.clone(), aborted.clone()));
        if !buffer.push(fetched, bytes, pieces) {
            return false;
        }
        let (is_held_back, waits_for_turn) = (buffer.is_held_back(), buffer.is_held_by(HoldReason::Turn));
        if !is_held_back {
            self.queued_records += fetched.record_count;
            self.queued_bytes += bytes;
        }
        // Without a limit, later partitions would take the memory that the one in turn needs.
        if waits_for_turn {
            self.command(FetchCommand::Pause { partition: fetched.partition.clone(), paused: true });
        }
        self.offer(&fetched.partition);
        true
    }

    /// A partition stopped: the error is due once everything that was fetched is handed out. False if the partition has
    /// another reading by now.
    pub(super) fn stop(
        &mut self,
        partition: &TopicPartition,
        reading_id: u64,
        error: ClientError,
        errors: &mut PendingErrors,
    ) -> bool {
        let Some(buffer) = self.current(partition, reading_id) else { return false };
        match buffer.stop(error) {
            Some(error) => errors.push(error),
            None => self.offer(partition),
        }
        true
    }

    pub(super) fn next_piece(&mut self, partition: &TopicPartition, reading_id: u64) -> Option<Piece> {
        let (piece, bytes) = self.current(partition, reading_id)?.next_piece()?;
        self.uncount(0, bytes);
        Some(piece)
    }

    pub(super) fn walker_at(
        &mut self,
        partition: &TopicPartition,
        reading_id: u64,
        offset: i64,
    ) -> Option<PartitionWalker> {
        let options = self.options;
        Some(self.current(partition, reading_id)?.walker_at(partition, offset, &options))
    }

    /// So many records and bytes of a partition were walked.
    pub(super) fn walked(&mut self, (records, bytes): (u64, usize)) {
        self.uncount(records, bytes);
    }

    /// A batch was built; `is_cut` if it is full although it could have had more rows.
    pub(super) fn built(&mut self, now: Instant, is_cut: bool) {
        self.ready_since = (!self.ready.is_empty()).then_some(now);
        self.is_cut = is_cut && !self.ready.is_empty();
    }

    pub(super) fn set_flush(&mut self, flush: bool) {
        self.flush = flush;
    }

    /// True if the driver waits until all that is ready is handed out, and it is.
    pub(super) fn is_flushed(&mut self) -> bool {
        self.flush && !self.has_ready()
    }

    /// True if nothing can be handed out, and what is held back takes memory.
    pub(super) fn pins_memory(&mut self) -> bool {
        !self.has_ready() && self.buffers.values().any(PartitionBuffer::pins_memory)
    }

    /// Drops what was fetched of partitions that are held back; returns from where on each is to be fetched again.
    pub(super) fn evict(&mut self) -> Vec<(TopicPartition, u64, i64)> {
        let mut evicted = Vec::new();
        for (partition, buffer) in &mut self.buffers {
            if buffer.pins_memory()
                && let Some(position) = buffer.evict(partition, &self.options)
            {
                evicted.push((partition.clone(), buffer.reading_id(), position));
            }
        }
        evicted
    }

    /// Time at which a batch of the ready rows is due; `None` if it is now.
    pub(super) fn batch_due(&self, limits: &BatchLimits, now: Instant) -> Option<Instant> {
        let due = self.ready_since.unwrap_or(now) + limits.max_wait;
        let due = limits.deadline.map_or(due, |deadline| due.min(deadline));
        (!self.is_enough(limits) && now < due).then_some(due)
    }

    fn is_enough(&self, limits: &BatchLimits) -> bool {
        self.flush
            || self.is_cut
            || self.is_turn_fetched()
            || self.queued_records >= limits.max_rows as u64
            || self.queued_bytes >= limits.max_bytes
    }

    /// True if the partition in turn is fetched to its end: its last rows wait for no more of it.
    fn is_turn_fetched(&self) -> bool {
        let first = self.ready.front().filter(|_| self.in_order);
        first.and_then(|partition| self.buffers.get(partition)).is_some_and(PartitionBuffer::is_fetched)
    }

    pub(super) fn begin_until(&mut self) -> u64 {
        self.last_until += 1;
        self.until = Some(UntilLoop::new(self.last_until));
        self.last_until
    }

    pub(super) fn end_until(&mut self) -> bool {
        self.until.take().is_some()
    }

    /// The loop with `until` that has this number, if it goes on.
    pub(super) fn until(&mut self, number: u64) -> Option<&mut UntilLoop> {
        self.until.as_mut().filter(|until| until.number() == number)
    }

    pub(super) fn take_unbounded(&mut self) -> Option<(u64, Vec<TopicPartition>)> {
        let until = self.until.as_mut()?;
        let unknown = self.buffers.iter().filter(|(_, buffer)| buffer.bound() == Bound::Unknown);
        let new = until.ask(unknown.map(|(partition, _)| partition));
        (!new.is_empty()).then_some((until.number(), new))
    }

    /// Records that may be handed out, as their batches claim.
    pub(crate) fn queued_records(&self) -> u64 {
        self.queued_records
    }
}
