//! Metadata, API key 3, versions 0-13.
//!
//! Response: version 1 adds racks, the controller and internal topics, 2 the cluster id, 3 the throttle time, 5 offline
//! replicas, 7 leader epochs, 8 authorized operations, 10 topic ids, 13 a top-level error. Request: from 1 on, null
//! requests all topics and an empty array none (in 0 the empty array requests all); 4 adds topic creation, 8 authorized
//! operations, 10 topic ids. Brokers accept requests by topic id only from 12 on. 9 is flexible; 11 drops the cluster's
//! authorized operations (KIP-700).

use crate::types::Uuid;
use crate::wire::api;

api! {
    Metadata, versions 0..=13, flexible 9..;

    /// Asks for the live brokers, and for topics by name or id, each with the leader and replicas of its partitions.
    /// Any broker answers: all have the same metadata.
    request MetadataRequest<'a> {
        /// The topics; `None` for all, from version 1.
        topics: Option<Vec<MetadataRequestTopic<'a>>>, 0.., nullable 1..;
        /// True if the broker may create topics that do not exist.
        allow_auto_topic_creation: bool = true, 4..;
        /// True to include the operations that the client is authorized to perform on the cluster.
        include_cluster_authorized_operations: bool, 8..=10;
        /// True to include the operations that the client is authorized to perform on each topic.
        include_topic_authorized_operations: bool, 8..;
    }

    /// The brokers and the requested topics.
    response MetadataResponse<'a> {
        throttle_time_ms: i32, 3.., ignorable;
        /// The live brokers.
        brokers: Vec<MetadataResponseBroker<'a>>, 0..;
        /// The cluster id, if the cluster has one.
        cluster_id: Option<&'a str> = None, 2.., nullable 2.., ignorable;
        /// The id of the controller, or -1. A KRaft broker returns any live broker's id.
        controller_id: i32 = -1, 1.., ignorable;
        /// The requested topics.
        topics: Vec<MetadataResponseTopic<'a>>, 0..;
        /// The operations that the client is authorized to perform on the cluster, a bit for each; `i32::MIN` if not
        /// requested.
        cluster_authorized_operations: i32 = i32::MIN, 8..=10;
        /// The top-level error, or 0.
        error_code: i16, 13.., ignorable;
    }

    /// A topic of the request.
    struct MetadataRequestTopic<'a> {
        /// The topic's id; zero if it is requested by name.
        topic_id: Uuid, 10.., ignorable;
        /// The topic's name; `None` if it is requested by id.
        name: Option<&'a str>, 0.., nullable 10..;
    }

    /// A broker.
    struct MetadataResponseBroker<'a> {
        node_id: i32, 0..;
        /// The broker's advertised host.
        host: &'a str, 0..;
        /// The broker's advertised port.
        port: i32, 0..;
        /// The broker's rack, if it has one.
        rack: Option<&'a str> = None, 1.., nullable 1.., ignorable;
    }

    /// A topic.
    struct MetadataResponseTopic<'a> {
        error_code: i16, 0..;
        /// The topic's name; `None` if an unknown id was requested.
        name: Option<&'a str>, 0.., nullable 12..;
        /// The topic's id; zero if an unknown name was requested.
        topic_id: Uuid, 10.., ignorable;
        /// True if it is one of Kafka's internal topics.
        is_internal: bool, 1.., ignorable;
        partitions: Vec<MetadataResponsePartition<'a>>, 0..;
        /// The operations that the client is authorized to perform on the topic, a bit for each; `i32::MIN` if not
        /// requested.
        topic_authorized_operations: i32 = i32::MIN, 8..;
    }

    /// A partition.
    struct MetadataResponsePartition<'a> {
        error_code: i16, 0..;
        partition_index: i32, 0..;
        /// The partition's leader, or -1.
        leader_id: i32, 0..;
        /// The leader epoch, which grows with each change of the leader; -1 if not known.
        leader_epoch: i32 = -1, 7.., ignorable;
        /// The ids of the brokers that have a replica.
        replica_nodes: Vec<i32>, 0..;
        /// The ids of the brokers whose replica is in sync.
        isr_nodes: Vec<i32>, 0..;
        /// The ids of the brokers whose replica is offline.
        offline_replicas: Vec<i32>, 5.., ignorable;
    }
}
