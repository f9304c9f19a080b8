//! Decides which partitions are new: those that were added while the member knew their topic, and all of a topic that
//! was recreated. New partitions start at their log start offset, whatever `auto.offset.reset` says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use crate::TopicPartition;
use crate::group::messages::TopicInfo;

/// The topic that a name last stood for, and how many of its partitions are old.
#[derive(Clone, Copy, Debug)]
struct First {
    /// Zero if there was no topic yet, or if brokers send no topic ids.
    id: Uuid,
    partitions: usize,
}

/// The number of partitions of each topic when it was first seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstSeen(BTreeMap<Arc<str>, First>);

impl FirstSeen {
    /// Expects a topic that does not exist yet: if the name is not known, all partitions found under it later are new.
    pub(crate) fn expect(&mut self, topic: &Arc<str>) {
        self.0.entry(topic.clone()).or_insert(First { id: Uuid::ZERO, partitions: 0 });
    }

    /// Takes what metadata says about a name: `None` if there is no such topic. `old`: how many partitions count as old
    /// if the name is seen for the first time. If another topic was known under the name, it was deleted and this one
    /// recreated.
    pub(crate) fn see(&mut self, topic: &Arc<str>, info: Option<TopicInfo>, old: usize) {
        let id = info.map_or(Uuid::ZERO, |info| info.id);
        let first = self.0.entry(topic.clone()).or_insert(First { id, partitions: old });
        let are_known = !id.is_zero() && !first.id.is_zero();
        let replaced = are_known && first.id != id;
        // Without topic ids, a missing topic counts as deleted, and so does one with fewer partitions than before:
        // topics never lose partitions. With ids, the next topic's id shows whether it was recreated.
        let gone = first.id.is_zero() && info.map_or(0, |info| info.partitions) < first.partitions;
        if replaced || gone {
            first.partitions = 0;
        }
        if !id.is_zero() {
            first.id = id;
        }
    }

    /// The id of the topic last seen under this name; zero if none is known.
    pub(crate) fn id(&self, topic: &str) -> Uuid {
        self.0.get(topic).map(|first| first.id).unwrap_or_default()
    }

    /// Tells whether the partition was added to its topic while this member knew it.
    pub(crate) fn is_new(&self, partition: &TopicPartition) -> bool {
        let first = self.0.get(&partition.topic);
        first.is_some_and(|first| usize::try_from(partition.partition).is_ok_and(|index| index >= first.partitions))
    }

    pub(crate) fn keep(&mut self, topics: &BTreeSet<Arc<str>>) {
        self.0.retain(|topic, _| topics.contains(topic));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
