//! What a consumer group adds to the buffer: which partitions may be handed out, the lease, and callbacks to be run.
//!
//! A gained partition is handed out from the moment that both its start is known and its callback has ended; one that is to be
//! given up is handed out no more. Past the lease nothing is. All of it is decided here, under the locks that batches are built
//! under, because news from the group's task may come too late: a process that was stopped for a minute first finds its own
//! lease out of date.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Deref;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use monedula_engine::group::classic::{CallbackKind, CommitOffset, Committed};
use monedula_engine::ledger::{Holder, Place};

use super::finished_offsets::FinishedOffsets;
use super::lease::{Lease, LeaseClock};
use super::partition_buffer::PartitionBuffer;
use super::{FetchBuffer, State};
use crate::error::ClientError;
use crate::fetch::command::FetchCommand;
use crate::fetch::step::{Leaving, PendingCallback};

/// Partitions that are to be given up.
#[derive(Debug)]
struct PendingRevocation {
    ticket: u64,
    partitions: BTreeSet<TopicPartition>,
    /// Whether to wait until the user comes into a call, to run its callback there.
    wait_for_user: bool,
}

/// What is kept of a group; without one, nothing of it.
#[derive(Default)]
pub(super) struct Membership {
    lease: Lease,
    /// The same for rows that are handed out one by one, outside of the locks.
    pub(super) clock: Arc<LeaseClock>,
    revocations: Vec<PendingRevocation>,
    callbacks: VecDeque<PendingCallback>,
    /// Those for gained partitions that the user's code failed of: the next call runs them again, before any other.
    again: VecDeque<PendingCallback>,
    /// The callback that a thread of the user's runs now.
    running: Option<PendingCallback>,
    /// Calls of the user's that wait now, and when the last one ended.
    waiting: usize,
    polled: Option<Instant>,
    /// Whether the next poll is waited for.
    stale: bool,
    /// Errors to be raised once, and the one that is raised from now on.
    pub(super) raise: VecDeque<ClientError>,
    fatal: Option<ClientError>,
    /// The group is being left: nothing more is handed out, and nothing waited for.
    leaving: bool,
    /// Calls of the user's that finished something and whose commit the group's task has not heard of yet.
    commit_calls: usize,
}

/// A commit of the user's on its way to the group's task.
pub(crate) struct CommitCall(Arc<FetchBuffer>);

impl Drop for CommitCall {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.membership.commit_calls -= 1;
        drop(state);
        self.0.group_wanted.notify_one();
    }
}

impl Membership {
    /// Whether the group keeps everything back now.
    pub(super) fn withholds(&self, now: Instant) -> bool {
        self.leaving || !self.lease.holds(now)
    }

    /// Whether there is something that is told before any record: a callback, or an error.
    pub(super) fn has_callback_or_error(&self) -> bool {
        let callback = self.running.is_none() && self.has_callbacks();
        callback || self.fatal().is_some() || !self.raise.is_empty()
    }

    /// The error that is raised from now on. What became of the partitions is told before it: nobody calls again afterwards.
    pub(super) fn fatal(&self) -> Option<ClientError> {
        self.fatal.clone().filter(|_| !self.has_callbacks())
    }

    fn has_callbacks(&self) -> bool {
        !self.again.is_empty() || !self.callbacks.is_empty()
    }

    /// Nobody is to be told any more that these were gained.
    fn forget_repeated(&mut self, partitions: &BTreeSet<TopicPartition>) {
        for callback in &mut self.again {
            callback.partitions.retain(|partition| !partitions.contains(partition));
        }
        self.again.retain(|callback| !callback.partitions.is_empty());
    }

    pub(super) fn next_callback(&mut self) -> Option<PendingCallback> {
        if self.running.is_some() {
            return None;
        }
        self.running = self.again.pop_front().or_else(|| self.callbacks.pop_front());
        self.running.clone()
    }

    fn set_lease(&mut self, lease: Lease) -> Lease {
        self.clock.set(lease);
        std::mem::replace(&mut self.lease, lease)
    }

    fn is_finished(&self, settle: &PendingRevocation, finished: &FinishedOffsets) -> bool {
        let quiet = finished.ledger.as_ref().is_none_or(|ledger| ledger.is_quiet(&settle.partitions));
        // What a call finishes is to be committed by it: given up before, another would read it again.
        self.commit_calls == 0 && (self.leaving || (quiet && !settle.wait_for_user))
    }

    fn has_work_for_group(&self, finished: &FinishedOffsets) -> bool {
        self.stale
            || self.revocations.iter().any(|settle| self.is_finished(settle, finished))
            || finished.has_finished_enough()
    }
}

/// Counts a call that waits; its end counts as a poll.
pub(crate) struct Waiting<D: Deref<Target = FetchBuffer>>(D);

impl<D: Deref<Target = FetchBuffer>> Drop for Waiting<D> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.membership.waiting -= 1;
        state.membership.polled = Some(Instant::now());
    }
}

impl FetchBuffer {
    /// A user's thread comes into a call: what it holds is finished, and it is there to run callbacks.
    pub(crate) fn enter(&self, holder: Holder) {
        let mut state = self.state();
        state.finished.finish_held(holder);
        if state.finished.ledger.is_none() {
            return;
        }
        state.membership.polled = Some(Instant::now());
        for settle in &mut state.membership.revocations {
            settle.wait_for_user = false;
        }
        self.notify_group(state);
    }

    /// A thread or task of the user's has ended, and will not finish what it holds: that stays uncommitted, and nobody waits for
    /// it. Returns the place after it in each partition.
    pub(crate) fn holder_ended(&self, holder: Holder) -> BTreeSet<(TopicPartition, Place)> {
        let mut state = self.state();
        let unfinished = state.holder_ended(holder);
        self.notify_group(state);
        self.arrived.notify_all();
        unfinished
    }

    /// As if the user had polled.
    pub(crate) fn keep_alive(&self) {
        let mut state = self.state();
        state.membership.polled = Some(Instant::now());
        self.notify_group(state);
    }

    /// The user commits: nothing is settled until the task has heard of it, or there is nothing to hear.
    pub(crate) fn begin_commit(self: &Arc<Self>) -> CommitCall {
        self.state().membership.commit_calls += 1;
        CommitCall(self.clone())
    }

    pub(super) fn waits(&self) -> Waiting<&Self> {
        self.state().membership.waiting += 1;
        Waiting(self)
    }

    /// As [`Self::waits`], for a call that goes on in a task of the runtime's.
    pub(crate) fn waits_in_a_task(self: &Arc<Self>) -> Waiting<Arc<Self>> {
        self.state().membership.waiting += 1;
        Waiting(self.clone())
    }

    pub(super) fn notify_group(&self, state: MutexGuard<'_, State>) {
        let wanted = state.membership.has_work_for_group(&state.finished);
        drop(state);
        if wanted {
            self.group_wanted.notify_one();
        }
    }

    /// When the user last polled: now, while a call waits.
    pub(crate) fn polled(&self) -> Instant {
        let state = self.state();
        let now = Instant::now();
        match state.membership.waiting {
            // Whoever asks for a row is there.
            0 => state.membership.polled.max(state.membership.clock.row_wanted_at()).unwrap_or(now),
            _ => now,
        }
    }

    /// Whether the task is to be told of the next poll at once.
    pub(crate) fn set_awaits_poll(&self, stale: bool) {
        self.state().membership.stale = stale;
    }

    /// Until when records may be handed out.
    pub(crate) fn set_lease(&self, lease: Lease) {
        let before = self.state().membership.set_lease(lease);
        // Every heartbeat renews it; only a lease that was out has anyone waiting for it.
        if !before.holds(Instant::now()) {
            self.arrived.notify_all();
        }
    }

    /// Partitions were gained; nothing of them is handed out yet.
    pub(crate) fn assigned(&self, partitions: &BTreeSet<TopicPartition>) {
        let _build = self.lock_build();
        let mut state = self.state();
        state.membership.forget_repeated(partitions);
        for partition in partitions {
            state.remove(partition);
            let span = state.new_span();
            let mut buffer = PartitionBuffer::new(span, None);
            (buffer.owned, buffer.started, buffer.announced) = (true, false, false);
            state.partitions.insert(partition.clone(), buffer);
            state.finished.restart(partition, span, None);
        }
    }

    /// Where gained partitions start; those that the user has sent elsewhere meanwhile stay there.
    pub(crate) fn start_owned(&self, partitions: Vec<(TopicPartition, Committed, bool)>) {
        let mut state = self.state();
        for (partition, committed, is_new) in partitions {
            let Some(span) = state.partitions.get(&partition).filter(|buffer| buffer.owned).map(|buffer| buffer.span)
            else {
                continue;
            };
            let otherwise = if is_new { Start::Earliest } else { Start::Policy };
            self.start_at(&mut state, &partition, span, committed, otherwise);
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// Where a partition starts that was assigned to start at its committed offset: as [`Self::start_owned`], for this span of it.
    pub(crate) fn start_by_hand(&self, partition: &TopicPartition, span: u64, committed: Committed) {
        let mut state = self.state();
        self.start_at(&mut state, partition, span, committed, Start::Policy);
        drop(state);
        self.arrived.notify_all();
    }

    fn start_at(
        &self,
        state: &mut State,
        partition: &TopicPartition,
        span: u64,
        committed: Committed,
        otherwise: Start,
    ) {
        let State { partitions, finished, raise, .. } = &mut *state;
        let waits = |buffer: &&mut PartitionBuffer| buffer.span == span && !buffer.started;
        let Some(buffer) = partitions.get_mut(partition).filter(waits) else { return };
        // It could not be had before.
        if buffer.fault.take().is_some() {
            raise.retain(|error| error.partition() != Some(partition));
        }
        let start = match committed {
            Some(at) => {
                buffer.target = Some(at.offset);
                let place = Place { offset: at.offset, leader_epoch: at.leader_epoch };
                if let Some(ledger) = &mut finished.ledger {
                    ledger.start(partition, span, place, true);
                }
                Start::Offset(at.offset, at.leader_epoch)
            }
            None => otherwise,
        };
        let (is_owned, end) = (buffer.owned, buffer.end);
        self.command(FetchCommand::Assign { partitions: vec![(partition.clone(), span, start, end)], is_owned });
        self.change(state, partition, |buffer| buffer.started = true);
    }

    /// As [`Self::add`], for a partition that starts at its committed offset: the driver hears of it once that is known.
    pub(crate) fn add_waiting(&self, partition: &TopicPartition, end: Option<i64>) -> u64 {
        let span = self.add(partition, end);
        if let Some(buffer) = self.state().current(partition, span) {
            buffer.started = false;
        }
        span
    }

    /// Has a partition that is assigned wait for its committed offset, to go on there. Its span; `None` if it is not assigned.
    pub(crate) fn wait_for_start(&self, partition: &TopicPartition) -> Option<u64> {
        let span = self.restart(partition)?;
        let mut state = self.state();
        state.current(partition, span)?.started = false;
        self.command(FetchCommand::Unassign { partitions: vec![partition.clone()], topics: Vec::new() });
        Some(span)
    }

    /// The partitions that are no group's.
    pub(crate) fn assigned_by_hand(&self) -> Vec<TopicPartition> {
        let state = self.state();
        let by_hand = state.partitions.iter().filter(|(_, buffer)| !buffer.owned);
        by_hand.map(|(partition, _)| partition.clone()).collect()
    }

    /// Whether a partition waits for its committed offset.
    pub(crate) fn waits_for_start(&self, partition: &TopicPartition, span: u64) -> bool {
        self.state().current(partition, span).is_some_and(|buffer| !buffer.started)
    }

    /// The committed offset of a partition cannot be had for now, where it is to start.
    pub(crate) fn start_failed(&self, partition: &TopicPartition, span: Option<u64>, error: ClientError) {
        let mut state = self.state();
        let waits =
            |buffer: &&mut PartitionBuffer| !buffer.started && span.map_or(buffer.owned, |span| buffer.span == span);
        let Some(buffer) = state.partitions.get_mut(partition).filter(waits) else { return };
        buffer.fault = Some(error.clone());
        state.raise.push_back(error);
        drop(state);
        self.arrived.notify_all();
    }

    /// Hands nothing of these out any more. [`Self::take_finished_revocations`] says when the user has finished what it holds of them.
    pub(crate) fn revoke(&self, ticket: u64, partitions: BTreeSet<TopicPartition>, wait_for_user: bool) {
        let _build = self.lock_build();
        let mut state = self.state();
        state.membership.forget_repeated(&partitions);
        for partition in &partitions {
            // What was assigned by hand since the group was left is none of its business.
            self.change(&mut state, partition, |buffer| buffer.revoking = buffer.owned);
        }
        let wait_for_user = wait_for_user && state.membership.waiting == 0;
        state.membership.revocations.push(PendingRevocation { ticket, partitions, wait_for_user });
    }

    /// Takes the tickets whose partitions are settled, with what is to be committed.
    pub(crate) fn take_finished_revocations(&self) -> Vec<(u64, BTreeMap<TopicPartition, CommitOffset>)> {
        let mut state = self.state();
        let State { membership, finished, .. } = &mut *state;
        finished.sync_rows(None, false);
        let revocations = std::mem::take(&mut membership.revocations);
        let (settled, open): (Vec<_>, Vec<_>) =
            revocations.into_iter().partition(|settle| membership.is_finished(settle, finished));
        membership.revocations = open;
        settled.into_iter().map(|settle| (settle.ticket, finished.snapshot(Some(&settle.partitions)))).collect()
    }

    /// Partitions that wait to be given up until the user has finished what it holds.
    pub(crate) fn revocation_pending(&self) -> Vec<TopicPartition> {
        let state = self.state();
        let wanted: BTreeSet<_> =
            state.membership.revocations.iter().flat_map(|settle| settle.partitions.iter()).collect();
        wanted.into_iter().cloned().collect()
    }

    /// These are not owned any more.
    pub(crate) fn released(&self, partitions: &BTreeSet<TopicPartition>) {
        let _build = self.lock_build();
        let mut state = self.state();
        state.membership.forget_repeated(partitions);
        // The user may have assigned some by hand since the group was left: these are not the group's.
        let mut gone = partitions.clone();
        gone.retain(|partition| state.partitions.get(partition).is_none_or(|buffer| buffer.owned));
        for partition in &gone {
            state.remove(partition);
        }
        // What was asked of them needs no answer any more: the machine has given them up without waiting for it.
        state
            .membership
            .revocations
            .retain(|settle| !settle.partitions.iter().all(|partition| partitions.contains(partition)));
        self.command(FetchCommand::Unassign { partitions: gone.into_iter().collect(), topics: Vec::new() });
        drop(state);
        self.arrived.notify_all();
    }

    /// Has a thread of the user's run a callback.
    pub(crate) fn queue_callback(&self, callback: PendingCallback) {
        let mut state = self.state();
        state.membership.callbacks.push_back(callback);
        state.stop_all_rows();
        drop(state);
        self.arrived.notify_all();
    }

    /// These are lost: a callback that was to tell of their revocation, and has not begun, tells of their loss. If nobody
    /// `listens` to that there is none, and their tickets come back.
    pub(crate) fn lost(&self, partitions: &BTreeSet<TopicPartition>, listens: bool) -> Vec<u64> {
        let mut state = self.state();
        let is_late = |callback: &PendingCallback| {
            callback.kind == CallbackKind::Revoked && callback.partitions.iter().all(|one| partitions.contains(one))
        };
        let waiting = std::mem::take(&mut state.membership.callbacks);
        let (late, mut others): (VecDeque<_>, VecDeque<_>) = waiting.into_iter().partition(is_late);
        let lost = late.into_iter().map(|callback| PendingCallback { kind: CallbackKind::Lost, ..callback });
        let (told, untold): (Vec<_>, Vec<_>) = lost.partition(|_| listens);
        others.extend(told);
        state.membership.callbacks = others;
        untold.into_iter().map(|callback| callback.ticket).collect()
    }

    /// The next callback to be run, if none is running.
    pub(crate) fn next_callback(&self) -> Option<PendingCallback> {
        self.state().membership.next_callback()
    }

    /// Callbacks that nobody will run any more: they count as run.
    pub(crate) fn take_callbacks(&self) -> Vec<PendingCallback> {
        let mut state = self.state();
        state.membership.again.clear();
        let running = state.membership.running.take();
        running.into_iter().chain(std::mem::take(&mut state.membership.callbacks)).collect()
    }

    /// A callback has ended, `failed` if it raised. False if it is not the one that runs.
    pub(crate) fn called_back(&self, ticket: u64, failed: bool) -> bool {
        let mut state = self.state();
        let Some(mut callback) = state.membership.running.take_if(|callback| callback.ticket == ticket) else {
            return false;
        };
        state.membership.polled = Some(Instant::now());
        let gained = callback.kind == CallbackKind::Assigned;
        if gained && failed && !state.membership.leaving {
            // The user's part, such as a seek to offsets of its own, is not done: nothing of them is handed out before it is.
            let State { partitions, membership, .. } = &mut *state;
            callback.partitions.retain(|partition| partitions.get(partition).is_some_and(|buffer| !buffer.revoking));
            membership.again.extend(Some(callback).filter(|callback| !callback.partitions.is_empty()));
            drop(state);
        } else if gained {
            drop(state);
            self.on_assigned_done(&callback.partitions);
        } else {
            drop(state);
        }
        self.arrived.notify_all();
        true
    }

    /// The user knows of these gained partitions, or does not want to.
    pub(crate) fn on_assigned_done<'p>(&self, partitions: impl IntoIterator<Item = &'p TopicPartition>) {
        let mut state = self.state();
        for partition in partitions {
            self.change(&mut state, partition, |buffer| buffer.announced = true);
        }
        drop(state);
        self.arrived.notify_all();
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

    /// The group is being left: nothing more is handed out, and what is held is not waited for. Or it is left, and all starts anew.
    pub(crate) fn set_leaving(&self, leaving: bool) {
        let _build = self.lock_build();
        let mut state = self.state();
        state.membership.leaving = leaving;
        state.membership.again.clear();
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

    /// Records that are there to be handed out, as their batches claim.
    pub(crate) fn queued_records(&self) -> u64 {
        self.state().queued_records
    }

    /// How far leaving the group is; waits for news until `until`.
    pub(crate) fn leaving(&self, until: Instant) -> Leaving {
        let _waiting = self.waits();
        let mut state = self.state();
        loop {
            if let Some(callback) = state.membership.next_callback() {
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
