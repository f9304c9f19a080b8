//! OffsetForLeaderEpoch, versions 2-4 (KIP-320): the end offsets of leader epochs, by which clients detect truncation.
//!
//! Not implemented: the replica id of followers is ignored.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopic, OffsetForLeaderTopicResult,
};

use super::Handled;
use crate::core::Core;
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &OffsetForLeaderEpochRequest<'_>) -> Handled {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for wanted in &topic.partitions {
            partitions.push(describe(wanted.partition, find(core, call, topic.topic, wanted)));
        }
        topics.push(OffsetForLeaderTopicResult { topic: topic.topic, partitions, ..Default::default() });
    }
    let response = OffsetForLeaderEpochResponse { topics, ..Default::default() };
    Ok(call.answer::<OffsetForLeaderEpochRequest<'_>>(&response))
}

fn find(
    core: &mut Core,
    call: &Call<'_>,
    topic: &str,
    wanted: &OffsetForLeaderPartition<'_>,
) -> Result<(i32, i64), ErrorCode> {
    // Brokers may ask about all topics.
    if !core.allows(call, Operation::ClusterAction, Resource::Cluster) {
        core.authorize(call, Operation::Describe, Resource::Topic(topic))?;
    }
    if let Some(error) = core.faults.partition_error(call, topic, wanted.partition) {
        return Err(error);
    }
    let partition = core.topics.partition(topic, wanted.partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if !partition.replicas.contains(&call.node) {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    partition.check_epoch(wanted.current_leader_epoch)?;
    if partition.leader != Some(call.node) {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    let log = &partition.log;
    Ok(log.epochs().end_of(wanted.leader_epoch, log.end_offset()).unwrap_or((-1, -1)))
}

fn describe<'a>(partition: i32, found: Result<(i32, i64), ErrorCode>) -> EpochEndOffset<'a> {
    let error_code = found.err().unwrap_or(ErrorCode::None).code();
    let (leader_epoch, end_offset) = found.unwrap_or((-1, -1));
    EpochEndOffset { partition, error_code, leader_epoch, end_offset, ..Default::default() }
}

pub(super) fn refuse<'a>(
    request: &OffsetForLeaderEpochRequest<'a>,
    error: ErrorCode,
) -> OffsetForLeaderEpochResponse<'a> {
    let refused = |topic: &OffsetForLeaderTopic<'a>| OffsetForLeaderTopicResult {
        topic: topic.topic,
        partitions: topic.partitions.iter().map(|wanted| describe(wanted.partition, Err(error))).collect(),
        ..Default::default()
    };
    OffsetForLeaderEpochResponse { topics: request.topics.iter().map(refused).collect(), ..Default::default() }
}

pub(super) fn mentions<'a>(request: &OffsetForLeaderEpochRequest<'a>) -> Mentions<'a> {
    let partitions = request
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|wanted| (TopicKey::Name(topic.topic), wanted.partition)));
    Mentions { partitions: partitions.collect(), ..Default::default() }
}
