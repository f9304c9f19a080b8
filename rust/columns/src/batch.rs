use std::sync::Arc;

use arrow_array::{Array, Int64Array, RecordBatch};

/// Rows of Kafka records as Arrow columns, and where they came from.
#[derive(Debug, Clone)]
pub struct ColumnBatch {
    /// The columns. Every batch of a builder has the same schema, empty ones included.
    pub record_batch: RecordBatch,
    /// The offsets that the rows cover, in row order.
    pub spans: Vec<Span>,
    /// Capacity of the pooled buffers that the columns hold, in bytes. Columns that batches share
    /// (a constant topic) are not counted.
    pub memory_bytes: usize,
}

impl ColumnBatch {
    /// The offset of a row, if the batch has the column.
    pub fn offset_of(&self, row: usize) -> Option<i64> {
        let offsets = self.record_batch.column_by_name("offset")?.as_any().downcast_ref::<Int64Array>()?;
        (row < offsets.len()).then(|| offsets.value(row))
    }

    /// Where each partition goes on after the first `rows` rows, for those that have one among them. Within a span, without an
    /// offset column, the lowest offset that it can be: over a gap this repeats records, but loses none.
    pub fn after(&self, rows: usize) -> impl Iterator<Item = (&Span, i64, i32)> {
        let mut start = 0;
        self.spans.iter().filter_map(move |span| {
            let (first, taken) = (start, rows.saturating_sub(start).min(span.rows));
            start += span.rows;
            match taken {
                0 => None,
                all if all == span.rows => Some((span, span.next_offset, span.leader_epoch)),
                some => {
                    let last = self.offset_of(first + some - 1).unwrap_or(span.first_offset + some as i64 - 1);
                    Some((span, last + 1, -1))
                }
            }
        })
    }
}

/// Consecutive rows of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// How many rows.
    pub rows: usize,
    /// Offset of the first row.
    pub first_offset: i64,
    /// The position once these rows are processed: beyond the last row's offset where control
    /// batches, aborted records or compacted gaps follow it.
    pub next_offset: i64,
    /// Leader epoch of the batch that the last row came from, -1 if unknown.
    pub leader_epoch: i32,
}
