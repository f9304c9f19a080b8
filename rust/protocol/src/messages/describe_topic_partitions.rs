//! DescribeTopicPartitions, API key 75, version 0, flexible (KIP-966).

use crate::types::Uuid;
use crate::wire::api;

api! {
    DescribeTopicPartitions, versions 0..=0, flexible 0..;

    /// Describes topics and their partitions in pages.
    request DescribeTopicPartitionsRequest<'a> {
        /// The topics; empty for all.
        topics: Vec<TopicRequest<'a>>, 0..;
        /// The maximum number of partitions in the response.
        response_partition_limit: i32 = 2_000, 0..;
        /// The first partition of the page; `None` for the first page.
        cursor: Option<Cursor<'a>> = None, 0.., nullable 0..;
    }

    /// A page of partitions.
    response DescribeTopicPartitionsResponse<'a> {
        throttle_time_ms: i32, 0.., ignorable;
        /// The topics, by name.
        topics: Vec<DescribeTopicPartitionsResponseTopic<'a>>, 0..;
        /// The first partition of the next page; `None` if this is the last page.
        next_cursor: Option<Cursor<'a>> = None, 0.., nullable 0..;
    }

    /// A topic of the request.
    struct TopicRequest<'a> {
        name: &'a str, 0..;
    }

    /// The first partition of a page.
    struct Cursor<'a> {
        topic_name: &'a str, 0..;
        partition_index: i32, 0..;
    }

    /// A topic.
    struct DescribeTopicPartitionsResponseTopic<'a> {
        error_code: i16, 0..;
        name: Option<&'a str>, 0.., nullable 0..;
        topic_id: Uuid, 0.., ignorable;
        /// True if it is one of Kafka's internal topics.
        is_internal: bool, 0.., ignorable;
        /// The topic's partitions that are on this page.
        partitions: Vec<DescribeTopicPartitionsResponsePartition<'a>>, 0..;
        /// The operations that the client is authorized to perform on the topic, a bit for each; `i32::MIN` if not
        /// known.
        topic_authorized_operations: i32 = i32::MIN, 0..;
    }

    /// A partition.
    struct DescribeTopicPartitionsResponsePartition<'a> {
        error_code: i16, 0..;
        partition_index: i32, 0..;
        /// The broker that leads it, or -1.
        leader_id: i32, 0..;
        /// The leader's epoch, or -1.
        leader_epoch: i32 = -1, 0.., ignorable;
        /// Brokers that have a replica.
        replica_nodes: Vec<i32>, 0..;
        /// Brokers whose replica is in sync.
        isr_nodes: Vec<i32>, 0..;
        /// The eligible leader replicas: brokers that are not in sync but have all committed records (KIP-966).
        eligible_leader_replicas: Option<Vec<i32>> = None, 0.., nullable 0..;
        /// The last known eligible leader replicas, which have since shut down uncleanly (KIP-966).
        last_known_elr: Option<Vec<i32>> = None, 0.., nullable 0..;
        /// Brokers whose replica is offline.
        offline_replicas: Vec<i32>, 0.., ignorable;
    }
}
