//! Iterator over the batches in a partition's record bytes, which also finds out how the bytes end.

use super::header::array;
use super::{BATCH_HEADER_BYTES, BatchHeader, LOG_OVERHEAD_BYTES, MAGIC_V2, Records, RecordsError};

/// Minimal length of a message in the old formats. A batch with a shorter length is malformed, whatever its magic.
const MIN_OLD_BATCH_LENGTH: i32 = 14;
const MAGIC_AT: usize = 16;

/// An iterator over the batches in a partition's record bytes. It reads headers only, not payloads.
///
/// A partial batch at the end is normal in a Fetch response (KIP-74) and ends the iteration;
/// [`tail`](Self::tail) says whether there was one. The first error ends the iteration too.
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    data: &'a [u8],
    position: usize,
    reads_legacy: bool,
    tail: Option<Tail>,
}

/// End of a partition's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Whole batch, or no bytes at all.
    Clean,
    /// Part of a batch.
    Partial {
        /// True if no whole batch precedes it: the fetch made no progress.
        first: bool,
        /// Length of the whole batch in bytes, if the part includes the length field.
        batch_bytes: Option<usize>,
    },
    /// Bytes that are not a batch.
    Malformed,
}

/// One batch: its header, and its payload as received.
#[derive(Debug, Clone, Copy)]
pub struct RawBatch<'a> {
    /// The header.
    pub header: BatchHeader,
    /// The position at which the batch starts in the bytes.
    pub position: usize,
    bytes: &'a [u8],
}

impl<'a> Batches<'a> {
    /// Iterates over `data`, which starts with a batch. Messages of formats 0 and 1 are an error.
    pub fn new(data: &'a [u8]) -> Self {
        Self { data, position: 0, reads_legacy: false, tail: None }
    }

    /// Iterates over `data` from a position at which a batch starts. Messages of formats 0 and 1 count as batches, as
    /// [`BatchHeader`] says.
    pub fn of_any_format(data: &'a [u8], position: usize) -> Self {
        Self { data, position, reads_legacy: true, tail: None }
    }

    /// The position of the next batch, behind the last one returned.
    pub fn position(&self) -> usize {
        self.position
    }

    /// End of the bytes. `None` until the iterator has returned `None` or an error.
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    fn step(&mut self) -> Result<Option<RawBatch<'a>>, RecordsError> {
        let position = self.position;
        let rest = self.data.get(position..).unwrap_or_default();
        if rest.len() < LOG_OVERHEAD_BYTES {
            self.tail = Some(match rest.len() {
                0 => Tail::Clean,
                _ => Tail::Partial { first: position == 0, batch_bytes: None },
            });
            return Ok(None);
        }
        let base_offset = i64::from_be_bytes(array(rest, 0));
        let batch_length = i32::from_be_bytes(array(rest, 8));
        if batch_length < MIN_OLD_BATCH_LENGTH {
            return Err(RecordsError::BatchLength { base_offset, position, batch_length });
        }
        // The magic is checked first: messages of the old formats may be shorter than a v2 header.
        let magic = rest.get(MAGIC_AT).map(|&magic| magic as i8);
        let is_legacy = self.reads_legacy && matches!(magic, None | Some(0 | 1));
        if let Some(magic) = magic.filter(|&magic| magic != MAGIC_V2 && !is_legacy) {
            return Err(RecordsError::UnsupportedMagic { base_offset, magic });
        }
        let batch_bytes = LOG_OVERHEAD_BYTES + batch_length as usize;
        if batch_bytes < BATCH_HEADER_BYTES && !is_legacy {
            return Err(RecordsError::BatchLength { base_offset, position, batch_length });
        }
        let Some(bytes) = rest.get(..batch_bytes) else {
            self.tail = Some(Tail::Partial { first: position == 0, batch_bytes: Some(batch_bytes) });
            return Ok(None);
        };
        let header = match magic.filter(|_| is_legacy) {
            Some(magic) => BatchHeader::parse_legacy(bytes, position, magic)?,
            None => BatchHeader::parse(bytes, position)?,
        };
        self.position += batch_bytes;
        Ok(Some(RawBatch { header, position, bytes }))
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<RawBatch<'a>, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.tail.is_some() {
            return None;
        }
        let step = self.step();
        if step.is_err() {
            self.tail = Some(Tail::Malformed);
        }
        step.transpose()
    }
}

impl<'a> RawBatch<'a> {
    /// The whole batch, header included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The records, compressed with the codec of the header. Empty for a message of format 0 or 1.
    pub fn payload(&self) -> &'a [u8] {
        if self.header.is_legacy() { &[] } else { &self.bytes[BATCH_HEADER_BYTES..] }
    }

    /// Compares the CRC-32C of the bytes with that in the header.
    ///
    /// # Errors
    /// [`RecordsError::Crc`] if they differ.
    pub fn verify_crc(&self) -> Result<(), RecordsError> {
        self.header.verify_crc(self.bytes)
    }

    /// Iterates the records of `payload`: this batch's payload, decompressed if it is compressed.
    pub fn records<'p>(&self, payload: &'p [u8]) -> Records<'p> {
        Records::new(&self.header, payload)
    }
}
