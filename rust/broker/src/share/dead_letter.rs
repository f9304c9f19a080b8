//! Records that a share group will not deliver again, for its dead letter topic (KIP-1191).

/// Why a record is a dead letter.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeadLetterCause {
    Rejected,
    /// It was delivered as often as the group allows.
    DeliveredTooOften,
}

/// Consecutive records that were archived for the same cause.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadLetter {
    pub(crate) first: i64,
    /// The last offset, inclusive.
    pub(crate) last: i64,
    pub(crate) delivery_count: i16,
    pub(crate) cause: DeadLetterCause,
}
