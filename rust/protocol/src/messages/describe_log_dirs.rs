//! DescribeLogDirs, API key 35, versions 1-5, flexible from 2 (KIP-113, KIP-827, KIP-1066).

use crate::wire::api;

api! {
    DescribeLogDirs, versions 1..=5, flexible 2..;

    /// Describes a broker's log directories.
    request DescribeLogDirsRequest<'a> {
        /// The topics; `None` for all.
        topics: Option<Vec<DescribableLogDirTopic<'a>>>, 1.., nullable 1..;
    }

    /// The directories.
    response DescribeLogDirsResponse<'a> {
        throttle_time_ms: i32, 1..;
        /// The top-level error, or 0.
        error_code: i16, 3.., ignorable;
        /// The directories.
        results: Vec<DescribeLogDirsResult<'a>>, 1..;
    }

    /// A topic of the request.
    struct DescribableLogDirTopic<'a> {
        topic: &'a str, 1..;
        partitions: Vec<i32>, 1..;
    }

    /// A directory.
    struct DescribeLogDirsResult<'a> {
        error_code: i16, 1..;
        /// The directory's path.
        log_dir: &'a str, 1..;
        /// The topics that have replicas in it.
        topics: Vec<DescribeLogDirsTopic<'a>>, 1..;
        /// The size of its volume in bytes, or -1.
        total_bytes: i64 = -1, 4.., ignorable;
        /// The usable part of the volume in bytes, or -1.
        usable_bytes: i64 = -1, 4.., ignorable;
        /// True if the directory is cordoned: no new replicas are placed in it.
        is_cordoned: bool, 5.., ignorable;
    }

    /// A topic in a directory.
    struct DescribeLogDirsTopic<'a> {
        name: &'a str, 1..;
        partitions: Vec<DescribeLogDirsPartition<'a>>, 1..;
    }

    /// A partition in a directory.
    struct DescribeLogDirsPartition<'a> {
        partition_index: i32, 1..;
        /// The size of its segments in bytes.
        partition_size: i64, 1..;
        /// The replica's lag in offsets: behind the high watermark, or for a future replica behind the current one.
        offset_lag: i64, 1..;
        /// True for a future replica, which will replace the current one in another directory.
        is_future_key: bool, 1..;
    }
}
