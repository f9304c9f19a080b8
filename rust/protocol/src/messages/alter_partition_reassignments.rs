//! AlterPartitionReassignments, API key 45, versions 0-1 (KIP-455).
//!
//! Both versions are flexible. Version 1 lets the client forbid a change of the number of replicas (KIP-860).

use crate::wire::api;

api! {
    AlterPartitionReassignments, versions 0..=1, flexible 0..;

    /// Reassigns partitions to other brokers, or cancels reassignments.
    request AlterPartitionReassignmentsRequest<'a> {
        /// The longest time that the broker waits for the reassignments to begin, in milliseconds.
        timeout_ms: i32 = 60_000, 0..;
        /// True if the number of a partition's replicas may change.
        allow_replication_factor_change: bool = true, 1..;
        topics: Vec<ReassignableTopic<'a>>, 0..;
    }

    /// The result for each partition.
    response AlterPartitionReassignmentsResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The request's `allow_replication_factor_change`.
        allow_replication_factor_change: bool = true, 1.., ignorable;
        /// The top-level error, or 0.
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
        /// The topics.
        responses: Vec<ReassignableTopicResponse<'a>>, 0..;
    }

    /// Partitions of a topic to move.
    struct ReassignableTopic<'a> {
        name: &'a str, 0..;
        partitions: Vec<ReassignablePartition<'a>>, 0..;
    }

    /// A partition to move.
    struct ReassignablePartition<'a> {
        partition_index: i32, 0..;
        /// The brokers of the new replicas; `None` cancels a reassignment in progress.
        replicas: Option<Vec<i32>> = None, 0.., nullable 0..;
    }

    /// The result for one topic.
    struct ReassignableTopicResponse<'a> {
        name: &'a str, 0..;
        partitions: Vec<ReassignablePartitionResponse<'a>>, 0..;
    }

    /// The result for one partition.
    struct ReassignablePartitionResponse<'a> {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
    }
}
