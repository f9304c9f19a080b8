//! `Limits`: how much a run takes at a time.

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most rows of a task.
    pub task_rows: usize,
    /// The most rows that wait or are handled, or that are handled and not committed.
    pub rows: usize,
    /// The most bytes of parts with unfinished rows.
    pub bytes: usize,
    /// The most rows taken from the consumer at once.
    pub rows_at_once: usize,
}
