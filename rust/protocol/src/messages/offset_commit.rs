//! OffsetCommit, API key 8, versions 2-10 (Kafka 4.0 removed those below).
//!
//! Version 3 adds the throttle time, 6 leader epochs (KIP-320), 7 static members (KIP-345). 5 drops the retention time.
//! 8 is flexible. 9 allows members with the consumer protocol (KIP-848), and may return GROUP_ID_NOT_FOUND. 10 replaces
//! topic names by ids.

use crate::types::Uuid;
use crate::wire::api;

api! {
    OffsetCommit, versions 2..=10, flexible 8..;

    /// Commits a group's offsets.
    request OffsetCommitRequest<'a> {
        group_id: &'a str, 0..;
        /// The generation or member epoch; -1 for a client that is not a member.
        generation_id_or_member_epoch: i32 = -1, 1.., ignorable;
        /// The member id; empty for a client that is not a member.
        member_id: &'a str, 1.., ignorable;
        /// The group instance id of a static member; `None` for a dynamic one.
        group_instance_id: Option<&'a str> = None, 7.., nullable 7..;
        /// The time for which to keep the offsets, in milliseconds; -1 for the broker's own retention.
        retention_time_ms: i64 = -1, 2..=4, ignorable;
        topics: Vec<OffsetCommitRequestTopic<'a>>, 0..;
    }

    /// The result for each partition.
    response OffsetCommitResponse<'a> {
        throttle_time_ms: i32, 3.., ignorable;
        topics: Vec<OffsetCommitResponseTopic<'a>>, 0..;
    }

    /// A topic's offsets.
    struct OffsetCommitRequestTopic<'a> {
        name: &'a str, 0..=9, ignorable;
        topic_id: Uuid, 10.., ignorable;
        partitions: Vec<OffsetCommitRequestPartition<'a>>, 0..;
    }

    /// A partition's offset.
    struct OffsetCommitRequestPartition<'a> {
        partition_index: i32, 0..;
        /// The offset of the next record to read.
        committed_offset: i64, 0..;
        /// The leader epoch of the record before that offset, or -1.
        committed_leader_epoch: i32 = -1, 6.., ignorable;
        /// The metadata that the client stores with the offset.
        committed_metadata: Option<&'a str>, 0.., nullable 0..;
    }

    /// The result for one topic.
    struct OffsetCommitResponseTopic<'a> {
        name: &'a str, 0..=9, ignorable;
        topic_id: Uuid, 10.., ignorable;
        partitions: Vec<OffsetCommitResponsePartition<'a>>, 0..;
    }

    /// The result for one partition.
    struct OffsetCommitResponsePartition<'a> {
        partition_index: i32, 0..;
        /// The error, or 0. An error of the whole group is returned for each partition.
        error_code: i16, 0..;
    }
}
