//! OffsetFetch, API key 9, versions 1-10 (Kafka 4.0 removed 0).
//!
//! 2 allows null for all topics, and adds the group's error; 3 adds the throttle time, 5 leader epochs (KIP-320), 7 the
//! wait for open transactions (KIP-447). 6 is flexible. 8 asks for several groups at once (KIP-709): what stands at the
//! top up to 7 then stands in each group. 9 adds members of the new group protocol (KIP-848). 10 replaces topic names by
//! ids.

use crate::types::Uuid;
use crate::wire::api;

api! {
    OffsetFetch, versions 1..=10, flexible 6..;

    /// Asks where groups have read to.
    request OffsetFetchRequest<'a> {
        /// The group, up to version 7.
        group_id: &'a str, 0..=7;
        /// The topics, up to version 7; `None` for all, from version 2.
        topics: Option<Vec<OffsetFetchRequestTopic<'a>>>, 0..=7, nullable 2..=7;
        /// The groups, from version 8.
        groups: Vec<OffsetFetchRequestGroup<'a>>, 8..;
        /// Whether offsets that an open transaction may still change are refused, with UNSTABLE_OFFSET_COMMIT.
        require_stable: bool, 7..;
    }

    /// Where they have read to.
    response OffsetFetchResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 3.., ignorable;
        /// The topics, up to version 7.
        topics: Vec<OffsetFetchResponseTopic<'a>>, 0..=7;
        /// The group's error, or 0, up to version 7.
        error_code: i16, 2..=7, ignorable;
        /// The groups, from version 8.
        groups: Vec<OffsetFetchResponseGroup<'a>>, 8..;
    }

    /// A topic that is asked about, up to version 7.
    struct OffsetFetchRequestTopic<'a> {
        /// Its name.
        name: &'a str, 0..=7;
        /// Its partitions.
        partition_indexes: Vec<i32>, 0..=7;
    }

    /// A group that is asked about.
    struct OffsetFetchRequestGroup<'a> {
        /// Its id.
        group_id: &'a str, 8..;
        /// The member that asks, if it is one of the new group protocol.
        member_id: Option<&'a str> = None, 9.., nullable 9.., ignorable;
        /// Its epoch, or -1.
        member_epoch: i32 = -1, 9.., ignorable;
        /// The topics; `None` for all.
        topics: Option<Vec<OffsetFetchRequestTopics<'a>>>, 8.., nullable 8..;
    }

    /// A topic that is asked about, from version 8.
    struct OffsetFetchRequestTopics<'a> {
        /// Its name, up to version 9.
        name: &'a str, 8..=9, ignorable;
        /// Its id, from version 10.
        topic_id: Uuid, 10.., ignorable;
        /// Its partitions.
        partition_indexes: Vec<i32>, 8..;
    }

    /// A topic's offsets, up to version 7.
    struct OffsetFetchResponseTopic<'a> {
        /// Its name.
        name: &'a str, 0..=7;
        /// Its partitions.
        partitions: Vec<OffsetFetchResponsePartition<'a>>, 0..=7;
    }

    /// A partition's offset, up to version 7.
    struct OffsetFetchResponsePartition<'a> {
        /// Its index.
        partition_index: i32, 0..=7;
        /// The offset of the next record to read; -1 where none is committed.
        committed_offset: i64, 0..=7;
        /// The leader epoch of the record before it, or -1.
        committed_leader_epoch: i32 = -1, 5..=7, ignorable;
        /// What the client kept with it.
        metadata: Option<&'a str>, 0..=7, nullable 0..=7;
        /// The error, or 0.
        error_code: i16, 0..=7;
    }

    /// A group's offsets.
    struct OffsetFetchResponseGroup<'a> {
        /// Its id.
        group_id: &'a str, 8..;
        /// The topics.
        topics: Vec<OffsetFetchResponseTopics<'a>>, 8..;
        /// The group's error, or 0.
        error_code: i16, 8..;
    }

    /// A topic's offsets, from version 8.
    struct OffsetFetchResponseTopics<'a> {
        /// Its name, up to version 9.
        name: &'a str, 8..=9, ignorable;
        /// Its id, from version 10.
        topic_id: Uuid, 10.., ignorable;
        /// Its partitions.
        partitions: Vec<OffsetFetchResponsePartitions<'a>>, 8..;
    }

    /// A partition's offset, from version 8.
    struct OffsetFetchResponsePartitions<'a> {
        /// Its index.
        partition_index: i32, 8..;
        /// The offset of the next record to read; -1 where none is committed.
        committed_offset: i64, 8..;
        /// The leader epoch of the record before it, or -1.
        committed_leader_epoch: i32 = -1, 8.., ignorable;
        /// What the client kept with it.
        metadata: Option<&'a str>, 8.., nullable 8..;
        /// The error, or 0.
        error_code: i16, 8..;
    }
}
