//! A finished batch: the Arrow `RecordBatch`, and the partitions and offsets that its rows cover. Slices of it, and the
//! positions after some of its rows.

use std::sync::Arc;

use arrow_array::{Array, Int64Array, RecordBatch};

use crate::typed::RefusedRows;

/// Kafka records as rows of Arrow columns, and the partitions and offsets that they came from.
#[derive(Debug, Clone)]
pub struct ColumnBatch {
    /// The columns. Every batch of a builder has the same schema, empty ones included.
    pub record_batch: RecordBatch,
    /// The offsets that the rows cover, in row order.
    pub spans: Vec<OffsetSpan>,
    /// Capacity of the pooled buffers that the columns hold, in bytes. The topic, partition and timestampType columns
    /// are not counted, because batches may share them.
    pub memory_bytes: usize,
    /// Records that cannot be decoded, kept for the dead letters under [`OnBadValue::Refuse`](crate::OnBadValue);
    /// slices have none.
    pub refused: Option<Box<RefusedRows>>,
    /// Number of records that cannot be decoded and were dropped; 0 for slices.
    pub dropped: usize,
    /// Number of rows with a null in place of a bad key, value or field; 0 for slices.
    pub with_nulls: usize,
    /// Number of records that do not meet the condition of [`BatchColumns`](crate::BatchColumns); 0 for slices.
    pub filtered: usize,
}

impl ColumnBatch {
    /// The offset of a row; `None` if the batch has no offset column or no such row.
    pub fn offset_of(&self, row: usize) -> Option<i64> {
        let offsets = self.record_batch.column_by_name("offset")?.as_any().downcast_ref::<Int64Array>()?;
        (row < offsets.len()).then(|| offsets.value(row))
    }

    /// The positions after the first `rows` rows: for each span that has rows among them, the span, the next offset and
    /// its leader epoch (-1 if the cut is within the span). Without an offset column, the next offset within a span is
    /// the lowest that it can be: resuming there after a gap in the offsets repeats records, but loses none.
    pub fn after(&self, rows: usize) -> impl Iterator<Item = (&OffsetSpan, i64, i32)> {
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

    /// The `rows` rows from row `from` on, without a copy. The batch must have them.
    pub fn slice(&self, from: usize, rows: usize) -> Self {
        let (mut start, mut spans) = (0, Vec::new());
        for span in &self.spans {
            let (begin, end) = (from.max(start), (from + rows).min(start + span.rows));
            if begin < end {
                let mut part = OffsetSpan { rows: end - begin, ..span.clone() };
                if begin > start {
                    part.first_offset = self.offset_of(begin).unwrap_or(span.first_offset + (begin - start) as i64);
                }
                if end < start + span.rows {
                    let last = self.offset_of(end - 1).unwrap_or(span.first_offset + (end - start) as i64 - 1);
                    (part.next_offset, part.leader_epoch) = (last + 1, -1);
                }
                spans.push(part);
            }
            start += span.rows;
        }
        let record_batch = self.record_batch.slice(from, rows);
        Self {
            record_batch,
            spans,
            memory_bytes: self.memory_bytes,
            refused: None,
            dropped: 0,
            with_nulls: 0,
            filtered: 0,
        }
    }

    /// The rows from `from` on, as one batch per span, without a copy.
    pub fn parts(&self, from: usize) -> Vec<Self> {
        let (mut start, mut parts) = (0, Vec::new());
        for span in &self.spans {
            let (begin, end) = (from.max(start), start + span.rows);
            if begin < end {
                parts.push(self.slice(begin, end - begin));
            }
            start = end;
        }
        parts
    }

    /// The largest number of first rows, at most `max_rows`, whose data takes at most `max_bytes`; 1 if the first row
    /// alone takes more.
    pub fn rows_within(&self, max_rows: usize, max_bytes: usize) -> usize {
        let bytes = |rows: usize| -> usize {
            let columns = self.record_batch.columns().iter();
            columns.map(|column| column.slice(0, rows).to_data().get_slice_memory_size().unwrap_or_default()).sum()
        };
        let most = self.record_batch.num_rows().min(max_rows);
        if bytes(most) <= max_bytes {
            return most;
        }
        let (mut fit, mut beyond) = (1, most);
        while beyond - fit > 1 {
            let middle = fit + (beyond - fit) / 2;
            match bytes(middle) <= max_bytes {
                true => fit = middle,
                false => beyond = middle,
            }
        }
        fit
    }
}

/// Consecutive rows of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetSpan {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Number of rows.
    pub rows: usize,
    /// Offset of the first row.
    pub first_offset: i64,
    /// The consumer's position after these rows. More than the last row's offset + 1 where control
    /// batches, aborted records or compacted gaps follow it.
    pub next_offset: i64,
    /// Leader epoch of the batch that the last row came from, -1 if unknown.
    pub leader_epoch: i32,
}
