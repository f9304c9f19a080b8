//! ShareFetch, API key 78, versions 1-2, flexible (KIP-932).
//!
//! Acquires records of a share group's partitions for a member, and acknowledges those that it acquired before. A
//! session of the group, member and broker remembers the partitions. Version 2 adds the strict limit of records
//! (KIP-1206) and renewals of locks (KIP-1222).

use crate::types::Uuid;
use crate::wire::api;

api! {
    ShareFetch, versions 1..=2, flexible 1..;

    /// Acquires records, and acknowledges others.
    request ShareFetchRequest<'a> {
        group_id: Option<&'a str> = None, 1.., nullable 1..;
        member_id: Option<&'a str>, 1.., nullable 1..;
        /// The epoch of the share session: 0 opens one, -1 closes it; otherwise one more than in the last ShareFetch or
        /// ShareAcknowledge.
        share_session_epoch: i32, 1..;
        /// The longest time that the broker waits for `min_bytes`, in milliseconds.
        max_wait_ms: i32, 1..;
        /// The number of bytes for which the broker waits before it responds.
        min_bytes: i32, 1..;
        /// The maximum number of bytes for all partitions; the first batch is returned whole even if it is larger.
        max_bytes: i32 = i32::MAX, 1..;
        /// The maximum number of records to acquire; nothing is acquired if it is not above 0. Whole batches may exceed
        /// it in the batch-optimized mode.
        max_records: i32, 1..;
        /// The number of records in each range of acquired records for which the client wishes.
        batch_size: i32, 1..;
        /// How records are acquired: 0 batch-optimized, 1 up to `max_records` exactly.
        share_acquire_mode: i8, 2.., ignorable;
        /// True if locks are renewed, which is acknowledgement type 4; then nothing is fetched, and the limits and the
        /// wait have to be 0.
        is_renew_ack: bool, 2..;
        /// The partitions to add to the session, or with acknowledgements.
        topics: Vec<FetchTopic<'a>>, 1..;
        /// The partitions to remove from the session.
        forgotten_topics_data: Vec<ForgottenTopic<'a>>, 1..;
    }

    /// The records that were acquired, and the outcome of acknowledgements.
    response ShareFetchResponse<'a> {
        throttle_time_ms: i32, 1..;
        error_code: i16, 1..;
        error_message: Option<&'a str> = None, 1.., nullable 1..;
        /// How long the records are locked that this response acquired, in milliseconds.
        acquisition_lock_timeout_ms: i32, 1..;
        responses: Vec<ShareFetchableTopicResponse<'a>>, 1..;
        /// The addresses of the leaders named in the partitions.
        node_endpoints: Vec<NodeEndpoint<'a>>, 1..;
    }

    /// A topic of the session.
    struct FetchTopic<'a> {
        topic_id: Uuid, 1..;
        partitions: Vec<FetchPartition<'a>>, 1..;
    }

    /// A partition of the session.
    struct FetchPartition<'a> {
        /// The partition's index.
        partition_index: i32, 1..;
        acknowledgement_batches: Vec<AcknowledgementBatch<'a>>, 1..;
    }

    /// Offsets that are acknowledged.
    struct AcknowledgementBatch<'a> {
        first_offset: i64, 1..;
        /// The last offset, inclusive.
        last_offset: i64, 1..;
        /// One type for all offsets, or one for each: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
        acknowledge_types: Vec<i8>, 1..;
    }

    /// Partitions of a topic to remove from the session.
    struct ForgottenTopic<'a> {
        topic_id: Uuid, 1..;
        partitions: Vec<i32>, 1..;
    }

    /// A topic's records.
    struct ShareFetchableTopicResponse<'a> {
        topic_id: Uuid, 1..;
        partitions: Vec<PartitionData<'a>>, 1..;
    }

    /// A partition's records, and the outcome of its acknowledgements.
    struct PartitionData<'a> {
        partition_index: i32, 1..;
        /// The error of the fetch.
        error_code: i16, 1..;
        error_message: Option<&'a str> = None, 1.., nullable 1..;
        /// The error of all acknowledgements of the partition.
        acknowledge_error_code: i16, 1..;
        acknowledge_error_message: Option<&'a str> = None, 1.., nullable 1..;
        /// The current leader, if this broker is not the leader.
        current_leader: LeaderIdAndEpoch<'a>, 1..;
        /// Record batches, with records that were not acquired among them.
        records: &'a [u8], 1..;
        /// The records that were acquired.
        acquired_records: Vec<AcquiredRecords<'a>>, 1..;
    }

    /// A leader.
    struct LeaderIdAndEpoch<'a> {
        leader_id: i32, 1..;
        leader_epoch: i32, 1..;
    }

    /// Records that were acquired.
    struct AcquiredRecords<'a> {
        first_offset: i64, 1..;
        /// The last offset, inclusive.
        last_offset: i64, 1..;
        /// How often the records were acquired, this time included.
        delivery_count: i16, 1..;
    }

    /// A broker's address.
    struct NodeEndpoint<'a> {
        node_id: i32, 1..;
        /// The node's advertised host.
        host: &'a str, 1..;
        /// The node's advertised port.
        port: i32, 1..;
        /// The node's rack, if it has one.
        rack: Option<&'a str> = None, 1.., nullable 1..;
    }
}
