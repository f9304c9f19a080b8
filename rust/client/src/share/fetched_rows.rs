//! Records of one partition that one answer brought: its bytes, and which of their offsets were acquired.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use monedula_columns::{Awaited, PartitionWalker, WalkOptions};
use monedula_engine::share::{AcknowledgeType, AcknowledgedRange, Acknowledgement, Acquired, HeldPart, SessionId};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::types::Uuid;

/// Records of one partition that one answer brought, and that nobody has received.
pub(super) struct FetchedRows {
    pub(super) session: SessionId,
    pub(super) partition: TopicPartition,
    pub(super) topic_id: Uuid,
    pub(super) walker: PartitionWalker,
    /// What is left of the acquired offsets, ascending.
    pub(super) acquired: VecDeque<Acquired>,
    pub(super) deadline: Now,
    pub(super) lock_timeout: Duration,
    /// The next record waits for this, such as a schema.
    pub(super) awaited: Option<Arc<Awaited>>,
}

impl FetchedRows {
    #[expect(clippy::too_many_arguments, reason = "the fields of an output of the machine, and its bytes")]
    pub(super) fn new(
        session: SessionId,
        partition: TopicPartition,
        topic_id: Uuid,
        records: Bytes,
        acquired: Vec<Acquired>,
        deadline: Now,
        lock_timeout: Duration,
        options: WalkOptions,
    ) -> Self {
        let first = acquired.first().map_or(0, |acquired| acquired.first);
        let mut walker = PartitionWalker::new(partition.topic.clone(), partition.partition, first, options);
        walker.feed(records, vec![]);
        let acquired = acquired.into();
        Self { session, partition, topic_id, walker, acquired, deadline, lock_timeout, awaited: None }
    }

    /// When nobody asks for the rows, they are released: at 60 % of their locks' time.
    pub(super) fn release_due(&self) -> Now {
        self.deadline.saturating_sub(self.lock_timeout.mul_f64(0.4))
    }

    /// An acknowledgement of offsets that nobody received.
    pub(super) fn acknowledgement(
        &self,
        ticket: u64,
        offsets: impl Iterator<Item = (i64, i64)>,
        kind: AcknowledgeType,
    ) -> Acknowledgement {
        let ranges = offsets.map(|(first, last)| AcknowledgedRange { first, last, kind }).collect();
        let (session, partition, topic_id) = (self.session, self.partition.clone(), self.topic_id);
        Acknowledgement { ticket, session, partition, topic_id, ranges }
    }

    /// The rows of this answer in a batch, still without any.
    pub(super) fn part(&self) -> HeldPart {
        HeldPart {
            session: self.session,
            partition: self.partition.clone(),
            topic_id: self.topic_id,
            runs: Vec::new(),
            gaps: Vec::new(),
            deadline: self.deadline,
            lock_timeout: self.lock_timeout,
        }
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
