//! DescribeQuorum, API key 55, versions 0-2, flexible from 0 (KIP-595).
//!
//! Version 1 adds the times of fetches (KIP-836). 2 adds error messages, directory ids and the nodes' listeners
//! (KIP-853).

use crate::types::Uuid;
use crate::wire::api;

api! {
    DescribeQuorum, versions 0..=2, flexible 0..;

    /// Describes the state of the KRaft quorum.
    request DescribeQuorumRequest<'a> {
        /// The topics: `__cluster_metadata` is the only one that has a quorum.
        topics: Vec<RequestedTopic<'a>>, 0..;
    }

    /// The quorum.
    response DescribeQuorumResponse<'a> {
        /// The top-level error, or 0.
        error_code: i16, 0..;
        error_message: Option<&'a str>, 2.., nullable 2.., ignorable;
        topics: Vec<TopicData<'a>>, 0..;
        /// The controllers.
        nodes: Vec<Node<'a>>, 2..;
    }

    /// A topic of the request.
    struct RequestedTopic<'a> {
        topic_name: &'a str, 0..;
        partitions: Vec<RequestedPartition<'a>>, 0..;
    }

    /// A partition of the request.
    struct RequestedPartition<'a> {
        partition_index: i32, 0..;
    }

    /// A topic.
    struct TopicData<'a> {
        topic_name: &'a str, 0..;
        partitions: Vec<PartitionData<'a>>, 0..;
    }

    /// A partition.
    struct PartitionData<'a> {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str>, 2.., nullable 2.., ignorable;
        /// The leader, or -1.
        leader_id: i32, 0..;
        leader_epoch: i32, 0..;
        high_watermark: i64, 0..;
        current_voters: Vec<ReplicaState<'a>>, 0..;
        /// The observers, such as the brokers.
        observers: Vec<ReplicaState<'a>>, 0..;
    }

    /// The state of one replica.
    struct ReplicaState<'a> {
        /// The node id.
        replica_id: i32, 0..;
        /// The id of its log directory.
        replica_directory_id: Uuid, 2..;
        /// The replica's log end offset, or -1.
        log_end_offset: i64, 0..;
        /// The time of the replica's last fetch, in milliseconds since the epoch; -1 for the leader, or if not known.
        last_fetch_timestamp: i64 = -1, 1.., ignorable;
        /// The time at which the replica last had all of the leader's log, in milliseconds since the epoch; the current
        /// time for the leader, -1 if not known.
        last_caught_up_timestamp: i64 = -1, 1.., ignorable;
    }

    /// A controller.
    struct Node<'a> {
        /// The controller's id.
        node_id: i32, 2..;
        /// The controller's endpoints.
        listeners: Vec<Listener<'a>>, 2..;
    }

    /// An endpoint of a controller.
    struct Listener<'a> {
        name: &'a str, 2..;
        host: &'a str, 2..;
        port: u16, 2..;
    }
}
