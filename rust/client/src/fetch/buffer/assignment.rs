//! Newly assigned partitions. One of a group's is handed out once its start is known and its on_assigned has ended; one
//! that is assigned by hand to start at its committed offset, once that is known.

use std::collections::BTreeSet;

use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use monedula_engine::group::Committed;
use monedula_engine::ledger::OffsetAndEpoch;

use super::partition_buffer::{HoldReason, PartitionBuffer};
use super::{BufferState, FetchBuffer};
use crate::error::ClientError;
use crate::fetch::command::FetchCommand;

impl FetchBuffer {
    /// The group assigned these partitions; nothing of them is handed out yet.
    pub(crate) fn assigned(&self, partitions: &BTreeSet<TopicPartition>) {
        let _build = self.lock_build();
        let mut state = self.state();
        state.membership.callbacks.forget_repeated(partitions);
        for partition in partitions {
            state.remove(partition);
            let span = state.new_span();
            let buffer = PartitionBuffer::owned(span, state.bound_of(partition));
            state.partitions.insert(partition.clone(), buffer);
            state.finished.restart(partition, span, None);
        }
    }

    /// Where partitions of the group start, each with its committed offset and whether the topic is new. Those that the
    /// user has sought elsewhere meanwhile stay there.
    pub(crate) fn start_owned(&self, partitions: Vec<(TopicPartition, Committed, bool)>) {
        let mut state = self.state();
        for (partition, committed, is_new) in partitions {
            let buffer = state.partitions.get(&partition).filter(|buffer| buffer.is_owned());
            let Some(span) = buffer.map(PartitionBuffer::span) else { continue };
            let otherwise = if is_new { Start::Earliest } else { Start::Policy };
            self.start_at(&mut state, &partition, span, committed, otherwise);
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// Where this span of a partition starts that was assigned by hand to start at its committed offset.
    pub(crate) fn start_by_hand(&self, partition: &TopicPartition, span: u64, committed: Committed) {
        let mut state = self.state();
        self.start_at(&mut state, partition, span, committed, Start::Policy);
        drop(state);
        self.arrived.notify_all();
    }

    fn start_at(
        &self,
        state: &mut BufferState,
        partition: &TopicPartition,
        span: u64,
        committed: Committed,
        otherwise: Start,
    ) {
        let BufferState { partitions, finished, raise, .. } = &mut *state;
        let waits =
            |buffer: &&mut PartitionBuffer| buffer.span() == span && buffer.is_held_by(HoldReason::StartUnknown);
        let Some(buffer) = partitions.get_mut(partition).filter(waits) else { return };
        // An error of an earlier attempt to find the committed offset.
        if buffer.forget_fault() {
            raise.retain(|error| error.partition() != Some(partition));
        }
        let start = match committed {
            Some(at) => {
                buffer.aim(at.offset);
                let place = OffsetAndEpoch { offset: at.offset, leader_epoch: at.leader_epoch };
                if let Some(ledger) = &mut finished.ledger {
                    ledger.start(partition, span, place, true);
                }
                Start::Offset(at.offset, at.leader_epoch)
            }
            None => otherwise,
        };
        let (is_owned, end) = (buffer.is_owned(), buffer.end());
        self.command(FetchCommand::Assign { partitions: vec![(partition.clone(), span, start, end)], is_owned });
        self.change(state, partition, |buffer| buffer.set_held(HoldReason::StartUnknown, false));
    }

    /// As [`Self::add`], for a partition that starts at its committed offset: the driver reads it once that is known.
    pub(crate) fn add_waiting(&self, partition: &TopicPartition, end: Option<i64>) -> u64 {
        let span = self.add(partition, end);
        if let Some(buffer) = self.state().current(partition, span) {
            buffer.set_held(HoldReason::StartUnknown, true);
        }
        span
    }

    /// An assigned partition waits for its committed offset, to go on there. Its span; `None` if it is not assigned.
    pub(crate) fn wait_for_start(&self, partition: &TopicPartition) -> Option<u64> {
        let span = self.restart(partition)?;
        let mut state = self.state();
        state.current(partition, span)?.set_held(HoldReason::StartUnknown, true);
        self.command(FetchCommand::Unassign { partitions: vec![partition.clone()], topics: Vec::new() });
        Some(span)
    }

    /// The partitions that were assigned by hand, and not by a group.
    pub(crate) fn assigned_by_hand(&self) -> Vec<TopicPartition> {
        let state = self.state();
        let by_hand = state.partitions.iter().filter(|(_, buffer)| !buffer.is_owned());
        by_hand.map(|(partition, _)| partition.clone()).collect()
    }

    /// Whether a partition waits for its committed offset.
    pub(crate) fn waits_for_start(&self, partition: &TopicPartition, span: u64) -> bool {
        self.state().current(partition, span).is_some_and(|buffer| buffer.is_held_by(HoldReason::StartUnknown))
    }

    /// The committed offset at which a partition is to start cannot be had for now. `span` is `None` for a partition of
    /// the group.
    pub(crate) fn start_failed(&self, partition: &TopicPartition, span: Option<u64>, error: ClientError) {
        let mut state = self.state();
        let waits = |buffer: &&mut PartitionBuffer| {
            buffer.is_held_by(HoldReason::StartUnknown) && span.map_or(buffer.is_owned(), |span| buffer.span() == span)
        };
        let Some(buffer) = state.partitions.get_mut(partition).filter(waits) else { return };
        buffer.set_fault(error.clone());
        state.raise.push_back(error);
        drop(state);
        self.arrived.notify_all();
    }

    /// Whether the partition is assigned.
    pub(crate) fn owns(&self, partition: &TopicPartition) -> bool {
        self.state().partitions.contains_key(partition)
    }
}
