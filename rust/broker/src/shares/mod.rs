//! Share partitions (KIP-932): which member of a share group has which records of a partition.
//!
//! A [`SharePartition`] is the state of one partition for one group: a pure state machine of its leader, which is read
//! back from its last [`Snapshot`] in `__share_group_state` when it is used first, and dropped when the leader changes.
//! A [`ShareSessions`] remembers the partitions that a member fetches. The groups themselves, their members and
//! assignments, are in [`groups`](crate::groups).

mod acknowledgement;
mod acquisition;
mod dead_letter;
mod fetch;
mod limits;
mod partition;
mod run;
mod sessions;
mod settings;
mod snapshot;
mod state_batch;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::types::Uuid;

pub(crate) use acknowledgement::Acknowledgement;
pub(crate) use acquisition::{Acquired, Acquisition};
pub(crate) use dead_letter::{DeadLetter, DeathCause};
pub(crate) use fetch::{ShareFetch, ShareFetched, ShareWanted};
pub(crate) use limits::ShareLimits;
pub(crate) use partition::SharePartition;
pub(crate) use sessions::{FINAL_EPOCH, INITIAL_EPOCH, SessionKey, SessionTopics, ShareSessions};
pub(crate) use settings::{OffsetReset, ShareSettings};
pub(crate) use snapshot::{Snapshot, read_snapshot, snapshot_record};

/// A partition for a share group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShareKey {
    pub(crate) group: Arc<str>,
    pub(crate) topic: Uuid,
    pub(crate) partition: i32,
}

impl ShareKey {
    /// The key by which Kafka chooses the partition of `__share_group_state`.
    pub(crate) fn coordinator_key(&self) -> String {
        format!("{}:{}:{}", self.group, self.topic, self.partition)
    }
}

/// All share partitions of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// The last snapshots, as the leaders of the partitions of `__share_group_state` keep them.
    snapshots: BTreeMap<ShareKey, Snapshot>,
    /// The share partitions in use, as the leaders of the partitions keep them.
    partitions: BTreeMap<ShareKey, SharePartition>,
    /// The times at which locks of share partitions are over.
    due: BTreeSet<(i64, ShareKey)>,
    pub(crate) sessions: ShareSessions,
}

impl Shares {
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
