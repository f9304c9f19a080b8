//! Builder of one batch: the growing columns, the limits on rows and bytes, and the spans of its rows. Records are
//! appended in `records` and `rows`; the columns become Arrow arrays in `finish`.

use std::sync::Arc;

use arrow_schema::SchemaRef;

use crate::batch::OffsetSpan;
use crate::constant::{ConstantInts, ConstantStrings};
use crate::filter::RecordFilter;
use crate::headers::HeadersColumn;
use crate::pool::BufferPool;
use crate::schema::ColumnSet;
use crate::typed::{BatchColumns, TypedColumns};
use crate::write::{ByteColumn, LongColumn};

/// Number of records that may be left out of one batch: some milliseconds of work.
const MAX_FILTERED: usize = 1 << 18;

/// Collects the rows of one batch, from any number of partitions, up to a limit of rows and bytes.
///
/// A single record larger than `max_bytes` gets a batch of its own (as in KIP-74), so that the walk makes progress.
pub struct BatchBuilder {
    pub(crate) columns: ColumnSet,
    pub(crate) schema: SchemaRef,
    pub(crate) pool: BufferPool,
    max_rows: usize,
    max_bytes: usize,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    pub(crate) refused: bool,
    pub(crate) spans: Vec<OffsetSpan>,
    pub(crate) timestamp_types: Vec<(i32, usize)>,
    pub(crate) keys: ByteColumn,
    pub(crate) values: ByteColumn,
    pub(crate) offsets: LongColumn,
    pub(crate) timestamps: LongColumn,
    pub(crate) headers: HeadersColumn,
    pub(crate) topic: ConstantStrings,
    pub(crate) partition: ConstantInts,
    pub(crate) timestamp_type: ConstantInts,
    /// Typed columns that replace the binary key or value.
    pub(crate) typed: Option<Box<TypedColumns>>,
    pub(crate) filter: Option<Arc<RecordFilter>>,
    /// Number of records that the filter has left out.
    pub(crate) filtered: usize,
}

impl BatchBuilder {
    /// A builder of batches of at most `max_rows` rows and `max_bytes` bytes. Both limits are clamped to at least 1 and
    /// to what Arrow's 32-bit offsets can address (below 2 GiB).
    pub fn new(columns: impl Into<BatchColumns>, pool: BufferPool, max_rows: usize, max_bytes: usize) -> Self {
        let columns = columns.into();
        let typed = TypedColumns::new(&columns, &pool).map(Box::new);
        let schema = columns.set.schema();
        Self {
            columns: columns.set,
            schema: typed.as_ref().map_or(Arc::clone(&schema), |typed| typed.schema(&schema)),
            typed,
            filter: columns.filter,
            filtered: 0,
            max_rows: max_rows.clamp(1, i32::MAX as usize - 1),
            max_bytes: max_bytes.clamp(1, i32::MAX as usize),
            rows: 0,
            bytes: 0,
            refused: false,
            spans: Vec::new(),
            timestamp_types: Vec::new(),
            keys: ByteColumn::new(&pool),
            values: ByteColumn::new(&pool),
            offsets: LongColumn::new(&pool),
            timestamps: LongColumn::new(&pool),
            headers: HeadersColumn::new(&pool),
            topic: ConstantStrings::default(),
            partition: ConstantInts::default(),
            timestamp_type: ConstantInts::default(),
            pool,
        }
    }

    /// The columns of every batch.
    pub fn columns(&self) -> ColumnSet {
        self.columns
    }

    /// The schema of every batch, empty ones included.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Number of rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The offsets of records that cannot be decoded and were dropped since the last batch.
    pub fn dropped(&self) -> &[i64] {
        self.typed.as_ref().map_or(&[], |typed| &typed.dropped)
    }

    /// Size of the rows so far in Arrow's layout, in bytes; headers are counted with an upper bound. Refused records
    /// count too.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if the batch must be finished before more rows can be appended.
    pub fn is_full(&self) -> bool {
        self.refused || self.rows_left() == 0 || self.bytes >= self.max_bytes
    }

    /// Number of records that may be left out of the batch before it is finished: a walk that finds no row returns too.
    pub(crate) fn filtered_left(&self) -> usize {
        MAX_FILTERED.saturating_sub(self.filtered)
    }

    /// Returns true if each record becomes a row of about its own size: none is decoded or filtered.
    pub fn is_plain_copy(&self) -> bool {
        self.typed.is_none() && self.filter.is_none()
    }

    pub(crate) fn rows_left(&self) -> usize {
        let refused = self.typed.as_ref().map_or(0, |typed| typed.refused_rows());
        self.max_rows.saturating_sub(self.rows + refused)
    }

    pub(crate) fn bytes_left(&self) -> usize {
        self.max_bytes.saturating_sub(self.bytes)
    }

    /// Bytes that every row of a topic takes, without its key, value and headers.
    pub(crate) fn fixed_row_bytes(&self, topic: &str) -> usize {
        let widths = [
            (ColumnSet::KEY, 4),
            (ColumnSet::VALUE, 4),
            (ColumnSet::TOPIC, 4 + topic.len()),
            (ColumnSet::PARTITION, 4),
            (ColumnSet::OFFSET, 8),
            (ColumnSet::TIMESTAMP, 8),
            (ColumnSet::TIMESTAMP_TYPE, 4),
        ];
        widths.into_iter().filter(|(column, _)| self.is_plain(*column)).map(|(_, width)| width).sum()
    }

    /// Returns true if the batch has this column in its binary form, not a typed one in its place.
    pub(crate) fn is_plain(&self, column: ColumnSet) -> bool {
        self.columns.contains(column) && self.typed.as_ref().is_none_or(|typed| typed.of(column).is_none())
    }

    /// Counts rows that were appended to the columns, and extends the last span or starts a new one.
    pub(crate) fn commit(&mut self, appended: OffsetSpan, bytes: usize, timestamp_type: i32) {
        self.rows += appended.rows;
        self.bytes += bytes;
        match self.timestamp_types.last_mut() {
            Some((last, rows)) if *last == timestamp_type => *rows += appended.rows,
            _ => self.timestamp_types.push((timestamp_type, appended.rows)),
        }
        match self.spans.last_mut() {
            Some(last) if same_partition(last, &appended.topic, appended.partition) => {
                last.rows += appended.rows;
                last.next_offset = appended.next_offset;
                last.leader_epoch = appended.leader_epoch;
            }
            _ => self.spans.push(appended),
        }
    }

    /// Moves the last span's `next_offset` past control batches, aborted records and gaps that follow its rows.
    pub(crate) fn advance(&mut self, topic: &str, partition: i32, position: i64) {
        if let Some(last) = self.spans.last_mut()
            && same_partition(last, topic, partition)
        {
            last.next_offset = last.next_offset.max(position);
        }
    }
}

fn same_partition(span: &OffsetSpan, topic: &str, partition: i32) -> bool {
    span.partition == partition && (std::ptr::eq(&*span.topic, topic) || *span.topic == *topic)
}
