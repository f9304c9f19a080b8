//! `Task`: rows for one call of the handler. They stay together until the call succeeds, or they are given up.

use super::arena::Id;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Task {
    pub(super) lane: Id,
    pub(super) part: Id,
    pub(super) first: u32,
    /// The rows after the first one. Most tasks have none, and so need no memory of their own.
    pub(super) more: Vec<u32>,
    pub(super) attempts: u32,
    pub(super) is_last_attempt: bool,
}

impl Task {
    /// The rows, in the order of the log.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        std::iter::once(&self.first).chain(&self.more).map(|row| *row as usize)
    }

    /// Number of rows.
    pub fn row_count(&self) -> usize {
        1 + self.more.len()
    }

    /// Number of calls of the handler so far, this one included.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    pub(super) fn last_row(&self) -> usize {
        *self.more.last().unwrap_or(&self.first) as usize
    }
}
