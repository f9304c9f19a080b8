//! Callbacks of the user's (on_assigned, on_revoked, on_lost). They wait here until a call of the user's runs them.

use std::collections::{BTreeSet, VecDeque};

use monedula_engine::TopicPartition;
use monedula_engine::group::CallbackKind;

use super::partition_buffer::HoldReason;
use super::{BufferState, FetchBuffer};
use crate::fetch::step::PendingCallback;

/// The callbacks that are to be run, one at a time.
#[derive(Default)]
pub(super) struct Callbacks {
    queue: VecDeque<PendingCallback>,
    /// Those for newly assigned partitions in which the user's code failed: run again by the next call, before any
    /// other.
    repeated: VecDeque<PendingCallback>,
    /// The one that a thread of the user's runs now.
    running: Option<PendingCallback>,
}

impl Callbacks {
    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.repeated.is_empty() && self.queue.is_empty()
    }

    /// Whether one is to be run now.
    pub(super) fn is_due(&self) -> bool {
        self.running.is_none() && !self.is_empty()
    }

    /// Takes the one that is to be run now.
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
}

impl FetchBuffer {
    /// A callback is to be run by a thread of the user's.
    pub(crate) fn queue_callback(&self, callback: PendingCallback) {
        let mut state = self.state();
        state.membership.callbacks.queue.push_back(callback);
        state.stop_all_rows();
        drop(state);
        self.arrived.notify_all();
    }

    /// The next callback to be run, if none is running.
    pub(crate) fn next_callback(&self) -> Option<PendingCallback> {
        self.state().membership.callbacks.next()
    }

    /// Callbacks that nobody will run any more: they count as run.
    pub(crate) fn take_callbacks(&self) -> Vec<PendingCallback> {
        let callbacks = &mut self.state().membership.callbacks;
        callbacks.forget_all_repeated();
        let running = callbacks.running.take();
        running.into_iter().chain(std::mem::take(&mut callbacks.queue)).collect()
    }

    /// A callback has ended, `failed` if it raised. False if it is not the one that runs.
    pub(crate) fn called_back(&self, ticket: u64, failed: bool) -> bool {
        let mut state = self.state();
        let BufferState { membership, partitions, .. } = &mut *state;
        let is_it = |callback: &mut PendingCallback| callback.ticket == ticket;
        let Some(mut callback) = membership.callbacks.running.take_if(is_it) else { return false };
        membership.poll_now();
        let assigned = callback.kind == CallbackKind::Assigned;
        if assigned && failed && !membership.leaving {
            // The user's part, such as a seek to offsets of its own, is not done: nothing of them is handed out before
            // it is.
            callback.partitions.retain(|partition| {
                partitions.get(partition).is_some_and(|buffer| !buffer.is_held_by(HoldReason::Revoked))
            });
            membership.callbacks.repeated.extend(Some(callback).filter(|callback| !callback.partitions.is_empty()));
            drop(state);
        } else if assigned {
            drop(state);
            self.on_assigned_done(&callback.partitions);
        } else {
            drop(state);
        }
        self.arrived.notify_all();
        true
    }

    /// The on_assigned of these partitions has ended, or there is none.
    pub(crate) fn on_assigned_done<'p>(&self, partitions: impl IntoIterator<Item = &'p TopicPartition>) {
        let mut state = self.state();
        for partition in partitions {
            self.change(&mut state, partition, |buffer| buffer.set_held(HoldReason::OnAssigned, false));
        }
        drop(state);
        self.arrived.notify_all();
    }
}
