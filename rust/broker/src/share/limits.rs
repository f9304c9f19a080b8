//! The limits of a share group that its partitions obey.

/// The settings of a share group that a share partition needs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShareLimits {
    /// How long a record stays acquired (`share.record.lock.duration.ms`).
    pub(crate) lock_ms: i64,
    /// How often a record is delivered (`share.delivery.count.limit`).
    pub(crate) delivery_count: i16,
    /// How many offsets may lie between the start offset and the last one that was acquired
    /// (`share.partition.max.record.locks`).
    pub(crate) record_locks: i64,
    /// Whether locks may be renewed (`share.renew.acknowledge.enable`).
    pub(crate) renewals: bool,
}

impl ShareLimits {
    /// The delivery count from which fewer records are delivered at once, so that a bad one is found (KAFKA-17541).
    pub(super) fn throttled_delivery_count(self) -> i16 {
        ((self.delivery_count + 1) / 2).max(2)
    }

    /// True if a record that was delivered so often is delivered for the last time, which is alone.
    pub(super) fn is_last_delivery(self, delivery_count: i16) -> bool {
        self.delivery_count > 2 && delivery_count == self.delivery_count - 1
    }
}
