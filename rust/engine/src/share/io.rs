//! What goes into [`ShareSessions`](super::ShareSessions) and comes out of it.

use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::acknowledgement::{Acknowledgement, AcknowledgementBatch};
use super::error::AcknowledgeError;
use crate::backoff::Backoff;
use crate::{Now, TopicPartition};

/// The settings of sessions.
#[derive(Clone, Copy, Debug)]
pub struct ShareSettings {
    /// `fetch.max.wait.ms`.
    pub max_wait: Duration,
    /// `max.poll.records`: the most records of one fetch, and the wished size of ranges.
    pub max_records: i32,
    /// `share.acquire.mode=record_limit`: never more than `max_records`, so that one leader is asked at a time.
    pub is_strict: bool,
    /// `retry.backoff.ms` and `retry.backoff.max.ms`.
    pub backoff: Backoff,
}

/// A session with a broker: records acquired in one session cannot be acknowledged in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId {
    /// The broker.
    pub node: i32,
    /// The number of the session with this broker.
    pub generation: u64,
}

/// A partition in a request, with its acknowledgements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPartition {
    /// The id of the topic.
    pub topic_id: Uuid,
    /// The index.
    pub partition: i32,
    /// In the order of the offsets; empty for a partition that only joins the session.
    pub batches: Vec<AcknowledgementBatch>,
}

/// A ShareFetch to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareFetchPlan {
    /// The epoch of the session.
    pub session_epoch: i32,
    /// The longest wait for records.
    pub max_wait: Duration,
    /// The most records.
    pub max_records: i32,
    /// Whether `max_records` is strict.
    pub is_strict: bool,
    /// The partitions to add, and those with acknowledgements.
    pub partitions: Vec<PlannedPartition>,
    /// The partitions to remove.
    pub forgotten: Vec<(Uuid, i32)>,
}

/// A ShareAcknowledge to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcknowledgePlan {
    /// The epoch of the session; -1 closes it.
    pub session_epoch: i32,
    /// Whether it renews locks; it has no other acknowledgements then.
    pub is_renewal: bool,
    /// The partitions.
    pub partitions: Vec<PlannedPartition>,
}

/// Offsets that were acquired, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// The first offset.
    pub first: i64,
    /// The last offset.
    pub last: i64,
    /// How often they were delivered, this time included.
    pub delivery_count: i16,
}

impl Acquired {
    /// Whether it has some of the offsets from `first` to `last`, ends included.
    pub fn overlaps(&self, first: i64, last: i64) -> bool {
        self.first <= last && first <= self.last
    }
}

/// A partition in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPartition {
    /// The id of the topic.
    pub topic_id: Uuid,
    /// The index.
    pub partition: i32,
    /// The error of the fetch; of a ShareAcknowledge, that of the acknowledgements.
    pub code: ErrorCode,
    /// The error of acknowledgements in a ShareFetch.
    pub acknowledge_code: ErrorCode,
    /// The leader and its epoch, as the answer names them; -1 for none.
    pub leader: (i32, i32),
    /// What was acquired.
    pub acquired: Vec<Acquired>,
}

/// The answer to a ShareFetch or a ShareAcknowledge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareAnswer {
    /// The error of the request.
    pub code: ErrorCode,
    /// How long the records are locked that were acquired or renewed.
    pub lock_timeout: Duration,
    /// By partition.
    pub partitions: Vec<FetchedPartition>,
}

impl ShareAnswer {
    /// The number of offsets that were acquired.
    pub fn records(&self) -> u64 {
        let acquired = self.partitions.iter().flat_map(|partition| &partition.acquired);
        acquired.map(|acquired| (acquired.last - acquired.first + 1).unsigned_abs()).sum()
    }
}

/// A task of the driver. The order of the outputs matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShareOutput {
    /// Records were acquired. Of rows from before with the same offsets the locks have ended: tell
    /// [`HeldRows::acquired_again`](super::HeldRows::acquired_again), and hand out none of them.
    Acquired {
        /// In this session.
        session: SessionId,
        /// The partition.
        partition: TopicPartition,
        /// The id of its topic.
        topic_id: Uuid,
        /// The place of the partition in the answer, which has the bytes.
        index: usize,
        /// The offsets.
        acquired: Vec<Acquired>,
        /// When the locks end, counted from when the request was sent: never too late.
        deadline: Now,
        /// How long a lock lasts.
        lock_timeout: Duration,
    },
    /// The outcome of an acknowledgement. Each has exactly one.
    Acknowledged {
        /// The acknowledgement.
        acknowledgement: Acknowledgement,
        /// Of a renewal: when the locks end now; otherwise meaningless.
        outcome: Result<Now, AcknowledgeError>,
    },
    /// The records of this session, or of its partition, are locked no more: hand out none of them.
    LocksLost {
        /// The session.
        session: SessionId,
        /// The partition; `None` for all.
        partition: Option<TopicPartition>,
    },
    /// Get metadata.
    RefreshMetadata,
    /// An answer names a newer leader.
    LeaderHint {
        /// The partition.
        partition: TopicPartition,
        /// The leader.
        leader: i32,
        /// Its epoch.
        leader_epoch: i32,
    },
    /// Reading the partition is refused: report it to the user. Reported once until it succeeds.
    Denied {
        /// The partition; `None` if it is the group that is refused.
        partition: Option<TopicPartition>,
        /// The error code.
        code: ErrorCode,
    },
    /// A request failed and is sent again; for the log and the counters.
    Retried {
        /// The broker.
        node: i32,
        /// The partition, if it is about one.
        partition: Option<TopicPartition>,
        /// The error code.
        code: ErrorCode,
    },
    /// All sessions are closed.
    Closed,
}
