//! DeleteRecords, API key 21, versions 0-2 (KIP-107).
//!
//! Version 1 makes the broker respond before it throttles the client (KIP-219). 2 is flexible.

use crate::wire::api;

api! {
    DeleteRecords, versions 0..=2, flexible 2..;

    /// Deletes records by moving the log start offset forward.
    request DeleteRecordsRequest<'a> {
        topics: Vec<DeleteRecordsTopic<'a>>, 0..;
        /// The longest time that the broker waits for the replicas, in milliseconds.
        timeout_ms: i32, 0..;
    }

    /// The new log start offsets.
    response DeleteRecordsResponse<'a> {
        throttle_time_ms: i32, 0..;
        topics: Vec<DeleteRecordsTopicResult<'a>>, 0..;
    }

    /// A topic to delete records of.
    struct DeleteRecordsTopic<'a> {
        name: &'a str, 0..;
        partitions: Vec<DeleteRecordsPartition<'a>>, 0..;
    }

    /// A partition to delete records of.
    struct DeleteRecordsPartition<'a> {
        partition_index: i32, 0..;
        /// The first offset to keep; -1 for the high watermark.
        offset: i64, 0..;
    }

    /// The result for one topic.
    struct DeleteRecordsTopicResult<'a> {
        name: &'a str, 0..;
        partitions: Vec<DeleteRecordsPartitionResult<'a>>, 0..;
    }

    /// The result for one partition.
    struct DeleteRecordsPartitionResult<'a> {
        partition_index: i32, 0..;
        /// The low watermark: the lowest log start offset of all live replicas; or -1.
        low_watermark: i64, 0..;
        error_code: i16, 0..;
    }
}
