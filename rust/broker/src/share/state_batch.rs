//! The state of consecutive records as it is stored.

/// Consecutive offsets with the same stored state, as in the records of `__share_group_state`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateBatch {
    pub(crate) first: i64,
    /// The last offset, inclusive.
    pub(crate) last: i64,
    /// Kafka's number of the state: 0 available, 2 acknowledged, 4 archived.
    pub(crate) state: i8,
    pub(crate) delivery_count: i16,
}
