//! OffsetDelete, API key 47, version 0 (KIP-496).
//!
//! No version is flexible. The response has its error before the throttle time, unlike most.

use crate::wire::api;

api! {
    OffsetDelete, versions 0..=0;

    /// Deletes a group's offsets of single partitions.
    request OffsetDeleteRequest<'a> {
        /// The group.
        group_id: &'a str, 0..;
        /// The topics.
        topics: Vec<OffsetDeleteRequestTopic<'a>>, 0..;
    }

    /// What became of each.
    response OffsetDeleteResponse<'a> {
        /// The error of the whole request, or 0.
        error_code: i16, 0..;
        /// How long the client was throttled.
        throttle_time_ms: i32, 0.., ignorable;
        /// The topics.
        topics: Vec<OffsetDeleteResponseTopic<'a>>, 0..;
    }

    /// A topic whose offsets go.
    struct OffsetDeleteRequestTopic<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// Its partitions.
        partitions: Vec<OffsetDeleteRequestPartition<'a>>, 0..;
    }

    /// A partition whose offset goes.
    struct OffsetDeleteRequestPartition<'a> {
        /// Its index.
        partition_index: i32, 0..;
    }

    /// A topic's outcome.
    struct OffsetDeleteResponseTopic<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// Its partitions.
        partitions: Vec<OffsetDeleteResponsePartition<'a>>, 0..;
    }

    /// A partition's outcome.
    struct OffsetDeleteResponsePartition<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// The error, or 0: GROUP_SUBSCRIBED_TO_TOPIC where a member reads the topic.
        error_code: i16, 0..;
    }
}
