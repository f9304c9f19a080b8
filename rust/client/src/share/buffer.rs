//! What the driver and the user's threads share: records that were acquired and not handed out, the rows in hand, errors
//! to raise, and who waits.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use monedula_columns::{BatchColumns, BufferPool, ColumnBatch};
use monedula_engine::share::{AcknowledgeError, AcknowledgeType, Acknowledgement, Acquired, HeldRows, SessionId};
use monedula_engine::{Now, TopicPartition};
use tokio::sync::{Notify, mpsc};

use super::assembler::Assembler;
use super::command::ShareCommand;
use super::fetched_rows::FetchedRows;
use crate::config::ClientConfig;
use crate::consumer::BatchLimits;
use crate::error::ClientError;
use crate::fetch::polled::HandedBatch;
use crate::lock::lock;
use crate::metrics::Metrics;

/// Records between the driver and the user's threads. `assembler` is locked before `state`.
pub(super) struct ShareBuffer {
    started: Instant,
    is_implicit: bool,
    is_strict: bool,
    /// `max.poll.records`, and whether the number follows the user's pace from there on.
    max_records: i32,
    follows_pace: bool,
    state: Mutex<ShareBufferState>,
    assembler: Mutex<Assembler>,
    arrived: Condvar,
    /// Notifies the driver that somebody waits, or waits no more.
    wanted: Notify,
    commands: Mutex<Option<mpsc::UnboundedSender<ShareCommand>>>,
    metrics: Metrics,
}

/// What the user's calls want of brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    Nothing,
    /// What there is, for the call that is likely to come soon.
    Ahead,
    /// Records, for a call that waits.
    Records,
}

/// The longest time between two batches of a user for whom records are fetched ahead: meanwhile no other member can have
/// them. A quarter of the lock's time bounds it too.
const PACE: Duration = Duration::from_secs(1);

/// A user who follows no limit of the settings has as many records in hand as it takes in this time: a fetch of 500 costs the
/// broker more than the records themselves, and rows that wait for a slow user are rows that no other member gets.
const IN_HAND: Duration = Duration::from_millis(100);

pub(super) struct ShareBufferState {
    pub(super) queue: VecDeque<FetchedRows>,
    pub(super) held: HeldRows,
    pub(super) errors: VecDeque<ClientError>,
    /// Locks that were lost while a batch is assembled.
    pub(super) lost: Vec<(SessionId, Option<TopicPartition>)>,
    fatal: Option<ClientError>,
    /// Calls that wait for records.
    waiting: usize,
    /// When each holder was handed its last batch, and how many rows.
    handed_out: BTreeMap<u64, (Now, usize)>,
    /// How long a holder took for its batch before the last.
    pace: Option<Duration>,
    /// The most records of the next fetch.
    max_records: i32,
    /// True if records are to be fetched ahead, once.
    fetches_ahead: bool,
    is_woken: bool,
    is_closed: bool,
}

impl ShareBufferState {
    /// The next records to decode, without those whose locks are over.
    pub(super) fn take(&mut self, now: Now) -> Option<FetchedRows> {
        self.queue.retain(|rows| rows.part.deadline > now);
        let place =
            self.queue.iter().position(|rows| rows.awaited.as_ref().is_none_or(|awaited| awaited.has_arrived()))?;
        let mut rows = self.queue.remove(place)?;
        rows.awaited = None;
        Some(rows)
    }

    fn check_woken(&mut self) -> Result<(), ClientError> {
        match self.is_closed {
            true => Err(ClientError::Closed),
            false if std::mem::take(&mut self.is_woken) => Err(ClientError::WokenUp),
            false => Ok(()),
        }
    }

    /// Looks for what ends a loop of the user which has records.
    pub(super) fn check_ended(&mut self) -> Result<(), ClientError> {
        self.check_woken()?;
        self.fatal.clone().map_or(Ok(()), Err)
    }

    fn has_rows(&self, now: Now) -> bool {
        let is_ready = |rows: &FetchedRows| {
            rows.part.deadline > now && rows.awaited.as_ref().is_none_or(|awaited| awaited.has_arrived())
        };
        self.queue.iter().any(is_ready)
    }
}

/// A call that waits for records; while there is one, brokers are asked.
pub(crate) struct WaitingCall(Arc<ShareBuffer>);

impl WaitingCall {
    fn begin(buffer: &Arc<ShareBuffer>) -> Self {
        buffer.state().waiting += 1;
        buffer.wanted.notify_one();
        Self(buffer.clone())
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.waiting -= 1;
        let has_left = !state.queue.is_empty();
        drop(state);
        if has_left {
            // What nobody waits for is released some time.
            self.0.wanted.notify_one();
        }
    }
}

impl ShareBuffer {
    pub(super) fn new(
        config: &ClientConfig,
        columns: BatchColumns,
        has_delivery_count: bool,
        pool: BufferPool,
        metrics: Metrics,
        commands: mpsc::UnboundedSender<ShareCommand>,
    ) -> Self {
        let state = ShareBufferState {
            queue: VecDeque::new(),
            held: HeldRows::new(config.share.longest_renewal),
            errors: VecDeque::new(),
            lost: Vec::new(),
            fatal: None,
            waiting: 0,
            handed_out: BTreeMap::new(),
            pace: None,
            max_records: config.share.max_poll_records,
            fetches_ahead: false,
            is_woken: false,
            is_closed: false,
        };
        Self {
            started: Instant::now(),
            is_implicit: config.share.is_implicit,
            is_strict: config.share.is_strict,
            max_records: config.share.max_poll_records,
            follows_pace: config.share.follows_pace,
            state: Mutex::new(state),
            assembler: Mutex::new(Assembler::new(columns, has_delivery_count, pool, metrics.clone())),
            arrived: Condvar::new(),
            wanted: Notify::new(),
            commands: Mutex::new(Some(commands)),
            metrics,
        }
    }

    pub(super) fn now(&self) -> Now {
        self.started.elapsed()
    }

    /// The moment of a time of the machine.
    pub(super) fn instant(&self, at: Now) -> Instant {
        self.started + at
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ShareBufferState> {
        lock(&self.state)
    }

    pub(super) fn empty(&self) -> ColumnBatch {
        lock(&self.assembler).empty()
    }

    /// True if records wait for a schema.
    pub(super) fn is_schema_awaited(&self) -> bool {
        let is_awaited = |rows: &FetchedRows| rows.awaited.as_ref().is_some_and(|awaited| !awaited.has_arrived());
        self.state().queue.iter().any(is_awaited)
    }

    pub(super) fn command(&self, command: ShareCommand) -> Result<(), ClientError> {
        let commands = lock(&self.commands);
        commands.as_ref().ok_or(ClientError::Closed)?.send(command).map_err(|_| ClientError::Closed)
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.commands).is_none()
    }

    pub(super) fn wait(self: &Arc<Self>) -> WaitingCall {
        WaitingCall::begin(self)
    }

    pub(super) fn wanted(&self) -> &Notify {
        &self.wanted
    }

    pub(super) fn demand(&self) -> Demand {
        let now = self.now();
        let state = self.state();
        match (state.has_rows(now), state.waiting > 0, state.fetches_ahead) {
            (false, true, _) => Demand::Records,
            (false, false, true) if !self.is_strict => Demand::Ahead,
            _ => Demand::Nothing,
        }
    }

    /// The most records of a fetch now.
    pub(super) fn max_records(&self) -> i32 {
        self.state().max_records
    }

    pub(super) fn fetched_ahead(&self) {
        self.state().fetches_ahead = false;
    }

    /// A holder asks for the next batch: what it holds is accepted, unless that is told explicitly, and what was decided
    /// is sent.
    pub(super) fn enter(&self, holder: u64) {
        let now = self.now();
        let mut state = self.state();
        if let Some((at, rows)) = state.handed_out.remove(&holder) {
            let pace = now.saturating_sub(at);
            state.pace = Some(pace);
            if self.follows_pace {
                let in_reach = rows as f64 * (IN_HAND.as_secs_f64() / pace.as_secs_f64().max(1e-6));
                let twice = i32::try_from(rows).unwrap_or(i32::MAX).saturating_mul(2);
                state.max_records = (in_reach as i32).min(twice).max(self.max_records);
            }
        }
        if self.is_implicit {
            state.held.accept_rest(holder);
        }
        drop(state);
        self.send_decided();
    }

    /// Sends what was decided.
    pub(super) fn send_decided(&self) {
        let now = self.now();
        let acknowledgements = self.state().held.take_decided(None, now);
        if !acknowledgements.is_empty() {
            // The driver may have ended; the broker releases the rows then.
            let _ = self.command(ShareCommand::Acknowledge { acknowledgements, reply: None });
        }
    }

    /// The rows of a batch go to handlers. None are fetched ahead of these: the rows that wait for a handler are ahead.
    pub(super) fn hand_over(&self, batch: u64) -> Vec<(TopicPartition, Range<usize>)> {
        let mut state = self.state();
        state.handed_out.clear();
        (state.pace, state.fetches_ahead) = (None, false);
        state.held.hand_over(batch)
    }

    /// The next batch, whose rows `holder` holds; `None` if `until` passes before there is one.
    pub(super) fn next(
        self: &Arc<Self>,
        limits: &BatchLimits,
        until: Instant,
        holder: u64,
    ) -> Result<Option<HandedBatch>, ClientError> {
        self.enter(holder);
        loop {
            let waiting = self.wait();
            if !self.ready(until) {
                return Ok(None);
            }
            // A call that takes what is there waits no more: for one that does, a fetch would wait at the broker for records,
            // and the acknowledgements of these for its answer.
            drop(waiting);
            self.raise()?;
            let Some(batch) = lock(&self.assembler).assemble(self, limits, holder) else { continue };
            let rows = batch.columns.record_batch.num_rows();
            self.handed_out(holder, rows);
            self.metrics.batches_delivered(1);
            self.metrics.records_delivered(rows as u64);
            self.metrics.bytes_delivered(batch.columns.memory_bytes as u64);
            return Ok(Some(batch));
        }
    }

    /// The holder has a batch: its locks are to be watched, and the next one may be fetched.
    fn handed_out(&self, holder: u64, rows: usize) {
        let now = self.now();
        let mut state = self.state();
        let holders = state.handed_out.len();
        // Of several threads each has a pace. Those that have ended are forgotten with the slow ones.
        state.handed_out.retain(|_, (at, _)| now.saturating_sub(*at) <= PACE);
        if state.handed_out.len() < holders {
            (state.pace, state.max_records) = (None, self.max_records);
        }
        state.handed_out.insert(holder, (now, rows));
        let longest = state.held.shortest_lock().map_or(PACE, |lock| PACE.min(lock / 4));
        state.fetches_ahead = state.pace.is_some_and(|pace| pace < longest);
        drop(state);
        self.wanted.notify_one();
    }

    /// Waits until [`Self::next`] has something, rows or an error, at most until `until`. Returns whether it has.
    pub(super) fn ready(&self, until: Instant) -> bool {
        let mut state = self.state();
        loop {
            let has_error = state.is_closed || state.is_woken || state.fatal.is_some() || !state.errors.is_empty();
            if has_error || state.has_rows(self.now()) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn raise(&self) -> Result<(), ClientError> {
        let mut state = self.state();
        state.check_woken()?;
        state.errors.pop_front().or_else(|| state.fatal.clone()).map_or(Ok(()), Err)
    }

    pub(super) fn wake(&self) {
        self.state().is_woken = true;
        self.arrived.notify_all();
    }

    /// Raises an error once, or from now on at every call.
    pub(super) fn push_error(&self, error: ClientError, is_fatal: bool) {
        let mut state = self.state();
        match is_fatal {
            true => state.fatal = Some(error),
            false => state.errors.push_back(error),
        }
        drop(state);
        self.arrived.notify_all();
    }

    pub(super) fn set_fatal(&self, error: Option<ClientError>) {
        let mut state = self.state();
        let is_new = state.fatal.is_none() && error.is_some();
        state.fatal = error;
        drop(state);
        if is_new {
            self.arrived.notify_all();
        }
    }

    pub(super) fn push(&self, rows: FetchedRows) {
        self.state().queue.push_back(rows);
        self.arrived.notify_all();
    }

    pub(super) fn notify(&self) {
        self.arrived.notify_all();
    }

    /// Records of a partition were acquired, of which some may have been before.
    pub(super) fn acquired_again(&self, partition: &TopicPartition, acquired: &[Acquired]) {
        let mut state = self.state();
        let is_again = |rows: &FetchedRows| {
            let mut offsets = acquired.iter().flat_map(|new| rows.acquired.iter().map(move |old| (new, old)));
            rows.part.partition == *partition && offsets.any(|(new, old)| new.overlaps(old.first, old.last))
        };
        state.queue.retain(|rows| !is_again(rows));
        state.held.acquired_again(partition, acquired);
    }

    pub(super) fn locks_lost(&self, session: SessionId, partition: Option<TopicPartition>) {
        let mut state = self.state();
        let is_lost = |of: SessionId, at: &TopicPartition| {
            of == session && partition.as_ref().is_none_or(|partition| partition == at)
        };
        state.queue.retain(|rows| !is_lost(rows.part.session, &rows.part.partition));
        state.held.locks_lost(session, partition.as_ref());
        state.lost.push((session, partition));
    }

    /// What is due by now: decisions whose locks must not end, renewals, and the release of rows that nobody asks for.
    pub(super) fn due(&self, now: Now) -> (Vec<(Acknowledgement, Option<AcknowledgeError>)>, Vec<Acknowledgement>) {
        let mut state = self.state();
        let mut acknowledgements = Vec::new();
        // Nothing is said of rows whose locks are over: the refusal would be of all that is said of their partition.
        state.queue.retain(|rows| rows.part.deadline > now);
        if state.waiting == 0 {
            while let Some(place) = state.queue.iter().position(|rows| rows.release_due() <= now) {
                let Some(rows) = state.queue.remove(place) else { break };
                let ticket = state.held.new_ticket();
                let offsets = rows.acquired.iter().map(|acquired| (acquired.first, acquired.last));
                acknowledgements.push((rows.acknowledgement(ticket, offsets, AcknowledgeType::Release), None));
            }
        }
        if state.held.due().is_some_and(|due| due <= now) {
            acknowledgements.extend(state.held.take_decided(None, now));
        }
        let renewals = state.held.due_renewals(now);
        (acknowledgements, renewals)
    }

    /// When something is due.
    pub(super) fn due_at(&self) -> Option<Now> {
        let state = self.state();
        let releases = state.queue.iter().filter(|_| state.waiting == 0).map(FetchedRows::release_due);
        releases.chain(state.held.due()).min()
    }

    /// Ends every wait. What was acquired is gone.
    pub(super) fn close(&self) {
        drop(lock(&self.commands).take());
        let mut state = self.state();
        state.is_closed = true;
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        drop(queue);
        self.arrived.notify_all();
    }
}
