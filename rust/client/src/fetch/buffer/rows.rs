//! Batches whose rows are handed out one by one: a row is finished when the one after it is taken. Rows that are given
//! back are kept as they are, and handed out before all others of their partition, by the next call of any holder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use monedula_columns::ColumnBatch;
use monedula_engine::TopicPartition;
use monedula_engine::ledger::{BatchId, Holder, Keeper, Ledger, OffsetAndEpoch};

use super::partition_buffer::HoldReason;
use super::row_cursor::RowCursor;
use super::{BatchLimits, BufferState, FetchBuffer};
use crate::fetch::step::HandedBatch;

/// A batch whose rows are handed out one by one.
pub(super) struct RowBatch {
    pub(super) holder: Holder,
    cursor: Arc<RowCursor>,
    batch: ColumnBatch,
    /// Its partitions, with the spans of their assignments.
    spans: BTreeMap<TopicPartition, u64>,
}

impl RowBatch {
    pub(super) fn is_used_up(&self) -> bool {
        self.cursor.taken() > self.batch.record_batch.num_rows()
    }

    pub(super) fn has_untaken(&self, partition: &TopicPartition) -> bool {
        let count = self.batch.record_batch.num_rows();
        let taken = self.cursor.taken().min(count);
        let rest = self.batch.slice(taken, count - taken).spans;
        rest.iter().any(|span| span.partition == partition.partition && span.topic == partition.topic)
    }

    /// Finishes rows in the ledger; the one in the user's hands only with `all`.
    pub(super) fn finish(&self, id: BatchId, ledger: &mut Ledger, all: bool) {
        let taken = self.cursor.taken();
        let finished = if all { taken } else { taken.saturating_sub(1) };
        for (span, offset, leader_epoch) in self.batch.after(finished) {
            let partition = TopicPartition::new(span.topic.clone(), span.partition);
            ledger.finish_up_to(id, &partition, OffsetAndEpoch { offset, leader_epoch });
        }
    }
}

/// Rows of one partition that were given back.
pub(super) struct ReturnedRows {
    id: BatchId,
    rows: ColumnBatch,
    next: OffsetAndEpoch,
}

impl ReturnedRows {
    pub(super) fn first_offset(&self) -> i64 {
        self.rows.spans.first().map_or(self.next.offset, |span| span.first_offset)
    }
}

impl FetchBuffer {
    /// The batch's rows are handed out one by one, each after it was taken from the cursor.
    pub(crate) fn by_rows(&self, batch: &HandedBatch, holder: Holder) -> Arc<RowCursor> {
        let mut state = self.state();
        let cursor = Arc::new(RowCursor::new(state.membership.clock.clone()));
        let spans: BTreeMap<_, _> = batch.places.iter().map(|(named, span, _)| (named.clone(), *span)).collect();
        // A partition that was sought, paused or lost since the batch was handed out is not handed out row by row
        // either.
        if !spans.iter().all(|(partition, span)| state.may_hand_out(partition, *span)) || state.must_return_first() {
            cursor.stop();
        }
        let finished = &mut state.finished;
        if let Some(ledger) = &mut finished.ledger {
            ledger.pass_on(batch.id, Keeper::Name);
        }
        finished
            .rows
            .insert(batch.id, RowBatch { holder, cursor: cursor.clone(), batch: batch.columns.clone(), spans });
        cursor
    }

    /// The records that a batch refused are in safe keeping: from now on `holder` holds the batch. False if some of its
    /// partitions were sought, paused or lost since; the rows of the others are handed out again.
    pub(crate) fn claim(&self, batch: &HandedBatch, holder: Holder) -> bool {
        let mut state = self.state();
        let is_current = batch.places.iter().all(|(partition, span, _)| state.may_hand_out(partition, *span));
        state.finished.forget_refused(batch.id);
        if let Some(ledger) = &mut state.finished.ledger {
            ledger.pass_on(batch.id, Keeper::Holder(holder));
        }
        self.notify_group(state);
        if !is_current {
            self.by_rows(batch, holder);
            self.give_back(batch.id, Some(holder));
        }
        is_current
    }

    /// The partitions of a batch whose rows will never be handed out: they were sought or lost since, or are being revoked.
    pub(crate) fn revoked_partitions(&self, batch: &HandedBatch) -> Vec<TopicPartition> {
        let state = self.state();
        let is_gone = |partition: &TopicPartition, span: u64| {
            state
                .partitions
                .get(partition)
                .is_none_or(|buffer| !buffer.counts(span) || buffer.is_held_by(HoldReason::Revoked))
        };
        let places = batch.places.iter().filter(|(partition, span, _)| is_gone(partition, *span));
        places.map(|(partition, ..)| partition.clone()).collect()
    }

    /// Rows of a batch that were not taken are handed out again, unless the partition was sought or lost since. The row
    /// taken last stays in the hands of `holder`; if left out, of whoever took it.
    pub(crate) fn give_back(&self, id: BatchId, holder: Option<Holder>) {
        let mut state = self.state();
        let rows = state.finished.rows.get(&id).filter(|rows| !rows.is_used_up());
        if let Some(rows) = rows {
            let holder = holder.or_else(|| rows.cursor.taker()).unwrap_or(rows.holder);
            state.give_back(id, Keeper::Holder(holder));
        }
        self.notify_group(state);
        self.arrived.notify_all();
    }

    /// Rows that were given back, if there are any that may be handed out.
    pub(super) fn hand_out_again(&self, want: &BatchLimits, holder: Holder) -> Option<HandedBatch> {
        let mut state = self.state();
        if state.membership.withholds(Instant::now()) {
            return None;
        }
        let partition = state.first_returned()?.clone();
        let BufferState { partitions, finished, returned, .. } = &mut *state;
        let span = partitions.get(&partition)?.span();
        let queue = returned.get_mut(&partition)?;
        let ReturnedRows { id, rows, next } = queue.pop_front()?;
        let head = rows.rows_within(want.max_rows, want.max_bytes);
        let count = rows.record_batch.num_rows();
        let (columns, next) = if head < count {
            let (front, rest) = (rows.slice(0, head), rows.slice(head, count - head));
            let place =
                front.spans.last().map_or(next, |span| OffsetAndEpoch { offset: span.next_offset, leader_epoch: -1 });
            let rest_id = finished.new_batch();
            finished.divide(id, &partition, &[(id, place), (rest_id, next)], Keeper::Queue);
            queue.push_front(ReturnedRows { id: rest_id, rows: rest, next });
            (front, place)
        } else {
            (rows, next)
        };
        if queue.is_empty() {
            returned.remove(&partition);
        }
        finished.hand_out_again(id, holder, head);
        Some(HandedBatch { columns, id, places: vec![(partition, span, next)] })
    }
}

impl BufferState {
    /// Takes back the rows of a batch that were not taken; `keeper` keeps the others.
    pub(super) fn give_back(&mut self, id: BatchId, keeper: Keeper) {
        let BufferState { finished, partitions, returned, .. } = self;
        let Some(rows) = finished.rows.remove(&id) else { return };
        rows.cursor.stop();
        if let Some(ledger) = &mut finished.ledger {
            // The rows before the one taken last are finished, whatever becomes of that one.
            rows.finish(id, ledger, false);
            ledger.pass_on(id, keeper);
        }
        let taken = rows.cursor.taken().min(rows.batch.record_batch.num_rows());
        let mut pieces: BTreeMap<TopicPartition, Vec<(BatchId, OffsetAndEpoch)>> = BTreeMap::new();
        for (span, offset, leader_epoch) in rows.batch.after(taken) {
            let partition = TopicPartition::new(span.topic.clone(), span.partition);
            pieces.insert(partition, vec![(id, OffsetAndEpoch { offset, leader_epoch })]);
        }
        for rest in rows.batch.parts(taken) {
            let Some(span) = rest.spans.first() else { continue };
            let partition = TopicPartition::new(span.topic.clone(), span.partition);
            let assigned = rows.spans.get(&partition).copied().unwrap_or_default();
            if partitions.get(&partition).is_none_or(|buffer| !buffer.counts(assigned)) {
                continue;
            }
            let next = OffsetAndEpoch { offset: span.next_offset, leader_epoch: span.leader_epoch };
            let back = ReturnedRows { id: finished.new_batch(), rows: rest, next };
            finished.uncount_held(rows.holder, back.rows.record_batch.num_rows());
            pieces.entry(partition.clone()).or_default().push((back.id, next));
            let queue = returned.entry(partition).or_default();
            // Several holders may give rows back: they are kept in the order of the log.
            queue.insert(queue.partition_point(|other| other.first_offset() < back.first_offset()), back);
        }
        for (partition, pieces) in &pieces {
            finished.divide(id, partition, pieces, Keeper::Queue);
        }
    }

    /// No more rows of the partition are handed out of batches that were handed out before.
    pub(super) fn stop_rows_of(&self, partition: &TopicPartition) {
        let concerned = self.finished.rows.values().filter(|rows| rows.spans.contains_key(partition));
        concerned.for_each(|rows| rows.cursor.stop());
    }

    /// The user has to come into a call before the next row.
    pub(super) fn stop_all_rows(&self) {
        self.finished.rows.values().for_each(|rows| rows.cursor.stop());
    }

    /// Rows of the partition that were given back will not be handed out any more.
    pub(super) fn forget_returned(&mut self, partition: &TopicPartition) {
        self.returned.remove(partition);
    }

    /// The partition whose rows were given back and are to be handed out next.
    pub(super) fn first_returned(&self) -> Option<&TopicPartition> {
        let is_open = |partition: &&TopicPartition| {
            self.partitions.get(*partition).is_some_and(|buffer| !buffer.is_closed_to_rows())
        };
        self.returned.keys().find(is_open)
    }

    /// Whether rows of a partition were handed out that may be handed out again, or that somebody has in hand: its error
    /// comes after them.
    pub(super) fn owes_rows(&self, partition: &TopicPartition) -> bool {
        self.returned.contains_key(partition) || self.finished.is_in_hand(partition)
    }

    /// Takes back what was not taken of batches with rows of a partition that are handed out one by one. False if there
    /// is no such row.
    pub(super) fn take_rows_back(&mut self, partition: &TopicPartition) -> bool {
        let batches = self.finished.rows.iter().filter(|(_, rows)| rows.has_untaken(partition));
        let batches: Vec<_> = batches.map(|(id, rows)| (*id, rows.holder)).collect();
        batches.into_iter().for_each(|(id, holder)| self.give_back(id, Keeper::Holder(holder)));
        self.returned.contains_key(partition)
    }

    /// Whether there is anything that could be handed out.
    pub(super) fn has_rows(&self) -> bool {
        !self.ready.is_empty() || self.first_returned().is_some()
    }

    fn may_hand_out(&self, partition: &TopicPartition, span: u64) -> bool {
        self.partitions.get(partition).is_some_and(|buffer| buffer.counts(span) && !buffer.is_closed_to_rows())
    }

    /// Whether a call has something to return, or to wait for, before any row.
    fn must_return_first(&self) -> bool {
        self.closed
            || self.woken
            || self.membership.has_callback_or_error()
            || self.membership.withholds(Instant::now())
    }

    /// The holder's rows that were not taken are handed out again; its unfinished batches stay unfinished. Returns the
    /// place after the last row of each partition in those.
    pub(super) fn holder_ended(&mut self, holder: Holder) -> BTreeSet<(TopicPartition, OffsetAndEpoch)> {
        self.finished.sync_rows(Some(holder), false);
        let held = self.finished.rows.iter().filter(|(_, rows)| rows.holder == holder);
        let by_rows: Vec<BatchId> = held.map(|(id, _)| *id).collect();
        for id in &by_rows {
            self.give_back(*id, Keeper::Ended);
        }
        let Some(ledger) = &mut self.finished.ledger else { return BTreeSet::new() };
        let held = ledger.held(holder);
        held.iter().for_each(|id| ledger.pass_on(*id, Keeper::Ended));
        held.iter().chain(&by_rows).flat_map(|id| ledger.unfinished(*id)).collect()
    }
}
