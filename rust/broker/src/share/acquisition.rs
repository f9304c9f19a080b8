//! What a member asks to acquire from a share partition, and what it gets.

use std::sync::Arc;

/// The limits under which a member acquires records.
#[derive(Clone, Debug)]
pub(crate) struct Acquisition {
    pub(crate) member: Arc<str>,
    /// The most records. Whole batches may exceed it, unless it is a `record_limit`.
    pub(crate) max_records: i64,
    /// The wished size of the ranges.
    pub(crate) batch_size: i64,
    /// True for exactly `max_records` at most (KIP-1206).
    pub(crate) record_limit: bool,
}

/// Consecutive offsets that a member has acquired.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acquired {
    pub(crate) first: i64,
    /// The last offset, inclusive.
    pub(crate) last: i64,
    /// How often the records were acquired, this time included.
    pub(crate) delivery_count: i16,
}

impl Acquired {
    pub(crate) fn count(&self) -> i64 {
        self.last - self.first + 1
    }
}
