//! The offsets of one group: the committed ones, and those in open transactions.
//!
//! This is a pure store. [`super::commits`] checks whether a commit is allowed.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use super::Effects;
use super::records::{self, OffsetKey};

#[derive(Debug, Default)]
pub(crate) struct Offsets {
    committed: BTreeMap<Arc<str>, BTreeMap<i32, CommittedOffset>>,
    /// The offsets of open transactions, by producer id.
    pending: BTreeMap<i64, BTreeMap<(Arc<str>, i32), CommittedOffset>>,
    /// The order of the latest commit, transactional ones included.
    last_order: u64,
}

/// An offset as it was committed, or as an open transaction will commit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommittedOffset {
    /// The id of the topic; zeros if the record was written without it.
    pub(crate) topic_id: Uuid,
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: Box<str>,
    pub(crate) committed_at_ms: i64,
    /// Set if the client requested a retention time (OffsetCommit up to version 4).
    pub(crate) expires_at_ms: Option<i64>,
    /// The number of the commit among all of the group: a transaction that ends must not overwrite an offset that was
    /// committed after its own.
    pub(crate) order: u64,
}

impl CommittedOffset {
    /// True if the offset belongs to an earlier topic of the same name, so that it means nothing for the recreated one
    /// (KAFKA-19246). False if either id is zeros, because then it cannot be known.
    pub(crate) fn is_of_another(&self, topic_id: Uuid) -> bool {
        !topic_id.is_zero() && !self.topic_id.is_zero() && topic_id != self.topic_id
    }
}

impl Offsets {
    pub(crate) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty()
    }

    pub(crate) fn get(&self, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        self.committed.get(topic)?.get(&partition)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Arc<str>, &BTreeMap<i32, CommittedOffset>)> {
        self.committed.iter()
    }

    /// True if an open transaction has an offset for the partition.
    pub(crate) fn is_pending(&self, topic: &str, partition: i32) -> bool {
        self.pending.values().any(|offsets| offsets.keys().any(|(name, index)| &**name == topic && *index == partition))
    }

    /// True if there is an offset of a topic, committed or pending.
    pub(super) fn mentions(&self, topic: &str) -> bool {
        self.committed.contains_key(topic)
            || self.pending.values().any(|offsets| offsets.keys().any(|(name, _)| &**name == topic))
    }

    pub(crate) fn has_pending_of(&self, producer_id: i64) -> bool {
        self.pending.contains_key(&producer_id)
    }

    /// Commits an offset, or adds it to the producer's transaction.
    pub(super) fn commit(
        &mut self,
        group: &str,
        key: &OffsetKey<'_>,
        mut committed: CommittedOffset,
        effects: &mut Effects,
    ) {
        self.last_order += 1;
        committed.order = self.last_order;
        effects.store(records::offset(group, key, Some(&committed)));
        self.put(key, committed);
    }

    fn put(&mut self, key: &OffsetKey<'_>, committed: CommittedOffset) {
        let topic = self.name(key.topic);
        match key.producer_id {
            None => self.committed.entry(topic).or_default().insert(key.partition, committed),
            Some(id) => self.pending.entry(id).or_default().insert((topic, key.partition), committed),
        };
    }

    /// The topic's name, shared by all its partitions to save allocations.
    fn name(&self, topic: &str) -> Arc<str> {
        self.committed.get_key_value(topic).map_or_else(|| topic.into(), |(name, _)| Arc::clone(name))
    }

    /// Deletes an offset, also from open transactions.
    pub(super) fn delete(&mut self, group: &str, topic: &str, partition: i32, effects: &mut Effects) {
        let producer_ids: Vec<_> = [None].into_iter().chain(self.pending.keys().copied().map(Some)).collect();
        for producer_id in producer_ids {
            let key = OffsetKey { topic, partition, producer_id };
            if self.remove(&key) {
                effects.store(records::offset(group, &key, None));
            }
        }
    }

    fn remove(&mut self, key: &OffsetKey<'_>) -> bool {
        match key.producer_id {
            None => {
                let Some(partitions) = self.committed.get_mut(key.topic) else { return false };
                let found = partitions.remove(&key.partition).is_some();
                if partitions.is_empty() {
                    self.committed.remove(key.topic);
                }
                found
            }
            Some(producer_id) => {
                let Some(pending) = self.pending.get_mut(&producer_id) else { return false };
                let found = pending.remove(&(key.topic.into(), key.partition)).is_some();
                if pending.is_empty() {
                    self.pending.remove(&producer_id);
                }
                found
            }
        }
    }

    /// Every topic and partition that has an offset, committed or pending.
    pub(super) fn partitions(&self) -> Vec<(Arc<str>, i32)> {
        let committed = self
            .committed
            .iter()
            .flat_map(|(topic, partitions)| partitions.keys().map(|&partition| (Arc::clone(topic), partition)));
        let mut all: Vec<_> =
            committed.chain(self.pending.values().flat_map(|offsets| offsets.keys().cloned())).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Ends a producer's transaction: its offsets become committed, or are dropped.
    pub(super) fn complete(&mut self, group: &str, producer_id: i64, commit: bool, effects: &mut Effects) {
        for ((topic, partition), pending) in self.pending.remove(&producer_id).unwrap_or_default() {
            let key = OffsetKey { topic: &topic, partition, producer_id: Some(producer_id) };
            effects.store(records::offset(group, &key, None));
            // The later commit wins, whichever transaction ends first.
            let superseded = self.get(&topic, partition).is_some_and(|found| found.order > pending.order);
            if commit && !superseded {
                let key = OffsetKey { producer_id: None, ..key };
                effects.store(records::offset(group, &key, Some(&pending)));
                self.put(&key, pending);
            }
        }
    }

    /// Applies a record that was read back from the log.
    pub(super) fn replay(&mut self, key: &OffsetKey<'_>, committed: Option<CommittedOffset>) {
        let Some(mut committed) = committed else {
            self.remove(key);
            return;
        };
        // Records of Kafka, and those with an expiry time, have no order: their position in the log decides.
        if committed.order == 0 {
            committed.order = self.last_order + 1;
        }
        self.last_order = self.last_order.max(committed.order);
        self.put(key, committed);
    }
}
