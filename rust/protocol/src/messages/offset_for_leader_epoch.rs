//! OffsetForLeaderEpoch, API key 23, versions 2-4 (Kafka 4.0 removed 0 and 1).
//!
//! 3 adds the replica id. 4 is flexible.

use crate::wire::api;

api! {
    OffsetForLeaderEpoch, versions 2..=4, flexible 4..;

    /// Asks where leader epochs end (KIP-320).
    request OffsetForLeaderEpochRequest<'a> {
        /// The follower that asks; -1 for a client, -2 for one that may see beyond the high watermark.
        replica_id: i32 = -2, 3.., ignorable;
        /// The topics.
        topics: Vec<OffsetForLeaderTopic<'a>>, 0..;
    }

    /// Where they end.
    response OffsetForLeaderEpochResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 2.., ignorable;
        /// The topics.
        topics: Vec<OffsetForLeaderTopicResult<'a>>, 0..;
    }

    /// A topic that is asked about.
    struct OffsetForLeaderTopic<'a> {
        /// Its name.
        topic: &'a str, 0..;
        /// Its partitions.
        partitions: Vec<OffsetForLeaderPartition<'a>>, 0..;
    }

    /// A partition that is asked about.
    struct OffsetForLeaderPartition<'a> {
        /// Its index.
        partition: i32, 0..;
        /// The leader epoch that the client knows, or -1.
        current_leader_epoch: i32 = -1, 2.., ignorable;
        /// The epoch of which the end is asked.
        leader_epoch: i32, 0..;
    }

    /// A topic's epochs.
    struct OffsetForLeaderTopicResult<'a> {
        /// Its name.
        topic: &'a str, 0..;
        /// Its partitions.
        partitions: Vec<EpochEndOffset<'a>>, 0..;
    }

    /// Where a partition's epoch ends.
    struct EpochEndOffset<'a> {
        /// The partition's error, or 0.
        error_code: i16, 0..;
        /// Its index.
        partition: i32, 0..;
        /// The largest epoch not above the one asked about, or -1.
        leader_epoch: i32 = -1, 1.., ignorable;
        /// Its end, or -1.
        end_offset: i64 = -1, 0..;
    }
}
