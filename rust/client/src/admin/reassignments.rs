//! Reassigning partitions to other brokers (KIP-455).

use std::collections::BTreeMap;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use monedula_protocol::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics,
};

use super::call::{AdminCall, CallResult, ItemCall, Items, Recipient, Refusal, Subject, by_topic, read, refuse_all};
use super::{Admin, AdminContext};
use crate::net::network::NodeId;

/// A reassignment in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reassignment {
    /// Node ids of the brokers that have a replica now.
    pub replicas: Vec<i32>,
    /// Node ids of `replicas` that are being added.
    pub adding: Vec<i32>,
    /// Node ids of `replicas` that will be removed.
    pub removing: Vec<i32>,
}

impl Admin {
    /// Starts reassignments of partitions to other brokers, or cancels one (`None`). Does not wait for their end.
    pub fn alter_partition_reassignments(
        &self,
        moves: Vec<(TopicPartition, Option<Vec<i32>>)>,
        timeout: Duration,
    ) -> AdminCall<Items<TopicPartition, ()>> {
        let partitions: Vec<TopicPartition> = moves.iter().map(|(partition, _)| partition.clone()).collect();
        self.run(AlterReassignments { moves: moves.into_iter().collect() }, partitions, timeout)
    }

    /// Lists the reassignments in progress, of these partitions or of all.
    pub fn list_partition_reassignments(
        &self,
        partitions: Option<Vec<TopicPartition>>,
        timeout: Duration,
    ) -> AdminCall<BTreeMap<TopicPartition, Reassignment>> {
        self.run_one(ListReassignments { partitions }, (), timeout)
    }
}

struct AlterReassignments {
    moves: BTreeMap<TopicPartition, Option<Vec<i32>>>,
}

impl AlterReassignments {
    fn topics<'p>(&self, partitions: &'p [TopicPartition]) -> Vec<ReassignableTopic<'p>> {
        let mut topics: BTreeMap<&str, Vec<ReassignablePartition<'_>>> = BTreeMap::new();
        for partition in partitions {
            topics.entry(&partition.topic).or_default().push(ReassignablePartition {
                partition_index: partition.partition,
                replicas: self.moves.get(partition).cloned().flatten(),
                ..Default::default()
            });
        }
        topics
            .into_iter()
            .map(|(name, partitions)| ReassignableTopic { name, partitions, ..Default::default() })
            .collect()
    }
}

impl ItemCall for AlterReassignments {
    type Key = TopicPartition;
    type Value = ();
    const RECIPIENT: Recipient = Recipient::Controller;

    fn what(&self, partition: &TopicPartition) -> String {
        match self.moves.get(partition) {
            Some(Some(replicas)) => format!("moving {partition} to the brokers {replicas:?}"),
            _ => format!("ending the move of {partition}"),
        }
    }

    fn subject(&self, partition: &TopicPartition) -> Subject {
        Subject::partition(partition)
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, partitions: &[TopicPartition]) -> CallResult<Self> {
        let build = |_| AlterPartitionReassignmentsRequest {
            timeout_ms: context.broker_time_ms(),
            topics: self.topics(partitions),
            ..Default::default()
        };
        let (frame, version) = context.call(node, AlterPartitionReassignmentsRequest::VERSIONS, build).await?;
        let response = read::<AlterPartitionReassignmentsRequest<'_>>(&frame, version)?;
        if let Err(refusal) = Refusal::check(response.error_code, response.error_message) {
            return Ok(refuse_all(partitions, &refusal));
        }
        let answers = response.responses.iter().flat_map(|topic| {
            topic.partitions.iter().map(|answer| {
                let partition = TopicPartition::new(topic.name, answer.partition_index);
                (partition, Refusal::check(answer.error_code, answer.error_message))
            })
        });
        Ok(answers.collect())
    }

    fn passes(&self, code: ErrorCode, _: Duration) -> bool {
        code != ErrorCode::UnknownTopicOrPartition && code.is_retriable()
    }
}

struct ListReassignments {
    partitions: Option<Vec<TopicPartition>>,
}

impl ItemCall for ListReassignments {
    type Key = ();
    type Value = BTreeMap<TopicPartition, Reassignment>;
    const RECIPIENT: Recipient = Recipient::Controller;

    fn what(&self, (): &()) -> String {
        "listing the moves of partitions".into()
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, keys: &[()]) -> CallResult<Self> {
        let topic = |(name, partition_indexes)| ListPartitionReassignmentsTopics {
            name,
            partition_indexes,
            ..Default::default()
        };
        let asked = self.partitions.as_ref();
        let build = |_| ListPartitionReassignmentsRequest {
            timeout_ms: context.broker_time_ms(),
            topics: asked.map(|partitions| by_topic(partitions).into_iter().map(topic).collect()),
            ..Default::default()
        };
        let (frame, version) = context.call(node, ListPartitionReassignmentsRequest::VERSIONS, build).await?;
        let response = read::<ListPartitionReassignmentsRequest<'_>>(&frame, version)?;
        if let Err(refusal) = Refusal::check(response.error_code, response.error_message) {
            return Ok(refuse_all(keys, &refusal));
        }
        let moves = response.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|partition| {
                let found = Reassignment {
                    replicas: partition.replicas.clone(),
                    adding: partition.adding_replicas.clone(),
                    removing: partition.removing_replicas.clone(),
                };
                (TopicPartition::new(topic.name, partition.partition_index), found)
            })
        });
        Ok(vec![((), Ok(moves.collect()))])
    }
}
