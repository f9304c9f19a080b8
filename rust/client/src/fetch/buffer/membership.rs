//! The gate of a group membership: its lease, callbacks and pending revocations, and whether the user polls.
//!
//! Decides what may be handed out, under the locks that batches are built under: the group's task may be
//! late with what it has to say, since a process that was stopped for a minute first finds its own lease out of date.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;

use super::callbacks::Callbacks;
use super::handed_out::HandedOut;
use super::lease::{Lease, LeaseClock};
use crate::error::ClientError;
use crate::fetch::polled::PendingCallback;
use crate::run_time;

/// The state of a group membership; empty without one.
#[derive(Default)]
pub(crate) struct MembershipGate {
    lease: Lease,
    /// The same lease for rows that are handed out one by one, outside of the locks.
    clock: Arc<LeaseClock>,
    revocations: Vec<PendingRevocation>,
    callbacks: Callbacks,
    /// Calls of the user's that wait now.
    waiting_calls: usize,
    /// Time at which the last call of the user's ended, or it said that it is alive.
    polled_at: Option<Instant>,
    /// Time for which the process had been stopped by then.
    stopped_before: Duration,
    /// True if the group's task is to be notified of the next poll: the member left for want of one.
    awaits_poll: bool,
    released_at: Option<Instant>,
    raise: VecDeque<ClientError>,
    /// The error that ended the membership, raised on every call.
    fatal: Option<ClientError>,
    /// The group is being left: nothing more is handed out, and nothing waited for.
    leaving: bool,
    /// Calls of the user's that finished something and whose commit has not reached the group's task yet.
    commit_calls: usize,
}

/// Partitions that are to be released once what the user holds of them is finished.
#[derive(Debug)]
struct PendingRevocation {
    ticket: u64,
    partitions: BTreeSet<TopicPartition>,
    /// True if the caller is to wait until the user comes into a call, to run its callback there.
    wait_for_user: bool,
}

impl MembershipGate {
    pub(super) fn clock(&self) -> Arc<LeaseClock> {
        Arc::clone(&self.clock)
    }

    /// True if nothing may be handed out now: the lease is over, or the group is being left.
    pub(super) fn withholds(&self, now: Instant) -> bool {
        self.leaving || !self.lease.holds(now)
    }

    /// True if there is something that a call returns before any record: a callback, or an error.
    pub(super) fn has_callback_or_error(&self) -> bool {
        self.callbacks.is_due() || self.fatal().is_some() || !self.raise.is_empty()
    }

    /// The next error that is due. Callbacks come before the one that every call raises from now on: nobody calls again
    /// afterwards.
    pub(super) fn take_error(&mut self) -> Option<ClientError> {
        self.take_single_error().or_else(|| self.fatal().cloned())
    }

    /// The next error that is raised once.
    pub(super) fn take_single_error(&mut self) -> Option<ClientError> {
        self.raise.pop_front()
    }

    fn fatal(&self) -> Option<&ClientError> {
        self.fatal.as_ref().filter(|_| self.callbacks.is_empty())
    }

    /// The error that ended the membership, until a new one begins.
    pub(crate) fn error(&self) -> Option<ClientError> {
        self.fatal.clone()
    }

    /// An error of the membership: raised once, or on every call from now on.
    pub(super) fn raise(&mut self, error: ClientError, fatal: bool) {
        match fatal {
            true => self.fatal = Some(error),
            false => self.raise.push_back(error),
        }
    }

    pub(super) fn set_lease(&mut self, lease: Lease) -> Lease {
        self.clock.set(lease);
        std::mem::replace(&mut self.lease, lease)
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving
    }

    pub(super) fn set_leaving(&mut self, leaving: bool) {
        self.leaving = leaving;
        self.callbacks.forget_all_repeated();
        if !leaving {
            self.fatal = None;
            self.raise.clear();
            self.set_lease(Lease::Unlimited);
        }
    }

    pub(super) fn poll_now(&mut self) {
        (self.polled_at, self.stopped_before) = (Some(Instant::now()), run_time::stopped());
    }

    /// The user comes into a call: it can run callbacks.
    pub(super) fn enter(&mut self) {
        self.poll_now();
        self.revocations.iter_mut().for_each(|revocation| revocation.wait_for_user = false);
    }

    pub(super) fn begin_waiting(&mut self) {
        self.waiting_calls += 1;
    }

    /// A call that waited has ended, which counts as a poll.
    pub(super) fn end_waiting(&mut self) {
        self.waiting_calls -= 1;
        self.poll_now();
    }

    /// Time of the user's last poll: now, while a call waits.
    pub(crate) fn polled(&self) -> Instant {
        let now = Instant::now();
        match self.waiting_calls {
            // Taking a row counts as well.
            0 => self.last_call().max(self.clock.row_wanted_at()).unwrap_or(now),
            _ => now,
        }
    }

    /// While the process is stopped, no user can poll: that time does not count.
    fn last_call(&self) -> Option<Instant> {
        self.polled_at.map(|at| at + run_time::stopped().saturating_sub(self.stopped_before))
    }

    /// True if the group's task is to be notified of the next poll at once.
    pub(crate) fn set_awaits_poll(&mut self, awaits_poll: bool) {
        self.awaits_poll = awaits_poll;
    }

    pub(super) fn begin_commit(&mut self) {
        self.commit_calls += 1;
    }

    pub(super) fn end_commit(&mut self) {
        self.commit_calls -= 1;
    }

    pub(super) fn callbacks(&mut self) -> &mut Callbacks {
        &mut self.callbacks
    }

    pub(crate) fn next_callback(&mut self) -> Option<PendingCallback> {
        self.callbacks.next()
    }

    /// Callbacks that nobody will run any more: they count as run.
    pub(crate) fn take_callbacks(&mut self) -> Vec<PendingCallback> {
        self.callbacks.take_all()
    }

    /// The revocation `ticket` of these partitions is finished once the user has finished what it holds of them.
    pub(super) fn revoke(&mut self, ticket: u64, partitions: BTreeSet<TopicPartition>, wait_for_user: bool) {
        let wait_for_user = wait_for_user && self.waiting_calls == 0;
        self.revocations.push(PendingRevocation { ticket, partitions, wait_for_user });
    }

    pub(super) fn has_revocations(&self) -> bool {
        !self.revocations.is_empty()
    }

    /// Partitions whose revocation waits until the user has finished what it holds of them.
    pub(crate) fn revocation_pending(&self) -> Vec<TopicPartition> {
        let pending: BTreeSet<_> = self.revocations.iter().flat_map(|revocation| &revocation.partitions).collect();
        pending.into_iter().cloned().collect()
    }

    /// True if the user holds nothing unfinished of these partitions.
    fn is_finished(&self, revocation: &PendingRevocation, handed_out: &HandedOut) -> bool {
        let quiet = handed_out.is_quiet(&revocation.partitions);
        // Rows that a call finishes are to be committed by it: released before, the next owner would read them again.
        self.commit_calls == 0 && (self.leaving || (quiet && !revocation.wait_for_user))
    }

    /// Takes the revocations of which the user holds nothing unfinished.
    pub(super) fn take_finished(&mut self, handed_out: &HandedOut) -> Vec<(u64, BTreeSet<TopicPartition>)> {
        let revocations = std::mem::take(&mut self.revocations);
        let (done, open): (Vec<_>, Vec<_>) =
            revocations.into_iter().partition(|revocation| self.is_finished(revocation, handed_out));
        self.revocations = open;
        done.into_iter().map(|revocation| (revocation.ticket, revocation.partitions)).collect()
    }

    pub(super) fn released(&mut self, partitions: &BTreeSet<TopicPartition>) {
        self.released_at = Some(Instant::now());
        // Their revocations need no answer any more: the machine has released them without waiting for it.
        let is_open = |partition: &TopicPartition| !partitions.contains(partition);
        self.revocations.retain(|revocation| revocation.partitions.iter().any(is_open));
    }

    pub(crate) fn since_release(&self) -> Option<Duration> {
        self.released_at.map(|at| at.elapsed())
    }

    /// True if the group's task is to be notified.
    pub(super) fn has_work_for_group(&self, handed_out: &HandedOut) -> bool {
        self.awaits_poll
            || self.revocations.iter().any(|revocation| self.is_finished(revocation, handed_out))
            || handed_out.has_finished_enough()
    }
}
