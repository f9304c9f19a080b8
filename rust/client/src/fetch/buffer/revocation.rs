//! Revocation: partitions that are handed out no more, until the user has finished what it holds of them; then they are
//! released.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_engine::group::CommitOffset;

use super::partition_buffer::HoldReason;
use super::{BufferState, FetchBuffer};
use crate::fetch::command::FetchCommand;

/// Partitions that are to be released once what the user holds of them is finished.
#[derive(Debug)]
pub(super) struct PendingRevocation {
    pub(super) ticket: u64,
    pub(super) partitions: BTreeSet<TopicPartition>,
    /// Whether to wait until the user comes into a call, to run its callback there.
    pub(super) wait_for_user: bool,
}

impl FetchBuffer {
    /// Hands nothing of these out any more. [`Self::take_finished_revocations`] has the ticket once the user has
    /// finished what it holds of them.
    pub(crate) fn revoke(&self, ticket: u64, partitions: BTreeSet<TopicPartition>, wait_for_user: bool) {
        let _build = self.lock_build();
        let mut state = self.state();
        state.membership.callbacks.forget_repeated(&partitions);
        for partition in &partitions {
            // Partitions that were assigned by hand since the group was left are not the group's to revoke.
            self.change(&mut state, partition, |buffer| buffer.set_held(HoldReason::Revoked, buffer.is_owned()));
        }
        let wait_for_user = wait_for_user && state.membership.waiting_calls == 0;
        state.membership.revocations.push(PendingRevocation { ticket, partitions, wait_for_user });
    }

    /// Takes the tickets of revocations of which the user holds nothing unfinished, with what is to be committed for
    /// each.
    pub(crate) fn take_finished_revocations(&self) -> Vec<(u64, BTreeMap<TopicPartition, CommitOffset>)> {
        let mut state = self.state();
        let BufferState { membership, finished, .. } = &mut *state;
        finished.sync_rows(None, false);
        let revocations = std::mem::take(&mut membership.revocations);
        let (done, open): (Vec<_>, Vec<_>) =
            revocations.into_iter().partition(|revocation| membership.is_finished(revocation, finished));
        membership.revocations = open;
        done.into_iter()
            .map(|revocation| (revocation.ticket, finished.snapshot(Some(&revocation.partitions))))
            .collect()
    }

    /// Partitions whose revocation waits until the user has finished what it holds of them.
    pub(crate) fn revocation_pending(&self) -> Vec<TopicPartition> {
        let state = self.state();
        let revocations = state.membership.revocations.iter();
        let pending: BTreeSet<_> = revocations.flat_map(|revocation| revocation.partitions.iter()).collect();
        pending.into_iter().cloned().collect()
    }

    /// How long ago the member last released partitions.
    pub(crate) fn since_release(&self) -> Option<Duration> {
        self.state().membership.released_at.map(|at| at.elapsed())
    }

    /// The member does not own these any more: they were revoked.
    pub(crate) fn released(&self, partitions: &BTreeSet<TopicPartition>) {
        let _build = self.lock_build();
        self.release(self.state(), partitions);
    }

    /// The member does not own these any more: they are lost. An on_revoked for them that has not begun becomes an on_lost. If
    /// nobody `listens` to that there is none, and their tickets are returned. Both in one step: a poll in between ran the
    /// on_revoked of partitions that were gone.
    pub(crate) fn lost(&self, partitions: &BTreeSet<TopicPartition>, listens: bool) -> Vec<u64> {
        let _build = self.lock_build();
        let mut state = self.state();
        let uncalled = state.membership.callbacks.revoked_to_lost(partitions, listens);
        self.release(state, partitions);
        uncalled
    }

    fn release(&self, mut state: MutexGuard<'_, BufferState>, partitions: &BTreeSet<TopicPartition>) {
        state.membership.callbacks.forget_repeated(partitions);
        // The user may have assigned some by hand since the group was left: these are not the group's.
        let mut gone = partitions.clone();
        gone.retain(|partition| state.partitions.get(partition).is_none_or(|buffer| buffer.is_owned()));
        for partition in &gone {
            state.remove(partition);
        }
        state.membership.released_at = Some(Instant::now());
        // Their revocations need no answer any more: the machine has released them without waiting for it.
        let is_open = |partition: &TopicPartition| !partitions.contains(partition);
        state.membership.revocations.retain(|revocation| revocation.partitions.iter().any(is_open));
        self.command(FetchCommand::Unassign { partitions: gone.into_iter().collect(), topics: Vec::new() });
        drop(state);
        self.arrived.notify_all();
    }
}
