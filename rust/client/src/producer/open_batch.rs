//! A partition's open batch, and the same batch once it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use monedula_columns::{BufferPool, NoRoom, OutOfMemory, PayloadWriter, PooledVec};
use monedula_engine::TopicPartition;
use monedula_engine::produce::BatchId;
use monedula_protocol::records::{BATCH_HEADER_BYTES, NewRecord};

use super::in_flight::UnfinishedRecords;
use super::memory::{Charge, Memory, TopicUsage};
use super::receipt::Receipt;

/// The smallest buffer: a producer that sends few small records does not grow its buffer for each of them.
const MIN_BUFFER_BYTES: usize = 512;

/// Counts the batches of a partition, from their opening to their end.
#[derive(Clone, Default)]
pub(crate) struct BatchCount(Arc<AtomicU32>);

impl BatchCount {
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn count(&self) -> CountedBatch {
        self.0.fetch_add(1, Ordering::Relaxed);
        CountedBatch(self.clone())
    }
}

/// Counts one batch until it is dropped.
pub(crate) struct CountedBatch(BatchCount);

impl Drop for CountedBatch {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) struct OpenBatch {
    pub(crate) id: BatchId,
    /// Time at which its first record was sent.
    pub(crate) since: Instant,
    pub(crate) receipt: Arc<Receipt>,
    pub(crate) writer: PayloadWriter,
    pub(crate) charge: Charge,
    /// `None` for records that wait for metadata.
    counted: Option<CountedBatch>,
}

/// A batch that takes no more records.
pub(crate) struct ClosedBatch {
    pub(crate) id: BatchId,
    pub(crate) partition: TopicPartition,
    pub(crate) receipt: Arc<Receipt>,
    pub(crate) records: u32,
    /// Timestamp of the first record, and the largest.
    pub(crate) timestamps_ms: (i64, i64),
    pub(crate) payload: PooledVec,
    pub(crate) charge: Charge,
    pub(crate) counted: Option<CountedBatch>,
    pub(crate) unfinished: UnfinishedRecords,
}

/// Reason that a record was not appended to the batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    Closed,
    /// `buffer.memory` has no room for this many more bytes.
    Memory(usize),
    /// The system has no memory.
    Lack(OutOfMemory),
}

impl OpenBatch {
    /// A batch with room for `capacity` bytes, if there is memory for it. Its first record was sent at `since`. A batch
    /// of records that wait for metadata has no partition.
    pub(crate) fn open(
        id: BatchId,
        partition: Option<(TopicPartition, &BatchCount)>,
        memory: &Memory,
        usage: &TopicUsage,
        pool: &BufferPool,
        (capacity, since): (usize, Instant),
    ) -> Result<Self, NotTaken> {
        let mut charge = memory.charge(usage);
        let capacity = capacity.max(MIN_BUFFER_BYTES);
        if !charge.raise(capacity) {
            return Err(NotTaken::Memory(capacity));
        }
        let writer = PayloadWriter::try_new(pool, capacity).map_err(NotTaken::Lack)?;
        charge.set(writer.capacity());
        let (partition, counted) = partition.map(|(partition, batches)| (partition, batches.count())).unzip();
        Ok(Self { id, since, receipt: Receipt::new(partition), writer, charge, counted })
    }

    /// Appends a record if the payload stays within `max_bytes`, or if it is the first one. Returns its index.
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

    pub(crate) fn close(self, partition: TopicPartition, unfinished: &UnfinishedRecords) -> ClosedBatch {
        let Self { id, since: _, receipt, writer, charge, counted } = self;
        let (records, timestamps_ms) = (writer.records(), writer.timestamps_ms());
        let (unfinished, payload) = (unfinished.count(records), writer.into_buffer());
        ClosedBatch { id, partition, receipt, records, timestamps_ms, payload, charge, counted, unfinished }
    }
}

/// The largest payload of a batch of `batch.size`.
pub(crate) fn max_payload_bytes(batch_bytes: usize) -> usize {
    batch_bytes.saturating_sub(BATCH_HEADER_BYTES)
}
