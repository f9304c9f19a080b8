//! Callbacks of the user's (on_assigned, on_revoked, on_lost). They wait here until a call of the user's runs them.

use std::collections::{BTreeSet, VecDeque};

use monedula_engine::TopicPartition;
use monedula_engine::group::CallbackKind;

use crate::fetch::polled::PendingCallback;

/// The callbacks that are to be run, one at a time.
#[derive(Default)]
pub(super) struct Callbacks {
    queue: VecDeque<PendingCallback>,
    /// Callbacks for new partitions in which the user's code failed: run again by the next call, before any other.
    repeated: VecDeque<PendingCallback>,
    /// The one that a thread of the user's runs now.
    running: Option<PendingCallback>,
}

impl Callbacks {
    pub(super) fn is_empty(&self) -> bool {
        self.repeated.is_empty() && self.queue.is_empty()
    }

    pub(super) fn is_due(&self) -> bool {
        self.running.is_none() && !self.is_empty()
    }

    pub(super) fn next(&mut self) -> Option<PendingCallback> {
        if self.running.is_some() {
            return None;
        }
        self.running = self.repeated.pop_front().or_else(|| self.queue.pop_front());
        self.running.clone()
    }

    /// No on_assigned is repeated for these any more.
    pub(super) fn forget_repeated(&mut self, partitions: &BTreeSet<TopicPartition>) {
        for callback in &mut self.repeated {
            callback.partitions.retain(|partition| !partitions.contains(partition));
        }
        self.repeated.retain(|callback| !callback.partitions.is_empty());
    }

    /// No on_assigned is repeated any more.
    pub(super) fn forget_all_repeated(&mut self) {
        self.repeated.clear();
    }

    /// Turns each on_revoked that has not begun and is about `partitions` only into an on_lost; or takes it out, if
    /// nobody `listens` to that, and returns its ticket.
    pub(super) fn revoked_to_lost(&mut self, partitions: &BTreeSet<TopicPartition>, listens: bool) -> Vec<u64> {
        let is_late = |callback: &PendingCallback| {
            callback.kind == CallbackKind::Revoked && callback.partitions.iter().all(|one| partitions.contains(one))
        };
        let waiting = std::mem::take(&mut self.queue);
        let (late, mut others): (VecDeque<_>, VecDeque<_>) = waiting.into_iter().partition(is_late);
        let lost = late.into_iter().map(|callback| PendingCallback { kind: CallbackKind::Lost, ..callback });
        let (kept, dropped): (Vec<_>, Vec<_>) = lost.partition(|_| listens);
        others.extend(kept);
        self.queue = others;
        dropped.into_iter().map(|callback| callback.ticket).collect()
    }

    pub(super) fn queue(&mut self, callback: PendingCallback) {
        self.queue.push_back(callback);
    }

    /// Takes those that nobody will run any more.
    pub(super) fn take_all(&mut self) -> Vec<PendingCallback> {
        self.forget_all_repeated();
        self.running.take().into_iter().chain(std::mem::take(&mut self.queue)).collect()
    }

    /// Ends the one that runs. `None` if that is another.
    pub(super) fn end(&mut self, ticket: u64) -> Option<PendingCallback> {
        self.running.take_if(|callback| callback.ticket == ticket)
    }

    /// The user's code failed in an on_assigned: it is run again, if it is about any partition still.
    pub(super) fn repeat(&mut self, callback: PendingCallback) {
        self.repeated.extend(Some(callback).filter(|callback| !callback.partitions.is_empty()));
    }
}
