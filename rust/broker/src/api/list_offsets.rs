//! ListOffsets, versions 1-11: the start and end offsets of logs, and the offsets of timestamps.
//!
//! Not implemented: remote storage. Requests for its offsets are answered as by a Kafka where it is disabled.

use std::collections::{HashMap, HashSet};

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
    ListOffsetsTopicResponse,
};

use super::Handled;
use crate::core::Core;
use crate::log::LogPosition;
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// The replica id of debugging tools, which any replica answers, not only the leader.
const DEBUGGING_REPLICA: i32 = -2;
const CLIENT: i32 = -1;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ListOffsetsRequest<'_>) -> Handled {
    if !(0..=1).contains(&request.isolation_level) {
        return Err(ErrorCode::UnknownServerError);
    }
    let twice = named_twice(request);
    let mut refused = HashSet::new();
    // As in Kafka, a topic stands in the answer once however often it is asked for, and not at all without partitions.
    let mut topics: Vec<ListOffsetsTopicResponse<'_>> = Vec::with_capacity(request.topics.len());
    let mut places: HashMap<&str, usize> = HashMap::new();
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        let is_allowed = core.allows(call, Operation::Describe, Resource::Topic(topic.name));
        for partition in &topic.partitions {
            let found = match twice.contains(&(topic.name, partition.partition_index)) {
                // The duplicate is reported once.
                _ if !is_allowed => Err(ErrorCode::TopicAuthorizationFailed),
                true if !refused.insert((topic.name, partition.partition_index)) => continue,
                true => Err(ErrorCode::InvalidRequest),
                false => find(core, call, request, topic.name, partition),
            };
            partitions.push(describe(call.version, partition.partition_index, found));
        }
        match places.get(topic.name) {
            _ if partitions.is_empty() => {}
            Some(&place) => topics[place].partitions.extend(partitions),
            None => {
                places.insert(topic.name, topics.len());
                topics.push(ListOffsetsTopicResponse { name: topic.name, partitions, ..Default::default() });
            }
        }
    }
    Ok(call.answer::<ListOffsetsRequest<'_>>(&ListOffsetsResponse { topics, ..Default::default() }))
}

fn named_twice<'a>(request: &ListOffsetsRequest<'a>) -> HashSet<(&'a str, i32)> {
    let mut seen = HashSet::new();
    let all = request
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |partition| (topic.name, partition.partition_index)));
    all.filter(|&one| !seen.insert(one)).collect()
}

/// True if this version of the API knows the special timestamp.
fn is_supported(timestamp: i64, version: i16) -> bool {
    match timestamp {
        0.. | LATEST | EARLIEST => true,
        MAX_TIMESTAMP => version >= 7,
        EARLIEST_LOCAL => version >= 8,
        LATEST_TIERED => version >= 9,
        EARLIEST_PENDING_UPLOAD => version >= 11,
        _ => false,
    }
}

fn find(
    core: &mut Core,
    call: &Call<'_>,
    request: &ListOffsetsRequest<'_>,
    topic: &str,
    wanted: &ListOffsetsPartition<'_>,
) -> Result<Option<LogPosition>, ErrorCode> {
    if let Some(error) = core.faults.partition_error(call, topic, wanted.partition_index) {
        return Err(error);
    }
    if !is_supported(wanted.timestamp, call.version) {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let index = wanted.partition_index;
    let partition = core.topics.partition(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if !partition.replicas.contains(&call.node) {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    partition.check_epoch(wanted.current_leader_epoch)?;
    if request.replica_id != DEBUGGING_REPLICA && partition.leader != Some(call.node) {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    let log = &partition.log;
    let end_offset = match (request.replica_id, request.isolation_level) {
        (CLIENT, 1) => log.last_stable_offset(),
        (CLIENT, _) => log.high_watermark(),
        _ => log.end_offset(),
    };
    let plain = |offset, leader_epoch| Some(LogPosition { timestamp_ms: -1, offset, leader_epoch });
    Ok(match wanted.timestamp {
        LATEST => plain(end_offset, partition.leader_epoch),
        EARLIEST | EARLIEST_LOCAL => plain(log.start_offset(), log.epochs().earliest(log.start_offset()).unwrap_or(-1)),
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => plain(-1, -1),
        MAX_TIMESTAMP => log.largest_timestamp()?.filter(|found| found.offset < end_offset),
        time => log.first_at(time)?.filter(|found| found.offset < end_offset),
    })
}

fn describe<'a>(
    version: i16,
    partition_index: i32,
    found: Result<Option<LogPosition>, ErrorCode>,
) -> ListOffsetsPartitionResponse<'a> {
    let answer = ListOffsetsPartitionResponse { partition_index, ..Default::default() };
    match found {
        Ok(None) => answer,
        Ok(Some(found)) => ListOffsetsPartitionResponse {
            timestamp: found.timestamp_ms,
            offset: found.offset,
            leader_epoch: if version >= 4 { found.leader_epoch } else { -1 },
            ..answer
        },
        Err(error) => ListOffsetsPartitionResponse { error_code: error.code(), ..answer },
    }
}

pub(super) fn refuse<'a>(request: &ListOffsetsRequest<'a>, error: ErrorCode) -> ListOffsetsResponse<'a> {
    let refused = |topic: &ListOffsetsTopic<'a>| ListOffsetsTopicResponse {
        name: topic.name,
        partitions: topic.partitions.iter().map(|wanted| describe(0, wanted.partition_index, Err(error))).collect(),
        ..Default::default()
    };
    ListOffsetsResponse { topics: request.topics.iter().map(refused).collect(), ..Default::default() }
}

pub(super) fn mentions<'a>(request: &ListOffsetsRequest<'a>) -> Mentions<'a> {
    let partitions = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| (TopicKey::Name(topic.name), partition.partition_index))
    });
    Mentions { partitions: partitions.collect(), ..Default::default() }
}
