//! DeleteRecords, versions 0-2 (KIP-107): moves the log start offset.
//!
//! Not implemented: waiting for the replicas, which share one log.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopic,
    DeleteRecordsTopicResult,
};

use super::Handled;
use crate::cluster::Coordinated;
use crate::core::Core;
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &DeleteRecordsRequest<'_>) -> Handled {
    let mut topics = Vec::with_capacity(request.topics.len());
    for (topic, offsets) in wanted(request) {
        let partitions = offsets.into_iter().map(|(index, offset)| {
            let outcome = delete(core, call, topic, index, offset);
            describe(index, outcome)
        });
        topics.push(DeleteRecordsTopicResult { name: topic, partitions: partitions.collect(), ..Default::default() });
    }
    Ok(call.answer::<DeleteRecordsRequest<'_>>(&DeleteRecordsResponse { topics, ..Default::default() }))
}

/// The offset for each partition, by topic. If a partition is in the request twice, the later offset counts.
fn wanted<'a>(request: &DeleteRecordsRequest<'a>) -> BTreeMap<&'a str, BTreeMap<i32, i64>> {
    let mut wanted: BTreeMap<&str, BTreeMap<i32, i64>> = BTreeMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            wanted.entry(topic.name).or_default().insert(partition.partition_index, partition.offset);
        }
    }
    wanted
}

fn delete(core: &mut Core, call: &Call<'_>, topic: &str, index: i32, before: i64) -> Result<i64, ErrorCode> {
    core.authorize(call, Operation::Delete, Resource::Topic(topic))?;
    if let Some(error) = core.faults.partition_error(call, topic, index) {
        return Err(error);
    }
    let found = core.topics.get(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let partition = core.topics.partition(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if Coordinated::of_topic(topic).is_some() {
        return Err(ErrorCode::InvalidTopicException);
    }
    if partition.leader != Some(call.node) {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    if !found.config.cleanup_policy(&core.settings.kafka).delete {
        return Err(ErrorCode::PolicyViolation);
    }
    core.delete_records(topic, index, before)
}

fn describe<'a>(partition_index: i32, outcome: Result<i64, ErrorCode>) -> DeleteRecordsPartitionResult<'a> {
    let error_code = outcome.err().unwrap_or(ErrorCode::None).code();
    DeleteRecordsPartitionResult {
        partition_index,
        low_watermark: outcome.unwrap_or(-1),
        error_code,
        ..Default::default()
    }
}

pub(super) fn refuse<'a>(request: &DeleteRecordsRequest<'a>, error: ErrorCode) -> DeleteRecordsResponse<'a> {
    let refused = |topic: &DeleteRecordsTopic<'a>| DeleteRecordsTopicResult {
        name: topic.name,
        partitions: topic.partitions.iter().map(|one| describe(one.partition_index, Err(error))).collect(),
        ..Default::default()
    };
    DeleteRecordsResponse { topics: request.topics.iter().map(refused).collect(), ..Default::default() }
}

pub(super) fn mentions<'a>(request: &DeleteRecordsRequest<'a>) -> Mentions<'a> {
    let partitions = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| (TopicKey::Name(topic.name), partition.partition_index))
    });
    Mentions { partitions: partitions.collect(), ..Default::default() }
}
