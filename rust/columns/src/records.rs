//! The hot loop: the records of one payload into columns.

use std::sync::Arc;

use monedula_protocol::records::{
    BatchHeader, RawRecord, RecordFault, RecordsError, TimestampType,
};

use crate::batch::Span;
use crate::builder::BatchBuilder;
use crate::headers::{HeadersColumn, HeadersRefused};
use crate::schema::ColumnSet;
use crate::write::{ByteWriter, LongWriter};

/// How far the walk of one batch has got.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    /// Where the next record starts in the payload.
    pub(crate) position: usize,
    /// How many records were read.
    pub(crate) index: u32,
    previous_delta: i32,
}

impl Cursor {
    pub(crate) fn start() -> Self {
        Self {
            position: 0,
            index: 0,
            previous_delta: -1,
        }
    }

    /// The offset after the last record that was read.
    pub(crate) fn next_offset(&self, header: &BatchHeader) -> i64 {
        header.base_offset + i64::from(self.previous_delta) + 1
    }

    /// The error of the record that the cursor is at.
    pub(crate) fn error(&self, header: &BatchHeader, fault: RecordFault) -> RecordsError {
        RecordsError::Record {
            base_offset: header.base_offset,
            index: self.index,
            position: self.position,
            fault,
        }
    }
}

/// Why the walk of a batch stopped.
pub(crate) enum Stop {
    /// After its last record.
    Done,
    /// Before a record at or past the end of a bounded walk.
    End,
    /// The builder takes no more.
    Full,
    /// At a record that cannot be read.
    Fault(RecordFault),
    /// At a record whose headers no column can hold.
    HeadersTooLarge,
}

impl From<HeadersRefused> for Stop {
    fn from(refused: HeadersRefused) -> Self {
        match refused {
            HeadersRefused::Fault(fault) => Self::Fault(fault),
            HeadersRefused::TooLarge => Self::HeadersTooLarge,
        }
    }
}

/// The partition whose records are appended.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) topic: &'a Arc<str>,
    pub(crate) partition: i32,
    pub(crate) header: &'a BatchHeader,
    /// Records from here on are not wanted.
    pub(crate) end_offset: i64,
}

/// Passes over the records below `from_offset`: a fetch starts with the batch that holds its offset.
pub(crate) fn skip_below(
    header: &BatchHeader,
    payload: &[u8],
    cursor: &mut Cursor,
    from_offset: i64,
) -> Result<(), RecordFault> {
    while cursor.index < header.record_count as u32 {
        if cursor.position == payload.len() {
            return Err(RecordFault::TooFewRecords);
        }
        let (record, next_position) = RawRecord::parse(payload, cursor.position)?;
        if header.base_offset + i64::from(record.offset_delta) >= from_offset {
            break;
        }
        check_delta(header, cursor.previous_delta, record.offset_delta)?;
        *cursor = Cursor {
            position: next_position,
            index: cursor.index + 1,
            previous_delta: record.offset_delta,
        };
    }
    Ok(())
}

#[inline(always)]
fn check_delta(header: &BatchHeader, previous: i32, delta: i32) -> Result<(), RecordFault> {
    if delta > previous && delta <= header.last_offset_delta {
        Ok(())
    } else {
        Err(RecordFault::OffsetDelta)
    }
}

/// Appends records until the batch or the builder's room ends. Rows before a fault stay.
pub(crate) fn append(
    source: Source<'_>,
    payload: &[u8],
    cursor: &mut Cursor,
    builder: &mut BatchBuilder,
) -> Stop {
    let before = cursor.index;
    let columns = builder.columns;
    let fixed_bytes = builder.fixed_row_bytes(source.topic);
    let mut appender = Appender::new(builder, source.header, fixed_bytes, columns);
    appender.end_delta = source.end_offset.saturating_sub(source.header.base_offset);
    let stop = appender.run(payload, cursor);
    let (bytes, first_offset) = (appender.bytes, appender.first_offset);
    appender.finish();
    let rows = (cursor.index - before) as usize;
    if rows > 0 {
        let span = Span {
            topic: Arc::clone(source.topic),
            partition: source.partition,
            rows,
            first_offset,
            next_offset: cursor.next_offset(source.header),
            leader_epoch: source.header.partition_leader_epoch,
        };
        builder.commit(span, bytes, source.header.timestamp_type().id());
    }
    if matches!(stop, Stop::Full) {
        builder.refused = true;
    }
    stop
}

struct Appender<'b> {
    keys: Option<ByteWriter<'b>>,
    values: Option<ByteWriter<'b>>,
    offsets: Option<LongWriter<'b>>,
    timestamps: Option<LongWriter<'b>>,
    headers: Option<&'b mut HeadersColumn>,
    header: &'b BatchHeader,
    first_row: usize,
    rows_left: usize,
    bytes_left: usize,
    fixed_bytes: usize,
    bytes: usize,
    first_offset: i64,
    end_delta: i64,
}

impl<'b> Appender<'b> {
    fn new(
        builder: &'b mut BatchBuilder,
        header: &'b BatchHeader,
        fixed_bytes: usize,
        columns: ColumnSet,
    ) -> Self {
        let row = builder.rows;
        let rows_left = builder.rows_left();
        let bytes_left = builder.bytes_left();
        let reserved = rows_left.min(header.record_count as usize);
        let has = |column| columns.contains(column);
        Self {
            keys: has(ColumnSet::KEY)
                .then_some(&mut builder.keys)
                .map(|column| column.writer(row, reserved)),
            values: has(ColumnSet::VALUE)
                .then_some(&mut builder.values)
                .map(|column| column.writer(row, reserved)),
            offsets: has(ColumnSet::OFFSET)
                .then_some(&mut builder.offsets)
                .map(|column| column.writer(row, reserved)),
            timestamps: has(ColumnSet::TIMESTAMP)
                .then_some(&mut builder.timestamps)
                .map(|column| column.writer(row, reserved)),
            headers: has(ColumnSet::HEADERS).then_some(&mut builder.headers),
            header,
            first_row: row,
            rows_left,
            bytes_left,
            fixed_bytes,
            bytes: 0,
            first_offset: 0,
            end_delta: i64::MAX,
        }
    }

    fn run(&mut self, payload: &[u8], cursor: &mut Cursor) -> Stop {
        let mut row = self.first_row;
        let end_row = row + self.rows_left;
        let payload_end = payload.as_ptr_range().end as usize;
        let append_time = (self.header.timestamp_type() == TimestampType::LogAppendTime)
            .then_some(micros(self.header.max_timestamp));
        while cursor.index < self.header.record_count as u32 {
            if row == end_row {
                return Stop::Full;
            }
            if cursor.position == payload.len() {
                return Stop::Fault(RecordFault::TooFewRecords);
            }
            let (record, next_position) = match RawRecord::parse(payload, cursor.position) {
                Ok(parsed) => parsed,
                Err(fault) => return Stop::Fault(fault),
            };
            if let Err(fault) = check_delta(self.header, cursor.previous_delta, record.offset_delta)
            {
                return Stop::Fault(fault);
            }
            if i64::from(record.offset_delta) >= self.end_delta {
                return Stop::End;
            }
            let mut cost = self.fixed_bytes;
            if self.keys.is_some() {
                cost += record.key.map_or(0, <[u8]>::len);
            }
            if self.values.is_some() {
                cost += record.value.map_or(0, <[u8]>::len);
            }
            if self.headers.is_some() {
                cost += HeadersColumn::cost(record.headers);
            }
            // One record beyond the limit still gets a batch of its own.
            if self.bytes + cost > self.bytes_left && row > 0 {
                return Stop::Full;
            }
            if let Some(headers) = &mut self.headers
                && let Err(refused) = headers.append(row, record.headers)
            {
                return refused.into();
            }
            let offset = self.header.base_offset + i64::from(record.offset_delta);
            // SAFETY: the writers were made for every row below `end_row` that the header counts,
            // and the fields lie within the payload.
            unsafe {
                push(&mut self.keys, row, record.key, payload_end);
                push(&mut self.values, row, record.value, payload_end);
                if let Some(offsets) = &mut self.offsets {
                    offsets.push(row, offset);
                }
                if let Some(timestamps) = &mut self.timestamps {
                    let timestamp = append_time.unwrap_or_else(|| {
                        micros(
                            self.header
                                .base_timestamp
                                .saturating_add(record.timestamp_delta),
                        )
                    });
                    timestamps.push(row, timestamp);
                }
            }
            if row == self.first_row {
                self.first_offset = offset;
            }
            self.bytes += cost;
            row += 1;
            *cursor = Cursor {
                position: next_position,
                index: cursor.index + 1,
                previous_delta: record.offset_delta,
            };
        }
        if cursor.position == payload.len() {
            Stop::Done
        } else {
            Stop::Fault(RecordFault::TooManyRecords)
        }
    }

    fn finish(self) {
        for writer in [self.keys, self.values].into_iter().flatten() {
            writer.finish();
        }
    }
}

/// # Safety
/// As [`ByteWriter::push`]; the bytes lie before `payload_end` in one allocation.
#[inline(always)]
unsafe fn push(
    writer: &mut Option<ByteWriter<'_>>,
    row: usize,
    bytes: Option<&[u8]>,
    payload_end: usize,
) {
    let Some(writer) = writer else { return };
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            Some(bytes) => writer.push(row, bytes, payload_end - bytes.as_ptr() as usize),
            None => writer.push_null(row),
        }
    }
}

/// Milliseconds to microseconds. Kafka accepts any number of milliseconds, and one record written
/// with nanoseconds by mistake must not make a topic unreadable: what does not fit saturates.
#[inline(always)]
fn micros(millis: i64) -> i64 {
    millis.saturating_mul(1000)
}
