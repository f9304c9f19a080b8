//! OffsetFetch, API key 9, versions 1-10 (Kafka 4.0 removed 0).
//!
//! Version 2 allows null for all topics, and adds the group's error; 3 adds the throttle time, 5 leader epochs
//! (KIP-320), 7 `require_stable`, which makes the client wait for open transactions (KIP-447). 6 is flexible. 8 takes
//! several groups at once (KIP-709): the top-level fields of versions up to 7 are then in each group. 9 adds members
//! with the consumer protocol (KIP-848). 10 replaces topic names by ids.

use crate::types::Uuid;
use crate::wire::api;

api! {
    OffsetFetch, versions 1..=10, flexible 6..;

    /// Reads the committed offsets of groups.
    request OffsetFetchRequest<'a> {
        group_id: &'a str, 0..=7;
        /// The topics, up to version 7; `None` for all, from version 2.
        topics: Option<Vec<OffsetFetchRequestTopic<'a>>>, 0..=7, nullable 2..=7;
        groups: Vec<OffsetFetchRequestGroup<'a>>, 8..;
        /// True to get UNSTABLE_OFFSET_COMMIT instead of an offset for partitions with pending transactional commits.
        require_stable: bool, 7..;
    }

    /// The committed offsets.
    response OffsetFetchResponse<'a> {
        throttle_time_ms: i32, 3.., ignorable;
        topics: Vec<OffsetFetchResponseTopic<'a>>, 0..=7;
        /// The group's error, or 0, up to version 7.
        error_code: i16, 2..=7, ignorable;
        groups: Vec<OffsetFetchResponseGroup<'a>>, 8..;
    }

    /// A topic of the request, up to version 7.
    struct OffsetFetchRequestTopic<'a> {
        name: &'a str, 0..=7;
        partition_indexes: Vec<i32>, 0..=7;
    }

    /// A group of the request.
    struct OffsetFetchRequestGroup<'a> {
        group_id: &'a str, 8..;
        /// The member id of a member with the consumer protocol, else `None`.
        member_id: Option<&'a str> = None, 9.., nullable 9.., ignorable;
        /// The group's epoch, or -1.
        member_epoch: i32 = -1, 9.., ignorable;
        /// The topics; `None` for all.
        topics: Option<Vec<OffsetFetchRequestTopics<'a>>>, 8.., nullable 8..;
    }

    /// A topic of the request, from version 8.
    struct OffsetFetchRequestTopics<'a> {
        name: &'a str, 8..=9, ignorable;
        topic_id: Uuid, 10.., ignorable;
        partition_indexes: Vec<i32>, 8..;
    }

    /// A topic's offsets, up to version 7.
    struct OffsetFetchResponseTopic<'a> {
        name: &'a str, 0..=7;
        partitions: Vec<OffsetFetchResponsePartition<'a>>, 0..=7;
    }

    /// The committed offset of a partition, up to version 7.
    struct OffsetFetchResponsePartition<'a> {
        partition_index: i32, 0..=7;
        /// The offset of the next record to read; -1 if none is committed.
        committed_offset: i64, 0..=7;
        /// The leader epoch of the record before that offset, or -1.
        committed_leader_epoch: i32 = -1, 5..=7, ignorable;
        /// The metadata that the client stored with the offset.
        metadata: Option<&'a str>, 0..=7, nullable 0..=7;
        error_code: i16, 0..=7;
    }

    /// A group's offsets.
    struct OffsetFetchResponseGroup<'a> {
        group_id: &'a str, 8..;
        topics: Vec<OffsetFetchResponseTopics<'a>>, 8..;
        error_code: i16, 8..;
    }

    /// A topic's offsets, from version 8.
    struct OffsetFetchResponseTopics<'a> {
        name: &'a str, 8..=9, ignorable;
        topic_id: Uuid, 10.., ignorable;
        partitions: Vec<OffsetFetchResponsePartitions<'a>>, 8..;
    }

    /// The committed offset of a partition, from version 8.
    struct OffsetFetchResponsePartitions<'a> {
        partition_index: i32, 8..;
        /// The offset of the next record to read; -1 if none is committed.
        committed_offset: i64, 8..;
        /// The leader epoch of the record before that offset, or -1.
        committed_leader_epoch: i32 = -1, 8.., ignorable;
        /// The metadata that the client stored with the offset.
        metadata: Option<&'a str>, 8.., nullable 8..;
        error_code: i16, 8..;
    }
}
