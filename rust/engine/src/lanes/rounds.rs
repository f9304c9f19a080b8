//! Transactions of a run: which finished rows the next one has, and which parts are over. A round is one transaction.

use super::arena::Id;
use super::machine::{Lanes, report};
use super::report::Report;
use super::round::RoundPart;

impl<P: Clone> Lanes<P> {
    /// Number of rows that are finished, and not in a committed transaction.
    pub fn uncommitted(&self) -> usize {
        self.uncommitted
    }

    /// The rows of the next transaction: those that are finished without a gap. `is_lost` says whether the partition of
    /// a part is not this consumer's any more, or was sought.
    pub fn round(&mut self, is_lost: impl Fn(&P) -> bool) -> Vec<RoundPart<P>> {
        let mut round = Vec::new();
        for partition in &mut self.partitions {
            if partition.gap.as_ref().is_some_and(&is_lost) {
                partition.gap = None; // it was assigned anew since, or sought
            }
            if partition.gap.is_some() {
                continue;
            }
            for id in &partition.uncommitted {
                let Some(part) = self.parts.get(*id).filter(|part| !is_lost(&part.payload)) else { break };
                let end = part.whole_frontier();
                if end > part.committed {
                    let (payload, begin) = (part.payload.clone(), part.committed);
                    round.push(RoundPart { part: *id, payload, partition: partition.name.clone(), begin, end });
                }
                if end < part.total() {
                    break;
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
                self.uncommitted -= end - part.committed;
                part.commit(*end);
                part.reported = *end;
                reports.push(report(part, *end, false));
            }
        }
        reports
    }

    /// True if the partition of a part with uncommitted rows is lost.
    pub fn has_lost(&self, is_lost: impl Fn(&P) -> bool) -> bool {
        let mut parts = self.partitions.iter().flat_map(|partition| &partition.uncommitted);
        parts.any(|id| self.parts.get(*id).is_some_and(|part| is_lost(&part.payload)))
    }

    /// The last reports of parts of which nothing more will be committed, in a run with transactions.
    pub fn settled_rounds(&mut self, is_lost: impl Fn(&P) -> bool) -> Vec<Report<P>> {
        let mut reports = Vec::new();
        for index in 0..self.partitions.len() {
            let partition = &mut self.partitions[index];
            if partition.gap.as_ref().is_some_and(&is_lost) {
                partition.gap = None;
            }
            while let Some(id) = self.partitions[index].uncommitted.front().copied() {
                let has_gap = self.partitions[index].gap.is_some();
                let Some(part) = self.parts.get(id) else { break };
                let lost = is_lost(&part.payload);
                let is_over = part.is_settled() && (has_gap || part.committed == part.whole_frontier());
                if !lost && !is_over {
                    break;
                }
                if !lost && part.committed < part.total() {
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

    fn last_report(&mut self, id: Id) -> Option<Report<P>> {
        let part = self.parts.get_mut(id)?;
        self.uncommitted -= part.uncommitted();
        part.is_over = true;
        let last = report(part, part.committed, true);
        self.remove_if_over(id);
        Some(last)
    }
}
