//! A member of a classic group.

use std::sync::Arc;

use bytes::Bytes;

use crate::core::Ticket;

/// A member.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) instance_id: Option<Arc<str>>,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
    pub(crate) session_timeout_ms: i32,
    pub(crate) rebalance_timeout_ms: i32,
    /// The dearest first.
    pub(crate) protocols: Box<[Protocol]>,
    pub(crate) assignment: Bytes,
    /// A JoinGroup that waits.
    pub(super) joining: Option<Ticket>,
    /// A SyncGroup that waits.
    pub(super) syncing: Option<Ticket>,
    /// Whether it waits for its first generation. It does not know its id then, and can send no heartbeats.
    pub(super) is_new: bool,
}

/// A protocol that a member can follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Protocol {
    pub(crate) name: Arc<str>,
    pub(crate) metadata: Bytes,
}

impl Member {
    /// The metadata for a protocol; empty where it does not support it.
    pub(crate) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|own| &*own.name == protocol);
        found.map(|own| own.metadata.clone()).unwrap_or_default()
    }

    /// A member that waits for others cannot be expected to send heartbeats; one that nobody has heard of can go.
    pub(super) fn is_excused(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }
}
