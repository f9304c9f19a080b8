//! One partition's position and what it waits for.

use monedula_protocol::types::Uuid;

use crate::{Now, TopicPartition};

/// Where reading starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At an offset, with the leader epoch of the record before it (-1 unknown).
    Offset(i64, i32),
    /// At the smallest offset that the log holds.
    Earliest,
    /// At the end: only records still to come.
    Latest,
    /// At the first record whose timestamp is at least this, in ms; at the end if there is none.
    Timestamp(i64),
    /// Where `auto.offset.reset` says.
    Policy,
}

/// What to do where no position is known, or where the known one is beyond the log's end (`auto.offset.reset`).
/// A position that retention has passed by goes to the smallest retained offset under either of the first two: a policy
/// of `latest` must not skip records that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetPolicy {
    /// Go to the smallest offset.
    Earliest,
    /// Go to the end.
    #[default]
    Latest,
    /// Raise an error.
    Fail,
}

/// A partition's offset lookup, answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset asked for; for a position out of range, the log's end.
    pub offset: i64,
    /// Leader epoch of that offset, -1 unknown.
    pub leader_epoch: i32,
    /// The log's smallest offset, where the position was out of range.
    pub log_start: Option<i64>,
}

/// Where the log of an epoch ends (OffsetForLeaderEpoch); `None` where the broker knows no such epoch.
pub type EpochEnd = Option<i64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// An offset lookup is to be made, or under way.
    ListingOffset(Start),
    /// The position left the log; both its ends are looked up.
    OutOfRange,
    /// The leader changed; the position is checked against the new leader's epochs (KIP-320).
    Validating,
    /// The position is good.
    Fetching,
    /// Stopped by a [`super::Fault`].
    Failed,
}

#[derive(Clone, Debug)]
pub(super) struct PartitionState {
    pub(super) partition: TopicPartition,
    pub(super) span: u64,
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
    /// Node whose session holds this partition, or will with its next request.
    pub(super) home: Option<i32>,
    /// Leader for whose sake a lookup is under way.
    pub(super) lookup: Option<i32>,
    /// How many views in a row knew the topic but not this partition of it.
    pub(super) missing_answers: u32,
    /// How many answers did not know the topic before it was assigned or sought: they are old news.
    pub(super) unknown_before: u32,
    /// The answer that last brought records.
    pub(super) served: u64,
    /// Whoever assigned it takes it away once it is gone: until then, that it is missing is no error.
    pub(super) waits_for_topic: bool,
}

impl PartitionState {
    /// Whether everything before the end of a bounded read is fetched.
    pub(super) fn is_complete(&self) -> bool {
        self.end.is_some_and(|end| self.phase == Phase::Fetching && self.offset >= end)
    }

    /// Whether more is there than was fetched, or that is not known yet.
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
}
