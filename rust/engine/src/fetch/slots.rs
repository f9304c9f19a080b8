//! The partitions of a machine, by slot. Every look at one is counted: the work of a fetch has to grow with what changed, not
//! with what is assigned, and a test holds it to that.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::SlotId;
use super::partition::Slot;

#[derive(Debug, Default)]
pub(super) struct Slots {
    by_id: BTreeMap<SlotId, Slot>,
    looks: Cell<u64>,
}

impl Slots {
    pub(super) fn get(&self, id: &SlotId) -> Option<&Slot> {
        self.count(1);
        self.by_id.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &SlotId) -> Option<&mut Slot> {
        self.count(1);
        self.by_id.get_mut(id)
    }

    pub(super) fn insert(&mut self, id: SlotId, slot: Slot) {
        self.by_id.insert(id, slot);
    }

    pub(super) fn remove(&mut self, id: &SlotId) -> Option<Slot> {
        self.by_id.remove(id)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// All slots; each counts as looked at.
    pub(super) fn ids(&self) -> Vec<SlotId> {
        self.count(self.by_id.len());
        self.by_id.keys().copied().collect()
    }

    /// All slots; each counts as looked at.
    pub(super) fn values(&self) -> impl Iterator<Item = &Slot> {
        self.count(self.by_id.len());
        self.by_id.values()
    }

    /// How many looks there were.
    pub(super) fn looks(&self) -> u64 {
        self.looks.get()
    }

    fn count(&self, looks: usize) {
        self.looks.set(self.looks.get() + looks as u64);
    }
}
