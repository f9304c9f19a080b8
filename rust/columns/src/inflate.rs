//! Decompression ahead of the walk, on other threads: fetched bytes are cut into segments, and each segment is
//! inflated.

use std::panic::resume_unwind;

use bytes::Bytes;
use monedula_protocol::compression::{Compression, CompressionError};
use monedula_protocol::records::{BATCH_HEADER_BYTES, BatchHeader, Batches, Tail};

use crate::crc32c::crc32c;
use crate::decoded::DecodedBatch;
use crate::error::WalkErrorKind;
use crate::memory::OutOfMemory;
use crate::pool::{BufferPool, PooledVec};
use crate::walker::{Scratch, WalkOptions};

/// A batch found in fetched bytes.
#[derive(Clone, Debug)]
pub(crate) struct LocatedBatch {
    pub(crate) header: BatchHeader,
    /// The whole batch as fetched. Empty once it is inflated, so that the fetched bytes can be freed.
    pub(crate) bytes: Bytes,
    /// The payload, if [`inflate`] has decompressed it, or a [`SegmentDecoder`](crate::SegmentDecoder) has verified it.
    pub(crate) inflated: Option<Bytes>,
    /// Typed keys and values that were decoded ahead.
    pub(crate) decoded: Option<DecodedBatch>,
}

impl LocatedBatch {
    /// Returns true if the payload was made ready ahead, which includes the CRC check if that is enabled.
    pub(crate) fn is_checked(&self) -> bool {
        self.inflated.is_some()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct BatchFault {
    /// The offset after the batch, if its header could be read.
    pub(crate) next_offset: Option<i64>,
    pub(crate) kind: WalkErrorKind,
}

impl BatchFault {
    pub(crate) fn in_batch(header: &BatchHeader, kind: WalkErrorKind) -> Self {
        Self { next_offset: Some(header.next_offset()), kind }
    }
}

/// The batch at `position`; `None` at the end of the data, where a partial batch may remain (KIP-74).
pub(crate) fn locate(data: &Bytes, position: usize) -> Result<Option<LocatedBatch>, BatchFault> {
    let mut batches = Batches::of_any_format(data, position);
    match batches.next() {
        Some(Ok(batch)) => {
            let bytes = data.slice(position..position + batch.header.total_bytes());
            Ok(Some(LocatedBatch { header: batch.header, bytes, inflated: None, decoded: None }))
        }
        Some(Err(error)) => Err(BatchFault { next_offset: None, kind: error.into() }),
        None => match batches.tail() {
            Some(Tail::Partial { first: true, batch_bytes }) => {
                let kind = WalkErrorKind::FetchTooSmall { fetched_bytes: data.len(), batch_bytes };
                Err(BatchFault { next_offset: None, kind })
            }
            _ => Ok(None),
        },
    }
}

/// Cuts a partition's fetched bytes at batch boundaries, without copying, into pieces of at most
/// `max_segment_bytes` or one batch.
///
/// A partial batch at the end is left out, unless there is no whole batch. Bytes that are not a batch stay in
/// the last piece: the walker reports them as an error.
pub fn segments(data: &Bytes, max_segment_bytes: usize) -> Vec<Bytes> {
    let mut segments = Vec::new();
    let mut batches = Batches::of_any_format(data, 0);
    let (mut start, mut end) = (0, 0);
    while let Some(Ok(batch)) = batches.next() {
        if end > start && batches.position() - start > max_segment_bytes {
            segments.push(data.slice(start..end));
            start = batch.position;
        }
        end = batches.position();
    }
    if matches!(batches.tail(), Some(Tail::Malformed | Tail::Partial { first: true, .. })) {
        end = data.len();
    }
    if end > start {
        segments.push(data.slice(start..end));
    }
    segments
}

/// A segment whose compressed batches are decompressed, up to the first for which no memory was granted.
#[derive(Debug)]
pub struct Inflated {
    batches: std::vec::IntoIter<Result<LocatedBatch, BatchFault>>,
    bytes: usize,
    rest: Bytes,
}

impl Inflated {
    /// Memory held, in bytes: the buffers of the decompressed batches, the batches that were not compressed, and what was
    /// decoded of both.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// End of the segment, left as fetched because no memory was granted for it.
    pub fn rest(&self) -> &Bytes {
        &self.rest
    }

    pub(crate) fn batches_mut(&mut self) -> &mut [Result<LocatedBatch, BatchFault>] {
        self.batches.as_mut_slice()
    }

    pub(crate) fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn take_rest(&mut self) -> Bytes {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn peek(&self) -> Result<Option<LocatedBatch>, BatchFault> {
        self.batches.as_slice().first().cloned().transpose()
    }

    pub(crate) fn pass(&mut self) {
        self.batches.next();
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        let pending = |batch: &LocatedBatch| batch.inflated.as_ref().unwrap_or(&batch.bytes).len();
        self.batches.as_slice().iter().flatten().map(pending).sum()
    }
}

/// Verifies and decompresses the compressed batches of a segment into buffers of the pool.
///
/// `grant` receives the number of bytes that the result would hold in all, and returns how many of them it may hold. If
/// they are too few for the next batch, this batch and all after it stay as fetched, and the walk decompresses them one
/// by one.
///
/// Batches that are not compressed stay as they are: the walk verifies them, since it loads them into the CPU cache
/// anyway. So do messages of formats 0 and 1, which the walk rewrites. An error in a batch is stored, and the walker returns it when it reaches that batch.
pub fn inflate(
    segment: &Bytes,
    options: &WalkOptions,
    pool: &BufferPool,
    scratch: &mut Scratch,
    grant: &mut dyn FnMut(usize) -> usize,
) -> Inflated {
    let mut output = Output { pool, options, scratch, grant, batches: Vec::new(), open: None, bytes: 0, written: 0 };
    let mut position = 0;
    let rest = loop {
        let batch = match locate(segment, position) {
            Ok(Some(batch)) => batch,
            Ok(None) => break Bytes::new(),
            Err(batch_fault) => {
                output.batches.push(Err(batch_fault));
                break Bytes::new();
            }
        };
        let (header, batch_bytes) = (batch.header, batch.header.total_bytes());
        if header.compression() == Compression::None || header.is_legacy() {
            output.bytes += batch_bytes;
            output.batches.push(Ok(batch));
            position += batch_bytes;
            continue;
        }
        match output.inflate(batch, segment.len() - position) {
            Ok(true) => position += batch_bytes,
            Ok(false) => break segment.slice(position..),
            Err(kind) => {
                // The walk cannot get past this error, so the batches behind it are not needed.
                output.batches.push(Err(BatchFault::in_batch(&header, kind)));
                break Bytes::new();
            }
        }
    };
    output.close();
    let Output { batches, bytes, written, scratch, .. } = output;
    if written > 0 {
        scratch.segment_ratio = written / position.max(1) + 1;
    }
    Inflated { batches: batches.into_iter(), bytes, rest }
}

/// Buffers that receive the decompressed batches. No buffer is grown, since that would copy the batches already in it:
/// a batch that does not fit into the open buffer gets a new one.
struct Output<'i> {
    pool: &'i BufferPool,
    options: &'i WalkOptions,
    scratch: &'i mut Scratch,
    grant: &'i mut dyn FnMut(usize) -> usize,
    batches: Vec<Result<LocatedBatch, BatchFault>>,
    open: Option<OpenBuffer>,
    /// Memory held in bytes, the open buffer not included.
    bytes: usize,
    /// Decompressed bytes so far, in all buffers.
    written: usize,
}

struct OpenBuffer {
    buffer: PooledVec,
    filled: usize,
    /// Buffer index of each batch, and the range of its payload in that buffer.
    places: Vec<(usize, std::ops::Range<usize>)>,
}

impl Output<'_> {
    /// Decompresses the batch. `rest_bytes` is the length of the segment from this batch on. Returns false if no memory
    /// is granted for the batch.
    fn inflate(&mut self, batch: LocatedBatch, rest_bytes: usize) -> Result<bool, WalkErrorKind> {
        if self.options.check_crcs {
            batch.header.verify_crc_by(&batch.bytes, crc32c)?;
        }
        if let Some(mut open) = self.open.take() {
            let room = open.buffer.capacity() - open.filled;
            // Skip a batch that is unlikely to fit: it would be decompressed twice.
            let fits = self.guess(batch.bytes.len()) <= room;
            let written = if fits { self.decompress(&batch, &mut open.buffer, open.filled, room) } else { Ok(None) };
            // Keep the buffer before the error returns: the payloads of sound batches are in it.
            self.open = Some(open);
            if let Some(written) = written? {
                self.put(batch, written);
                return Ok(true);
            }
            self.close();
        }
        let most = self.options.max_decompressed_bytes;
        let mut wanted = self.guess(rest_bytes).min(most);
        loop {
            let granted = (self.grant)(self.bytes + wanted).saturating_sub(self.bytes).min(wanted);
            if granted < batch.bytes.len().min(most) {
                return Ok(false);
            }
            let mut buffer = self.pool.take(granted);
            match self.decompress(&batch, &mut buffer, 0, granted)? {
                Some(written) => {
                    self.open = Some(OpenBuffer { buffer, filled: 0, places: Vec::new() });
                    self.put(batch, written);
                    return Ok(true);
                }
                // Less was granted than wanted, so a second attempt would get no more.
                None if granted < wanted => return Ok(false),
                None => wanted = granted.saturating_mul(2).min(most),
            }
        }
    }

    /// The likely uncompressed size of this many compressed bytes.
    fn guess(&self, compressed_bytes: usize) -> usize {
        compressed_bytes.saturating_mul(self.scratch.segment_ratio.max(2))
    }

    /// Decompresses a batch into `output` from byte `start` on; `None` if the payload is larger than `room`.
    fn decompress(
        &mut self,
        batch: &LocatedBatch,
        output: &mut PooledVec,
        start: usize,
        room: usize,
    ) -> Result<Option<usize>, WalkErrorKind> {
        let input = &batch.bytes[BATCH_HEADER_BYTES..];
        let limit = self.options.max_decompressed_bytes.min(room);
        match self.scratch.decompressor.decompress(batch.header.compression(), input, output, start, limit) {
            Ok(written) => Ok(Some(written)),
            Err(CompressionError::OutputLimit { .. }) if room < self.options.max_decompressed_bytes => Ok(None),
            Err(CompressionError::NoMemory { .. }) => resume_unwind(Box::new(OutOfMemory { bytes: input.len() })),
            Err(error) => Err(error.into()),
        }
    }

    /// Records that a batch of `written` bytes was appended to the open buffer.
    fn put(&mut self, batch: LocatedBatch, written: usize) {
        let Some(open) = &mut self.open else { return };
        open.places.push((self.batches.len(), open.filled..open.filled + written));
        open.filled += written;
        self.written += written;
        let ratio = written / batch.bytes.len().max(1) + 1;
        self.scratch.segment_ratio = self.scratch.segment_ratio.max(ratio);
        self.batches.push(Ok(LocatedBatch { bytes: Bytes::new(), ..batch }));
    }

    fn close(&mut self) {
        let Some(OpenBuffer { mut buffer, filled, places }) = self.open.take() else { return };
        buffer.set_len(filled);
        if buffer.capacity() > filled * 2 {
            // Too large a guess: do not hold the unused part until the walk.
            let mut fitting = self.pool.take(filled);
            fitting.extend_from_slice(&buffer);
            buffer = fitting;
        }
        self.bytes += buffer.capacity();
        let payloads = buffer.into_bytes();
        for (index, range) in places {
            if let Some(Ok(batch)) = self.batches.get_mut(index) {
                batch.inflated = Some(payloads.slice(range));
            }
        }
    }
}
