//! Turns closed batches into batches that can be sent: compresses them on blocking threads, one per core at most.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use monedula_columns::{BufferPool, PayloadWriter, PooledVec, crc32c};
use monedula_engine::TopicPartition;
use monedula_engine::produce::{Batch, BatchId, ProducerIdentity};
use monedula_protocol::compression::{Compression, CompressionError, Compressor, Decompressor, MAX_OUTPUT_BYTES};
use monedula_protocol::records::{
    BATCH_HEADER_BYTES, BatchHeader, Header, LOG_OVERHEAD_BYTES, MAGIC_V2, NewRecord, Records,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::in_flight::UnfinishedRecords;
use super::memory::Charge;
use super::open_batch::{ClosedBatch, CountedBatch};
use super::receipt::Receipt;
use crate::blocking;
use crate::lock::lock;
use crate::tasks::caught_now;

/// Bit 4 of a batch's attributes.
const TRANSACTIONAL: i16 = 1 << 4;

/// A batch that can be sent.
pub(crate) struct PackedBatch {
    pub(crate) id: BatchId,
    pub(crate) partition: TopicPartition,
    pub(crate) receipt: Arc<Receipt>,
    /// Index of its first record in the receipt: a batch that was split has several parts.
    pub(crate) first: u32,
    pub(crate) records: u32,
    timestamps_ms: (i64, i64),
    codec: Compression,
    pub(crate) payload: Bytes,
    charge: Charge,
    /// `None` for parts of a batch that was split.
    _counted: Option<CountedBatch>,
    unfinished: UnfinishedRecords,
}

impl PackedBatch {
    /// The batch, as the delivery machine knows it.
    pub(crate) fn described(&self) -> Batch {
        Batch { id: self.id, records: self.records, bytes: BATCH_HEADER_BYTES + self.payload.len() }
    }

    /// The batch header for one attempt: producer id, epoch and sequence number may differ from attempt to attempt.
    pub(crate) fn header(
        &self,
        sequence: Option<(ProducerIdentity, i32)>,
        transactional: bool,
    ) -> [u8; BATCH_HEADER_BYTES] {
        let (identity, base_sequence) = sequence.unwrap_or((ProducerIdentity { producer_id: -1, epoch: -1 }, -1));
        let mut header = self.plain_header();
        header.attributes |= if transactional { TRANSACTIONAL } else { 0 };
        (header.producer_id, header.producer_epoch) = (identity.producer_id, identity.epoch);
        header.base_sequence = base_sequence;
        header.crc = header.crc_over_by(&self.payload, crc32c);
        header.to_bytes()
    }

    fn plain_header(&self) -> BatchHeader {
        BatchHeader {
            base_offset: 0,
            batch_length: (BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES + self.payload.len()) as i32,
            partition_leader_epoch: -1,
            magic: MAGIC_V2,
            crc: 0,
            attributes: i16::from(self.codec.id()),
            last_offset_delta: self.records.saturating_sub(1) as i32,
            base_timestamp: self.timestamps_ms.0,
            max_timestamp: self.timestamps_ms.1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: self.records as i32,
        }
    }
}

pub(crate) enum Packed {
    /// The batch can be sent.
    Batch(Box<PackedBatch>),
    /// The batch could not be compressed.
    Failed { batch: Box<ClosedBatch>, reason: String },
    /// The parts that replace a batch, with the batch. No parts if it cannot be split.
    Parts { batch: Box<PackedBatch>, parts: Vec<PackedBatch> },
}

enum Job {
    Pack(Box<ClosedBatch>),
    Split(Box<PackedBatch>, [BatchId; 2]),
}

/// The threads that pack batches. Clones share them.
#[derive(Clone)]
pub(crate) struct Packers(Arc<Inner>);

struct Inner {
    codec: Compression,
    level: Option<i32>,
    pool: BufferPool,
    runtime: Handle,
    done: mpsc::UnboundedSender<Packed>,
    max_workers: usize,
    state: Mutex<PackState>,
}

#[derive(Default)]
struct PackState {
    jobs: VecDeque<Job>,
    workers: usize,
    /// Workers that were started and do not run yet.
    starting: usize,
    idle: Vec<CompressionBuffers>,
}

/// Compressor's buffers of a thread, reused by later jobs.
#[derive(Default)]
struct CompressionBuffers {
    compressor: Compressor,
    scratch: Vec<u8>,
}

impl Packers {
    /// Packs with this codec, on as many threads as there are cores.
    pub(crate) fn new(
        codec: Compression,
        level: Option<i32>,
        pool: BufferPool,
        runtime: Handle,
        done: mpsc::UnboundedSender<Packed>,
    ) -> Self {
        let max_workers = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Inner { codec, level, pool, runtime, done, max_workers, state: Mutex::default() }))
    }

    /// Packs a batch: returns it at once if it is not compressed; else another thread does it, and sends it to `done`.
    pub(crate) fn pack(&self, batch: Box<ClosedBatch>) -> Option<PackedBatch> {
        if self.0.codec == Compression::None {
            return Some(batch.uncompressed());
        }
        self.start(Job::Pack(batch));
        None
    }

    /// Splits a batch that a broker finds too large.
    pub(crate) fn split(&self, batch: Box<PackedBatch>, ids: [BatchId; 2]) {
        self.start(Job::Split(batch, ids));
    }

    fn start(&self, job: Job) {
        let mut state = self.0.state();
        state.jobs.push_back(job);
        if state.workers + state.starting >= self.0.max_workers {
            return;
        }
        // Counted from here on: a thread takes time to start, and the runtime would start one for each job until then.
        state.starting += 1;
        drop(state);
        let inner = self.0.clone();
        let work = move || {
            inner.started();
            inner.work();
        };
        // If the system grants no thread, the job is done on this one.
        if let Err((work, _)) = blocking::begin(&self.0.runtime, work) {
            work();
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, PackState> {
        lock(&self.state)
    }

    /// A worker runs.
    fn started(&self) {
        let mut state = self.state();
        state.starting = state.starting.saturating_sub(1);
    }

    /// Does jobs until there are none, unless enough other threads do.
    fn work(&self) {
        let mut buffers = {
            let mut state = self.state();
            if state.jobs.is_empty() || state.workers >= self.max_workers {
                return;
            }
            state.workers += 1;
            state.idle.pop().unwrap_or_default()
        };
        loop {
            let job = {
                let mut state = self.state();
                match state.jobs.pop_front() {
                    Some(job) => job,
                    None => {
                        state.workers -= 1;
                        state.idle.push(buffers);
                        return;
                    }
                }
            };
            // The driver waits for every batch, so each job must have a result.
            let packed = match job {
                Job::Pack(batch) => match caught_now(|| self.compress(&mut buffers, &batch.payload)) {
                    Ok(Ok(payload)) => Packed::Batch(Box::new(batch.packed(self.codec, Some(payload)))),
                    Ok(Err(error)) => Packed::Failed { batch, reason: error.to_string() },
                    Err(reason) => {
                        buffers = CompressionBuffers::default();
                        Packed::Failed { batch, reason }
                    }
                },
                Job::Split(batch, ids) => {
                    let parts = caught_now(|| self.divide(&mut buffers, &batch, ids)).unwrap_or_else(|_| {
                        buffers = CompressionBuffers::default();
                        None
                    });
                    Packed::Parts { batch, parts: parts.unwrap_or_default() }
                }
            };
            // Fails only if the driver is gone.
            let _ = self.done.send(packed);
        }
    }

    fn compress(&self, buffers: &mut CompressionBuffers, payload: &[u8]) -> Result<PooledVec, CompressionError> {
        buffers.scratch.clear();
        buffers.compressor.compress(self.codec, self.level, payload, &mut buffers.scratch)?;
        let mut compressed = self.pool.take(buffers.scratch.len());
        compressed.extend_from_slice(&buffers.scratch);
        Ok(compressed)
    }

    /// Splits a batch in two, at about half of its bytes.
    fn divide(
        &self,
        buffers: &mut CompressionBuffers,
        batch: &PackedBatch,
        ids: [BatchId; 2],
    ) -> Option<Vec<PackedBatch>> {
        if batch.records < 2 {
            return None;
        }
        let plain = match batch.codec {
            Compression::None => batch.payload.to_vec(),
            codec => Decompressor::new().decompress_to_vec(codec, &batch.payload, MAX_OUTPUT_BYTES).ok()?,
        };
        let records: Vec<_> = Records::new(&batch.plain_header(), &plain).collect::<Result<_, _>>().ok()?;
        let mut halves =
            [PayloadWriter::new(&self.pool, plain.len() + 64), PayloadWriter::new(&self.pool, plain.len())];
        for (index, record) in records.iter().enumerate() {
            let headers: Vec<Header<'_>> = record.headers.clone().collect();
            let (timestamp_ms, key, value) = (record.timestamp_ms, record.key, record.value);
            let record = NewRecord { timestamp_ms, key, value, headers: &headers };
            let in_first = index == 0 || index + 1 < records.len() && halves[0].len() < plain.len() / 2;
            let half = &mut halves[usize::from(!in_first || !halves[1].is_empty())];
            if half.append(&record, usize::MAX).is_err() {
                half.grow(half.len() + plain.len() + 64);
                half.append(&record, usize::MAX).ok()?;
            }
        }
        let mut first = batch.first;
        let mut parts = Vec::new();
        for (half, id) in halves.into_iter().zip(ids) {
            let (records, timestamps_ms) = (half.records(), half.timestamps_ms());
            let mut charge = batch.charge.sibling();
            let payload = half.into_buffer();
            let payload = match batch.codec {
                Compression::None => payload,
                _ => self.compress(buffers, &payload).ok()?,
            };
            charge.set(payload.capacity());
            let (partition, receipt) = (batch.partition.clone(), batch.receipt.clone());
            let payload = payload.into_bytes();
            let (codec, unfinished) = (batch.codec, batch.unfinished.count(records));
            parts.push(PackedBatch {
                id,
                partition,
                receipt,
                first,
                records,
                timestamps_ms,
                codec,
                payload,
                charge,
                _counted: None,
                unfinished,
            });
            first += records;
        }
        Some(parts)
    }
}

impl ClosedBatch {
    pub(crate) fn uncompressed(self) -> PackedBatch {
        self.packed(Compression::None, None)
    }

    /// The batch with its compressed payload, or with the payload itself.
    fn packed(self, codec: Compression, compressed: Option<PooledVec>) -> PackedBatch {
        let Self { id, partition, receipt, records, timestamps_ms, payload, mut charge, counted: _counted, unfinished } =
            self;
        let payload = compressed.unwrap_or(payload);
        charge.set(payload.capacity());
        let payload = payload.into_bytes();
        PackedBatch {
            id,
            partition,
            receipt,
            first: 0,
            records,
            timestamps_ms,
            codec,
            payload,
            charge,
            _counted,
            unfinished,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::memory::{Memory, TopicUsage};
    use super::super::open_batch::{BatchCount, OpenBatch};
    use super::*;

    const RECORDS: u32 = 3;

    /// A closed batch whose memory is not of the pool of `packers`.
    fn batch(id: BatchId) -> Box<ClosedBatch> {
        let (memory, usage, batches) = (Memory::new(1 << 20), TopicUsage::default(), BatchCount::default());
        let partition = TopicPartition::new("orders", 0);
        let at = (1024, Instant::now());
        let pool = BufferPool::new(1 << 20);
        let opened = OpenBatch::open(id, Some((partition.clone(), &batches)), &memory, &usage, &pool, at);
        let mut open = opened.expect("room");
        for _ in 0..RECORDS {
            let record = NewRecord { timestamp_ms: 1, key: None, value: Some(b"value"), headers: &[] };
            open.append(&record, usize::MAX).expect("room");
        }
        Box::new(open.close(partition, &UnfinishedRecords::default()))
    }

    /// Packers on a runtime, and the results of their jobs.
    fn packers(runtime: &Handle) -> (Packers, mpsc::UnboundedReceiver<Packed>) {
        let (done, packed) = mpsc::unbounded_channel();
        (Packers::new(Compression::Lz4, None, BufferPool::new(1 << 20), runtime.clone(), done), packed)
    }

    #[test]
    fn every_batch_comes_back_whatever_becomes_of_the_threads() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let (packers, mut packed) = packers(runtime.handle());
        for id in 0..100 {
            assert!(packers.pack(batch(id)).is_none());
        }
        let mut ids: Vec<BatchId> = (0..100).map(|_| id_of(packed.blocking_recv().expect("a batch"))).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..100).collect::<Vec<_>>());
        // Every worker ends and leaves its place.
        let deadline = Instant::now() + Duration::from_secs(60);
        while packers.0.state().workers > 0 {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_burst_of_batches_starts_one_worker_per_core() {
        let runtime = tokio::runtime::Builder::new_multi_thread().max_blocking_threads(1).build().expect("a runtime");
        let (release, released) = std::sync::mpsc::channel::<()>();
        runtime.spawn_blocking(move || released.recv());
        let (packers, mut packed) = packers(runtime.handle());
        for id in 0..100 {
            assert!(packers.pack(batch(id)).is_none());
        }
        let started = Arc::strong_count(&packers.0) - 1;
        release.send(()).expect("the only thread waits");
        (0..100).for_each(|_| drop(packed.blocking_recv().expect("a batch")));
        assert_eq!(started, packers.0.max_workers);
    }

    fn id_of(packed: Packed) -> BatchId {
        match packed {
            Packed::Batch(batch) => batch.id,
            Packed::Failed { batch, .. } => batch.id,
            Packed::Parts { batch, .. } => batch.id,
        }
    }
}
