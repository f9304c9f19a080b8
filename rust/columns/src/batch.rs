use std::sync::Arc;

use arrow_array::RecordBatch;

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
