//! `Lane`: rows that wait for each other, or rows that wait for no others.

use std::collections::VecDeque;

use super::arena::Id;

/// A row that waits for its handler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) part: Id,
    pub(super) row: u32,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Index of the partition.
    pub(super) partition: usize,
    /// True if its rows wait for no others.
    pub(super) is_shared: bool,
    /// What the rows have in common.
    pub(super) key: Vec<u8>,
    pub(super) key_hash: u64,
    pub(super) items: VecDeque<Item>,
    /// True if the lane is in the queue, or a task has rows of it.
    pub(super) is_offered: bool,
}
