//! What a consumer group adds to the delivery: gates before partitions, the lease, the ledger, and callbacks to be run.
//!
//! A gained partition is handed out from the moment that both its start is known and its callback has ended; one that is to be
//! given up is handed out no more. Past the lease nothing is. All of it is decided here, under the locks that batches are built
//! under, because news from the group's task may come too late: a process that was stopped for a minute first finds its own
//! lease out of date.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use monedula_engine::group::{CallbackKind, CommitError, CommitOffset, Committed};
use monedula_engine::ledger::{BatchId, Holder, Ledger, Place};

use super::lane::Lane;
use super::rows::RowsTaken;
use super::{Delivery, State};
use crate::driver::Command;
use crate::error::ClientError;
use crate::group::{CommitOutcome, Leaving, PendingCallback};

/// Until when records may be handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lease {
    /// For ever: the consumer is in no group.
    #[default]
    Free,
    /// Until then.
    Until(Instant),
    /// Not now.
    Out,
}

impl Lease {
    pub(super) fn holds(self, now: Instant) -> bool {
        match self {
            Self::Free => true,
            Self::Until(until) => now < until,
            Self::Out => false,
        }
    }
}

/// Partitions that are to be given up.
#[derive(Debug)]
struct Settle {
    ticket: u64,
    partitions: BTreeSet<TopicPartition>,
    /// Whether to wait until the user comes into a call, to run its callback there.
    wait_for_user: bool,
}

/// What is kept of a group; without one, nothing of it.
#[derive(Default)]
pub(super) struct Gates {
    /// Kept where there is a `group.id`.
    pub(super) ledger: Option<Ledger>,
    pub(super) lease: Lease,
    settles: Vec<Settle>,
    callbacks: VecDeque<PendingCallback>,
    /// The callback that a thread of the user's runs now.
    running: Option<PendingCallback>,
    /// Calls of the user's that wait now, and when the last one ended.
    waiting: usize,
    polled: Option<Instant>,
    /// Whether the next poll is waited for.
    stale: bool,
    /// Errors to be raised once, and the one that is raised from now on.
    pub(super) raise: VecDeque<ClientError>,
    pub(super) fatal: Option<ClientError>,
    /// The group is being left: nothing more is handed out, and nothing waited for.
    leaving: bool,
    last_batch: BatchId,
    /// Batches whose rows are handed out one by one.
    pub(super) rows: BTreeMap<BatchId, RowsTaken>,
    /// Rows in the hands of each holder, and rows finished since the last automatic commit; counted where one depends on it.
    commit_after: Option<u64>,
    held_rows: BTreeMap<Holder, u64>,
    finished_rows: u64,
    /// Calls of the user's that finished something and whose commit the group's task has not heard of yet.
    commit_calls: usize,
    /// Brought to be committed and not known to be, and the last that is known to be, since the partition was gained or sought.
    brought: BTreeMap<TopicPartition, CommitOffset>,
    confirmed: BTreeMap<TopicPartition, CommitOffset>,
    /// Partitions that were given up or lost while records of them were in the user's hands, or finished and not committed: what
    /// a transaction has of these, another member will bring as well.
    given_up: BTreeSet<TopicPartition>,
}

/// A commit of the user's on its way to the group's task.
pub(crate) struct CommitCall(Arc<Delivery>);

impl Drop for CommitCall {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.gates.commit_calls -= 1;
        drop(state);
        self.0.group_wanted.notify_one();
    }
}

impl Gates {
    /// Whether the group keeps everything back now.
    pub(super) fn keep_back(&self, now: Instant) -> bool {
        self.leaving || !self.lease.holds(now)
    }

    /// Whether there is something that is told before any record: a callback, or an error.
    pub(super) fn has_news(&self) -> bool {
        let callback = self.running.is_none() && !self.callbacks.is_empty();
        callback || self.fatal.is_some() || !self.raise.is_empty()
    }

    pub(super) fn next_callback(&mut self) -> Option<PendingCallback> {
        if self.running.is_some() {
            return None;
        }
        self.running = self.callbacks.pop_front();
        self.running.clone()
    }

    /// What was finished of batches whose rows are handed out one by one. `all`: the row in the user's hands too.
    fn sync_rows(&mut self, only: Option<Holder>, all: bool) {
        let Some(ledger) = &mut self.ledger else { return };
        let mut used_up = Vec::new();
        for (id, rows) in self.rows.iter().filter(|(_, rows)| only.is_none_or(|holder| rows.holder == holder)) {
            match rows.is_used_up() {
                true => used_up.push(*id),
                false => rows.finish(*id, ledger, all),
            }
        }
        for id in used_up {
            self.rows.remove(&id);
            ledger.finish(id);
        }
    }

    /// `holder` asks for more: it has finished what it holds.
    fn finish_held(&mut self, holder: Holder) {
        self.sync_rows(Some(holder), true);
        if let Some(ledger) = &mut self.ledger {
            ledger.finish_held(holder);
        }
        self.finished_rows += self.held_rows.remove(&holder).unwrap_or_default();
    }

    fn is_settled(&self, settle: &Settle) -> bool {
        let quiet = self.ledger.as_ref().is_none_or(|ledger| ledger.is_quiet(&settle.partitions));
        // What a call finishes is to be committed by it: given up before, another would read it again.
        self.commit_calls == 0 && (self.leaving || (quiet && !settle.wait_for_user))
    }

    fn snapshot(&mut self, only: Option<&BTreeSet<TopicPartition>>) -> BTreeMap<TopicPartition, CommitOffset> {
        self.sync_rows(None, false);
        let Some(ledger) = &mut self.ledger else { return BTreeMap::new() };
        let offsets = ledger.snapshot(only);
        self.brought.extend(offsets.iter().map(|(partition, at)| (partition.clone(), at.clone())));
        self.finished_rows = 0;
        offsets
    }

    pub(super) fn released(&mut self, partition: &TopicPartition) {
        if let Some(ledger) = &mut self.ledger {
            if ledger.is_ahead(partition) {
                self.given_up.insert(partition.clone());
            }
            ledger.release(partition);
        }
        self.forget_commits(partition);
    }

    /// The partition is read as `span` from now on, from `at` if that is known.
    pub(super) fn restart(&mut self, partition: &TopicPartition, span: u64, at: Option<Place>) {
        if let Some(ledger) = &mut self.ledger {
            ledger.restart(partition, span, at);
        }
        self.forget_commits(partition);
    }

    /// What was committed so far says nothing of what may be committed next.
    fn forget_commits(&mut self, partition: &TopicPartition) {
        self.brought.remove(partition);
        self.confirmed.remove(partition);
    }

    /// What committing a batch that ends at `next` means for a partition. `Ok`: nothing has to be sent.
    fn frontier(&mut self, partition: &TopicPartition, next: Place) -> Option<Result<CommitOffset, CommitOffset>> {
        let ledger = self.ledger.as_mut()?;
        let finished = ledger.finished(partition)?;
        // Whoever read on in another thread did not mean the user's work on those batches to be done (contract 1).
        let at = if finished.offset <= next.offset { finished } else { next };
        let reaches = |committed: &&CommitOffset| committed.offset >= at.offset;
        // Never below what an earlier commit said; one that is under way is brought again, to be waited for.
        if let Some(brought) = self.brought.get(partition).filter(reaches) {
            return Some(Err(brought.clone()));
        }
        if let Some(confirmed) = self.confirmed.get(partition).filter(reaches) {
            return Some(Ok(confirmed.clone()));
        }
        if at == finished {
            ledger.snapshot(Some(&BTreeSet::from([partition.clone()])));
        }
        let at = offset_at(at);
        self.brought.insert(partition.clone(), at.clone());
        Some(Err(at))
    }

    /// Notes a batch of `rows` rows, and names it.
    pub(super) fn hand_out(&mut self, holder: Holder, rows: usize, places: &[(TopicPartition, u64, Place)]) -> BatchId {
        let Some(ledger) = &mut self.ledger else { return 0 };
        self.last_batch += 1;
        ledger.hand_out(self.last_batch, holder, places);
        if rows == 0 {
            // Only markers and aborted records: there is nothing that the user could finish.
            ledger.finish(self.last_batch);
        } else if self.commit_after.is_some() {
            *self.held_rows.entry(holder).or_default() += rows as u64;
        }
        self.last_batch
    }

    fn wants_task(&self) -> bool {
        self.stale
            || self.settles.iter().any(|settle| self.is_settled(settle))
            || self.commit_after.is_some_and(|after| self.finished_rows >= after)
    }
}

fn offset_at(at: Place) -> CommitOffset {
    CommitOffset { offset: at.offset, leader_epoch: at.leader_epoch, metadata: String::new() }
}

/// Counts a call that waits; its end counts as a poll.
pub(super) struct Waiting<'d>(&'d Delivery);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.gates.waiting -= 1;
        state.gates.polled = Some(Instant::now());
    }
}

impl Delivery {
    /// Keeps account of what is handed out and finished from now on; `commit_after`: the task is to be told when so many rows
    /// are finished.
    pub(crate) fn keep_ledger(&self, commit_after: Option<u64>) {
        let mut state = self.state();
        state.gates.ledger = Some(Ledger::default());
        state.gates.commit_after = commit_after;
    }

    /// A user's thread comes into a call: what it holds is finished, and it is there to run callbacks.
    pub(crate) fn enter(&self, holder: Holder) {
        let mut state = self.state();
        if state.gates.ledger.is_none() {
            return;
        }
        state.gates.finish_held(holder);
        state.gates.polled = Some(Instant::now());
        for settle in &mut state.gates.settles {
            settle.wait_for_user = false;
        }
        self.tell_task(state);
    }

    /// As if the user had polled.
    pub(crate) fn keep_alive(&self) {
        let mut state = self.state();
        state.gates.polled = Some(Instant::now());
        self.tell_task(state);
    }

    /// The user commits: nothing is settled until the task has heard of it, or there is nothing to hear.
    pub(crate) fn commits(self: &Arc<Self>) -> CommitCall {
        self.state().gates.commit_calls += 1;
        CommitCall(self.clone())
    }

    pub(super) fn waits(&self) -> Waiting<'_> {
        self.state().gates.waiting += 1;
        Waiting(self)
    }

    fn tell_task(&self, state: MutexGuard<'_, State>) {
        let wanted = state.gates.wants_task();
        drop(state);
        if wanted {
            self.group_wanted.notify_one();
        }
    }

    /// When the user last polled: now, while a call waits.
    pub(crate) fn polled(&self) -> Instant {
        let state = self.state();
        let now = Instant::now();
        match state.gates.waiting {
            0 => state.gates.polled.unwrap_or(now),
            _ => now,
        }
    }

    /// Whether the task is to be told of the next poll at once.
    pub(crate) fn set_stale(&self, stale: bool) {
        self.state().gates.stale = stale;
    }

    /// Until when records may be handed out.
    pub(crate) fn set_lease(&self, lease: Lease) {
        let before = std::mem::replace(&mut self.state().gates.lease, lease);
        // Every heartbeat renews it; only a lease that was out has anyone waiting for it.
        if !before.holds(Instant::now()) {
            self.arrived.notify_all();
        }
    }

    /// Partitions were gained; nothing of them is handed out yet.
    pub(crate) fn gained(&self, partitions: &BTreeSet<TopicPartition>) {
        let _turn = self.turn();
        let mut state = self.state();
        for partition in partitions {
            state.remove(partition);
            let span = state.new_span();
            let mut lane = Lane::new(span, None);
            (lane.started, lane.announced) = (false, false);
            state.lanes.insert(partition.clone(), lane);
            state.gates.restart(partition, span, None);
        }
    }

    /// Where gained partitions start; those that the user has sent elsewhere meanwhile stay there.
    pub(crate) fn start(&self, partitions: Vec<(TopicPartition, Committed, bool)>) {
        let mut state = self.state();
        let mut assigned = Vec::new();
        for (partition, committed, is_new) in partitions {
            let Some(lane) = state.lanes.get_mut(&partition).filter(|lane| !lane.started) else { continue };
            let span = lane.span;
            let start = match committed {
                Some(at) => {
                    lane.target = Some(at.offset);
                    let place = Place { offset: at.offset, leader_epoch: at.leader_epoch };
                    if let Some(ledger) = &mut state.gates.ledger {
                        ledger.start(&partition, span, place, true);
                    }
                    Start::Offset(at.offset, at.leader_epoch)
                }
                None if is_new => Start::Earliest,
                None => Start::Policy,
            };
            assigned.push((partition, span, start, None));
        }
        let started: Vec<TopicPartition> = assigned.iter().map(|(partition, ..)| partition.clone()).collect();
        self.command(Command::Assign { partitions: assigned });
        for partition in &started {
            self.change(&mut state, partition, |lane| lane.started = true);
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// A gained partition will not start.
    pub(crate) fn start_failed(&self, partition: &TopicPartition, error: ClientError) {
        let mut state = self.state();
        let Some(lane) = state.lanes.get_mut(partition).filter(|lane| !lane.started) else { return };
        lane.fault = Some(error.clone());
        state.raise.push_back(error);
        drop(state);
        self.arrived.notify_all();
    }

    /// Hands nothing of these out any more. [`Self::settled`] says when the user has finished what it holds of them.
    pub(crate) fn settle(&self, ticket: u64, partitions: BTreeSet<TopicPartition>, wait_for_user: bool) {
        let _turn = self.turn();
        let mut state = self.state();
        for partition in &partitions {
            self.change(&mut state, partition, |lane| lane.settling = true);
        }
        let wait_for_user = wait_for_user && state.gates.waiting == 0;
        state.gates.settles.push(Settle { ticket, partitions, wait_for_user });
    }

    /// Takes the tickets whose partitions are settled, with what is to be committed.
    pub(crate) fn settled(&self) -> Vec<(u64, BTreeMap<TopicPartition, CommitOffset>)> {
        let mut state = self.state();
        let gates = &mut state.gates;
        gates.sync_rows(None, false);
        let settles = std::mem::take(&mut gates.settles);
        let (settled, open): (Vec<_>, Vec<_>) = settles.into_iter().partition(|settle| gates.is_settled(settle));
        gates.settles = open;
        settled.into_iter().map(|settle| (settle.ticket, gates.snapshot(Some(&settle.partitions)))).collect()
    }

    /// Partitions that wait to be given up until the user has finished what it holds.
    pub(crate) fn wanted(&self) -> Vec<TopicPartition> {
        let state = self.state();
        let wanted: BTreeSet<_> = state.gates.settles.iter().flat_map(|settle| settle.partitions.iter()).collect();
        wanted.into_iter().cloned().collect()
    }

    /// These are not owned any more.
    pub(crate) fn dropped(&self, partitions: &BTreeSet<TopicPartition>) {
        let _turn = self.turn();
        let mut state = self.state();
        for partition in partitions {
            state.remove(partition);
        }
        // What was asked of them needs no answer any more: the machine has given them up without waiting for it.
        state.gates.settles.retain(|settle| !settle.partitions.iter().all(|partition| partitions.contains(partition)));
        self.command(Command::Unassign { partitions: partitions.iter().cloned().collect(), topics: Vec::new() });
        drop(state);
        self.arrived.notify_all();
    }

    /// Has a thread of the user's run a callback.
    pub(crate) fn call_back(&self, callback: PendingCallback) {
        self.state().gates.callbacks.push_back(callback);
        self.arrived.notify_all();
    }

    /// The next callback to be run, if none is running.
    pub(crate) fn next_callback(&self) -> Option<PendingCallback> {
        self.state().gates.next_callback()
    }

    /// Callbacks that nobody will run any more: they count as run.
    pub(crate) fn take_callbacks(&self) -> Vec<PendingCallback> {
        let mut state = self.state();
        let running = state.gates.running.take();
        running.into_iter().chain(std::mem::take(&mut state.gates.callbacks)).collect()
    }

    /// A callback has ended. False if it is not the one that runs.
    pub(crate) fn called_back(&self, ticket: u64) -> bool {
        let mut state = self.state();
        let Some(callback) = state.gates.running.take_if(|callback| callback.ticket == ticket) else { return false };
        state.gates.polled = Some(Instant::now());
        drop(state);
        if callback.kind == CallbackKind::Assigned {
            self.announced(&callback.partitions);
        }
        self.arrived.notify_all();
        true
    }

    /// The user knows of these gained partitions, or does not want to.
    pub(crate) fn announced<'p>(&self, partitions: impl IntoIterator<Item = &'p TopicPartition>) {
        let mut state = self.state();
        for partition in partitions {
            self.change(&mut state, partition, |lane| lane.announced = true);
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// An error of the membership: raised once, or on every call from now on.
    pub(crate) fn raise(&self, error: ClientError, fatal: bool) {
        let mut state = self.state();
        match fatal {
            true => state.gates.fatal = Some(error),
            false => state.gates.raise.push_back(error),
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// The group is being left: nothing more is handed out, and what is held is not waited for. Or it is left, and all starts anew.
    pub(crate) fn set_leaving(&self, leaving: bool) {
        let _turn = self.turn();
        let mut state = self.state();
        state.gates.leaving = leaving;
        if !leaving {
            state.gates.fatal = None;
            state.gates.raise.clear();
            state.gates.lease = Lease::Free;
        }
        drop(state);
        self.group_wanted.notify_one();
        self.arrived.notify_all();
    }

    /// What is finished and was not brought to be committed yet.
    pub(crate) fn snapshot(&self, only: Option<&BTreeSet<TopicPartition>>) -> BTreeMap<TopicPartition, CommitOffset> {
        self.state().gates.snapshot(only)
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
            if let Some(callback) = state.gates.next_callback() {
                return Leaving::Callback(callback);
            }
            if !state.gates.leaving {
                return Leaving::Done;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Leaving::Waiting;
            }
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether an automatic commit is due by the number of rows.
    pub(crate) fn has_finished_enough(&self) -> bool {
        let gates = &self.state().gates;
        gates.commit_after.is_some_and(|after| gates.finished_rows >= after)
    }

    /// A commit of these came to an end.
    pub(crate) fn committed<'c>(
        &self,
        outcomes: impl IntoIterator<Item = (&'c TopicPartition, &'c CommitOffset, bool)>,
    ) {
        let gates = &mut self.state().gates;
        for (partition, at, done) in outcomes {
            if gates.brought.get(partition) != Some(at) {
                continue;
            }
            gates.brought.remove(partition);
            match &mut gates.ledger {
                Some(ledger) if done => {
                    ledger.committed(partition, Place { offset: at.offset, leader_epoch: at.leader_epoch });
                    gates.confirmed.insert(partition.clone(), at.clone());
                }
                _ if done => _ = gates.confirmed.insert(partition.clone(), at.clone()),
                Some(ledger) => ledger.not_committed(partition, at.offset),
                None => {}
            }
        }
    }

    /// What `holder` holds is finished; all that is finished and not known to be committed.
    pub(crate) fn finish_all(&self, holder: Holder) -> BTreeMap<TopicPartition, CommitOffset> {
        let mut state = self.state();
        state.gates.finish_held(holder);
        let mut offsets = state.gates.brought.clone();
        offsets.extend(state.gates.snapshot(None));
        self.tell_task(state);
        offsets
    }

    /// A batch is finished: what is to be sent for it, and what is known without.
    pub(crate) fn finish(
        &self,
        id: BatchId,
        places: &[(TopicPartition, u64, Place)],
    ) -> (BTreeMap<TopicPartition, CommitOffset>, CommitOutcome) {
        let mut state = self.state();
        let State { gates, lanes, .. } = &mut *state;
        gates.rows.remove(&id);
        if let Some(ledger) = &mut gates.ledger {
            ledger.finish(id);
        }
        let (mut send, mut known) = (BTreeMap::new(), CommitOutcome::new());
        for (partition, span, next) in places {
            match lanes.get(partition) {
                Some(lane) if *span >= lane.since => match gates.frontier(partition, *next) {
                    Some(Err(at)) => _ = send.insert(partition.clone(), at),
                    Some(Ok(at)) => _ = known.insert(partition.clone(), (at, Ok(()))),
                    None => {}
                },
                // The user went elsewhere since: what it read before counts for nothing (seed S083).
                Some(lane) if *span >= lane.gained => {}
                _ => _ = known.insert(partition.clone(), (offset_at(*next), Err(CommitError::NotOwned))),
            }
        }
        self.tell_task(state);
        (send, known)
    }

    /// The user commits offsets of its own choice.
    pub(crate) fn chosen<'p>(&self, partitions: impl IntoIterator<Item = &'p TopicPartition>) {
        let gates = &mut self.state().gates;
        for partition in partitions {
            if let Some(ledger) = &mut gates.ledger {
                ledger.chosen(partition);
            }
            gates.forget_commits(partition);
        }
    }

    /// Takes the partitions that were given up with records of them not committed.
    pub(crate) fn take_given_up(&self) -> BTreeSet<TopicPartition> {
        std::mem::take(&mut self.state().gates.given_up)
    }

    /// Whether the partition is read.
    pub(crate) fn owns(&self, partition: &TopicPartition) -> bool {
        self.state().lanes.contains_key(partition)
    }

    /// A transaction with these offsets was committed.
    pub(crate) fn transaction_committed(&self, offsets: &BTreeMap<TopicPartition, CommitOffset>) {
        let mut state = self.state();
        if let Some(ledger) = &mut state.gates.ledger {
            for (partition, at) in offsets {
                ledger.committed(partition, Place { offset: at.offset, leader_epoch: at.leader_epoch });
            }
        }
        drop(state);
        self.committed(offsets.iter().map(|(partition, at)| (partition, at, true)));
    }

    /// Where to begin again, of partitions of which records were handed out that are not committed.
    pub(crate) fn bases(&self) -> Vec<(TopicPartition, Option<Place>)> {
        self.state().gates.ledger.as_ref().map(Ledger::bases).unwrap_or_default()
    }
}
