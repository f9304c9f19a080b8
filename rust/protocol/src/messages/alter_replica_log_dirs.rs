//! AlterReplicaLogDirs, API key 34, versions 1-2, flexible from 2 (KIP-113).

use crate::wire::api;

api! {
    AlterReplicaLogDirs, versions 1..=2, flexible 2..;

    /// Moves a broker's replicas between its directories.
    request AlterReplicaLogDirsRequest<'a> {
        /// What goes where.
        dirs: Vec<AlterReplicaLogDir<'a>>, 1..;
    }

    /// What became of each.
    response AlterReplicaLogDirsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 1..;
        /// The topics.
        results: Vec<AlterReplicaLogDirTopicResult<'a>>, 1..;
    }

    /// A directory, and what is to be in it.
    struct AlterReplicaLogDir<'a> {
        /// Its absolute path.
        path: &'a str, 1..;
        /// The topics.
        topics: Vec<AlterReplicaLogDirTopic<'a>>, 1..;
    }

    /// A topic's partitions to move.
    struct AlterReplicaLogDirTopic<'a> {
        /// The topic's name.
        name: &'a str, 1..;
        /// The partitions.
        partitions: Vec<i32>, 1..;
    }

    /// A topic's outcome.
    struct AlterReplicaLogDirTopicResult<'a> {
        /// Its name.
        topic_name: &'a str, 1..;
        /// Its partitions.
        partitions: Vec<AlterReplicaLogDirPartitionResult<'a>>, 1..;
    }

    /// A partition's outcome.
    struct AlterReplicaLogDirPartitionResult<'a> {
        /// Its index.
        partition_index: i32, 1..;
        /// The error, or 0.
        error_code: i16, 1..;
    }
}
