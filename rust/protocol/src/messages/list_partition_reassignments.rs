//! ListPartitionReassignments, API key 46, version 0, flexible (KIP-455).

use crate::wire::api;

api! {
    ListPartitionReassignments, versions 0..=0, flexible 0..;

    /// Asks which partitions move to other brokers.
    request ListPartitionReassignmentsRequest<'a> {
        /// How long the broker may take.
        timeout_ms: i32 = 60_000, 0..;
        /// The topics; `None` for all.
        topics: Option<Vec<ListPartitionReassignmentsTopics<'a>>> = None, 0.., nullable 0..;
    }

    /// The moves.
    response ListPartitionReassignmentsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// The top-level error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str>, 0.., nullable 0..;
        /// The topics with partitions that move.
        topics: Vec<OngoingTopicReassignment<'a>>, 0..;
    }

    /// A topic that is asked about.
    struct ListPartitionReassignmentsTopics<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// The partitions.
        partition_indexes: Vec<i32>, 0..;
    }

    /// A topic with partitions that move.
    struct OngoingTopicReassignment<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// These partitions.
        partitions: Vec<OngoingPartitionReassignment<'a>>, 0..;
    }

    /// A partition that moves.
    struct OngoingPartitionReassignment<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// The brokers that hold it now.
        replicas: Vec<i32>, 0..;
        /// Those of them that are new.
        adding_replicas: Vec<i32>, 0..;
        /// Those of them that are to go.
        removing_replicas: Vec<i32>, 0..;
    }
}
