//! Metadata, API key 3, versions 0-13.
//!
//! Response: 1 adds racks, the controller and internal topics, 2 the cluster id, 3 the throttle time,
//! 5 offline replicas, 7 leader epochs, 8 authorized operations, 10 topic ids, 13 a top-level error.
//! Request: from 1 null asks for all topics and an empty array for none (in 0 the empty array asks for
//! all); 4 adds topic creation, 8 authorized operations, 10 topic ids. Brokers look topics up by id
//! from 12 only. 9 is flexible; 11 drops the cluster's authorized operations (KIP-700).

use crate::types::Uuid;
use crate::wire::api;

api! {
    Metadata, versions 0..=13, flexible 9..;

    /// Asks for brokers, and for topics.
    request MetadataRequest<'a> {
        /// The topics; `None` for all, from version 1.
        topics: Option<Vec<MetadataRequestTopic<'a>>>, 0.., nullable 1..;
        /// Whether the broker may create a topic that is missing.
        allow_auto_topic_creation: bool = true, 4..;
        /// Whether the response tells what the client may do to the cluster.
        include_cluster_authorized_operations: bool, 8..=10;
        /// Whether the response tells what the client may do to each topic.
        include_topic_authorized_operations: bool, 8..;
    }

    /// Brokers and topics.
    response MetadataResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 3.., ignorable;
        /// The live brokers.
        brokers: Vec<MetadataResponseBroker<'a>>, 0..;
        /// The cluster, if it has an id.
        cluster_id: Option<&'a str> = None, 2.., nullable 2.., ignorable;
        /// The broker that controls the cluster.
        controller_id: i32 = -1, 1.., ignorable;
        /// The topics asked for.
        topics: Vec<MetadataResponseTopic<'a>>, 0..;
        /// Bits of what the client may do to the cluster.
        cluster_authorized_operations: i32 = i32::MIN, 8..=10;
        /// The top-level error, or 0.
        error_code: i16, 13.., ignorable;
    }

    /// A topic that is asked for.
    struct MetadataRequestTopic<'a> {
        /// Its id, if it is not asked for by name.
        topic_id: Uuid, 10.., ignorable;
        /// Its name; `None` when it is asked for by id.
        name: Option<&'a str>, 0.., nullable 10..;
    }

    /// A broker.
    struct MetadataResponseBroker<'a> {
        /// Its id.
        node_id: i32, 0..;
        /// Its advertised host.
        host: &'a str, 0..;
        /// Its advertised port.
        port: i32, 0..;
        /// Its rack, if it has one.
        rack: Option<&'a str> = None, 1.., nullable 1.., ignorable;
    }

    /// A topic.
    struct MetadataResponseTopic<'a> {
        /// The topic's error, or 0.
        error_code: i16, 0..;
        /// Its name; `None` where an unknown id was asked for.
        name: Option<&'a str>, 0.., nullable 12..;
        /// Its id; zero where an unknown name was asked for.
        topic_id: Uuid, 10.., ignorable;
        /// Whether it belongs to Kafka itself.
        is_internal: bool, 1.., ignorable;
        /// Its partitions.
        partitions: Vec<MetadataResponsePartition<'a>>, 0..;
        /// Bits of what the client may do to the topic.
        topic_authorized_operations: i32 = i32::MIN, 8..;
    }

    /// A partition.
    struct MetadataResponsePartition<'a> {
        /// The partition's error, or 0.
        error_code: i16, 0..;
        /// Its index.
        partition_index: i32, 0..;
        /// Its leader, or -1.
        leader_id: i32, 0..;
        /// Grows with each change of the leader.
        leader_epoch: i32 = -1, 7.., ignorable;
        /// Every broker that holds it.
        replica_nodes: Vec<i32>, 0..;
        /// Those in sync with the leader.
        isr_nodes: Vec<i32>, 0..;
        /// Those that are offline.
        offline_replicas: Vec<i32>, 5.., ignorable;
    }
}
