//! The timers of a consumer group's members. What follows when one ends is in `leave`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A timer of a member: what it must do before a deadline.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    /// Send a heartbeat.
    Session,
    /// Acknowledge the revocation of partitions, while it is in this epoch.
    Rebalance { epoch: i32 },
    /// Join again (classic protocol).
    Join,
    /// Send a SyncGroup (classic protocol).
    Sync,
}

impl Timer {
    fn kind(self) -> u8 {
        match self {
            Self::Session => 0,
            Self::Rebalance { .. } => 1,
            Self::Join => 2,
            Self::Sync => 3,
        }
    }
}

/// All timers of a group. A member has at most one of each kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    by_member: BTreeMap<(Arc<str>, u8), (i64, Timer)>,
    queue: BTreeSet<(i64, Arc<str>, u8)>,
}

impl Timers {
    /// Starts a timer of a member. It replaces a running one of the same kind.
    pub(crate) fn start(&mut self, member: &Arc<str>, timer: Timer, due_ms: i64) {
        self.cancel(member, timer.kind());
        self.by_member.insert((Arc::clone(member), timer.kind()), (due_ms, timer));
        self.queue.insert((due_ms, Arc::clone(member), timer.kind()));
    }

    /// Starts a timer of a member, unless one of the same kind runs.
    pub(crate) fn start_if_absent(&mut self, member: &Arc<str>, timer: Timer, due_ms: i64) {
        if !self.by_member.contains_key(&(Arc::clone(member), timer.kind())) {
            self.start(member, timer, due_ms);
        }
    }

    pub(crate) fn stop_rebalance(&mut self, member: &Arc<str>) {
        self.cancel(member, Timer::Rebalance { epoch: 0 }.kind());
    }

    pub(crate) fn stop_join(&mut self, member: &Arc<str>) {
        self.cancel(member, Timer::Join.kind());
    }

    pub(crate) fn stop_sync(&mut self, member: &Arc<str>) {
        self.cancel(member, Timer::Sync.kind());
    }

    pub(crate) fn stop_all(&mut self, member: &Arc<str>) {
        for kind in 0..=Timer::Sync.kind() {
            self.cancel(member, kind);
        }
    }

    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        self.queue.first().map(|(due_ms, ..)| *due_ms)
    }

    /// Removes and returns the first timer that is due.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<(Arc<str>, Timer)> {
        let (_, member, kind) = self.queue.first().filter(|(due_ms, ..)| *due_ms <= now_ms).cloned()?;
        let timer = self.by_member.get(&(Arc::clone(&member), kind)).map(|(_, timer)| *timer);
        self.cancel(&member, kind);
        Some((member, timer?))
    }

    fn cancel(&mut self, member: &Arc<str>, kind: u8) {
        if let Some((due_ms, _)) = self.by_member.remove(&(Arc::clone(member), kind)) {
            self.queue.remove(&(due_ms, Arc::clone(member), kind));
        }
    }
}
