//! Consecutive offsets of a share partition that have the same state.

use std::sync::Arc;

use super::dead_letter::{DeadLetter, DeadLetterCause};
use super::limits::ShareLimits;

/// The state of a record for a share group, as the partition's leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordState {
    /// The record may be acquired.
    Available,
    /// A member has the record, until its lock is over.
    Acquired { member: Arc<str>, due_ms: i64 },
    /// A member accepted the record.
    Acknowledged,
    /// The record is not delivered again: it was rejected, delivered too often, or is not there.
    Archived,
}

impl RecordState {
    /// Kafka's number of a state that outlives the leader; `None` for an acquired record.
    pub(crate) fn code(&self) -> Option<i8> {
        match self {
            Self::Available => Some(0),
            Self::Acquired { .. } => None,
            Self::Acknowledged => Some(2),
            Self::Archived => Some(4),
        }
    }

    pub(crate) fn from_code(code: i8) -> Option<Self> {
        [Self::Available, Self::Acknowledged, Self::Archived].into_iter().find(|state| state.code() == Some(code))
    }

    /// True if the record is done with, so that the start offset may pass it.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Acknowledged | Self::Archived)
    }
}

/// Consecutive offsets with the same state. The first is the key in the share partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The last offset, inclusive.
    pub(super) last: i64,
    pub(super) state: RecordState,
    pub(super) delivery_count: i16,
    /// First and last offset of the records that were acquired together at first. Throttled delivery is by these, and
    /// runs of different ones are not joined.
    pub(super) batch: (i64, i64),
}

impl Run {
    /// True if the two are one run, where `next` follows.
    pub(super) fn continues_in(&self, next: &Self) -> bool {
        self.batch == next.batch && self.state == next.state && self.delivery_count == next.delivery_count
    }

    /// Why a member may not acknowledge these records; `None` if it may.
    pub(super) fn refusal_to(&self, member: &str) -> Option<&'static str> {
        match &self.state {
            RecordState::Acquired { member: by, .. } if **by == *member => None,
            RecordState::Acquired { .. } => Some("The member is not the one that has acquired the records."),
            _ => Some("The records are not acquired."),
        }
    }

    /// Makes the records available again, or archives them after their last delivery.
    pub(super) fn release(&mut self, first: i64, limits: ShareLimits, dead: &mut Vec<DeadLetter>) {
        match self.delivery_count >= limits.delivery_count {
            true => self.archive(first, DeadLetterCause::DeliveredTooOften, dead),
            false => self.state = RecordState::Available,
        }
    }

    /// Archives the records as dead letters.
    pub(super) fn archive(&mut self, first: i64, cause: DeadLetterCause, dead: &mut Vec<DeadLetter>) {
        self.state = RecordState::Archived;
        dead.push(DeadLetter { first, last: self.last, delivery_count: self.delivery_count, cause });
    }
}
