//! AlterReplicaLogDirs, API key 34, versions 1-2, flexible from 2 (KIP-113).

use crate::wire::api;

api! {
    AlterReplicaLogDirs, versions 1..=2, flexible 2..;

    /// Moves a broker's replicas between its log directories.
    request AlterReplicaLogDirsRequest<'a> {
        /// The log directories, and the replicas to move to each.
        dirs: Vec<AlterReplicaLogDir<'a>>, 1..;
    }

    /// The result for each replica.
    response AlterReplicaLogDirsResponse<'a> {
        throttle_time_ms: i32, 1..;
        /// The topics.
        results: Vec<AlterReplicaLogDirTopicResult<'a>>, 1..;
    }

    /// A log directory, and the replicas to move there.
    struct AlterReplicaLogDir<'a> {
        /// The directory's absolute path.
        path: &'a str, 1..;
        topics: Vec<AlterReplicaLogDirTopic<'a>>, 1..;
    }

    /// Partitions of a topic to move.
    struct AlterReplicaLogDirTopic<'a> {
        name: &'a str, 1..;
        partitions: Vec<i32>, 1..;
    }

    /// The result for one topic.
    struct AlterReplicaLogDirTopicResult<'a> {
        topic_name: &'a str, 1..;
        partitions: Vec<AlterReplicaLogDirPartitionResult<'a>>, 1..;
    }

    /// The result for one partition.
    struct AlterReplicaLogDirPartitionResult<'a> {
        partition_index: i32, 1..;
        error_code: i16, 1..;
    }
}
