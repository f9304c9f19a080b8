//! A part of a log: what retention drops as a whole.

use std::collections::VecDeque;

use bytes::Bytes;
use monedula_protocol::records::BATCH_HEADER_BYTES;

use super::Batch;

/// Consecutive batches.
#[derive(Debug)]
pub(super) struct Segment {
    /// The first offset that could be in it.
    pub(super) base_offset: i64,
    batches: VecDeque<Slot>,
    bytes: u64,
    largest_timestamp_ms: i64,
    /// When its first batch was appended, by the timestamps of records.
    first_timestamp_ms: Option<i64>,
}

#[derive(Debug)]
struct Slot {
    batch: Batch,
    /// Where it begins in the segment.
    position: u64,
}

impl Segment {
    pub(super) fn new(base_offset: i64) -> Self {
        Self { base_offset, batches: VecDeque::new(), bytes: 0, largest_timestamp_ms: -1, first_timestamp_ms: None }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub(super) fn largest_timestamp_ms(&self) -> i64 {
        self.largest_timestamp_ms
    }

    /// The timestamp of the first batch, by which a segment becomes old.
    pub(super) fn first_timestamp_ms(&self) -> Option<i64> {
        self.first_timestamp_ms
    }

    pub(super) fn batches(&self) -> impl DoubleEndedIterator<Item = &Batch> {
        self.batches.iter().map(|slot| &slot.batch)
    }

    pub(super) fn append(&mut self, batch: Batch) {
        let position = self.bytes;
        self.bytes += batch.total_bytes() as u64;
        self.largest_timestamp_ms = self.largest_timestamp_ms.max(batch.header.max_timestamp);
        self.first_timestamp_ms.get_or_insert(batch.header.max_timestamp);
        self.batches.push_back(Slot { batch, position });
    }

    /// The index of the first batch that ends at or behind an offset.
    fn find(&self, offset: i64) -> usize {
        self.batches.partition_point(|slot| slot.batch.header.last_offset() < offset)
    }

    /// Where the first batch that ends at or behind an offset begins, in bytes.
    pub(super) fn position_of(&self, offset: i64) -> u64 {
        self.batches.get(self.find(offset)).map_or(self.bytes, |slot| slot.position)
    }

    /// Bytes from the batch with an offset on, up to those of batches that begin at `end_offset`: `max_bytes` of them, or the
    /// whole first batch where that is larger and `whole_first` (KIP-74). The last batch may be cut, as Kafka cuts it.
    pub(super) fn read(&self, offset: i64, end_offset: i64, max_bytes: usize, whole_first: bool) -> Chunk {
        let first = self.find(offset);
        let mut chunk = Chunk { next_offset: offset, ..Chunk::default() };
        let slots = self.batches.range(first..).take_while(|slot| slot.batch.header.base_offset < end_offset);
        for slot in slots {
            let header = &slot.batch.header;
            let length = header.total_bytes();
            let room = if chunk.bytes == 0 && whole_first { length.max(max_bytes) } else { max_bytes - chunk.bytes };
            if room == 0 {
                break;
            }
            chunk.next_offset = header.next_offset();
            if chunk.first_offset.is_none() {
                chunk.first_offset = Some(header.base_offset);
            }
            chunk.push(&slot.batch, room.min(length));
            if chunk.bytes >= max_bytes {
                break;
            }
        }
        chunk
    }

    /// Drops the batches that end at or behind an offset.
    pub(super) fn truncate_to(&mut self, end_offset: i64) {
        self.batches.truncate(self.find(end_offset));
        self.bytes = self.batches.back().map_or(0, |slot| slot.position + slot.batch.total_bytes() as u64);
        self.largest_timestamp_ms = self.batches().map(|batch| batch.header.max_timestamp).max().unwrap_or(-1);
        if self.batches.is_empty() {
            self.first_timestamp_ms = None;
        }
    }
}

/// What was read: pieces that make bytes when put together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) bytes: usize,
    /// The base offset of the first batch.
    pub(crate) first_offset: Option<i64>,
    /// The offset behind the last batch.
    pub(crate) next_offset: i64,
}

/// A part of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A header, or the beginning of one.
    Header([u8; BATCH_HEADER_BYTES], usize),
    /// Shared bytes.
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
    fn push(&mut self, batch: &Batch, room: usize) {
        let header = room.min(BATCH_HEADER_BYTES);
        self.pieces.push(Piece::Header(batch.header.to_bytes(), header));
        if room > header {
            self.pieces.push(Piece::Shared(batch.payload.slice(..room - header)));
        }
        self.bytes += room;
    }

    /// All bytes in one piece.
    #[cfg(test)]
    pub(crate) fn concat(&self) -> Vec<u8> {
        self.pieces.iter().flat_map(|piece| piece.as_slice()).copied().collect()
    }
}
