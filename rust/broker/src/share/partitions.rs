//! The share partitions of the cluster, and the end of their locks.

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::types::Uuid;

use super::{ShareKey, SharePartition, Snapshot};

/// All share partitions of the cluster.
#[derive(Debug, Default)]
pub(crate) struct SharePartitions {
    /// The last snapshots, as the leaders of the partitions of `__share_group_state` keep them.
    snapshots: BTreeMap<ShareKey, Snapshot>,
    /// The share partitions in use, as the leaders of the partitions keep them.
    partitions: BTreeMap<ShareKey, SharePartition>,
    /// The times at which locks of share partitions are over.
    due: BTreeSet<(i64, ShareKey)>,
}

impl SharePartitions {
    /// The time at which the first lock is over.
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// A share partition with a lock that is over.
    pub(crate) fn first_due(&self, now_ms: i64) -> Option<ShareKey> {
        self.due.first().filter(|(due_ms, _)| *due_ms <= now_ms).map(|(_, key)| key.clone())
    }

    pub(crate) fn partition(&self, key: &ShareKey) -> Option<&SharePartition> {
        self.partitions.get(key)
    }

    /// The share partitions of a group that are in use.
    pub(crate) fn of_group(&self, group: &str) -> Vec<ShareKey> {
        self.partitions.keys().filter(|key| *key.group == *group).cloned().collect()
    }

    /// Puts a share partition into use, or back with what has changed.
    pub(crate) fn put(&mut self, key: &ShareKey, partition: SharePartition) {
        self.drop_partition(key);
        if let Some(due_ms) = partition.next_due_ms() {
            self.due.insert((due_ms, key.clone()));
        }
        self.partitions.insert(key.clone(), partition);
    }

    /// Drops a share partition, so that its next use reads it back.
    pub(crate) fn drop_partition(&mut self, key: &ShareKey) {
        let due_ms = self.partitions.remove(key).and_then(|before| before.next_due_ms());
        if let Some(due_ms) = due_ms {
            self.due.remove(&(due_ms, key.clone()));
        }
    }

    /// Drops the share partitions of a partition whose leader has changed.
    pub(crate) fn leader_changed(&mut self, topic: Uuid, partition: i32) {
        let is_gone = |key: &&ShareKey| key.topic == topic && key.partition == partition;
        for key in self.partitions.keys().filter(is_gone).cloned().collect::<Vec<_>>() {
            self.drop_partition(&key);
        }
    }

    pub(crate) fn snapshot(&self, key: &ShareKey) -> Option<&Snapshot> {
        self.snapshots.get(key)
    }

    pub(crate) fn set_snapshot(&mut self, key: ShareKey, snapshot: Option<Snapshot>) {
        match snapshot {
            Some(snapshot) => _ = self.snapshots.insert(key, snapshot),
            None => _ = self.snapshots.remove(&key),
        }
    }

    /// Forgets the snapshots that `which` says: those of a partition of `__share_group_state` that are read back.
    pub(crate) fn forget_snapshots(&mut self, which: impl Fn(&ShareKey) -> bool) {
        self.snapshots.retain(|key, _| !which(key));
    }

    /// The keys of all snapshots of a topic.
    pub(crate) fn keys_of_topic(&self, topic: Uuid) -> Vec<ShareKey> {
        self.snapshots.keys().filter(|key| key.topic == topic).cloned().collect()
    }
}
