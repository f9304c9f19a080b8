//! TxnOffsetCommit, API key 28, versions 0-6 (KIP-98).
//!
//! Version 1 makes the broker respond before it throttles the client (KIP-219). 2 adds leader epochs (KIP-320), 3 the
//! member, so that the coordinator can fence one that the group has removed (KIP-447). 3 is flexible. 4 may return
//! TRANSACTION_ABORTABLE. With 5, the request itself adds the group's partition of `__consumer_offsets` to the
//! transaction (KIP-890). 6 replaces topic names by ids, and may return GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH and
//! UNKNOWN_TOPIC_ID (KIP-1319).

use crate::types::Uuid;
use crate::wire::api;

api! {
    TxnOffsetCommit, versions 0..=6, flexible 3..;

    /// Commits a group's offsets within a transaction; they take effect when it is committed.
    request TxnOffsetCommitRequest<'a> {
        transactional_id: &'a str, 0..;
        group_id: &'a str, 0..;
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        /// The generation or member epoch; -1 for a client that is not a member.
        generation_id_or_member_epoch: i32 = -1, 3..;
        /// The member id; empty for a client that is not a member.
        member_id: &'a str, 3..;
        /// The group instance id of a static member; `None` for a dynamic one.
        group_instance_id: Option<&'a str> = None, 3.., nullable 3..;
        topics: Vec<TxnOffsetCommitRequestTopic<'a>>, 0..;
    }

    /// The result for each partition.
    response TxnOffsetCommitResponse<'a> {
        throttle_time_ms: i32, 0..;
        topics: Vec<TxnOffsetCommitResponseTopic<'a>>, 0..;
    }

    /// A topic's offsets.
    struct TxnOffsetCommitRequestTopic<'a> {
        name: &'a str, 0..=5, ignorable;
        topic_id: Uuid, 6.., ignorable;
        partitions: Vec<TxnOffsetCommitRequestPartition<'a>>, 0..;
    }

    /// A partition's offset.
    struct TxnOffsetCommitRequestPartition<'a> {
        partition_index: i32, 0..;
        /// The offset of the next record to read.
        committed_offset: i64, 0..;
        /// The leader epoch of the record before that offset, or -1.
        committed_leader_epoch: i32 = -1, 2.., ignorable;
        /// The metadata that the client stores with the offset.
        committed_metadata: Option<&'a str>, 0.., nullable 0..;
    }

    /// The result for one topic.
    struct TxnOffsetCommitResponseTopic<'a> {
        name: &'a str, 0..=5, ignorable;
        topic_id: Uuid, 6.., ignorable;
        partitions: Vec<TxnOffsetCommitResponsePartition<'a>>, 0..;
    }

    /// The result for one partition.
    struct TxnOffsetCommitResponsePartition<'a> {
        partition_index: i32, 0..;
        /// The error, or 0. An error of the whole group or transaction is returned for each partition.
        error_code: i16, 0..;
    }
}
