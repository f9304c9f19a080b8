//! `Lane`: rows that wait for each other, or rows that wait for no others.

use std::collections::VecDeque;
use std::sync::Arc;

use super::arena::Id;

/// A row that waits for its handler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) part: Id,
    pub(super) row: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Lane {
    /// Index of the partition.
    pub(super) partition: usize,
    /// What the rows have in common; `None` for rows that wait for no others.
    pub(super) key: Option<Arc<[u8]>>,
    pub(super) items: VecDeque<Item>,
    /// True if the lane is in the queue, or a task has rows of it.
    pub(super) is_offered: bool,
}

impl Lane {
    pub(super) fn new(partition: usize, key: Option<Arc<[u8]>>) -> Self {
        Self { partition, key, items: VecDeque::new(), is_offered: false }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.key.is_none()
    }
}
