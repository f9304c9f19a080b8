//! Decompression ahead of the walk, on whatever thread has time.

use bytes::Bytes;
use monedula_protocol::compression::Compression;
use monedula_protocol::records::{BATCH_HEADER_BYTES, BatchHeader, Batches, Tail};

use crate::error::WalkErrorKind;
use crate::pool::{BufferPool, PooledVec};
use crate::walker::{Scratch, WalkOptions};

/// A batch found in fetched bytes.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub(crate) header: BatchHeader,
    /// The whole batch; empty once it is inflated, to let go of what was fetched.
    pub(crate) bytes: Bytes,
    /// The uncompressed payload of a batch that was compressed and inflated ahead.
    pub(crate) inflated: Option<Bytes>,
}

impl Located {
    /// Whether the CRC was verified when the batch was inflated.
    pub(crate) fn is_checked(&self) -> bool {
        self.inflated.is_some()
    }
}

/// Why a batch cannot be walked.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    /// The offset after the batch, if its header could be read.
    pub(crate) next_offset: Option<i64>,
    pub(crate) kind: WalkErrorKind,
}

impl Trouble {
    pub(crate) fn in_batch(header: &BatchHeader, kind: WalkErrorKind) -> Self {
        Self { next_offset: Some(header.next_offset()), kind }
    }
}

/// The batch at `position`; `None` at the end, which may be a part of a batch (KIP-74).
pub(crate) fn locate(data: &Bytes, position: usize) -> Result<Option<Located>, Trouble> {
    let mut batches = Batches::starting_at(data, position);
    match batches.next() {
        Some(Ok(batch)) => {
            let bytes = data.slice(position..position + batch.header.total_bytes());
            Ok(Some(Located { header: batch.header, bytes, inflated: None }))
        }
        Some(Err(error)) => Err(Trouble { next_offset: None, kind: error.into() }),
        None => match batches.tail() {
            Some(Tail::Partial { first: true, batch_bytes }) => {
                let kind = WalkErrorKind::FetchTooSmall { fetched_bytes: data.len(), batch_bytes };
                Err(Trouble { next_offset: None, kind })
            }
            _ => Ok(None),
        },
    }
}

/// Cuts a partition's fetched bytes at batch boundaries, without copying, into pieces of at most
/// `max_segment_bytes` or one batch.
///
/// A partial batch at the end is left out, unless it is all there is. Bytes that are no batch stay,
/// for the walker to complain about.
pub fn segments(data: &Bytes, max_segment_bytes: usize) -> Vec<Bytes> {
    let mut segments = Vec::new();
    let mut batches = Batches::new(data);
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

/// A segment whose compressed batches are decompressed.
#[derive(Debug)]
pub struct Inflated {
    batches: std::vec::IntoIter<Result<Located, Trouble>>,
    bytes: usize,
}

impl Inflated {
    /// Memory held: the decompressed batches', and those parts of the segment that were not
    /// compressed.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn peek(&self) -> Result<Option<Located>, Trouble> {
        self.batches.as_slice().first().cloned().transpose()
    }

    pub(crate) fn pass(&mut self) {
        self.batches.next();
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        let pending = |batch: &Located| batch.inflated.as_ref().unwrap_or(&batch.bytes).len();
        self.batches.as_slice().iter().flatten().map(pending).sum()
    }
}

/// Verifies and decompresses the compressed batches of a segment into one buffer of the pool.
///
/// Batches that are not compressed stay as they are: the walk verifies them, when it has them in the
/// cache anyway. Trouble with a batch is kept and raised by the walker when it gets there.
pub fn inflate(segment: &Bytes, options: &WalkOptions, pool: &BufferPool, scratch: &mut Scratch) -> Inflated {
    let mut output = pool.take(0);
    let mut found = Vec::new();
    let mut position = 0;
    let mut filled = 0;
    loop {
        let batch = match locate(segment, position) {
            Ok(Some(batch)) => batch,
            Ok(None) => break,
            Err(trouble) => {
                found.push((Err(trouble), 0..0));
                break;
            }
        };
        position += batch.header.total_bytes();
        if batch.header.compression() == Compression::None {
            found.push((Ok(batch), 0..0));
            continue;
        }
        if output.capacity() == 0 || filled == 0 {
            let expected = segment.len().saturating_mul(scratch.segment_ratio.max(2));
            output.grow(expected.min(options.max_decompressed_bytes));
        }
        let header = batch.header;
        match inflate_batch(&batch, options, &mut output, filled, scratch) {
            Ok(written) => {
                found.push((Ok(batch), filled..filled + written));
                filled += written;
            }
            Err(kind) => {
                // What follows cannot be walked before this is dealt with.
                found.push((Err(Trouble::in_batch(&header, kind)), 0..0));
                break;
            }
        }
    }
    scratch.segment_ratio = filled / segment.len().max(1) + 1;
    collect(found, output, filled, pool)
}

fn inflate_batch(
    batch: &Located,
    options: &WalkOptions,
    output: &mut PooledVec,
    start: usize,
    scratch: &mut Scratch,
) -> Result<usize, WalkErrorKind> {
    let header = &batch.header;
    if options.check_crcs {
        header.verify_crc(&batch.bytes)?;
    }
    let input = &batch.bytes[BATCH_HEADER_BYTES..];
    Ok(scratch.decompressor.decompress(header.compression(), input, output, start, options.limits())?)
}

type Found = (Result<Located, Trouble>, std::ops::Range<usize>);

fn collect(found: Vec<Found>, mut output: PooledVec, filled: usize, pool: &BufferPool) -> Inflated {
    output.set_len(filled);
    if output.capacity() > filled * 2 {
        // The guess was far off: do not hold the rest until the walk.
        let mut fitting = pool.take(filled);
        fitting.extend_from_slice(&output);
        output = fitting;
    }
    let mut bytes = output.capacity();
    let payloads = output.into_bytes();
    let place = |(located, range): Found| {
        let mut located = located?;
        if located.header.compression() == Compression::None {
            bytes += located.bytes.len();
        } else {
            located.bytes = Bytes::new();
            located.inflated = Some(payloads.slice(range));
        }
        Ok(located)
    };
    let batches: Vec<_> = found.into_iter().map(place).collect();
    Inflated { batches: batches.into_iter(), bytes }
}
