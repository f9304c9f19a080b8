//! AlterPartitionReassignments, API key 45, versions 0-1 (KIP-455).
//!
//! Both are flexible. 1 lets the client refuse another number of replicas (KIP-860).

use crate::wire::api;

api! {
    AlterPartitionReassignments, versions 0..=1, flexible 0..;

    /// Moves partitions to other brokers.
    request AlterPartitionReassignmentsRequest<'a> {
        /// How long the broker may wait until the moves have begun.
        timeout_ms: i32 = 60_000, 0..;
        /// Whether a partition may get another number of replicas than it has.
        allow_replication_factor_change: bool = true, 1..;
        /// The topics.
        topics: Vec<ReassignableTopic<'a>>, 0..;
    }

    /// What became of each.
    response AlterPartitionReassignmentsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// Whether the client asked for that number of replicas to stay.
        allow_replication_factor_change: bool = true, 1.., ignorable;
        /// The top-level error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str>, 0.., nullable 0..;
        /// The topics.
        responses: Vec<ReassignableTopicResponse<'a>>, 0..;
    }

    /// A topic's partitions to move.
    struct ReassignableTopic<'a> {
        /// The topic's name.
        name: &'a str, 0..;
        /// The partitions.
        partitions: Vec<ReassignablePartition<'a>>, 0..;
    }

    /// A partition to move.
    struct ReassignablePartition<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// The brokers that are to hold it; `None` ends a move under way.
        replicas: Option<Vec<i32>> = None, 0.., nullable 0..;
    }

    /// A topic's outcome.
    struct ReassignableTopicResponse<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// Its partitions.
        partitions: Vec<ReassignablePartitionResponse<'a>>, 0..;
    }

    /// A partition's outcome.
    struct ReassignablePartitionResponse<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// The error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str>, 0.., nullable 0..;
    }
}
