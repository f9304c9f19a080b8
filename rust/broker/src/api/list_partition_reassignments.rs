//! ListPartitionReassignments, version 0 (KIP-455): lists partitions that are being reassigned. Unknown topics and
//! partitions are left out.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, OngoingPartitionReassignment,
    OngoingTopicReassignment,
};

use super::Handled;
use crate::cluster::{NodeId, Partition};
use crate::core::Core;
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

type Request<'a> = ListPartitionReassignmentsRequest<'a>;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    core.authorize(call, Operation::Describe, Resource::Cluster)?;
    let asked: Vec<(&str, Vec<i32>)> = match &request.topics {
        Some(topics) => topics.iter().map(|topic| (topic.name, topic.partition_indexes.clone())).collect(),
        None => {
            let all = core.topics.all();
            all.map(|topic| (&*topic.name, topic.partitions.iter().map(|partition| partition.index).collect()))
                .collect()
        }
    };
    let topics = asked.into_iter().map(|(name, indexes)| OngoingTopicReassignment {
        name,
        partitions: indexes
            .into_iter()
            .filter_map(|index| core.topics.partition(name, index))
            .filter(|partition| partition.is_reassigned())
            .map(ongoing)
            .collect(),
        ..Default::default()
    });
    let topics = topics.filter(|topic| !topic.partitions.is_empty()).collect();
    Ok(call.answer::<Request<'_>>(&ListPartitionReassignmentsResponse {
        error_message: None,
        topics,
        ..Default::default()
    }))
}

fn ongoing(partition: &Partition) -> OngoingPartitionReassignment<'static> {
    let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect();
    OngoingPartitionReassignment {
        partition_index: partition.index,
        replicas: ids(&partition.replicas),
        adding_replicas: ids(&partition.adding),
        removing_replicas: ids(&partition.removing),
        ..Default::default()
    }
}

pub(super) fn mentions<'a>(request: &Request<'a>) -> Mentions<'a> {
    let topics = request.topics.iter().flatten();
    let partitions =
        topics.flat_map(|topic| topic.partition_indexes.iter().map(|index| (TopicKey::Name(topic.name), *index)));
    Mentions { partitions: partitions.collect(), ..Default::default() }
}
