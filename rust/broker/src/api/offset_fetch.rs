//! OffsetFetch, versions 1-10: returns the committed offsets of groups.
//!
//! Requests of all versions are converted to the form of version 8: several groups, each with an error of its own.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use monedula_protocol::types::Uuid;

use super::Handled;
use crate::core::Core;
use crate::groups::Slot;
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

/// A request can name several groups from this version on.
const GROUPS_FROM: i16 = 8;
/// The response has an error code of its own from this version on.
const TOP_LEVEL_ERROR_FROM: i16 = 2;
/// Topics are identified by id from this version on.
const TOPIC_IDS_FROM: i16 = 10;

/// The offsets of one topic of a group, before they are converted to the response of a version.
struct TopicOffsets {
    name: Arc<str>,
    id: Uuid,
    partitions: Vec<PartitionOffset>,
}

struct PartitionOffset {
    partition: i32,
    error: ErrorCode,
    offset: i64,
    leader_epoch: i32,
    metadata: Box<str>,
}

impl PartitionOffset {
    /// The result for a partition without a committed offset, or with an error.
    fn none(partition: i32, error: ErrorCode) -> Self {
        Self { partition, error, offset: -1, leader_epoch: -1, metadata: "".into() }
    }
}

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &OffsetFetchRequest<'_>) -> Handled {
    let groups = groups(call.version, request);
    let found: Vec<_> = groups.iter().map(|group| fetch(core, call, request.require_stable, group)).collect();
    if call.version >= GROUPS_FROM {
        let answers = groups.iter().zip(&found).map(|(group, found)| OffsetFetchResponseGroup {
            group_id: group.group_id,
            topics: found.iter().flatten().map(|topic| with_ids(call.version, topic)).collect(),
            error_code: found.as_ref().err().map_or(0, |error| error.code()),
            ..Default::default()
        });
        return Ok(call.answer::<OffsetFetchRequest<'_>>(&OffsetFetchResponse {
            groups: answers.collect(),
            ..Default::default()
        }));
    }
    let response = match found.first() {
        Some(Ok(topics)) => {
            OffsetFetchResponse { topics: topics.iter().map(with_name).collect(), ..Default::default() }
        }
        Some(Err(error)) => refuse_in(request, *error, call.version),
        None => OffsetFetchResponse::default(),
    };
    Ok(call.answer::<OffsetFetchRequest<'_>>(&response))
}

fn groups<'a>(version: i16, request: &OffsetFetchRequest<'a>) -> Vec<OffsetFetchRequestGroup<'a>> {
    if version >= GROUPS_FROM {
        return request.groups.clone();
    }
    let topics = request.topics.as_ref().map(|topics| {
        let topics = topics.iter().map(|topic| OffsetFetchRequestTopics {
            name: topic.name,
            partition_indexes: topic.partition_indexes.clone(),
            ..Default::default()
        });
        topics.collect()
    });
    vec![OffsetFetchRequestGroup { group_id: request.group_id, topics, ..Default::default() }]
}

fn fetch(
    core: &mut Core,
    call: &Call<'_>,
    require_stable: bool,
    group: &OffsetFetchRequestGroup<'_>,
) -> Result<Vec<TopicOffsets>, ErrorCode> {
    core.authorize(call, Operation::Describe, Resource::Group(group.group_id))?;
    let index = core.group_partition(call.node, group.group_id)?;
    if let Some(found) = core.groups.slot(index, group.group_id).and_then(|slot| slot.group.as_ref()) {
        found.check_offset_fetch(group.member_id, group.member_epoch)?;
    }
    let Some(wanted) = &group.topics else {
        let slot = core.groups.slot(index, group.group_id);
        let mut all = slot.map(|slot| all(core, call.version, require_stable, slot)).unwrap_or_default();
        // Offsets of topics that the client may not describe are left out.
        all.retain(|topic| core.allows(call, Operation::Describe, Resource::Topic(&topic.name)));
        return Ok(all);
    };
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for topic in wanted {
        let refused = |name, error| {
            let none = |&partition: &i32| PartitionOffset::none(partition, error);
            TopicOffsets { name, id: topic.topic_id, partitions: topic.partition_indexes.iter().map(none).collect() }
        };
        match name_of(core, call.version, topic) {
            Some(name) if !core.allows(call, Operation::Describe, Resource::Topic(&name)) => {
                unknown.push(refused(name, ErrorCode::TopicAuthorizationFailed));
            }
            Some(name) => {
                let partitions = topic.partition_indexes.iter().map(|&partition| {
                    match core.faults.partition_error(call, &name, partition) {
                        Some(error) => PartitionOffset::none(partition, error),
                        None => one(
                            core.groups.slot(index, group.group_id),
                            require_stable,
                            (&name, topic.topic_id),
                            partition,
                        ),
                    }
                });
                let partitions = partitions.collect();
                known.push(TopicOffsets { name, id: topic.topic_id, partitions });
            }
            None => unknown.push(refused("".into(), ErrorCode::UnknownTopicId)),
        }
    }
    known.append(&mut unknown);
    Ok(known)
}

fn name_of(core: &Core, version: i16, topic: &OffsetFetchRequestTopics<'_>) -> Option<Arc<str>> {
    if version >= TOPIC_IDS_FROM { core.topics.name_of(topic.topic_id) } else { Some(topic.name.into()) }
}

/// The committed offset of a partition. `topic_id` is zero if the topic was requested by name.
fn one(slot: Option<&Slot>, require_stable: bool, (topic, topic_id): (&str, Uuid), partition: i32) -> PartitionOffset {
    let Some(slot) = slot else { return PartitionOffset::none(partition, ErrorCode::None) };
    // With require_stable, an offset that an open transaction may still change is not returned (KIP-447).
    if require_stable && slot.offsets.is_pending(topic, partition) {
        return PartitionOffset::none(partition, ErrorCode::UnstableOffsetCommit);
    }
    let Some(committed) = slot.offsets.get(topic, partition).filter(|committed| !committed.is_of_another(topic_id))
    else {
        return PartitionOffset::none(partition, ErrorCode::None);
    };
    PartitionOffset {
        partition,
        error: ErrorCode::None,
        offset: committed.offset,
        leader_epoch: committed.leader_epoch,
        metadata: committed.metadata.clone(),
    }
}

fn all(core: &Core, version: i16, require_stable: bool, slot: &Slot) -> Vec<TopicOffsets> {
    let topic = |(name, partitions): (&Arc<str>, &std::collections::BTreeMap<i32, _>)| {
        let id = core.topics.get(name).map(|topic| topic.id);
        let id = if version >= TOPIC_IDS_FROM { id? } else { id.unwrap_or_default() };
        let partitions = partitions
            .keys()
            .map(|&partition| one(Some(slot), require_stable, (name, Uuid::default()), partition))
            .collect();
        Some(TopicOffsets { name: Arc::clone(name), id, partitions })
    };
    slot.offsets.all().filter_map(topic).collect()
}

fn with_ids(version: i16, topic: &TopicOffsets) -> OffsetFetchResponseTopics<'_> {
    let partitions = topic.partitions.iter().map(|offset| OffsetFetchResponsePartitions {
        partition_index: offset.partition,
        committed_offset: offset.offset,
        committed_leader_epoch: offset.leader_epoch,
        metadata: Some(&offset.metadata),
        error_code: offset.error.code(),
        ..Default::default()
    });
    let id = if version >= TOPIC_IDS_FROM { topic.id } else { Uuid::default() };
    OffsetFetchResponseTopics {
        name: &topic.name,
        topic_id: id,
        partitions: partitions.collect(),
        ..Default::default()
    }
}

fn with_name(topic: &TopicOffsets) -> OffsetFetchResponseTopic<'_> {
    let partitions = topic.partitions.iter().map(|offset| OffsetFetchResponsePartition {
        partition_index: offset.partition,
        committed_offset: offset.offset,
        committed_leader_epoch: offset.leader_epoch,
        metadata: Some(&offset.metadata),
        error_code: offset.error.code(),
        ..Default::default()
    });
    OffsetFetchResponseTopic { name: &topic.name, partitions: partitions.collect(), ..Default::default() }
}

/// The response for the only group of a request up to version 7.
fn refuse_in<'a>(request: &OffsetFetchRequest<'a>, error: ErrorCode, version: i16) -> OffsetFetchResponse<'a> {
    if version >= TOP_LEVEL_ERROR_FROM {
        return OffsetFetchResponse { error_code: error.code(), ..Default::default() };
    }
    let partition = |&partition_index: &i32| OffsetFetchResponsePartition {
        partition_index,
        committed_offset: -1,
        metadata: Some(""),
        error_code: error.code(),
        ..Default::default()
    };
    let topics = request.topics.iter().flatten().map(|topic| OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic.partition_indexes.iter().map(partition).collect(),
        ..Default::default()
    });
    OffsetFetchResponse { topics: topics.collect(), ..Default::default() }
}

pub(super) fn refuse<'a>(request: &OffsetFetchRequest<'a>, error: ErrorCode) -> OffsetFetchResponse<'a> {
    let groups = request.groups.iter().map(|group| OffsetFetchResponseGroup {
        group_id: group.group_id,
        error_code: error.code(),
        ..Default::default()
    });
    // A request has either groups (from version 8 on) or topics. The encoder leaves the top-level error out of version
    // 1.
    let groups: Vec<_> = groups.collect();
    if groups.is_empty() {
        OffsetFetchResponse { error_code: error.code(), ..refuse_in(request, error, 1) }
    } else {
        OffsetFetchResponse { groups, ..Default::default() }
    }
}

pub(super) fn mentions<'a>(request: &OffsetFetchRequest<'a>) -> Mentions<'a> {
    let mut mentions = Mentions::default();
    for topic in request.topics.iter().flatten() {
        let key = TopicKey::Name(topic.name);
        mentions.partitions.extend(topic.partition_indexes.iter().map(|&partition| (key, partition)));
    }
    for topic in request.groups.iter().flat_map(|group| group.topics.iter().flatten()) {
        let key = TopicKey::new(topic.name, topic.topic_id);
        mentions.partitions.extend(topic.partition_indexes.iter().map(|&partition| (key, partition)));
    }
    mentions.groups = request.groups.iter().map(|group| group.group_id).collect();
    if mentions.groups.is_empty() {
        mentions.groups.push(request.group_id);
    }
    mentions
}
