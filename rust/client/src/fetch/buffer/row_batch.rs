//! Batches whose rows are handed out one by one: a row is finished when the one after it is taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_columns::ColumnBatch;
use monedula_engine::TopicPartition;
use monedula_engine::ledger::{BatchId, Holder, Ledger, OffsetAndEpoch};

use super::row_cursor::RowCursor;

/// A batch whose rows are handed out one by one.
pub(super) struct RowBatch {
    holder: Holder,
    cursor: Arc<RowCursor>,
    batch: ColumnBatch,
    /// The batch's partitions, each with the id of its reading.
    reading_ids: BTreeMap<TopicPartition, u64>,
}

impl RowBatch {
    pub(super) fn new(
        holder: Holder,
        cursor: Arc<RowCursor>,
        batch: ColumnBatch,
        reading_ids: BTreeMap<TopicPartition, u64>,
    ) -> Self {
        Self { holder, cursor, batch, reading_ids }
    }

    pub(super) fn holder(&self) -> Holder {
        self.holder
    }

    /// Holder of the last row, as far as it is known.
    pub(super) fn taker(&self) -> Holder {
        self.cursor.taker().unwrap_or(self.holder)
    }

    pub(super) fn stop(&self) {
        self.cursor.stop();
    }

    pub(super) fn has(&self, partition: &TopicPartition) -> bool {
        self.reading_ids.contains_key(partition)
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.cursor.taken() > self.batch.record_batch.num_rows()
    }

    fn taken(&self) -> usize {
        self.cursor.taken().min(self.batch.record_batch.num_rows())
    }

    pub(super) fn has_untaken(&self, partition: &TopicPartition) -> bool {
        let taken = self.taken();
        let rest = self.batch.slice(taken, self.batch.record_batch.num_rows() - taken).spans;
        rest.iter().any(|span| span.partition == partition.partition && span.topic == partition.topic)
    }

    /// Finishes rows in the ledger; the one in the user's hands only with `all`.
    pub(super) fn finish(&self, id: BatchId, ledger: &mut Ledger, all: bool) {
        let taken = self.cursor.taken();
        finish_up_to(&self.batch, if all { taken } else { taken.saturating_sub(1) }, id, ledger);
    }

    /// The place after the rows that were taken, in each partition that has any.
    pub(super) fn taken_places(&self) -> Vec<(TopicPartition, OffsetAndEpoch)> {
        places_after(&self.batch, self.taken()).collect()
    }

    /// Rows that were not taken, by runs of one partition, each with the id of its reading.
    pub(super) fn untaken(&self) -> Vec<(TopicPartition, u64, ReturnedRows)> {
        let runs = self.batch.parts(self.taken()).into_iter().filter_map(|rows| {
            let (partition, next) = run_of(&rows)?;
            let assigned = self.reading_ids.get(&partition).copied().unwrap_or_default();
            Some((partition, assigned, ReturnedRows { rows, next }))
        });
        runs.collect()
    }
}

/// Rows of one partition that were given back.
pub(super) struct ReturnedRows {
    rows: ColumnBatch,
    next: OffsetAndEpoch,
}

impl ReturnedRows {
    /// Rows of one partition, with the place after the last of them.
    pub(super) fn new(rows: ColumnBatch, next: OffsetAndEpoch) -> Self {
        Self { rows, next }
    }

    pub(super) fn first_offset(&self) -> i64 {
        self.rows.spans.first().map_or(self.next.offset, |span| span.first_offset)
    }

    pub(super) fn count(&self) -> usize {
        self.rows.record_batch.num_rows()
    }

    /// The place after the last row.
    pub(super) fn next(&self) -> OffsetAndEpoch {
        self.next
    }

    pub(super) fn into_columns(self) -> ColumnBatch {
        self.rows
    }

    /// As many rows as a batch may have, and the rest, if there is any.
    pub(super) fn cut(self, max_rows: usize, max_bytes: usize) -> (Self, Option<Self>) {
        let (head, count) = (self.rows.rows_within(max_rows, max_bytes), self.count());
        if head >= count {
            return (self, None);
        }
        let (front, rest) = (self.rows.slice(0, head), self.rows.slice(head, count - head));
        let last = front.spans.last();
        let next = last.map_or(self.next, |span| OffsetAndEpoch { offset: span.next_offset, leader_epoch: -1 });
        (Self { rows: front, next }, Some(Self { rows: rest, next: self.next }))
    }
}

/// The partition of a run of rows, with the place after it.
pub(super) fn run_of(rows: &ColumnBatch) -> Option<(TopicPartition, OffsetAndEpoch)> {
    let span = rows.spans.first()?;
    let next = OffsetAndEpoch { offset: span.next_offset, leader_epoch: span.leader_epoch };
    Some((TopicPartition::new(span.topic.clone(), span.partition), next))
}

/// The first rows of a batch are finished; the others stay out.
pub(super) fn finish_up_to(batch: &ColumnBatch, rows: usize, id: BatchId, ledger: &mut Ledger) {
    for (partition, place) in places_after(batch, rows) {
        ledger.finish_up_to(id, &partition, place);
    }
}

/// The place after the first rows of a batch, in each partition that has any.
fn places_after(batch: &ColumnBatch, rows: usize) -> impl Iterator<Item = (TopicPartition, OffsetAndEpoch)> {
    batch.after(rows).map(|(span, offset, leader_epoch)| {
        (TopicPartition::new(span.topic.clone(), span.partition), OffsetAndEpoch { offset, leader_epoch })
    })
}
