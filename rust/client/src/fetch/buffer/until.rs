//! Loops with `until`: of each partition they hand out what lies before a bound, which is looked up when the partition
//! is first assigned. A partition at its bound is held back, as a paused one is, until the loop ends.

use std::collections::{BTreeMap, BTreeSet};

use monedula_engine::TopicPartition;

use super::partition_buffer::Bound;

#[derive(Debug)]
pub(super) struct UntilLoop {
    number: u64,
    /// The first bound of each partition stands, also when the partition comes back after a rebalance.
    ends: BTreeMap<TopicPartition, i64>,
    /// Partitions whose bound is being looked up.
    asked: BTreeSet<TopicPartition>,
}

impl UntilLoop {
    pub(super) fn new(number: u64) -> Self {
        Self { number, ends: BTreeMap::new(), asked: BTreeSet::new() }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn bound_of(&self, partition: &TopicPartition) -> Bound {
        self.ends.get(partition).map_or(Bound::Unknown, |&end| Bound::At(end))
    }

    /// Partitions of `unknown` whose bound nobody looks up yet. The caller does so now.
    pub(super) fn ask<'p>(&mut self, unknown: impl Iterator<Item = &'p TopicPartition>) -> Vec<TopicPartition> {
        let new: Vec<_> = unknown.filter(|named| !self.asked.contains(*named)).cloned().collect();
        self.asked.extend(new.iter().cloned());
        new
    }

    /// The answer to [`Self::ask`]: returns the bounds that stand. Partitions that `ends` leaves out are asked for
    /// again.
    pub(super) fn answer(
        &mut self,
        asked: &[TopicPartition],
        ends: BTreeMap<TopicPartition, i64>,
    ) -> Vec<(TopicPartition, i64)> {
        asked.iter().for_each(|partition| _ = self.asked.remove(partition));
        let first = |(partition, end): (TopicPartition, i64)| {
            let end = *self.ends.entry(partition.clone()).or_insert(end);
            (partition, end)
        };
        ends.into_iter().map(first).collect()
    }
}
