//! Deadlines of members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a member is to do in time.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    /// To send a heartbeat.
    Session,
    /// To give back what it was told to, while in this epoch.
    Rebalance { epoch: i32 },
    /// To join again (classic protocol).
    Join,
    /// To ask for its assignment (classic protocol).
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

/// All of a group's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    by_member: BTreeMap<(Arc<str>, u8), (i64, Timer)>,
    queue: BTreeSet<(i64, Arc<str>, u8)>,
}

impl Timers {
    /// Starts a timer of a member, in place of the one of its kind that runs.
    pub(crate) fn start(&mut self, member: &Arc<str>, timer: Timer, due_ms: i64) {
        self.cancel(member, timer.kind());
        self.by_member.insert((Arc::clone(member), timer.kind()), (due_ms, timer));
        self.queue.insert((due_ms, Arc::clone(member), timer.kind()));
    }

    /// Starts one unless it runs.
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

    /// Takes the first that is due.
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
