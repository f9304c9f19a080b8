//! Acknowledgements: what is to be told a partition's leader about offsets that it gave to this member.

use monedula_protocol::types::Uuid;

use super::io::SessionId;
use crate::TopicPartition;
use crate::named::named;

named! {
    /// What becomes of an acquired offset, in the order of the protocol's numbers.
    pub enum AcknowledgeType {
        /// There is no record: compaction removed it, or it is a control record.
        Gap,
        /// The record was processed.
        Accept,
        /// The record is to be delivered again, to any member.
        Release,
        /// The record cannot be processed, and is not delivered again.
        Reject,
        /// The record stays with the member, and its lock runs anew (KIP-1222).
        Renew,
    }
}

impl AcknowledgeType {
    /// The number in the protocol.
    pub fn id(self) -> i8 {
        self as i8
    }
}

/// Offsets of one partition with the same acknowledgement, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcknowledgedRange {
    /// The first offset.
    pub first: i64,
    /// The last offset.
    pub last: i64,
    /// What becomes of them.
    pub kind: AcknowledgeType,
}

impl AcknowledgedRange {
    fn offsets(&self) -> u64 {
        (self.last - self.first + 1).unsigned_abs()
    }
}

/// Acknowledgements of one partition that end together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The number that the outcome carries.
    pub ticket: u64,
    /// The session in which the offsets were acquired: another one cannot acknowledge them.
    pub session: SessionId,
    /// The partition.
    pub partition: TopicPartition,
    /// The id of its topic.
    pub topic_id: Uuid,
    /// The offsets. No offset stands in two ranges.
    pub ranges: Vec<AcknowledgedRange>,
}

impl Acknowledgement {
    /// The number of records, without gaps.
    pub fn records(&self) -> u64 {
        let records = self.ranges.iter().filter(|range| range.kind != AcknowledgeType::Gap);
        records.map(AcknowledgedRange::offsets).sum()
    }

    /// Leaves out the offsets of `others`.
    pub(super) fn remove(&mut self, others: &[AcknowledgedRange]) {
        for other in others {
            let rest = |range: AcknowledgedRange| {
                let before = AcknowledgedRange { last: range.last.min(other.first - 1), ..range };
                let behind = AcknowledgedRange { first: range.first.max(other.last + 1), ..range };
                [before, behind].into_iter().filter(|part| part.first <= part.last)
            };
            self.ranges = std::mem::take(&mut self.ranges).into_iter().flat_map(rest).collect();
        }
    }
}

/// Consecutive offsets in a request, with one type for all or one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcknowledgementBatch {
    /// The first offset.
    pub first: i64,
    /// The last offset, inclusive.
    pub last: i64,
    /// The numbers of the types.
    pub types: Vec<i8>,
}

/// A run of equal types from this length on is a batch of its own: 17 bytes, with one type, are fewer than one each.
const LONG_RUN: u64 = 18;

/// The batches of a request for acknowledgements of one partition: in the order of their offsets, neighbours joined.
pub(super) fn batches<'a>(acknowledgements: impl Iterator<Item = &'a Acknowledgement>) -> Vec<AcknowledgementBatch> {
    let mut ranges: Vec<AcknowledgedRange> = acknowledgements.flat_map(|each| each.ranges.iter().copied()).collect();
    ranges.sort_by_key(|range| range.first);
    let mut runs: Vec<AcknowledgedRange> = Vec::new();
    for range in ranges {
        match runs.last_mut() {
            Some(last) if last.kind == range.kind && last.last + 1 == range.first => last.last = range.last,
            _ => runs.push(range),
        }
    }
    let mut batches: Vec<(AcknowledgementBatch, bool)> = Vec::new();
    for run in runs {
        let is_long = run.offsets() >= LONG_RUN;
        match batches.last_mut() {
            Some((batch, false)) if !is_long && batch.last + 1 == run.first => {
                batch.last = run.last;
                batch.types.extend((run.first..=run.last).map(|_| run.kind.id()));
            }
            _ => {
                let types = if is_long { 1 } else { run.offsets() as usize };
                let types = vec![run.kind.id(); types];
                batches.push((AcknowledgementBatch { first: run.first, last: run.last, types }, is_long));
            }
        }
    }
    for (batch, _) in &mut batches {
        if batch.types.iter().all(|kind| *kind == batch.types[0]) {
            batch.types.truncate(1);
        }
    }
    batches.into_iter().map(|(batch, _)| batch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use AcknowledgeType::{Accept, Gap, Reject, Release};

    fn range(first: i64, last: i64, kind: AcknowledgeType) -> AcknowledgedRange {
        AcknowledgedRange { first, last, kind }
    }

    fn of(ranges: Vec<AcknowledgedRange>) -> Acknowledgement {
        let session = SessionId { node: 1, generation: 1 };
        Acknowledgement { ticket: 1, session, partition: TopicPartition::new("t", 0), topic_id: Uuid::ZERO, ranges }
    }

    fn encoded(ranges: &[AcknowledgedRange]) -> Vec<(i64, i64, Vec<i8>)> {
        let each: Vec<Acknowledgement> = ranges.iter().map(|range| of(vec![*range])).collect();
        batches(each.iter()).into_iter().map(|batch| (batch.first, batch.last, batch.types)).collect()
    }

    #[test]
    fn neighbours_are_joined_in_the_order_of_offsets_and_others_are_not() {
        let ranges = [range(5, 9, Accept), range(0, 4, Accept), range(11, 12, Accept)];
        assert_eq!(encoded(&ranges), [(0, 9, vec![1]), (11, 12, vec![1])]);
    }

    #[test]
    fn short_runs_have_a_type_for_each_offset_and_long_ones_a_batch_of_their_own() {
        let ranges = [range(0, 1, Accept), range(2, 2, Release), range(3, 30, Accept), range(31, 31, Gap)];
        assert_eq!(encoded(&ranges), [(0, 2, vec![1, 1, 2]), (3, 30, vec![1]), (31, 31, vec![0])]);
    }

    #[test]
    fn records_are_counted_without_gaps() {
        assert_eq!(of(vec![range(0, 4, Accept), range(5, 9, Gap), range(10, 10, Reject)]).records(), 6);
    }

    #[test]
    fn offsets_that_are_removed_leave_what_is_before_and_behind_them() {
        let mut renewal = of(vec![range(0, 9, AcknowledgeType::Renew), range(20, 21, AcknowledgeType::Renew)]);
        renewal.remove(&[range(3, 4, Accept), range(20, 30, Accept)]);
        let left: Vec<(i64, i64)> = renewal.ranges.iter().map(|range| (range.first, range.last)).collect();
        assert_eq!(left, [(0, 2), (5, 9)]);
    }
}
