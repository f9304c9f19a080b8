//! Produce, API key 0, versions 3-13 (Kafka 4.0 removed those below).
//!
//! 4 may answer KAFKA_STORAGE_ERROR (KIP-112), 11 TRANSACTION_ABORTABLE (KIP-890). 5 adds log start offsets, 8 the
//! records that spoil a batch (KIP-467). From 6 the answer comes before a throttled client is muted (KIP-219). 7 allows
//! zstd (KIP-110). 9 is flexible. 10 adds new leaders and their endpoints (KIP-951). From 12 a transaction takes a
//! partition in with its first records (KIP-890). 13 replaces topic names by ids (KIP-516).

use crate::types::Uuid;
use crate::wire::api;

api! {
    Produce, versions 3..=13, flexible 9..;

    /// Appends records.
    request ProduceRequest<'a> {
        /// The transactional id, if the producer has one.
        transactional_id: Option<&'a str> = None, 3.., nullable 3..;
        /// Who must have the records before the answer: 0 nobody, and there is no answer; 1 the leader; -1 every
        /// in-sync replica.
        acks: i16, 0..;
        /// How long the broker may wait for the replicas.
        timeout_ms: i32, 0..;
        /// The topics.
        topic_data: Vec<TopicProduceData<'a>>, 0..;
    }

    /// Where the records went.
    response ProduceResponse<'a> {
        /// The topics.
        responses: Vec<TopicProduceResponse<'a>>, 0..;
        /// How long the client was throttled.
        throttle_time_ms: i32, 1.., ignorable;
        /// Where to find the leaders named in the partitions.
        node_endpoints: Vec<NodeEndpoint<'a>>, 10.., tag 0;
    }

    /// A topic's records.
    struct TopicProduceData<'a> {
        /// Its name, up to version 12.
        name: &'a str, 0..=12, ignorable;
        /// Its id, from version 13.
        topic_id: Uuid, 13.., ignorable;
        /// Its partitions.
        partition_data: Vec<PartitionProduceData<'a>>, 0..;
    }

    /// A partition's records.
    struct PartitionProduceData<'a> {
        /// Its index.
        index: i32, 0..;
        /// One record batch.
        records: Option<&'a [u8]> = None, 0.., nullable 0..;
    }

    /// A topic's outcome.
    struct TopicProduceResponse<'a> {
        /// Its name, up to version 12.
        name: &'a str, 0..=12, ignorable;
        /// Its id, from version 13.
        topic_id: Uuid, 13.., ignorable;
        /// Its partitions.
        partition_responses: Vec<PartitionProduceResponse<'a>>, 0..;
    }

    /// A partition's outcome.
    struct PartitionProduceResponse<'a> {
        /// Its index.
        index: i32, 0..;
        /// The partition's error, or 0.
        error_code: i16, 0..;
        /// The offset of the first record, or -1.
        base_offset: i64, 0..;
        /// When the broker appended the records, if the topic keeps that time; else -1.
        log_append_time_ms: i64 = -1, 2.., ignorable;
        /// Where the log starts, or -1.
        log_start_offset: i64 = -1, 5.., ignorable;
        /// The records for which the whole batch was refused.
        record_errors: Vec<BatchIndexAndErrorMessage<'a>>, 8.., ignorable;
        /// What the error means.
        error_message: Option<&'a str> = None, 8.., nullable 8.., ignorable;
        /// The leader, where the broker asked is not.
        current_leader: LeaderIdAndEpoch<'a>, 10.., tag 0;
    }

    /// A record that spoils its batch.
    struct BatchIndexAndErrorMessage<'a> {
        /// Its place in the batch.
        batch_index: i32, 8..;
        /// What is wrong with it.
        batch_index_error_message: Option<&'a str> = None, 8.., nullable 8..;
    }

    /// A leader.
    struct LeaderIdAndEpoch<'a> {
        /// The broker, or -1.
        leader_id: i32 = -1, 10..;
        /// Its epoch, or -1.
        leader_epoch: i32 = -1, 10..;
    }

    /// A broker's address.
    struct NodeEndpoint<'a> {
        /// Its id.
        node_id: i32, 10..;
        /// Its advertised host.
        host: &'a str, 10..;
        /// Its advertised port.
        port: i32, 10..;
        /// Its rack, if it has one.
        rack: Option<&'a str> = None, 10.., nullable 10..;
    }
}
