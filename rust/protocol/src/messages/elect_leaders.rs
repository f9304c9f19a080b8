//! ElectLeaders, API key 43, versions 0-2 (KIP-183).
//!
//! Version 1 adds unclean elections and the top-level error (KIP-460). 2 is flexible.

use crate::wire::api;

api! {
    ElectLeaders, versions 0..=2, flexible 2..;

    /// Triggers leader elections.
    request ElectLeadersRequest<'a> {
        /// The election type: 0 the preferred replica, 1 unclean (any live replica if none is in sync).
        election_type: i8, 1..;
        /// The partitions; `None` for all.
        topic_partitions: Option<Vec<TopicPartitions<'a>>>, 0.., nullable 0..;
        /// The longest time that the broker waits for the elections, in milliseconds.
        timeout_ms: i32 = 60_000, 0..;
    }

    /// The result for each partition.
    response ElectLeadersResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The top-level error, or 0.
        error_code: i16, 1..;
        /// The topics.
        replica_election_results: Vec<ReplicaElectionResult<'a>>, 0..;
    }

    /// A topic's partitions to elect leaders for.
    struct TopicPartitions<'a> {
        topic: &'a str, 0..;
        partitions: Vec<i32>, 0..;
    }

    /// The result for one topic.
    struct ReplicaElectionResult<'a> {
        topic: &'a str, 0..;
        /// The topic's partitions.
        partition_result: Vec<PartitionResult<'a>>, 0..;
    }

    /// The result for one partition.
    struct PartitionResult<'a> {
        /// The partition's index.
        partition_id: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
    }
}
