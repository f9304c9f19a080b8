//! DescribeProducers, API key 61, version 0, flexible (KIP-664).

use crate::wire::api;

api! {
    DescribeProducers, versions 0..=0, flexible 0..;

    /// Describes the active producers of partitions; sent to their leaders.
    request DescribeProducersRequest<'a> {
        topics: Vec<TopicRequest<'a>>, 0..;
    }

    /// The producers.
    response DescribeProducersResponse<'a> {
        throttle_time_ms: i32, 0..;
        topics: Vec<TopicResponse<'a>>, 0..;
    }

    /// A topic of the request.
    struct TopicRequest<'a> {
        name: &'a str, 0..;
        partition_indexes: Vec<i32>, 0..;
    }

    /// The producers of one topic.
    struct TopicResponse<'a> {
        name: &'a str, 0..;
        partitions: Vec<PartitionResponse<'a>>, 0..;
    }

    /// The producers of one partition.
    struct PartitionResponse<'a> {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str> = None, 0.., nullable 0..;
        /// The idempotent and transactional producers whose state the partition keeps.
        active_producers: Vec<ProducerState<'a>>, 0..;
    }

    /// A producer.
    struct ProducerState<'a> {
        producer_id: i64, 0..;
        producer_epoch: i32, 0..;
        /// The sequence number of its last record, or -1.
        last_sequence: i32 = -1, 0..;
        /// The timestamp of its last batch in milliseconds since the epoch, or -1.
        last_timestamp: i64 = -1, 0..;
        /// The epoch of the coordinator that wrote its last marker, or -1.
        coordinator_epoch: i32, 0..;
        /// The first offset of its open transaction, or -1.
        current_txn_start_offset: i64 = -1, 0..;
    }
}
