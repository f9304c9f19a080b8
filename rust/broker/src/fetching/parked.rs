//! Fetches that wait for enough bytes. A change of one of their partitions or the end of their wait time completes
//! them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use crate::request::{ConnectionId, Ticket};

/// A partition: topic and index.
type PartitionKey = (Arc<str>, i32);

/// A request that waits for bytes of partitions.
pub(crate) trait Waiting {
    fn ticket(&self) -> Ticket;

    /// The time at which it is answered in any case.
    fn due_ms(&self) -> i64;

    /// The number of bytes for which it waits.
    fn min_bytes(&self) -> u64;

    /// The topic, if it is known, and index of each partition.
    fn partitions(&self) -> impl Iterator<Item = (Option<&Arc<str>>, i32)>;
}

#[derive(Debug)]
pub(crate) struct Parked<F> {
    fetches: BTreeMap<u64, ParkedFetch<F>>,
    next_id: u64,
    /// The fetches that wait for a partition, each with the index of that partition in it.
    by_partition: HashMap<PartitionKey, BTreeSet<(u64, usize)>>,
    due: BTreeSet<(i64, u64)>,
    by_connection: HashMap<ConnectionId, u64>,
    /// Partitions that changed since [`Parked::take_ready`] was called last.
    changed: BTreeSet<PartitionKey>,
    all_changed: bool,
}

#[derive(Debug)]
struct ParkedFetch<F> {
    fetch: F,
    /// Readable bytes of each partition.
    readable: Vec<u64>,
    readable_bytes: u64,
}

impl<F> Default for Parked<F> {
    fn default() -> Self {
        Self {
            fetches: BTreeMap::new(),
            next_id: 0,
            by_partition: HashMap::new(),
            due: BTreeSet::new(),
            by_connection: HashMap::new(),
            changed: BTreeSet::new(),
            all_changed: false,
        }
    }
}

impl<F: Waiting> Parked<F> {
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        self.due.first().map(|&(due_ms, _)| due_ms)
    }

    /// Parks a fetch. `readable` is how many bytes of its partition with an index can be read.
    pub(crate) fn park(&mut self, fetch: F, readable: impl Fn(&F, usize) -> Result<u64, ErrorCode>) {
        let id = self.next_id;
        self.next_id += 1;
        self.due.insert((fetch.due_ms(), id));
        self.by_connection.insert(fetch.ticket().connection, id);
        let mut bytes = Vec::new();
        for (place, (topic, index)) in fetch.partitions().enumerate() {
            if let Some(topic) = topic {
                self.by_partition.entry((Arc::clone(topic), index)).or_default().insert((id, place));
            }
            bytes.push(readable(&fetch, place).unwrap_or(0));
        }
        let readable_bytes = bytes.iter().sum();
        self.fetches.insert(id, ParkedFetch { fetch, readable: bytes, readable_bytes });
    }

    fn take(&mut self, id: u64) -> Option<F> {
        let ParkedFetch { fetch, .. } = self.fetches.remove(&id)?;
        self.due.remove(&(fetch.due_ms(), id));
        self.by_connection.remove(&fetch.ticket().connection);
        for (place, (topic, index)) in fetch.partitions().enumerate() {
            let Some(topic) = topic else { continue };
            let key = (Arc::clone(topic), index);
            if let Some(waiting) = self.by_partition.get_mut(&key) {
                waiting.remove(&(id, place));
                if waiting.is_empty() {
                    self.by_partition.remove(&key);
                }
            }
        }
        Some(fetch)
    }

    /// Drops the fetch of a connection that has ended.
    pub(crate) fn disconnected(&mut self, connection: ConnectionId) {
        if let Some(&id) = self.by_connection.get(&connection) {
            self.take(id);
        }
    }

    /// Must be called when a partition has new records, a new leader or leader epoch, other in-sync replicas, or a new
    /// log start or end offset.
    pub(crate) fn changed(&mut self, topic: &str, index: i32) {
        if self.fetches.is_empty() {
            return;
        }
        let key = (Arc::from(topic), index);
        if self.by_partition.contains_key(&key) {
            self.changed.insert(key);
        }
    }

    /// Must be called when topics or partitions are created, deleted or reassigned.
    pub(crate) fn all_changed(&mut self) {
        self.all_changed = true;
    }

    /// Takes the fetches that have enough bytes now, or an error to report.
    pub(crate) fn take_ready(&mut self, readable: impl Fn(&F, usize) -> Result<u64, ErrorCode>) -> Vec<F> {
        let mut ready = Vec::new();
        for (id, place) in self.concerned() {
            let Some(waiting) = self.fetches.get_mut(&id) else { continue };
            let enough = match readable(&waiting.fetch, place) {
                Ok(bytes) => {
                    waiting.readable_bytes = waiting.readable_bytes - waiting.readable[place] + bytes;
                    waiting.readable[place] = bytes;
                    waiting.readable_bytes >= waiting.fetch.min_bytes()
                }
                Err(_) => true,
            };
            if enough {
                ready.extend(self.take(id));
            }
        }
        ready
    }

    /// Takes a fetch whose wait time is over.
    pub(crate) fn take_due(&mut self, now_ms: i64) -> Option<F> {
        let &(_, id) = self.due.first().filter(|(due_ms, _)| *due_ms <= now_ms)?;
        self.take(id)
    }

    /// Takes the fetches that the changed partitions concern, each with the index of its partition.
    fn concerned(&mut self) -> BTreeSet<(u64, usize)> {
        let changed = std::mem::take(&mut self.changed);
        if std::mem::take(&mut self.all_changed) {
            return self.by_partition.values().flatten().copied().collect();
        }
        changed.iter().filter_map(|key| self.by_partition.get(key)).flatten().copied().collect()
    }
}
