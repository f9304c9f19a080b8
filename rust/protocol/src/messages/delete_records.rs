//! DeleteRecords, API key 21, versions 0-2 (KIP-107).
//!
//! From 1 the answer comes before a throttled client is muted (KIP-219). 2 is flexible.

use crate::wire::api;

api! {
    DeleteRecords, versions 0..=2, flexible 2..;

    /// Moves the start of logs forward.
    request DeleteRecordsRequest<'a> {
        /// The topics.
        topics: Vec<DeleteRecordsTopic<'a>>, 0..;
        /// How long the broker may wait for the replicas.
        timeout_ms: i32, 0..;
    }

    /// Where the logs start now.
    response DeleteRecordsResponse<'a> {
        /// How long the client was throttled.
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

    /// A topic's outcome.
    struct DeleteRecordsTopicResult<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// Its partitions.
        partitions: Vec<DeleteRecordsPartitionResult<'a>>, 0..;
    }

    /// A partition's outcome.
    struct DeleteRecordsPartitionResult<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// Where the log starts on every living replica, or -1.
        low_watermark: i64, 0..;
        /// The error, or 0.
        error_code: i16, 0..;
    }
}
