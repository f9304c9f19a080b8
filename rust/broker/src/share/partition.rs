//! The records of one partition as one share group sees them (KIP-932): a pure state machine.
//!
//! Between the start offset and the next offset every offset has a state, in runs. Below, records are done with; from
//! the next offset on, none was acquired yet. Its inputs are the batches of the log, requests and the time; it knows no
//! log and no clock, and its users store [`SharePartition::state_batches`] before they answer.
//!
//! ```text
//! Available ── acquired, delivery count + 1 ──► Acquired ── accepted ──► Acknowledged
//!     ▲                                            │ └── rejected, or there is no record ──► Archived
//!     └── released, lock over, session over ───────┘ ── the same, after the last delivery ─────▲
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::acknowledgement::{AcknowledgeType, Acknowledgement};
use super::acquisition::{Acquired, Acquisition};
use super::dead_letter::{DeadLetter, DeadLetterCause};
use super::limits::ShareLimits;
use super::run::{RecordState, Run};
use super::state_batch::StateBatch;
use crate::error::ApiError;

/// The state of a share partition. The module explains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharePartition {
    /// The first offset that is not done with.
    start: i64,
    /// The offset behind the last one that was ever acquired.
    next: i64,
    /// The offsets from `start` to `next`, by their first.
    runs: BTreeMap<i64, Run>,
}

impl SharePartition {
    /// A share partition of which nothing was acquired yet.
    pub(crate) fn new(start: i64) -> Self {
        Self { start, next: start, runs: BTreeMap::new() }
    }

    /// Reads back a state. Offsets between its batches were acquired, but nothing of them was stored: they are as new.
    pub(crate) fn restored(start: i64, batches: &[StateBatch]) -> Self {
        let mut partition = Self::new(start);
        for batch in batches.iter().filter(|batch| batch.last >= start) {
            let first = batch.first.max(start);
            partition.fill_to(first, RecordState::Available);
            let state = RecordState::from_code(batch.state).unwrap_or(RecordState::Available);
            partition.push(batch.last, state, batch.delivery_count);
        }
        partition.settle();
        partition
    }

    /// The state that outlives the leader. What is acquired is stored as it was before, as in Kafka, which writes
    /// nothing when records are acquired: a new leader delivers them again, with the same delivery count.
    pub(crate) fn state_batches(&self) -> Vec<StateBatch> {
        let mut batches: Vec<StateBatch> = Vec::new();
        for (&first, run) in &self.runs {
            let (state, delivery_count) = match run.state.code() {
                Some(state) => (state, run.delivery_count),
                None => (0, run.delivery_count - 1),
            };
            if (state, delivery_count) == (0, 0) {
                continue;
            }
            match batches.last_mut() {
                Some(before)
                    if (before.last + 1, before.state, before.delivery_count) == (first, state, delivery_count) =>
                {
                    before.last = run.last;
                }
                _ => batches.push(StateBatch { first, last: run.last, state, delivery_count }),
            }
        }
        batches
    }

    /// The first offset that is not done with.
    pub(crate) fn start_offset(&self) -> i64 {
        self.start
    }

    /// The number of offsets behind the start offset that are done with.
    pub(crate) fn delivery_complete_count(&self) -> i64 {
        let done = self.runs.iter().filter(|(_, run)| run.state.is_final());
        done.map(|(first, run)| run.last - first + 1).sum()
    }

    /// The first offset that may be acquired.
    pub(crate) fn fetch_offset(&self) -> i64 {
        let available = self.runs.iter().find(|(_, run)| run.state == RecordState::Available);
        available.map_or(self.next, |(first, _)| *first)
    }

    /// True if records at the fetch offset may be acquired, if the log has any.
    pub(crate) fn may_acquire(&self, limits: ShareLimits) -> bool {
        self.fetch_offset() < self.next || self.next - self.start < limits.record_locks
    }

    /// The time at which the first lock is over.
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        let due = |run: &Run| match run.state {
            RecordState::Acquired { due_ms, .. } => Some(due_ms),
            _ => None,
        };
        self.runs.values().filter_map(due).min()
    }

    /// The number of offsets that members have.
    pub(crate) fn acquired_count(&self) -> i64 {
        let acquired = self.runs.iter().filter(|(_, run)| matches!(run.state, RecordState::Acquired { .. }));
        acquired.map(|(first, run)| run.last - first + 1).sum()
    }

    /// True if a member has records.
    pub(crate) fn is_held_by(&self, member: &str) -> bool {
        self.runs.values().any(|run| matches!(&run.state, RecordState::Acquired { member: by, .. } if **by == *member))
    }

    /// Acquires records. `batches` are the first and last offsets of the log's batches from the fetch offset on.
    pub(crate) fn acquire(
        &mut self,
        wanted: &Acquisition,
        batches: &[(i64, i64)],
        limits: ShareLimits,
        now_ms: i64,
    ) -> Vec<Acquired> {
        let (Some(&(first, _)), Some(&(_, last))) = (batches.first(), batches.last()) else { return Vec::new() };
        let fetch_offset = self.fetch_offset();
        let room = limits.record_locks - (self.next - self.start);
        let (most, last) = match wanted.max_records.min(room) {
            most @ 1.. => (most, last),
            // Nothing new fits, but what was released in between does.
            _ => (wanted.max_records.min(self.next - fetch_offset), last.min(self.next - 1)),
        };
        if most <= 0 || last < fetch_offset {
            return Vec::new();
        }
        let state = RecordState::Acquired { member: Arc::clone(&wanted.member), due_ms: now_ms + limits.lock_ms };
        self.archive_missing(fetch_offset, first);
        let first = first.max(self.start);
        let (mut acquired, throttled) = self.acquire_again((first, last), most, wanted, limits, &state);
        let most = most - acquired.iter().map(Acquired::count).sum::<i64>();
        if !throttled && most > 0 && self.next <= last {
            acquired.extend(self.acquire_new(batches, last, most, wanted, state));
        }
        self.settle();
        acquired
    }

    /// Acquires records that are in flight and available. Returns them, and whether no more may go with them.
    fn acquire_again(
        &mut self,
        (first, last): (i64, i64),
        most: i64,
        wanted: &Acquisition,
        limits: ShareLimits,
        state: &RecordState,
    ) -> (Vec<Acquired>, bool) {
        let mut acquired: Vec<Acquired> = Vec::new();
        let mut count = 0;
        let mut offset = first;
        while let Some(batch) = self.batch_from(offset).filter(|_| count < most && offset <= last) {
            offset = batch.1 + 1;
            let within = (batch.0.max(first), batch.1.min(last));
            let available = self.available(within);
            let deliveries = available.iter().map(|(.., deliveries)| *deliveries).max();
            let Some(deliveries) = deliveries else { continue };
            let throttled = deliveries >= limits.throttled_delivery_count();
            if throttled && count > 0 {
                return (acquired, true);
            }
            let whole = available.len() == 1 && (available[0].0, available[0].1) == batch && !throttled;
            let most = if wanted.record_limit { most - count } else { i64::MAX };
            let chosen = match whole && batch.1 - batch.0 < most {
                true => vec![(batch.0, batch.1)],
                false => choose(&available, batch.1 - batch.0 + 1, most, limits),
            };
            for (first, last) in chosen {
                acquired.extend(self.take(first, last, state));
                count += last - first + 1;
            }
            if throttled {
                return (acquired, true);
            }
        }
        (acquired, false)
    }

    /// Acquires records that were never acquired, from the next offset on.
    fn acquire_new(
        &mut self,
        batches: &[(i64, i64)],
        last: i64,
        most: i64,
        wanted: &Acquisition,
        state: RecordState,
    ) -> Vec<Acquired> {
        let first = self.next;
        let wished = first + most - 1;
        let last = match wished < last {
            // The end of the batch with the last record that is wished for.
            true => batches.iter().take_while(|(base, _)| *base <= wished).last().map_or(wished, |(_, end)| *end),
            false => last,
        };
        let one = |first, last| Acquired { first, last, delivery_count: 1 };
        if wanted.record_limit {
            let limit = last.min(wished);
            self.push(last, RecordState::Available, 0);
            self.change(first, limit, |_, run| (run.state, run.delivery_count) = (state.clone(), 1));
            return vec![one(first, limit)];
        }
        let mut acquired = Vec::new();
        let mut begin = first;
        let ends = batches.iter().map(|(base, _)| *base).filter(|base| *base <= last);
        for base in ends.filter(|_| last - first + 1 > wanted.batch_size) {
            if base - begin >= wanted.batch_size.max(1) {
                acquired.push(one(begin, base - 1));
                begin = base;
            }
        }
        acquired.push(one(begin, last));
        acquired.iter().for_each(|range| self.push(range.last, state.clone(), 1));
        acquired
    }

    /// Archives those of the records that were just acquired which are not to be delivered, such as those of aborted
    /// transactions. Returns the others.
    pub(crate) fn leave_out(&mut self, acquired: Vec<Acquired>, ranges: &[(i64, i64)]) -> Vec<Acquired> {
        let mut left = acquired;
        for &(first, last) in ranges {
            for one in std::mem::take(&mut left) {
                self.change(one.first.max(first), one.last.min(last), |_, run| run.state = RecordState::Archived);
                let before = Acquired { last: one.last.min(first - 1), ..one };
                let behind = Acquired { first: one.first.max(last + 1), ..one };
                left.extend([before, behind].into_iter().filter(|part| part.first <= part.last));
            }
        }
        self.settle();
        left
    }

    /// Applies acknowledgements of a member, all or none. Returns what became dead letters.
    ///
    /// # Errors
    /// INVALID_RECORD_STATE for records that the member has not acquired, or whose locks may not be renewed;
    /// INVALID_REQUEST for offsets that were never acquired.
    pub(crate) fn acknowledge(
        &mut self,
        member: &str,
        acknowledgements: &[Acknowledgement],
        limits: ShareLimits,
        now_ms: i64,
    ) -> Result<Vec<DeadLetter>, ApiError> {
        // What lies before the start offset is done with, and skipped without an error.
        let current = acknowledgements.iter().filter(|one| one.last >= self.start).copied();
        let current: Vec<_> = current.map(|one| Acknowledgement { first: one.first.max(self.start), ..one }).collect();
        current.iter().try_for_each(|one| self.check(member, one, limits))?;
        if current.array_windows().any(|[before, next]| next.first <= before.last) {
            let message = "An offset is acknowledged twice.";
            return Err(ApiError::new(ErrorCode::InvalidRecordState, message));
        }
        let mut dead = Vec::new();
        for one in current {
            self.change(one.first, one.last, |first, run| match (one.kind, &mut run.state) {
                (AcknowledgeType::Renew, RecordState::Acquired { due_ms, .. }) => *due_ms = now_ms + limits.lock_ms,
                (AcknowledgeType::Accept, state) => *state = RecordState::Acknowledged,
                (AcknowledgeType::Gap, state) => *state = RecordState::Archived,
                (AcknowledgeType::Release | AcknowledgeType::Renew, _) => run.release(first, limits, &mut dead),
                (AcknowledgeType::Reject, _) => run.archive(first, DeadLetterCause::Rejected, &mut dead),
            });
        }
        self.settle();
        Ok(dead)
    }

    /// Checks that a member may acknowledge these records.
    fn check(&self, member: &str, one: &Acknowledgement, limits: ShareLimits) -> Result<(), ApiError> {
        let wrong = |message: &str| Err(ApiError::new(ErrorCode::InvalidRecordState, message));
        if one.kind == AcknowledgeType::Renew && !limits.renewals {
            return wrong("The group does not allow to renew locks.");
        }
        if self.runs.is_empty() {
            return wrong("None of the partition's records is acquired.");
        }
        if one.last >= self.next {
            let message = format!("Offset {} was never acquired.", one.last);
            return Err(ApiError::new(ErrorCode::InvalidRequest, message));
        }
        match self.overlapping(one.first, one.last).find_map(|(_, run)| run.refusal_to(member)) {
            Some(message) => wrong(message),
            None => Ok(()),
        }
    }

    /// Releases the records of a member, whose session has ended. Returns what became dead letters.
    pub(crate) fn release(&mut self, member: &str, limits: ShareLimits) -> Vec<DeadLetter> {
        self.release_where(limits, |by, _| by == member)
    }

    /// Releases the records whose locks are over. Returns what became dead letters.
    pub(crate) fn expire(&mut self, limits: ShareLimits, now_ms: i64) -> Vec<DeadLetter> {
        self.release_where(limits, |_, due_ms| due_ms <= now_ms)
    }

    fn release_where(&mut self, limits: ShareLimits, which: impl Fn(&str, i64) -> bool) -> Vec<DeadLetter> {
        let mut dead = Vec::new();
        for (&first, run) in &mut self.runs {
            if matches!(&run.state, RecordState::Acquired { member, due_ms } if which(member, *due_ms)) {
                run.release(first, limits, &mut dead);
            }
        }
        self.settle();
        dead
    }

    /// Handles a new log start offset: what lies before it is not there any more, whoever holds it.
    pub(crate) fn log_starts_at(&mut self, offset: i64) {
        if offset <= self.start {
            return;
        }
        self.split_at(offset);
        self.runs = self.runs.split_off(&offset);
        self.start = offset;
        self.next = self.next.max(offset);
        self.settle();
    }

    /// Archives what the log no longer has between two offsets: the fetch offset, and the first batch that was read
    /// from there.
    fn archive_missing(&mut self, from: i64, first: i64) {
        self.fill_to(first, RecordState::Archived);
        self.change(from, first - 1, |_, run| {
            if run.state == RecordState::Available {
                run.state = RecordState::Archived;
            }
        });
        self.settle();
    }

    /// Adds a run up to an offset, exclusive, unless the runs reach as far.
    fn fill_to(&mut self, offset: i64, state: RecordState) {
        if self.next < offset {
            self.push(offset - 1, state, 0);
        }
    }

    /// Adds a run from the next offset on.
    fn push(&mut self, last: i64, state: RecordState, delivery_count: i16) {
        if last >= self.next {
            self.runs.insert(self.next, Run { last, state, delivery_count, batch: (self.next, last) });
            self.next = last + 1;
        }
    }

    /// Acquires records that are available again.
    fn take(&mut self, first: i64, last: i64, state: &RecordState) -> Vec<Acquired> {
        let mut taken = Vec::new();
        self.change(first, last, |_, run| {
            run.state = state.clone();
            run.delivery_count += 1;
        });
        for (&first, run) in self.overlapping(first, last) {
            taken.push(Acquired { first, last: run.last, delivery_count: run.delivery_count });
        }
        taken
    }

    /// The batch with an offset, or the next one.
    fn batch_from(&self, offset: i64) -> Option<(i64, i64)> {
        let before = self.runs.range(..=offset).next_back().filter(|(_, run)| run.last >= offset);
        before.or_else(|| self.runs.range(offset..).next()).map(|(_, run)| run.batch)
    }

    /// The available records between two offsets, inclusive: first, last, delivery count.
    fn available(&self, (first, last): (i64, i64)) -> Vec<(i64, i64, i16)> {
        let available = self.overlapping(first, last).filter(|(_, run)| run.state == RecordState::Available);
        available.map(|(&from, run)| (from.max(first), run.last.min(last), run.delivery_count)).collect()
    }

    /// The runs with offsets between two offsets, inclusive.
    fn overlapping(&self, first: i64, last: i64) -> impl Iterator<Item = (&i64, &Run)> {
        let from = self.runs.range(..=first).next_back().filter(|(_, run)| run.last >= first);
        let from = from.map_or(first, |(from, _)| *from);
        // A range that ends before it begins is refused by `range`.
        self.runs.range(from..=last.max(from)).filter(move |(from, _)| **from <= last)
    }

    /// Changes all offsets between two, inclusive.
    fn change(&mut self, first: i64, last: i64, mut change: impl FnMut(i64, &mut Run)) {
        if first > last {
            return;
        }
        self.split_at(first);
        self.split_at(last + 1);
        self.runs.range_mut(first..=last).for_each(|(&first, run)| change(first, run));
    }

    /// Makes an offset the first of its run.
    fn split_at(&mut self, offset: i64) {
        let Some((_, run)) = self.runs.range_mut(..offset).next_back().filter(|(_, run)| run.last >= offset) else {
            return;
        };
        let rest = run.clone();
        run.last = offset - 1;
        self.runs.insert(offset, rest);
    }

    /// Moves the start offset over what is done with, and joins runs that have become alike.
    fn settle(&mut self) {
        while let Some(entry) = self.runs.first_entry().filter(|entry| entry.get().state.is_final()) {
            self.start = entry.get().last + 1;
            entry.remove();
        }
        let mut joined: BTreeMap<i64, Run> = BTreeMap::new();
        for (first, run) in std::mem::take(&mut self.runs) {
            match joined.last_entry() {
                Some(mut before) if before.get().continues_in(&run) => before.get_mut().last = run.last,
                _ => {
                    joined.insert(first, run);
                }
            }
        }
        self.runs = joined;
    }
}

/// Chooses what to acquire of a batch of which only some is available, or of which little may be delivered at once.
fn choose(available: &[(i64, i64, i16)], batch_records: i64, most: i64, limits: ShareLimits) -> Vec<(i64, i64)> {
    let mut chosen = Vec::new();
    let mut left = most;
    let mut throttled = false;
    for &(first, last, delivery_count) in available {
        let alone = limits.is_last_delivery(delivery_count);
        if alone && left < most {
            break;
        }
        let beyond = delivery_count - limits.throttled_delivery_count();
        if beyond >= 0 && !throttled {
            // Half as many with each further delivery. What was chosen before counts.
            throttled = true;
            let all = (batch_records >> (beyond + 1).min(62)).max(1);
            left = left.min(all - chosen.iter().map(|(first, last)| last - first + 1).sum::<i64>());
        }
        let count = (last - first + 1).min(if alone { 1 } else { left });
        if count <= 0 {
            break;
        }
        chosen.push((first, first + count - 1));
        left -= count;
        if alone || left == 0 {
            break;
        }
    }
    chosen
}
