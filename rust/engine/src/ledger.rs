//! What the user was handed, what the user finished, and what is committed of it.
//!
//! The commit frontier of a partition is what the user *finished*, never what was fetched or handed out: a batch is finished
//! when whoever holds it asks for the next one, or commits it. Several threads may hold batches of one partition: the
//! frontier stands still before the first batch that is not finished. So it does before rows that were given back, until they
//! are handed out again and finished, and before the batch of a holder that ended without a word.
//!
//! Every entry carries the span of the partition's assignment or seek (see [`crate::fetch`]): what a user finishes of an older
//! span counts for nothing, so a seek is never overwritten (seed S083) and a lost partition never committed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::TopicPartition;
use crate::group::CommitOffset;

/// Names a batch that was handed out.
pub type BatchId = u64;

/// Names who holds batches: a thread or a task of the user's.
pub type Holder = u64;

/// Who finishes a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// This holder, when it asks for the next one.
    Holder(Holder),
    /// Whoever names it, and nobody by asking for another.
    Name,
    /// Nobody: its holder has ended. It stays unfinished, and nothing waits for it.
    Ended,
    /// Nobody yet: it was given back, and is handed out again.
    Queue,
}

/// A place in a log: the offset of the next record, and the leader epoch of the one before it (-1 unknown).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Offset of the next record.
    pub offset: i64,
    /// Leader epoch of the record before it, -1 unknown.
    pub leader_epoch: i32,
}

#[derive(Debug)]
struct Entry {
    span: u64,
    /// Batches handed out and not finished, or finished behind one that is not; in the order of the log.
    out: VecDeque<Out>,
    /// The frontier, once reading has started somewhere.
    finished: Option<Place>,
    /// Whether the frontier moved since it was last brought to be committed.
    dirty: bool,
    /// Whether the user committed an offset of its own choice since the frontier moved.
    chosen: bool,
    /// Where the next owner would begin, and this one again after a transaction came to nothing: what is committed, or where
    /// reading started.
    base: Option<Place>,
}

#[derive(Debug)]
struct Out {
    batch: BatchId,
    next: Place,
    done: bool,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<TopicPartition, Entry>,
    /// Unfinished batches.
    batches: BTreeMap<BatchId, Batch>,
}

#[derive(Debug)]
struct Batch {
    keeper: Keeper,
    /// Its partitions with their spans.
    parts: Vec<(TopicPartition, u64)>,
}

impl Ledger {
    /// A partition is owned, or sought, from now on, as `span`. What was out of it counts for nothing any more. `at` is where
    /// the user wants it, if that is known.
    pub fn restart(&mut self, partition: &TopicPartition, span: u64, at: Option<Place>) {
        // A seek is a decision about what is finished: it is committed as such. A new partition has nothing to commit yet.
        let sought = self.entries.contains_key(partition);
        let dirty = sought && at.is_some();
        let entry = Entry { span, out: VecDeque::new(), finished: at, dirty, chosen: false, base: at };
        self.entries.insert(partition.clone(), entry);
        self.forget_parts(partition);
    }

    /// Reading starts here. `committed`: because this is what is committed; else it is worth a commit, so that a partition that
    /// brought no record yet goes on from here with its next owner, whatever the policy says by then.
    pub fn start(&mut self, partition: &TopicPartition, span: u64, at: Place, committed: bool) {
        if let Some(entry) = self.current(partition, span)
            && entry.finished.is_none()
        {
            (entry.finished, entry.base) = (Some(at), Some(at));
            entry.dirty = !committed && !entry.chosen;
        }
    }

    /// The log lost the position, and reading goes on here: all before it is finished as far as anyone can finish it, once
    /// what is out is.
    pub fn moved(&mut self, partition: &TopicPartition, span: u64, to: Place) {
        let Some(entry) = self.current(partition, span) else { return };
        match entry.out.back_mut() {
            Some(last) => last.next = to,
            None => {
                // A partition of which nothing was read has lost nothing of what was read either.
                if entry.finished == entry.base {
                    entry.base = Some(to);
                }
                entry.go_to(to);
            }
        }
    }

    /// What is fetched of the partition from now on comes as `span`. What is out stays out.
    pub fn goes_on_as(&mut self, partition: &TopicPartition, span: u64) {
        let Some(entry) = self.entries.get_mut(partition) else { return };
        let old = std::mem::replace(&mut entry.span, span);
        let parts = self.batches.values_mut().flat_map(|batch| &mut batch.parts);
        parts.filter(|(named, known)| named == partition && *known == old).for_each(|(_, known)| *known = span);
    }

    /// A batch went out to `holder`, with the place after its last record of each partition.
    pub fn hand_out(&mut self, batch: BatchId, holder: Holder, places: &[(TopicPartition, u64, Place)]) {
        let mut parts = Vec::new();
        for (partition, span, next) in places {
            if let Some(entry) = self.current(partition, *span) {
                entry.out.push_back(Out { batch, next: *next, done: false });
                parts.push((partition.clone(), *span));
            }
        }
        if !parts.is_empty() {
            self.batches.insert(batch, Batch { keeper: Keeper::Holder(holder), parts });
        }
    }

    /// `holder` asks for the next batch: it has finished what it holds.
    pub fn finish_held(&mut self, holder: Holder) {
        for batch in self.held(holder) {
            self.finish(batch);
        }
    }

    /// A batch is finished.
    pub fn finish(&mut self, batch: BatchId) {
        let Some(Batch { parts, .. }) = self.batches.remove(&batch) else { return };
        for (partition, span) in parts {
            if let Some(entry) = self.current(&partition, span) {
                entry.out.iter_mut().filter(|out| out.batch == batch).for_each(|out| out.done = true);
                entry.advance();
            }
        }
    }

    /// Rows of a batch up to `next` are finished, those behind it not: for records that are handed out one by one, and for a
    /// user who commits in the middle of a batch.
    pub fn finish_up_to(&mut self, batch: BatchId, partition: &TopicPartition, next: Place) {
        let Some(entry) = self.entries.get_mut(partition) else { return };
        let is_of = |out: Option<&Out>| out.is_some_and(|out| out.batch == batch);
        // A batch may come back to a partition after rows of others.
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

    /// Somebody else finishes a batch from now on.
    pub fn pass_on(&mut self, batch: BatchId, to: Keeper) {
        if let Some(batch) = self.batches.get_mut(&batch) {
            batch.keeper = to;
        }
    }

    /// Who finishes a batch; `None` if it is finished, or counts for nothing any more.
    pub fn keeper(&self, batch: BatchId) -> Option<Keeper> {
        self.batches.get(&batch).map(|batch| batch.keeper)
    }

    /// The unfinished batches of a holder.
    pub fn held(&self, holder: Holder) -> Vec<BatchId> {
        let held = self.batches.iter().filter(|(_, batch)| batch.keeper == Keeper::Holder(holder));
        held.map(|(batch, _)| *batch).collect()
    }

    /// The partitions of an unfinished batch, each with the place after its last row, unless the user committed as much by an
    /// offset of its own.
    pub fn unfinished(&self, batch: BatchId) -> Vec<(TopicPartition, Place)> {
        let parts = self.batches.get(&batch).into_iter().flat_map(|batch| &batch.parts);
        let unfinished = |(partition, _): &(TopicPartition, u64)| {
            let entry = self.entries.get(partition)?;
            let next = entry.out.iter().rfind(|out| out.batch == batch)?.next;
            let is_committed = entry.base.is_some_and(|base| base.offset >= next.offset);
            (!is_committed).then(|| (partition.clone(), next))
        };
        parts.filter_map(unfinished).collect()
    }

    /// What `batch` has of a partition becomes these pieces, in the order of the log, each up to its place and each finished by
    /// itself: what is given back is not finished by whoever had it, nor what one worker was given by another. The last piece
    /// ends where the batch did. A piece may be `batch` itself; the others are kept by `keeper`. False if the partition went
    /// elsewhere since, or the batch is finished.
    pub fn divide(
        &mut self,
        batch: BatchId,
        partition: &TopicPartition,
        pieces: &[(BatchId, Place)],
        keeper: Keeper,
    ) -> bool {
        let Some(Batch { parts, .. }) = self.batches.get_mut(&batch) else { return false };
        let Some(span) = parts.iter().find(|(named, _)| named == partition).map(|(_, span)| *span) else {
            return false;
        };
        let Some(entry) = self.entries.get_mut(partition).filter(|entry| entry.span == span) else { return false };
        let Some(begin) = entry.out.iter().position(|out| out.batch == batch) else { return false };
        let count = entry.out.iter().skip(begin).take_while(|out| out.batch == batch).count();
        let end = entry.out.drain(begin..begin + count).next_back().map(|out| out.next);
        for (index, &(piece, next)) in pieces.iter().enumerate() {
            let next = end.filter(|_| index + 1 == pieces.len()).unwrap_or(next);
            entry.out.insert(begin + index, Out { batch: piece, next, done: false });
        }
        if pieces.iter().all(|(piece, _)| *piece != batch) {
            parts.retain(|(named, _)| named != partition);
        }
        if parts.is_empty() {
            self.batches.remove(&batch);
        }
        for &(piece, _) in pieces.iter().filter(|(piece, _)| *piece != batch) {
            let parts = &mut self.batches.entry(piece).or_insert(Batch { keeper, parts: Vec::new() }).parts;
            parts.push((partition.clone(), span));
        }
        true
    }

    /// The partition is not owned any more.
    pub fn release(&mut self, partition: &TopicPartition) {
        self.entries.remove(partition);
        self.forget_parts(partition);
    }

    /// Whether nothing of these is out that somebody may still finish.
    pub fn is_quiet<'p>(&self, partitions: impl IntoIterator<Item = &'p TopicPartition>) -> bool {
        let is_awaited =
            |out: &Out| !out.done && matches!(self.keeper(out.batch), Some(Keeper::Holder(_) | Keeper::Name));
        let awaits = |partition| self.entries.get(partition).is_some_and(|entry| entry.out.iter().any(is_awaited));
        !partitions.into_iter().any(awaits)
    }

    /// The frontier of a partition.
    pub fn finished(&self, partition: &TopicPartition) -> Option<Place> {
        self.entries.get(partition)?.finished
    }

    /// What is finished and was not brought to be committed yet, of all or of these. It counts as brought.
    pub fn snapshot(&mut self, only: Option<&BTreeSet<TopicPartition>>) -> BTreeMap<TopicPartition, CommitOffset> {
        let wanted = |partition: &TopicPartition| only.is_none_or(|only| only.contains(partition));
        let dirty = self.entries.iter_mut().filter(|(partition, entry)| entry.dirty && wanted(partition));
        let taken = dirty.filter_map(|(partition, entry)| {
            entry.dirty = false;
            let Place { offset, leader_epoch } = entry.finished?;
            Some((partition.clone(), CommitOffset { offset, leader_epoch, metadata: String::new() }))
        });
        taken.collect()
    }

    /// The user commits an offset of its own choice, maybe a lower one: it stands until the user finishes more (seed S155).
    pub fn chosen(&mut self, partition: &TopicPartition) {
        if let Some(entry) = self.entries.get_mut(partition) {
            (entry.dirty, entry.chosen) = (false, true);
        }
    }

    /// A commit of `offset` came to nothing: it is brought again, unless the user went or chose elsewhere meanwhile.
    pub fn not_committed(&mut self, partition: &TopicPartition, offset: i64) {
        if let Some(entry) = self.entries.get_mut(partition)
            && !entry.chosen
            && entry.finished.is_some_and(|finished| finished.offset == offset)
        {
            entry.dirty = true;
        }
    }

    /// `at` is committed. An offset of the user's own choice may be behind what is still out: that is not read again either.
    pub fn committed(&mut self, partition: &TopicPartition, at: Place) {
        let Some(entry) = self.entries.get_mut(partition) else { return };
        let reached = entry.out.back().map(|out| out.next).or(entry.finished);
        if reached.is_some_and(|reached| reached.offset >= at.offset) {
            entry.base = Some(at);
        }
    }

    /// Whether records were handed out, finished or not, that are not committed.
    pub fn is_ahead(&self, partition: &TopicPartition) -> bool {
        let at = |place: Option<Place>| place.map(|place| place.offset);
        // What was given back is in nobody's hands, and what was finished behind it is.
        let was_handed_out = |out: &Out| out.done || self.keeper(out.batch) != Some(Keeper::Queue);
        let ahead = |entry: &Entry| entry.out.iter().any(was_handed_out) || at(entry.finished) != at(entry.base);
        self.entries.get(partition).is_some_and(ahead)
    }

    /// Where to begin again, for each partition of which records were handed out that are not committed; `None` where reading
    /// started nowhere yet.
    pub fn bases(&self) -> Vec<(TopicPartition, Option<Place>)> {
        let ahead = self.entries.iter().filter(|(partition, _)| self.is_ahead(partition));
        ahead.map(|(partition, entry)| (partition.clone(), entry.base)).collect()
    }

    /// What is out of a partition counts for nothing any more.
    fn forget_parts(&mut self, partition: &TopicPartition) {
        for batch in self.batches.values_mut() {
            batch.parts.retain(|(named, _)| named != partition);
        }
        self.batches.retain(|_, batch| !batch.parts.is_empty());
    }

    fn current(&mut self, partition: &TopicPartition, span: u64) -> Option<&mut Entry> {
        self.entries.get_mut(partition).filter(|entry| entry.span == span)
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

    fn go_to(&mut self, place: Place) {
        (self.finished, self.dirty, self.chosen) = (Some(place), true, false);
    }
}
