//! The driver's side of the buffer: fetched records, errors, and eviction for want of memory.

use std::sync::Arc;

use bytes::Bytes;
use monedula_columns::{AbortedTransaction, segments};
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Fetched;
use monedula_engine::ledger::OffsetAndEpoch;
use tokio::sync::Notify;

use super::assignment::Assignment;
use super::errors::PendingErrors;
use super::shared::Shared;
use super::state::BufferState;
use crate::error::ClientError;
use crate::fetch::inflate::{Inflater, SEGMENT_BYTES, Segment};

#[derive(Clone, Copy)]
pub(crate) struct DriverSide<'b> {
    shared: &'b Shared,
    assignment: Assignment<'b>,
    inflater: &'b Inflater,
}

impl<'b> DriverSide<'b> {
    pub(super) fn new(shared: &'b Shared, assignment: Assignment<'b>, inflater: &'b Inflater) -> Self {
        Self { shared, assignment, inflater }
    }

    pub(crate) fn drained(self) -> &'b Notify {
        self.shared.drained()
    }

    /// The driver found where `partition` starts, or where it goes on because the log lost the position.
    pub(crate) fn positioned(self, partition: &TopicPartition, reading_id: u64, offset: i64) {
        let mut state = self.shared.lock();
        let Some(starts) = state.partitions.positioned(partition, reading_id, offset) else { return };
        if starts {
            state.handed_out.starts(partition, reading_id, OffsetAndEpoch { offset, leader_epoch: -1 }, false);
            state.hold_at_bound(partition);
        }
        drop(state);
        self.shared.notify_calls();
    }

    /// Takes what a fetch brought: whole record batches.
    pub(crate) fn push(self, fetched: &Fetched, records: Bytes) {
        let bytes = records.len();
        let is_ahead = self.inflater.takes(&records);
        let cut = if is_ahead { segments(&records, SEGMENT_BYTES) } else { vec![records] };
        let cut: Vec<Arc<Segment>> =
            cut.into_iter().map(|data| Arc::new(Segment::new(data, fetched.partition.clone()))).collect();
        let aborted: Arc<[AbortedTransaction]> = fetched
            .aborted
            .iter()
            .map(|entry| AbortedTransaction { producer_id: entry.producer_id, first_offset: entry.first_offset })
            .collect();
        if !self.shared.lock().partitions.push(fetched, bytes, &cut, &aborted) {
            return;
        }
        if is_ahead {
            self.inflater.push(cut.iter().map(Arc::downgrade));
        }
        self.shared.notify_calls();
    }

    /// The partition stopped: raised once, then kept in its status; raised on every call once nothing else is left.
    pub(crate) fn stopped(self, partition: &TopicPartition, reading_id: u64, error: ClientError) {
        let mut state = self.shared.lock();
        let BufferState { partitions, errors, .. } = &mut *state;
        if !partitions.stop(partition, reading_id, error, errors) {
            return;
        }
        drop(state);
        self.shared.notify_calls();
    }

    pub(crate) fn errors<R>(self, work: impl FnOnce(&mut PendingErrors) -> R) -> R {
        work(&mut self.shared.lock().errors)
    }

    pub(crate) fn set_fatal(self, error: Option<ClientError>) {
        if self.errors(|errors| errors.set_fatal(error)) {
            self.shared.notify_calls();
        }
    }

    pub(crate) fn topic_failed(self, error: ClientError) {
        self.errors(|errors| errors.topic_failed(error));
        self.shared.notify_calls();
    }

    /// True if what is ready is to be handed out at once: the driver waits for budget, or has nothing left to fetch.
    pub(crate) fn set_flush(self, flush: bool) {
        self.shared.lock().partitions.set_flush(flush);
        self.shared.notify_calls();
    }

    /// Frees memory for a driver without budget. If there is nothing to hand out, which would free some, drops what was
    /// fetched of partitions that are held back, and returns from where on each is to be fetched again.
    /// [`Self::drained`] says when to ask again.
    pub(crate) fn evict_held_back(self) -> Vec<(TopicPartition, u64, i64)> {
        if !self.shared.lock().partitions.pins_memory() {
            return Vec::new();
        }
        // A batch that is being built may free some.
        let (_assembler, mut state) = self.assignment.lock();
        if !state.partitions.pins_memory() {
            return Vec::new();
        }
        state.partitions.evict()
    }
}
