//! A member of a classic group.

use std::sync::Arc;

use bytes::Bytes;

use crate::request::Ticket;

#[derive(Clone, Debug)]
pub(crate) struct ClassicMember {
    pub(crate) instance_id: Option<Arc<str>>,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
    pub(crate) session_timeout_ms: i32,
    pub(crate) rebalance_timeout_ms: i32,
    /// The protocols that it supports, in order of preference.
    pub(crate) protocols: Box<[Protocol]>,
    pub(crate) assignment: Bytes,
    /// The pending JoinGroup.
    pub(super) joining: Option<Ticket>,
    /// The pending SyncGroup.
    pub(super) syncing: Option<Ticket>,
    /// True while it waits for its first generation. Until then it sends no heartbeats, and may not know its id.
    pub(super) is_new: bool,
}

/// A protocol that a member supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Protocol {
    pub(crate) name: Arc<str>,
    pub(crate) metadata: Bytes,
}

impl ClassicMember {
    /// The member's metadata for a protocol; empty if it does not support the protocol.
    pub(crate) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|own| &*own.name == protocol);
        found.map(|own| own.metadata.clone()).unwrap_or_default()
    }

    /// True if the member stays when its session ends: its JoinGroup or SyncGroup is pending, and it waits for other
    /// members. A new member is not excused: if its first join does not complete in time, it is removed.
    pub(super) fn is_excused(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }
}
