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
    /// Number of rows that are committed then.
    pub end: usize,
}
