//! `KeyedLanes`: the lanes of a run, by partition and key.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::arena::{Arena, Id};
use super::lane::Lane;

/// Longest key whose memory is kept for the next lane.
const KEPT_KEY_BYTES: usize = 256;

/// See the [module](self). With many keys most lanes have one row, and come and go with it: they are looked up by one
/// hash of the key, and their memory is used again.
#[derive(Debug)]
pub(super) struct KeyedLanes {
    lanes: Arena<Lane>,
    keyed: HashTable<Id>,
    /// Of its own for each run, so that nobody can choose keys of one hash. Its order is never seen.
    hasher: RandomState,
    spare: Vec<Lane>,
    /// The most lanes that are kept for later.
    spare_count: usize,
}

impl KeyedLanes {
    pub(super) fn new(spare_count: usize) -> Self {
        let (lanes, hasher) = (Arena::default(), RandomState::new());
        Self { lanes, keyed: HashTable::new(), hasher, spare: Vec::new(), spare_count }
    }

    /// A lane of rows that wait for no others.
    pub(super) fn add_shared(&mut self, partition: usize) -> Id {
        self.lanes.insert(Lane { partition, is_shared: true, ..Lane::default() })
    }

    pub(super) fn of(&mut self, partition: usize, key: &[u8]) -> Id {
        let (lanes, key_hash) = (&mut self.lanes, self.hasher.hash_one((partition, key)));
        let is_its = |id: &Id| lanes.get(*id).is_some_and(|lane| lane.partition == partition && lane.key == key);
        if let Some(id) = self.keyed.find(key_hash, is_its) {
            return *id;
        }
        let mut lane = self.spare.pop().unwrap_or_default();
        (lane.partition, lane.key_hash) = (partition, key_hash);
        lane.key.extend_from_slice(key);
        let id = lanes.insert(lane);
        self.keyed.insert_unique(key_hash, id, |id| lanes.get(*id).map_or(0, |lane| lane.key_hash));
        id
    }

    pub(super) fn get(&self, id: Id) -> Option<&Lane> {
        self.lanes.get(id)
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Lane> {
        self.lanes.get_mut(id)
    }

    /// The lanes of a partition.
    pub(super) fn of_partition(&self, partition: usize) -> Vec<Id> {
        self.lanes.iter().filter(|(_, lane)| lane.partition == partition).map(|(id, _)| id).collect()
    }

    /// Removes a lane without rows.
    pub(super) fn remove(&mut self, id: Id) {
        let Some(mut lane) = self.lanes.remove(id) else { return };
        if let Ok(entry) = self.keyed.find_entry(lane.key_hash, |other| *other == id) {
            entry.remove();
        }
        if self.spare.len() < self.spare_count && lane.key.capacity() <= KEPT_KEY_BYTES {
            lane.key.clear();
            lane.is_offered = false;
            self.spare.push(lane);
        }
    }
}
