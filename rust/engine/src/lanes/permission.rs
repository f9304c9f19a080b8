//! `RowPermission`: whether a row may be begun.

/// Permission to begin a row that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowPermission {
    /// Now.
    Now,
    /// The lease is over: ask again.
    Later,
    /// The partition is not this consumer's any more, or was sought.
    Never,
}
