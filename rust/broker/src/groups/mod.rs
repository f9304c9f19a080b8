//! Consumer groups, classic and KIP-848, by the partition of `__consumer_offsets` that they belong to.

use crate::core::Core;

/// All groups of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Groups {}

impl Groups {
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        None
    }

    pub(crate) fn tick(_core: &mut Core) {}

    /// Another node leads a partition of `__consumer_offsets` now: its groups are loaded again from the log.
    pub(crate) fn leader_changed(_core: &mut Core, _partition: i32) {}
}
