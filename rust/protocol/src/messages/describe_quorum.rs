//! DescribeQuorum, API key 55, versions 0-2, flexible from 0 (KIP-595).
//!
//! 1 adds times of fetches (KIP-836). 2 adds messages, directory ids and the nodes' listeners (KIP-853).

use crate::types::Uuid;
use crate::wire::api;

api! {
    DescribeQuorum, versions 0..=2, flexible 0..;

    /// Asks for the state of the controllers' quorum.
    request DescribeQuorumRequest<'a> {
        /// The topics: `__cluster_metadata` is the only one that has a quorum.
        topics: Vec<RequestedTopic<'a>>, 0..;
    }

    /// The quorum.
    response DescribeQuorumResponse<'a> {
        /// The top-level error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str>, 2.., nullable 2.., ignorable;
        /// The topics.
        topics: Vec<TopicData<'a>>, 0..;
        /// The controllers.
        nodes: Vec<Node<'a>>, 2..;
    }

    /// A topic that is asked about.
    struct RequestedTopic<'a> {
        /// Its name.
        topic_name: &'a str, 0..;
        /// Its partitions.
        partitions: Vec<RequestedPartition<'a>>, 0..;
    }

    /// A partition that is asked about.
    struct RequestedPartition<'a> {
        /// Its index.
        partition_index: i32, 0..;
    }

    /// A topic.
    struct TopicData<'a> {
        /// Its name.
        topic_name: &'a str, 0..;
        /// Its partitions.
        partitions: Vec<PartitionData<'a>>, 0..;
    }

    /// A partition.
    struct PartitionData<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// The error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str>, 2.., nullable 2.., ignorable;
        /// The leader, or -1.
        leader_id: i32, 0..;
        /// Its epoch.
        leader_epoch: i32, 0..;
        /// The end of what is committed.
        high_watermark: i64, 0..;
        /// The voters.
        current_voters: Vec<ReplicaState<'a>>, 0..;
        /// The observers, which brokers are.
        observers: Vec<ReplicaState<'a>>, 0..;
    }

    /// How far a replica is.
    struct ReplicaState<'a> {
        /// Its node's id.
        replica_id: i32, 0..;
        /// The id of its directory.
        replica_directory_id: Uuid, 2..;
        /// The end of its log, or -1.
        log_end_offset: i64, 0..;
        /// When it fetched last; -1 for the leader, and where it is not known.
        last_fetch_timestamp: i64 = -1, 1.., ignorable;
        /// When it had all of the leader's log; now for the leader, and -1 where it is not known.
        last_caught_up_timestamp: i64 = -1, 1.., ignorable;
    }

    /// A controller.
    struct Node<'a> {
        /// Its id.
        node_id: i32, 2..;
        /// Where it listens.
        listeners: Vec<Listener<'a>>, 2..;
    }

    /// An endpoint of a controller.
    struct Listener<'a> {
        /// The listener's name.
        name: &'a str, 2..;
        /// The host.
        host: &'a str, 2..;
        /// The port.
        port: u16, 2..;
    }
}
