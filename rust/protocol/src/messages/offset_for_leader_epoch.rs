//! OffsetForLeaderEpoch, API key 23, versions 2-4 (Kafka 4.0 removed 0 and 1).
//!
//! Version 3 adds the replica id. 4 is flexible.

use crate::wire::api;

api! {
    OffsetForLeaderEpoch, versions 2..=4, flexible 4..;

    /// Looks up the end offsets of leader epochs (KIP-320).
    request OffsetForLeaderEpochRequest<'a> {
        /// The id of the follower; -1 for a client, -2 for a client that may read beyond the high watermark.
        replica_id: i32 = -2, 3.., ignorable;
        topics: Vec<OffsetForLeaderTopic<'a>>, 0..;
    }

    /// The end offset of each epoch.
    response OffsetForLeaderEpochResponse<'a> {
        throttle_time_ms: i32, 2.., ignorable;
        topics: Vec<OffsetForLeaderTopicResult<'a>>, 0..;
    }

    /// A topic of the request.
    struct OffsetForLeaderTopic<'a> {
        topic: &'a str, 0..;
        partitions: Vec<OffsetForLeaderPartition<'a>>, 0..;
    }

    /// A partition of the request.
    struct OffsetForLeaderPartition<'a> {
        /// The partition's index.
        partition: i32, 0..;
        /// The leader epoch that the client knows, or -1.
        current_leader_epoch: i32 = -1, 2.., ignorable;
        /// The leader epoch to look up.
        leader_epoch: i32, 0..;
    }

    /// The end offsets for one topic.
    struct OffsetForLeaderTopicResult<'a> {
        topic: &'a str, 0..;
        partitions: Vec<EpochEndOffset<'a>>, 0..;
    }

    /// The end offset of a partition's epoch.
    struct EpochEndOffset<'a> {
        /// The partition's error, or 0.
        error_code: i16, 0..;
        /// The partition's index.
        partition: i32, 0..;
        /// The largest epoch that is not above the requested one, or -1.
        leader_epoch: i32 = -1, 1.., ignorable;
        /// The end offset of the epoch, or -1.
        end_offset: i64 = -1, 0..;
    }
}
