//! The partitions that are read: their starts, bounds and pauses.
//!
//! Both locks are held by everything that changes what may be handed out: a batch never holds rows of a partition that
//! was sought or released before it was returned.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use monedula_engine::group::Committed;
use monedula_engine::ledger::OffsetAndEpoch;

use super::assembler::Assembler;
use super::partition_buffer::{Bound, HoldReason};
use super::shared::Shared;
use super::state::BufferState;
use crate::error::ClientError;
use crate::fetch::command::FetchCommand;
use crate::lock::lock;

#[derive(Clone, Copy)]
pub(crate) struct Assignment<'b> {
    shared: &'b Shared,
    assembler: &'b Mutex<Assembler>,
}

impl<'b> Assignment<'b> {
    pub(super) fn new(shared: &'b Shared, assembler: &'b Mutex<Assembler>) -> Self {
        Self { shared, assembler }
    }

    /// Both locks, in their order.
    pub(super) fn lock(self) -> (MutexGuard<'b, Assembler>, MutexGuard<'b, BufferState>) {
        (lock(self.assembler), self.shared.lock())
    }

    /// Adds a partition, in place of an earlier assignment of it, and returns the id of its reading.
    pub(crate) fn add(self, partition: &TopicPartition, end: Option<i64>) -> u64 {
        let (_assembler, mut state) = self.lock();
        state.remove(partition);
        let reading_id = state.partitions.add(partition, end);
        state.handed_out.restart(partition, reading_id, None);
        reading_id
    }

    /// Partitions are handed out one after another from now on, each to its end, in the order in which they are added:
    /// that of their names. [`Self::pause_later_turns`] is due once the driver has them.
    pub(crate) fn read_in_order(self) {
        self.shared.lock().partitions.read_in_order();
    }

    /// Leaves partitions whose turn is far off unfetched until then.
    pub(crate) fn pause_later_turns(self) {
        self.shared.lock().partitions.pause_later_turns();
    }

    /// As [`Self::add`], for a partition that starts at its committed offset: the driver reads it once that is known.
    pub(crate) fn add_waiting(self, partition: &TopicPartition, end: Option<i64>) -> u64 {
        let reading_id = self.add(partition, end);
        if let Some(buffer) = self.shared.lock().partitions.current(partition, reading_id) {
            buffer.set_held(HoldReason::StartUnknown, true);
        }
        reading_id
    }

    /// Removes a partition; what was fetched of it is dropped. False if it was not assigned.
    pub(crate) fn remove(self, partition: &TopicPartition) -> bool {
        let (_assembler, mut state) = self.lock();
        state.remove(partition)
    }

    /// As [`Self::remove`], unless another reading of the partition has begun.
    pub(crate) fn remove_reading(self, partition: &TopicPartition, reading_id: u64) {
        let (_assembler, mut state) = self.lock();
        if state.partitions.current(partition, reading_id).is_some() {
            state.remove(partition);
        }
    }

    /// Drops what was fetched of `partition` and begins a new reading, whose id it returns; `None` if it is
    /// not assigned.
    pub(crate) fn restart(self, partition: &TopicPartition) -> Option<u64> {
        let (_assembler, mut state) = self.lock();
        state.seek(partition)
    }

    /// Notes the offset that the user asked for: it is shown as the position until the driver has found that.
    pub(crate) fn aim(self, partition: &TopicPartition, reading_id: u64, start: Start) {
        self.shared.lock().aim(partition, reading_id, start);
    }

    /// Reads on elsewhere in `partition`; what was fetched of it is dropped. `None` if it is not assigned.
    pub(crate) fn seek(self, partition: &TopicPartition, start: Start) -> Option<()> {
        let reading_id = self.restart(partition)?;
        let mut state = self.shared.lock();
        state.aim(partition, reading_id, start);
        let buffer = state.partitions.current(partition, reading_id)?;
        if !buffer.is_held_by(HoldReason::StartUnknown) {
            state.partitions.command(FetchCommand::Seek { partition: partition.clone(), reading_id, start });
            return Some(());
        }
        // The partition waited for its committed offset, which is not looked up any more.
        buffer.set_held(HoldReason::StartUnknown, false);
        let (is_owned, end) = (buffer.is_owned(), buffer.end());
        let partitions = vec![(partition.clone(), reading_id, start, end)];
        state.partitions.command(FetchCommand::Assign { partitions, is_owned });
        state.change(partition, |_| ());
        Some(())
    }

    /// Stops or resumes handing out and fetching `partition`; what was fetched is kept. `None` if it is not assigned.
    pub(crate) fn set_paused(self, partition: &TopicPartition, paused: bool) -> Option<()> {
        let (_assembler, mut state) = self.lock();
        state.partitions.get(partition)?;
        state.set_held(partition, HoldReason::Paused, paused);
        drop(state);
        self.shared.notify_calls();
        Some(())
    }

    /// An assigned partition waits for its committed offset, to go on there. Returns the id of its new reading; `None`
    /// if it is not assigned.
    pub(crate) fn wait_for_start(self, partition: &TopicPartition) -> Option<u64> {
        let reading_id = self.restart(partition)?;
        let mut state = self.shared.lock();
        state.partitions.current(partition, reading_id)?.set_held(HoldReason::StartUnknown, true);
        let command = FetchCommand::Unassign { partitions: vec![partition.clone()], topics: Vec::new() };
        state.partitions.command(command);
        Some(reading_id)
    }

    /// Starts this reading of a partition that was assigned by hand at its committed offset.
    pub(crate) fn start(self, partition: &TopicPartition, reading_id: u64, committed: Committed) {
        let mut state = self.shared.lock();
        start_at(&mut state, partition, reading_id, committed, Start::Policy);
        drop(state);
        self.shared.notify_calls();
    }

    /// The committed offset at which a partition is to start cannot be had for now. `reading_id` is `None` for a
    /// partition of the group.
    pub(crate) fn start_failed(self, partition: &TopicPartition, reading_id: Option<u64>, error: ClientError) {
        let mut state = self.shared.lock();
        let Some(buffer) = state.partitions.get_mut(partition) else { return };
        let is_meant = reading_id.map_or(buffer.is_owned(), |reading_id| buffer.reading_id() == reading_id);
        if !is_meant || !buffer.is_held_by(HoldReason::StartUnknown) {
            return;
        }
        buffer.set_fault(error.clone());
        state.errors.push(error);
        drop(state);
        self.shared.notify_calls();
    }

    /// Begins a loop with `until`, in place of the one before, and returns its number. Nothing is handed out of a
    /// partition before [`Self::set_bounds`] has its bound.
    pub(crate) fn begin_until(self) -> u64 {
        let (_assembler, mut state) = self.lock();
        state.end_until();
        let number = state.partitions.begin_until();
        let partitions = state.partitions.names();
        partitions.iter().for_each(|partition| state.set_bound(partition, Bound::Unknown));
        number
    }

    /// Partitions whose bound nobody looks up yet, and the number of the loop. The caller does so now.
    pub(crate) fn take_unbounded(self) -> Option<(u64, Vec<TopicPartition>)> {
        self.shared.lock().partitions.take_unbounded()
    }

    /// The answer to [`Self::take_unbounded`]; partitions that it leaves out are asked for again.
    pub(crate) fn set_bounds(self, number: u64, asked: &[TopicPartition], ends: BTreeMap<TopicPartition, i64>) {
        let (_assembler, mut state) = self.lock();
        let Some(until) = state.partitions.until(number) else { return };
        let ends = until.answer(asked, ends);
        ends.iter().for_each(|(partition, end)| state.set_bound(partition, Bound::At(*end)));
        drop(state);
        self.shared.notify_calls();
    }

    /// The loop with this number ends, if it is not over yet: everything is handed out again.
    pub(crate) fn end_until(self, number: u64) {
        let (_assembler, mut state) = self.lock();
        if state.partitions.until(number).is_some() {
            state.end_until();
        }
        drop(state);
        self.shared.notify_calls();
    }
}

/// A partition starts at its committed offset; `otherwise` where it has none.
pub(super) fn start_at(
    state: &mut BufferState,
    partition: &TopicPartition,
    reading_id: u64,
    committed: Committed,
    otherwise: Start,
) {
    let Some(buffer) = state.partitions.current(partition, reading_id) else { return };
    if !buffer.is_held_by(HoldReason::StartUnknown) {
        return;
    }
    let (is_owned, end) = (buffer.is_owned(), buffer.end());
    if let Some(at) = &committed {
        buffer.aim(at.offset);
    }
    // An error of an earlier attempt to find the committed offset.
    if buffer.forget_fault() {
        state.errors.forget(partition);
    }
    let start = match committed {
        Some(at) => {
            let place = OffsetAndEpoch { offset: at.offset, leader_epoch: at.leader_epoch };
            state.handed_out.starts(partition, reading_id, place, true);
            Start::Offset(at.offset, at.leader_epoch)
        }
        None => otherwise,
    };
    let partitions = vec![(partition.clone(), reading_id, start, end)];
    state.partitions.command(FetchCommand::Assign { partitions, is_owned });
    state.set_held(partition, HoldReason::StartUnknown, false);
}
