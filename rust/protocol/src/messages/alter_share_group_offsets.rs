//! AlterShareGroupOffsets, API key 91, version 0, flexible (KIP-932).

use crate::types::Uuid;
use crate::wire::api;

api! {
    AlterShareGroupOffsets, versions 0..=0, flexible 0..;

    /// Sets the start offsets of a share group without members.
    request AlterShareGroupOffsetsRequest<'a> {
        group_id: &'a str, 0..;
        topics: Vec<AlterShareGroupOffsetsRequestTopic<'a>>, 0..;
    }

    /// The outcome for each partition.
    response AlterShareGroupOffsetsResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str> = None, 0.., nullable 0..;
        responses: Vec<AlterShareGroupOffsetsResponseTopic<'a>>, 0..;
    }

    /// A topic of the request.
    struct AlterShareGroupOffsetsRequestTopic<'a> {
        topic_name: &'a str, 0..;
        partitions: Vec<AlterShareGroupOffsetsRequestPartition<'a>>, 0..;
    }

    /// A partition of the request.
    struct AlterShareGroupOffsetsRequestPartition<'a> {
        partition_index: i32, 0..;
        start_offset: i64, 0..;
    }

    /// A topic's outcome.
    struct AlterShareGroupOffsetsResponseTopic<'a> {
        topic_name: &'a str, 0..;
        topic_id: Uuid, 0..;
        partitions: Vec<AlterShareGroupOffsetsResponsePartition<'a>>, 0..;
    }

    /// A partition's outcome.
    struct AlterShareGroupOffsetsResponsePartition<'a> {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str> = None, 0.., nullable 0..;
    }
}
