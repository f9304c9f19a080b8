//! ShareAcknowledge, API key 79, versions 1-2, flexible (KIP-932).
//!
//! Acknowledges records without fetching others. Version 2 adds renewals of locks (KIP-1222).

use crate::types::Uuid;
use crate::wire::api;

api! {
    ShareAcknowledge, versions 1..=2, flexible 1..;

    /// Acknowledges records that the member acquired.
    request ShareAcknowledgeRequest<'a> {
        group_id: Option<&'a str> = None, 1.., nullable 1..;
        member_id: Option<&'a str>, 1.., nullable 1..;
        /// The epoch of the share session: -1 closes it; otherwise one more than in the last ShareFetch or
        /// ShareAcknowledge. Only ShareFetch opens one.
        share_session_epoch: i32, 1..;
        /// True if locks are renewed, which is acknowledgement type 4.
        is_renew_ack: bool, 2..;
        topics: Vec<AcknowledgeTopic<'a>>, 1..;
    }

    /// The outcome for each partition.
    response ShareAcknowledgeResponse<'a> {
        throttle_time_ms: i32, 1..;
        error_code: i16, 1..;
        error_message: Option<&'a str> = None, 1.., nullable 1..;
        /// How long the records are locked whose locks were renewed, in milliseconds.
        acquisition_lock_timeout_ms: i32, 2.., ignorable;
        responses: Vec<ShareAcknowledgeTopicResponse<'a>>, 1..;
        /// The addresses of the leaders named in the partitions.
        node_endpoints: Vec<NodeEndpoint<'a>>, 1..;
    }

    /// A topic with acknowledgements.
    struct AcknowledgeTopic<'a> {
        topic_id: Uuid, 1..;
        partitions: Vec<AcknowledgePartition<'a>>, 1..;
    }

    /// A partition with acknowledgements.
    struct AcknowledgePartition<'a> {
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

    /// A topic's outcome.
    struct ShareAcknowledgeTopicResponse<'a> {
        topic_id: Uuid, 1..;
        partitions: Vec<PartitionData<'a>>, 1..;
    }

    /// A partition's outcome: its acknowledgements took effect all together or not at all.
    struct PartitionData<'a> {
        partition_index: i32, 1..;
        error_code: i16, 1..;
        error_message: Option<&'a str> = None, 1.., nullable 1..;
        /// The current leader, if this broker is not the leader.
        current_leader: LeaderIdAndEpoch<'a>, 1..;
    }

    /// A leader.
    struct LeaderIdAndEpoch<'a> {
        leader_id: i32, 1..;
        leader_epoch: i32, 1..;
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
