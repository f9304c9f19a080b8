//! The group's side of the buffer: partitions that a group assigns and revokes, callbacks, the lease.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::MutexGuard;
use std::time::Instant;

use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use monedula_engine::group::{CallbackKind, CommitOffset, Committed};
use tokio::sync::Notify;

use super::assignment::{Assignment, start_at};
use super::lease::Lease;
use super::membership::MembershipGate;
use super::partition_buffer::{HoldReason, PartitionBuffer};
use super::shared::Shared;
use super::state::BufferState;
use crate::error::ClientError;
use crate::fetch::command::FetchCommand;
use crate::fetch::polled::PendingCallback;

#[derive(Clone, Copy)]
pub(crate) struct GroupSide<'b> {
    shared: &'b Shared,
    assignment: Assignment<'b>,
}

impl<'b> GroupSide<'b> {
    pub(super) fn new(shared: &'b Shared, assignment: Assignment<'b>) -> Self {
        Self { shared, assignment }
    }

    pub(crate) fn wanted(self) -> &'b Notify {
        self.shared.group_wanted()
    }

    /// The membership, to be asked or changed in a way that concerns no call.
    pub(crate) fn membership<R>(self, work: impl FnOnce(&mut MembershipGate) -> R) -> R {
        work(&mut self.shared.lock().membership)
    }

    pub(crate) fn keep_alive(self) {
        let mut state = self.shared.lock();
        state.membership.poll_now();
        self.shared.notify_group(state);
    }

    pub(crate) fn set_lease(self, lease: Lease) {
        let before = self.shared.lock().membership.set_lease(lease);
        // Every heartbeat renews it; calls wait only for one that was over.
        if !before.holds(Instant::now()) {
            self.shared.notify_calls();
        }
    }

    pub(crate) fn raise(self, error: ClientError, fatal: bool) {
        let mut state = self.shared.lock();
        state.membership.raise(error, fatal);
        self.come_first(state);
    }

    /// A callback is to be run by a thread of the user's.
    pub(crate) fn queue_callback(self, callback: PendingCallback) {
        let mut state = self.shared.lock();
        state.membership.callbacks().queue(callback);
        self.come_first(state);
    }

    /// The user has to come into a call before the next row.
    fn come_first(self, state: MutexGuard<'_, BufferState>) {
        state.handed_out.stop_all_rows();
        drop(state);
        self.shared.notify_calls();
    }

    /// A callback has ended, `failed` if it raised. False if it is not the one that runs.
    pub(crate) fn called_back(self, ticket: u64, failed: bool) -> bool {
        let mut state = self.shared.lock();
        let Some(mut callback) = state.membership.callbacks().end(ticket) else { return false };
        state.membership.poll_now();
        let is_assigned = callback.kind == CallbackKind::Assigned;
        if is_assigned && failed && !state.membership.is_leaving() {
            // The user's part, such as a seek to offsets of its own, is not done: nothing of them is handed out before
            // it is.
            let stays = |buffer: &PartitionBuffer| !buffer.is_held_by(HoldReason::Revoked);
            callback.partitions.retain(|partition| state.partitions.get(partition).is_some_and(stays));
            state.membership.callbacks().repeat(callback);
            drop(state);
        } else {
            drop(state);
            if is_assigned {
                self.on_assigned_done(&callback.partitions);
            }
        }
        self.shared.notify_calls();
        true
    }

    /// The on_assigned of these partitions has ended, or there is none.
    pub(crate) fn on_assigned_done<'p>(self, partitions: impl IntoIterator<Item = &'p TopicPartition>) {
        let mut state = self.shared.lock();
        for partition in partitions {
            state.set_held(partition, HoldReason::OnAssigned, false);
        }
        drop(state);
        self.shared.notify_calls();
    }

    /// The group assigned these partitions; nothing of them is handed out yet.
    pub(crate) fn assigned(self, partitions: &BTreeSet<TopicPartition>) {
        let (_assembler, mut state) = self.assignment.lock();
        state.membership.callbacks().forget_repeated(partitions);
        for partition in partitions {
            state.remove(partition);
            let reading_id = state.partitions.add_owned(partition);
            state.handed_out.restart(partition, reading_id, None);
        }
    }

    /// Starts partitions of the group, each with its committed offset and true if the topic is new. Partitions that the
    /// user has sought elsewhere meanwhile stay there.
    pub(crate) fn start(self, partitions: Vec<(TopicPartition, Committed, bool)>) {
        let mut state = self.shared.lock();
        for (partition, committed, is_new) in partitions {
            let buffer = state.partitions.get(&partition).filter(|buffer| buffer.is_owned());
            let Some(reading_id) = buffer.map(PartitionBuffer::reading_id) else { continue };
            let otherwise = if is_new { Start::Earliest } else { Start::Policy };
            start_at(&mut state, &partition, reading_id, committed, otherwise);
        }
        drop(state);
        self.shared.notify_calls();
    }

    /// Hands nothing of these out any more. [`Self::take_finished_revocations`] has the ticket once the user has
    /// finished what it holds of them.
    pub(crate) fn revoke(self, ticket: u64, partitions: BTreeSet<TopicPartition>, wait_for_user: bool) {
        let (_assembler, mut state) = self.assignment.lock();
        state.membership.callbacks().forget_repeated(&partitions);
        for partition in &partitions {
            // Partitions that were assigned by hand since the group was left are not the group's to revoke.
            state.change(partition, |buffer| buffer.set_held(HoldReason::Revoked, buffer.is_owned()));
        }
        state.membership.revoke(ticket, partitions, wait_for_user);
    }

    /// Takes the tickets of revocations of which the user holds nothing unfinished, with what is to be committed for
    /// each.
    pub(crate) fn take_finished_revocations(self) -> Vec<(u64, BTreeMap<TopicPartition, CommitOffset>)> {
        self.shared.lock().take_finished_revocations()
    }

    /// The member does not own these any more: they were revoked.
    pub(crate) fn released(self, partitions: &BTreeSet<TopicPartition>) {
        let (_assembler, state) = self.assignment.lock();
        self.release(state, partitions);
    }

    /// The member does not own these any more: they are lost. An on_revoked for them that has not begun becomes an
    /// on_lost. If nobody `listens` to that there is none, and their tickets are returned. Both in one step: a poll in
    /// between ran the on_revoked of partitions that were gone.
    pub(crate) fn lost(self, partitions: &BTreeSet<TopicPartition>, listens: bool) -> Vec<u64> {
        let (_assembler, mut state) = self.assignment.lock();
        let uncalled = state.membership.callbacks().revoked_to_lost(partitions, listens);
        self.release(state, partitions);
        uncalled
    }

    fn release(self, mut state: MutexGuard<'_, BufferState>, partitions: &BTreeSet<TopicPartition>) {
        state.membership.callbacks().forget_repeated(partitions);
        // The user may have assigned some by hand since the group was left: these are not the group's.
        let mut gone = partitions.clone();
        gone.retain(|partition| state.partitions.get(partition).is_none_or(PartitionBuffer::is_owned));
        for partition in &gone {
            state.remove(partition);
        }
        state.membership.released(partitions);
        let command = FetchCommand::Unassign { partitions: gone.into_iter().collect(), topics: Vec::new() };
        state.partitions.command(command);
        drop(state);
        self.shared.notify_calls();
    }

    /// The group is being left: nothing more is handed out, and what is held is not waited for. Or (`false`) it is
    /// left, and a new membership may begin.
    pub(crate) fn set_leaving(self, leaving: bool) {
        let (_assembler, mut state) = self.assignment.lock();
        state.membership.set_leaving(leaving);
        if leaving {
            state.handed_out.stop_all_rows();
        }
        drop(state);
        self.shared.group_wanted().notify_one();
        self.shared.notify_calls();
    }
}
