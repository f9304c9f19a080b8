//! The lock `state`, and the notifications of those who wait for a change of its data.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use super::state::BufferState;
use crate::lock::lock;

/// The lock `state`, and who is notified of changes.
pub(crate) struct Shared {
    state: Mutex<BufferState>,
    /// Notified of every event that a call may wait for.
    arrived: Condvar,
    /// Notified when all that was ready is handed out, and the driver waits for budget.
    drained: Notify,
    /// Notified when the group's task has something to do: a revocation is finished, a commit is due, or a poll was
    /// awaited.
    group_wanted: Notify,
}

impl Shared {
    pub(super) fn new(state: BufferState) -> Self {
        Self { state: Mutex::new(state), arrived: Condvar::new(), drained: Notify::new(), group_wanted: Notify::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BufferState> {
        lock(&self.state)
    }

    /// Waits until something arrives, at most until `until`.
    pub(super) fn wait<'s>(&self, state: MutexGuard<'s, BufferState>, until: Instant) -> MutexGuard<'s, BufferState> {
        let left = until.saturating_duration_since(Instant::now());
        self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Something may have come that calls wait for.
    pub(super) fn notify_calls(&self) {
        self.arrived.notify_all();
    }

    /// Notifies the group's task, if the state has something for it.
    pub(super) fn notify_group(&self, state: MutexGuard<'_, BufferState>) {
        let wanted = state.membership.has_work_for_group(&state.handed_out);
        if !state.errors.is_empty() {
            // An error comes after the rows before it, which may be finished now.
            self.arrived.notify_all();
        }
        drop(state);
        if wanted {
            self.group_wanted.notify_one();
        }
    }

    pub(super) fn group_wanted(&self) -> &Notify {
        &self.group_wanted
    }

    pub(super) fn drained(&self) -> &Notify {
        &self.drained
    }
}
