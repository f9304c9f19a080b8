//! The hot loop of the consumer: appends the records of one payload to the columns.

use std::sync::Arc;

use monedula_protocol::records::{BatchHeader, RawRecord, RecordFault, RecordsError};

use crate::awaited::Awaited;
use crate::batch::OffsetSpan;
use crate::builder::BatchBuilder;
use crate::decoded::DecodedBatch;
use crate::filtered_rows::FilteredRows;
use crate::parse::parse_fast;
use crate::rows::{AnyRows, DefaultRows, Rows};
use crate::schema::ColumnSet;
use crate::typed::BadValue;
use crate::typed_rows::TypedRows;

/// Position of the walk in one batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    /// Start of the next record in the payload.
    pub(crate) position: usize,
    pub(crate) index: u32,
    previous_delta: i32,
}

impl Cursor {
    pub(crate) fn start() -> Self {
        Self { position: 0, index: 0, previous_delta: -1 }
    }

    /// The offset after the last record that was read.
    pub(crate) fn next_offset(&self, header: &BatchHeader) -> i64 {
        header.base_offset + i64::from(self.previous_delta) + 1
    }

    /// A fault of the record that the cursor is at, as an error.
    pub(crate) fn error(&self, header: &BatchHeader, fault: RecordFault) -> RecordsError {
        RecordsError::Record { base_offset: header.base_offset, index: self.index, position: self.position, fault }
    }
}

pub(crate) enum WalkStop {
    /// Batch walked to its last record.
    Done,
    /// Next record at or past the end of a bounded walk.
    End,
    Full,
    /// Record that cannot be read.
    Fault(RecordFault),
    /// Record whose headers exceed the 32-bit offsets of the headers column.
    HeadersTooLarge,
    /// Record without a row; the walk goes on after it.
    Passed,
    BadValue(Box<BadRecord>),
    Pending(Arc<Awaited>),
    Unavailable(Box<UnavailableLookup>),
}

/// A record whose lookup brought nothing, and why.
pub(crate) struct UnavailableLookup {
    pub(crate) offset: i64,
    pub(crate) column: &'static str,
    pub(crate) reason: String,
}

/// A record whose key or value cannot be decoded.
pub(crate) struct BadRecord {
    pub(crate) offset: i64,
    pub(crate) column: &'static str,
    pub(crate) bad: BadValue,
}

impl From<RecordFault> for WalkStop {
    fn from(fault: RecordFault) -> Self {
        Self::Fault(fault)
    }
}

/// The partition and batch whose records are appended.
#[derive(Clone, Copy)]
pub(crate) struct BatchSource<'a> {
    pub(crate) topic: &'a Arc<str>,
    pub(crate) partition: i32,
    pub(crate) header: &'a BatchHeader,
    /// First offset past the walk.
    pub(crate) end_offset: i64,
    /// Typed keys and values of the batch that were decoded ahead.
    pub(crate) decoded: Option<&'a DecodedBatch>,
}

impl BatchSource<'_> {
    /// The span of rows of this batch.
    pub(crate) fn span(&self, rows: usize, first_offset: i64, next_offset: i64) -> OffsetSpan {
        OffsetSpan {
            topic: Arc::clone(self.topic),
            partition: self.partition,
            rows,
            first_offset,
            next_offset,
            leader_epoch: self.header.partition_leader_epoch,
        }
    }
}

/// Skips the records below `from_offset`: a Fetch response starts with the batch that contains the fetch offset.
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
        *cursor = Cursor { position: next_position, index: cursor.index + 1, previous_delta: record.offset_delta };
    }
    Ok(())
}

#[inline(always)]
fn check_delta(header: &BatchHeader, previous: i32, delta: i32) -> Result<(), RecordFault> {
    if delta > previous && delta <= header.last_offset_delta { Ok(()) } else { Err(RecordFault::OffsetDelta) }
}

/// Appends records until the batch ends or the builder is full. Rows before a fault stay.
pub(crate) fn append(
    source: BatchSource<'_>,
    payload: &[u8],
    cursor: &mut Cursor,
    builder: &mut BatchBuilder,
) -> WalkStop {
    if builder.typed.is_some() {
        return append_typed(source, payload, cursor, builder);
    }
    if builder.filter.is_some() {
        return append_filtered(source, payload, cursor, builder);
    }
    let header = source.header;
    let before = *cursor;
    let first_row = builder.rows;
    let payload_left = payload.len() - cursor.position;
    let records_left = (header.record_count as usize).saturating_sub(cursor.index as usize);
    let fixed_bytes = builder.fixed_row_bytes(source.topic);
    // Skip the limit check of each record if the whole batch fits, however its bytes are divided among records.
    let all_fits = records_left <= builder.rows_left()
        && payload_left.saturating_add(records_left.saturating_mul(fixed_bytes)) <= builder.bytes_left();
    let walk = Walk { header, payload, first_row, end_offset: source.end_offset };
    let (stop, bytes) = if all_fits && payload_left <= MAX_ROOMY_BYTES && builder.columns == ColumnSet::default() {
        let mut rows = DefaultRows::new(builder, records_left, payload_left);
        let stop = walk.run(cursor, &mut rows);
        let rows_added = (cursor.index - before.index) as usize;
        (stop, rows.finish() + rows_added * fixed_bytes)
    } else {
        let mut rows = AnyRows::new(builder, records_left, fixed_bytes);
        let stop = walk.run(cursor, &mut rows);
        (stop, rows.finish())
    };
    let rows = (cursor.index - before.index) as usize;
    if rows > 0 {
        let span = source.span(rows, first_offset(header, payload, &before), cursor.next_offset(header));
        builder.commit(span, bytes, header.timestamp_type().id());
    }
    builder.refused |= matches!(stop, WalkStop::Full);
    stop
}

/// Variant of [`append`] for typed columns, where a record may get no row.
fn append_typed(source: BatchSource<'_>, payload: &[u8], cursor: &mut Cursor, builder: &mut BatchBuilder) -> WalkStop {
    let header = source.header;
    let records_left = (header.record_count as usize).saturating_sub(cursor.index as usize);
    let fixed_bytes = builder.fixed_row_bytes(source.topic);
    let Some(mut typed) = builder.typed.take() else { return WalkStop::Done };
    let walk = Walk { header, payload, first_row: builder.rows, end_offset: source.end_offset };
    let (filter, filtered_left) = (builder.filter.clone(), builder.filtered_left());
    let mut rows = TypedRows::new(builder, &mut typed, source, (cursor.index, records_left), fixed_bytes);
    let (stop, filtered) = match &filter {
        None => (walk.run(cursor, &mut rows), 0),
        Some(filter) => {
            let mut rows = FilteredRows::new(filter, source, &mut rows, filtered_left);
            (walk.run(cursor, &mut rows), rows.filtered)
        }
    };
    let appended = rows.finish();
    builder.typed = Some(typed);
    builder.filtered += filtered;
    builder.bytes += appended.refused_bytes;
    if let Some(first_offset) = appended.first_offset {
        let span = source.span(appended.rows, first_offset, cursor.next_offset(header));
        builder.commit(span, appended.bytes, header.timestamp_type().id());
    }
    builder.refused |= matches!(stop, WalkStop::Full);
    stop
}

/// Variant of [`append`] for records of which only some get a row.
fn append_filtered(
    source: BatchSource<'_>,
    payload: &[u8],
    cursor: &mut Cursor,
    builder: &mut BatchBuilder,
) -> WalkStop {
    let header = source.header;
    let records_left = (header.record_count as usize).saturating_sub(cursor.index as usize);
    let fixed_bytes = builder.fixed_row_bytes(source.topic);
    let Some(filter) = builder.filter.clone() else { return WalkStop::Done };
    let walk = Walk { header, payload, first_row: builder.rows, end_offset: source.end_offset };
    let filtered_left = builder.filtered_left();
    let mut beside = AnyRows::new(builder, records_left, fixed_bytes);
    let mut rows = FilteredRows::new(&filter, source, &mut beside, filtered_left);
    let stop = walk.run(cursor, &mut rows);
    let FilteredRows { filtered, rows, first_offset, .. } = rows;
    let bytes = beside.finish();
    builder.filtered += filtered;
    if let Some(first_offset) = first_offset {
        let span = source.span(rows, first_offset, cursor.next_offset(header));
        builder.commit(span, bytes, header.timestamp_type().id());
    }
    builder.refused |= matches!(stop, WalkStop::Full);
    stop
}

/// Walks the records of a batch from the cursor on, for another purpose than a builder's rows.
pub(crate) fn walk_rows(
    source: BatchSource<'_>,
    payload: &[u8],
    cursor: &mut Cursor,
    rows: &mut impl Rows,
) -> WalkStop {
    let BatchSource { header, end_offset, .. } = source;
    Walk { header, payload, first_row: 0, end_offset }.run(cursor, rows)
}

/// Largest payload for which the key and the value buffer each reserve room for all of it. Beyond this, the wasted
/// memory would cost more than a branch per field.
const MAX_ROOMY_BYTES: usize = 1 << 20;

struct Walk<'a> {
    header: &'a BatchHeader,
    payload: &'a [u8],
    first_row: usize,
    /// First offset past the walk.
    end_offset: i64,
}

impl Walk<'_> {
    fn run(&self, cursor: &mut Cursor, rows: &mut impl Rows) -> WalkStop {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor's features were checked.
            return unsafe { self.run_avx2(cursor, rows) };
        }
        self.run_here(cursor, rows)
    }

    /// Compiles the same loop for processors with wider copies.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn run_avx2(&self, cursor: &mut Cursor, rows: &mut impl Rows) -> WalkStop {
        self.run_here(cursor, rows)
    }

    #[inline(always)]
    fn run_here(&self, cursor: &mut Cursor, rows: &mut impl Rows) -> WalkStop {
        let Self { header, payload, first_row, end_offset } = *self;
        let record_count = header.record_count as u32;
        let last_wanted = end_offset.saturating_sub(header.base_offset).saturating_sub(1);
        let last_wanted = last_wanted.clamp(-1, header.last_offset_delta.into()) as i32;
        let before = cursor.index;
        let Cursor { mut position, mut index, mut previous_delta } = *cursor;
        let mut passed = 0;
        let stop = loop {
            if index == record_count {
                let clean = position == payload.len();
                break if clean { WalkStop::Done } else { WalkStop::Fault(RecordFault::TooManyRecords) };
            }
            let (record, next_position) = match parse_fast(payload, position) {
                Some(parsed) => parsed,
                None => match parse_slow(payload, position) {
                    Ok(parsed) => parsed,
                    Err(fault) => break WalkStop::Fault(fault),
                },
            };
            if record.offset_delta <= previous_delta || record.offset_delta > last_wanted {
                let sound = record.offset_delta > previous_delta && record.offset_delta <= header.last_offset_delta;
                break if sound { WalkStop::End } else { WalkStop::Fault(RecordFault::OffsetDelta) };
            }
            let row = first_row + (index - before) as usize - passed;
            // SAFETY: rows are appended one after the other, from the builder's next one on, no more
            // than the header still counts; the record's fields lie within the payload.
            match unsafe { rows.append(row, &record, header, payload) } {
                Ok(()) => {}
                Err(WalkStop::Passed) => passed += 1,
                Err(stop) => break stop,
            }
            index += 1;
            previous_delta = record.offset_delta;
            position = next_position;
        };
        *cursor = Cursor { position, index, previous_delta };
        stop
    }
}

pub(crate) fn offset_of(header: &BatchHeader, record: &RawRecord<'_>) -> i64 {
    header.base_offset + i64::from(record.offset_delta)
}

/// The offset of the record at `cursor`, which has already been read without a fault.
fn first_offset(header: &BatchHeader, payload: &[u8], cursor: &Cursor) -> i64 {
    let delta = RawRecord::parse(payload, cursor.position).map_or(0, |(record, _)| record.offset_delta);
    header.base_offset + i64::from(delta)
}

#[cold]
#[inline(never)]
fn parse_slow(payload: &[u8], position: usize) -> Result<(RawRecord<'_>, usize), RecordFault> {
    if position == payload.len() {
        return Err(RecordFault::TooFewRecords);
    }
    RawRecord::parse(payload, position)
}
