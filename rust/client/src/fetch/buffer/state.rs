//! Data guarded by the lock `state`, and the changes that concern several parts of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use monedula_columns::{WalkErrorKind, WalkOptions};
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use monedula_engine::group::CommitOffset;
use monedula_engine::ledger::{Holder, OffsetAndEpoch};
use tokio::sync::mpsc;

use super::errors::PendingErrors;
use super::handed_out::{HandedOut, Returned};
use super::membership::MembershipGate;
use super::partition_buffer::{Bound, HoldReason, PartitionBuffer, PartitionStatus};
use super::partitions::{BatchLimits, Partitions};
use super::work_gate::WorkGate;
use crate::error::ClientError;
use crate::fetch::command::FetchCommand;
use crate::fetch::polled::HandedBatch;

/// Time for which a partition is held back after its error was raised: a loop that catches errors and polls again would
/// only raise the same one.
const RETRIED_AFTER: Duration = Duration::from_secs(1);

/// Longest wait of a call before it looks again.
const FOREVER: Duration = Duration::from_secs(3600);

/// Data guarded by the lock `state`.
pub(crate) struct BufferState {
    pub(super) partitions: Partitions,
    pub(super) handed_out: HandedOut,
    pub(super) membership: MembershipGate,
    pub(super) errors: PendingErrors,
    /// Partitions held by an unavailable schema, whose error was raised, and the time of the next lookup.
    lookup_retries: BTreeMap<TopicPartition, Instant>,
    woken: bool,
    closed: bool,
}

impl BufferState {
    pub(super) fn new(options: WalkOptions, commands: mpsc::UnboundedSender<FetchCommand>) -> Self {
        let membership = MembershipGate::default();
        Self {
            partitions: Partitions::new(options, commands),
            handed_out: HandedOut::new(membership.clock()),
            membership,
            errors: PendingErrors::default(),
            lookup_retries: BTreeMap::new(),
            woken: false,
            closed: false,
        }
    }

    pub(super) fn remove(&mut self, partition: &TopicPartition) -> bool {
        self.errors.forget(partition);
        self.handed_out.forget_returned(partition);
        self.handed_out.stop_rows_of(partition);
        self.handed_out.released(partition);
        self.lookup_retries.remove(partition);
        self.partitions.remove(partition)
    }

    pub(super) fn seek(&mut self, partition: &TopicPartition) -> Option<u64> {
        self.end_lookup_hold(partition);
        self.errors.forget(partition);
        self.handed_out.forget_returned(partition);
        self.handed_out.stop_rows_of(partition);
        let reading_id = self.partitions.seek(partition)?;
        self.handed_out.restart(partition, reading_id, None);
        self.hold_at_bound(partition);
        Some(reading_id)
    }

    pub(super) fn aim(&mut self, partition: &TopicPartition, reading_id: u64, start: Start) {
        let Start::Offset(offset, leader_epoch) = start else { return };
        let Some(buffer) = self.partitions.current(partition, reading_id) else { return };
        buffer.aim(offset);
        self.handed_out.restart(partition, reading_id, Some(OffsetAndEpoch { offset, leader_epoch }));
    }

    /// Drops what was fetched of a partition, and begins a new reading from the next offset to be handed out.
    pub(super) fn read_again(&mut self, partition: &TopicPartition, from: OffsetAndEpoch) {
        self.end_lookup_hold(partition);
        self.errors.forget(partition);
        let Some(reading_id) = self.partitions.read_again(partition, from.offset) else { return };
        self.handed_out.goes_on_as(partition, reading_id);
        let start = Start::Offset(from.offset, from.leader_epoch);
        self.partitions.command(FetchCommand::Seek { partition: partition.clone(), reading_id, start });
        self.hold_at_bound(partition);
    }

    /// Changes what holds a partition back, and has the driver pause or resume it: under one lock, so that two changes
    /// cannot overtake each other.
    pub(super) fn change(&mut self, partition: &TopicPartition, change: impl FnOnce(&mut PartitionBuffer)) {
        let Some(is_closed) = self.partitions.change(partition, change) else { return };
        if is_closed {
            self.handed_out.stop_rows_of(partition);
        }
        self.partitions.follow(partition);
    }

    pub(super) fn set_held(&mut self, partition: &TopicPartition, reason: HoldReason, holds: bool) {
        self.change(partition, |buffer| buffer.set_held(reason, holds));
    }

    /// Ends the hold of a partition that waited for a lookup, and forgets its retries.
    pub(super) fn end_lookup_hold(&mut self, partition: &TopicPartition) {
        self.lookup_retries.remove(partition);
        if self.partitions.get(partition).is_some_and(|buffer| buffer.is_held_by(HoldReason::Lookup)) {
            self.set_held(partition, HoldReason::Lookup, false);
        }
    }

    pub(super) fn set_bound(&mut self, partition: &TopicPartition, bound: Bound) {
        self.change(partition, |buffer| buffer.set_bound(bound));
    }

    pub(super) fn hold_at_bound(&mut self, partition: &TopicPartition) {
        if self.partitions.get(partition).is_some_and(PartitionBuffer::crossed_bound) {
            self.change(partition, PartitionBuffer::hold_at_bound);
        }
    }

    /// In a read in the order of partitions, the next one has its turn once `partition` is read to its end.
    pub(super) fn pass_turn(&mut self, partition: &TopicPartition) {
        if let Some(next) = self.partitions.next_turn(partition) {
            self.set_held(&next, HoldReason::Turn, false);
        }
    }

    /// Ends the loop with `until`: everything is handed out again.
    pub(super) fn end_until(&mut self) {
        if !self.partitions.end_until() {
            return;
        }
        for partition in self.partitions.names() {
            let Some(buffer) = self.partitions.get(&partition) else { continue };
            // Records that were walked past the bound were dropped: they are fetched again.
            let from = buffer.walked_to().filter(|_| buffer.is_read_to_bound());
            self.set_bound(&partition, Bound::None);
            if let Some(from) = from {
                self.read_again(&partition, from);
            }
        }
    }

    /// True if the loop with `until` has handed out all that it wants of what is assigned now.
    pub(crate) fn is_until_reached(&self) -> bool {
        !self.closed
            && self.errors.is_empty()
            && !self.handed_out.holds_returned()
            && !self.membership.has_revocations()
            && !self.membership.has_callback_or_error()
            && self.partitions.iter().all(|(_, buffer)| buffer.fault().is_some() || buffer.is_read_to_bound())
    }

    /// True if every bounded partition is read to its end.
    pub(crate) fn all_done(&self) -> bool {
        !self.closed && !self.handed_out.holds_returned() && self.partitions.iter().all(|(_, buffer)| buffer.is_done())
    }

    /// True if there is no partition, although the consumer is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.partitions.is_empty() && !self.closed
    }

    pub(crate) fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    pub(crate) fn work_gate(&self, part: &HandedBatch) -> WorkGate {
        self.handed_out.work_gate(&self.partitions, part)
    }

    pub(super) fn status_of(&self, partition: &TopicPartition, buffer: &PartitionBuffer) -> PartitionStatus {
        let (status, returned) = (buffer.status(), self.handed_out.returned_offset(partition));
        let finished = self.handed_out.finished_offset(partition);
        PartitionStatus { position: returned.or(status.position), finished, ..status }
    }

    /// Ends the wait of a call, or of the next one.
    pub(super) fn wake(&mut self) {
        self.woken = true;
        self.handed_out.stop_all_rows();
    }

    /// Ends every call, now and from now on. Returns everything that was fetched, to be dropped without the lock.
    pub(super) fn close(&mut self) -> (BTreeMap<TopicPartition, PartitionBuffer>, Returned) {
        self.closed = true;
        self.handed_out.stop_all_rows();
        (self.partitions.take_all(), self.handed_out.take_returned())
    }

    pub(super) fn next_returned(&mut self, limits: &BatchLimits, holder: Holder) -> Option<HandedBatch> {
        if self.membership.withholds(Instant::now()) {
            return None;
        }
        self.handed_out.next_returned(&self.partitions, limits, holder)
    }

    /// True if a call has something to return, or to wait for, before any row.
    pub(super) fn must_return_first(&self) -> bool {
        self.closed
            || self.woken
            || self.membership.has_callback_or_error()
            || self.membership.withholds(Instant::now())
    }

    /// Raises an error for want of something, such as a schema. The partition is held back until it is raised, and
    /// tries again some time after.
    pub(super) fn raise_unavailable(&mut self, error: ClientError) {
        let Some(partition) = error.partition().cloned() else { return };
        self.set_held(&partition, HoldReason::Lookup, true);
        self.errors.push(error);
    }

    /// Lets partitions go on whose errors were raised long enough ago. Returns when the next one does.
    pub(super) fn retry_lookups(&mut self, now: Instant) -> Option<Instant> {
        let due = self.lookup_retries.iter().filter(|(_, at)| **at <= now).map(|(partition, _)| partition.clone());
        for partition in due.collect::<Vec<_>>() {
            self.end_lookup_hold(&partition);
        }
        self.lookup_retries.values().min().copied()
    }

    /// Raises the next error that is due. A partition that it stopped for want of something tries again later.
    pub(super) fn raise_pending(&mut self) -> Result<(), ClientError> {
        if self.closed {
            return Err(ClientError::Closed);
        }
        if std::mem::take(&mut self.woken) {
            return Err(ClientError::WokenUp);
        }
        let Some(error) = self.membership.take_error().or_else(|| self.take_error()) else { return Ok(()) };
        if let Some(partition) = error.partition().filter(|_| is_unavailable(&error)) {
            self.lookup_retries.insert(partition.clone(), Instant::now() + RETRIED_AFTER);
        }
        Err(error)
    }

    /// The next error that is due. If rows before it are in the hands of another thread or task, those that it has not
    /// taken are taken back, and come first.
    fn take_error(&mut self) -> Option<ClientError> {
        loop {
            let index = self.errors.iter().position(|error| self.is_due(error))?;
            let partition = self.errors.iter().nth(index).and_then(|error| error.partition().cloned());
            if partition.is_none_or(|partition| !self.handed_out.take_rows_back(&self.partitions, &partition)) {
                return self.errors.take(index);
            }
        }
    }

    /// True if an error may be raised: that of a partition comes after all rows before it. A seek beyond it would
    /// skip them.
    fn is_due(&self, error: &ClientError) -> bool {
        error.partition().is_none_or(|partition| !self.handed_out.owes_rows(partition))
    }

    /// True if a partition has rows still to come, or to be waited for.
    fn goes_on(&self, partition: &TopicPartition, buffer: &PartitionBuffer) -> bool {
        match buffer.fault() {
            None => !buffer.is_done(),
            Some(_) => self.handed_out.owes_rows(partition),
        }
    }

    /// Raises the error because of which there is nothing to hand out, if there is nothing because of one.
    pub(super) fn raise_lasting(&mut self) -> Result<(), ClientError> {
        if self.has_rows() && !self.membership.withholds(Instant::now()) {
            return Ok(());
        }
        self.lasting().inspect_err(|_| self.errors.lasting_raised())
    }

    fn lasting(&self) -> Result<(), ClientError> {
        if let Some(error) = self.errors.fatal() {
            return Err(error.clone());
        }
        // First, since this is asked on every wait, and mostly the first partition decides it.
        if self.partitions.iter().any(|(partition, buffer)| self.goes_on(partition, buffer)) {
            return Ok(());
        }
        let of_partitions = self.partitions.iter().filter_map(|(_, buffer)| buffer.fault());
        self.errors.failed_topics().chain(of_partitions).next().map_or(Ok(()), |first| Err(first.clone()))
    }

    /// True if there is anything that could be handed out.
    fn has_rows(&self) -> bool {
        self.partitions.is_any_queued() || self.has_returned()
    }

    /// True if there are rows that were given back and may be handed out.
    pub(crate) fn has_returned(&self) -> bool {
        self.handed_out.has_returned(&self.partitions)
    }

    /// Time of the next look; `None` if there is something to hand out or to raise now.
    pub(super) fn wake_at(&self, limits: &BatchLimits, now: Instant) -> Option<Instant> {
        if self.closed || self.woken || self.membership.has_callback_or_error() {
            return None;
        }
        if self.errors.iter().any(|error| self.is_due(error)) {
            return None;
        }
        if !self.has_rows() || self.membership.withholds(now) {
            return match self.lasting() {
                Ok(()) => Some(now + FOREVER),
                Err(_) => self.errors.lasting_due(limits.deadline).filter(|&due| now < due),
            };
        }
        // Rows that were given back have waited once already.
        if self.has_returned() {
            return None;
        }
        self.partitions.batch_due(limits, now)
    }

    pub(super) fn take_finished_revocations(&mut self) -> Vec<(u64, BTreeMap<TopicPartition, CommitOffset>)> {
        self.handed_out.sync_rows(None, false);
        let done = self.membership.take_finished(&self.handed_out).into_iter();
        done.map(|(ticket, partitions)| (ticket, self.handed_out.snapshot(Some(&partitions)))).collect()
    }
}

/// True for a lookup without an answer, which says nothing about the bytes: they may be walked again.
pub(super) fn is_unavailable(error: &ClientError) -> bool {
    matches!(error, ClientError::Decode { error, .. } if matches!(error.kind, WalkErrorKind::Unavailable { .. }))
}
