//! Transactions of a run: which finished rows the next one has, and which parts are over. A round is one transaction.

use std::collections::BTreeMap;

use super::arena::Id;
use super::machine::{Lanes, report};
use super::part::Part;
use super::reading::Reading;
use super::report::Report;
use super::round::RoundPart;
use crate::TopicPartition;

impl<P: Clone> Lanes<P> {
    /// Number of rows that are finished, and not in a committed transaction.
    pub fn uncommitted(&self) -> usize {
        self.uncommitted
    }

    /// The partitions with parts that the user sought away from: [`round`](Self::round) asks for their positions.
    pub fn sought_partitions(&self, reading: impl Fn(&P) -> Reading) -> Vec<TopicPartition> {
        let is_sought = |id: &Id| self.parts.get(*id).is_some_and(|part| reading(&part.payload) == Reading::Sought);
        let sought = self.partitions.iter().filter(|partition| partition.uncommitted.iter().any(is_sought));
        sought.map(|partition| partition.name.clone()).collect()
    }

    /// The rows of the next transaction: those that are finished without a gap and, of parts that the user sought away
    /// from, the finished ones before the offset at which the consumer reads on.
    ///
    /// `positions` are those of the sought partitions, as far as they are known; `offset_of` a row of a part. A part
    /// that was sought waits for its running handlers, unless the transaction `is_last`.
    pub fn round(
        &mut self,
        is_last: bool,
        positions: &BTreeMap<TopicPartition, i64>,
        reading: impl Fn(&P) -> Reading,
        offset_of: impl Fn(&P, usize) -> Option<i64>,
    ) -> Vec<RoundPart<P>> {
        let mut round = Vec::new();
        for index in 0..self.partitions.len() {
            if self.partitions[index].has_gap(&reading) {
                continue;
            }
            for (at, id) in self.partitions[index].uncommitted.iter().enumerate() {
                let Some(part) = self.parts.get(*id) else { break };
                match reading(&part.payload) {
                    Reading::Lost => break,
                    Reading::Sought if part.committed == part.total() => {}
                    Reading::Sought if !is_last && self.is_in_flight(*id) => break,
                    Reading::Sought => {
                        let position = positions.get(&self.partitions[index].name).copied();
                        let sought = self.sought_offset((index, at), position, &reading, &offset_of);
                        let Some(offset) = sought else { break };
                        let is_before = |row: &usize| offset_of(&part.payload, *row).is_some_and(|row| row < offset);
                        let before = (0..part.total()).take_while(is_before).count();
                        let calls = part.calls_before(before);
                        round.push(RoundPart { sought, calls, ..self.round_part(*id, part, part.total()) });
                    }
                    Reading::Current => {
                        let end = part.whole_frontier();
                        if end > part.committed {
                            round.push(self.round_part(*id, part, end));
                        }
                        if end < part.total() {
                            break;
                        }
                    }
                }
            }
        }
        round
    }

    /// The transaction with these rows was committed.
    pub fn commit(&mut self, round: &[RoundPart<P>]) -> Vec<Report<P>> {
        let mut reports = Vec::new();
        for RoundPart { part, end, .. } in round {
            if let Some(part) = self.parts.get_mut(*part).filter(|part| part.committed < *end) {
                self.uncommitted -= part.uncommitted();
                part.commit(*end);
                self.uncommitted += part.uncommitted();
                part.reported = *end;
                reports.push(report(part, *end, false));
            }
        }
        reports
    }

    /// True if the partition of a part with uncommitted rows is lost.
    pub fn has_lost(&self, reading: impl Fn(&P) -> Reading) -> bool {
        let mut parts = self.partitions.iter().flat_map(|partition| &partition.uncommitted);
        parts.any(|id| self.parts.get(*id).is_some_and(|part| reading(&part.payload) == Reading::Lost))
    }

    /// The last reports of parts of which nothing more will be committed, in a run with transactions.
    pub fn settled_rounds(&mut self, reading: impl Fn(&P) -> Reading) -> Vec<Report<P>> {
        let mut reports = Vec::new();
        for index in 0..self.partitions.len() {
            while let Some(id) = self.partitions[index].uncommitted.front().copied() {
                let has_gap = self.partitions[index].has_gap(&reading);
                let Some(part) = self.parts.get(id) else { break };
                let of = reading(&part.payload);
                let is_over = match of {
                    Reading::Lost => true,
                    Reading::Sought => part.committed == part.total(),
                    Reading::Current => part.is_settled() && (has_gap || part.committed == part.whole_frontier()),
                };
                if !is_over {
                    break;
                }
                if of != Reading::Lost && part.committed < part.total() {
                    self.partitions[index].gap = Some(part.payload.clone());
                }
                self.partitions[index].uncommitted.pop_front();
                reports.extend(self.last_report(id));
            }
        }
        reports
    }

    /// The last reports of all parts: the run ends.
    pub fn rest(&mut self) -> Vec<Report<P>> {
        let parts: Vec<Id> = self.partitions.iter_mut().flat_map(|partition| partition.uncommitted.drain(..)).collect();
        parts.into_iter().filter_map(|id| self.last_report(id)).collect()
    }

    /// The offset from which on the consumer reads after a seek away from a part; `None` if it is not known. The position
    /// has moved on since, if rows were handed out: the first of these count.
    fn sought_offset(
        &self,
        (index, at): (usize, usize),
        position: Option<i64>,
        reading: impl Fn(&P) -> Reading,
        offset_of: impl Fn(&P, usize) -> Option<i64>,
    ) -> Option<i64> {
        let later = || self.partitions[index].uncommitted.range(at + 1..).filter_map(|id| self.parts.get(*id));
        if position.is_none() && later().all(|part| reading(&part.payload) == Reading::Sought) {
            return None;
        }
        later().filter_map(|part| offset_of(&part.payload, 0)).chain(position).min()
    }

    fn round_part(&self, id: Id, part: &Part<P>, end: usize) -> RoundPart<P> {
        let (payload, partition) = (part.payload.clone(), self.partitions[part.partition].name.clone());
        RoundPart { part: id, payload, partition, begin: part.committed, end, sought: None, calls: Vec::new() }
    }

    fn last_report(&mut self, id: Id) -> Option<Report<P>> {
        let part = self.parts.get_mut(id)?;
        self.uncommitted -= part.uncommitted();
        part.is_over = true;
        let last = report(part, part.committed, true);
        self.remove_if_over(id);
        Some(last)
    }
}
