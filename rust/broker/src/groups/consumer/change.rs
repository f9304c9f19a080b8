//! The changes of a consumer group's state. Each is a record of `__consumer_offsets`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ConsumerMember, Partitions};

/// A change of a consumer group. A heartbeat produces a list of changes, which are applied in order and stored as one
/// batch; reading a group back applies them again. Nothing else modifies the state that outlives the coordinator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// The subscription of a member, and its other metadata.
    Subscription(ConsumerMember),
    SubscriptionGone(Arc<str>),
    /// The current assignment of a member: its epochs, its state and its partitions.
    Current(ConsumerMember),
    CurrentGone(Arc<str>),
    Target(Arc<str>, Partitions),
    TargetGone(Arc<str>),
    /// The epoch of the target assignment, and the time in milliseconds at which it was computed.
    TargetEpoch(i32, i64),
    TargetEpochGone,
    /// The group's epoch, and the hash of its topics' metadata.
    Epoch(i32, i64),
    EpochGone,
    /// A pattern with the topics that it matches.
    Regex(Arc<str>, ResolvedRegex),
    RegexGone(Arc<str>),
}

/// The topics that a pattern matched at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ResolvedRegex {
    pub(crate) topics: BTreeSet<Arc<str>>,
    pub(crate) at_ms: i64,
}
