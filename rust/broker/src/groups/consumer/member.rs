//! A member of a consumer group.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::Held;

/// The member epoch of a heartbeat that joins.
pub(crate) const JOIN_EPOCH: i32 = 0;
/// The member epoch of a heartbeat that leaves, and of a member that is being removed.
pub(crate) const LEAVE_EPOCH: i32 = -1;
/// The member epoch of a static member that leaves temporarily: in its last heartbeat, and until it comes back.
pub(crate) const LEAVE_STATIC_EPOCH: i32 = -2;

/// The reconciliation state of a member.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum MemberState {
    /// The member is assigned its whole target of its epoch.
    #[default]
    Stable,
    /// The member must revoke partitions, and has not acknowledged that yet.
    UnrevokedPartitions,
    /// The member waits for partitions that other members have not revoked yet.
    UnreleasedPartitions,
}

impl MemberState {
    /// The state as it is stored.
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

/// The additional state of a member that uses the classic protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClassicMembership {
    pub(crate) session_timeout_ms: i32,
    /// The protocols by name, in order of preference, with subscriptions in the format of the classic protocol.
    pub(crate) protocols: Vec<(Arc<str>, Bytes)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConsumerMember {
    pub(crate) id: Arc<str>,
    pub(crate) epoch: i32,
    /// The epoch before this one. A member that missed the answer with the new epoch still sends it.
    pub(crate) previous_epoch: i32,
    pub(crate) state: MemberState,
    pub(crate) instance_id: Option<Arc<str>>,
    pub(crate) rack_id: Option<Arc<str>>,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
    pub(crate) subscribed_names: BTreeSet<Arc<str>>,
    /// The subscribed pattern; empty for none.
    pub(crate) subscribed_regex: Arc<str>,
    pub(crate) server_assignor: Option<Arc<str>>,
    /// The partitions that are assigned to the member.
    pub(crate) assigned: Held,
    /// The partitions that the member must revoke, and still holds.
    pub(crate) pending_revocation: Held,
    pub(crate) classic: Option<ClassicMembership>,
}

impl ConsumerMember {
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

    /// The subscribed pattern, if there is one.
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
