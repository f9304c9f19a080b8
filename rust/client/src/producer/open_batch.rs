//! A partition's open batch, and what it is once it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use monedula_columns::{BufferPool, NoRoom, OutOfMemory, PayloadWriter, PooledVec};
use monedula_engine::TopicPartition;
use monedula_engine::produce::BatchId;
use monedula_protocol::records::{BATCH_HEADER_BYTES, NewRecord};

use super::memory::{Charge, Memory, TopicShare};
use super::receipt::Receipt;
use super::under_way::Unfinished;

/// Even a producer that sends one small record a second need not grow its buffers at every one.
const MIN_BUFFER_BYTES: usize = 512;

/// How many batches of a partition are there, from their opening to their end.
#[derive(Clone, Default)]
pub(crate) struct Line(Arc<AtomicU32>);

impl Line {
    pub(crate) fn length(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn join(&self) -> InLine {
        self.0.fetch_add(1, Ordering::Relaxed);
        InLine(self.clone())
    }
}

/// A batch's place there, left when this is dropped.
pub(crate) struct InLine(Line);

impl Drop for InLine {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A batch that takes records.
pub(crate) struct OpenBatch {
    pub(crate) id: BatchId,
    /// When its first record was sent.
    pub(crate) since: Instant,
    pub(crate) receipt: Arc<Receipt>,
    pub(crate) writer: PayloadWriter,
    pub(crate) charge: Charge,
    /// `None` for records that are parked.
    in_line: Option<InLine>,
}

/// A batch that takes no more records.
pub(crate) struct ClosedBatch {
    pub(crate) id: BatchId,
    pub(crate) place: TopicPartition,
    pub(crate) receipt: Arc<Receipt>,
    pub(crate) records: u32,
    /// Of the first record, and the largest.
    pub(crate) timestamps_ms: (i64, i64),
    pub(crate) payload: PooledVec,
    pub(crate) charge: Charge,
    pub(crate) in_line: Option<InLine>,
    pub(crate) unfinished: Unfinished,
}

/// Why a record is not in the batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// The batch is full.
    Closed,
    /// There is no room for so much more memory.
    Memory(usize),
    /// The system has none.
    Lack(OutOfMemory),
}

impl OpenBatch {
    /// A batch with room for `capacity` bytes, if there is memory for it; its first record was sent at `since`.
    pub(crate) fn open(
        id: BatchId,
        place: Option<(TopicPartition, &Line)>,
        memory: &Memory,
        share: &TopicShare,
        pool: &BufferPool,
        (capacity, since): (usize, Instant),
    ) -> Result<Self, NotTaken> {
        let mut charge = memory.charge(share);
        let capacity = capacity.max(MIN_BUFFER_BYTES);
        if !charge.raise(capacity) {
            return Err(NotTaken::Memory(capacity));
        }
        let writer = PayloadWriter::try_new(pool, capacity).map_err(NotTaken::Lack)?;
        charge.set(writer.capacity());
        let (place, in_line) = place.map(|(place, line)| (place, line.join())).unzip();
        Ok(Self { id, since, receipt: Receipt::new(place), writer, charge, in_line })
    }

    /// Appends a record, where the payload stays within `max_bytes`, unless it is the first.
    #[inline]
    pub(crate) fn append(&mut self, record: &NewRecord<'_>, max_bytes: usize) -> Result<u32, NotTaken> {
        match self.writer.append(record, max_bytes) {
            Ok(index) => Ok(index),
            Err(no_room) => self.grow_and_append(record, max_bytes, no_room),
        }
    }

    #[cold]
    fn grow_and_append(&mut self, record: &NewRecord<'_>, max_bytes: usize, no_room: NoRoom) -> Result<u32, NotTaken> {
        let needed = self.writer.len() + no_room.record_bytes;
        if needed > max_bytes && !self.writer.is_empty() {
            return Err(NotTaken::Closed);
        }
        if needed > self.writer.capacity() {
            let wanted = needed.max((self.writer.capacity() * 2).min(max_bytes));
            let before = self.writer.capacity();
            if !self.charge.raise(wanted) {
                return Err(NotTaken::Memory(wanted - before));
            }
            let grown = self.writer.try_grow(wanted);
            self.charge.set(self.writer.capacity());
            grown.map_err(NotTaken::Lack)?;
        }
        self.writer.append(record, usize::MAX).map_err(|_| NotTaken::Closed)
    }

    pub(crate) fn close(self, place: TopicPartition, closed: &Unfinished) -> ClosedBatch {
        let Self { id, since: _, receipt, writer, charge, in_line } = self;
        let (records, timestamps_ms) = (writer.records(), writer.timestamps_ms());
        let (unfinished, payload) = (closed.of(records), writer.into_buffer());
        ClosedBatch { id, place, receipt, records, timestamps_ms, payload, charge, in_line, unfinished }
    }
}

/// Bytes of a payload in a batch of `batch.size`.
pub(crate) fn max_payload_bytes(batch_bytes: usize) -> usize {
    batch_bytes.saturating_sub(BATCH_HEADER_BYTES)
}
