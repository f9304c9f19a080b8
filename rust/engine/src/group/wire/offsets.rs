//! Encoding of OffsetCommit and OffsetFetch and decoding of their answers: by the names of topics, and from version 10
//! on by their ids.

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::offset_commit::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use monedula_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics, OffsetFetchResponse,
};

use crate::TopicPartition;
use crate::group::messages::{
    CommitOffset, Committed, Offsets, PartitionCodes, TOPIC_IDS_FROM, TopicIds, by_topic, id_of, name_of,
};

/// The error of the group, and the committed offsets.
type Fetched = (ErrorCode, BTreeMap<TopicPartition, Result<Committed, ErrorCode>>);

/// The topics of an OffsetCommit, with their names, and with their ids as far as `topic_ids` has them.
pub fn commit_topics<'a>(offsets: &'a Offsets, topic_ids: &TopicIds) -> Vec<OffsetCommitRequestTopic<'a>> {
    let partition = |partition_index, at: &'a CommitOffset| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: at.offset,
        committed_leader_epoch: at.leader_epoch,
        committed_metadata: Some(&at.metadata),
        ..Default::default()
    };
    let topics = by_topic(offsets, topic_ids, partition);
    let topic =
        |(name, topic_id, partitions)| OffsetCommitRequestTopic { name, topic_id, partitions, ..Default::default() };
    topics.map(topic).collect()
}

/// The result of each partition in the answer to OffsetCommit, limited to the requested ones.
pub(super) fn committed(
    response: &OffsetCommitResponse<'_>,
    asked: &Offsets,
    topic_ids: &TopicIds,
    version: i16,
) -> PartitionCodes {
    let mut codes = PartitionCodes::new();
    for topic in &response.topics {
        let name = if version < TOPIC_IDS_FROM { topic.name } else { name_of(topic_ids, topic.topic_id) };
        for at in &topic.partitions {
            let partition = TopicPartition::new(name, at.partition_index);
            if asked.contains_key(&partition) {
                codes.entry(partition).or_insert(ErrorCode::from_code(at.error_code));
            }
        }
    }
    codes
}

/// An OffsetFetch of these partitions, or of all. `member`: its id and epoch; KIP-848 only.
pub fn offset_fetch_request<'a>(
    group_id: &'a str,
    member: Option<&'a (String, i32)>,
    partitions: Option<&'a [TopicPartition]>,
    topic_ids: &TopicIds,
    version: i16,
) -> OffsetFetchRequest<'a> {
    let by_topic = partitions.map(|partitions| {
        let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for partition in partitions {
            by_topic.entry(&partition.topic).or_default().push(partition.partition);
        }
        by_topic
    });
    // `require_stable` came with version 7. Older brokers also return offsets that an open transaction may still
    // change.
    let require_stable = version >= 7;
    if version <= 7 {
        let topic =
            |(name, partition_indexes)| OffsetFetchRequestTopic { name, partition_indexes, ..Default::default() };
        let topics = by_topic.map(|topics| topics.into_iter().map(topic).collect());
        return OffsetFetchRequest { group_id, topics, require_stable, ..Default::default() };
    }
    let topic = |(name, partition_indexes)| OffsetFetchRequestTopics {
        name,
        topic_id: id_of(topic_ids, name),
        partition_indexes,
        ..Default::default()
    };
    let topics = by_topic.map(|topics| topics.into_iter().map(topic).collect());
    let mut group = OffsetFetchRequestGroup { group_id, topics, ..Default::default() };
    if let Some((member_id, epoch)) = member {
        (group.member_id, group.member_epoch) = (Some(member_id.as_str()), *epoch);
    }
    OffsetFetchRequest { groups: vec![group], require_stable, ..Default::default() }
}

/// The answer to OffsetFetch, limited to the requested partitions: the group's error, and the committed offsets. `None`
/// if it is about another group.
pub fn committed_offsets(
    response: &OffsetFetchResponse<'_>,
    group_id: &str,
    asked: Option<&[TopicPartition]>,
    topic_ids: &TopicIds,
    version: i16,
) -> Option<Fetched> {
    let asked: Option<BTreeSet<&TopicPartition>> = asked.map(|asked| asked.iter().collect());
    let mut offsets: BTreeMap<TopicPartition, Result<Committed, ErrorCode>> = BTreeMap::new();
    let mut add = |topic: &str, index, code, offset, leader_epoch, metadata: Option<&str>| {
        let partition = TopicPartition::new(topic, index);
        if asked.as_ref().is_none_or(|asked| asked.contains(&partition)) {
            let metadata = metadata.unwrap_or_default().to_owned();
            let committed = (offset >= 0).then_some(CommitOffset { offset, leader_epoch, metadata });
            offsets.entry(partition).or_insert(ErrorCode::check(code).map(|()| committed));
        }
    };
    if version <= 7 {
        for topic in &response.topics {
            for at in &topic.partitions {
                let (offset, epoch) = (at.committed_offset, at.committed_leader_epoch);
                add(topic.name, at.partition_index, at.error_code, offset, epoch, at.metadata);
            }
        }
        return Some((ErrorCode::from_code(response.error_code), offsets));
    }
    let group = response.groups.iter().find(|answered| answered.group_id == group_id)?;
    for topic in &group.topics {
        let name = if version < TOPIC_IDS_FROM { topic.name } else { name_of(topic_ids, topic.topic_id) };
        for at in &topic.partitions {
            let (offset, epoch) = (at.committed_offset, at.committed_leader_epoch);
            add(name, at.partition_index, at.error_code, offset, epoch, at.metadata);
        }
    }
    Some((ErrorCode::from_code(group.error_code), offsets))
}
