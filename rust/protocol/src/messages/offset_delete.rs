//! OffsetDelete, API key 47, version 0 (KIP-496).
//!
//! Version 0 is not flexible. Unlike in most responses, the error code precedes the throttle time.

use crate::wire::api;

api! {
    OffsetDelete, versions 0..=0;

    /// Deletes a group's committed offsets of single partitions.
    request OffsetDeleteRequest<'a> {
        /// The group id.
        group_id: &'a str, 0..;
        /// The topics.
        topics: Vec<OffsetDeleteRequestTopic<'a>>, 0..;
    }

    /// The result for each partition.
    response OffsetDeleteResponse<'a> {
        /// The error of the whole request, or 0.
        error_code: i16, 0..;
        /// The throttle time in milliseconds.
        throttle_time_ms: i32, 0.., ignorable;
        /// The topics.
        topics: Vec<OffsetDeleteResponseTopic<'a>>, 0..;
    }

    /// A topic whose offsets to delete.
    struct OffsetDeleteRequestTopic<'a> {
        /// The topic's name.
        name: &'a str, 0..;
        /// The topic's partitions.
        partitions: Vec<OffsetDeleteRequestPartition<'a>>, 0..;
    }

    /// A partition whose offset to delete.
    struct OffsetDeleteRequestPartition<'a> {
        /// The partition's index.
        partition_index: i32, 0..;
    }

    /// The result for one topic.
    struct OffsetDeleteResponseTopic<'a> {
        /// The topic's name.
        name: &'a str, 0..;
        /// The topic's partitions.
        partitions: Vec<OffsetDeleteResponsePartition<'a>>, 0..;
    }

    /// The result for one partition.
    struct OffsetDeleteResponsePartition<'a> {
        /// The partition's index.
        partition_index: i32, 0..;
        /// The error, or 0; GROUP_SUBSCRIBED_TO_TOPIC if a member subscribes to the topic.
        error_code: i16, 0..;
    }
}
