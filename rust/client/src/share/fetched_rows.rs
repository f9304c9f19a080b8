//! Records of one partition that one answer brought: its bytes, and which of their offsets were acquired.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use monedula_columns::{Awaited, PartitionWalker, WalkOptions};
use monedula_engine::share::{AcknowledgeType, AcknowledgedRange, Acknowledgement, Acquired, HeldPart};
use monedula_engine::{Now, TopicPartition};

/// Records of one partition that one answer brought, and that nobody has received.
pub(super) struct FetchedRows {
    /// Where they are from, and until when they are locked; without rows.
    pub(super) part: HeldPart,
    pub(super) walker: PartitionWalker,
    /// What is left of the acquired offsets, ascending.
    pub(super) acquired: VecDeque<Acquired>,
    /// The next record waits for this, such as a schema.
    pub(super) awaited: Option<Arc<Awaited>>,
}

impl FetchedRows {
    /// `part` has no rows yet.
    pub(super) fn new(part: HeldPart, records: Bytes, acquired: Vec<Acquired>, options: WalkOptions) -> Self {
        let TopicPartition { topic, partition } = &part.partition;
        let first = acquired.first().map_or(0, |acquired| acquired.first);
        let mut walker = PartitionWalker::new(topic.clone(), *partition, first, options);
        walker.feed(records, vec![]);
        Self { part, walker, acquired: acquired.into(), awaited: None }
    }

    /// When nobody asks for the rows, they are released: at 60 % of their locks' time.
    pub(super) fn release_due(&self) -> Now {
        self.part.deadline.saturating_sub(self.part.lock_timeout.mul_f64(0.4))
    }

    /// An acknowledgement of offsets that nobody received.
    pub(super) fn acknowledgement(
        &self,
        ticket: u64,
        offsets: impl Iterator<Item = (i64, i64)>,
        kind: AcknowledgeType,
    ) -> Acknowledgement {
        let ranges = offsets.map(|(first, last)| AcknowledgedRange { first, last, kind }).collect();
        self.part.acknowledgement(ticket, ranges)
    }

    /// Takes the acquired offsets up to `last` off, and returns them.
    pub(super) fn take_through(&mut self, last: i64) -> Vec<(i64, i64)> {
        let mut taken = Vec::new();
        while let Some(range) = self.acquired.front_mut().filter(|range| range.first <= last) {
            taken.push((range.first, range.last.min(last)));
            match range.last <= last {
                true => _ = self.acquired.pop_front(),
                false => range.first = last + 1,
            }
        }
        taken
    }
}
