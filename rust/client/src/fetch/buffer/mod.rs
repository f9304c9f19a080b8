//! The fetch buffer: what was fetched and is not handed out yet, by partition, and batches made of it.
//!
//! Two locks. `assembler` is held while a batch is built, and by everything that changes what may be handed out: a
//! batch never holds rows of a partition that was sought or released before it was returned. `state` is held for
//! moments only. Order: `assembler` before `state`.
//!
//! Files from the bottom to the top, none of which uses a later one: the queue of a partition ([`partition_buffer`],
//! [`partitions`]), what is handed out ([`handed_out`]), the gate of the membership ([`membership`]), all of these with
//! errors under their lock ([`state`], [`shared`]), the assembler of batches ([`assembler`]), and those who change
//! something: [`assignment`], [`group_side`], [`driver_side`], and the user's calls, here.

mod assembler;
mod assignment;
mod batch_ids;
mod callbacks;
mod driver_side;
#[cfg(test)]
mod error_tests;
mod errors;
mod group_side;
mod handed_out;
mod leader_epochs;
mod lease;
mod membership;
mod partition_buffer;
mod partitions;
mod row_batch;
mod row_cursor;
mod shared;
mod state;
#[cfg(test)]
mod tests;
mod until;
mod work_gate;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use monedula_columns::{BatchColumns, BufferPool, ColumnBatch, WalkOptions};
use monedula_engine::TopicPartition;
use monedula_engine::ledger::{BatchId, Holder, OffsetAndEpoch};
use tokio::sync::mpsc;

use self::assembler::Assembler;
use self::assignment::Assignment;
use self::driver_side::DriverSide;
pub(crate) use self::errors::PendingErrors;
use self::group_side::GroupSide;
pub(crate) use self::handed_out::HandedOut;
pub(crate) use self::lease::Lease;
pub(crate) use self::membership::MembershipGate;
pub use self::partition_buffer::PartitionStatus;
pub use self::partitions::BatchLimits;
use self::partitions::Partitions;
pub use self::row_cursor::RowCursor;
use self::shared::Shared;
pub(crate) use self::state::BufferState;
use self::state::is_unavailable;
pub use self::work_gate::{RowPermission, WorkGate};
use crate::budget::Budget;
use crate::error::ClientError;
use crate::fetch::command::FetchCommand;
use crate::fetch::inflate::Inflater;
use crate::fetch::polled::{HandedBatch, Leaving, PendingCallback, Polled};
use crate::lock::lock;
use crate::log::Log;
use crate::metrics::Metrics;

/// Records fetched and not handed out yet, between the driver and the user's threads that take batches.
pub(crate) struct FetchBuffer {
    shared: Arc<Shared>,
    assembler: Mutex<Assembler>,
    inflater: Inflater,
    metrics: Metrics,
}

enum WaitOutcome {
    Enough,
    Callback(PendingCallback),
    /// Time is up, and there is nothing to hand out.
    Nothing,
}

/// A commit of the user's on its way to the group's task: until it is there, no revocation is finished.
pub(crate) struct CommitCall(Arc<Shared>);

impl Drop for CommitCall {
    fn drop(&mut self) {
        self.0.lock().membership.end_commit();
        self.0.group_wanted().notify_one();
    }
}

/// Counts a call that waits; its end counts as a poll.
pub(crate) struct WaitingCall<S: Deref<Target = Shared>>(S);

impl<S: Deref<Target = Shared>> WaitingCall<S> {
    fn begin(shared: S) -> Self {
        shared.lock().membership.begin_waiting();
        Self(shared)
    }
}

impl<S: Deref<Target = Shared>> Drop for WaitingCall<S> {
    fn drop(&mut self) {
        self.0.lock().membership.end_waiting();
    }
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
        let inflater = Inflater::start(decode_threads, budget, &options, &pool, &columns);
        let queue = Arc::clone(inflater.queue());
        Self {
            shared: Arc::new(Shared::new(BufferState::new(options, commands))),
            inflater,
            assembler: Mutex::new(Assembler::new(columns, pool, queue, log, metrics.clone())),
            metrics,
        }
    }

    pub(crate) fn assignment(&self) -> Assignment<'_> {
        Assignment::new(&self.shared, &self.assembler)
    }

    pub(crate) fn group(&self) -> GroupSide<'_> {
        GroupSide::new(&self.shared, self.assignment())
    }

    pub(crate) fn driver(&self) -> DriverSide<'_> {
        DriverSide::new(&self.shared, self.assignment(), &self.inflater)
    }

    pub(crate) fn look<R>(&self, look: impl FnOnce(&BufferState) -> R) -> R {
        look(&self.shared.lock())
    }

    /// Asks or changes what was handed out, in a way that concerns nobody who waits.
    pub(crate) fn handed_out<R>(&self, work: impl FnOnce(&mut HandedOut) -> R) -> R {
        work(&mut self.shared.lock().handed_out)
    }

    /// Finishes something that was handed out: the group's task is notified if that waits for it.
    pub(crate) fn finishing<R>(&self, work: impl FnOnce(&mut HandedOut, &Partitions) -> R) -> R {
        let mut state = self.shared.lock();
        let BufferState { handed_out, partitions, .. } = &mut *state;
        let result = work(handed_out, partitions);
        self.shared.notify_group(state);
        result
    }

    /// The next batch or callback, or nothing if `until` passes before one is due: call again then. Errors are raised
    /// once each; that of the whole client, or those of the partitions once none is left that goes on, on every call.
    pub(crate) fn next(&self, limits: &BatchLimits, until: Instant, holder: Holder) -> Result<Polled, ClientError> {
        // Errors are raised before the call counts as a poll: a member that left for want of one joins again with the
        // call after the error.
        if let Some(error) = self.shared.lock().membership.take_single_error() {
            return Err(error);
        }
        self.enter(holder);
        let _waiting = WaitingCall::begin(&*self.shared);
        loop {
            match self.wait(limits, until)? {
                WaitOutcome::Enough => {}
                WaitOutcome::Callback(callback) => return Ok(Polled::Callback(callback)),
                WaitOutcome::Nothing => return Ok(Polled::Nothing),
            }
            let again = self.shared.lock().next_returned(limits, holder);
            let Some(batch) = again.or_else(|| self.build(limits, holder)) else {
                // Records that get no rows may come for as long as the log has any.
                if Instant::now() >= until {
                    return Ok(Polled::Nothing);
                }
                continue;
            };
            self.metrics.batches_delivered(1);
            self.metrics.records_delivered(batch.columns.record_batch.num_rows() as u64);
            self.metrics.bytes_delivered(batch.columns.memory_bytes as u64);
            return Ok(Polled::Batch(batch));
        }
    }

    /// Waits until [`Self::next`] would return at once, at most until `until`; returns whether it would. Takes nothing.
    pub(crate) fn ready(&self, limits: &BatchLimits, until: Instant) -> bool {
        let mut state = self.shared.lock();
        loop {
            let now = Instant::now();
            let again_at = state.retry_lookups(now);
            let Some(wake_at) = state.wake_at(limits, now) else { return true };
            if now >= until {
                return false;
            }
            let wake_at = again_at.map_or(wake_at, |at| at.min(wake_at)).min(until);
            state = self.shared.wait(state, wake_at);
        }
    }

    fn wait(&self, limits: &BatchLimits, until: Instant) -> Result<WaitOutcome, ClientError> {
        if !self.ready(limits, until) {
            return Ok(WaitOutcome::Nothing);
        }
        let mut state = self.shared.lock();
        self.raise_pending(&mut state)?;
        if let Some(callback) = state.membership.next_callback() {
            return Ok(WaitOutcome::Callback(callback));
        }
        state.raise_lasting()?;
        Ok(WaitOutcome::Enough)
    }

    fn raise_pending(&self, state: &mut BufferState) -> Result<(), ClientError> {
        state.raise_pending().inspect_err(|error| {
            if is_unavailable(error) {
                // Its partition tries again later: other threads may wait for more than that.
                self.shared.notify_calls();
            }
        })
    }

    fn build(&self, limits: &BatchLimits, holder: Holder) -> Option<HandedBatch> {
        let batch = lock(&self.assembler).assemble(&self.shared, limits, holder);
        // Notified without the lock on building, which the driver takes next.
        if self.shared.lock().partitions.is_flushed() {
            self.shared.drained().notify_one();
        }
        batch
    }

    /// As [`Self::next`], but hands out no rows: the next callback, or an error. Counts as a poll.
    pub(crate) fn poll_callbacks(&self, until: Instant, holder: Holder) -> Result<Polled, ClientError> {
        self.enter(holder);
        let _waiting = WaitingCall::begin(&*self.shared);
        let mut state = self.shared.lock();
        loop {
            self.raise_pending(&mut state)?;
            if let Some(callback) = state.membership.next_callback() {
                return Ok(Polled::Callback(callback));
            }
            if Instant::now() >= until {
                return Ok(Polled::Nothing);
            }
            state = self.shared.wait(state, until);
        }
    }

    /// Progress of leaving the group; waits for a change until `until`.
    pub(crate) fn leaving(&self, until: Instant) -> Leaving {
        let _waiting = WaitingCall::begin(&*self.shared);
        let mut state = self.shared.lock();
        loop {
            if let Some(callback) = state.membership.next_callback() {
                return Leaving::Callback(callback);
            }
            if !state.membership.is_leaving() {
                return Leaving::Done;
            }
            if Instant::now() >= until {
                return Leaving::Waiting;
            }
            state = self.shared.wait(state, until);
        }
    }

    /// A call that goes on in a task of the runtime's waits as [`Self::next`] does.
    pub(crate) fn begin_waiting_in_task(&self) -> WaitingCall<Arc<Shared>> {
        WaitingCall::begin(Arc::clone(&self.shared))
    }

    pub(crate) fn begin_commit(&self) -> CommitCall {
        self.shared.lock().membership.begin_commit();
        CommitCall(Arc::clone(&self.shared))
    }

    /// A user's thread comes into a call: what it holds is finished, and it can run callbacks.
    pub(crate) fn enter(&self, holder: Holder) {
        let mut state = self.shared.lock();
        state.handed_out.finish_held(holder);
        state.handed_out.asks(holder);
        if !state.handed_out.has_ledger() {
            return;
        }
        state.membership.enter();
        self.shared.notify_group(state);
    }

    /// A thread or task of the user's has ended, and will not finish what it holds: that stays uncommitted, and nobody
    /// waits for it. Returns the place after it in each partition.
    pub(crate) fn holder_ended(&self, holder: Holder) -> BTreeSet<(TopicPartition, OffsetAndEpoch)> {
        let unfinished = self.finishing(|handed_out, partitions| handed_out.holder_ended(partitions, holder));
        self.shared.notify_calls();
        unfinished
    }

    pub(crate) fn by_rows(&self, batch: &HandedBatch, holder: Holder) -> Arc<RowCursor> {
        let mut state = self.shared.lock();
        let comes_first = state.must_return_first();
        let BufferState { handed_out, partitions, .. } = &mut *state;
        handed_out.by_rows(partitions, batch, holder, comes_first)
    }

    pub(crate) fn claim(&self, batch: &HandedBatch, holder: Holder) -> bool {
        let is_current = self.finishing(|handed_out, partitions| handed_out.claim(partitions, batch, holder));
        if !is_current {
            self.by_rows(batch, holder);
            self.give_back(batch.id, Some(holder));
        }
        is_current
    }

    pub(crate) fn give_back_before(
        &self,
        batch: &HandedBatch,
        unwritten: &[usize],
        holder: Holder,
    ) -> Option<HandedBatch> {
        let rest =
            self.finishing(|handed_out, partitions| handed_out.give_back_before(partitions, batch, unwritten, holder));
        self.shared.notify_calls();
        rest
    }

    pub(crate) fn give_back(&self, id: BatchId, holder: Option<Holder>) {
        self.finishing(|handed_out, partitions| handed_out.give_back(partitions, id, holder));
        self.shared.notify_calls();
    }

    pub(crate) fn wake(&self) {
        self.shared.lock().wake();
        self.shared.notify_calls();
    }

    pub(crate) fn close(&self) {
        let fetched = self.shared.lock().close();
        drop(fetched);
        self.inflater.close();
        self.shared.notify_calls();
    }

    pub(crate) fn status(&self) -> BTreeMap<TopicPartition, PartitionStatus> {
        let state = self.synced();
        let partitions = state.partitions.iter();
        partitions.map(|(partition, buffer)| (partition.clone(), state.status_of(partition, buffer))).collect()
    }

    /// The status of one partition; `None` if it is not assigned.
    pub(crate) fn status_of(&self, partition: &TopicPartition) -> Option<PartitionStatus> {
        let state = self.synced();
        state.partitions.get(partition).map(|buffer| state.status_of(partition, buffer))
    }

    /// The state, with all rows finished that are.
    fn synced(&self) -> MutexGuard<'_, BufferState> {
        let mut state = self.shared.lock();
        state.handed_out.sync_rows(None, false);
        state
    }

    pub(crate) fn empty(&self) -> ColumnBatch {
        lock(&self.assembler).empty()
    }
}
