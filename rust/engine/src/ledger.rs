//! The ledger: which batches were handed out to the user, which of them are finished, and what is committed.
//!
//! The commit frontier of a partition follows what the user has *finished*, never what was fetched or handed out. A
//! batch is finished when its holder asks for the next one, or commits it. Several threads may hold batches of one
//! partition: the frontier stops before the first batch that is not finished. It also stops before rows that were given
//! back, until they are handed out again and finished, and before the batch of a holder that ended without finishing
//! it.
//!
//! Every entry carries the id of the partition's reading, which begins with an assignment or a seek (see
//! [`crate::fetch`]). Finishing a batch of an older reading has no effect, so a seek is never overwritten (req S083)
//! and a lost partition is never committed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::TopicPartition;
use crate::group::CommitOffset;

/// The id of a batch that was handed out.
pub type BatchId = u64;

/// The id of a holder of batches: a thread or task of the user.
pub type Holder = u64;

/// Who has to finish a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finisher {
    /// This holder, when it asks for the next batch.
    Holder(Holder),
    /// Only by its id, not when a holder asks for the next batch.
    ById,
    /// Nobody: its holder has ended. The batch stays unfinished, and no revocation waits for it.
    Nobody,
    /// The next holder: it was given back, and is handed out again.
    NextHolder,
}

/// A position in a log: the offset of the next record, and the leader epoch of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OffsetAndEpoch {
    /// Offset of the next record.
    pub offset: i64,
    /// Leader epoch of the record before it; -1 if unknown.
    pub leader_epoch: i32,
}

#[derive(Debug)]
struct Entry {
    reading_id: u64,
    /// Batches that were handed out and are not finished, or finished but after one that is not; in log order.
    out: VecDeque<HandedOutBatch>,
    /// The frontier; `None` before reading has started.
    finished: Option<OffsetAndEpoch>,
    /// Set if the frontier moved since it was last collected for a commit.
    dirty: bool,
    /// Set if the user committed an explicit offset since the frontier moved.
    chosen: bool,
    /// The start of the next owner, and of this one again after an aborted transaction: the committed position, or the
    /// start of reading.
    base: Option<OffsetAndEpoch>,
}

#[derive(Debug)]
struct HandedOutBatch {
    batch: BatchId,
    next: OffsetAndEpoch,
    done: bool,
}

/// The ledger of a consumer; see the [module](self).
#[derive(Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<TopicPartition, Entry>,
    /// Unfinished batches.
    batches: BTreeMap<BatchId, Batch>,
}

#[derive(Debug)]
struct Batch {
    finisher: Finisher,
    /// The partitions of the batch, each with the id of its reading.
    parts: Vec<(TopicPartition, u64)>,
}

impl Ledger {
    /// Starts a new reading of a partition: it was assigned, or the user sought. Batches that are out of an older
    /// reading do not count any more. `at` is the position that the user sought, if it is known.
    pub fn restart(&mut self, partition: &TopicPartition, reading_id: u64, at: Option<OffsetAndEpoch>) {
        // A seek changes the frontier, so its position is committed. A newly assigned partition has nothing to commit
        // yet.
        let sought = self.entries.contains_key(partition);
        let dirty = sought && at.is_some();
        let entry = Entry { reading_id, out: VecDeque::new(), finished: at, dirty, chosen: false, base: at };
        self.entries.insert(partition.clone(), entry);
        self.forget_parts(partition);
    }

    /// Records where reading starts. `committed`: whether this is the committed position. Otherwise it is collected for
    /// the next commit, so that a partition without any record yet continues from here at its next owner, whatever
    /// `auto.offset.reset` says by then.
    pub fn start(&mut self, partition: &TopicPartition, reading_id: u64, at: OffsetAndEpoch, committed: bool) {
        if let Some(entry) = self.current(partition, reading_id)
            && entry.finished.is_none()
        {
            (entry.finished, entry.base) = (Some(at), Some(at));
            entry.dirty = !committed && !entry.chosen;
        }
    }

    /// The log does not have the position any more, and reading continues at `to`. Everything before `to` counts as
    /// finished, once the batches that are out are.
    pub fn moved(&mut self, partition: &TopicPartition, reading_id: u64, to: OffsetAndEpoch) {
        let Some(entry) = self.current(partition, reading_id) else { return };
        match entry.out.back_mut() {
            Some(last) => last.next = to,
            None => {
                // If nothing finished is uncommitted, the start moves too, so that the partition does not count as
                // ahead.
                if entry.finished == entry.base {
                    entry.base = Some(to);
                }
                entry.go_to(to);
            }
        }
    }

    /// Replaces the reading of a partition: records fetched from now on have `reading_id`. Batches that are out keep
    /// counting.
    pub fn goes_on_as(&mut self, partition: &TopicPartition, reading_id: u64) {
        let Some(entry) = self.entries.get_mut(partition) else { return };
        let old = std::mem::replace(&mut entry.reading_id, reading_id);
        let parts = self.batches.values_mut().flat_map(|batch| &mut batch.parts);
        parts.filter(|(named, known)| named == partition && *known == old).for_each(|(_, known)| *known = reading_id);
    }

    /// Records a batch handed out to `holder`, with the position after its last record of each partition.
    pub fn hand_out(&mut self, batch: BatchId, holder: Holder, places: &[(TopicPartition, u64, OffsetAndEpoch)]) {
        let mut parts = Vec::new();
        for (partition, reading_id, next) in places {
            if let Some(entry) = self.current(partition, *reading_id) {
                entry.out.push_back(HandedOutBatch { batch, next: *next, done: false });
                parts.push((partition.clone(), *reading_id));
            }
        }
        if !parts.is_empty() {
            self.batches.insert(batch, Batch { finisher: Finisher::Holder(holder), parts });
        }
    }

    /// Finishes all batches of `holder`, which asks for the next one.
    pub fn finish_held(&mut self, holder: Holder) {
        for batch in self.held(holder) {
            self.finish(batch);
        }
    }

    /// Marks a batch as finished.
    pub fn finish(&mut self, batch: BatchId) {
        let Some(Batch { parts, .. }) = self.batches.remove(&batch) else { return };
        for (partition, reading_id) in parts {
            if let Some(entry) = self.current(&partition, reading_id) {
                entry.out.iter_mut().filter(|out| out.batch == batch).for_each(|out| out.done = true);
                entry.advance();
            }
        }
    }

    /// Marks the rows of a batch up to `next` as finished, not those after it: for records that are handed out one by
    /// one, and for a user who commits in the middle of a batch.
    pub fn finish_up_to(&mut self, batch: BatchId, partition: &TopicPartition, next: OffsetAndEpoch) {
        let Some(entry) = self.entries.get_mut(partition) else { return };
        let is_of = |out: Option<&HandedOutBatch>| out.is_some_and(|out| out.batch == batch);
        // A batch may have several runs of rows of one partition, with rows of others between them.
        while is_of(entry.out.front())
            && is_of(entry.out.get(1))
            && entry.out.pop_front_if(|out| out.next.offset < next.offset).is_some()
        {}
        if entry.out.front().is_some_and(|out| out.batch == batch && next.offset <= out.next.offset)
            && entry.finished.is_none_or(|finished| finished.offset < next.offset)
        {
            entry.go_to(next);
        }
    }

    /// Changes how a batch gets finished.
    pub fn pass_on(&mut self, batch: BatchId, to: Finisher) {
        if let Some(batch) = self.batches.get_mut(&batch) {
            batch.finisher = to;
        }
    }

    /// The finisher of a batch; `None` if it is finished, or does not count any more.
    pub fn finisher(&self, batch: BatchId) -> Option<Finisher> {
        self.batches.get(&batch).map(|batch| batch.finisher)
    }

    /// The unfinished batches of a holder.
    pub fn held(&self, holder: Holder) -> Vec<BatchId> {
        let held = self.batches.iter().filter(|(_, batch)| batch.finisher == Finisher::Holder(holder));
        held.map(|(batch, _)| *batch).collect()
    }

    /// The batches of a partition that may still be finished.
    pub fn awaited<'l>(&'l self, partition: &TopicPartition) -> impl Iterator<Item = BatchId> + use<'l> {
        let out = self.entries.get(partition).into_iter().flat_map(|entry| &entry.out);
        let is_awaited =
            |out: &&HandedOutBatch| matches!(self.finisher(out.batch), Some(Finisher::Holder(_) | Finisher::ById));
        out.filter(|out| !out.done).filter(is_awaited).map(|out| out.batch)
    }

    /// The unfinished batches that other holders hold, or that a holder held which has ended.
    pub fn held_by_others(&self, holder: Holder) -> Vec<BatchId> {
        let by_others = |finisher| match finisher {
            Finisher::Holder(other) => other != holder,
            Finisher::Nobody => true,
            Finisher::ById | Finisher::NextHolder => false,
        };
        self.batches.iter().filter(|(_, batch)| by_others(batch.finisher)).map(|(batch, _)| *batch).collect()
    }

    /// The partitions of an unfinished batch, each with the position after its last row. Partitions are left out whose
    /// committed position has reached that, by an explicit commit of the user.
    pub fn unfinished(&self, batch: BatchId) -> Vec<(TopicPartition, OffsetAndEpoch)> {
        let parts = self.batches.get(&batch).into_iter().flat_map(|batch| &batch.parts);
        let unfinished = |(partition, _): &(TopicPartition, u64)| {
            let entry = self.entries.get(partition)?;
            let next = entry.out.iter().rfind(|out| out.batch == batch)?.next;
            let is_committed = entry.base.is_some_and(|base| base.offset >= next.offset);
            (!is_committed).then(|| (partition.clone(), next))
        };
        parts.filter_map(unfinished).collect()
    }

    /// Divides a batch's rows of a partition into pieces, in log order, each up to its position and finished
    /// separately: rows that are given back, or that one worker passed to another, are not finished by their former
    /// holder. The last piece ends where the batch did. One piece may be `batch` itself; the others get `finisher`.
    /// Returns `false` if a new reading of the partition has begun, or the batch is finished.
    pub fn divide(
        &mut self,
        batch: BatchId,
        partition: &TopicPartition,
        pieces: &[(BatchId, OffsetAndEpoch)],
        finisher: Finisher,
    ) -> bool {
        let Some(Batch { parts, .. }) = self.batches.get_mut(&batch) else { return false };
        let Some(reading_id) = parts.iter().find(|(named, _)| named == partition).map(|(_, reading_id)| *reading_id)
        else {
            return false;
        };
        let Some(entry) = self.entries.get_mut(partition).filter(|entry| entry.reading_id == reading_id) else {
            return false;
        };
        let Some(begin) = entry.out.iter().position(|out| out.batch == batch) else { return false };
        let count = entry.out.iter().skip(begin).take_while(|out| out.batch == batch).count();
        let end = entry.out.drain(begin..begin + count).next_back().map(|out| out.next);
        for (index, &(piece, next)) in pieces.iter().enumerate() {
            let next = end.filter(|_| index + 1 == pieces.len()).unwrap_or(next);
            entry.out.insert(begin + index, HandedOutBatch { batch: piece, next, done: false });
        }
        if pieces.iter().all(|(piece, _)| *piece != batch) {
            parts.retain(|(named, _)| named != partition);
        }
        if parts.is_empty() {
            self.batches.remove(&batch);
        }
        for &(piece, _) in pieces.iter().filter(|(piece, _)| *piece != batch) {
            let parts = &mut self.batches.entry(piece).or_insert(Batch { finisher, parts: Vec::new() }).parts;
            parts.push((partition.clone(), reading_id));
        }
        true
    }

    /// Removes a partition that is not owned any more.
    pub fn release(&mut self, partition: &TopicPartition) {
        self.entries.remove(partition);
        self.forget_parts(partition);
    }

    /// Tells whether no batch of these partitions is out that may still be finished.
    pub fn is_quiet<'p>(&self, partitions: impl IntoIterator<Item = &'p TopicPartition>) -> bool {
        !partitions.into_iter().any(|partition| self.awaited(partition).next().is_some())
    }

    /// The frontier of a partition.
    pub fn finished(&self, partition: &TopicPartition) -> Option<OffsetAndEpoch> {
        self.entries.get(partition)?.finished
    }

    /// Collects the frontiers that moved since they were last collected, of all partitions or of these.
    pub fn snapshot(&mut self, only: Option<&BTreeSet<TopicPartition>>) -> BTreeMap<TopicPartition, CommitOffset> {
        let wanted = |partition: &TopicPartition| only.is_none_or(|only| only.contains(partition));
        let dirty = self.entries.iter_mut().filter(|(partition, entry)| entry.dirty && wanted(partition));
        let taken = dirty.filter_map(|(partition, entry)| {
            entry.dirty = false;
            let OffsetAndEpoch { offset, leader_epoch } = entry.finished?;
            Some((partition.clone(), CommitOffset { offset, leader_epoch, metadata: String::new() }))
        });
        taken.collect()
    }

    /// The user commits an explicit offset, which may be lower than the frontier. It stands until the user finishes
    /// more (req S155).
    pub fn chosen(&mut self, partition: &TopicPartition) {
        if let Some(entry) = self.entries.get_mut(partition) {
            (entry.dirty, entry.chosen) = (false, true);
        }
    }

    /// A commit of `offset` failed: the frontier is collected again, unless it moved or the user committed an explicit
    /// offset meanwhile.
    pub fn not_committed(&mut self, partition: &TopicPartition, offset: i64) {
        if let Some(entry) = self.entries.get_mut(partition)
            && !entry.chosen
            && entry.finished.is_some_and(|finished| finished.offset == offset)
        {
            entry.dirty = true;
        }
    }

    /// `at` was committed. A committed position may be behind batches that are still out, if the user chose it.
    pub fn committed(&mut self, partition: &TopicPartition, at: OffsetAndEpoch) {
        let Some(entry) = self.entries.get_mut(partition) else { return };
        let reached = entry.out.back().map(|out| out.next).or(entry.finished);
        if reached.is_some_and(|reached| reached.offset >= at.offset) {
            entry.base = Some(at);
        }
    }

    /// Tells whether records were handed out, finished or not, that are not committed.
    pub fn is_ahead(&self, partition: &TopicPartition) -> bool {
        let at = |place: Option<OffsetAndEpoch>| place.map(|place| place.offset);
        // Rows that were given back do not count as handed out; rows finished after them do.
        let was_handed_out = |out: &HandedOutBatch| out.done || self.finisher(out.batch) != Some(Finisher::NextHolder);
        let ahead = |entry: &Entry| entry.out.iter().any(was_handed_out) || at(entry.finished) != at(entry.base);
        self.entries.get(partition).is_some_and(ahead)
    }

    /// The positions to restart from, for each partition with records that were handed out and are not committed;
    /// `None` if reading has not started.
    pub fn bases(&self) -> Vec<(TopicPartition, Option<OffsetAndEpoch>)> {
        let ahead = self.entries.iter().filter(|(partition, _)| self.is_ahead(partition));
        ahead.map(|(partition, entry)| (partition.clone(), entry.base)).collect()
    }

    /// Removes a partition from all batches that are out.
    fn forget_parts(&mut self, partition: &TopicPartition) {
        for batch in self.batches.values_mut() {
            batch.parts.retain(|(named, _)| named != partition);
        }
        self.batches.retain(|_, batch| !batch.parts.is_empty());
    }

    fn current(&mut self, partition: &TopicPartition, reading_id: u64) -> Option<&mut Entry> {
        self.entries.get_mut(partition).filter(|entry| entry.reading_id == reading_id)
    }
}

impl Entry {
    fn advance(&mut self) {
        while self.out.front().is_some_and(|out| out.done) {
            if let Some(out) = self.out.pop_front()
                && self.finished != Some(out.next)
            {
                self.go_to(out.next);
            }
        }
    }

    fn go_to(&mut self, place: OffsetAndEpoch) {
        (self.finished, self.dirty, self.chosen) = (Some(place), true, false);
    }
}
