//! A member of a consumer group.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::Held;

/// The epoch of a request that joins.
pub(crate) const JOIN_EPOCH: i32 = 0;
/// The epoch of a request that leaves, and of a member that is being removed.
pub(crate) const LEAVE_EPOCH: i32 = -1;
/// The epoch of a static member that will be back, in its last request and as long as it is away.
pub(crate) const LEAVE_STATIC_EPOCH: i32 = -2;

/// Where a member is on its way to its target.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum MemberState {
    /// It has all that it is to have.
    #[default]
    Stable,
    /// It was told to give partitions back, and has not said yet that it has.
    UnrevokedPartitions,
    /// It waits for partitions that others have not given back yet.
    UnreleasedPartitions,
}

impl MemberState {
    /// As it is stored.
    pub(crate) fn code(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::UnrevokedPartitions => 1,
            Self::UnreleasedPartitions => 2,
        }
    }

    pub(crate) fn from_code(code: i8) -> Option<Self> {
        [Self::Stable, Self::UnrevokedPartitions, Self::UnreleasedPartitions]
            .into_iter()
            .find(|state| state.code() == code)
    }
}

/// What is kept of a member that uses the classic protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClassicMember {
    pub(crate) session_timeout_ms: i32,
    /// By name, the dearest first: subscriptions in the format of the classic protocol.
    pub(crate) protocols: Vec<(Arc<str>, Bytes)>,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    pub(crate) id: Arc<str>,
    pub(crate) epoch: i32,
    /// The one before: whoever missed the answer that bumped it comes with this one.
    pub(crate) previous_epoch: i32,
    pub(crate) state: MemberState,
    pub(crate) instance_id: Option<Arc<str>>,
    pub(crate) rack_id: Option<Arc<str>>,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
    pub(crate) subscribed_names: BTreeSet<Arc<str>>,
    /// Empty for none.
    pub(crate) subscribed_regex: Arc<str>,
    pub(crate) server_assignor: Option<Arc<str>>,
    /// What it was told to own.
    pub(crate) assigned: Held,
    /// What it was told to give back, and still holds.
    pub(crate) pending_revocation: Held,
    pub(crate) classic: Option<ClassicMember>,
}

impl Member {
    pub(crate) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            epoch: JOIN_EPOCH,
            previous_epoch: -1,
            state: MemberState::Stable,
            instance_id: None,
            rack_id: None,
            rebalance_timeout_ms: -1,
            client_id: "".into(),
            client_host: "".into(),
            subscribed_names: BTreeSet::new(),
            subscribed_regex: "".into(),
            server_assignor: None,
            assigned: Held::default(),
            pending_revocation: Held::default(),
            classic: None,
        }
    }

    /// The pattern that it subscribes to.
    pub(crate) fn regex(&self) -> Option<&Arc<str>> {
        Some(&self.subscribed_regex).filter(|regex| !regex.is_empty())
    }

    pub(crate) fn is_reconciled_to(&self, target_epoch: i32) -> bool {
        self.state == MemberState::Stable && self.epoch == target_epoch
    }

    pub(super) fn advance(&mut self, epoch: i32) {
        self.previous_epoch = self.epoch;
        self.epoch = epoch;
    }
}
