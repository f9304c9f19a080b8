//! `Reading`: whether a part still is of what the consumer reads.

/// The reading of a partition that a part is of: it begins with the assignment, and anew with each seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It goes on behind the part.
    Current,
    /// The user sought: another reading of the partition goes on elsewhere.
    Sought,
    /// The partition is not this consumer's any more.
    Lost,
}
