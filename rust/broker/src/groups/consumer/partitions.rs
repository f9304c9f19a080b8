//! Sets of partitions, by topic id.

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::types::Uuid;

/// Partitions by topic; no topic is there without any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Partitions(BTreeMap<Uuid, BTreeSet<i32>>);

/// Partitions that a member holds, each with the epoch in which it was given it (KIP-1251): who commits for a partition must
/// have heard of that epoch.
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

    /// One by one, by topic id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Uuid, i32)> {
        self.0.iter().flat_map(|(&topic, partitions)| partitions.iter().map(move |&partition| (topic, partition)))
    }

    /// Topic by topic, by id.
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

    /// The epoch in which the partition was given.
    pub(crate) fn epoch(&self, topic: Uuid, partition: i32) -> Option<i32> {
        self.0.get(&topic)?.get(&partition).copied()
    }

    pub(crate) fn contains(&self, topic: Uuid, partition: i32) -> bool {
        self.epoch(topic, partition).is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One by one, by topic id: topic, partition, epoch.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Uuid, i32, i32)> {
        let one = |topic: Uuid| move |(&partition, &epoch): (&i32, &i32)| (topic, partition, epoch);
        self.0.iter().flat_map(move |(&topic, partitions)| partitions.iter().map(one(topic)))
    }

    /// Topic by topic, by id.
    pub(crate) fn by_topic(&self) -> impl Iterator<Item = (Uuid, &BTreeMap<i32, i32>)> {
        self.0.iter().map(|(&topic, partitions)| (topic, partitions))
    }

    /// Without the epochs.
    pub(crate) fn partitions(&self) -> Partitions {
        self.iter().map(|(topic, partition, _)| (topic, partition)).collect()
    }

    /// With one epoch for all.
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
