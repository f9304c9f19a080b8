//! Appends records as rows to all columns of a builder.

use monedula_protocol::records::{BatchHeader, RawRecord};

use crate::builder::BatchBuilder;
use crate::headers::HeadersColumn;
use crate::pool::BufferPool;
use crate::records::WalkStop;
use crate::schema::ColumnSet;
use crate::write::{ByteWriter, LongWriter};

/// Keys of up to 32 and values of up to 128 bytes are copied in one copy of this fixed size, without a loop over the
/// length.
const KEY_BYTES: usize = 32;
const VALUE_BYTES: usize = 128;

/// Columns that receive records as rows.
pub(crate) trait Rows {
    /// Appends a record as this row. If it returns a reason to stop, nothing was appended.
    ///
    /// # Safety
    /// Rows are appended in order, from the first row on for which the columns were opened, and no more of them than
    /// the columns were opened for, unless the implementation checks the number itself. The record's fields lie within
    /// `payload`.
    unsafe fn append(
        &mut self,
        row: usize,
        record: &RawRecord<'_>,
        header: &BatchHeader,
        payload: &[u8],
    ) -> Result<(), WalkStop>;

    /// Passes over a record that gets no row.
    fn skip(&mut self) {}
}

/// The default columns, with room reserved for the whole payload: no checks per record.
pub(crate) struct DefaultRows<'b> {
    keys: ByteWriter<'b>,
    values: ByteWriter<'b>,
    offsets: LongWriter<'b>,
    timestamps: LongWriter<'b>,
}

impl<'b> DefaultRows<'b> {
    pub(crate) fn new(builder: &'b mut BatchBuilder, records: usize, payload_bytes: usize) -> Self {
        let row = builder.rows;
        builder.keys.reserve_data(payload_bytes);
        builder.values.reserve_data(payload_bytes);
        Self {
            keys: builder.keys.writer(row, records),
            values: builder.values.writer(row, records),
            offsets: builder.offsets.writer(row, records),
            timestamps: builder.timestamps.writer(row, records),
        }
    }

    /// Finishes the rows and returns the bytes of their keys and values.
    pub(crate) fn finish(self) -> usize {
        self.keys.finish() + self.values.finish()
    }
}

impl Rows for DefaultRows<'_> {
    #[inline(always)]
    unsafe fn append(
        &mut self,
        row: usize,
        record: &RawRecord<'_>,
        header: &BatchHeader,
        payload: &[u8],
    ) -> Result<(), WalkStop> {
        // SAFETY: room was reserved for as many bytes as the payload has and as many rows as it counts; the caller
        // appends no more of them, in order, with fields within `payload`.
        unsafe {
            push::<KEY_BYTES, true>(&mut self.keys, row, record.key, payload);
            push::<VALUE_BYTES, true>(&mut self.values, row, record.value, payload);
            self.offsets.push(row, header.base_offset + i64::from(record.offset_delta));
            self.timestamps.push(row, timestamp_us(record, header));
        }
        Ok(())
    }
}

/// Any set of columns, with the builder's limits checked for each record.
pub(crate) struct AnyRows<'b> {
    keys: Option<ByteWriter<'b>>,
    values: Option<ByteWriter<'b>>,
    offsets: Option<LongWriter<'b>>,
    timestamps: Option<LongWriter<'b>>,
    headers: Option<&'b mut HeadersColumn>,
    pool: &'b BufferPool,
    /// True if the batch holds anything, so that a record beyond its limit goes into the next one.
    holds_any: bool,
    end_row: usize,
    bytes: usize,
    bytes_left: usize,
    fixed_bytes: usize,
}

impl<'b> AnyRows<'b> {
    pub(crate) fn new(builder: &'b mut BatchBuilder, records: usize, fixed_bytes: usize) -> Self {
        Self::beside(builder, records, fixed_bytes, 0, |_| true)
    }

    /// Opens the binary (`plain`) columns that stand beside typed ones, in a batch whose room is reduced by `refused`
    /// rows.
    pub(crate) fn beside(
        builder: &'b mut BatchBuilder,
        records: usize,
        fixed_bytes: usize,
        refused: usize,
        plain: impl Fn(ColumnSet) -> bool,
    ) -> Self {
        let (row, rows_left) = (builder.rows, builder.rows_left().saturating_sub(refused));
        let bytes_left = builder.bytes_left();
        let columns = builder.columns;
        let reserved = rows_left.min(records);
        let has = |column| columns.contains(column) && plain(column);
        Self {
            keys: has(ColumnSet::KEY).then(|| builder.keys.writer(row, reserved)),
            values: has(ColumnSet::VALUE).then(|| builder.values.writer(row, reserved)),
            offsets: has(ColumnSet::OFFSET).then(|| builder.offsets.writer(row, reserved)),
            timestamps: has(ColumnSet::TIMESTAMP).then(|| builder.timestamps.writer(row, reserved)),
            headers: has(ColumnSet::HEADERS).then_some(&mut builder.headers),
            pool: &builder.pool,
            holds_any: row > 0 || refused > 0,
            end_row: row + reserved,
            bytes: 0,
            bytes_left,
            fixed_bytes,
        }
    }

    pub(crate) fn pool(&self) -> &BufferPool {
        self.pool
    }

    pub(crate) fn bytes_left(&self) -> usize {
        self.bytes_left.saturating_sub(self.bytes)
    }

    #[inline(always)]
    pub(crate) fn has_no_row_left(&self, row: usize) -> bool {
        row >= self.end_row
    }

    /// Finishes the rows and returns the bytes that they take in Arrow.
    pub(crate) fn finish(self) -> usize {
        for writer in [self.keys, self.values].into_iter().flatten() {
            writer.finish();
        }
        self.bytes
    }

    #[inline(always)]
    fn cost(&self, record: &RawRecord<'_>) -> usize {
        let length = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
        let keys = if self.keys.is_some() { length(record.key) } else { 0 };
        let values = if self.values.is_some() { length(record.value) } else { 0 };
        let headers = if self.headers.is_some() { HeadersColumn::cost(record.headers) } else { 0 };
        self.fixed_bytes + keys + values + headers
    }

    /// Same as [`Rows::append`], after typed columns have grown by this many bytes, this row included.
    ///
    /// # Safety
    /// Same as for [`Rows::append`].
    #[inline(always)]
    pub(crate) unsafe fn append_within(
        &mut self,
        row: usize,
        record: &RawRecord<'_>,
        header: &BatchHeader,
        payload: &[u8],
        typed_bytes: usize,
    ) -> Result<(), WalkStop> {
        let cost = self.cost(record);
        // A single record beyond the limit gets a batch of its own.
        let is_beyond = self.bytes + typed_bytes + cost > self.bytes_left;
        if self.has_no_row_left(row) || (is_beyond && (row > 0 || self.holds_any)) {
            return Err(WalkStop::Full);
        }
        if let Some(headers) = &mut self.headers {
            headers.append(row, record.headers)?;
        }
        self.bytes += cost;
        // SAFETY: the row is below `end_row`; the caller appends in order, and the fields lie within `payload`.
        unsafe {
            if let Some(keys) = &mut self.keys {
                push::<KEY_BYTES, false>(keys, row, record.key, payload);
            }
            if let Some(values) = &mut self.values {
                push::<VALUE_BYTES, false>(values, row, record.value, payload);
            }
            if let Some(offsets) = &mut self.offsets {
                offsets.push(row, header.base_offset + i64::from(record.offset_delta));
            }
            if let Some(timestamps) = &mut self.timestamps {
                timestamps.push(row, timestamp_us(record, header));
            }
        }
        Ok(())
    }
}

impl Rows for AnyRows<'_> {
    #[inline(always)]
    unsafe fn append(
        &mut self,
        row: usize,
        record: &RawRecord<'_>,
        header: &BatchHeader,
        payload: &[u8],
    ) -> Result<(), WalkStop> {
        // SAFETY: the caller keeps to `Rows::append`, which asks for the same.
        unsafe { self.append_within(row, record, header, payload, 0) }
    }
}

/// Appends a field of the payload, or a null.
///
/// # Safety
/// Same as for [`ByteWriter::push`]; the bytes lie within `payload`.
#[inline(always)]
unsafe fn push<const FIRST_BYTES: usize, const ROOMY: bool>(
    writer: &mut ByteWriter<'_>,
    row: usize,
    bytes: Option<&[u8]>,
    payload: &[u8],
) {
    // SAFETY: the caller keeps to `ByteWriter::push`, and `bytes` lie within `payload`.
    unsafe {
        match bytes {
            Some(bytes) => {
                // Derived from `payload`, not from `bytes`: a pointer may not read past the slice that it was taken
                // from.
                let at = bytes.as_ptr().addr() - payload.as_ptr().addr();
                writer.push::<FIRST_BYTES, ROOMY>(row, payload.get_unchecked(at..), bytes.len());
            }
            None => writer.push_null(row),
        }
    }
}

/// A record's timestamp in microseconds. A timestamp that does not fit saturates: Kafka accepts any number of
/// milliseconds, and one record written with nanoseconds by mistake must not make a topic unreadable.
/// A missing timestamp (-1) stays one millisecond before the epoch, as in Spark's own source.
#[inline(always)]
pub(crate) fn timestamp_us(record: &RawRecord<'_>, header: &BatchHeader) -> i64 {
    let millis = if header.has_append_time() {
        header.max_timestamp
    } else {
        header.base_timestamp.saturating_add(record.timestamp_delta)
    };
    millis.saturating_mul(1000)
}
