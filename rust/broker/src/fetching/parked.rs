//! Fetches that wait for enough bytes. A change of one of their partitions or the end of their wait time completes
//! them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::{Fetch, Wanted};
use crate::core::Core;
use crate::request::{Action, Answer, ConnectionId};

/// A partition: topic and index.
type PartitionKey = (Arc<str>, i32);

/// The waiting fetches.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    fetches: BTreeMap<u64, ParkedFetch>,
    next_id: u64,
    /// The fetches that wait for a partition, each with the index of that partition in `Fetch::wanted`.
    by_partition: HashMap<PartitionKey, BTreeSet<(u64, usize)>>,
    due: BTreeSet<(i64, u64)>,
    by_connection: HashMap<ConnectionId, u64>,
    /// Partitions that changed since [`Core::wake_fetches`] ran last.
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

    fn park(&mut self, fetch: Fetch, now_ms: i64) {
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
        let readable = vec![0; fetch.wanted.len()];
        self.fetches.insert(id, ParkedFetch { fetch, due_ms, readable, readable_bytes: 0 });
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

    fn changed(&mut self, topic: &str, index: i32) {
        if self.fetches.is_empty() {
            return;
        }
        let key = (Arc::from(topic), index);
        if self.by_partition.contains_key(&key) {
            self.changed.insert(key);
        }
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

impl Core {
    pub(super) fn park(&mut self, mut fetch: Fetch) {
        // Frees the spare capacity: the fetch may wait for long.
        fetch.wanted.shrink_to_fit();
        let places: Vec<u64> = fetch.wanted.iter().map(|wanted| self.readable(&fetch, wanted).unwrap_or(0)).collect();
        let parked = &mut self.fetching.parked;
        let id = parked.next_id;
        parked.park(fetch, self.now_ms);
        if let Some(waiting) = parked.fetches.get_mut(&id) {
            waiting.readable_bytes = places.iter().sum();
            waiting.readable = places;
        }
    }

    /// Must be called when a partition has new records, a new leader or leader epoch, other in-sync replicas, or a new
    /// log start or end offset.
    pub(crate) fn partition_changed(&mut self, topic: &str, index: i32) {
        self.fetching.parked.changed(topic, index);
    }

    /// Must be called when topics or partitions are created, deleted or reassigned.
    pub(crate) fn topics_changed(&mut self) {
        self.fetching.parked.all_changed = true;
    }

    /// Answers the waiting fetches that have enough bytes now, or an error to report.
    pub(crate) fn wake_fetches(&mut self) {
        for (id, place) in self.fetching.parked.concerned() {
            let Some(waiting) = self.fetching.parked.fetches.get(&id) else { continue };
            let now_readable = self.readable(&waiting.fetch, &waiting.fetch.wanted[place]);
            let Some(waiting) = self.fetching.parked.fetches.get_mut(&id) else { continue };
            let enough = match now_readable {
                Ok(bytes) => {
                    waiting.readable_bytes = waiting.readable_bytes - waiting.readable[place] + bytes;
                    waiting.readable[place] = bytes;
                    waiting.readable_bytes >= waiting.fetch.min_bytes
                }
                Err(_) => true,
            };
            if enough {
                self.finish_fetch(id);
            }
        }
    }

    /// Answers the waiting fetches whose wait time is over.
    pub(crate) fn finish_due_fetches(&mut self) {
        while let Some(&(due_ms, id)) = self.fetching.parked.due.first() {
            if due_ms > self.now_ms {
                break;
            }
            self.finish_fetch(id);
        }
    }

    fn finish_fetch(&mut self, id: u64) {
        let Some(fetch) = self.fetching.parked.take(id) else { return };
        let connection = fetch.ticket.connection;
        let fetched = self.read_all(&fetch);
        match self.fetch_answer(fetch, fetched) {
            Answer::Now(frame) => self.reply(connection, Action::Send(frame)),
            Answer::Close(reason) => self.reply(connection, Action::Close(reason)),
            Answer::Later | Answer::Nothing | Answer::Refused(..) => {}
        }
    }

    /// The bytes that a fetch could read from a partition.
    ///
    /// # Errors
    /// The error for the partition, with which the fetch must be answered at once.
    fn readable(&self, fetch: &Fetch, wanted: &Wanted) -> Result<u64, ErrorCode> {
        let partition = self.fetched_partition(fetch, wanted)?;
        let log = &partition.log;
        let end_offset = fetch.isolation.end_of(log);
        if wanted.fetch_offset < log.start_offset() || wanted.fetch_offset > log.end_offset() {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let bytes = log.bytes_between(wanted.fetch_offset, end_offset);
        Ok(bytes.min(wanted.max_bytes.max(0) as u64))
    }
}
