//! DescribeQuorum, versions 0-2: describes every node as a voter of the KRaft quorum, led by the controller that
//! Metadata names.
//!
//! Not implemented: a metadata log. Its offsets are simulated: they grow with each change of a topic. There are no
//! observers.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, Listener, Node, PartitionData, ReplicaState, TopicData,
};

use super::Handled;
use crate::cluster;
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};

type Request<'a> = DescribeQuorumRequest<'a>;

const METADATA_TOPIC: &str = "__cluster_metadata";

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    core.authorize(call, Operation::Describe, Resource::Cluster)?;
    let is_metadata = |request: &Request<'_>| match request.topics.as_slice() {
        [topic] if topic.topic_name == METADATA_TOPIC => {
            matches!(topic.partitions.as_slice(), [partition] if partition.partition_index == 0)
        }
        _ => false,
    };
    if !is_metadata(request) {
        return Ok(call.answer::<Request<'_>>(&unknown(request, ErrorCode::UnknownTopicOrPartition)));
    }
    let partition = PartitionData {
        leader_id: core.nodes.controller().map_or(-1, |node| node.0),
        leader_epoch: core.nodes.controller_epoch(),
        high_watermark: core.topics.changes(),
        current_voters: core.nodes.all().map(|node| voter(core, node)).collect(),
        ..Default::default()
    };
    let topic = TopicData { topic_name: METADATA_TOPIC, partitions: vec![partition], ..Default::default() };
    let nodes = if call.version >= 2 { core.nodes.all().map(endpoint).collect() } else { Vec::new() };
    Ok(call.answer::<Request<'_>>(&DescribeQuorumResponse { topics: vec![topic], nodes, ..Default::default() }))
}

/// A voter's state. A living node is caught up; of others the offset and times are unknown (-1).
fn voter<'a>(core: &Core, node: &cluster::Node) -> ReplicaState<'a> {
    // As in Kafka, the leader counts as one that has just fetched.
    ReplicaState {
        replica_id: node.id.0,
        log_end_offset: if node.alive { core.topics.changes() } else { -1 },
        last_fetch_timestamp: if node.alive { core.now_ms } else { -1 },
        last_caught_up_timestamp: if node.alive { core.now_ms } else { -1 },
        ..Default::default()
    }
}

fn endpoint(node: &cluster::Node) -> Node<'_> {
    let listener = Listener { name: "CONTROLLER", host: &node.host, port: node.port, ..Default::default() };
    Node { node_id: node.id.0, listeners: vec![listener], ..Default::default() }
}

/// The response with an error for every partition of the request.
fn unknown<'a>(request: &Request<'a>, error: ErrorCode) -> DescribeQuorumResponse<'a> {
    let topics = request.topics.iter().map(|topic| TopicData {
        topic_name: topic.topic_name,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| PartitionData {
                partition_index: partition.partition_index,
                error_code: error.code(),
                error_message: Some(error.message()),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    DescribeQuorumResponse { topics: topics.collect(), ..Default::default() }
}
