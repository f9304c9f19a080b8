//! Loops with `until`: of each partition they hand out what lies before a bound, which is looked up when the partition
//! is first assigned. A partition at its bound is held back, as a paused one is, until the loop ends.

use std::collections::{BTreeMap, BTreeSet};

use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use monedula_engine::ledger::OffsetAndEpoch;

use super::partition_buffer::{Bound, PartitionBuffer};
use super::{BufferState, FetchBuffer};
use crate::fetch::command::FetchCommand;

/// A loop with `until`.
#[derive(Debug)]
pub(super) struct UntilLoop {
    number: u64,
    /// The first bound of each partition stands, also when the partition comes back after a rebalance.
    ends: BTreeMap<TopicPartition, i64>,
    /// Partitions whose bound is being looked up.
    asked: BTreeSet<TopicPartition>,
}

impl BufferState {
    /// The bound of a partition that is added now.
    pub(super) fn bound_of(&self, partition: &TopicPartition) -> Bound {
        match &self.until {
            None => Bound::None,
            Some(until) => until.ends.get(partition).map_or(Bound::Unknown, |&end| Bound::At(end)),
        }
    }
}

impl FetchBuffer {
    /// Begins a loop, in place of the one before, and returns its number. Nothing is handed out of a partition before
    /// [`Self::set_bounds`] has its bound.
    pub(crate) fn begin_until(&self) -> u64 {
        let _build = self.lock_build();
        let mut state = self.state();
        self.forget_bounds(&mut state);
        state.last_until += 1;
        let number = state.last_until;
        state.until = Some(UntilLoop { number, ends: BTreeMap::new(), asked: BTreeSet::new() });
        let partitions: Vec<TopicPartition> = state.partitions.keys().cloned().collect();
        partitions.iter().for_each(|partition| self.bound(&mut state, partition, Bound::Unknown));
        number
    }

    /// Partitions whose bound nobody looks up yet, and the number of the loop. The caller does so now.
    pub(crate) fn take_unbounded(&self) -> Option<(u64, Vec<TopicPartition>)> {
        let mut state = self.state();
        let BufferState { until, partitions, .. } = &mut *state;
        let until = until.as_mut()?;
        let unknown = partitions.iter().filter(|(_, buffer)| buffer.bound() == Bound::Unknown);
        let new: Vec<_> =
            unknown.map(|(partition, _)| partition).filter(|named| !until.asked.contains(*named)).cloned().collect();
        until.asked.extend(new.iter().cloned());
        (!new.is_empty()).then_some((until.number, new))
    }

    /// The answer to [`Self::take_unbounded`]; partitions that it leaves out are asked for again.
    pub(crate) fn set_bounds(&self, number: u64, asked: &[TopicPartition], ends: BTreeMap<TopicPartition, i64>) {
        let _build = self.lock_build();
        let mut state = self.state();
        let Some(until) = state.until.as_mut().filter(|until| until.number == number) else { return };
        asked.iter().for_each(|partition| _ = until.asked.remove(partition));
        let first = |(partition, end): (TopicPartition, i64)| {
            let end = *until.ends.entry(partition.clone()).or_insert(end);
            (partition, end)
        };
        let ends: Vec<(TopicPartition, i64)> = ends.into_iter().map(first).collect();
        ends.iter().for_each(|(partition, end)| self.bound(&mut state, partition, Bound::At(*end)));
        drop(state);
        self.arrived.notify_all();
    }

    /// Whether the loop has handed out all that it wants of what is assigned now.
    pub(crate) fn is_until_reached(&self) -> bool {
        let state = self.state();
        !state.closed
            && state.raise.is_empty()
            && state.returned.is_empty()
            && state.membership.revocations.is_empty()
            && !state.membership.has_callback_or_error()
            && state.partitions.values().all(|each| each.fault().is_some() || each.is_read_to_bound())
    }

    /// The loop with this number ends, if it is not over yet: everything is handed out again.
    pub(crate) fn end_until(&self, number: u64) {
        let _build = self.lock_build();
        let mut state = self.state();
        if state.until.as_ref().is_some_and(|until| until.number == number) {
            self.forget_bounds(&mut state);
        }
        drop(state);
        self.arrived.notify_all();
    }

    fn forget_bounds(&self, state: &mut BufferState) {
        if state.until.take().is_none() {
            return;
        }
        let partitions: Vec<TopicPartition> = state.partitions.keys().cloned().collect();
        for partition in &partitions {
            let Some(buffer) = state.partitions.get(partition) else { continue };
            // What was walked past the bound was dropped: it is fetched again.
            let from = buffer.walked_to().filter(|_| buffer.is_read_to_bound());
            self.bound(state, partition, Bound::None);
            if let Some(from) = from {
                self.read_again(state, partition, from);
            }
        }
    }

    /// Reads a partition again from the next offset to be handed out on: what was fetched is dropped.
    pub(super) fn read_again(&self, state: &mut BufferState, partition: &TopicPartition, from: OffsetAndEpoch) {
        self.go_on(state, partition);
        state.forget_queued(partition);
        let span = state.new_span();
        let BufferState { partitions, finished, .. } = &mut *state;
        let Some(buffer) = partitions.get_mut(partition) else { return };
        buffer.read_again(span, from.offset);
        if let Some(ledger) = &mut finished.ledger {
            ledger.goes_on_as(partition, span);
        }
        self.command(FetchCommand::Seek {
            partition: partition.clone(),
            span,
            start: Start::Offset(from.offset, from.leader_epoch),
        });
        self.hold_at_bound(state, partition);
    }

    fn bound(&self, state: &mut BufferState, partition: &TopicPartition, bound: Bound) {
        self.change(state, partition, |buffer| buffer.set_bound(bound));
    }

    /// The position of a partition changed: holds it back if it is at the bound now, and no more if it is not.
    pub(super) fn hold_at_bound(&self, state: &mut BufferState, partition: &TopicPartition) {
        if state.partitions.get(partition).is_some_and(PartitionBuffer::crossed_bound) {
            self.change(state, partition, PartitionBuffer::hold_at_bound);
        }
    }
}
