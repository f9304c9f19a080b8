//! DeleteRecords, API key 21, versions 0-2 (KIP-107).
//!
//! From version 1 on, the broker responds before it throttles the client (KIP-219). 2 is flexible.

use crate::wire::api;

api! {
    DeleteRecords, versions 0..=2, flexible 2..;

    /// Deletes records by moving the log start offset forward.
    request DeleteRecordsRequest<'a> {
        /// The topics.
        topics: Vec<DeleteRecordsTopic<'a>>, 0..;
        /// How long the broker may wait for the replicas, in milliseconds.
        timeout_ms: i32, 0..;
    }

    /// The new log start offsets.
    response DeleteRecordsResponse<'a> {
        /// The throttle time in milliseconds.
        throttle_time_ms: i32, 0..;
        /// The topics.
        topics: Vec<DeleteRecordsTopicResult<'a>>, 0..;
    }

    /// A topic to delete records of.
    struct DeleteRecordsTopic<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// Its partitions.
        partitions: Vec<DeleteRecordsPartition<'a>>, 0..;
    }

    /// A partition to delete records of.
    struct DeleteRecordsPartition<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// The first offset to keep; -1 for the high watermark.
        offset: i64, 0..;
    }

    /// The result for one topic.
    struct DeleteRecordsTopicResult<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// Its partitions.
        partitions: Vec<DeleteRecordsPartitionResult<'a>>, 0..;
    }

    /// The result for one partition.
    struct DeleteRecordsPartitionResult<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// The low watermark: the lowest log start offset of all live replicas; or -1.
        low_watermark: i64, 0..;
        /// The error, or 0.
        error_code: i16, 0..;
    }
}
