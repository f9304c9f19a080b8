//! OffsetDelete, API key 47, version 0 (KIP-496).
//!
//! Version 0 is not flexible. Unlike in most responses, the error code precedes the throttle time.

use crate::wire::api;

api! {
    OffsetDelete, versions 0..=0;

    /// Deletes a group's committed offsets of single partitions.
    request OffsetDeleteRequest<'a> {
        group_id: &'a str, 0..;
        topics: Vec<OffsetDeleteRequestTopic<'a>>, 0..;
    }

    /// The result for each partition.
    response OffsetDeleteResponse<'a> {
        /// The error of the whole request, or 0.
        error_code: i16, 0..;
        throttle_time_ms: i32, 0.., ignorable;
        topics: Vec<OffsetDeleteResponseTopic<'a>>, 0..;
    }

    /// A topic whose offsets to delete.
    struct OffsetDeleteRequestTopic<'a> {
        name: &'a str, 0..;
        partitions: Vec<OffsetDeleteRequestPartition<'a>>, 0..;
    }

    /// A partition whose offset to delete.
    struct OffsetDeleteRequestPartition<'a> {
        partition_index: i32, 0..;
    }

    /// The result for one topic.
    struct OffsetDeleteResponseTopic<'a> {
        name: &'a str, 0..;
        partitions: Vec<OffsetDeleteResponsePartition<'a>>, 0..;
    }

    /// The result for one partition.
    struct OffsetDeleteResponsePartition<'a> {
        partition_index: i32, 0..;
        /// The error, or 0; GROUP_SUBSCRIBED_TO_TOPIC if a member subscribes to the topic.
        error_code: i16, 0..;
    }
}
