//! `Report`: progress on a part, for its consumer.

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<P> {
    /// The payload of the part.
    pub payload: P,
    /// Number of rows that are finished without a gap; in a run with transactions, that are committed.
    pub rows: usize,
    /// Number of rows of the part.
    pub total: usize,
    /// True if nothing more will be finished.
    pub is_last: bool,
}

impl<P> Report<P> {
    /// True if rows are left that the consumer has to read again.
    pub fn is_left_behind(&self) -> bool {
        self.is_last && self.rows < self.total
    }
}
