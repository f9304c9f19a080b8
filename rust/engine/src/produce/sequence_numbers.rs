//! Sequence numbers of one partition's batches (KIP-98), and how numbering goes on after a batch failed (KIP-360).

use super::io::ProducerIdentity;
use super::partition_queue::{PartitionQueue, QueuedBatch};

/// The sequence numbers assigned so far. They count on beyond `i32::MAX`, where those on the wire restart at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SequenceNumbers {
    /// The producer id and epoch that they belong to.
    pub(super) identity: Option<ProducerIdentity>,
    /// The next one to assign.
    pub(super) next: i64,
    /// All records before this number are in the log.
    pub(super) acknowledged: i64,
    /// A batch failed whose outcome is unknown: the number after its last record.
    pub(super) unknown_until: Option<i64>,
    /// A batch failed that is certainly not in the log: its first number.
    pub(super) gap_at: Option<i64>,
}

/// The continuation of the numbers after batches failed, or were refused as out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renumbering {
    /// As before.
    None,
    /// From this number, under the same producer id and epoch.
    From(i64),
    /// From 0, under a new producer id or epoch.
    NewEpoch,
}

impl SequenceNumbers {
    pub(super) fn on_wire(sequence: i64) -> i32 {
        (sequence & i64::from(i32::MAX)) as i32
    }

    /// Tells whether a batch failed, so that the broker takes no number behind it.
    pub(super) fn has_gap(&self) -> bool {
        self.unknown_until.is_some() || self.gap_at.is_some()
    }

    /// All records before `end` are in the log.
    pub(super) fn acknowledge(&mut self, end: i64) {
        self.acknowledged = self.acknowledged.max(end);
        self.unknown_until = self.unknown_until.filter(|&unknown| unknown > self.acknowledged);
        self.gap_at = self.gap_at.filter(|&gap| gap >= self.acknowledged);
    }

    /// A batch leaves its queue. If it has numbers that are not acknowledged, they become a gap.
    pub(super) fn removed(&mut self, batch: &QueuedBatch) {
        let (Some(sequence), Some(end)) = (batch.sequence, batch.sequence_end()) else { return };
        if end <= self.acknowledged {
            return;
        }
        if batch.outcome_unknown {
            self.unknown_until = Some(self.unknown_until.map_or(end, |unknown| unknown.max(end)));
        } else {
            self.gap_at = Some(self.gap_at.map_or(sequence, |gap| gap.min(sequence)));
        }
    }
}

impl PartitionQueue {
    /// The identity and sequence number with which a batch is sent. Assigned when it is sent first.
    pub(super) fn assign_sequence(
        &mut self,
        index: usize,
        identity: ProducerIdentity,
    ) -> Option<(ProducerIdentity, i32)> {
        let batch = self.batches.get_mut(index)?;
        let sequence = match batch.sequence {
            Some(sequence) => sequence,
            None => {
                if self.numbers.identity != Some(identity) {
                    self.numbers = SequenceNumbers { identity: Some(identity), ..SequenceNumbers::default() };
                    self.known_to_leader = false;
                }
                let sequence = self.numbers.next;
                batch.sequence = Some(sequence);
                self.numbers.next += i64::from(batch.batch.records);
                sequence
            }
        };
        Some((self.numbers.identity?, SequenceNumbers::on_wire(sequence)))
    }

    /// The continuation that is needed now. Not [`Renumbering::None`] only once nothing is in flight and every batch
    /// that has a number was refused as out of order.
    pub(super) fn renumbering(&self) -> Renumbering {
        let mut numbered = self.batches.iter().filter(|batch| batch.sequence.is_some());
        if self.in_flight > 0 || numbered.clone().any(|batch| !batch.out_of_order) {
            return Renumbering::None;
        }
        let any_refused = numbered.clone().next().is_some();
        if !any_refused && !self.numbers.has_gap() {
            return Renumbering::None;
        }
        match self.numbers.gap_at {
            // Every attempt at every batch was answered, so no earlier request can still reach the broker.
            Some(gap) if self.numbers.unknown_until.is_none() && !numbered.any(|batch| batch.outcome_unknown) => {
                Renumbering::From(gap)
            }
            _ => Renumbering::NewEpoch,
        }
    }

    /// Takes all sequence numbers back. The batch sent next gets `next`, or 0 under another identity.
    pub(super) fn renumber(&mut self, next: Option<i64>) {
        for batch in &mut self.batches {
            // `outcome_unknown` stays: a request that was never answered may still arrive, with the old number.
            (batch.sequence, batch.out_of_order) = (None, false);
        }
        self.numbers = match next {
            Some(next) => SequenceNumbers { next, unknown_until: None, gap_at: None, ..self.numbers },
            None => SequenceNumbers::default(),
        };
    }

    /// Tells whether every batch before this one was refused as out of order too, so that none of them explains its
    /// refusal.
    pub(super) fn is_first_missing(&self, index: usize) -> bool {
        self.batches.iter().take(index).all(|batch| batch.out_of_order)
    }
}
