//! What a call of the user's waits for: enough rows, a callback, or an error.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_engine::ledger::Holder;

use super::partition_buffer::PartitionBuffer;
use super::{BatchLimits, BufferState, FetchBuffer};
use crate::error::ClientError;
use crate::fetch::step::{PendingCallback, Step};

/// An error that lasts is raised again after this, or when the time of the call is over: a loop that goes on after it must
/// not spin.
const RAISED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How waiting ended.
enum Waited {
    Enough,
    Callback(PendingCallback),
    /// Time is up, and there is nothing to hand out.
    Nothing,
}

impl FetchBuffer {
    /// The next batch or callback, or nothing if `until` passes before one is due: call again then. Errors are raised
    /// once each; that of the whole client, or those of the partitions once none is left that goes on, on every call.
    pub(crate) fn next(&self, want: &BatchLimits, until: Instant, holder: Holder) -> Result<Step, ClientError> {
        // Before the call counts as a poll: a member that left for want of one joins again with the call after the
        // error.
        if let Some(error) = self.state().membership.raise.pop_front() {
            return Err(error);
        }
        self.enter(holder);
        let _waiting = self.begin_waiting();
        loop {
            match self.wait(want, until)? {
                Waited::Enough => {}
                Waited::Callback(callback) => return Ok(Step::Callback(callback)),
                Waited::Nothing => return Ok(Step::Nothing),
            }
            let again = self.hand_out_again(want, holder);
            let Some(batch) = again.or_else(|| self.build(want, holder)) else { continue };
            self.metrics.batches_delivered(1);
            self.metrics.records_delivered(batch.columns.record_batch.num_rows() as u64);
            self.metrics.bytes_delivered(batch.columns.memory_bytes as u64);
            return Ok(Step::Batch(batch));
        }
    }

    /// Whether [`Self::next`] would return at once; waits for that until `until`. Takes nothing.
    pub(crate) fn ready(&self, want: &BatchLimits, until: Instant) -> bool {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let again_at = self.ask_again(&mut state, now);
            let Some(wake_at) = state.wake_at(want, now) else { return true };
            if now >= until {
                return false;
            }
            let wake_at = again_at.map_or(wake_at, |at| at.min(wake_at)).min(until);
            let waited = self.arrived.wait_timeout(state, wake_at - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn wait(&self, want: &BatchLimits, until: Instant) -> Result<Waited, ClientError> {
        if !self.ready(want, until) {
            return Ok(Waited::Nothing);
        }
        let mut state = self.state();
        self.raise_pending(&mut state)?;
        if let Some(callback) = state.membership.callbacks.next() {
            return Ok(Waited::Callback(callback));
        }
        if !state.has_rows() || state.membership.withholds(Instant::now()) {
            state.lasting().inspect_err(|_| state.lasting_raised_at = Some(Instant::now()))?;
        }
        Ok(Waited::Enough)
    }

    /// Raises the next error that is due.
    pub(super) fn raise_pending(&self, state: &mut BufferState) -> Result<(), ClientError> {
        state.pending().inspect_err(|error| self.raised(state, error))
    }
}

impl BufferState {
    const FOREVER: Duration = Duration::from_secs(3600);

    fn pending(&mut self) -> Result<(), ClientError> {
        if self.closed {
            return Err(ClientError::Closed);
        }
        if std::mem::take(&mut self.woken) {
            return Err(ClientError::WokenUp);
        }
        if let Some(error) = self.membership.raise.pop_front().or_else(|| self.membership.fatal()) {
            return Err(error);
        }
        self.take_error().map_or(Ok(()), Err)
    }

    /// The next error that is due. If rows before it are in the hands of another thread or task, those that it has not
    /// taken are taken back, and come first.
    fn take_error(&mut self) -> Option<ClientError> {
        loop {
            let index = self.raise.iter().position(|error| self.is_due(error))?;
            let partition = self.raise.get(index).and_then(|error| error.partition().cloned());
            if partition.is_none_or(|partition| !self.take_rows_back(&partition)) {
                return self.raise.remove(index);
            }
        }
    }

    /// Whether an error may be raised: that of a partition comes after all rows before it. A seek beyond it would
    /// skip them.
    fn is_due(&self, error: &ClientError) -> bool {
        error.partition().is_none_or(|partition| !self.owes_rows(partition))
    }

    /// Whether a partition has rows still to come, or to be waited for.
    fn goes_on(&self, partition: &TopicPartition, buffer: &PartitionBuffer) -> bool {
        match buffer.fault() {
            None => !buffer.is_done(),
            Some(_) => self.owes_rows(partition),
        }
    }

    /// The error because of which there is nothing to hand out, if one is.
    fn lasting(&self) -> Result<(), ClientError> {
        if let Some(error) = &self.fatal {
            return Err(error.clone());
        }
        // First, since this is asked on every wait, and mostly the first partition decides it.
        if self.partitions.iter().any(|(partition, buffer)| self.goes_on(partition, buffer)) {
            return Ok(());
        }
        let mut faults = self.failed_topics.iter().chain(self.partitions.values().filter_map(PartitionBuffer::fault));
        faults.next().map_or(Ok(()), |first| Err(first.clone()))
    }

    /// When to look again; `None` if there is something to hand out or to raise now.
    fn wake_at(&self, want: &BatchLimits, now: Instant) -> Option<Instant> {
        if self.closed || self.woken || self.membership.has_callback_or_error() {
            return None;
        }
        if self.raise.iter().any(|error| self.is_due(error)) {
            return None;
        }
        if !self.has_rows() || self.membership.withholds(now) {
            return match self.lasting() {
                Ok(()) => Some(now + Self::FOREVER),
                Err(_) => self.lasting_due(want).filter(|&due| now < due),
            };
        }
        // Rows that were given back have waited once already.
        if self.first_returned().is_some() {
            return None;
        }
        let due = self.ready_since.unwrap_or(now) + want.max_wait;
        let due = want.deadline.map_or(due, |deadline| due.min(deadline));
        (!self.is_enough(want) && now < due).then_some(due)
    }

    /// When an error that lasts is raised again; `None` if it was not raised yet.
    fn lasting_due(&self, want: &BatchLimits) -> Option<Instant> {
        let due = self.lasting_raised_at? + RAISED_AGAIN_AFTER;
        Some(want.deadline.map_or(due, |deadline| due.min(deadline)))
    }

    fn is_enough(&self, want: &BatchLimits) -> bool {
        self.flush || self.is_cut || self.queued_records >= want.max_rows as u64 || self.queued_bytes >= want.max_bytes
    }
}
