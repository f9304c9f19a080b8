//! CreatePartitions, API key 37, versions 0-3 (KIP-195).
//!
//! Version 1 makes the broker respond before it throttles the client (KIP-219). 2 is flexible. 3 may return
//! THROTTLING_QUOTA_EXCEEDED (KIP-599).

use crate::wire::api;

api! {
    CreatePartitions, versions 0..=3, flexible 2..;

    /// Adds partitions to topics.
    request CreatePartitionsRequest<'a> {
        topics: Vec<CreatePartitionsTopic<'a>>, 0..;
        /// The longest time that the broker waits for the partitions to exist, in milliseconds.
        timeout_ms: i32, 0..;
        /// True to have the request only validated, without adding partitions.
        validate_only: bool, 0..;
    }

    /// The result for each topic.
    response CreatePartitionsResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The topics.
        results: Vec<CreatePartitionsTopicResult<'a>>, 0..;
    }

    /// A topic to which to add partitions.
    struct CreatePartitionsTopic<'a> {
        name: &'a str, 0..;
        /// The new total number of partitions.
        count: i32, 0..;
        /// The brokers of the replicas of each new partition; `None` to let Kafka choose.
        assignments: Option<Vec<CreatePartitionsAssignment<'a>>>, 0.., nullable 0..;
    }

    /// The brokers of a new partition's replicas.
    struct CreatePartitionsAssignment<'a> {
        /// The brokers; the first is the preferred leader.
        broker_ids: Vec<i32>, 0..;
    }

    /// The result for one topic.
    struct CreatePartitionsTopicResult<'a> {
        name: &'a str, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str> = None, 0.., nullable 0..;
    }
}
