//! Topic ids in OffsetCommit and OffsetFetch (version 10 and later). With them, the coordinator never takes offsets of
//! a deleted topic for offsets of one that was recreated under its name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::offset_commit::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use monedula_protocol::messages::offset_fetch::{OffsetFetchRequestTopics, OffsetFetchResponse};
use monedula_protocol::types::Uuid;

use super::types::{CommitOffset, Committed, Offsets, PartitionCodes};
use crate::TopicPartition;

/// Topic ids by topic name, without the ones that are not known.
pub type TopicIds = BTreeMap<Arc<str>, Uuid>;

/// The error of the group, and the committed offsets.
type Fetched = (ErrorCode, BTreeMap<TopicPartition, Result<Committed, ErrorCode>>);

/// The first version of OffsetCommit and OffsetFetch that names topics by id.
pub(crate) const TOPIC_IDS_FROM: i16 = 10;

/// The topic ids of these partitions, as far as `owned` has them. There, zero stands for an id that is not known.
pub(crate) fn topic_ids<'a>(
    owned: &BTreeMap<TopicPartition, Uuid>,
    partitions: impl Iterator<Item = &'a TopicPartition>,
) -> TopicIds {
    let known = partitions.filter_map(|partition| Some((partition.topic.clone(), *owned.get(partition)?)));
    known.filter(|(_, id)| !id.is_zero()).collect()
}

pub(crate) fn are_all_known<'a>(topic_ids: &TopicIds, mut of: impl Iterator<Item = &'a TopicPartition>) -> bool {
    of.all(|partition| topic_ids.contains_key(&partition.topic))
}

/// The id of a topic; zero, which no topic has, if it is not known.
fn id_of(topic_ids: &TopicIds, topic: &str) -> Uuid {
    topic_ids.get(topic).copied().unwrap_or_default()
}

/// The name of a topic; empty, which no topic is called, if the id was not in the request.
pub(crate) fn name_of(topic_ids: &TopicIds, id: Uuid) -> &str {
    topic_ids.iter().find(|(_, known)| **known == id).map_or("", |(topic, _)| topic)
}

/// The offsets to commit by topic, each topic with its name and id: each version of a request encodes one of the two.
pub(crate) fn by_topic<'a, P>(
    offsets: &'a Offsets,
    topic_ids: &TopicIds,
    partition: impl Fn(i32, &'a CommitOffset) -> P,
) -> impl Iterator<Item = (&'a str, Uuid, Vec<P>)> {
    let mut topics: BTreeMap<&str, Vec<P>> = BTreeMap::new();
    for (at, committed) in offsets {
        topics.entry(&at.topic).or_default().push(partition(at.partition, committed));
    }
    topics.into_iter().map(|(name, partitions)| (name, id_of(topic_ids, name), partitions))
}

/// The topics of an OffsetCommit.
pub(crate) fn commit_topics<'a>(offsets: &'a Offsets, topic_ids: &TopicIds) -> Vec<OffsetCommitRequestTopic<'a>> {
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
pub(crate) fn committed(
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

/// The topics of an OffsetFetch, from version 8 on.
pub(crate) fn lookup_topics<'a>(
    by_topic: BTreeMap<&'a str, Vec<i32>>,
    topic_ids: &TopicIds,
) -> Vec<OffsetFetchRequestTopics<'a>> {
    let topic = |(name, partition_indexes)| OffsetFetchRequestTopics {
        name,
        topic_id: id_of(topic_ids, name),
        partition_indexes,
        ..Default::default()
    };
    by_topic.into_iter().map(topic).collect()
}

/// The answer to OffsetFetch, limited to the requested partitions: the group's error, and the committed offsets.
pub(crate) fn fetched(
    response: &OffsetFetchResponse<'_>,
    group_id: &str,
    asked: &[TopicPartition],
    topic_ids: &TopicIds,
    version: i16,
) -> Fetched {
    let asked: BTreeSet<&TopicPartition> = asked.iter().collect();
    let mut offsets: BTreeMap<TopicPartition, Result<Committed, ErrorCode>> = BTreeMap::new();
    let mut add = |topic: &str, index, code, offset, leader_epoch, metadata: Option<&str>| {
        let partition = TopicPartition::new(topic, index);
        if asked.contains(&partition) {
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
        return (ErrorCode::from_code(response.error_code), offsets);
    }
    let Some(group) = response.groups.iter().find(|answered| answered.group_id == group_id) else {
        return (ErrorCode::UnknownServerError, offsets);
    };
    for topic in &group.topics {
        let name = if version < TOPIC_IDS_FROM { topic.name } else { name_of(topic_ids, topic.topic_id) };
        for at in &topic.partitions {
            let (offset, epoch) = (at.committed_offset, at.committed_leader_epoch);
            add(name, at.partition_index, at.error_code, offset, epoch, at.metadata);
        }
    }
    (ErrorCode::from_code(group.error_code), offsets)
}
