//! The changes of a share group's state. Each is a record of `__consumer_offsets`.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use super::ShareMember;
use crate::groups::consumer::Partitions;

/// The partitions of a share group whose state exists in `__share_group_state`: by topic, its name and their number.
/// Partitions are only ever added, so their number says which.
pub(crate) type InitializedTopics = BTreeMap<Uuid, (Arc<str>, i32)>;

/// A change of a share group. A heartbeat produces a list of changes, which are applied in order and stored as one
/// batch; reading a group back applies them again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ShareChange {
    /// The subscription of a member, and its other metadata.
    Subscription(ShareMember),
    SubscriptionGone(Arc<str>),
    /// The current assignment of a member: its epochs and its partitions.
    Current(ShareMember),
    CurrentGone(Arc<str>),
    Target(Arc<str>, Partitions),
    TargetGone(Arc<str>),
    /// The epoch of the target assignment, and the time in milliseconds at which it was computed.
    TargetEpoch(i32, i64),
    TargetEpochGone,
    /// The group's epoch, and the hash of its topics' metadata.
    Epoch(i32, i64),
    EpochGone,
    Initialized(InitializedTopics),
    InitializedGone,
}
