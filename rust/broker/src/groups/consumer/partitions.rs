//! Sets of partitions, by topic id.

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::types::Uuid;

/// A set of partitions by topic id. It has no topics without partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Partitions(BTreeMap<Uuid, BTreeSet<i32>>);

/// The partitions that a member holds, each with its assignment epoch (KIP-1251): the member epoch in which it was
/// assigned. A commit for a partition is refused if its member epoch is older than that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Held(BTreeMap<Uuid, BTreeMap<i32, i32>>);

impl Partitions {
    pub(crate) fn insert(&mut self, topic: Uuid, partition: i32) {
        self.0.entry(topic).or_default().insert(partition);
    }

    pub(crate) fn remove(&mut self, topic: Uuid, partition: i32) {
        if let Some(partitions) = self.0.get_mut(&topic) {
            partitions.remove(&partition);
            if partitions.is_empty() {
                self.0.remove(&topic);
            }
        }
    }

    pub(crate) fn contains(&self, topic: Uuid, partition: i32) -> bool {
        self.0.get(&topic).is_some_and(|partitions| partitions.contains(&partition))
    }

    /// The topic id and index of each partition, sorted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Uuid, i32)> {
        self.0.iter().flat_map(|(&topic, partitions)| partitions.iter().map(move |&partition| (topic, partition)))
    }

    /// The partitions of each topic, sorted by topic id.
    pub(crate) fn by_topic(&self) -> impl Iterator<Item = (Uuid, &BTreeSet<i32>)> {
        self.0.iter().map(|(&topic, partitions)| (topic, partitions))
    }
}

impl FromIterator<(Uuid, i32)> for Partitions {
    fn from_iter<I: IntoIterator<Item = (Uuid, i32)>>(partitions: I) -> Self {
        let mut all = Self::default();
        for (topic, partition) in partitions {
            all.insert(topic, partition);
        }
        all
    }
}

impl Held {
    pub(crate) fn insert(&mut self, topic: Uuid, partition: i32, epoch: i32) {
        self.0.entry(topic).or_default().insert(partition, epoch);
    }

    /// The assignment epoch of a partition.
    pub(crate) fn epoch(&self, topic: Uuid, partition: i32) -> Option<i32> {
        self.0.get(&topic)?.get(&partition).copied()
    }

    pub(crate) fn contains(&self, topic: Uuid, partition: i32) -> bool {
        self.epoch(topic, partition).is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The topic id, index and assignment epoch of each partition, sorted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Uuid, i32, i32)> {
        let one = |topic: Uuid| move |(&partition, &epoch): (&i32, &i32)| (topic, partition, epoch);
        self.0.iter().flat_map(move |(&topic, partitions)| partitions.iter().map(one(topic)))
    }

    /// The partitions of each topic with their assignment epochs, sorted by topic id.
    pub(crate) fn by_topic(&self) -> impl Iterator<Item = (Uuid, &BTreeMap<i32, i32>)> {
        self.0.iter().map(|(&topic, partitions)| (topic, partitions))
    }

    /// The partitions without their assignment epochs.
    pub(crate) fn partitions(&self) -> Partitions {
        self.iter().map(|(topic, partition, _)| (topic, partition)).collect()
    }

    /// The given partitions, all with the same assignment epoch.
    pub(crate) fn at(partitions: &Partitions, epoch: i32) -> Self {
        partitions.iter().map(|(topic, partition)| (topic, partition, epoch)).collect()
    }
}

impl FromIterator<(Uuid, i32, i32)> for Held {
    fn from_iter<I: IntoIterator<Item = (Uuid, i32, i32)>>(partitions: I) -> Self {
        let mut all = Self::default();
        for (topic, partition, epoch) in partitions {
            all.insert(topic, partition, epoch);
        }
        all
    }
}
