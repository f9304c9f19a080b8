//! The state of one assigned partition: its position, and what that waits for.

use std::time::Duration;

use monedula_protocol::types::Uuid;

use super::io::Start;
use super::session::SessionPartition;
use crate::{Now, TopicPartition};

/// The phase of a partition on the way to being fetched; see docs/design/fetching.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The position is not known: ListOffsets is to be sent, or in flight.
    ListingOffset(Start),
    /// The log does not hold the position: ListOffsets of both its ends is to be sent, or in flight.
    OutOfRange,
    /// The log ends before the position: ListOffsets of where the policy moves it is to be sent, or in flight.
    Moving(Start),
    /// The leader changed: the position is checked against the new leader's epochs (OffsetForLeaderEpoch, KIP-320).
    Validating,
    /// The position is good.
    Fetching,
    /// Stopped by a [`super::Fault`].
    Failed,
}

#[derive(Clone, Debug)]
pub(super) struct PartitionState {
    pub(super) partition: TopicPartition,
    pub(super) reading_id: u64,
    pub(super) phase: Phase,
    pub(super) paused: bool,
    /// Next offset to fetch, and the epoch of the record before it.
    pub(super) offset: i64,
    pub(super) offset_epoch: i32,
    /// Exclusive end of a bounded read: nothing from there on is asked for.
    pub(super) end: Option<i64>,
    /// The offset after the last record that the log had when it was last fetched from; `None` before the first answer.
    pub(super) high_watermark: Option<i64>,
    /// Id of the topic that the offset belongs to, once seen.
    pub(super) topic_id: Uuid,
    pub(super) leader: Option<i32>,
    pub(super) leader_epoch: i32,
    /// Replica to fetch from instead of the leader (KIP-392), and until when.
    pub(super) preferred: Option<(i32, Now)>,
    pub(super) max_bytes: i32,
    pub(super) attempts: u32,
    pub(super) retry_at: Now,
    /// Node whose fetch session holds this partition, or will with its next request.
    pub(super) fetched_from: Option<i32>,
    /// The leader that a lookup in flight was sent to.
    pub(super) lookup_at: Option<i32>,
    /// Since when metadata updates have had the topic but not this partition of it.
    pub(super) missing_since: Option<Now>,
    /// The time for which metadata answers had not known the topic when it was assigned or sought: these may be older
    /// than the topic, and do not count.
    pub(super) unknown_before: Duration,
    /// Number of the fetch answer that last brought records.
    pub(super) served: u64,
    /// The group revokes the partition once its topic is gone: until then, that it is missing is no fault.
    pub(super) waits_for_topic: bool,
}

impl PartitionState {
    /// Tells whether everything before the end of a bounded read is fetched.
    pub(super) fn is_complete(&self) -> bool {
        self.end.is_some_and(|end| self.phase == Phase::Fetching && self.offset >= end)
    }

    /// Tells whether the log holds more than was fetched, or its end is not known yet.
    pub(super) fn is_behind(&self) -> bool {
        self.high_watermark.is_none_or(|end| self.offset < end)
    }

    /// The node to fetch from now, if any.
    pub(super) fn fetchable_at(&self, now: Now) -> Option<i32> {
        if self.phase != Phase::Fetching || self.paused || self.retry_at > now || self.is_complete() {
            return None;
        }
        match self.preferred {
            Some((node, until)) if until > now => Some(node),
            _ => self.leader,
        }
    }
    /// The entry of a fetch request for it.
    pub(super) fn to_send(&self) -> SessionPartition {
        SessionPartition {
            reading_id: self.reading_id,
            topic_id: self.topic_id,
            offset: self.offset,
            leader_epoch: self.leader_epoch,
            offset_epoch: self.offset_epoch,
            max_bytes: self.max_bytes,
        }
    }
}
