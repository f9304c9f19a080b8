//! Topic ids, by which OffsetCommit and OffsetFetch name topics from version 10 on. With them, the coordinator never
//! takes offsets of a deleted topic for offsets of one that was recreated under its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use super::types::{CommitOffset, Offsets};
use crate::TopicPartition;

/// Topic ids by topic name, without the ones that are not known.
pub type TopicIds = BTreeMap<Arc<str>, Uuid>;

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
pub(crate) fn id_of(topic_ids: &TopicIds, topic: &str) -> Uuid {
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
