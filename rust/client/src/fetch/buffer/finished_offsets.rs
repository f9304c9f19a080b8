//! Finished offsets: what the user was handed, what of it is finished, and what of that is committed.
//!
//! The ledger knows what may be committed. It is behind the lock `state` of the buffer: what is handed out and what is
//! finished changes in one step with the partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use monedula_columns::ColumnBatch;
use monedula_engine::TopicPartition;
use monedula_engine::group::{CommitError, CommitOffset};
use monedula_engine::ledger::{BatchId, Holder, Keeper, Ledger, OffsetAndEpoch};

use super::batch_ids::BatchIds;
use super::leader_epochs::LeaderEpochs;
use super::partition_buffer::PartitionBuffer;
use super::rows::RowBatch;
use super::{BufferState, FetchBuffer};
use crate::error::ClientError;
use crate::fetch::step::{CommitOutcome, HandedBatch};

/// What was handed out, finished and committed; empty without a `group.id`.
#[derive(Default)]
pub(super) struct FinishedOffsets {
    /// Kept where there is a `group.id`.
    pub(super) ledger: Option<Ledger>,
    batch_ids: BatchIds,
    /// Under which leader epochs the records were written that were handed out.
    epochs: LeaderEpochs,
    /// Batches whose rows are handed out one by one.
    pub(super) rows: BTreeMap<BatchId, RowBatch>,
    /// Batches whose refused records are not in safe keeping yet, with their partitions.
    unaccepted: BTreeMap<BatchId, BTreeSet<TopicPartition>>,
    /// After how many finished rows an automatic commit is due; rows are counted only where there is one.
    commit_after: Option<u64>,
    /// Rows in the hands of each holder.
    held_rows: BTreeMap<Holder, u64>,
    /// The threads and tasks that asked for rows and have not ended.
    askers: BTreeSet<Holder>,
    /// Rows finished since the last automatic commit.
    finished_rows: u64,
    /// Offsets given to a commit whose outcome is not known. Forgotten, as the next ones are, with an assignment or a
    /// seek.
    committing: BTreeMap<TopicPartition, CommitOffset>,
    /// Offsets committed last.
    committed: BTreeMap<TopicPartition, CommitOffset>,
    /// Partitions that were released or lost while the user held records of them, or had finished some that are not
    /// committed: the next owner reads these again, so a transaction that has them must abort.
    revoked_unfinished: BTreeSet<TopicPartition>,
}

/// What a commit means for one partition.
enum ToCommit {
    /// This offset is to be sent.
    Send(CommitOffset),
    /// As much is committed already: nothing is to be sent.
    Committed(CommitOffset),
}

impl FinishedOffsets {
    /// Finishes in the ledger what is finished of batches whose rows are handed out one by one; with `all`, the row in
    /// the user's hands too.
    pub(super) fn sync_rows(&mut self, only: Option<Holder>, all: bool) {
        let Some(ledger) = &mut self.ledger else { return self.rows.retain(|_, rows| !rows.is_used_up()) };
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

    /// `holder` asks for rows.
    pub(super) fn asks(&mut self, holder: Holder) {
        if self.ledger.is_some() {
            self.askers.insert(holder);
        }
    }

    /// `holder` has ended.
    pub(super) fn forget_asker(&mut self, holder: Holder) {
        self.askers.remove(&holder);
    }

    /// A partition, with the place in it, of which another thread or task than `holder` was handed rows and has not
    /// finished them, while `holder` never asked for any. What `holder` finishes is nothing then, by mistake.
    fn held_by_others(&self, holder: Holder) -> Option<(TopicPartition, OffsetAndEpoch)> {
        let ledger = self.ledger.as_ref().filter(|_| !self.askers.contains(&holder))?;
        ledger.held_by_others(holder).into_iter().find_map(|batch| ledger.unfinished(batch).into_iter().next())
    }

    /// `holder` asks for more: it has finished what it holds.
    pub(super) fn finish_held(&mut self, holder: Holder) {
        self.sync_rows(Some(holder), true);
        if let Some(ledger) = &mut self.ledger {
            ledger.finish_held(holder);
        }
        self.finished_rows += self.held_rows.remove(&holder).unwrap_or_default();
    }

    pub(super) fn snapshot(
        &mut self,
        only: Option<&BTreeSet<TopicPartition>>,
    ) -> BTreeMap<TopicPartition, CommitOffset> {
        self.sync_rows(None, false);
        let Some(ledger) = &mut self.ledger else { return BTreeMap::new() };
        let mut offsets = ledger.snapshot(only);
        self.add_epochs(&mut offsets);
        self.committing.extend(offsets.iter().map(|(partition, at)| (partition.clone(), at.clone())));
        self.finished_rows = 0;
        offsets
    }

    pub(super) fn released(&mut self, partition: &TopicPartition) {
        if let Some(ledger) = &mut self.ledger {
            if ledger.is_ahead(partition) {
                self.revoked_unfinished.insert(partition.clone());
            }
            ledger.release(partition);
        }
        self.epochs.forget(partition);
        self.forget_commits(partition);
        self.forget_unaccepted(partition);
    }

    /// The partition is read as `span` from now on, from `at` if that is known.
    pub(super) fn restart(&mut self, partition: &TopicPartition, span: u64, at: Option<OffsetAndEpoch>) {
        if let Some(ledger) = &mut self.ledger {
            ledger.restart(partition, span, at);
        }
        self.forget_commits(partition);
        self.forget_unaccepted(partition);
    }

    fn forget_unaccepted(&mut self, partition: &TopicPartition) {
        self.unaccepted.values_mut().for_each(|partitions| _ = partitions.remove(partition));
        self.unaccepted.retain(|_, partitions| !partitions.is_empty());
    }

    /// What a batch refused is in safe keeping, or nobody can put it there any more.
    pub(super) fn forget_refused(&mut self, id: BatchId) {
        self.unaccepted.remove(&id);
    }

    /// What was committed so far says nothing of what may be committed next.
    fn forget_commits(&mut self, partition: &TopicPartition) {
        self.committing.remove(partition);
        self.committed.remove(partition);
    }

    /// What committing a batch that ends at `next` means for a partition; `None` if nothing of it may be committed.
    fn offset_to_commit(&mut self, partition: &TopicPartition, next: OffsetAndEpoch) -> Option<ToCommit> {
        let ledger = self.ledger.as_mut()?;
        let finished = ledger.finished(partition)?;
        // Another thread may have finished what follows this batch: committing this one says nothing of that (contract
        // 1).
        let at = if finished.offset <= next.offset { finished } else { next };
        let reaches = |committed: &&CommitOffset| committed.offset >= at.offset;
        // Never below an earlier commit. One that is in flight is sent again, since its outcome is not known.
        if let Some(committing) = self.committing.get(partition).filter(reaches) {
            return Some(ToCommit::Send(committing.clone()));
        }
        if let Some(committed) = self.committed.get(partition).filter(reaches) {
            return Some(ToCommit::Committed(committed.clone()));
        }
        if at == finished {
            ledger.snapshot(Some(&BTreeSet::from([partition.clone()])));
        }
        let mut at = offset_at(at);
        if at.leader_epoch < 0 {
            at.leader_epoch = self.epoch_before(partition, at.offset);
        }
        self.committing.insert(partition.clone(), at.clone());
        Some(ToCommit::Send(at))
    }

    /// These offsets of a partition were handed out; the leader epochs began among them, each with its first offset.
    pub(super) fn note_read(&mut self, partition: &TopicPartition, offsets: Range<i64>, epochs: &[(i64, i32)]) {
        if self.ledger.is_some() {
            self.epochs.read(partition, offsets, epochs);
        }
    }

    /// The leader epoch of the record before an offset, as far as it is known; else -1.
    fn epoch_before(&self, partition: &TopicPartition, offset: i64) -> i32 {
        let frontier = self.ledger.as_ref().and_then(|ledger| ledger.finished(partition));
        let committed =
            self.committed.get(partition).map(|at| OffsetAndEpoch { offset: at.offset, leader_epoch: at.leader_epoch });
        let places = frontier.into_iter().chain(committed);
        let known = places.filter(|place| place.offset == offset).map(|place| place.leader_epoch).max();
        known.unwrap_or(-1).max(self.epochs.before(partition, offset))
    }

    /// Adds the leader epochs of the records before these offsets, where they have none.
    fn add_epochs(&self, offsets: &mut BTreeMap<TopicPartition, CommitOffset>) {
        for (partition, at) in offsets.iter_mut().filter(|(_, at)| at.leader_epoch < 0) {
            at.leader_epoch = self.epoch_before(partition, at.offset);
        }
    }

    /// The offset before which everything of a partition is finished, as of the last [`Self::sync_rows`].
    pub(super) fn finished_offset(&self, partition: &TopicPartition) -> Option<i64> {
        self.ledger.as_ref()?.finished(partition).map(|place| place.offset)
    }

    /// A new id for a batch.
    pub(super) fn new_batch(&mut self) -> BatchId {
        self.batch_ids.next()
    }

    /// Enters a batch into the ledger; returns its id.
    pub(super) fn hand_out(
        &mut self,
        holder: Holder,
        columns: &ColumnBatch,
        places: &[(TopicPartition, u64, OffsetAndEpoch)],
    ) -> BatchId {
        let id = self.new_batch();
        if columns.refused.is_some() {
            self.unaccepted.insert(id, places.iter().map(|(partition, ..)| partition.clone()).collect());
        }
        let Some(ledger) = &mut self.ledger else { return id };
        let refused = columns.refused.iter().flat_map(|refused| &refused.rows.spans);
        let spans: Vec<_> = columns.spans.iter().chain(refused).collect();
        let has_rows = |partition: &TopicPartition| {
            let mut spans = spans.iter();
            spans.any(|span| span.partition == partition.partition && span.topic == partition.topic)
        };
        // Places of which the batch has no rows, only markers, aborted and dropped records, are nothing that the user could
        // finish.
        let (rows, markers): (Vec<_>, Vec<_>) = places.iter().cloned().partition(|(partition, ..)| has_rows(partition));
        ledger.hand_out(id, holder, &rows);
        if columns.refused.is_some() {
            // Until it is accepted, nothing that its holder does finishes it.
            ledger.pass_on(id, Keeper::Name);
        }
        self.count_held(holder, columns.record_batch.num_rows());
        let markers_id = self.new_batch();
        if let Some(ledger) = self.ledger.as_mut().filter(|_| !markers.is_empty()) {
            ledger.hand_out(markers_id, holder, &markers);
            ledger.finish(markers_id);
        }
        id
    }

    /// Rows that were given back are handed out to `holder`.
    pub(super) fn hand_out_again(&mut self, id: BatchId, holder: Holder, rows: usize) {
        if let Some(ledger) = &mut self.ledger {
            ledger.pass_on(id, Keeper::Holder(holder));
        }
        self.count_held(holder, rows);
    }

    pub(super) fn divide(
        &mut self,
        id: BatchId,
        partition: &TopicPartition,
        pieces: &[(BatchId, OffsetAndEpoch)],
        keeper: Keeper,
    ) -> bool {
        self.ledger.as_mut().is_some_and(|ledger| ledger.divide(id, partition, pieces, keeper))
    }

    /// Makes a batch of each part of a batch, to be finished by its id. `None` if the batch is finished already, or
    /// counts for nothing.
    fn hand_over(&mut self, id: BatchId, parts: &[(TopicPartition, OffsetAndEpoch)]) -> Option<Vec<BatchId>> {
        self.ledger.as_ref()?.keeper(id)?;
        let named: Vec<(BatchId, &(TopicPartition, OffsetAndEpoch))> =
            parts.iter().map(|part| (self.new_batch(), part)).collect();
        let mut pieces: BTreeMap<&TopicPartition, Vec<(BatchId, OffsetAndEpoch)>> = BTreeMap::new();
        for (part, (partition, next)) in &named {
            pieces.entry(partition).or_default().push((*part, *next));
        }
        for (partition, pieces) in pieces {
            self.divide(id, partition, &pieces, Keeper::Name);
        }
        Some(named.into_iter().map(|(part, _)| part).collect())
    }

    /// Whether rows of a partition are in the hands of a thread or task, or of a run, which has not finished them; or
    /// records that were refused are not in safe keeping yet. Not those that can be taken back.
    pub(super) fn is_in_hand(&self, partition: &TopicPartition) -> bool {
        let is_kept = |id: BatchId| self.rows.get(&id).is_none_or(|rows| !rows.has_untaken(partition));
        self.unaccepted.values().any(|partitions| partitions.contains(partition))
            || self.ledger.as_ref().is_some_and(|ledger| ledger.awaited(partition).any(is_kept))
    }

    fn count_held(&mut self, holder: Holder, rows: usize) {
        if self.commit_after.is_some() {
            *self.held_rows.entry(holder).or_default() += rows as u64;
        }
    }

    pub(super) fn uncount_held(&mut self, holder: Holder, rows: usize) {
        if let Some(held) = self.held_rows.get_mut(&holder) {
            *held = held.saturating_sub(rows as u64);
        }
    }

    pub(super) fn has_finished_enough(&self) -> bool {
        self.commit_after.is_some_and(|after| self.finished_rows >= after)
    }
}

fn offset_at(at: OffsetAndEpoch) -> CommitOffset {
    CommitOffset { offset: at.offset, leader_epoch: at.leader_epoch, metadata: String::new() }
}

impl FetchBuffer {
    /// Keeps a ledger from now on. With `commit_after`, the group's task is notified when so many rows are finished.
    pub(crate) fn keep_ledger(&self, commit_after: Option<u64>) {
        let mut state = self.state();
        state.finished.ledger = Some(Ledger::default());
        state.finished.commit_after = commit_after;
    }

    /// What is finished and was not given to a commit yet.
    pub(crate) fn snapshot(&self, only: Option<&BTreeSet<TopicPartition>>) -> BTreeMap<TopicPartition, CommitOffset> {
        self.state().finished.snapshot(only)
    }

    /// Whether an automatic commit is due by the number of rows.
    pub(crate) fn has_finished_enough(&self) -> bool {
        self.state().finished.has_finished_enough()
    }

    /// A commit of these offsets ended, for each with success or not.
    pub(crate) fn committed<'c>(
        &self,
        outcomes: impl IntoIterator<Item = (&'c TopicPartition, &'c CommitOffset, bool)>,
    ) {
        let finished = &mut self.state().finished;
        for (partition, at, done) in outcomes {
            if finished.committing.get(partition) != Some(at) {
                continue;
            }
            finished.committing.remove(partition);
            match &mut finished.ledger {
                Some(ledger) if done => {
                    ledger.committed(partition, OffsetAndEpoch { offset: at.offset, leader_epoch: at.leader_epoch });
                    finished.committed.insert(partition.clone(), at.clone());
                }
                _ if done => _ = finished.committed.insert(partition.clone(), at.clone()),
                Some(ledger) => ledger.not_committed(partition, at.offset),
                None => {}
            }
        }
    }

    /// As [`FinishedOffsets::held_by_others`].
    pub(crate) fn held_by_others(&self, holder: Holder) -> Option<(TopicPartition, OffsetAndEpoch)> {
        self.state().finished.held_by_others(holder)
    }

    /// Whether this buffer has handed out the batch. One without rows is anybody's.
    pub(crate) fn is_own(&self, batch: &HandedBatch) -> bool {
        batch.columns.record_batch.num_rows() == 0 || self.state().finished.batch_ids.has(batch.id)
    }

    /// What `holder` holds is finished. Returns all that is finished and not known to be committed.
    pub(crate) fn finish_all(&self, holder: Holder) -> BTreeMap<TopicPartition, CommitOffset> {
        let mut state = self.state();
        state.finished.finish_held(holder);
        let mut offsets = state.finished.committing.clone();
        offsets.extend(state.finished.snapshot(None));
        self.notify_group(state);
        offsets
    }

    /// A batch becomes one for each of its runs of rows of a partition. Each of these is finished by its id: asking for
    /// the next batch finishes none.
    ///
    /// # Errors
    /// If the batch is finished already.
    pub(crate) fn hand_over(&self, batch: &HandedBatch, holder: Holder) -> Result<Vec<HandedBatch>, ClientError> {
        let parts = batch.columns.parts(0);
        let place_of = |part: &ColumnBatch| {
            let span = part.spans.first()?;
            let next = OffsetAndEpoch { offset: span.next_offset, leader_epoch: span.leader_epoch };
            Some((TopicPartition::new(span.topic.clone(), span.partition), next))
        };
        let places: Vec<(TopicPartition, OffsetAndEpoch)> = parts.iter().filter_map(place_of).collect();
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let mut state = self.state();
        let since = |partition, span| {
            state.partitions.get(partition).is_some_and(|buffer: &PartitionBuffer| buffer.counts(span))
        };
        let counts = batch.places.iter().any(|(partition, span, _)| since(partition, *span));
        let ids = match state.finished.hand_over(batch.id, &places) {
            Some(ids) => ids,
            None if counts => {
                let message = "this batch is finished already: hand it over before the next one is asked for, and once";
                return Err(ClientError::Argument(message.into()));
            }
            // All its partitions were lost or sought since: there is nothing to finish.
            None => places.iter().map(|_| state.finished.new_batch()).collect(),
        };
        state.finished.uncount_held(holder, batch.columns.record_batch.num_rows());
        let span_of = |named: &TopicPartition| {
            batch.places.iter().find(|(partition, ..)| partition == named).map_or(0, |(_, span, _)| *span)
        };
        let parts = parts.into_iter().zip(ids).zip(places);
        let parts = parts.map(|((columns, id), (partition, next))| {
            let span = span_of(&partition);
            HandedBatch { columns, id, places: vec![(partition, span, next)] }
        });
        Ok(parts.collect())
    }

    /// A batch of so many rows is finished; it is committed with the next commit.
    pub(crate) fn finish_batch(&self, id: BatchId, rows: usize) {
        let mut state = self.state();
        if let Some(ledger) = &mut state.finished.ledger
            && ledger.keeper(id).is_some()
        {
            ledger.finish(id);
            state.finished.finished_rows += rows as u64;
        }
        self.notify_group(state);
    }

    /// What `holder` holds is finished.
    pub(crate) fn finish_held(&self, holder: Holder) {
        let mut state = self.state();
        state.finished.finish_held(holder);
        self.notify_group(state);
    }

    /// Nobody can finish this batch any more. Returns the place after it in each partition, unless it is finished.
    pub(crate) fn batch_ended(&self, id: BatchId) -> Vec<(TopicPartition, OffsetAndEpoch)> {
        let mut state = self.state();
        state.finished.forget_refused(id);
        let ledger = state.finished.ledger.as_mut().filter(|ledger| ledger.keeper(id) == Some(Keeper::Name));
        let Some(ledger) = ledger else {
            self.notify_group(state);
            return Vec::new();
        };
        ledger.pass_on(id, Keeper::Ended);
        let unfinished = ledger.unfinished(id);
        self.notify_group(state);
        unfinished
    }

    /// A batch is finished and is to be committed: which offsets have to be sent for that, and the outcome of the
    /// others.
    pub(crate) fn finish(
        &self,
        id: BatchId,
        places: &[(TopicPartition, u64, OffsetAndEpoch)],
    ) -> (BTreeMap<TopicPartition, CommitOffset>, CommitOutcome) {
        let mut state = self.state();
        let BufferState { finished, partitions, .. } = &mut *state;
        finished.rows.remove(&id);
        if let Some(ledger) = &mut finished.ledger {
            ledger.finish(id);
        }
        let (mut send, mut known) = (BTreeMap::new(), CommitOutcome::new());
        for (partition, span, next) in places {
            match partitions.get(partition) {
                Some(buffer) if buffer.counts(*span) => match finished.offset_to_commit(partition, *next) {
                    Some(ToCommit::Send(at)) => _ = send.insert(partition.clone(), at),
                    Some(ToCommit::Committed(at)) => _ = known.insert(partition.clone(), (at, Ok(()))),
                    None => {}
                },
                // The user sought elsewhere since: what it read before counts for nothing (req S083).
                Some(buffer) if buffer.is_of_assignment(*span) => {}
                _ => _ = known.insert(partition.clone(), (offset_at(*next), Err(CommitError::NotOwned))),
            }
        }
        self.notify_group(state);
        (send, known)
    }

    /// The user commits offsets of its own choice. Those without a leader epoch get the one of the record before them, so
    /// that whoever starts there learns whether that record was replaced.
    pub(crate) fn commits_own_offsets(&self, offsets: &mut BTreeMap<TopicPartition, CommitOffset>) {
        let finished = &mut self.state().finished;
        finished.add_epochs(offsets);
        for partition in offsets.keys() {
            if let Some(ledger) = &mut finished.ledger {
                ledger.chosen(partition);
            }
            finished.forget_commits(partition);
        }
    }

    /// Takes the partitions that were released or lost with records of them not committed.
    pub(crate) fn take_revoked_unfinished(&self) -> BTreeSet<TopicPartition> {
        std::mem::take(&mut self.state().finished.revoked_unfinished)
    }

    /// A transaction with these offsets was committed.
    pub(crate) fn transaction_committed(&self, offsets: &BTreeMap<TopicPartition, CommitOffset>) {
        let mut state = self.state();
        if let Some(ledger) = &mut state.finished.ledger {
            for (partition, at) in offsets {
                ledger.committed(partition, OffsetAndEpoch { offset: at.offset, leader_epoch: at.leader_epoch });
            }
        }
        drop(state);
        self.committed(offsets.iter().map(|(partition, at)| (partition, at, true)));
    }

    /// Partitions of which records were handed out that are not committed, with where to read again from; `None` where
    /// nothing is committed.
    pub(crate) fn bases(&self) -> Vec<(TopicPartition, Option<OffsetAndEpoch>)> {
        self.state().finished.ledger.as_ref().map(Ledger::bases).unwrap_or_default()
    }
}
