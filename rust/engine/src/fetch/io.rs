//! Inputs and outputs of the machine.

use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::fetch::FetchResponse;
use monedula_protocol::types::Uuid;

use super::SessionPartition;
use super::fault::Fault;
use crate::TopicPartition;
use crate::cluster::Cluster;

/// The start of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// An offset, with the leader epoch of the record before it (-1 unknown).
    Offset(i64, i32),
    /// The smallest offset that the log holds.
    Earliest,
    /// End of the log: only records still to come.
    Latest,
    /// The first record whose timestamp is at least this, in ms; the end of the log if there is none.
    Timestamp(i64),
    /// The first record that is at most so old when its offset is asked for; the end of the log if there is none.
    Ago(Duration),
    /// The offset that `auto.offset.reset` names.
    Policy,
}

/// The answer to [`Output::ListOffset`] or [`Output::ListLogRange`] for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListOffsetsAnswer {
    /// The offset asked for; for [`Output::ListLogRange`], the log's end.
    pub offset: i64,
    /// Leader epoch of that offset, -1 unknown.
    pub leader_epoch: i32,
    /// The log's smallest offset, for [`Output::ListLogRange`].
    pub log_start: Option<i64>,
}

/// The end of the log of an epoch (OffsetForLeaderEpoch); `None` where the broker knows no such epoch.
pub type EpochEnd = Option<i64>;

/// An event, an answer, or a wish of the user.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Nothing but time has passed.
    Tick,
    /// Newer metadata: leaders, epochs and topic ids changed, or topics vanished.
    MetadataUpdate {
        /// The cluster view, with that metadata merged.
        cluster: &'a Cluster,
    },
    /// Read this partition, in place of an earlier assignment of it.
    Assign {
        /// Partition.
        partition: &'a TopicPartition,
        /// The id of the reading.
        reading_id: u64,
        /// The start of reading.
        start: Start,
        /// Exclusive end of a bounded read. Nothing from there on is asked for; whole batches may reach beyond it.
        end: Option<i64>,
        /// Set if the partition waits for its topic where that is missing or recreated, instead of stopping: a member's
        /// group revokes it in the next rebalance, unless the topic is back.
        waits_for_topic: bool,
        /// The cluster view. What it lacks or refuses does not count against the partition, since it may be older than
        /// the topic.
        cluster: &'a Cluster,
    },
    /// Read this partition no more.
    Unassign {
        /// Partition.
        partition: &'a TopicPartition,
    },
    /// Read on elsewhere. A partition that stopped is read again, a recreated topic is accepted.
    Seek {
        /// Partition.
        partition: &'a TopicPartition,
        /// The id of the new reading.
        reading_id: u64,
        /// The position from which reading goes on.
        start: Start,
        /// The cluster view; as for [`Self::Assign`].
        cluster: &'a Cluster,
    },
    /// Pause or resume fetching. What was fetched stays with the driver.
    Pause {
        /// Partition.
        partition: &'a TopicPartition,
        /// Set to pause, clear to go on.
        paused: bool,
    },
    /// The driver dropped what it had of a partition from `offset` on, and with it any fault that stood behind it: both
    /// are to be fetched again.
    Rewind {
        /// Partition.
        partition: &'a TopicPartition,
        /// The id of the reading of which something was dropped.
        reading_id: u64,
        /// Offset of the first record that was dropped.
        offset: i64,
    },
    /// The records at `offset` cannot be decoded; the partition stops there.
    Unreadable {
        /// Partition.
        partition: &'a TopicPartition,
        /// The id of the reading of the records.
        reading_id: u64,
        /// The offset at which decoding failed.
        offset: i64,
    },
    /// The answer to a [`FetchPlan`]. [`Output::Fetched`] refers to it: keep it until the outputs are drained.
    FetchAnswer {
        /// The node that answered.
        node: i32,
        /// The answer.
        answer: &'a FetchResponse<'a>,
    },
    /// No answer to a [`FetchPlan`] will come: the connection is lost, the request timed out, or the answer cannot be
    /// read.
    FetchFailed {
        /// The node that was asked.
        node: i32,
    },
    /// The answer to [`Output::ListOffset`] or [`Output::ListLogRange`].
    ListedOffset {
        /// Partition.
        partition: &'a TopicPartition,
        /// The id of the reading of the output.
        reading_id: u64,
        /// `None` where no record is as young as the timestamp asked for; the broker's error.
        answer: Result<Option<ListOffsetsAnswer>, ErrorCode>,
    },
    /// The answer to [`Output::OffsetForLeaderEpoch`].
    EpochEnd {
        /// Partition.
        partition: &'a TopicPartition,
        /// The id of the reading of the output.
        reading_id: u64,
        /// The end of the epoch, or the broker's error.
        answer: Result<EpochEnd, ErrorCode>,
    },
}

/// A task of the driver, or news that it passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Find the offset of `start` (ListOffsets, one attempt); answer with [`Input::ListedOffset`].
    ListOffset {
        /// Partition.
        partition: TopicPartition,
        /// The id of the reading, to echo.
        reading_id: u64,
        /// The position to find; never an offset.
        start: Start,
    },
    /// Find both ends of the log (ListOffsets, twice); answer with [`Input::ListedOffset`], `log_start` set.
    ListLogRange {
        /// Partition.
        partition: TopicPartition,
        /// The id of the reading, to echo.
        reading_id: u64,
    },
    /// Ask the leader where `offset_epoch` ends (one attempt); answer with [`Input::EpochEnd`].
    OffsetForLeaderEpoch {
        /// Partition.
        partition: TopicPartition,
        /// The id of the reading, to echo.
        reading_id: u64,
        /// Epoch of the leader to be asked.
        leader_epoch: i32,
        /// Epoch of the record before the position.
        offset_epoch: i32,
    },
    /// Fetch metadata of all topics of interest, soon.
    RefreshMetadata,
    /// A broker named a newer leader (KIP-951): merge it into the cluster view, and give that as
    /// [`Input::MetadataUpdate`].
    LeaderHint {
        /// Partition.
        partition: TopicPartition,
        /// Node id of the new leader.
        leader: i32,
        /// The epoch.
        leader_epoch: i32,
    },
    /// Reading goes on at `offset`.
    Positioned {
        /// Partition.
        partition: TopicPartition,
        /// The id of the reading.
        reading_id: u64,
        /// Offset of the next record.
        offset: i64,
        /// The position before, if the log no longer holds it.
        moved_from: Option<i64>,
    },
    /// Records that were fetched; they follow what was fetched of this partition before.
    Fetched(Fetched),
    /// The partition stopped, behind all that was fetched of it.
    Stopped {
        /// The id of the reading.
        reading_id: u64,
        /// The fault.
        fault: Fault,
    },
}

/// An aborted transaction that the fetched records may hold parts of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted {
    /// The producer.
    pub producer_id: i64,
    /// The first offset.
    pub first_offset: i64,
}

/// The part of an answer for one partition. The records themselves stay in the answer; see [`Self::records`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Partition.
    pub partition: TopicPartition,
    /// The id of the reading that asked.
    pub reading_id: u64,
    /// The partition's place in the answer: index of its topic, then its own.
    pub place: (usize, usize),
    /// Bytes of the whole record batches, from the first one on.
    pub record_bytes: usize,
    /// The number of records that the batches claim to hold, including those before the position.
    pub record_count: u64,
    /// Offset from which the partition is fetched next.
    pub next_offset: i64,
    /// The aborted transactions, for read_committed.
    pub aborted: Vec<Aborted>,
    /// Offset after the last replicated record.
    pub high_watermark: i64,
    /// Offset after the last record that read_committed may see, -1 unknown.
    pub last_stable_offset: i64,
    /// Smallest offset of the log, -1 unknown.
    pub log_start_offset: i64,
}

impl Fetched {
    /// The whole record batches in `answer`, which is that of the [`Input::FetchAnswer`]. They may begin before the
    /// position (compression), and there may be none.
    pub fn records<'a>(&self, answer: &FetchResponse<'a>) -> &'a [u8] {
        let (topic, partition) = self.place;
        let data = answer.responses.get(topic).and_then(|topic| topic.partitions.get(partition));
        let records = data.and_then(|data| data.records).unwrap_or_default();
        records.get(..self.record_bytes).unwrap_or_default()
    }
}

/// A fetch request to be sent to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPlan {
    /// Session id (KIP-227).
    pub session_id: i32,
    /// Session epoch.
    pub session_epoch: i32,
    /// Partitions to add or change, with their topic ids.
    pub partitions: Vec<(TopicPartition, Uuid, SessionPartition)>,
    /// Partitions that the broker may forget.
    pub forget: Vec<(TopicPartition, Uuid)>,
    /// Set if every topic id is known, so that version 13 or newer can be spoken.
    pub by_topic_id: bool,
}
