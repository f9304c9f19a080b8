//! The changes that a group's state is made of, each one a record of `__consumer_offsets`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Member, Partitions};

/// A change. What a heartbeat comes to is a list of these: they are stored as one batch, and applied in order; reading a group back
/// applies the same ones again. Nothing else changes what outlives the coordinator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// What a member says of itself.
    Subscription(Member),
    SubscriptionGone(Arc<str>),
    /// What a member owns: its epochs, its state and its partitions.
    Current(Member),
    CurrentGone(Arc<str>),
    Target(Arc<str>, Partitions),
    TargetGone(Arc<str>),
    /// The epoch of the target, and when it was made.
    TargetEpoch(i32, i64),
    TargetEpochGone,
    /// The group's epoch, and the hash over its topics.
    Epoch(i32, i64),
    EpochGone,
    /// What a pattern matches.
    Regex(Arc<str>, ResolvedRegex),
    RegexGone(Arc<str>),
}

/// The topics that a pattern matched when it was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ResolvedRegex {
    pub(crate) topics: BTreeSet<Arc<str>>,
    pub(crate) at_ms: i64,
}
