//! Fetches that wait for enough bytes. A change of one of their partitions or the end of their wait time completes
//! them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Fetch, FetchReader};
use crate::request::ConnectionId;

/// A partition: topic and index.
type PartitionKey = (Arc<str>, i32);

#[derive(Debug, Default)]
pub(crate) struct Parked {
    fetches: BTreeMap<u64, ParkedFetch>,
    next_id: u64,
    /// The fetches that wait for a partition, each with the index of that partition in `Fetch::wanted`.
    by_partition: HashMap<PartitionKey, BTreeSet<(u64, usize)>>,
    due: BTreeSet<(i64, u64)>,
    by_connection: HashMap<ConnectionId, u64>,
    /// Partitions that changed since [`Parked::take_ready`] was called last.
    changed: BTreeSet<PartitionKey>,
    all_changed: bool,
}

#[derive(Debug)]
struct ParkedFetch {
    fetch: Fetch,
    due_ms: i64,
    /// Readable bytes of each partition.
    readable: Vec<u64>,
    readable_bytes: u64,
}

impl Parked {
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        self.due.first().map(|&(due_ms, _)| due_ms)
    }

    pub(crate) fn park(&mut self, mut fetch: Fetch, reader: FetchReader<'_>, now_ms: i64) {
        // Frees the spare capacity: the fetch may wait for long.
        fetch.wanted.shrink_to_fit();
        let id = self.next_id;
        self.next_id += 1;
        let due_ms = now_ms + i64::from(fetch.max_wait_ms);
        self.due.insert((due_ms, id));
        self.by_connection.insert(fetch.ticket.connection, id);
        for (place, wanted) in fetch.wanted.iter().enumerate() {
            if let Some(topic) = &wanted.topic {
                self.by_partition.entry((Arc::clone(topic), wanted.index)).or_default().insert((id, place));
            }
        }
        let readable: Vec<u64> =
            fetch.wanted.iter().map(|wanted| reader.readable(&fetch, wanted).unwrap_or(0)).collect();
        let readable_bytes = readable.iter().sum();
        self.fetches.insert(id, ParkedFetch { fetch, due_ms, readable, readable_bytes });
    }

    fn take(&mut self, id: u64) -> Option<Fetch> {
        let ParkedFetch { fetch, due_ms, .. } = self.fetches.remove(&id)?;
        self.due.remove(&(due_ms, id));
        self.by_connection.remove(&fetch.ticket.connection);
        for (place, wanted) in fetch.wanted.iter().enumerate() {
            let Some(topic) = &wanted.topic else { continue };
            let key = (Arc::clone(topic), wanted.index);
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
    pub(crate) fn take_ready(&mut self, reader: FetchReader<'_>) -> Vec<Fetch> {
        let mut ready = Vec::new();
        for (id, place) in self.concerned() {
            let Some(waiting) = self.fetches.get_mut(&id) else { continue };
            let enough = match reader.readable(&waiting.fetch, &waiting.fetch.wanted[place]) {
                Ok(bytes) => {
                    waiting.readable_bytes = waiting.readable_bytes - waiting.readable[place] + bytes;
                    waiting.readable[place] = bytes;
                    waiting.readable_bytes >= waiting.fetch.min_bytes
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
    pub(crate) fn take_due(&mut self, now_ms: i64) -> Option<Fetch> {
        let &(_, id) = self.due.first().filter(|(due_ms, _)| *due_ms <= now_ms)?;
        self.take(id)
    }

    /// Takes the fetches, and the indexes in `Fetch::wanted`, that the changed partitions concern.
    fn concerned(&mut self) -> BTreeSet<(u64, usize)> {
        let changed = std::mem::take(&mut self.changed);
        if std::mem::take(&mut self.all_changed) {
            return self.by_partition.values().flatten().copied().collect();
        }
        changed.iter().filter_map(|key| self.by_partition.get(key)).flatten().copied().collect()
    }
}
