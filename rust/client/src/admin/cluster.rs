//! The cluster's brokers, and leader elections.

use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::cluster::{Broker, Cluster};
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};

use super::call::{
    AdminCall, Answers, CallResult, ItemCall, Items, Recipient, Refusal, Subject, by_topic, read, refuse_all,
};
use super::{Admin, AdminContext};
use crate::coordinator::Failure;
use crate::error::ClientError;
use crate::net::network::NodeId;

/// A broker of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node id.
    pub id: i32,
    /// The address and rack.
    pub broker: Broker,
}

impl Node {
    pub(super) fn new(id: i32, broker: &Broker) -> Self {
        Self { id, broker: broker.clone() }
    }
}

/// The description of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    /// The id of the cluster.
    pub cluster_id: Option<String>,
    /// The node id of the controller.
    pub controller: Option<i32>,
    /// The brokers.
    pub nodes: Vec<Node>,
}

impl Admin {
    /// Describes the cluster: its id, its controller and its brokers.
    pub fn describe_cluster(&self, timeout: Duration) -> AdminCall<ClusterDescription> {
        self.until_closed(move |context| async move {
            let cluster = context.brokers(timeout).await?;
            Ok(ClusterDescription {
                cluster_id: cluster.cluster_id,
                controller: cluster.controller_id,
                nodes: cluster.brokers.iter().map(|(&id, broker)| Node::new(id, broker)).collect(),
            })
        })
    }

    /// Elects leaders: the preferred replicas, or (`unclean`) any live replica of a partition that
    /// has no live in-sync one.
    ///
    /// `true` means that the leader changed. For `None` (all partitions), only partitions whose leader changed or whose
    /// election failed are returned.
    pub fn elect_leaders(
        &self,
        partitions: Option<Vec<TopicPartition>>,
        unclean: bool,
        timeout: Duration,
    ) -> AdminCall<Items<TopicPartition, bool>> {
        self.until_closed(move |context| async move {
            match partitions {
                Some(partitions) => context.run(ElectLeaders { unclean }, partitions, timeout).await,
                None => context.elect_all(unclean, timeout).await,
            }
        })
    }
}

impl AdminContext {
    /// The cluster's brokers, id and controller, without topics.
    pub(super) async fn brokers(&self, timeout: Duration) -> Result<Cluster, ClientError> {
        let timeout = match self.base.metadata.watch().borrow().answers {
            0 => timeout.min(self.base.config.bootstrap_timeout),
            _ => timeout,
        };
        self.base.metadata.describe(Some(Vec::new()), timeout).await
    }

    /// The coordinator of a group or transactional id, if it was found.
    pub(super) fn known_coordinator(&self, key_type: i8, key: &str) -> Option<Node> {
        let node = self.base.coordinators.known_node(key_type, key)?;
        self.base.metadata.cluster().brokers.get(&node).map(|broker| Node::new(node, broker))
    }

    async fn elect_all(&self, unclean: bool, timeout: Duration) -> Result<Items<TopicPartition, bool>, ClientError> {
        let call = ElectAllLeaders(ElectLeaders { unclean });
        let mut items = Items::new();
        for (_, elected) in self.run(call, [()], timeout).await? {
            for (partition, answer) in elected? {
                let call = ElectLeaders { unclean };
                let outcome = answer.or_else(|refusal| call.settle(refusal, false));
                let outcome = outcome.map_err(|refusal| super::call::refused(&call, &partition, refusal));
                items.push((partition, outcome));
            }
        }
        Ok(items)
    }
}

struct ElectLeaders {
    unclean: bool,
}

impl ElectLeaders {
    async fn elect(
        &self,
        context: &AdminContext,
        node: NodeId,
        partitions: Option<&[TopicPartition]>,
    ) -> Result<Result<Answers<TopicPartition, bool>, Refusal>, Failure> {
        let topic = |(topic, partitions)| TopicPartitions { topic, partitions, ..Default::default() };
        let build = |_| ElectLeadersRequest {
            election_type: i8::from(self.unclean),
            topic_partitions: partitions.map(|partitions| by_topic(partitions).into_iter().map(topic).collect()),
            timeout_ms: context.broker_time_ms(),
            ..Default::default()
        };
        // Unclean elections exist since KIP-460 (ElectLeaders version 1).
        let lowest = if self.unclean { 1 } else { *ElectLeadersRequest::VERSIONS.start() };
        let (frame, version) = context.call(node, lowest..=*ElectLeadersRequest::VERSIONS.end(), build).await?;
        let response = read::<ElectLeadersRequest<'_>>(&frame, version)?;
        if let Err(refusal) = Refusal::check(response.error_code, None) {
            return Ok(Err(refusal));
        }
        let topics = response.replica_election_results.iter();
        let answers = topics.flat_map(|topic| {
            topic.partition_result.iter().map(|answer| {
                let partition = TopicPartition::new(topic.topic, answer.partition_id);
                (partition, Refusal::check(answer.error_code, answer.error_message).map(|()| true))
            })
        });
        Ok(Ok(answers.collect()))
    }
}

impl ItemCall for ElectLeaders {
    type Key = TopicPartition;
    type Value = bool;
    const RECIPIENT: Recipient = Recipient::Controller;

    fn what(&self, partition: &TopicPartition) -> String {
        format!("electing a leader of {partition}")
    }

    fn subject(&self, partition: &TopicPartition) -> Subject {
        Subject::partition(partition)
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, partitions: &[TopicPartition]) -> CallResult<Self> {
        let elected = self.elect(context, node, Some(partitions)).await?;
        Ok(elected.unwrap_or_else(|refusal| refuse_all(partitions, &refusal)))
    }

    /// Errors about the replica are final: the user wants to learn of an unavailable one, not to wait for it.
    fn passes(&self, code: ErrorCode, _: Duration) -> bool {
        let verdict = matches!(
            code,
            ErrorCode::ElectionNotNeeded
                | ErrorCode::PreferredLeaderNotAvailable
                | ErrorCode::EligibleLeadersNotAvailable
                | ErrorCode::UnknownTopicOrPartition
        );
        !verdict && code.is_retriable()
    }

    fn settle(&self, refusal: Refusal, _: bool) -> Result<bool, Refusal> {
        match refusal.code {
            ErrorCode::ElectionNotNeeded => Ok(false),
            _ => Err(refusal),
        }
    }
}

struct ElectAllLeaders(ElectLeaders);

impl ItemCall for ElectAllLeaders {
    type Key = ();
    type Value = Answers<TopicPartition, bool>;
    const RECIPIENT: Recipient = Recipient::Controller;

    fn what(&self, (): &()) -> String {
        "electing leaders of all partitions".into()
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, _: &[()]) -> CallResult<Self> {
        Ok(vec![((), self.0.elect(context, node, None).await?)])
    }
}
