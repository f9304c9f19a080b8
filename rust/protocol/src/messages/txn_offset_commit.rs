//! TxnOffsetCommit, API key 28, versions 0-6 (KIP-98).
//!
//! From 1 on, a broker answers before it throttles (KIP-219). 2 adds leader epochs (KIP-320), 3 the member, so that the
//! group can refuse one that it has lost (KIP-447). 3 is flexible. 4 may answer TRANSACTION_ABORTABLE, 5 adds the group's
//! offsets to the transaction by itself (KIP-890). 6 replaces topic names by ids, and answers GROUP_ID_NOT_FOUND,
//! STALE_MEMBER_EPOCH and UNKNOWN_TOPIC_ID (KIP-1319).

use crate::types::Uuid;
use crate::wire::api;

api! {
    TxnOffsetCommit, versions 0..=6, flexible 3..;

    /// Stores where a group has read to, once the transaction is committed.
    request TxnOffsetCommitRequest<'a> {
        /// The transactional id.
        transactional_id: &'a str, 0..;
        /// The group.
        group_id: &'a str, 0..;
        /// The transaction's producer id.
        producer_id: i64, 0..;
        /// The epoch of the producer id.
        producer_epoch: i16, 0..;
        /// The generation or member epoch; -1 for whoever is no member.
        generation_id_or_member_epoch: i32 = -1, 3..;
        /// The member; empty for whoever is none.
        member_id: &'a str, 3..;
        /// The static member, if it is one.
        group_instance_id: Option<&'a str> = None, 3.., nullable 3..;
        /// The topics.
        topics: Vec<TxnOffsetCommitRequestTopic<'a>>, 0..;
    }

    /// What became of each.
    response TxnOffsetCommitResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// The topics.
        topics: Vec<TxnOffsetCommitResponseTopic<'a>>, 0..;
    }

    /// A topic's offsets.
    struct TxnOffsetCommitRequestTopic<'a> {
        /// Its name, up to version 5.
        name: &'a str, 0..=5, ignorable;
        /// Its id, from version 6.
        topic_id: Uuid, 6.., ignorable;
        /// Its partitions.
        partitions: Vec<TxnOffsetCommitRequestPartition<'a>>, 0..;
    }

    /// A partition's offset.
    struct TxnOffsetCommitRequestPartition<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// The offset of the next record to read.
        committed_offset: i64, 0..;
        /// The leader epoch of the record before it, or -1.
        committed_leader_epoch: i32 = -1, 2.., ignorable;
        /// What the client wants to keep with it.
        committed_metadata: Option<&'a str>, 0.., nullable 0..;
    }

    /// A topic's outcome.
    struct TxnOffsetCommitResponseTopic<'a> {
        /// Its name, up to version 5.
        name: &'a str, 0..=5, ignorable;
        /// Its id, from version 6.
        topic_id: Uuid, 6.., ignorable;
        /// Its partitions.
        partitions: Vec<TxnOffsetCommitResponsePartition<'a>>, 0..;
    }

    /// A partition's outcome.
    struct TxnOffsetCommitResponsePartition<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// The error, or 0. Errors of the group and of the transaction stand at each partition.
        error_code: i16, 0..;
    }
}
