//! DescribeShareGroupOffsets, API key 90, versions 0-1, flexible (KIP-932).
//!
//! Version 1 adds the lag (KIP-1226).

use crate::types::Uuid;
use crate::wire::api;

api! {
    DescribeShareGroupOffsets, versions 0..=1, flexible 0..;

    /// Asks for the start offsets of share groups.
    request DescribeShareGroupOffsetsRequest<'a> {
        groups: Vec<DescribeShareGroupOffsetsRequestGroup<'a>>, 0..;
    }

    /// The start offsets.
    response DescribeShareGroupOffsetsResponse<'a> {
        throttle_time_ms: i32, 0..;
        groups: Vec<DescribeShareGroupOffsetsResponseGroup<'a>>, 0..;
    }

    /// A group of the request.
    struct DescribeShareGroupOffsetsRequestGroup<'a> {
        group_id: &'a str, 0..;
        /// The topics; `None` for all.
        topics: Option<Vec<DescribeShareGroupOffsetsRequestTopic<'a>>>, 0.., nullable 0..;
    }

    /// A topic of the request.
    struct DescribeShareGroupOffsetsRequestTopic<'a> {
        topic_name: &'a str, 0..;
        partitions: Vec<i32>, 0..;
    }

    /// A group.
    struct DescribeShareGroupOffsetsResponseGroup<'a> {
        group_id: &'a str, 0..;
        topics: Vec<DescribeShareGroupOffsetsResponseTopic<'a>>, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str> = None, 0.., nullable 0..;
    }

    /// A topic.
    struct DescribeShareGroupOffsetsResponseTopic<'a> {
        topic_name: &'a str, 0..;
        topic_id: Uuid, 0..;
        partitions: Vec<DescribeShareGroupOffsetsResponsePartition<'a>>, 0..;
    }

    /// A partition.
    struct DescribeShareGroupOffsetsResponsePartition<'a> {
        partition_index: i32, 0..;
        /// The first offset that is not done with; -1 if there is none yet.
        start_offset: i64, 0..;
        leader_epoch: i32, 0..;
        /// The number of records that are not done with; -1 if not known.
        lag: i64 = -1, 1.., ignorable;
        error_code: i16, 0..;
        error_message: Option<&'a str> = None, 0.., nullable 0..;
    }
}
