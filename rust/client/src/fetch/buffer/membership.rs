//! What the buffer keeps of a group membership: the lease, callbacks and pending revocations, and whether the user
//! polls.
//!
//! It is decided here, under the locks that batches are built under, what may be handed out: the group's task may be
//! late with what it has to say, since a process that was stopped for a minute first finds its own lease out of date.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Deref;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_engine::ledger::{Holder, OffsetAndEpoch};

use super::callbacks::Callbacks;
use super::finished_offsets::FinishedOffsets;
use super::lease::{Lease, LeaseClock};
use super::revocation::PendingRevocation;
use super::{BufferState, FetchBuffer};
use crate::error::ClientError;
use crate::fetch::step::Leaving;
use crate::run_time;

/// What is kept of a group membership; empty without one.
#[derive(Default)]
pub(super) struct Membership {
    lease: Lease,
    /// The same lease for rows that are handed out one by one, outside of the locks.
    pub(super) clock: Arc<LeaseClock>,
    pub(super) revocations: Vec<PendingRevocation>,
    pub(super) callbacks: Callbacks,
    /// Calls of the user's that wait now.
    pub(super) waiting_calls: usize,
    /// When the last call of the user's ended, or it said that it is alive.
    polled_at: Option<Instant>,
    /// For how long the process had been stopped by then.
    stopped_before: Duration,
    /// Whether the group's task is to be notified of the next poll: the member left for want of one.
    awaits_poll: bool,
    /// When partitions were last released.
    pub(super) released_at: Option<Instant>,
    /// Errors to be raised once.
    pub(super) raise: VecDeque<ClientError>,
    /// The error that ended the membership, raised on every call.
    fatal: Option<ClientError>,
    /// The group is being left: nothing more is handed out, and nothing waited for.
    pub(super) leaving: bool,
    /// Calls of the user's that finished something and whose commit has not reached the group's task yet.
    commit_calls: usize,
}

impl Membership {
    /// Whether nothing may be handed out now: the lease is over, or the group is being left.
    pub(super) fn withholds(&self, now: Instant) -> bool {
        self.leaving || !self.lease.holds(now)
    }

    /// Whether there is something that a call returns before any record: a callback, or an error.
    pub(super) fn has_callback_or_error(&self) -> bool {
        self.callbacks.is_due() || self.fatal().is_some() || !self.raise.is_empty()
    }

    pub(super) fn poll_now(&mut self) {
        (self.polled_at, self.stopped_before) = (Some(Instant::now()), run_time::stopped());
    }

    /// When the user last polled. While the process is stopped, no user can poll: that time does not count.
    fn polled(&self) -> Option<Instant> {
        self.polled_at.map(|at| at + run_time::stopped().saturating_sub(self.stopped_before))
    }

    /// The error that every call raises from now on. Callbacks come before it: nobody calls again afterwards.
    pub(super) fn fatal(&self) -> Option<ClientError> {
        self.fatal.clone().filter(|_| self.callbacks.is_empty())
    }

    /// Sets the lease, and returns the one before.
    fn set_lease(&mut self, lease: Lease) -> Lease {
        self.clock.set(lease);
        std::mem::replace(&mut self.lease, lease)
    }

    /// Whether the user holds nothing unfinished of these partitions.
    pub(super) fn is_finished(&self, revocation: &PendingRevocation, finished: &FinishedOffsets) -> bool {
        let quiet = finished.ledger.as_ref().is_none_or(|ledger| ledger.is_quiet(&revocation.partitions));
        // What a call finishes is to be committed by it: released before that, the next owner would read it again.
        self.commit_calls == 0 && (self.leaving || (quiet && !revocation.wait_for_user))
    }

    fn has_work_for_group(&self, finished: &FinishedOffsets) -> bool {
        self.awaits_poll
            || self.revocations.iter().any(|revocation| self.is_finished(revocation, finished))
            || finished.has_finished_enough()
    }
}

/// A commit of the user's on its way to the group's task: until it is there, no revocation is finished.
pub(crate) struct CommitCall(Arc<FetchBuffer>);

impl Drop for CommitCall {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.membership.commit_calls -= 1;
        drop(state);
        self.0.group_wanted.notify_one();
    }
}

/// Counts a call that waits; its end counts as a poll.
pub(crate) struct WaitingCall<B: Deref<Target = FetchBuffer>>(B);

impl<B: Deref<Target = FetchBuffer>> Drop for WaitingCall<B> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.membership.waiting_calls -= 1;
        state.membership.poll_now();
    }
}

impl FetchBuffer {
    /// A user's thread comes into a call: what it holds is finished, and it can run callbacks.
    pub(crate) fn enter(&self, holder: Holder) {
        let mut state = self.state();
        state.finished.finish_held(holder);
        state.finished.asks(holder);
        if state.finished.ledger.is_none() {
            return;
        }
        state.membership.poll_now();
        for revocation in &mut state.membership.revocations {
            revocation.wait_for_user = false;
        }
        self.notify_group(state);
    }

    /// A thread or task of the user's has ended, and will not finish what it holds: that stays uncommitted, and nobody
    /// waits for it. Returns the place after it in each partition.
    pub(crate) fn holder_ended(&self, holder: Holder) -> BTreeSet<(TopicPartition, OffsetAndEpoch)> {
        let mut state = self.state();
        let unfinished = state.holder_ended(holder);
        state.finished.forget_asker(holder);
        self.notify_group(state);
        self.arrived.notify_all();
        unfinished
    }

    /// As if the user had polled.
    pub(crate) fn keep_alive(&self) {
        let mut state = self.state();
        state.membership.poll_now();
        self.notify_group(state);
    }

    /// The user commits: no revocation is finished before the group's task has the commit, or there is nothing to
    /// commit.
    pub(crate) fn begin_commit(self: &Arc<Self>) -> CommitCall {
        self.state().membership.commit_calls += 1;
        CommitCall(self.clone())
    }

    pub(super) fn begin_waiting(&self) -> WaitingCall<&Self> {
        self.state().membership.waiting_calls += 1;
        WaitingCall(self)
    }

    /// As [`Self::begin_waiting`], for a call that goes on in a task of the runtime's.
    pub(crate) fn begin_waiting_in_task(self: &Arc<Self>) -> WaitingCall<Arc<Self>> {
        self.state().membership.waiting_calls += 1;
        WaitingCall(self.clone())
    }

    pub(super) fn notify_group(&self, state: MutexGuard<'_, BufferState>) {
        let wanted = state.membership.has_work_for_group(&state.finished);
        if !state.raise.is_empty() {
            // An error comes after the rows before it, which may be finished now.
            self.arrived.notify_all();
        }
        drop(state);
        if wanted {
            self.group_wanted.notify_one();
        }
    }

    /// When the user last polled: now, while a call waits.
    pub(crate) fn polled(&self) -> Instant {
        let membership = &self.state().membership;
        let now = Instant::now();
        match membership.waiting_calls {
            // Taking a row counts as well.
            0 => membership.polled().max(membership.clock.row_wanted_at()).unwrap_or(now),
            _ => now,
        }
    }

    /// Whether the group's task is to be notified of the next poll at once.
    pub(crate) fn set_awaits_poll(&self, awaits_poll: bool) {
        self.state().membership.awaits_poll = awaits_poll;
    }

    /// Until when records may be handed out.
    pub(crate) fn set_lease(&self, lease: Lease) {
        let before = self.state().membership.set_lease(lease);
        // Every heartbeat renews it; calls wait only for one that was over.
        if !before.holds(Instant::now()) {
            self.arrived.notify_all();
        }
    }

    /// An error of the membership: raised once, or on every call from now on.
    pub(crate) fn raise(&self, error: ClientError, fatal: bool) {
        let mut state = self.state();
        match fatal {
            true => state.membership.fatal = Some(error),
            false => state.membership.raise.push_back(error),
        }
        state.stop_all_rows();
        drop(state);
        self.arrived.notify_all();
    }

    /// The error that ended the membership, until a new one begins.
    pub(crate) fn membership_error(&self) -> Option<ClientError> {
        self.state().membership.fatal.clone()
    }

    /// The group is being left: nothing more is handed out, and what is held is not waited for. Or (`false`) it is
    /// left, and a new membership may begin.
    pub(crate) fn set_leaving(&self, leaving: bool) {
        let _build = self.lock_build();
        let mut state = self.state();
        state.membership.leaving = leaving;
        state.membership.callbacks.forget_all_repeated();
        match leaving {
            true => state.stop_all_rows(),
            false => {
                state.membership.fatal = None;
                state.membership.raise.clear();
                state.membership.set_lease(Lease::Unlimited);
            }
        }
        drop(state);
        self.group_wanted.notify_one();
        self.arrived.notify_all();
    }

    /// How far leaving the group is; waits for a change until `until`.
    pub(crate) fn leaving(&self, until: Instant) -> Leaving {
        let _waiting = self.begin_waiting();
        let mut state = self.state();
        loop {
            if let Some(callback) = state.membership.callbacks.next() {
                return Leaving::Callback(callback);
            }
            if !state.membership.leaving {
                return Leaving::Done;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Leaving::Waiting;
            }
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
