//! Which partitions are new: those that were added while the member knew their topic start at their smallest offset, whatever the
//! policy, and so do those of a topic that was made anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use super::TopicInfo;
use crate::TopicPartition;

/// The topic that was there when a name was looked at last, and how many of its partitions are old.
#[derive(Clone, Copy, Debug)]
struct First {
    /// Zero where there was no topic yet, or brokers tell no ids.
    id: Uuid,
    partitions: usize,
}

/// How many partitions each topic had when it was first seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstSeen(BTreeMap<Arc<str>, First>);

impl FirstSeen {
    /// Nothing of what is found under this name was there before; a topic that is known stays as old as it is.
    pub(crate) fn expect(&mut self, topic: &Arc<str>) {
        self.0.entry(topic.clone()).or_insert(First { id: Uuid::ZERO, partitions: 0 });
    }

    /// Takes what metadata says of a name: `None` where there is no such topic. `old`: how many partitions count as old if it is
    /// seen for the first time. Where another topic was known under the name, that was deleted and this one made anew.
    pub(crate) fn see(&mut self, topic: &Arc<str>, info: Option<TopicInfo>, old: usize) {
        let id = info.map_or(Uuid::ZERO, |info| info.id);
        let first = self.0.entry(topic.clone()).or_insert(First { id, partitions: old });
        let is_told = !id.is_zero() && !first.id.is_zero();
        let replaced = is_told && first.id != id;
        // Without ids, a topic that is gone is gone; with them, the next one's id tells. Nor does a topic lose partitions.
        let gone = first.id.is_zero() && info.map_or(0, |info| info.partitions) < first.partitions;
        if replaced || gone {
            first.partitions = 0;
        }
        if !id.is_zero() {
            first.id = id;
        }
    }

    /// The id of the topic that was last seen under this name; zero where none is known.
    pub(crate) fn id(&self, topic: &str) -> Uuid {
        self.0.get(topic).map(|first| first.id).unwrap_or_default()
    }

    /// Whether the partition was added to its topic while this member knew it.
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
