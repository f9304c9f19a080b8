//! Describing the KRaft quorum (KIP-595).

use std::time::Duration;

use monedula_protocol::api::Request;
use monedula_protocol::messages::describe_quorum::{
    DescribeQuorumRequest, PartitionData, ReplicaState, RequestedPartition, RequestedTopic,
};

use super::call::{AdminCall, CallResult, ItemCall, Recipient, Refusal, read, refuse_all};
use super::topics::id_text;
use super::{Admin, AdminContext};
use crate::net::network::NodeId;

const METADATA_TOPIC: &str = "__cluster_metadata";

/// The KRaft quorum: the controllers that vote on the cluster's metadata, and the brokers that follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumDescription {
    /// The id of the active controller.
    pub leader: Option<i32>,
    /// The epoch.
    pub leader_epoch: i32,
    /// The high watermark of the metadata log.
    pub high_watermark: i64,
    /// The voters.
    pub voters: Vec<QuorumReplica>,
    /// The replicas that follow without a vote, such as brokers.
    pub observers: Vec<QuorumReplica>,
    /// The endpoints of the voters, from Kafka 3.9 on.
    pub controllers: Vec<QuorumController>,
}

/// A replica of the metadata log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumReplica {
    /// The node id.
    pub id: i32,
    /// The id of its log directory, from Kafka 3.9 on.
    pub directory_id: Option<String>,
    /// The log end offset, if it is known.
    pub log_end_offset: Option<i64>,
    /// Time of its last fetch, in milliseconds since 1970; `None` for the leader, or if it is not known.
    pub last_fetch_timestamp: Option<i64>,
    /// Time at which it last had all of the leader's log, in milliseconds since 1970, if that is known.
    pub last_caught_up_timestamp: Option<i64>,
}

/// A controller and its endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumController {
    /// The node id.
    pub id: i32,
    /// Listener, host and port of each endpoint.
    pub endpoints: Vec<(String, String, u16)>,
}

impl Admin {
    /// Describes the KRaft quorum (from Kafka 3.3 on).
    pub fn describe_metadata_quorum(&self, timeout: Duration) -> AdminCall<QuorumDescription> {
        self.run_one(DescribeQuorum, (), timeout)
    }
}

struct DescribeQuorum;

impl ItemCall for DescribeQuorum {
    type Key = ();
    type Value = QuorumDescription;
    const RECIPIENT: Recipient = Recipient::InTurn;

    fn what(&self, (): &()) -> String {
        "describing the quorum of controllers".into()
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, keys: &[()]) -> CallResult<Self> {
        let build = |_| DescribeQuorumRequest {
            topics: vec![RequestedTopic {
                topic_name: METADATA_TOPIC,
                partitions: vec![RequestedPartition::default()],
                ..Default::default()
            }],
            ..Default::default()
        };
        let (frame, version) = context.call(node, DescribeQuorumRequest::VERSIONS, build).await?;
        let response = read::<DescribeQuorumRequest<'_>>(&frame, version)?;
        if let Err(refusal) = Refusal::check(response.error_code, response.error_message) {
            return Ok(refuse_all(keys, &refusal));
        }
        let Some(partition) = response.topics.first().and_then(|topic| topic.partitions.first()) else {
            return Ok(Vec::new());
        };
        if let Err(refusal) = Refusal::check(partition.error_code, partition.error_message) {
            return Ok(refuse_all(keys, &refusal));
        }
        let controllers = response.nodes.iter().map(|node| QuorumController {
            id: node.node_id,
            endpoints: node
                .listeners
                .iter()
                .map(|listener| (listener.name.to_owned(), listener.host.to_owned(), listener.port))
                .collect(),
        });
        Ok(vec![((), Ok(description(partition, controllers.collect())))])
    }
}

fn description(partition: &PartitionData<'_>, controllers: Vec<QuorumController>) -> QuorumDescription {
    QuorumDescription {
        leader: Some(partition.leader_id).filter(|&id| id >= 0),
        leader_epoch: partition.leader_epoch,
        high_watermark: partition.high_watermark,
        voters: partition.current_voters.iter().map(replica).collect(),
        observers: partition.observers.iter().map(replica).collect(),
        controllers,
    }
}

fn replica(state: &ReplicaState<'_>) -> QuorumReplica {
    let known = |value: i64| Some(value).filter(|&value| value >= 0);
    QuorumReplica {
        id: state.replica_id,
        directory_id: id_text(state.replica_directory_id),
        log_end_offset: known(state.log_end_offset),
        last_fetch_timestamp: known(state.last_fetch_timestamp),
        last_caught_up_timestamp: known(state.last_caught_up_timestamp),
    }
}
