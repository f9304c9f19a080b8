//! `Partition`: what a run has of a partition.

use std::collections::VecDeque;

use super::arena::Id;
use super::reading::Reading;
use crate::TopicPartition;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Partition<P> {
    pub(super) name: TopicPartition,
    /// Parts with rows that may still finish, in log order.
    pub(super) unsettled: VecDeque<Id>,
    /// Parts of which more may be committed, in log order; empty in a run without transactions.
    pub(super) uncommitted: VecDeque<Id>,
    /// A part with a row that was given up: nothing behind it is committed while this consumer has the partition.
    pub(super) gap: Option<P>,
    /// Number of rows so far.
    pub(super) rows: u64,
    /// Number of rows up to the last one begun.
    pub(super) begun: u64,
    /// True if only rows before the last one begun may begin.
    pub(super) is_frozen: bool,
    /// The lane of rows that wait for no others.
    pub(super) unordered: Id,
}

impl<P> Partition<P> {
    pub(super) fn new(name: TopicPartition, unordered: Id) -> Self {
        Self {
            name,
            unsettled: VecDeque::new(),
            uncommitted: VecDeque::new(),
            gap: None,
            rows: 0,
            begun: 0,
            is_frozen: false,
            unordered,
        }
    }

    /// True if nothing more is committed. A gap counts until the partition is assigned anew, or sought.
    pub(super) fn has_gap(&mut self, reading: impl Fn(&P) -> Reading) -> bool {
        self.gap.take_if(|gap| reading(gap) != Reading::Current);
        self.gap.is_some()
    }
}
