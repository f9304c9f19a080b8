//! Decoding of a segment's typed keys and values ahead of the walk, on another thread.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::records::{BATCH_HEADER_BYTES, BatchHeader, RawRecord};

use crate::crc32c::crc32c;
use crate::decoded::{DecodedBatch, DecodedRecord, DecodedSegment};
use crate::filter::RecordFilter;
use crate::inflate::{Inflated, LocatedBatch};
use crate::lookup::Lookup;
use crate::pool::BufferPool;
use crate::records::{BatchSource, Cursor, WalkStop, walk_rows};
use crate::rows::Rows;
use crate::typed::{BatchColumns, TypedColumns};
use crate::walker::WalkOptions;

/// Share of the granted memory that rows may take, in Arrow's layout: up to a third of a finished buffer may be empty.
const GRANTED_SHARE: (usize, usize) = (2, 3);

/// Size at which a segment's rows are enough, in bytes: far below what Arrow's 32-bit offsets can address.
const MAX_BYTES: usize = 256 << 20;

/// Decodes typed keys and values of segments into columns of its own, which the walk copies to those of a batch.
///
/// It decides nothing: a record that it cannot decode, for whatever reason, is decoded again by the walk, which has the
/// same error there. So batches have the same rows with and without it.
pub struct SegmentDecoder {
    typed: TypedColumns,
    filter: Option<Arc<RecordFilter>>,
    /// Bytes of rows for each 16 bytes of payload in the last segment: the guess for the next one.
    bytes_per_16: usize,
}

impl SegmentDecoder {
    /// A decoder with memory of this pool; `None` if no column is typed.
    pub fn new(columns: &BatchColumns, pool: &BufferPool) -> Option<Self> {
        let typed = TypedColumns::new(columns, pool)?;
        Some(Self { typed, filter: columns.filter.clone(), bytes_per_16: 16 })
    }

    /// Decodes the keys and values of the segment's batches, in their order, as far as memory is granted: `grant`
    /// receives the number of bytes that the result would hold in all, and returns how many of them it may hold.
    ///
    /// Batches that are not compressed are verified here, as [`inflate`](crate::inflate()) verifies the others. Messages
    /// of formats 0 and 1 are left to the walk.
    pub fn decode(
        &mut self,
        inflated: &mut Inflated,
        (topic, partition): (&Arc<str>, i32),
        options: &WalkOptions,
        grant: &mut dyn FnMut(usize) -> usize,
    ) {
        let held = inflated.bytes();
        let (mut records, mut places, mut payload_bytes) = (Vec::new(), Vec::new(), 0);
        for (index, batch) in inflated.batches_mut().iter_mut().enumerate() {
            let Ok(batch) = batch else { break };
            let header = batch.header;
            if header.is_control() || header.is_legacy() || header.record_count == 0 {
                continue;
            }
            let Some(payload) = payload_of(batch, options) else { break };
            let first = records.len();
            let decoded_bytes = self.bytes(&records);
            let wanted =
                decoded_bytes + payload.len() / 16 * self.bytes_per_16 + header.record_count.max(0) as usize * 8;
            let (part, whole) = GRANTED_SHARE;
            let granted = grant(held + wanted / part * whole).saturating_sub(held) / whole * part;
            let source = BatchSource { topic, partition, header: &header, end_offset: i64::MAX, decoded: None };
            let mut rows = DecodedRows {
                max_bytes: granted.min(MAX_BYTES),
                source,
                rows: self.typed.rows(),
                bytes: self.typed.bytes(),
                decoder: self,
                records: &mut records,
            };
            let stop = walk_rows(source, &payload, &mut Cursor::start(), &mut rows);
            payload_bytes += payload.len();
            places.push((index, first..records.len()));
            if !matches!(stop, WalkStop::Done) {
                break;
            }
        }
        self.finish(inflated, records, places, payload_bytes);
    }

    /// Bytes of the rows so far, and of what is known of each record.
    fn bytes(&self, records: &[DecodedRecord]) -> usize {
        self.typed.bytes() + size_of_val(records)
    }

    fn finish(
        &mut self,
        inflated: &mut Inflated,
        records: Vec<DecodedRecord>,
        places: Vec<(usize, Range<usize>)>,
        payload_bytes: usize,
    ) {
        if records.is_empty() {
            return;
        }
        if let Some(payload_sixteenths) = std::num::NonZeroUsize::new(payload_bytes / 16) {
            self.bytes_per_16 = self.typed.bytes() / payload_sixteenths + 1;
        }
        let record_bytes = records.capacity() * size_of::<DecodedRecord>();
        let (key, value, memory_bytes) = self.typed.finish_arrays();
        let segment = Arc::new(DecodedSegment { key, value, records });
        for (index, records) in places {
            if let Some(Ok(batch)) = inflated.batches_mut().get_mut(index) {
                batch.decoded = Some(DecodedBatch { segment: Arc::clone(&segment), records });
            }
        }
        inflated.add_bytes(memory_bytes + record_bytes);
    }
}

/// Payload of a batch, verified; `None` if the batch is damaged, which the walk finds out by itself.
fn payload_of(batch: &mut LocatedBatch, options: &WalkOptions) -> Option<Bytes> {
    if batch.inflated.is_none() {
        if options.check_crcs {
            batch.header.verify_crc_by(&batch.bytes, crc32c).ok()?;
        }
        batch.inflated = Some(std::mem::take(&mut batch.bytes).slice(BATCH_HEADER_BYTES..));
    }
    batch.inflated.clone()
}

/// Records of one batch, as rows of the decoder's columns.
struct DecodedRows<'d> {
    decoder: &'d mut SegmentDecoder,
    source: BatchSource<'d>,
    records: &'d mut Vec<DecodedRecord>,
    rows: usize,
    /// Bytes of the rows so far.
    bytes: usize,
    max_bytes: usize,
}

impl DecodedRows<'_> {
    /// Decodes a record, unless it has no row for the user.
    #[inline(always)]
    fn decode(&mut self, record: &RawRecord<'_>, header: &BatchHeader) -> Result<DecodedRecord, WalkStop> {
        let SegmentDecoder { typed, filter, .. } = &mut *self.decoder;
        if let Some(filter) = filter
            && !filter.holds(self.source, record, header)?
        {
            return Ok(DecodedRecord::NONE);
        }
        match typed.append(record) {
            Ok(is_whole) => {
                let bytes = typed.bytes();
                if let Some(decoded) = DecodedRecord::new(self.rows, bytes - self.bytes, is_whole) {
                    (self.rows, self.bytes) = (self.rows + 1, bytes);
                    return Ok(decoded);
                }
            }
            // Nothing behind it can be decoded either, until the walk has what it waits for.
            Err((_, _, Lookup::Pending(_) | Lookup::Unavailable(_))) => {
                typed.truncate(self.rows);
                return Err(WalkStop::Full);
            }
            Err((_, _, Lookup::Ready(_))) => {}
        }
        typed.truncate(self.rows);
        Ok(DecodedRecord::NONE)
    }
}

impl Rows for DecodedRows<'_> {
    #[inline(always)]
    unsafe fn append(
        &mut self,
        _: usize,
        record: &RawRecord<'_>,
        header: &BatchHeader,
        _: &[u8],
    ) -> Result<(), WalkStop> {
        if self.bytes + size_of_val(self.records.as_slice()) >= self.max_bytes {
            return Err(WalkStop::Full);
        }
        let decoded = self.decode(record, header)?;
        self.records.push(decoded);
        Ok(())
    }
}
