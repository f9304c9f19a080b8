//! From fetched bytes to batches: the partition buffers, the queue of those with data, and waiting for it.
//!
//! Two locks. `turn` is held while a batch is built, and by everything that changes what may be handed out: a batch never
//! holds rows of a partition that was sought or given up before it was returned. `state` is held for moments only. Order:
//! `turn` before `state`.

mod build;
mod finished_offsets;
mod lease;
mod membership;
mod partition_buffer;
mod row_cursor;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use monedula_columns::{
    AbortedTransaction, BatchBuilder, BufferPool, ColumnSet, PartitionWalker, Scratch, WalkOptions, segments,
};
use monedula_engine::TopicPartition;
use monedula_engine::fetch::{Fetched, Start};
use monedula_engine::ledger::Place;
use monedula_protocol::compression::Compression;
use monedula_protocol::records::Batches;
use tokio::sync::{Notify, mpsc};

use self::finished_offsets::FinishedOffsets;
pub(crate) use self::lease::Lease;
pub(crate) use self::membership::CommitCall;
use self::membership::Membership;
use self::partition_buffer::{Data, PartitionBuffer, Piece};
pub use self::row_cursor::RowCursor;
use self::rows::ReturnedRows;
use crate::budget::Budget;
use crate::error::ClientError;
use crate::fetch::command::FetchCommand;
use crate::fetch::inflate::{Inflater, SEGMENT_BYTES, Segment};
use crate::lock::lock;
use crate::metrics::Metrics;

/// What a batch should be.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// Most rows.
    pub max_rows: usize,
    /// Most bytes of its columns; one larger record makes a batch of its own.
    pub max_bytes: usize,
    /// How long rows that are there wait for more to fill the batch.
    pub max_wait: Duration,
    /// When what is there is handed out whatever `max_wait` says.
    pub deadline: Option<Instant>,
}

/// Where a partition stands.
#[derive(Clone, Debug, Default)]
pub struct PartitionStatus {
    /// Next offset to be handed out, once known.
    pub position: Option<i64>,
    /// Offset after the last replicated record, as of the last fetch.
    pub high_watermark: Option<i64>,
    /// Offset after the last record that read_committed may see.
    pub last_stable_offset: Option<i64>,
    /// Smallest offset of the log.
    pub log_start_offset: Option<i64>,
    /// Whether it is paused.
    pub paused: bool,
    /// Records fetched and not yet handed out, as their batches claim.
    pub queued_records: u64,
    /// Bytes of them, as fetched.
    pub queued_bytes: usize,
    /// Why it stopped.
    pub fault: Option<ClientError>,
}

pub(crate) struct FetchBuffer {
    state: Mutex<State>,
    arrived: Condvar,
    build_state: Mutex<BuildState>,
    inflater: Inflater,
    options: WalkOptions,
    pool: BufferPool,
    metrics: Metrics,
    commands: mpsc::UnboundedSender<FetchCommand>,
    /// All that was ready is handed out, and the driver waits for budget.
    pub(crate) drained: Notify,
    /// The group's task has something to look at.
    pub(crate) group_wanted: Notify,
}

#[derive(Default)]
struct State {
    partitions: BTreeMap<TopicPartition, PartitionBuffer>,
    ready: VecDeque<TopicPartition>,
    /// Rows that were handed out and given back, in the order of the log: they go before what is ready.
    returned: BTreeMap<TopicPartition, VecDeque<ReturnedRows>>,
    /// When the oldest of what is ready came.
    ready_since: Option<Instant>,
    queued_records: u64,
    queued_bytes: usize,
    /// Errors that were not raised yet.
    raise: VecDeque<ClientError>,
    /// Errors of topics that have no partition here.
    failed_topics: Vec<ClientError>,
    /// Raised on every call while it holds.
    fatal: Option<ClientError>,
    /// Nothing more comes before what is there is handed out.
    flush: bool,
    woken: bool,
    closed: bool,
    next_span: u64,
    membership: Membership,
    finished: FinishedOffsets,
}

/// What building a batch needs, once for all batches.
struct BuildState {
    columns: ColumnSet,
    scratch: Scratch,
    /// Kept from batch to batch, with the limits that it was made for: it knows how large the columns became, and so
    /// takes them in the right size at once.
    builder: Option<(BatchBuilder, usize, usize)>,
}

impl FetchBuffer {
    pub(crate) fn new(
        columns: ColumnSet,
        options: WalkOptions,
        decode_threads: usize,
        pool: BufferPool,
        budget: &Budget,
        metrics: Metrics,
        commands: mpsc::UnboundedSender<FetchCommand>,
    ) -> Self {
        Self {
            state: Mutex::default(),
            arrived: Condvar::new(),
            build_state: Mutex::new(BuildState { columns, scratch: Scratch::default(), builder: None }),
            inflater: Inflater::start(decode_threads, budget, &options, &pool),
            options,
            pool,
            metrics,
            commands,
            drained: Notify::new(),
            group_wanted: Notify::new(),
        }
    }

    /// Adds a partition, or starts it anew, and returns its span.
    pub(crate) fn add(&self, partition: &TopicPartition, end: Option<i64>) -> u64 {
        let _build = self.lock_build();
        let mut state = self.state();
        state.remove(partition);
        let span = state.new_span();
        state.partitions.insert(partition.clone(), PartitionBuffer::new(span, end));
        state.finished.restart(partition, span, None);
        span
    }

    /// Gives a partition up; what was fetched of it is dropped. False if it was not there.
    pub(crate) fn remove(&self, partition: &TopicPartition) -> bool {
        let _build = self.lock_build();
        self.state().remove(partition)
    }

    /// As [`Self::remove`], unless the partition was added anew since it had this span.
    pub(crate) fn remove_span(&self, partition: &TopicPartition, span: u64) {
        let _build = self.lock_build();
        let mut state = self.state();
        if state.current(partition, span).is_some() {
            state.remove(partition);
        }
    }

    /// Drops what was fetched of `partition` and gives it a new span; `None` if it is not assigned.
    pub(crate) fn restart(&self, partition: &TopicPartition) -> Option<u64> {
        let _build = self.lock_build();
        let mut state = self.state();
        state.forget_queued(partition);
        state.forget_returned(partition);
        state.stop_rows_of(partition);
        let span = state.new_span();
        let buffer = state.partitions.get_mut(partition)?;
        buffer.restart(span);
        buffer.since = span;
        state.finished.restart(partition, span, None);
        Some(span)
    }

    /// Notes the offset that the user asked for: it is the position, as far as anyone knows.
    pub(crate) fn aim(&self, partition: &TopicPartition, span: u64, start: Start) {
        let Start::Offset(offset, leader_epoch) = start else { return };
        let mut state = self.state();
        let State { partitions, finished, .. } = &mut *state;
        let Some(buffer) = partitions.get_mut(partition).filter(|buffer| buffer.span == span) else { return };
        buffer.target = Some(offset);
        finished.restart(partition, span, Some(Place { offset, leader_epoch }));
    }

    /// Goes on elsewhere in `partition`; what was fetched of it is dropped. `None` if it is not assigned.
    pub(crate) fn seek(&self, partition: &TopicPartition, start: Start) -> Option<()> {
        let span = self.restart(partition)?;
        self.aim(partition, span, start);
        let mut state = self.state();
        let buffer = state.current(partition, span)?;
        if std::mem::replace(&mut buffer.started, true) {
            self.command(FetchCommand::Seek { partition: partition.clone(), span, start });
            return Some(());
        }
        // A partition whose committed offset is not known yet: it will not be asked for any more.
        let (is_owned, end) = (buffer.owned, buffer.end);
        self.command(FetchCommand::Assign { partitions: vec![(partition.clone(), span, start, end)], is_owned });
        self.change(&mut state, partition, |_| ());
        Some(())
    }

    /// Stops or resumes handing out and fetching `partition`; what was fetched is kept. `None` if it is not assigned.
    pub(crate) fn set_paused(&self, partition: &TopicPartition, paused: bool) -> Option<()> {
        let _build = self.lock_build();
        let mut state = self.state();
        state.partitions.get(partition)?;
        self.change(&mut state, partition, |buffer| buffer.paused = paused);
        drop(state);
        self.arrived.notify_all();
        Some(())
    }

    /// Changes what keeps a buffer back, and tells the driver what came of it: under one lock, so that two changes cannot
    /// overtake each other.
    fn change(&self, state: &mut State, partition: &TopicPartition, change: impl FnOnce(&mut PartitionBuffer)) {
        let Some(buffer) = state.partitions.get_mut(partition) else { return };
        let before = buffer.is_held_back();
        change(buffer);
        let (after, started) = (buffer.is_held_back(), buffer.started);
        let (records, bytes) = (buffer.queued_records, buffer.queued_bytes);
        if after && let Some(walker) = &mut buffer.walker {
            // Nobody knows for how long: of all partitions, only the first in the queue may hold a batch that it decompressed.
            walker.shelve();
        }
        match (before, after) {
            (false, true) => {
                state.uncount(records, bytes);
                state.stop_rows_of(partition);
            }
            (true, false) => {
                state.queued_records += records;
                state.queued_bytes += bytes;
            }
            _ => {}
        }
        state.offer(partition);
        if started {
            self.command(FetchCommand::Pause { partition: partition.clone(), paused: after });
        }
    }

    fn command(&self, command: FetchCommand) {
        // The driver may be gone already; then nothing is fetched any more either.
        let _ = self.commands.send(command);
    }

    /// The driver found where `partition` starts, or where it goes on because the log lost the position.
    pub(crate) fn positioned(&self, partition: &TopicPartition, span: u64, offset: i64) {
        let mut state = self.state();
        let Some(buffer) = state.current(partition, span) else { return };
        if buffer.position.is_none() {
            buffer.walk_from(partition, offset, &self.options);
            if let Some(ledger) = &mut state.finished.ledger {
                ledger.start(partition, span, Place { offset, leader_epoch: -1 }, false);
            }
        } else {
            buffer.pieces.push_back(Piece::Position(offset));
            state.offer(partition);
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// Takes what a fetch brought: whole record batches.
    pub(crate) fn push(&self, fetched: Fetched, records: Bytes) {
        let bytes = records.len();
        let compressed = !self.inflater.is_idle() && is_compressed(&records);
        let cut = if compressed { segments(&records, SEGMENT_BYTES) } else { vec![records] };
        let cut: Vec<Arc<Segment>> = cut.into_iter().map(|data| Arc::new(Segment::new(data))).collect();
        let aborted: Arc<[AbortedTransaction]> = fetched
            .aborted
            .iter()
            .map(|entry| AbortedTransaction { producer_id: entry.producer_id, first_offset: entry.first_offset })
            .collect();
        let mut state = self.state();
        let Some(buffer) = state.current(&fetched.partition, fetched.span) else { return };
        buffer.high_watermark = Some(fetched.high_watermark);
        buffer.last_stable_offset = Some(fetched.last_stable_offset).filter(|&offset| offset >= 0);
        buffer.log_start_offset = Some(fetched.log_start_offset).filter(|&offset| offset >= 0);
        // Of a partition that stopped nothing is handed out before a seek: it would only hold memory.
        if bytes == 0 || buffer.fault.is_some() {
            return;
        }
        let held_back = buffer.is_held_back();
        buffer.queued_records += fetched.record_count;
        buffer.queued_bytes += bytes;
        for segment in &cut {
            let (segment, aborted) = (segment.clone(), aborted.clone());
            buffer.pieces.push_back(Piece::Data(Data { segment, aborted }));
        }
        if !held_back {
            state.queued_records += fetched.record_count;
            state.queued_bytes += bytes;
        }
        state.offer(&fetched.partition);
        drop(state);
        if compressed {
            self.inflater.push(cut.iter().map(Arc::downgrade));
        }
        self.arrived.notify_all();
    }

    /// The partition stopped: raised once, then kept in its status; raised on every call once nothing else is left.
    pub(crate) fn stopped(&self, partition: &TopicPartition, span: u64, error: ClientError) {
        let mut state = self.state();
        let Some(buffer) = state.current(partition, span) else { return };
        // What was fetched before the error is handed out first.
        if buffer.mid_piece || !buffer.pieces.is_empty() {
            buffer.pieces.push_back(Piece::Fault(error));
            state.offer(partition);
        } else {
            buffer.fault = Some(error.clone());
            state.raise.push_back(error);
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// An error of the whole client: raised on every call until it is taken back.
    pub(crate) fn set_fatal(&self, error: Option<ClientError>) {
        let mut state = self.state();
        if error.is_none() && state.fatal.is_none() {
            return;
        }
        state.fatal = error;
        drop(state);
        self.arrived.notify_all();
    }

    /// An error of a topic none of whose partitions is known; lasts until the assignment changes.
    pub(crate) fn topic_failed(&self, error: ClientError) {
        let mut state = self.state();
        state.raise.push_back(error.clone());
        state.failed_topics.push(error);
        drop(state);
        self.arrived.notify_all();
    }

    /// Forgets the errors of topics: the assignment changes.
    pub(crate) fn forget_topics(&self) {
        let mut state = self.state();
        let forgotten = std::mem::take(&mut state.failed_topics);
        let topics: Vec<_> = forgotten.iter().filter_map(|error| Some(error.partition()?.topic.clone())).collect();
        state.raise.retain(|error| error.partition().is_none_or(|partition| !topics.contains(&partition.topic)));
    }

    /// Whether this topic is known to have no partition that could be read.
    pub(crate) fn has_failed_topic(&self, topic: &str) -> bool {
        let about = |error: &ClientError| error.partition().is_some_and(|partition| &*partition.topic == topic);
        self.state().failed_topics.iter().any(about)
    }

    /// Whether what is there is to be handed out at once: the driver waits for budget, or has nothing left to fetch.
    pub(crate) fn set_flush(&self, flush: bool) {
        self.state().flush = flush;
        self.arrived.notify_all();
    }

    /// For a driver without budget. Once nothing is left whose handing out would free some, drops what was fetched of
    /// partitions that are kept back, and returns where each then stands. [`Self::drained`] tells when to ask again.
    pub(crate) fn evict_held_back(&self) -> Vec<(TopicPartition, u64, i64)> {
        if !self.state().pins_memory() {
            return Vec::new();
        }
        // A batch that is being built may free some.
        let _build = self.lock_build();
        let mut state = self.state();
        if !state.pins_memory() {
            return Vec::new();
        }
        let mut evicted = Vec::new();
        for (partition, buffer) in &mut state.partitions {
            if buffer.pins_memory()
                && let Some(position) = buffer.evict(partition, &self.options)
            {
                evicted.push((partition.clone(), buffer.span, position));
            }
        }
        evicted
    }

    /// Ends the wait that is under way, or the next one.
    pub(crate) fn wake(&self) {
        let mut state = self.state();
        state.woken = true;
        state.stop_all_rows();
        drop(state);
        self.arrived.notify_all();
    }

    /// Ends every wait, now and from now on, and drops what was fetched.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.stop_all_rows();
        let (partitions, returned) = (std::mem::take(&mut state.partitions), std::mem::take(&mut state.returned));
        state.ready.clear();
        drop(state);
        drop((partitions, returned));
        self.inflater.close();
        self.arrived.notify_all();
    }

    /// Each partition with where it stands.
    pub(crate) fn status(&self) -> BTreeMap<TopicPartition, PartitionStatus> {
        let state = self.state();
        let partitions = state.partitions.iter();
        partitions.map(|(partition, buffer)| (partition.clone(), state.status_of(partition, buffer))).collect()
    }

    /// Where one partition stands; `None` if it is not assigned.
    pub(crate) fn status_of(&self, partition: &TopicPartition) -> Option<PartitionStatus> {
        let state = self.state();
        state.partitions.get(partition).map(|buffer| state.status_of(partition, buffer))
    }

    /// Whether there is no partition, and the consumer not closed.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state();
        state.partitions.is_empty() && !state.closed
    }

    /// Whether every bounded partition is read to its end.
    pub(crate) fn all_done(&self) -> bool {
        let state = self.state();
        !state.closed && state.returned.is_empty() && state.partitions.values().all(PartitionBuffer::is_done)
    }

    fn lock_build(&self) -> MutexGuard<'_, BuildState> {
        lock(&self.build_state)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn new_span(&mut self) -> u64 {
        self.next_span += 1;
        self.next_span
    }

    fn current(&mut self, partition: &TopicPartition, span: u64) -> Option<&mut PartitionBuffer> {
        self.partitions.get_mut(partition).filter(|buffer| buffer.span == span)
    }

    fn remove(&mut self, partition: &TopicPartition) -> bool {
        self.forget_queued(partition);
        self.forget_returned(partition);
        self.stop_rows_of(partition);
        self.ready.retain(|ready| ready != partition);
        self.finished.released(partition);
        self.partitions.remove(partition).is_some()
    }

    fn status_of(&self, partition: &TopicPartition, buffer: &PartitionBuffer) -> PartitionStatus {
        let returned = self.returned.get(partition).and_then(|returned| returned.front());
        let status = buffer.status();
        PartitionStatus { position: returned.map(ReturnedRows::first_offset).or(status.position), ..status }
    }

    fn uncount(&mut self, records: u64, bytes: usize) {
        self.queued_records = self.queued_records.saturating_sub(records);
        self.queued_bytes = self.queued_bytes.saturating_sub(bytes);
    }

    /// What is queued of a partition will not be handed out, and its errors will not be raised.
    fn forget_queued(&mut self, partition: &TopicPartition) {
        self.raise.retain(|error| error.partition() != Some(partition));
        let Some(buffer) = self.partitions.get(partition) else { return };
        if !buffer.is_held_back() {
            let (records, bytes) = (buffer.queued_records, buffer.queued_bytes);
            self.uncount(records, bytes);
        }
    }

    /// Whether nothing can be handed out, and what is kept back takes memory.
    fn pins_memory(&mut self) -> bool {
        !self.has_ready() && self.partitions.values().any(PartitionBuffer::pins_memory)
    }

    /// Whether there is anything to hand out. Forgets partitions in the queue that have nothing any more.
    fn has_ready(&mut self) -> bool {
        while let Some(partition) = self.ready.front() {
            let buffer = self.partitions.get_mut(partition);
            if buffer.as_ref().is_some_and(|buffer| buffer.has_data()) {
                return true;
            }
            if let Some(buffer) = buffer {
                buffer.queued = false;
            }
            self.ready.pop_front();
        }
        false
    }

    /// Puts a buffer that has something to hand out into the queue, once. One in the middle of a batch that it decompressed goes
    /// first: there is memory for one such batch beyond the budget, not for one of each partition.
    fn offer(&mut self, partition: &TopicPartition) {
        let Some(buffer) = self.partitions.get_mut(partition) else { return };
        if !buffer.has_data() {
            return;
        }
        let was_queued = std::mem::replace(&mut buffer.queued, true);
        if buffer.walker.as_ref().is_some_and(PartitionWalker::holds_payload) {
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
}

fn is_compressed(records: &[u8]) -> bool {
    Batches::new(records)
        .next()
        .is_some_and(|batch| batch.is_ok_and(|batch| batch.header.compression() != Compression::None))
}
