//! ListPartitionReassignments, API key 46, version 0, flexible (KIP-455).

use crate::wire::api;

api! {
    ListPartitionReassignments, versions 0..=0, flexible 0..;

    /// Lists the partition reassignments in progress.
    request ListPartitionReassignmentsRequest<'a> {
        timeout_ms: i32 = 60_000, 0..;
        /// The topics; `None` for all.
        topics: Option<Vec<ListPartitionReassignmentsTopics<'a>>> = None, 0.., nullable 0..;
    }

    /// The reassignments in progress.
    response ListPartitionReassignmentsResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The top-level error, or 0.
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
        /// The topics that have reassignments in progress.
        topics: Vec<OngoingTopicReassignment<'a>>, 0..;
    }

    /// A topic of the request.
    struct ListPartitionReassignmentsTopics<'a> {
        name: &'a str, 0..;
        partition_indexes: Vec<i32>, 0..;
    }

    /// A topic that has reassignments in progress.
    struct OngoingTopicReassignment<'a> {
        name: &'a str, 0..;
        /// The partitions that are being reassigned.
        partitions: Vec<OngoingPartitionReassignment<'a>>, 0..;
    }

    /// A partition that is being reassigned.
    struct OngoingPartitionReassignment<'a> {
        partition_index: i32, 0..;
        /// The brokers of the current replicas.
        replicas: Vec<i32>, 0..;
        /// The brokers of replicas that are being added.
        adding_replicas: Vec<i32>, 0..;
        /// The brokers of replicas that are being removed.
        removing_replicas: Vec<i32>, 0..;
    }
}
