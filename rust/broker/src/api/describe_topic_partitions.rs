//! DescribeTopicPartitions, version 0 (KIP-966): describes topics by name, one page of partitions at a time.
//!
//! Not implemented: eligible leader replicas. The lists are always empty, because replicas share one log.

use std::collections::BTreeSet;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};

use super::Handled;
use crate::cluster::{Coordinated, NodeId, Partition, check_topic_name};
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};

/// Kafka's `max.request.partition.size.limit`.
const MAX_PARTITIONS: i32 = 2000;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &DescribeTopicPartitionsRequest<'_>) -> Handled {
    Ok(call.answer::<DescribeTopicPartitionsRequest<'_>>(&describe_all(core, call, request)?))
}

fn describe_all<'a>(
    core: &'a Core,
    call: &Call<'_>,
    request: &DescribeTopicPartitionsRequest<'a>,
) -> Result<DescribeTopicPartitionsResponse<'a>, ErrorCode> {
    let from = request.cursor.as_ref().map_or("", |cursor| cursor.topic_name);
    let first_index = request.cursor.as_ref().map_or(0, |cursor| cursor.partition_index);
    let names: BTreeSet<&str> = match request.topics.is_empty() {
        true => core.topics.all().map(|topic| &*topic.name).filter(|name| *name >= from).collect(),
        false => request.topics.iter().map(|topic| topic.name).filter(|name| *name >= from).collect(),
    };
    let astray = request.cursor.is_some() && !request.topics.is_empty() && names.first() != Some(&from);
    if first_index < 0 || astray {
        return Err(ErrorCode::InvalidRequest);
    }
    // Kafka fails on an empty name with an unexpected exception.
    if names.contains("") {
        return Err(ErrorCode::UnknownServerError);
    }
    let may_see = |name: &&str| core.allows(call, Operation::Describe, Resource::Topic(name));
    let (names, forbidden): (Vec<&str>, Vec<&str>) = names.into_iter().partition(may_see);
    // A client must not learn whether these exist. It learns nothing of them if it asks for all topics.
    let forbidden = forbidden.into_iter().filter(|_| !request.topics.is_empty());
    let mut left = request.response_partition_limit.clamp(1, MAX_PARTITIONS) as usize;
    let mut topics: Vec<_> = forbidden.map(refused).collect();
    for name in names {
        if left == 0 {
            return Ok(page(topics, Some((name, 0))));
        }
        let first = if name == from { first_index as usize } else { 0 };
        let (topic, count, end) = describe(core, call, name, first, left);
        topics.push(topic);
        left -= end - first.min(end);
        if end < count {
            return Ok(page(topics, Some((name, end as i32))));
        }
    }
    Ok(page(topics, None))
}

fn page<'a>(
    topics: Vec<DescribeTopicPartitionsResponseTopic<'a>>,
    next: Option<(&'a str, i32)>,
) -> DescribeTopicPartitionsResponse<'a> {
    let cursor = |(topic_name, partition_index)| Cursor { topic_name, partition_index, ..Default::default() };
    DescribeTopicPartitionsResponse { topics, next_cursor: next.map(cursor), ..Default::default() }
}

fn refused(name: &str) -> DescribeTopicPartitionsResponseTopic<'_> {
    DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::TopicAuthorizationFailed.code(),
        name: Some(name),
        ..Default::default()
    }
}

/// Up to `limit` partitions of a topic from `first` on, the number of its partitions, and the index behind the last one
/// described.
fn describe<'a>(
    core: &'a Core,
    call: &Call<'_>,
    name: &'a str,
    first: usize,
    limit: usize,
) -> (DescribeTopicPartitionsResponseTopic<'a>, usize, usize) {
    let Some(topic) = core.topics.get(name) else {
        let error = match check_topic_name(name) {
            Ok(()) => ErrorCode::UnknownTopicOrPartition,
            Err(_) => ErrorCode::InvalidTopicException,
        };
        let unknown = DescribeTopicPartitionsResponseTopic {
            error_code: error.code(),
            name: Some(name),
            is_internal: Coordinated::of_topic(name).is_some(),
            topic_authorized_operations: core.authorized_operations(call, Resource::Topic(name)),
            ..Default::default()
        };
        return (unknown, 0, 0);
    };
    let count = topic.partitions.len();
    let first = first.min(count);
    let end = count.min(first.saturating_add(limit));
    let described = DescribeTopicPartitionsResponseTopic {
        name: Some(&topic.name),
        topic_id: topic.id,
        is_internal: topic.internal,
        partitions: topic.partitions[first..end].iter().map(|partition| describe_one(core, partition)).collect(),
        topic_authorized_operations: core.authorized_operations(call, Resource::Topic(name)),
        ..Default::default()
    };
    (described, count, end)
}

fn describe_one<'a>(core: &Core, partition: &Partition) -> DescribeTopicPartitionsResponsePartition<'a> {
    let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect();
    let error = if partition.leader.is_none() { ErrorCode::LeaderNotAvailable } else { ErrorCode::None };
    let offline = partition.replicas.iter().filter(|node| !core.nodes.is_alive(**node));
    DescribeTopicPartitionsResponsePartition {
        error_code: error.code(),
        partition_index: partition.index,
        leader_id: partition.leader.map_or(-1, |node| node.0),
        leader_epoch: partition.leader_epoch,
        replica_nodes: ids(&partition.replicas),
        isr_nodes: ids(&partition.isr),
        eligible_leader_replicas: Some(Vec::new()),
        last_known_elr: Some(Vec::new()),
        offline_replicas: offline.map(|node| node.0).collect(),
        ..Default::default()
    }
}

pub(super) fn refuse<'a>(
    request: &DescribeTopicPartitionsRequest<'a>,
    error: ErrorCode,
) -> DescribeTopicPartitionsResponse<'a> {
    let topics = request.topics.iter().map(|topic| DescribeTopicPartitionsResponseTopic {
        error_code: error.code(),
        name: Some(topic.name),
        ..Default::default()
    });
    DescribeTopicPartitionsResponse { topics: topics.collect(), ..Default::default() }
}
