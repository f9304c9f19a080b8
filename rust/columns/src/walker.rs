//! Walk over one partition's fetched bytes: it finds batches, checks their CRCs, decompresses them, hides control
//! batches and aborted transactions, and appends the records to a builder. It stops and resumes at any record.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::compression::{Compression, CompressionError, Decompressor, MAX_OUTPUT_BYTES, OutputBuffer};
use monedula_protocol::records::{
    BATCH_HEADER_BYTES, BatchHeader, ControlRecordType, RecordFault, Records, control_record,
};

use crate::aborted::{AbortMarkers, AbortedList, AbortedTransaction};
use crate::awaited::Awaited;
use crate::builder::BatchBuilder;
use crate::crc32c::crc32c;
use crate::decoded::DecodedBatch;
use crate::error::{WalkError, WalkErrorKind};
use crate::inflate::{BatchFault, Inflated, LocatedBatch, locate};
use crate::legacy;
use crate::memory::{OutOfMemory, refusable};
use crate::records::{BadRecord, BatchSource, Cursor, UnavailableLookup, WalkStop, append, skip_below};

/// Settings by which a walk checks, filters and decompresses batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkOptions {
    /// Verifies each batch's CRC-32C (`check.crcs`).
    pub check_crcs: bool,
    /// Hides records of aborted transactions (`isolation.level=read_committed`).
    pub read_committed: bool,
    /// Hard limit on the uncompressed size of one batch, in bytes.
    pub max_decompressed_bytes: usize,
}

impl Default for WalkOptions {
    /// CRCs verified, read_uncommitted, and [`MAX_OUTPUT_BYTES`].
    fn default() -> Self {
        Self { check_crcs: true, read_committed: false, max_decompressed_bytes: MAX_OUTPUT_BYTES }
    }
}

/// Output of a decompression. Unwinds with [`OutOfMemory`] if there is no memory for it.
pub(crate) struct RefusableBuffer(pub(crate) Vec<u8>);

impl OutputBuffer for RefusableBuffer {
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn grow(&mut self, min_len: usize) {
        let more = min_len.saturating_sub(self.0.len());
        if refusable(|| self.0.try_reserve_exact(more)).is_err() {
            resume_unwind(Box::new(OutOfMemory { bytes: min_len }));
        }
        self.0.resize(self.0.len() + more, 0);
    }
}

/// Decompression contexts and a buffer, reused by one decoding thread from batch to batch.
#[derive(Default)]
pub struct Scratch {
    pub(crate) decompressor: Decompressor,
    payload: Vec<u8>,
    /// Decompressed messages of format 0 or 1, before they are rewritten.
    set: Vec<u8>,
    /// Ratio of uncompressed to compressed size in the last inflated segment, rounded up: the guess for the next one.
    pub(crate) segment_ratio: usize,
}

impl Scratch {
    /// Largest buffer that is kept for the next batch, in bytes; a larger one, of a huge batch, is freed.
    const MAX_KEPT_BYTES: usize = 4 << 20;

    fn keep(&mut self, payload: Vec<u8>) {
        if payload.capacity() <= Self::MAX_KEPT_BYTES {
            self.payload = payload;
        }
    }

    pub(crate) fn take_payload(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.payload)
    }

    pub(crate) fn take_set(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.set)
    }

    pub(crate) fn keep_set(&mut self, set: Vec<u8>) {
        if set.capacity() <= Self::MAX_KEPT_BYTES {
            self.set = set;
        }
    }

    /// An empty scratch: contexts and buffer are allocated when first used.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Reason why a walk returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Walked {
    /// Builder full, by rows or by bytes. Unwalked bytes may remain.
    Full,
    /// All fed bytes walked, or the end of a bounded walk reached.
    Drained,
    /// Next record not decodable before this has arrived.
    Pending(Arc<Awaited>),
}

/// Walks the fetched bytes of one partition into a builder. The walk can be resumed at any record.
pub struct PartitionWalker {
    topic: Arc<str>,
    partition: i32,
    options: WalkOptions,
    position: i64,
    end_offset: i64,
    /// True if what lies behind the end is kept, for the next range.
    has_ranges: bool,
    leader_epoch: i32,
    epochs: Vec<(i64, i32)>,
    chunks: VecDeque<Chunk>,
    open: Option<OpenBatch>,
    markers: AbortMarkers,
}

/// A piece of a Fetch response for the partition, and the response's aborted transactions.
struct Chunk {
    source: ChunkSource,
    aborted: AbortedList,
}

enum ChunkSource {
    Raw { data: Bytes, position: usize },
    Inflated(Inflated),
}

impl ChunkSource {
    fn peek(&self) -> Result<Option<LocatedBatch>, BatchFault> {
        match self {
            Self::Raw { data, position } => locate(data, *position),
            Self::Inflated(inflated) => inflated.peek(),
        }
    }

    fn pass(&mut self, batch: &BatchHeader) {
        match self {
            Self::Raw { position, .. } => *position += batch.total_bytes(),
            Self::Inflated(inflated) => inflated.pass(),
        }
    }

    fn pending_bytes(&self) -> usize {
        match self {
            Self::Raw { data, position } => data.len() - position,
            Self::Inflated(inflated) => inflated.pending_bytes(),
        }
    }
}

struct OpenBatch {
    header: BatchHeader,
    payload: BatchPayload,
    cursor: Cursor,
    decoded: Option<DecodedBatch>,
    /// The batch as fetched, to decompress it again after [`PartitionWalker::shelve`]. Empty unless this walker
    /// decompressed the batch.
    compressed: Bytes,
}

enum BatchPayload {
    /// Part of the fetched bytes, or of a buffer of `inflate`; the payload starts at this byte.
    Shared(Bytes, usize),
    /// Decompressed by this walker, with the payload's length. The vector returns to the scratch at the end of the
    /// batch.
    Owned(Vec<u8>, usize),
    /// Freed; the next walk decompresses it again.
    Shelved,
}

impl BatchPayload {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Shared(bytes, start) => &bytes[*start..],
            Self::Owned(bytes, len) => &bytes[..*len],
            Self::Shelved => &[],
        }
    }
}

impl PartitionWalker {
    /// A walker that appends records from `start_offset` on.
    pub fn new(topic: Arc<str>, partition: i32, start_offset: i64, options: WalkOptions) -> Self {
        Self {
            topic,
            partition,
            options,
            position: start_offset,
            end_offset: i64::MAX,
            has_ranges: false,
            leader_epoch: -1,
            epochs: Vec::new(),
            chunks: VecDeque::new(),
            open: None,
            markers: AbortMarkers::default(),
        }
    }

    /// Adds the bytes of one Fetch response for this partition, and its aborted transactions in any
    /// order. A response may be fed in several pieces cut at batch boundaries; each piece must come with
    /// the response's whole list.
    pub fn feed(&mut self, data: Bytes, aborted: impl Into<Arc<[AbortedTransaction]>>) {
        if !data.is_empty() {
            self.push(ChunkSource::Raw { data, position: 0 }, aborted.into());
        }
    }

    /// Like [`feed`](Self::feed), for a piece of a response that [`inflate`](crate::inflate()) has decompressed.
    pub fn feed_inflated(&mut self, mut inflated: Inflated, aborted: impl Into<Arc<[AbortedTransaction]>>) {
        let (rest, aborted) = (inflated.take_rest(), aborted.into());
        self.push(ChunkSource::Inflated(inflated), Arc::clone(&aborted));
        self.feed(rest, aborted);
    }

    fn push(&mut self, source: ChunkSource, aborted: Arc<[AbortedTransaction]>) {
        let aborted = if self.options.read_committed { AbortedList::new(aborted) } else { AbortedList::default() };
        self.chunks.push_back(Chunk { source, aborted });
        self.markers.retain_named(self.chunks.iter().map(|chunk| &chunk.aborted));
    }

    /// Bounds the walk: no record at or past `end_offset` is appended. Once the walk has passed all records before it,
    /// the position is at least `end_offset`, even where compaction left a gap. `None` removes the bound.
    pub fn set_end(&mut self, end_offset: Option<i64>) {
        self.end_offset = end_offset.unwrap_or(i64::MAX);
    }

    /// The offset at which the walk continues: past all control batches, aborted records, compacted gaps and
    /// empty batches that it has skipped.
    pub fn position(&self) -> i64 {
        self.position
    }

    /// `partition_leader_epoch` of the last batch walked, -1 before the first.
    pub fn position_leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// Leader epochs that began in the batches walked since the last call, each with its first offset.
    pub fn take_epochs(&mut self) -> Vec<(i64, i32)> {
        std::mem::take(&mut self.epochs)
    }

    /// The topic.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// The partition.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// Bytes held that are not walked yet: uncompressed size where they are already decompressed, else fetched size.
    pub fn pending_bytes(&self) -> usize {
        let open = self.open.as_ref().map_or(0, |open| match open.payload {
            BatchPayload::Shelved => open.compressed.len(),
            _ => open.payload.bytes().len() - open.cursor.position,
        });
        open + self.chunks.iter().map(|chunk| chunk.source.pending_bytes()).sum::<usize>()
    }

    /// Returns true if the walker holds a batch that it decompressed itself and has not walked to its end. No memory
    /// budget counts that buffer.
    pub fn holds_payload(&self) -> bool {
        self.open.as_ref().is_some_and(|open| matches!(open.payload, BatchPayload::Owned(..)))
    }

    /// Frees the decompressed batch that [`Self::holds_payload`] reports. The next walk decompresses it again and
    /// continues at the same record.
    pub fn shelve(&mut self) {
        if let Some(open) = self.open.as_mut().filter(|open| matches!(open.payload, BatchPayload::Owned(..))) {
            open.payload = BatchPayload::Shelved;
        }
    }

    /// Drops all bytes that were fed and are not walked yet: after an error, or before a seek. The position does not
    /// change.
    pub fn discard_pending(&mut self) {
        self.chunks.clear();
        self.open = None;
    }

    /// Appends records to the builder until it is full or nothing is left.
    ///
    /// # Errors
    /// A batch or record that cannot be read. Rows appended before it stay in the builder, and the position is at that
    /// batch or record.
    pub fn walk(&mut self, into: &mut BatchBuilder, scratch: &mut Scratch) -> Result<Walked, WalkError> {
        let walked = self.walk_batches(into, scratch, false);
        into.advance(&self.topic, self.partition, self.position);
        walked
    }

    /// Like [`walk`](Self::walk), but only to the end of the batch that the walk is within, if any.
    pub fn walk_open(&mut self, into: &mut BatchBuilder, scratch: &mut Scratch) -> Result<Walked, WalkError> {
        let walked = if self.open.is_some() { self.walk_batches(into, scratch, true) } else { Ok(Walked::Drained) };
        into.advance(&self.topic, self.partition, self.position);
        walked
    }

    /// Like [`walk`](Self::walk), but appends only records of `range`, and keeps what lies behind it for later ranges.
    /// Ranges are walked in ascending order; one that the builder cut short is walked again from the position on.
    ///
    /// # Errors
    /// As [`walk`](Self::walk).
    pub fn walk_range(
        &mut self,
        range: RangeInclusive<i64>,
        into: &mut BatchBuilder,
        scratch: &mut Scratch,
    ) -> Result<Walked, WalkError> {
        self.has_ranges = true;
        self.position = self.position.max(*range.start());
        self.end_offset = range.end().saturating_add(1);
        if let Some(OpenBatch { header, payload, cursor, .. }) = &mut self.open
            && cursor.next_offset(header) < self.position
            && let Err(fault) = skip_below(header, payload.bytes(), cursor, self.position)
        {
            let batch_fault = BatchFault::in_batch(header, cursor.error(header, fault).into());
            return Err(self.error(batch_fault));
        }
        self.walk(into, scratch)
    }

    /// Goes on behind a batch or record that cannot be read, at this offset.
    pub fn pass(&mut self, next_offset: i64) {
        self.position = self.position.max(next_offset);
        self.open.take_if(|open| open.header.next_offset() <= next_offset);
    }

    fn walk_batches(
        &mut self,
        into: &mut BatchBuilder,
        scratch: &mut Scratch,
        only_open: bool,
    ) -> Result<Walked, WalkError> {
        while self.open.is_some()
            || (!only_open && self.open_next(scratch).map_err(|batch_fault| self.error(batch_fault))?)
        {
            if into.is_full() {
                return Ok(Walked::Full);
            }
            let Some(open) = &mut self.open else { break };
            if let BatchPayload::Shelved = open.payload {
                match unpack(&open.header, &open.compressed, &self.options, scratch) {
                    Ok((_, payload)) => open.payload = payload,
                    Err(kind) => {
                        let batch_fault = BatchFault::in_batch(&open.header, kind);
                        return Err(self.error(batch_fault));
                    }
                }
            }
            let source = BatchSource {
                topic: &self.topic,
                partition: self.partition,
                header: &open.header,
                end_offset: self.end_offset,
                decoded: open.decoded.as_ref(),
            };
            let stop = append(source, open.payload.bytes(), &mut open.cursor, into);
            self.position = self.position.max(open.cursor.next_offset(&open.header));
            let kind = match stop {
                WalkStop::Done => {
                    self.close(scratch);
                    continue;
                }
                WalkStop::End => {
                    self.reach_end();
                    return Ok(Walked::Drained);
                }
                WalkStop::Full => return Ok(Walked::Full),
                WalkStop::Fault(fault) => open.cursor.error(&open.header, fault).into(),
                WalkStop::HeadersTooLarge => WalkErrorKind::HeadersTooLarge,
                WalkStop::BadValue(record) => return Err(self.bad_value(*record)),
                WalkStop::Pending(awaited) => return Ok(Walked::Pending(awaited)),
                WalkStop::Unavailable(unavailable) => {
                    let UnavailableLookup { offset, column, reason } = *unavailable;
                    self.position = self.position.max(offset);
                    let kind = WalkErrorKind::Unavailable { column, reason };
                    return Err(self.error(BatchFault { next_offset: Some(offset + 1), kind }));
                }
                // Continue with the records behind this one.
                WalkStop::Passed => continue,
            };
            let batch_fault = BatchFault::in_batch(&open.header, kind);
            return Err(self.error(batch_fault));
        }
        Ok(Walked::Drained)
    }

    /// Ends a bounded walk: moves the position to at least its end, and drops the bytes behind it, unless further ranges
    /// may follow.
    fn reach_end(&mut self) {
        self.position = self.position.max(self.end_offset);
        if !self.has_ranges {
            self.discard_pending();
        }
    }

    fn close(&mut self, scratch: &mut Scratch) {
        if let Some(open) = self.open.take() {
            self.position = self.position.max(open.header.next_offset());
            if let BatchPayload::Owned(bytes, _) = open.payload {
                scratch.keep(bytes);
            }
        }
    }

    /// Opens the next batch that has records for the application, and skips batches that have none. Returns false if
    /// no batch is left. Does not move past a batch that fails.
    fn open_next(&mut self, scratch: &mut Scratch) -> Result<bool, BatchFault> {
        while let Some(chunk) = self.chunks.front_mut() {
            let Some(batch) = chunk.source.peek()? else {
                self.chunks.pop_front();
                continue;
            };
            let header = batch.header;
            // A legacy set begins before its offset.
            if header.base_offset >= self.end_offset && !header.is_legacy_set() {
                self.reach_end();
                return Ok(false);
            }
            let passed = header.last_offset() < self.position;
            let opened = open_batch(batch, chunk, &mut self.markers, self.position, &self.options, scratch)?;
            chunk.source.pass(&header);
            if passed {
                continue;
            }
            if self.leader_epoch != header.partition_leader_epoch {
                self.leader_epoch = header.partition_leader_epoch;
                let first_offset = opened.as_ref().map_or(header.base_offset, |open| open.header.base_offset);
                self.epochs.push((self.position.max(first_offset), self.leader_epoch));
            }
            if opened.is_some() {
                self.open = opened;
                return Ok(true);
            }
            self.position = header.next_offset();
        }
        Ok(false)
    }

    /// Moves to a record that cannot be decoded, past the offsets that compaction has removed before it.
    fn bad_value(&mut self, record: BadRecord) -> WalkError {
        let BadRecord { offset, column, bad } = record;
        self.position = self.position.max(offset);
        self.error(BatchFault {
            next_offset: Some(offset + 1),
            kind: WalkErrorKind::BadValue { column, bad: Box::new(bad) },
        })
    }

    fn error(&self, batch_fault: BatchFault) -> WalkError {
        WalkError {
            topic: Arc::clone(&self.topic),
            partition: self.partition,
            offset: self.position,
            next_offset: batch_fault.next_offset,
            kind: batch_fault.kind,
        }
    }
}

/// Opens a batch at `position`. `None` if it has no records for the application: a control batch, an aborted or empty
/// one, or one below the position.
fn open_batch(
    batch: LocatedBatch,
    chunk: &mut Chunk,
    markers: &mut AbortMarkers,
    position: i64,
    options: &WalkOptions,
    scratch: &mut Scratch,
) -> Result<Option<OpenBatch>, BatchFault> {
    let header = batch.header;
    let in_batch = |kind: WalkErrorKind| BatchFault::in_batch(&header, kind);
    // With read_committed, a batch below the position may also begin or end an aborted transaction that hides later
    // batches.
    let passed = header.last_offset() < position;
    if passed && (!options.read_committed || header.is_legacy()) {
        return Ok(None);
    }
    if options.check_crcs && !batch.is_checked() && !header.is_legacy() {
        header.verify_crc_by(&batch.bytes, crc32c).map_err(|error| in_batch(error.into()))?;
    }
    let hidden = chunk.aborted.hides(&header, markers);
    if header.is_control() {
        if options.read_committed {
            let (_, payload) = open_payload(&batch, options, scratch).map_err(in_batch)?;
            let control = control_record(Records::new(&header, payload.bytes()));
            if control.map_err(|error| in_batch(error.into()))? == Some(ControlRecordType::Abort) {
                chunk.aborted.end(&header, markers);
            }
        }
        return Ok(None);
    }
    if passed || hidden || header.record_count == 0 {
        return Ok(None);
    }
    let (header, payload) = open_payload(&batch, options, scratch).map_err(in_batch)?;
    let in_batch = |kind: WalkErrorKind| BatchFault::in_batch(&header, kind);
    let mut cursor = Cursor::start();
    if !header.count_fits(payload.bytes().len()) {
        return Err(in_batch(cursor.error(&header, RecordFault::TooFewRecords).into()));
    }
    if header.base_offset < position {
        skip_below(&header, payload.bytes(), &mut cursor, position)
            .map_err(|fault| in_batch(cursor.error(&header, fault).into()))?;
    }
    let decoded = batch.decoded;
    let compressed = if let BatchPayload::Owned(..) = payload { batch.bytes } else { Bytes::new() };
    Ok(Some(OpenBatch { header, payload, cursor, decoded, compressed }))
}

fn open_payload(
    batch: &LocatedBatch,
    options: &WalkOptions,
    scratch: &mut Scratch,
) -> Result<(BatchHeader, BatchPayload), WalkErrorKind> {
    let header = batch.header;
    if let Some(inflated) = &batch.inflated {
        return Ok((header, BatchPayload::Shared(inflated.clone(), 0)));
    }
    if header.compression() == Compression::None && !header.is_legacy() {
        return Ok((header, BatchPayload::Shared(batch.bytes.clone(), BATCH_HEADER_BYTES)));
    }
    unpack(&header, &batch.bytes, options, scratch)
}

/// Decompresses a batch, or makes one of legacy messages.
fn unpack(
    header: &BatchHeader,
    batch: &[u8],
    options: &WalkOptions,
    scratch: &mut Scratch,
) -> Result<(BatchHeader, BatchPayload), WalkErrorKind> {
    if header.is_legacy() {
        let (header, payload) = legacy::unpack(header, batch, options, scratch)?;
        let len = payload.len();
        return Ok((header, BatchPayload::Owned(payload, len)));
    }
    let mut output = RefusableBuffer(scratch.take_payload());
    let (input, limit) = (&batch[BATCH_HEADER_BYTES..], options.max_decompressed_bytes);
    let written = scratch.decompressor.decompress(header.compression(), input, &mut output, 0, limit);
    if let Err(CompressionError::NoMemory { .. }) = written {
        resume_unwind(Box::new(OutOfMemory { bytes: input.len() }));
    }
    Ok((*header, BatchPayload::Owned(output.0, written?)))
}

#[cfg(test)]
mod tests {
    use monedula_protocol::compression::Compressor;
    use monedula_protocol::records::{BatchEncoder, NewRecord};

    use super::*;
    use crate::{BufferPool, ColumnSet};

    #[test]
    #[cfg_attr(miri, ignore = "it compresses and decompresses nine megabytes")]
    fn what_a_huge_batch_was_decompressed_into_is_not_kept_for_the_next() {
        let mut scratch = Scratch::new();
        let mut builder = BatchBuilder::new(ColumnSet::default(), BufferPool::new(1 << 20), 10, 64 << 20);
        let mut walker = PartitionWalker::new("t".into(), 0, 0, WalkOptions::default());
        for (offset, value_bytes, is_kept) in [(0, 1 << 20, true), (1, 7 << 20, false), (2, 1 << 20, true)] {
            let mut encoder = BatchEncoder::new().base_offset(offset).compression(Compression::Lz4, None);
            encoder.append(NewRecord { value: Some(&vec![0; value_bytes]), ..NewRecord::default() });
            let mut batch = Vec::new();
            encoder.encode(&mut Compressor::new(), &mut batch).expect("encodes");
            walker.feed(Bytes::from(batch), vec![]);
            assert_eq!(walker.walk(&mut builder, &mut scratch), Ok(Walked::Drained));
            assert_eq!(scratch.payload.capacity() > 0, is_kept, "{value_bytes} bytes");
        }
    }
}
