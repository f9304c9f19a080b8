//! `Order`: which records of a partition wait for each other.

/// Records that are handled one after the other, in the order of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Those with the same key; those without a key wait for no others.
    Key,
    /// All of a partition.
    Partition,
    /// None.
    None,
}
