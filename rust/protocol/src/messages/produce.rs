//! Produce, API key 0, versions 3-13 (Kafka 4.0 removed those below).
//!
//! Version 4 may return KAFKA_STORAGE_ERROR (KIP-112), 11 TRANSACTION_ABORTABLE (KIP-890). 5 adds log start offsets, 8
//! the records because of which a batch is rejected (KIP-467). From 6 on, the broker responds before it throttles the
//! client (KIP-219). 7 allows zstd (KIP-110). 9 is flexible. 10 adds new leaders and their endpoints (KIP-951). From 12
//! on, the first records in a partition add the partition to the transaction (KIP-890). 13 replaces topic names by ids
//! (KIP-516).

use crate::types::Uuid;
use crate::wire::api;

api! {
    Produce, versions 3..=13, flexible 9..;

    /// Appends records to partitions.
    request ProduceRequest<'a> {
        /// The transactional id, if the producer has one.
        transactional_id: Option<&'a str> = None, 3.., nullable 3..;
        /// The replicas that must have the records before the broker responds: 0 none, and there is no response; 1 the
        /// leader; -1 every in-sync replica.
        acks: i16, 0..;
        /// The longest time that the broker waits for the replicas, in milliseconds.
        timeout_ms: i32, 0..;
        topic_data: Vec<TopicProduceData<'a>>, 0..;
    }

    /// The result for each partition.
    response ProduceResponse<'a> {
        /// The topics.
        responses: Vec<TopicProduceResponse<'a>>, 0..;
        throttle_time_ms: i32, 1.., ignorable;
        /// The addresses of the leaders named in the partitions.
        node_endpoints: Vec<NodeEndpoint<'a>>, 10.., tag 0;
    }

    /// A topic's records.
    struct TopicProduceData<'a> {
        name: &'a str, 0..=12, ignorable;
        topic_id: Uuid, 13.., ignorable;
        partition_data: Vec<PartitionProduceData<'a>>, 0..;
    }

    /// A partition's records.
    struct PartitionProduceData<'a> {
        index: i32, 0..;
        /// The record batch.
        records: Option<&'a [u8]> = None, 0.., nullable 0..;
    }

    /// The result for one topic.
    struct TopicProduceResponse<'a> {
        name: &'a str, 0..=12, ignorable;
        topic_id: Uuid, 13.., ignorable;
        partition_responses: Vec<PartitionProduceResponse<'a>>, 0..;
    }

    /// The result for one partition.
    struct PartitionProduceResponse<'a> {
        index: i32, 0..;
        error_code: i16, 0..;
        /// The offset of the first record, or -1.
        base_offset: i64, 0..;
        /// The log append time in milliseconds since the epoch if the topic has log append time, else -1.
        log_append_time_ms: i64 = -1, 2.., ignorable;
        /// The log start offset, or -1.
        log_start_offset: i64 = -1, 5.., ignorable;
        /// The records because of which the broker rejected the whole batch.
        record_errors: Vec<BatchIndexAndErrorMessage<'a>>, 8.., ignorable;
        error_message: Option<&'a str> = None, 8.., nullable 8.., ignorable;
        /// The current leader, if this broker is not the leader.
        current_leader: LeaderIdAndEpoch<'a>, 10.., tag 0;
    }

    /// A record because of which its batch was rejected.
    struct BatchIndexAndErrorMessage<'a> {
        /// The record's index in the batch.
        batch_index: i32, 8..;
        /// The error message for the record.
        batch_index_error_message: Option<&'a str> = None, 8.., nullable 8..;
    }

    /// A leader.
    struct LeaderIdAndEpoch<'a> {
        /// The broker, or -1.
        leader_id: i32 = -1, 10..;
        /// The leader's epoch, or -1.
        leader_epoch: i32 = -1, 10..;
    }

    /// A broker's address.
    struct NodeEndpoint<'a> {
        node_id: i32, 10..;
        /// The node's advertised host.
        host: &'a str, 10..;
        /// The node's advertised port.
        port: i32, 10..;
        /// The node's rack, if it has one.
        rack: Option<&'a str> = None, 10.., nullable 10..;
    }
}
