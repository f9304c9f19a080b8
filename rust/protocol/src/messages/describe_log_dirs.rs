//! DescribeLogDirs, API key 35, versions 1-5, flexible from 2 (KIP-113, KIP-827, KIP-1066).

use crate::wire::api;

api! {
    DescribeLogDirs, versions 1..=5, flexible 2..;

    /// Asks a broker what its directories hold.
    request DescribeLogDirsRequest<'a> {
        /// The topics; `None` for all.
        topics: Option<Vec<DescribableLogDirTopic<'a>>>, 1.., nullable 1..;
    }

    /// The directories.
    response DescribeLogDirsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 1..;
        /// The top-level error, or 0.
        error_code: i16, 3.., ignorable;
        /// The directories.
        results: Vec<DescribeLogDirsResult<'a>>, 1..;
    }

    /// A topic that is asked about.
    struct DescribableLogDirTopic<'a> {
        /// Its name.
        topic: &'a str, 1..;
        /// Its partitions.
        partitions: Vec<i32>, 1..;
    }

    /// A directory.
    struct DescribeLogDirsResult<'a> {
        /// The error, or 0.
        error_code: i16, 1..;
        /// Its path.
        log_dir: &'a str, 1..;
        /// The topics that it holds something of.
        topics: Vec<DescribeLogDirsTopic<'a>>, 1..;
        /// The size of its volume, or -1.
        total_bytes: i64 = -1, 4.., ignorable;
        /// What of that can be used, or -1.
        usable_bytes: i64 = -1, 4.., ignorable;
        /// Whether no new partitions are put there.
        is_cordoned: bool, 5.., ignorable;
    }

    /// A topic in a directory.
    struct DescribeLogDirsTopic<'a> {
        /// Its name.
        name: &'a str, 1..;
        /// Its partitions.
        partitions: Vec<DescribeLogDirsPartition<'a>>, 1..;
    }

    /// A partition in a directory.
    struct DescribeLogDirsPartition<'a> {
        /// Its index.
        partition_index: i32, 1..;
        /// Bytes of its segments.
        partition_size: i64, 1..;
        /// How many records it lacks: of the high watermark, or of the log that it is to replace.
        offset_lag: i64, 1..;
        /// Whether it is to replace the log in another directory.
        is_future_key: bool, 1..;
    }
}
