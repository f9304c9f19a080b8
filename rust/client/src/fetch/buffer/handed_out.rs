//! The record of what the user was handed, finished and committed, and rows that were given back. These are kept as
//! they are, and handed out before all others of their partition, by the next call of any holder.
//!
//! The ledger knows what may be committed. It is behind the lock `state` of the buffer: what is handed out and what is
//! finished changes in one step with the partitions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use monedula_columns::ColumnBatch;
use monedula_engine::TopicPartition;
use monedula_engine::group::{CommitError, CommitOffset};
use monedula_engine::ledger::{BatchId, Finisher, Holder, Ledger, OffsetAndEpoch};

use super::batch_ids::BatchIds;
use super::leader_epochs::LeaderEpochs;
use super::lease::LeaseClock;
use super::partitions::{BatchLimits, Partitions};
use super::row_batch::{ReturnedRows, RowBatch, finish_up_to, run_of};
use super::row_cursor::RowCursor;
use super::work_gate::{PartitionGate, WorkGate};
use crate::error::ClientError;
use crate::fetch::polled::{CommitOutcome, HandedBatch};

/// Batches and rows that were handed out, finished and committed.
#[derive(Default)]
pub(crate) struct HandedOut {
    /// Kept where there is a `group.id`.
    ledger: Option<Ledger>,
    batch_ids: BatchIds,
    /// Leader epochs of the records that were handed out.
    epochs: LeaderEpochs,
    rows: BTreeMap<BatchId, RowBatch>,
    /// Rows that were handed out and given back, in the order of the log: they go before what is ready.
    returned: Returned,
    /// Batches whose refused records are not in safe keeping yet, with their partitions.
    unaccepted: BTreeMap<BatchId, BTreeSet<TopicPartition>>,
    /// Number of finished rows after which an automatic commit is due; rows are counted only where there is one.
    commit_after: Option<u64>,
    held_rows: BTreeMap<Holder, u64>,
    /// The threads and tasks that asked for rows and have not ended.
    askers: BTreeSet<Holder>,
    /// Rows finished since the last automatic commit.
    finished_rows: u64,
    /// Offsets given to a commit whose outcome is not known. Forgotten, as the next ones are, with an assignment or a
    /// seek.
    committing: BTreeMap<TopicPartition, CommitOffset>,
    committed: BTreeMap<TopicPartition, CommitOffset>,
    /// Partitions that were released or lost while the user held records of them, or had finished some that are not
    /// committed: the next owner reads these again, so a transaction that has them must abort.
    revoked_unfinished: BTreeSet<TopicPartition>,
    /// The lease, which is held against the clock at each row.
    clock: Arc<LeaseClock>,
}

/// Rows that were given back, by partition.
pub(super) type Returned = BTreeMap<TopicPartition, VecDeque<(BatchId, ReturnedRows)>>;

/// The meaning of a commit for one partition.
enum ToCommit {
    Send(CommitOffset),
    /// As much is committed already: nothing is to be sent.
    Committed(CommitOffset),
}

impl HandedOut {
    /// Nothing is handed out yet. `clock` has the lease of rows.
    pub(super) fn new(clock: Arc<LeaseClock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Finishes in the ledger what is finished of batches whose rows are handed out one by one; with `all`, the row in
    /// the user's hands too.
    pub(super) fn sync_rows(&mut self, only: Option<Holder>, all: bool) {
        let Some(ledger) = &mut self.ledger else { return self.rows.retain(|_, rows| !rows.is_used_up()) };
        let mut used_up = Vec::new();
        for (id, rows) in self.rows.iter().filter(|(_, rows)| only.is_none_or(|holder| rows.holder() == holder)) {
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

    pub(super) fn asks(&mut self, holder: Holder) {
        if self.ledger.is_some() {
            self.askers.insert(holder);
        }
    }

    /// A partition, with the place in it, of which another thread or task than `holder` was handed rows and has not
    /// finished them, while `holder` never asked for any. What `holder` finishes is nothing then, by mistake.
    pub(crate) fn held_by_others(&self, holder: Holder) -> Option<(TopicPartition, OffsetAndEpoch)> {
        let ledger = self.ledger.as_ref().filter(|_| !self.askers.contains(&holder))?;
        ledger.held_by_others(holder).into_iter().find_map(|batch| ledger.unfinished(batch).into_iter().next())
    }

    /// `holder` asks for more: it has finished what it holds.
    pub(crate) fn finish_held(&mut self, holder: Holder) {
        self.sync_rows(Some(holder), true);
        if let Some(ledger) = &mut self.ledger {
            ledger.finish_held(holder);
        }
        self.finished_rows += self.held_rows.remove(&holder).unwrap_or_default();
    }

    /// Takes what is finished and was not given to a commit yet.
    pub(crate) fn snapshot(
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

    /// The partition is read as `reading_id` from now on, from `at` if that is known.
    pub(super) fn restart(&mut self, partition: &TopicPartition, reading_id: u64, at: Option<OffsetAndEpoch>) {
        if let Some(ledger) = &mut self.ledger {
            ledger.restart(partition, reading_id, at);
        }
        self.forget_commits(partition);
        self.forget_unaccepted(partition);
    }

    fn forget_unaccepted(&mut self, partition: &TopicPartition) {
        self.unaccepted.values_mut().for_each(|partitions| _ = partitions.remove(partition));
        self.unaccepted.retain(|_, partitions| !partitions.is_empty());
    }

    /// Records that a batch refused are in safe keeping, or nobody can put them there any more.
    fn forget_refused(&mut self, id: BatchId) {
        self.unaccepted.remove(&id);
    }

    /// Earlier commits say nothing of the next ones.
    fn forget_commits(&mut self, partition: &TopicPartition) {
        self.committing.remove(partition);
        self.committed.remove(partition);
    }

    /// Offset to commit for a partition by a batch that ends at `next`; `None` if nothing of it may be committed.
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

    /// Notes that these offsets of a partition were handed out; the leader epochs began among them, each with its first
    /// offset.
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

    fn new_batch(&mut self) -> BatchId {
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
        // Places of which the batch has no rows, only markers, aborted and dropped records, are nothing that the user
        // could finish.
        let (rows, markers): (Vec<_>, Vec<_>) = places.iter().cloned().partition(|(partition, ..)| has_rows(partition));
        ledger.hand_out(id, holder, &rows);
        if columns.refused.is_some() {
            // Until it is accepted, nothing that its holder does finishes it.
            ledger.pass_on(id, Finisher::ById);
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
    fn hand_out_again(&mut self, id: BatchId, holder: Holder, rows: usize) {
        if let Some(ledger) = &mut self.ledger {
            ledger.pass_on(id, Finisher::Holder(holder));
        }
        self.count_held(holder, rows);
    }

    fn divide(
        &mut self,
        id: BatchId,
        partition: &TopicPartition,
        pieces: &[(BatchId, OffsetAndEpoch)],
        finisher: Finisher,
    ) -> bool {
        self.ledger.as_mut().is_some_and(|ledger| ledger.divide(id, partition, pieces, finisher))
    }

    /// Makes a batch of each part of a batch, to be finished by its id. `None` if the batch is finished already, or
    /// counts for nothing.
    fn name_parts(&mut self, id: BatchId, parts: &[(TopicPartition, OffsetAndEpoch)]) -> Option<Vec<BatchId>> {
        self.ledger.as_ref()?.finisher(id)?;
        let named: Vec<(BatchId, &(TopicPartition, OffsetAndEpoch))> =
            parts.iter().map(|part| (self.new_batch(), part)).collect();
        let mut pieces: BTreeMap<&TopicPartition, Vec<(BatchId, OffsetAndEpoch)>> = BTreeMap::new();
        for (part, (partition, next)) in &named {
            pieces.entry(partition).or_default().push((*part, *next));
        }
        for (partition, pieces) in pieces {
            self.divide(id, partition, &pieces, Finisher::ById);
        }
        Some(named.into_iter().map(|(part, _)| part).collect())
    }

    /// True if rows of a partition are in the hands of a thread or task, or of a run, which has not finished them; or
    /// records that were refused are not in safe keeping yet. Not those that can be taken back.
    fn is_in_hand(&self, partition: &TopicPartition) -> bool {
        let is_kept = |id: BatchId| self.rows.get(&id).is_none_or(|rows| !rows.has_untaken(partition));
        self.unaccepted.values().any(|partitions| partitions.contains(partition))
            || self.ledger.as_ref().is_some_and(|ledger| ledger.awaited(partition).any(is_kept))
    }

    fn count_held(&mut self, holder: Holder, rows: usize) {
        if self.commit_after.is_some() {
            *self.held_rows.entry(holder).or_default() += rows as u64;
        }
    }

    fn uncount_held(&mut self, holder: Holder, rows: usize) {
        if let Some(held) = self.held_rows.get_mut(&holder) {
            *held = held.saturating_sub(rows as u64);
        }
    }

    /// True if an automatic commit is due by the number of rows.
    pub(crate) fn has_finished_enough(&self) -> bool {
        self.commit_after.is_some_and(|after| self.finished_rows >= after)
    }

    /// Keeps a ledger from now on. With `commit_after`, the group's task is notified when so many rows are finished.
    pub(crate) fn keep_ledger(&mut self, commit_after: Option<u64>) {
        self.ledger = Some(Ledger::default());
        self.commit_after = commit_after;
    }

    pub(super) fn has_ledger(&self) -> bool {
        self.ledger.is_some()
    }

    /// True if the user holds nothing unfinished of these partitions.
    pub(super) fn is_quiet(&self, partitions: &BTreeSet<TopicPartition>) -> bool {
        self.ledger.as_ref().is_none_or(|ledger| ledger.is_quiet(partitions))
    }

    /// The place where a partition starts, which is that of a commit or not.
    pub(super) fn starts(
        &mut self,
        partition: &TopicPartition,
        reading_id: u64,
        at: OffsetAndEpoch,
        is_committed: bool,
    ) {
        if let Some(ledger) = &mut self.ledger {
            ledger.start(partition, reading_id, at, is_committed);
        }
    }

    /// The partition is fetched again, as `reading_id`, from what was handed out on.
    pub(super) fn goes_on_as(&mut self, partition: &TopicPartition, reading_id: u64) {
        if let Some(ledger) = &mut self.ledger {
            ledger.goes_on_as(partition, reading_id);
        }
    }

    /// A commit of these offsets ended, for each with success or not.
    pub(crate) fn committed<'c>(
        &mut self,
        outcomes: impl IntoIterator<Item = (&'c TopicPartition, &'c CommitOffset, bool)>,
    ) {
        for (partition, at, done) in outcomes {
            if self.committing.get(partition) != Some(at) {
                continue;
            }
            self.committing.remove(partition);
            match &mut self.ledger {
                Some(ledger) if done => {
                    ledger.committed(partition, OffsetAndEpoch { offset: at.offset, leader_epoch: at.leader_epoch });
                    self.committed.insert(partition.clone(), at.clone());
                }
                _ if done => _ = self.committed.insert(partition.clone(), at.clone()),
                Some(ledger) => ledger.not_committed(partition, at.offset),
                None => {}
            }
        }
    }

    /// True if this buffer has handed out the batch. One without rows is anybody's.
    pub(crate) fn is_own(&self, batch: &HandedBatch) -> bool {
        batch.columns.record_batch.num_rows() == 0 || self.batch_ids.has(batch.id)
    }

    /// Finishes everything that `holder` holds. Returns all that is finished and not known to be committed.
    pub(crate) fn finish_all(&mut self, holder: Holder) -> BTreeMap<TopicPartition, CommitOffset> {
        self.finish_held(holder);
        let mut offsets = self.committing.clone();
        offsets.extend(self.snapshot(None));
        offsets
    }

    /// A batch becomes one for each of its runs of rows of a partition. Each of these is finished by its id: asking for
    /// the next batch finishes none.
    ///
    /// # Errors
    /// If the batch is finished already.
    pub(crate) fn hand_over(
        &mut self,
        partitions: &Partitions,
        batch: &HandedBatch,
        holder: Holder,
    ) -> Result<Vec<HandedBatch>, ClientError> {
        let runs = batch.columns.parts(0).into_iter();
        let (places, parts): (Vec<_>, Vec<_>) = runs.filter_map(|rows| Some((run_of(&rows)?, rows))).unzip();
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let counts = |partition, reading_id| partitions.get(partition).is_some_and(|buffer| buffer.counts(reading_id));
        let counts = batch.places.iter().any(|(partition, reading_id, _)| counts(partition, *reading_id));
        let ids = match self.name_parts(batch.id, &places) {
            Some(ids) => ids,
            None if counts => {
                let message = "this batch is finished already: hand it over before the next one is asked for, and once";
                return Err(ClientError::Argument(message.into()));
            }
            // All its partitions were lost or sought since: there is nothing to finish.
            None => places.iter().map(|_| self.new_batch()).collect(),
        };
        self.uncount_held(holder, batch.columns.record_batch.num_rows());
        let reading_id_of = |named: &TopicPartition| {
            batch.places.iter().find(|(partition, ..)| partition == named).map_or(0, |(_, reading_id, _)| *reading_id)
        };
        let parts = parts.into_iter().zip(ids).zip(places);
        let parts = parts.map(|((columns, id), (partition, next))| {
            let reading_id = reading_id_of(&partition);
            HandedBatch { columns, id, places: vec![(partition, reading_id, next)] }
        });
        Ok(parts.collect())
    }

    /// A batch of so many rows is finished; it is committed with the next commit.
    pub(crate) fn finish_batch(&mut self, id: BatchId, rows: usize) {
        if let Some(ledger) = &mut self.ledger
            && ledger.finisher(id).is_some()
        {
            ledger.finish(id);
            self.finished_rows += rows as u64;
        }
    }

    /// The first rows of a part are finished; it stays out. Counts once the partition's earlier parts are finished.
    pub(crate) fn finish_rows(&mut self, part: &HandedBatch, rows: usize) {
        if let Some(ledger) = &mut self.ledger {
            finish_up_to(&part.columns, rows, part.id, ledger);
        }
    }

    pub(crate) fn abandon(&mut self, part: &HandedBatch) {
        if let Some(ledger) = &mut self.ledger
            && ledger.finisher(part.id) == Some(Finisher::ById)
        {
            ledger.pass_on(part.id, Finisher::Nobody);
        }
    }

    pub(super) fn work_gate(&self, partitions: &Partitions, part: &HandedBatch) -> WorkGate {
        let gate = part.places.first().and_then(|(partition, reading_id, _)| {
            let buffer = partitions.get(partition)?;
            buffer.work_gate(*reading_id, &self.clock)
        });
        // The gate of a partition that is gone.
        gate.unwrap_or_else(|| PartitionGate::default().work_gate(&self.clock))
    }

    /// Nobody can finish this batch any more. Returns the place after it in each partition, unless it is finished.
    pub(crate) fn batch_ended(&mut self, id: BatchId) -> Vec<(TopicPartition, OffsetAndEpoch)> {
        self.forget_refused(id);
        let ledger = self.ledger.as_mut().filter(|ledger| ledger.finisher(id) == Some(Finisher::ById));
        let Some(ledger) = ledger else { return Vec::new() };
        ledger.pass_on(id, Finisher::Nobody);
        ledger.unfinished(id)
    }

    /// Finishes a batch that is to be committed: returns the offsets to send for that, and the outcome of the others.
    pub(crate) fn finish(
        &mut self,
        partitions: &Partitions,
        id: BatchId,
        places: &[(TopicPartition, u64, OffsetAndEpoch)],
    ) -> (BTreeMap<TopicPartition, CommitOffset>, CommitOutcome) {
        self.rows.remove(&id);
        if let Some(ledger) = &mut self.ledger {
            ledger.finish(id);
        }
        let (mut send, mut known) = (BTreeMap::new(), CommitOutcome::new());
        for (partition, reading_id, next) in places {
            match partitions.get(partition) {
                Some(buffer) if buffer.counts(*reading_id) => match self.offset_to_commit(partition, *next) {
                    Some(ToCommit::Send(at)) => _ = send.insert(partition.clone(), at),
                    Some(ToCommit::Committed(at)) => _ = known.insert(partition.clone(), (at, Ok(()))),
                    None => {}
                },
                // The user sought elsewhere since: what it read before counts for nothing (req S083).
                Some(buffer) if buffer.is_of_assignment(*reading_id) => {}
                _ => _ = known.insert(partition.clone(), (offset_at(*next), Err(CommitError::NotOwned))),
            }
        }
        (send, known)
    }

    /// The user commits offsets of its own choice. Those without a leader epoch get the one of the record before them,
    /// so that whoever starts there learns whether that record was replaced.
    pub(crate) fn commits_own_offsets(&mut self, offsets: &mut BTreeMap<TopicPartition, CommitOffset>) {
        self.add_epochs(offsets);
        for partition in offsets.keys() {
            if let Some(ledger) = &mut self.ledger {
                ledger.chosen(partition);
            }
            self.forget_commits(partition);
        }
    }

    /// Takes the partitions that were released or lost with records of them not committed.
    pub(crate) fn take_revoked_unfinished(&mut self) -> BTreeSet<TopicPartition> {
        std::mem::take(&mut self.revoked_unfinished)
    }

    pub(crate) fn transaction_committed(&mut self, offsets: &BTreeMap<TopicPartition, CommitOffset>) {
        if let Some(ledger) = &mut self.ledger {
            for (partition, at) in offsets {
                ledger.committed(partition, OffsetAndEpoch { offset: at.offset, leader_epoch: at.leader_epoch });
            }
        }
        self.committed(offsets.iter().map(|(partition, at)| (partition, at, true)));
    }

    /// Partitions of which records were handed out that are not committed, with where to read again from; `None` where
    /// nothing is committed.
    pub(crate) fn bases(&self) -> Vec<(TopicPartition, Option<OffsetAndEpoch>)> {
        self.ledger.as_ref().map(Ledger::bases).unwrap_or_default()
    }

    /// The batch's rows are handed out one by one, each after it was taken from the cursor: not if something
    /// `comes_first`, nor if one of its partitions was sought, paused or lost since it was handed out.
    pub(super) fn by_rows(
        &mut self,
        partitions: &Partitions,
        batch: &HandedBatch,
        holder: Holder,
        comes_first: bool,
    ) -> Arc<RowCursor> {
        let cursor = Arc::new(RowCursor::new(self.clock.clone()));
        if comes_first || !partitions.may_hand_out(batch) {
            cursor.stop();
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.pass_on(batch.id, Finisher::ById);
        }
        let reading_ids = batch.places.iter().map(|(named, reading_id, _)| (named.clone(), *reading_id)).collect();
        self.rows.insert(batch.id, RowBatch::new(holder, cursor.clone(), batch.columns.clone(), reading_ids));
        cursor
    }

    /// The records that a batch refused are in safe keeping: from now on `holder` holds the batch. False if some of its
    /// partitions were sought, paused or lost since.
    pub(super) fn claim(&mut self, partitions: &Partitions, batch: &HandedBatch, holder: Holder) -> bool {
        self.forget_refused(batch.id);
        if let Some(ledger) = &mut self.ledger {
            ledger.pass_on(batch.id, Finisher::Holder(holder));
        }
        partitions.may_hand_out(batch)
    }

    /// Gives back the rows of a batch that come before all of its refused records of their partition that are not in
    /// safe keeping, whose indices are `unwritten`: the next call has them. Returns the rest, a batch to be accepted as
    /// this one was; `None` if there are no such rows.
    pub(super) fn give_back_before(
        &mut self,
        partitions: &Partitions,
        batch: &HandedBatch,
        unwritten: &[usize],
        holder: Holder,
    ) -> Option<HandedBatch> {
        let stops = first_refused(&batch.columns, unwritten);
        let is_current = |partition: &TopicPartition| {
            let mut places = batch.places.iter().filter(|(named, ..)| named == partition);
            places.all(|(_, reading_id, _)| partitions.get(partition).is_some_and(|buffer| buffer.counts(*reading_id)))
        };
        let (front, kept) = cut_before(&batch.columns, |partition| match is_current(partition) {
            true => stops.get(partition).map_or(usize::MAX, |(row, _)| *row),
            false => 0,
        });
        if front.is_empty() {
            return None;
        }
        let id = self.new_batch();
        let mut pieces: BTreeMap<TopicPartition, Vec<(BatchId, OffsetAndEpoch)>> = BTreeMap::new();
        for (partition, range) in &front {
            let rows = batch.columns.slice(range.start, range.len());
            let (_, mut next) = run_of(&rows)?;
            if let Some((_, stop)) = stops.get(partition).filter(|(_, stop)| *stop < next.offset) {
                next = OffsetAndEpoch { offset: *stop, leader_epoch: -1 };
            }
            let piece = self.new_batch();
            pieces.entry(partition.clone()).or_default().push((piece, next));
            self.returned.entry(partition.clone()).or_default().push_back((piece, ReturnedRows::new(rows, next)));
            self.uncount_held(holder, range.len());
        }
        let is_rest = |partition: &TopicPartition| stops.contains_key(partition) || !is_current(partition);
        let places: Vec<_> = batch.places.iter().filter(|(partition, ..)| is_rest(partition)).cloned().collect();
        for (partition, _, next) in &places {
            pieces.entry(partition.clone()).or_default().push((id, *next));
        }
        for (partition, pieces) in &pieces {
            self.divide(batch.id, partition, pieces, Finisher::ById);
        }
        if let Some(ledger) = &mut self.ledger {
            let pieces = pieces.values().flatten().filter(|(piece, _)| *piece != id);
            pieces.for_each(|(piece, _)| ledger.pass_on(*piece, Finisher::NextHolder));
        }
        self.forget_refused(batch.id);
        self.unaccepted.insert(id, places.iter().map(|(partition, ..)| partition.clone()).collect());
        let mut columns = batch.columns.select(&kept);
        columns.refused = batch.columns.refused.clone();
        for cause in columns.refused.iter_mut().flat_map(|refused| &mut refused.causes) {
            let given: usize =
                front.iter().map(|(_, range)| cause.row.clamp(range.start, range.end) - range.start).sum();
            cause.row -= given;
        }
        Some(HandedBatch { columns, id, places })
    }

    /// Rows of a batch that were not taken are handed out again, unless the partition was sought or lost since. The row
    /// taken last stays in the hands of `holder`; if left out, of whoever took it.
    pub(super) fn give_back(&mut self, partitions: &Partitions, id: BatchId, holder: Option<Holder>) {
        if let Some(rows) = self.rows.get(&id).filter(|rows| !rows.is_used_up()) {
            let holder = holder.unwrap_or_else(|| rows.taker());
            self.take_back(partitions, id, Finisher::Holder(holder));
        }
    }

    /// Takes back the rows of a batch that were not taken; `finisher` is to finish the others.
    fn take_back(&mut self, partitions: &Partitions, id: BatchId, finisher: Finisher) {
        let Some(rows) = self.rows.remove(&id) else { return };
        rows.stop();
        if let Some(ledger) = &mut self.ledger {
            // The rows before the one taken last are finished, whatever becomes of that one.
            rows.finish(id, ledger, false);
            ledger.pass_on(id, finisher);
        }
        let mut pieces: BTreeMap<TopicPartition, Vec<(BatchId, OffsetAndEpoch)>> = BTreeMap::new();
        for (partition, place) in rows.taken_places() {
            pieces.insert(partition, vec![(id, place)]);
        }
        for (partition, assigned, back) in rows.untaken() {
            if partitions.get(&partition).is_none_or(|buffer| !buffer.counts(assigned)) {
                continue;
            }
            let rest = self.new_batch();
            self.uncount_held(rows.holder(), back.count());
            pieces.entry(partition.clone()).or_default().push((rest, back.next()));
            let queue = self.returned.entry(partition).or_default();
            // Several holders may give rows back: they are kept in the order of the log.
            let before = |(_, other): &(BatchId, ReturnedRows)| other.first_offset() < back.first_offset();
            queue.insert(queue.partition_point(before), (rest, back));
        }
        for (partition, pieces) in &pieces {
            self.divide(id, partition, pieces, Finisher::NextHolder);
        }
    }

    /// Rows that were given back, if there are any that may be handed out.
    pub(super) fn next_returned(
        &mut self,
        partitions: &Partitions,
        limits: &BatchLimits,
        holder: Holder,
    ) -> Option<HandedBatch> {
        let partition = self.first_returned(partitions)?.clone();
        let reading_id = partitions.get(&partition)?.reading_id();
        let queue = self.returned.get_mut(&partition)?;
        let (id, rows) = queue.pop_front()?;
        let (front, rest) = rows.cut(limits.max_rows, limits.max_bytes);
        if let Some(rest) = rest {
            let rest_id = self.batch_ids.next();
            let pieces = [(id, front.next()), (rest_id, rest.next())];
            queue.push_front((rest_id, rest));
            self.divide(id, &partition, &pieces, Finisher::NextHolder);
        } else if queue.is_empty() {
            self.returned.remove(&partition);
        }
        self.hand_out_again(id, holder, front.count());
        let places = vec![(partition, reading_id, front.next())];
        Some(HandedBatch { columns: front.into_columns(), id, places })
    }

    /// The partition whose rows were given back and are to be handed out next.
    fn first_returned(&self, partitions: &Partitions) -> Option<&TopicPartition> {
        let is_open =
            |partition: &&TopicPartition| partitions.get(partition).is_some_and(|buffer| !buffer.is_closed_to_rows());
        self.returned.keys().find(is_open)
    }

    /// True if there are rows that were given back and may be handed out.
    pub(super) fn has_returned(&self, partitions: &Partitions) -> bool {
        self.first_returned(partitions).is_some()
    }

    /// True if any rows were given back, also of partitions that are held back.
    pub(super) fn holds_returned(&self) -> bool {
        !self.returned.is_empty()
    }

    /// The first offset that was given back of a partition.
    pub(super) fn returned_offset(&self, partition: &TopicPartition) -> Option<i64> {
        Some(self.returned.get(partition)?.front()?.1.first_offset())
    }

    /// Rows of the partition that were given back will not be handed out any more.
    pub(super) fn forget_returned(&mut self, partition: &TopicPartition) {
        self.returned.remove(partition);
    }

    /// Takes all rows that were given back, to be dropped without the lock.
    pub(super) fn take_returned(&mut self) -> Returned {
        std::mem::take(&mut self.returned)
    }

    /// No more rows of the partition are handed out of batches that were handed out before.
    pub(super) fn stop_rows_of(&self, partition: &TopicPartition) {
        self.rows.values().filter(|rows| rows.has(partition)).for_each(RowBatch::stop);
    }

    /// The user has to come into a call before the next row.
    pub(super) fn stop_all_rows(&self) {
        self.rows.values().for_each(RowBatch::stop);
    }

    /// True if rows of a partition were handed out that may be handed out again, or that somebody has in hand: its
    /// error comes after them.
    pub(super) fn owes_rows(&self, partition: &TopicPartition) -> bool {
        self.returned.contains_key(partition) || self.is_in_hand(partition)
    }

    /// Takes back what was not taken of batches with rows of a partition that are handed out one by one. False if there
    /// is no such row.
    pub(super) fn take_rows_back(&mut self, partitions: &Partitions, partition: &TopicPartition) -> bool {
        let batches = self.rows.iter().filter(|(_, rows)| rows.has_untaken(partition));
        let batches: Vec<_> = batches.map(|(id, rows)| (*id, rows.holder())).collect();
        batches.into_iter().for_each(|(id, holder)| self.take_back(partitions, id, Finisher::Holder(holder)));
        self.returned.contains_key(partition)
    }

    /// The holder's rows that were not taken are handed out again; its unfinished batches stay unfinished. Returns the
    /// place after the last row of each partition in those.
    pub(super) fn holder_ended(
        &mut self,
        partitions: &Partitions,
        holder: Holder,
    ) -> BTreeSet<(TopicPartition, OffsetAndEpoch)> {
        self.sync_rows(Some(holder), false);
        let held = self.rows.iter().filter(|(_, rows)| rows.holder() == holder);
        let by_rows: Vec<BatchId> = held.map(|(id, _)| *id).collect();
        for id in &by_rows {
            self.take_back(partitions, *id, Finisher::Nobody);
        }
        self.askers.remove(&holder);
        let Some(ledger) = &mut self.ledger else { return BTreeSet::new() };
        let held = ledger.held(holder);
        held.iter().for_each(|id| ledger.pass_on(*id, Finisher::Nobody));
        held.iter().chain(&by_rows).flat_map(|id| ledger.unfinished(*id)).collect()
    }
}

/// Ranges of rows, some with their partition.
type RowRanges = (Vec<(TopicPartition, Range<usize>)>, Vec<Range<usize>>);

/// The rows of each partition before the row that is its stop, and all others.
fn cut_before(columns: &ColumnBatch, stop: impl Fn(&TopicPartition) -> usize) -> RowRanges {
    let (mut front, mut kept, mut start) = (Vec::new(), Vec::new(), 0);
    for span in &columns.spans {
        let (partition, end) = (TopicPartition::new(span.topic.clone(), span.partition), start + span.rows);
        let cut = stop(&partition).clamp(start, end);
        if start < cut {
            front.push((partition, start..cut));
        }
        if cut < end {
            kept.push(cut..end);
        }
        start = end;
    }
    (front, kept)
}

/// The first of some refused records in each partition: the number of rows before it, and its offset.
fn first_refused(columns: &ColumnBatch, indices: &[usize]) -> BTreeMap<TopicPartition, (usize, i64)> {
    let mut firsts = BTreeMap::new();
    let Some(refused) = &columns.refused else { return firsts };
    for &index in indices {
        let record = refused.rows.slice(index, 1);
        if let (Some(span), Some(cause)) = (record.spans.first(), refused.causes.get(index)) {
            let partition = TopicPartition::new(span.topic.clone(), span.partition);
            firsts.entry(partition).or_insert((cause.row, span.first_offset));
        }
    }
    firsts
}

fn offset_at(at: OffsetAndEpoch) -> CommitOffset {
    CommitOffset { offset: at.offset, leader_epoch: at.leader_epoch, metadata: String::new() }
}
