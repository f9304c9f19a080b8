//! Sequence numbers of one partition (KIP-98, KIP-360).

use super::io::Identity;
use super::queue::{Entry, Queue};

/// What is known of the numbers given so far. They are counted on beyond `i32::MAX`, where those on the wire begin at 0 again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Whose they are.
    pub(super) identity: Option<Identity>,
    /// The next to be given.
    pub(super) next: i64,
    /// All before this one are in the log.
    pub(super) acknowledged: i64,
    /// A batch was given up that may be in the log: its end.
    pub(super) lost_until: Option<i64>,
    /// A batch was given up that is surely not in the log: its first number.
    pub(super) hole_at: Option<i64>,
}

/// How numbering goes on after something was given up or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    /// As it is.
    None,
    /// From this number, under the same identity.
    From(i64),
    /// From 0, under another identity.
    Anew,
}

impl Numbers {
    /// The number on the wire.
    pub(super) fn on_wire(sequence: i64) -> i32 {
        (sequence & i64::from(i32::MAX)) as i32
    }

    /// Whether something was given up, so that no number fits behind it.
    pub(super) fn is_broken(&self) -> bool {
        self.lost_until.is_some() || self.hole_at.is_some()
    }

    /// All before `end` is in the log.
    pub(super) fn acknowledge(&mut self, end: i64) {
        self.acknowledged = self.acknowledged.max(end);
        self.lost_until = self.lost_until.filter(|&lost| lost > self.acknowledged);
        self.hole_at = self.hole_at.filter(|&hole| hole >= self.acknowledged);
    }

    /// A batch with a number is given up.
    pub(super) fn give_up(&mut self, entry: &Entry) {
        let (Some(sequence), Some(end)) = (entry.sequence, entry.sequence_end()) else { return };
        if end <= self.acknowledged {
            return;
        }
        if entry.in_doubt {
            self.lost_until = Some(self.lost_until.map_or(end, |lost| lost.max(end)));
        } else {
            self.hole_at = Some(self.hole_at.map_or(sequence, |hole| hole.min(sequence)));
        }
    }
}

impl Queue {
    /// Gives an entry that is sent for the first time its number. What it is sent with.
    pub(super) fn number(&mut self, index: usize, identity: Identity) -> Option<(Identity, i32)> {
        let entry = self.entries.get_mut(index)?;
        let sequence = match entry.sequence {
            Some(sequence) => sequence,
            None => {
                if self.numbers.identity != Some(identity) {
                    self.numbers = Numbers { identity: Some(identity), ..Numbers::default() };
                    self.proven = false;
                }
                let sequence = self.numbers.next;
                entry.sequence = Some(sequence);
                self.numbers.next += i64::from(entry.batch.records);
                sequence
            }
        };
        Some((self.numbers.identity?, Numbers::on_wire(sequence)))
    }

    /// What the numbers need, once nothing is in flight and everything that has a number was refused as out of order.
    pub(super) fn repair(&self) -> Repair {
        let mut numbered = self.entries.iter().filter(|entry| entry.sequence.is_some());
        if self.in_flight > 0 || numbered.clone().any(|entry| !entry.out_of_order) {
            return Repair::None;
        }
        let refused = numbered.clone().next().is_some();
        if !refused && !self.numbers.is_broken() {
            return Repair::None;
        }
        match self.numbers.hole_at {
            // Every attempt at all of them was answered, so no request of before is still on its way.
            Some(hole) if self.numbers.lost_until.is_none() && !numbered.any(|entry| entry.in_doubt) => {
                Repair::From(hole)
            }
            _ => Repair::Anew,
        }
    }

    /// Takes all numbers back; what is sent next gets `next`, or 0 of another identity.
    pub(super) fn renumber(&mut self, next: Option<i64>) {
        for entry in &mut self.entries {
            // An attempt that was never answered may still get there, by its old number.
            (entry.sequence, entry.out_of_order) = (None, false);
        }
        self.numbers = match next {
            Some(next) => Numbers { next, lost_until: None, hole_at: None, ..self.numbers },
            None => Numbers::default(),
        };
    }

    /// Whether what stands before the entry is not the reason for its being out of order.
    pub(super) fn is_first_missing(&self, index: usize) -> bool {
        self.entries.iter().take(index).all(|entry| entry.out_of_order)
    }
}
