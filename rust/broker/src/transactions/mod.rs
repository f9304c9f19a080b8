//! Transactions and producer ids.

use crate::core::Core;

/// All transactional ids, and the next producer id.
#[derive(Debug, Default)]
pub(crate) struct Transactions {}

impl Transactions {
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        None
    }

    pub(crate) fn tick(_core: &mut Core) {}

    /// Another node leads a partition of `__transaction_state` now.
    pub(crate) fn leader_changed(_core: &mut Core, _partition: i32) {}
}
