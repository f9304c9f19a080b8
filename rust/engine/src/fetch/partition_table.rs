//! The table of assigned partitions. It counts every look at a state: the work of a fetch has to grow with what
//! changed, not with what is assigned, and a test checks that.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::AssignmentId;
use super::partition::PartitionState;

/// The states of the assigned partitions.
#[derive(Debug, Default)]
pub(super) struct PartitionTable {
    by_id: BTreeMap<AssignmentId, PartitionState>,
    looks: Cell<u64>,
}

impl PartitionTable {
    pub(super) fn get(&self, id: &AssignmentId) -> Option<&PartitionState> {
        self.count(1);
        self.by_id.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &AssignmentId) -> Option<&mut PartitionState> {
        self.count(1);
        self.by_id.get_mut(id)
    }

    pub(super) fn insert(&mut self, id: AssignmentId, state: PartitionState) {
        self.by_id.insert(id, state);
    }

    pub(super) fn remove(&mut self, id: &AssignmentId) -> Option<PartitionState> {
        self.by_id.remove(id)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// All partitions; each counts as looked at.
    pub(super) fn ids(&self) -> Vec<AssignmentId> {
        self.count(self.by_id.len());
        self.by_id.keys().copied().collect()
    }

    /// All partitions; each counts as looked at.
    pub(super) fn values(&self) -> impl Iterator<Item = &PartitionState> {
        self.count(self.by_id.len());
        self.by_id.values()
    }

    pub(super) fn looks(&self) -> u64 {
        self.looks.get()
    }

    fn count(&self, looks: usize) {
        self.looks.set(self.looks.get() + looks as u64);
    }
}
