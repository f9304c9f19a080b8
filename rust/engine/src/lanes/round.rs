//! `RoundPart`: the rows of a part in a transaction.

use super::arena::Id;
use crate::TopicPartition;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct RoundPart<P> {
    /// The part, for [`commit`](super::Lanes::commit).
    pub part: Id,
    /// Its payload.
    pub payload: P,
    /// Its partition.
    pub partition: TopicPartition,
    /// Number of rows that earlier transactions have.
    pub begin: usize,
    /// Number of rows that are committed then: all, if the user sought.
    pub end: usize,
    /// The offset at which the consumer reads on, if the user sought: it is committed.
    pub sought: Option<i64>,
    /// The last rows of the finished calls of the handler that begin before that offset.
    pub(super) calls: Vec<usize>,
}

impl<P> RoundPart<P> {
    /// True if the transaction has what is written with a call of the handler, by its last row.
    pub fn has_call(&self, last_row: usize) -> bool {
        let has_row = (self.begin..self.end).contains(&last_row);
        has_row && (self.sought.is_none() || self.calls.contains(&last_row))
    }
}
