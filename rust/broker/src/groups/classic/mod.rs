//! The classic group: its members choose an assignor and one of them assigns; the coordinator only keeps the barrier.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::error_code::ErrorCode;

use super::{Effects, JoinAnswer, SyncAnswer};
use crate::core::Ticket;

/// Where a group stands.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ClassicState {
    /// No members. A group that only keeps offsets is empty, too.
    Empty,
    /// A rebalance waits for the members to join.
    PreparingRebalance,
    /// All have joined; the leader is assigning.
    CompletingRebalance,
    /// Every member has its assignment.
    Stable,
}

/// A group whose members assign among themselves.
#[derive(Debug)]
pub(crate) struct ClassicGroup {
    pub(super) state: ClassicState,
    pub(super) members: BTreeMap<Arc<str>, Member>,
    /// What is due when.
    pub(super) timers: BTreeSet<(i64, Timer)>,
}

/// What a classic group waits for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Timer {
    /// A member's session, or the time that a member id was reserved for.
    Session(Arc<str>),
}

/// A member.
#[derive(Debug, Default)]
pub(super) struct Member {
    pub(super) assignment: Bytes,
    /// A JoinGroup that waits.
    pub(super) joining: Option<Ticket>,
    /// A SyncGroup that waits.
    pub(super) syncing: Option<Ticket>,
}

impl ClassicGroup {
    pub(super) fn next_due_ms(&self) -> Option<i64> {
        self.timers.first().map(|(due_ms, _)| *due_ms)
    }

    pub(super) fn expire(&mut self, now_ms: i64, _effects: &mut Effects) {
        self.timers.retain(|(due_ms, _)| *due_ms > now_ms);
    }

    pub(super) fn abandon(&mut self, error: ErrorCode, effects: &mut Effects) {
        for (id, member) in &mut self.members {
            if let Some(ticket) = member.joining.take() {
                effects.join(ticket, JoinAnswer::refused(error, Arc::clone(id)));
            }
            if let Some(ticket) = member.syncing.take() {
                effects.sync(ticket, SyncAnswer::refused(error));
            }
        }
    }

    pub(super) fn loaded(&mut self, _now_ms: i64, _effects: &mut Effects) {}
}
