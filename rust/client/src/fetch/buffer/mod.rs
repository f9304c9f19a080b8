//! The fetch buffer: what was fetched and is not handed out yet, by partition, and batches made of it.
//!
//! Two locks. `build_state` is held while a batch is built, and by everything that changes what may be handed out: a
//! batch never holds rows of a partition that was sought or released before it was returned. `state` is held for
//! moments only. Order: `build_state` before `state`.

mod assignment;
mod awaiting;
mod batch_ids;
mod build;
mod callbacks;
#[cfg(test)]
mod error_tests;
mod filling;
mod finished_offsets;
mod leader_epochs;
mod lease;
mod membership;
mod partition_buffer;
mod revocation;
mod row_cursor;
mod rows;
mod state;
#[cfg(test)]
mod tests;
mod until;
mod waiting;
mod work_gate;

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

use monedula_columns::{BatchBuilder, BatchColumns, BufferPool, Scratch, WalkOptions};
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use monedula_engine::ledger::OffsetAndEpoch;
use tokio::sync::{Notify, mpsc};

pub(crate) use self::lease::Lease;
pub(crate) use self::membership::CommitCall;
pub use self::partition_buffer::PartitionStatus;
use self::partition_buffer::{HoldReason, PartitionBuffer};
pub use self::row_cursor::RowCursor;
use self::state::BufferState;
pub use self::work_gate::{Admission, WorkGate};
use crate::budget::Budget;
use crate::error::ClientError;
use crate::fetch::command::FetchCommand;
use crate::fetch::inflate::Inflater;
use crate::lock::lock;
use crate::log::Log;
use crate::metrics::Metrics;

/// What a batch should be.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Most rows.
    pub max_rows: usize,
    /// Most bytes of its columns; one larger record makes a batch of its own.
    pub max_bytes: usize,
    /// How long rows wait for more to fill the batch.
    pub max_wait: Duration,
    /// When the rows so far are handed out whatever `max_wait` says.
    pub deadline: Option<Instant>,
}

/// What was fetched and is not handed out yet, between the driver that fetches and the user's threads that take
/// batches.
pub(crate) struct FetchBuffer {
    state: Mutex<BufferState>,
    /// Notified of whatever a call may wait for.
    arrived: Condvar,
    build_state: Mutex<BuildState>,
    inflater: Inflater,
    options: WalkOptions,
    pool: BufferPool,
    log: Log,
    metrics: Metrics,
    commands: mpsc::UnboundedSender<FetchCommand>,
    /// Notified when all that was ready is handed out, and the driver waits for budget.
    pub(crate) drained: Notify,
    /// Notified when the group's task has something to do: a revocation is finished, a commit is due, or a poll was
    /// awaited.
    pub(crate) group_wanted: Notify,
    /// For those that call later.
    me: OnceLock<Weak<Self>>,
}

/// What building a batch needs, once for all batches.
struct BuildState {
    columns: BatchColumns,
    scratch: Scratch,
    /// Kept from batch to batch, with its limits of rows and bytes: it knows how large the columns became, and so
    /// allocates them in the right size at once.
    builder: Option<(BatchBuilder, usize, usize)>,
}

impl FetchBuffer {
    #[expect(clippy::too_many_arguments, reason = "the parts of the consumer that it works with")]
    pub(crate) fn new(
        columns: BatchColumns,
        options: WalkOptions,
        decode_threads: usize,
        pool: BufferPool,
        budget: &Budget,
        log: Log,
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
            log,
            metrics,
            commands,
            drained: Notify::new(),
            group_wanted: Notify::new(),
            me: OnceLock::new(),
        }
    }

    /// Adds a partition, in place of an earlier assignment of it, and returns its span.
    pub(crate) fn add(&self, partition: &TopicPartition, end: Option<i64>) -> u64 {
        let _build = self.lock_build();
        let mut state = self.state();
        state.remove(partition);
        let span = state.new_span();
        let buffer = PartitionBuffer::new(span, end, state.bound_of(partition));
        state.partitions.insert(partition.clone(), buffer);
        state.finished.restart(partition, span, None);
        span
    }

    /// Removes a partition; what was fetched of it is dropped. False if it was not assigned.
    pub(crate) fn remove(&self, partition: &TopicPartition) -> bool {
        let _build = self.lock_build();
        self.state().remove(partition)
    }

    /// As [`Self::remove`], unless the partition has another span by now.
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
        self.go_on(&mut state, partition);
        state.forget_queued(partition);
        state.forget_returned(partition);
        state.stop_rows_of(partition);
        let span = state.new_span();
        state.partitions.get_mut(partition)?.seek(span);
        state.finished.restart(partition, span, None);
        self.hold_at_bound(&mut state, partition);
        Some(span)
    }

    /// Notes the offset that the user asked for: it is shown as the position until the driver has found that.
    pub(crate) fn aim(&self, partition: &TopicPartition, span: u64, start: Start) {
        let Start::Offset(offset, leader_epoch) = start else { return };
        let mut state = self.state();
        let BufferState { partitions, finished, .. } = &mut *state;
        let Some(buffer) = partitions.get_mut(partition).filter(|buffer| buffer.span() == span) else { return };
        buffer.aim(offset);
        finished.restart(partition, span, Some(OffsetAndEpoch { offset, leader_epoch }));
    }

    /// Reads on elsewhere in `partition`; what was fetched of it is dropped. `None` if it is not assigned.
    pub(crate) fn seek(&self, partition: &TopicPartition, start: Start) -> Option<()> {
        let span = self.restart(partition)?;
        self.aim(partition, span, start);
        let mut state = self.state();
        let buffer = state.current(partition, span)?;
        if !buffer.is_held_by(HoldReason::StartUnknown) {
            self.command(FetchCommand::Seek { partition: partition.clone(), span, start });
            return Some(());
        }
        // The partition waited for its committed offset, which is not looked up any more.
        buffer.set_held(HoldReason::StartUnknown, false);
        let (is_owned, end) = (buffer.is_owned(), buffer.end());
        self.command(FetchCommand::Assign { partitions: vec![(partition.clone(), span, start, end)], is_owned });
        self.change(&mut state, partition, |_| ());
        Some(())
    }

    /// Stops or resumes handing out and fetching `partition`; what was fetched is kept. `None` if it is not assigned.
    pub(crate) fn set_paused(&self, partition: &TopicPartition, paused: bool) -> Option<()> {
        let _build = self.lock_build();
        let mut state = self.state();
        state.partitions.get(partition)?;
        self.change(&mut state, partition, |buffer| buffer.set_held(HoldReason::Paused, paused));
        drop(state);
        self.arrived.notify_all();
        Some(())
    }

    /// Changes what holds a partition back, and has the driver pause or resume it: under one lock, so that two changes
    /// cannot overtake each other.
    fn change(&self, state: &mut BufferState, partition: &TopicPartition, change: impl FnOnce(&mut PartitionBuffer)) {
        let Some(buffer) = state.partitions.get_mut(partition) else { return };
        let before = buffer.is_held_back();
        change(buffer);
        let (after, started) = (buffer.is_held_back(), !buffer.is_held_by(HoldReason::StartUnknown));
        let closed_to_rows = buffer.is_closed_to_rows();
        let (records, bytes) = buffer.queued();
        if after {
            // It may be held back for long: only the first partition of the ready queue may hold a batch that it
            // decompressed.
            buffer.shelve();
        }
        match (before, after) {
            (false, true) => state.uncount(records, bytes),
            (true, false) => {
                state.queued_records += records;
                state.queued_bytes += bytes;
            }
            _ => {}
        }
        if closed_to_rows {
            state.stop_rows_of(partition);
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

    /// Ends the current wait of a call, or the next one.
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

    /// The status of each partition.
    pub(crate) fn status(&self) -> BTreeMap<TopicPartition, PartitionStatus> {
        let mut state = self.state();
        state.finished.sync_rows(None, false);
        let partitions = state.partitions.iter();
        partitions.map(|(partition, buffer)| (partition.clone(), state.status_of(partition, buffer))).collect()
    }

    /// The status of one partition; `None` if it is not assigned.
    pub(crate) fn status_of(&self, partition: &TopicPartition) -> Option<PartitionStatus> {
        let mut state = self.state();
        state.finished.sync_rows(None, false);
        state.partitions.get(partition).map(|buffer| state.status_of(partition, buffer))
    }

    /// Whether there is no partition, although the consumer is open.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state();
        state.partitions.is_empty() && !state.closed
    }

    /// Whether every bounded partition is read to its end.
    pub(crate) fn all_done(&self) -> bool {
        let state = self.state();
        !state.closed && state.returned.is_empty() && state.partitions.values().all(PartitionBuffer::is_done)
    }

    /// Records that may be handed out, as their batches claim.
    pub(crate) fn queued_records(&self) -> u64 {
        self.state().queued_records
    }

    fn lock_build(&self) -> MutexGuard<'_, BuildState> {
        lock(&self.build_state)
    }

    fn state(&self) -> MutexGuard<'_, BufferState> {
        lock(&self.state)
    }
}
