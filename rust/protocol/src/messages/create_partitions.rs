//! CreatePartitions, API key 37, versions 0-3 (KIP-195).
//!
//! From 1 the answer comes before a throttled client is muted (KIP-219). 2 is flexible. 3 may answer
//! THROTTLING_QUOTA_EXCEEDED (KIP-599).

use crate::wire::api;

api! {
    CreatePartitions, versions 0..=3, flexible 2..;

    /// Adds partitions to topics.
    request CreatePartitionsRequest<'a> {
        /// The topics.
        topics: Vec<CreatePartitionsTopic<'a>>, 0..;
        /// How long the broker may wait until the partitions are there.
        timeout_ms: i32, 0..;
        /// Whether the request is only checked, and nothing added.
        validate_only: bool, 0..;
    }

    /// What became of each.
    response CreatePartitionsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// The topics.
        results: Vec<CreatePartitionsTopicResult<'a>>, 0..;
    }

    /// A topic that is to have more partitions.
    struct CreatePartitionsTopic<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// How many partitions it is to have, those that are there included.
        count: i32, 0..;
        /// Where the replicas of each new one are to be; `None` to let Kafka choose.
        assignments: Option<Vec<CreatePartitionsAssignment<'a>>>, 0.., nullable 0..;
    }

    /// Where a new partition's replicas are to be.
    struct CreatePartitionsAssignment<'a> {
        /// The brokers; the first is the preferred leader.
        broker_ids: Vec<i32>, 0..;
    }

    /// A topic's outcome.
    struct CreatePartitionsTopicResult<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// The error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str> = None, 0.., nullable 0..;
    }
}
