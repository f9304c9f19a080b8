//! From fetched bytes to batches: lanes (one a partition), the queue of those with data, and waiting for it.
//!
//! Two locks. `turn` is held while a batch is built, and by everything that changes what may be handed out: a batch never
//! holds rows of a partition that was sought or given up before it was returned. `state` is held for moments only. Order:
//! `turn` before `state`.

mod account;
mod build;
mod gates;
mod partition;
mod row_gate;
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

use self::account::Account;
use self::gates::Gates;
pub(crate) use self::gates::{CommitCall, Lease};
use self::partition::{Data, Lane, Piece};
pub use self::row_gate::RowGate;
use self::rows::Returned;
use crate::budget::Budget;
use crate::error::ClientError;
use crate::fetch::command::Command;
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

pub(crate) struct Delivery {
    state: Mutex<State>,
    arrived: Condvar,
    turn: Mutex<Turn>,
    inflater: Inflater,
    options: WalkOptions,
    pool: BufferPool,
    metrics: Metrics,
    commands: mpsc::UnboundedSender<Command>,
    /// All that was ready is handed out, and the driver waits for budget.
    pub(crate) drained: Notify,
    /// The group's task has something to look at.
    pub(crate) group_wanted: Notify,
}

#[derive(Default)]
struct State {
    lanes: BTreeMap<TopicPartition, Lane>,
    ready: VecDeque<TopicPartition>,
    /// Rows that were handed out and given back, in the order of the log: they go before what is ready.
    returned: BTreeMap<TopicPartition, VecDeque<Returned>>,
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
    gates: Gates,
    account: Account,
}

/// What building a batch needs, once for all batches.
struct Turn {
    columns: ColumnSet,
    scratch: Scratch,
    /// Kept from batch to batch, with the limits that it was made for: it knows how large the columns became, and so
    /// takes them in the right size at once.
    builder: Option<(BatchBuilder, usize, usize)>,
}

impl Delivery {
    pub(crate) fn new(
        columns: ColumnSet,
        options: WalkOptions,
        decode_threads: usize,
        pool: BufferPool,
        budget: &Budget,
        metrics: Metrics,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        Self {
            state: Mutex::default(),
            arrived: Condvar::new(),
            turn: Mutex::new(Turn { columns, scratch: Scratch::default(), builder: None }),
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
        let _turn = self.turn();
        let mut state = self.state();
        state.remove(partition);
        let span = state.new_span();
        state.lanes.insert(partition.clone(), Lane::new(span, end));
        state.account.restart(partition, span, None);
        span
    }

    /// Gives a partition up; what was fetched of it is dropped. False if it was not there.
    pub(crate) fn remove(&self, partition: &TopicPartition) -> bool {
        let _turn = self.turn();
        self.state().remove(partition)
    }

    /// As [`Self::remove`], unless the partition was added anew since it had this span.
    pub(crate) fn remove_span(&self, partition: &TopicPartition, span: u64) {
        let _turn = self.turn();
        let mut state = self.state();
        if state.current(partition, span).is_some() {
            state.remove(partition);
        }
    }

    /// Drops what was fetched of `partition` and gives it a new span; `None` if it is not assigned.
    pub(crate) fn restart(&self, partition: &TopicPartition) -> Option<u64> {
        let _turn = self.turn();
        let mut state = self.state();
        state.forget_queued(partition);
        state.forget_returned(partition);
        state.stop_rows_of(partition);
        let span = state.new_span();
        let lane = state.lanes.get_mut(partition)?;
        lane.restart(span);
        lane.since = span;
        state.account.restart(partition, span, None);
        Some(span)
    }

    /// Notes the offset that the user asked for: it is the position, as far as anyone knows.
    pub(crate) fn aim(&self, partition: &TopicPartition, span: u64, start: Start) {
        let Start::Offset(offset, leader_epoch) = start else { return };
        let mut state = self.state();
        let State { lanes, account, .. } = &mut *state;
        let Some(lane) = lanes.get_mut(partition).filter(|lane| lane.span == span) else { return };
        lane.target = Some(offset);
        account.restart(partition, span, Some(Place { offset, leader_epoch }));
    }

    /// Goes on elsewhere in `partition`; what was fetched of it is dropped. `None` if it is not assigned.
    pub(crate) fn seek(&self, partition: &TopicPartition, start: Start) -> Option<()> {
        let span = self.restart(partition)?;
        self.aim(partition, span, start);
        let mut state = self.state();
        let lane = state.current(partition, span)?;
        if std::mem::replace(&mut lane.started, true) {
            self.command(Command::Seek { partition: partition.clone(), span, start });
            return Some(());
        }
        // A partition whose committed offset is not known yet: it will not be asked for any more.
        let (is_owned, end) = (lane.owned, lane.end);
        self.command(Command::Assign { partitions: vec![(partition.clone(), span, start, end)], is_owned });
        self.change(&mut state, partition, |_| ());
        Some(())
    }

    /// Stops or resumes handing out and fetching `partition`; what was fetched is kept. `None` if it is not assigned.
    pub(crate) fn set_paused(&self, partition: &TopicPartition, paused: bool) -> Option<()> {
        let _turn = self.turn();
        let mut state = self.state();
        state.lanes.get(partition)?;
        self.change(&mut state, partition, |lane| lane.paused = paused);
        drop(state);
        self.arrived.notify_all();
        Some(())
    }

    /// Changes what keeps a lane back, and tells the driver what came of it: under one lock, so that two changes cannot
    /// overtake each other.
    fn change(&self, state: &mut State, partition: &TopicPartition, change: impl FnOnce(&mut Lane)) {
        let Some(lane) = state.lanes.get_mut(partition) else { return };
        let before = lane.is_held_back();
        change(lane);
        let (after, started) = (lane.is_held_back(), lane.started);
        let (records, bytes) = (lane.queued_records, lane.queued_bytes);
        if after && let Some(walker) = &mut lane.walker {
            // Nobody knows for how long: of all lanes, only the first in the queue may hold a batch that it decompressed.
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
            self.command(Command::Pause { partition: partition.clone(), paused: after });
        }
    }

    fn command(&self, command: Command) {
        // The driver may be gone already; then nothing is fetched any more either.
        let _ = self.commands.send(command);
    }

    /// The driver found where `partition` starts, or where it goes on because the log lost the position.
    pub(crate) fn positioned(&self, partition: &TopicPartition, span: u64, offset: i64) {
        let mut state = self.state();
        let Some(lane) = state.current(partition, span) else { return };
        if lane.position.is_none() {
            lane.walk_from(partition, offset, &self.options);
            if let Some(ledger) = &mut state.account.ledger {
                ledger.start(partition, span, Place { offset, leader_epoch: -1 }, false);
            }
        } else {
            lane.pieces.push_back(Piece::Position(offset));
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
        let Some(lane) = state.current(&fetched.partition, fetched.span) else { return };
        lane.high_watermark = Some(fetched.high_watermark);
        lane.last_stable_offset = Some(fetched.last_stable_offset).filter(|&offset| offset >= 0);
        lane.log_start_offset = Some(fetched.log_start_offset).filter(|&offset| offset >= 0);
        // Of a partition that stopped nothing is handed out before a seek: it would only hold memory.
        if bytes == 0 || lane.fault.is_some() {
            return;
        }
        let held_back = lane.is_held_back();
        lane.queued_records += fetched.record_count;
        lane.queued_bytes += bytes;
        for segment in &cut {
            let (segment, aborted) = (segment.clone(), aborted.clone());
            lane.pieces.push_back(Piece::Data(Data { segment, aborted }));
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
        let Some(lane) = state.current(partition, span) else { return };
        // What was fetched before the error is handed out first.
        if lane.mid_piece || !lane.pieces.is_empty() {
            lane.pieces.push_back(Piece::Fault(error));
            state.offer(partition);
        } else {
            lane.fault = Some(error.clone());
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
        let _turn = self.turn();
        let mut state = self.state();
        if !state.pins_memory() {
            return Vec::new();
        }
        let mut evicted = Vec::new();
        for (partition, lane) in &mut state.lanes {
            if lane.pins_memory()
                && let Some(position) = lane.evict(partition, &self.options)
            {
                evicted.push((partition.clone(), lane.span, position));
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
        let (lanes, returned) = (std::mem::take(&mut state.lanes), std::mem::take(&mut state.returned));
        state.ready.clear();
        drop(state);
        drop((lanes, returned));
        self.inflater.close();
        self.arrived.notify_all();
    }

    /// Each partition with where it stands.
    pub(crate) fn status(&self) -> BTreeMap<TopicPartition, PartitionStatus> {
        let state = self.state();
        let lanes = state.lanes.iter();
        lanes.map(|(partition, lane)| (partition.clone(), state.status_of(partition, lane))).collect()
    }

    /// Where one partition stands; `None` if it is not assigned.
    pub(crate) fn status_of(&self, partition: &TopicPartition) -> Option<PartitionStatus> {
        let state = self.state();
        state.lanes.get(partition).map(|lane| state.status_of(partition, lane))
    }

    /// Whether there is no partition, and the consumer not closed.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state();
        state.lanes.is_empty() && !state.closed
    }

    /// Whether every bounded partition is read to its end.
    pub(crate) fn all_done(&self) -> bool {
        let state = self.state();
        !state.closed && state.returned.is_empty() && state.lanes.values().all(Lane::is_done)
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        lock(&self.turn)
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

    fn current(&mut self, partition: &TopicPartition, span: u64) -> Option<&mut Lane> {
        self.lanes.get_mut(partition).filter(|lane| lane.span == span)
    }

    fn remove(&mut self, partition: &TopicPartition) -> bool {
        self.forget_queued(partition);
        self.forget_returned(partition);
        self.stop_rows_of(partition);
        self.ready.retain(|ready| ready != partition);
        self.account.released(partition);
        self.lanes.remove(partition).is_some()
    }

    fn status_of(&self, partition: &TopicPartition, lane: &Lane) -> PartitionStatus {
        let returned = self.returned.get(partition).and_then(|returned| returned.front());
        let status = lane.status();
        PartitionStatus { position: returned.map(Returned::first_offset).or(status.position), ..status }
    }

    fn uncount(&mut self, records: u64, bytes: usize) {
        self.queued_records = self.queued_records.saturating_sub(records);
        self.queued_bytes = self.queued_bytes.saturating_sub(bytes);
    }

    /// What is queued of a partition will not be handed out, and its errors will not be raised.
    fn forget_queued(&mut self, partition: &TopicPartition) {
        self.raise.retain(|error| error.partition() != Some(partition));
        let Some(lane) = self.lanes.get(partition) else { return };
        if !lane.is_held_back() {
            let (records, bytes) = (lane.queued_records, lane.queued_bytes);
            self.uncount(records, bytes);
        }
    }

    /// Whether nothing can be handed out, and what is kept back takes memory.
    fn pins_memory(&mut self) -> bool {
        !self.has_ready() && self.lanes.values().any(Lane::pins_memory)
    }

    /// Whether there is anything to hand out. Forgets lanes in the queue that have nothing any more.
    fn has_ready(&mut self) -> bool {
        while let Some(partition) = self.ready.front() {
            let lane = self.lanes.get_mut(partition);
            if lane.as_ref().is_some_and(|lane| lane.has_data()) {
                return true;
            }
            if let Some(lane) = lane {
                lane.queued = false;
            }
            self.ready.pop_front();
        }
        false
    }

    /// Puts a lane that has something to hand out into the queue, once. One in the middle of a batch that it decompressed goes
    /// first: there is memory for one such batch beyond the budget, not for one of each partition.
    fn offer(&mut self, partition: &TopicPartition) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        if !lane.has_data() {
            return;
        }
        let was_queued = std::mem::replace(&mut lane.queued, true);
        if lane.walker.as_ref().is_some_and(PartitionWalker::holds_payload) {
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
