//! The offsets of a group member: what the user was handed, what of it is finished, and what of that is committed.
//!
//! The ledger says what may be committed. It stands under the lock of the buffer: what is handed out and what is finished change
//! in one step with the partitions.

use std::collections::{BTreeMap, BTreeSet};

use monedula_columns::ColumnBatch;
use monedula_engine::TopicPartition;
use monedula_engine::group::classic::{CommitError, CommitOffset};
use monedula_engine::ledger::{BatchId, Holder, Keeper, Ledger, Place};

use super::partition_buffer::PartitionBuffer;
use super::rows::RowBatch;
use super::{FetchBuffer, State};
use crate::error::ClientError;
use crate::fetch::step::{CommitOutcome, HandedBatch};

/// What is kept of a group; without one, nothing of it.
#[derive(Default)]
pub(super) struct FinishedOffsets {
    /// Kept where there is a `group.id`.
    pub(super) ledger: Option<Ledger>,
    last_batch: BatchId,
    /// Batches whose rows are handed out one by one.
    pub(super) rows: BTreeMap<BatchId, RowBatch>,
    /// Rows in the hands of each holder, and rows finished since the last automatic commit; counted where one depends on it.
    commit_after: Option<u64>,
    held_rows: BTreeMap<Holder, u64>,
    finished_rows: u64,
    /// Brought to be committed and not known to be, and the last that is known to be, since the partition was gained or sought.
    committing: BTreeMap<TopicPartition, CommitOffset>,
    committed: BTreeMap<TopicPartition, CommitOffset>,
    /// Partitions that were given up or lost while records of them were in the user's hands, or finished and not committed: what
    /// a transaction has of these, another member will bring as well.
    revoked_unfinished: BTreeSet<TopicPartition>,
}

impl FinishedOffsets {
    /// What was finished of batches whose rows are handed out one by one. `all`: the row in the user's hands too.
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
        let offsets = ledger.snapshot(only);
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
        self.committing.remove(partition);
        self.committed.remove(partition);
    }

    /// What committing a batch that ends at `next` means for a partition. `Ok`: nothing has to be sent.
    fn offset_to_commit(
        &mut self,
        partition: &TopicPartition,
        next: Place,
    ) -> Option<Result<CommitOffset, CommitOffset>> {
        let ledger = self.ledger.as_mut()?;
        let finished = ledger.finished(partition)?;
        // Whoever read on in another thread did not mean the user's work on those batches to be done (contract 1).
        let at = if finished.offset <= next.offset { finished } else { next };
        let reaches = |committed: &&CommitOffset| committed.offset >= at.offset;
        // Never below what an earlier commit said; one that is in flight is sent again, to be waited for.
        if let Some(committing) = self.committing.get(partition).filter(reaches) {
            return Some(Err(committing.clone()));
        }
        if let Some(committed) = self.committed.get(partition).filter(reaches) {
            return Some(Ok(committed.clone()));
        }
        if at == finished {
            ledger.snapshot(Some(&BTreeSet::from([partition.clone()])));
        }
        let at = offset_at(at);
        self.committing.insert(partition.clone(), at.clone());
        Some(Err(at))
    }

    /// A name for a batch.
    pub(super) fn new_batch(&mut self) -> BatchId {
        self.last_batch += 1;
        self.last_batch
    }

    /// Notes a batch, and names it.
    pub(super) fn hand_out(
        &mut self,
        holder: Holder,
        columns: &ColumnBatch,
        places: &[(TopicPartition, u64, Place)],
    ) -> BatchId {
        let id = self.new_batch();
        let Some(ledger) = &mut self.ledger else { return id };
        let has_rows = |partition: &TopicPartition| {
            let mut spans = columns.spans.iter();
            spans.any(|span| span.partition == partition.partition && span.topic == partition.topic)
        };
        // Only markers and aborted records: there is nothing that the user could finish.
        let (rows, markers): (Vec<_>, Vec<_>) = places.iter().cloned().partition(|(partition, ..)| has_rows(partition));
        ledger.hand_out(id, holder, &rows);
        self.count_held(holder, columns.record_batch.num_rows());
        let passed = self.new_batch();
        if let Some(ledger) = self.ledger.as_mut().filter(|_| !markers.is_empty()) {
            ledger.hand_out(passed, holder, &markers);
            ledger.finish(passed);
        }
        id
    }

    /// Rows that were given back go to `holder`.
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
        pieces: &[(BatchId, Place)],
        keeper: Keeper,
    ) -> bool {
        self.ledger.as_mut().is_some_and(|ledger| ledger.divide(id, partition, pieces, keeper))
    }

    /// Parts of a batch, each to be finished by its name. `None` if the batch is finished already, or counts for nothing.
    fn hand_over(&mut self, id: BatchId, parts: &[(TopicPartition, Place)]) -> Option<Vec<BatchId>> {
        self.ledger.as_ref()?.keeper(id)?;
        let named: Vec<(BatchId, &(TopicPartition, Place))> =
            parts.iter().map(|part| (self.new_batch(), part)).collect();
        let mut pieces: BTreeMap<&TopicPartition, Vec<(BatchId, Place)>> = BTreeMap::new();
        for (part, (partition, next)) in &named {
            pieces.entry(partition).or_default().push((*part, *next));
        }
        for (partition, pieces) in pieces {
            self.divide(id, partition, &pieces, Keeper::Name);
        }
        Some(named.into_iter().map(|(part, _)| part).collect())
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

fn offset_at(at: Place) -> CommitOffset {
    CommitOffset { offset: at.offset, leader_epoch: at.leader_epoch, metadata: String::new() }
}

impl FetchBuffer {
    /// Keeps account of what is handed out and finished from now on; `commit_after`: the task is to be told when so many rows
    /// are finished.
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

    /// A commit of these came to an end.
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
                    ledger.committed(partition, Place { offset: at.offset, leader_epoch: at.leader_epoch });
                    finished.committed.insert(partition.clone(), at.clone());
                }
                _ if done => _ = finished.committed.insert(partition.clone(), at.clone()),
                Some(ledger) => ledger.not_committed(partition, at.offset),
                None => {}
            }
        }
    }

    /// What `holder` holds is finished; all that is finished and not known to be committed.
    pub(crate) fn finish_all(&self, holder: Holder) -> BTreeMap<TopicPartition, CommitOffset> {
        let mut state = self.state();
        state.finished.finish_held(holder);
        let mut offsets = state.finished.committing.clone();
        offsets.extend(state.finished.snapshot(None));
        self.notify_group(state);
        offsets
    }

    /// A batch becomes one for each of its spans, and each of these is finished by itself: asking for more finishes none.
    ///
    /// # Errors
    /// If the batch is finished already.
    pub(crate) fn hand_over(&self, batch: &HandedBatch, holder: Holder) -> Result<Vec<HandedBatch>, ClientError> {
        let parts = batch.columns.parts(0);
        let place_of = |part: &ColumnBatch| {
            let span = part.spans.first()?;
            let next = Place { offset: span.next_offset, leader_epoch: span.leader_epoch };
            Some((TopicPartition::new(span.topic.clone(), span.partition), next))
        };
        let places: Vec<(TopicPartition, Place)> = parts.iter().filter_map(place_of).collect();
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let mut state = self.state();
        let since = |partition, span| {
            state.partitions.get(partition).is_some_and(|buffer: &PartitionBuffer| span >= buffer.since)
        };
        let counts = batch.places.iter().any(|(partition, span, _)| since(partition, *span));
        let ids = match state.finished.hand_over(batch.id, &places) {
            Some(ids) => ids,
            None if counts => {
                let message = "this batch is finished already: hand it over before the next one is asked for, and once";
                return Err(ClientError::Argument(message.into()));
            }
            // All of it was lost or sought since: there is nothing to finish, and whoever works on it does it in vain.
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

    /// A batch of so many rows is finished, and committed when it is time.
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
    pub(crate) fn batch_ended(&self, id: BatchId) -> Vec<(TopicPartition, Place)> {
        let mut state = self.state();
        let Some(ledger) = &mut state.finished.ledger else { return Vec::new() };
        if ledger.keeper(id) != Some(Keeper::Name) {
            return Vec::new();
        }
        ledger.pass_on(id, Keeper::Ended);
        let unfinished = ledger.unfinished(id);
        self.notify_group(state);
        unfinished
    }

    /// A batch is finished: what is to be sent for it, and what is known without.
    pub(crate) fn finish(
        &self,
        id: BatchId,
        places: &[(TopicPartition, u64, Place)],
    ) -> (BTreeMap<TopicPartition, CommitOffset>, CommitOutcome) {
        let mut state = self.state();
        let State { finished, partitions, .. } = &mut *state;
        finished.rows.remove(&id);
        if let Some(ledger) = &mut finished.ledger {
            ledger.finish(id);
        }
        let (mut send, mut known) = (BTreeMap::new(), CommitOutcome::new());
        for (partition, span, next) in places {
            match partitions.get(partition) {
                Some(buffer) if *span >= buffer.since => match finished.offset_to_commit(partition, *next) {
                    Some(Err(at)) => _ = send.insert(partition.clone(), at),
                    Some(Ok(at)) => _ = known.insert(partition.clone(), (at, Ok(()))),
                    None => {}
                },
                // The user went elsewhere since: what it read before counts for nothing (seed S083).
                Some(buffer) if *span >= buffer.gained => {}
                _ => _ = known.insert(partition.clone(), (offset_at(*next), Err(CommitError::NotOwned))),
            }
        }
        self.notify_group(state);
        (send, known)
    }

    /// The user commits offsets of its own choice.
    pub(crate) fn commits_own_offsets<'p>(&self, partitions: impl IntoIterator<Item = &'p TopicPartition>) {
        let finished = &mut self.state().finished;
        for partition in partitions {
            if let Some(ledger) = &mut finished.ledger {
                ledger.chosen(partition);
            }
            finished.forget_commits(partition);
        }
    }

    /// Takes the partitions that were given up with records of them not committed.
    pub(crate) fn take_revoked_unfinished(&self) -> BTreeSet<TopicPartition> {
        std::mem::take(&mut self.state().finished.revoked_unfinished)
    }

    /// Whether the partition is read.
    pub(crate) fn owns(&self, partition: &TopicPartition) -> bool {
        self.state().partitions.contains_key(partition)
    }

    /// A transaction with these offsets was committed.
    pub(crate) fn transaction_committed(&self, offsets: &BTreeMap<TopicPartition, CommitOffset>) {
        let mut state = self.state();
        if let Some(ledger) = &mut state.finished.ledger {
            for (partition, at) in offsets {
                ledger.committed(partition, Place { offset: at.offset, leader_epoch: at.leader_epoch });
            }
        }
        drop(state);
        self.committed(offsets.iter().map(|(partition, at)| (partition, at, true)));
    }

    /// Where to begin again, of partitions of which records were handed out that are not committed.
    pub(crate) fn bases(&self) -> Vec<(TopicPartition, Option<Place>)> {
        self.state().finished.ledger.as_ref().map(Ledger::bases).unwrap_or_default()
    }
}
