//! ListOffsets, API key 2, versions 1-11 (Kafka 4.0 removed 0).
//!
//! Version 2 adds isolation and the throttle time, 4 leader epochs, 10 a timeout (KIP-1075). 6 is flexible. Special
//! timestamps: -1 latest, -2 earliest, -3 highest timestamp (from 7, KIP-734), -4 earliest local (from 8, KIP-405), -5
//! last tiered (from 9, KIP-1005), -6 earliest pending upload (from 11, KIP-1023).

use crate::wire::api;

api! {
    ListOffsets, versions 1..=11, flexible 6..;

    /// Looks up offsets by timestamp.
    request ListOffsetsRequest<'a> {
        /// The id of the broker that sends the request; -1 for a client.
        replica_id: i32, 0..;
        /// The isolation level: 0 read_uncommitted, 1 read_committed.
        isolation_level: i8, 2..;
        topics: Vec<ListOffsetsTopic<'a>>, 0..;
        /// The longest time that the broker waits for remote storage, in milliseconds.
        timeout_ms: i32, 10.., ignorable;
    }

    /// The offsets.
    response ListOffsetsResponse<'a> {
        throttle_time_ms: i32, 2.., ignorable;
        topics: Vec<ListOffsetsTopicResponse<'a>>, 0..;
    }

    /// A topic of the request.
    struct ListOffsetsTopic<'a> {
        name: &'a str, 0..;
        partitions: Vec<ListOffsetsPartition<'a>>, 0..;
    }

    /// A partition of the request.
    struct ListOffsetsPartition<'a> {
        partition_index: i32, 0..;
        /// The leader epoch that the client knows, or -1.
        current_leader_epoch: i32 = -1, 4.., ignorable;
        /// Milliseconds since the epoch, or one of the special values.
        timestamp: i64, 0..;
    }

    /// A topic's offsets.
    struct ListOffsetsTopicResponse<'a> {
        name: &'a str, 0..;
        partitions: Vec<ListOffsetsPartitionResponse<'a>>, 0..;
    }

    /// A partition's offset.
    struct ListOffsetsPartitionResponse<'a> {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        /// The timestamp of the record found, or -1.
        timestamp: i64 = -1, 1..;
        /// The offset found, or -1.
        offset: i64 = -1, 1..;
        /// The leader epoch of the record found, or -1.
        leader_epoch: i32 = -1, 4..;
    }
}
