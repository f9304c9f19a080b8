//! DescribeTopicPartitions, API key 75, version 0, flexible (KIP-966).

use crate::types::Uuid;
use crate::wire::api;

api! {
    DescribeTopicPartitions, versions 0..=0, flexible 0..;

    /// Asks for topics and their partitions, a page at a time.
    request DescribeTopicPartitionsRequest<'a> {
        /// The topics; empty for all.
        topics: Vec<TopicRequest<'a>>, 0..;
        /// The most partitions that the answer may have.
        response_partition_limit: i32 = 2_000, 0..;
        /// Where the page begins; `None` for the first.
        cursor: Option<Cursor<'a>> = None, 0.., nullable 0..;
    }

    /// A page of partitions.
    response DescribeTopicPartitionsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0.., ignorable;
        /// The topics, by name.
        topics: Vec<DescribeTopicPartitionsResponseTopic<'a>>, 0..;
        /// Where the next page begins; `None` where this is the last.
        next_cursor: Option<Cursor<'a>> = None, 0.., nullable 0..;
    }

    /// A topic that is asked about.
    struct TopicRequest<'a> {
        /// Its name.
        name: &'a str, 0..;
    }

    /// The first partition of a page.
    struct Cursor<'a> {
        /// The topic's name.
        topic_name: &'a str, 0..;
        /// The partition's index.
        partition_index: i32, 0..;
    }

    /// A topic.
    struct DescribeTopicPartitionsResponseTopic<'a> {
        /// The error, or 0.
        error_code: i16, 0..;
        /// Its name.
        name: Option<&'a str>, 0.., nullable 0..;
        /// Its id.
        topic_id: Uuid, 0.., ignorable;
        /// Whether it is one of Kafka's own.
        is_internal: bool, 0.., ignorable;
        /// Its partitions, or those of them that are on this page.
        partitions: Vec<DescribeTopicPartitionsResponsePartition<'a>>, 0..;
        /// What the client may do with the topic, a bit for each operation; `i32::MIN` where that is not told.
        topic_authorized_operations: i32 = i32::MIN, 0..;
    }

    /// A partition.
    struct DescribeTopicPartitionsResponsePartition<'a> {
        /// The error, or 0.
        error_code: i16, 0..;
        /// Its index.
        partition_index: i32, 0..;
        /// The broker that leads it, or -1.
        leader_id: i32, 0..;
        /// The leader's epoch, or -1.
        leader_epoch: i32 = -1, 0.., ignorable;
        /// Brokers that have a replica.
        replica_nodes: Vec<i32>, 0..;
        /// Brokers whose replica is in sync.
        isr_nodes: Vec<i32>, 0..;
        /// Brokers out of sync that have all committed records even so, and may lead.
        eligible_leader_replicas: Option<Vec<i32>> = None, 0.., nullable 0..;
        /// Brokers that were of those before they went down uncleanly.
        last_known_elr: Option<Vec<i32>> = None, 0.., nullable 0..;
        /// Brokers whose replica is offline.
        offline_replicas: Vec<i32>, 0.., ignorable;
    }
}
