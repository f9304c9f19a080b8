//! A segment of a log, the unit of retention. Its batches are in memory, or in a file with their headers in memory.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use monedula_protocol::records::{BATCH_HEADER_BYTES, BatchHeader, LOG_OVERHEAD_BYTES};

use super::Batch;
use super::file::{OpenFiles, SegmentFile, header_only, recover};
use crate::BrokerError;

/// A segment: consecutive batches.
#[derive(Debug)]
pub(super) struct Segment {
    /// The first offset that it can contain.
    pub(super) base_offset: i64,
    slots: VecDeque<StoredBatch>,
    bytes: u64,
    largest_timestamp_ms: i64,
    /// The time of the last append, used for retention if no record has a timestamp.
    modified_ms: i64,
    file: Option<SegmentFile>,
}

/// A batch and its position.
#[derive(Debug)]
struct StoredBatch {
    /// The batch, without its records if they are in a file.
    batch: Batch,
    /// The position of its first byte in the segment.
    position: u64,
}

impl Segment {
    /// Creates a segment in memory.
    pub(super) fn new(base_offset: i64) -> Self {
        Self { base_offset, slots: VecDeque::new(), bytes: 0, largest_timestamp_ms: -1, modified_ms: 0, file: None }
    }

    /// Creates a segment in a new file.
    pub(super) fn create(directory: &Path, base_offset: i64, open_files: &OpenFiles) -> io::Result<Self> {
        let file = SegmentFile::create(directory, base_offset, open_files)?;
        Ok(Self { file: Some(file), ..Self::new(base_offset) })
    }

    /// Creates a segment of existing batches, which the file, if there is one, already contains.
    pub(super) fn of(base_offset: i64, file: Option<SegmentFile>, batches: Vec<Batch>) -> Self {
        let mut segment = Self { file, ..Self::new(base_offset) };
        for batch in batches {
            segment.push(if segment.file.is_some() { header_only(batch.header) } else { batch.detached() });
        }
        segment
    }

    /// Recovers a segment from a file. Calls `seen` for every batch, with its records.
    pub(super) fn recover(
        path: PathBuf,
        base_offset: i64,
        (may_be_torn, gaps): (bool, bool),
        open_files: &OpenFiles,
        mut seen: impl FnMut(&Batch),
    ) -> Result<Self, BrokerError> {
        let mut segment = Self::new(base_offset);
        for recovered in recover(&path, base_offset, may_be_torn, gaps)? {
            seen(&recovered.batch);
            debug_assert_eq!(recovered.position, segment.bytes);
            segment.push(header_only(recovered.batch.header));
        }
        let file = SegmentFile::existing(path, open_files);
        segment.modified_ms = file.modified_ms();
        segment.file = Some(file);
        Ok(segment)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn largest_timestamp_ms(&self) -> i64 {
        self.largest_timestamp_ms
    }

    /// The offset behind the last batch.
    pub(super) fn next_offset(&self) -> i64 {
        self.slots.back().map_or(self.base_offset, |slot| slot.batch.header.next_offset())
    }

    /// The time from which retention counts the age: the largest timestamp, or else the last append.
    pub(super) fn age_from_ms(&self) -> i64 {
        if self.largest_timestamp_ms >= 0 { self.largest_timestamp_ms } else { self.modified_ms }
    }

    /// The time of the last append.
    pub(super) fn modified_ms(&self) -> i64 {
        self.modified_ms
    }

    /// The largest timestamp of the first batch, from which segment.ms is counted.
    pub(super) fn first_timestamp_ms(&self) -> Option<i64> {
        self.slots.front().map(|slot| slot.batch.header.max_timestamp)
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(SegmentFile::path)
    }

    pub(super) fn headers(&self) -> impl DoubleEndedIterator<Item = &BatchHeader> {
        self.slots.iter().map(|slot| &slot.batch.header)
    }

    /// The batches, with their records.
    pub(super) fn batches(&self) -> impl Iterator<Item = io::Result<Batch>> {
        self.slots.iter().map(|slot| self.load(slot))
    }

    /// The batch that contains an offset, or else the next one.
    pub(super) fn batch_at(&self, base_offset: i64) -> Option<io::Result<Batch>> {
        self.slots.get(self.find(base_offset)).map(|slot| self.load(slot))
    }

    fn load(&self, slot: &StoredBatch) -> io::Result<Batch> {
        let Some(file) = &self.file else { return Ok(slot.batch.clone()) };
        let header = slot.batch.header;
        let payload = file.read(slot.position + BATCH_HEADER_BYTES as u64, header.payload_bytes())?;
        Ok(Batch { header, payload })
    }

    /// Appends a batch. If that fails, the segment has no part of it.
    pub(super) fn append(&mut self, batch: Batch, now_ms: i64) -> io::Result<()> {
        self.modified_ms = now_ms;
        match &mut self.file {
            Some(file) => {
                file.append(&batch, self.bytes)?;
                self.push(header_only(batch.header));
            }
            None => self.push(batch.detached()),
        }
        Ok(())
    }

    fn push(&mut self, batch: Batch) {
        let position = self.bytes;
        self.bytes += batch.total_bytes() as u64;
        self.largest_timestamp_ms = self.largest_timestamp_ms.max(batch.header.max_timestamp);
        self.slots.push_back(StoredBatch { batch, position });
    }

    /// Closes the file, because nothing more is appended.
    pub(super) fn close(&mut self) {
        if let Some(file) = &mut self.file {
            file.release();
        }
    }

    /// The index of the first batch whose last offset is not below an offset.
    fn find(&self, offset: i64) -> usize {
        self.slots.partition_point(|slot| slot.batch.header.last_offset() < offset)
    }

    /// The position in bytes of the first batch whose last offset is not below an offset.
    pub(super) fn position_of(&self, offset: i64) -> u64 {
        self.slots.get(self.find(offset)).map_or(self.bytes, |slot| slot.position)
    }

    /// Reads from the batch that contains `offset` up to batches that begin at `end_offset`: at most `max_bytes`, or
    /// with `whole_first` all of the first batch even if it is larger (KIP-74). The last batch may be cut off, as in
    /// Kafka.
    pub(super) fn read(&self, offset: i64, end_offset: i64, max_bytes: usize, whole_first: bool) -> io::Result<Chunk> {
        let first = self.find(offset);
        let mut chunk = Chunk { next_offset: offset, ..Chunk::default() };
        let slots = self.slots.range(first..).take_while(|slot| slot.batch.header.base_offset < end_offset);
        for slot in slots {
            let header = &slot.batch.header;
            let length = header.total_bytes();
            let room = if chunk.bytes == 0 && whole_first { length.max(max_bytes) } else { max_bytes - chunk.bytes };
            if room == 0 {
                break;
            }
            chunk.next_offset = header.next_offset();
            chunk.push(slot.batch.header, &slot.batch.payload, room.min(length), self.file.is_none());
            if chunk.bytes >= max_bytes {
                break;
            }
        }
        if chunk.bytes > 0
            && let (Some(file), Some(slot)) = (&self.file, self.slots.get(first))
        {
            chunk.pieces.push(Piece::Shared(file.read(slot.position, chunk.bytes)?));
        }
        Ok(chunk)
    }

    /// Removes the batches whose last offset is not below an offset.
    pub(super) fn truncate_to(&mut self, end_offset: i64) -> io::Result<()> {
        let length = self.position_of(end_offset);
        if let Some(file) = &mut self.file {
            file.truncate(length)?;
        }
        self.slots.truncate(self.find(end_offset));
        self.bytes = length;
        self.largest_timestamp_ms = self.headers().map(|header| header.max_timestamp).max().unwrap_or(-1);
        Ok(())
    }

    /// Removes the segment with its file.
    pub(super) fn remove(self) -> io::Result<()> {
        self.file.map_or(Ok(()), SegmentFile::remove)
    }
}

/// The bytes that were read, in pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) bytes: usize,
    /// The offset behind the last batch.
    pub(crate) next_offset: i64,
}

impl Chunk {
    pub(crate) fn is_less_than_a_batch(&self) -> bool {
        let first = self.pieces.first().map_or(&[][..], Piece::as_slice);
        let length = first.get(8..LOG_OVERHEAD_BYTES).and_then(|length| length.try_into().ok()).map(i32::from_be_bytes);
        length.is_none_or(|length| self.bytes < LOG_OVERHEAD_BYTES + length.max(0) as usize)
    }
}

/// A piece of the bytes that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The header of a batch, of which only this many bytes count.
    Header([u8; BATCH_HEADER_BYTES], usize),
    /// Bytes that are shared with the log or were read from a file.
    Shared(Bytes),
}

impl Piece {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Header(bytes, length) => &bytes[..*length],
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Chunk {
    /// Counts `room` bytes of a batch, and adds them as pieces if the batch is in memory.
    fn push(&mut self, header: BatchHeader, payload: &Bytes, room: usize, in_memory: bool) {
        self.bytes += room;
        if !in_memory {
            return;
        }
        let header_bytes = room.min(BATCH_HEADER_BYTES);
        self.pieces.push(Piece::Header(header.to_bytes(), header_bytes));
        if room > header_bytes {
            self.pieces.push(Piece::Shared(payload.slice(..room - header_bytes)));
        }
    }

    /// All bytes in one buffer.
    #[cfg(test)]
    pub(crate) fn concat(&self) -> Vec<u8> {
        self.pieces.iter().flat_map(|piece| piece.as_slice()).copied().collect()
    }
}
