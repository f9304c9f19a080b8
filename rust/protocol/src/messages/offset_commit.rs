//! OffsetCommit, API key 8, versions 2-10 (Kafka 4.0 removed those below).
//!
//! 3 adds the throttle time, 6 leader epochs (KIP-320), 7 static members (KIP-345). 5 drops the retention time. 8 is
//! flexible. 9 allows members of the new group protocol (KIP-848), and answers GROUP_ID_NOT_FOUND. 10 replaces topic
//! names by ids.

use crate::types::Uuid;
use crate::wire::api;

api! {
    OffsetCommit, versions 2..=10, flexible 8..;

    /// Stores where a group has read to.
    request OffsetCommitRequest<'a> {
        /// The group.
        group_id: &'a str, 0..;
        /// The generation or member epoch; -1 for whoever is no member.
        generation_id_or_member_epoch: i32 = -1, 1.., ignorable;
        /// The member; empty for whoever is none.
        member_id: &'a str, 1.., ignorable;
        /// The static member, if it is one.
        group_instance_id: Option<&'a str> = None, 7.., nullable 7..;
        /// How long to keep the offsets; -1 for as long as the broker does.
        retention_time_ms: i64 = -1, 2..=4, ignorable;
        /// The topics.
        topics: Vec<OffsetCommitRequestTopic<'a>>, 0..;
    }

    /// What became of each.
    response OffsetCommitResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 3.., ignorable;
        /// The topics.
        topics: Vec<OffsetCommitResponseTopic<'a>>, 0..;
    }

    /// A topic's offsets.
    struct OffsetCommitRequestTopic<'a> {
        /// Its name, up to version 9.
        name: &'a str, 0..=9, ignorable;
        /// Its id, from version 10.
        topic_id: Uuid, 10.., ignorable;
        /// Its partitions.
        partitions: Vec<OffsetCommitRequestPartition<'a>>, 0..;
    }

    /// A partition's offset.
    struct OffsetCommitRequestPartition<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// The offset of the next record to read.
        committed_offset: i64, 0..;
        /// The leader epoch of the record before it, or -1.
        committed_leader_epoch: i32 = -1, 6.., ignorable;
        /// What the client wants to keep with it.
        committed_metadata: Option<&'a str>, 0.., nullable 0..;
    }

    /// A topic's outcome.
    struct OffsetCommitResponseTopic<'a> {
        /// Its name, up to version 9.
        name: &'a str, 0..=9, ignorable;
        /// Its id, from version 10.
        topic_id: Uuid, 10.., ignorable;
        /// Its partitions.
        partitions: Vec<OffsetCommitResponsePartition<'a>>, 0..;
    }

    /// A partition's outcome.
    struct OffsetCommitResponsePartition<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// The error, or 0. Errors of the group stand at each partition.
        error_code: i16, 0..;
    }
}
