//! Decompression, and decoding of typed keys and values, ahead of the reader: on threads of its own, in parallel across
//! partitions and batches.
//!
//! Work ahead is an optimisation, and nothing waits for it to begin: a segment that no thread has taken yet is
//! decompressed and decoded by the reader itself, batch by batch, while walking. A reader of typed columns that would
//! have to wait for a thread works ahead too, on the next segment: decoding takes longer than all else, and would take
//! one core only.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, Builder};
use std::time::Duration;

use bytes::Bytes;
use monedula_columns::{BatchColumns, BufferPool, Inflated, Scratch, SegmentDecoder, WalkOptions, inflate};
use monedula_engine::TopicPartition;
use monedula_protocol::compression::Compression;
use monedula_protocol::records::Batches;

use crate::blocking::start_thread;
use crate::budget::{Budget, Charge};
use crate::lock::lock;

/// Compressed bytes of a segment: small enough for many threads to share one fetch, large enough to be worth a
/// hand-over.
pub(crate) const SEGMENT_BYTES: usize = 256 << 10;

/// Factor by which a segment may grow more than usual before its last batches are left to the reader.
const HEADROOM: f64 = 1.25;

/// Interval at which one thread looks for room, at first and at most.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(2);
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(16);

/// The stack of a thread. Decompressors have their tables on the heap, and a limit of address space counts all of a
/// stack: with 2 MiB for each core, Spark's workers under `spark.executor.pyspark.memory=512m` had no room for a batch.
const STACK_BYTES: usize = 256 << 10;

/// The same where values are decoded: as deep as types are nested.
const DECODING_STACK_BYTES: usize = 1 << 20;

/// Bytes below which typed values that are not compressed are left to the reader, which takes no longer for them than
/// for waking a thread.
const MIN_TYPED_BYTES: usize = 32 << 10;

/// A run of whole record batches of one partition.
pub(crate) struct Segment {
    state: Mutex<SegmentState>,
    finished: Condvar,
    compressed_bytes: usize,
    partition: TopicPartition,
}

enum SegmentState {
    Raw(Bytes),
    Busy,
    Inflated(Inflated, Charge),
    Taken,
}

/// A segment's data, as the reader got it.
pub(crate) enum SegmentPayload {
    /// As fetched.
    Raw(Bytes),
    /// Decompressed and checked, and decoded if it is typed; the charge is to be kept as long as the data.
    Inflated(Inflated, Charge),
}

impl Segment {
    pub(crate) fn new(data: Bytes, partition: TopicPartition) -> Self {
        let compressed_bytes = data.len();
        Self { compressed_bytes, partition, state: Mutex::new(SegmentState::Raw(data)), finished: Condvar::new() }
    }

    pub(crate) fn compressed_bytes(&self) -> usize {
        self.compressed_bytes
    }

    fn is_busy(&self) -> bool {
        matches!(*self.lock(), SegmentState::Busy)
    }

    /// Takes the data; waits if a thread is at work on it.
    fn take(&self) -> Option<SegmentPayload> {
        let mut state = self.lock();
        loop {
            match std::mem::replace(&mut *state, SegmentState::Taken) {
                SegmentState::Raw(data) => return Some(SegmentPayload::Raw(data)),
                SegmentState::Inflated(inflated, charge) => return Some(SegmentPayload::Inflated(inflated, charge)),
                SegmentState::Taken => return None,
                SegmentState::Busy => {
                    *state = SegmentState::Busy;
                    state = self.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Takes raw data to decompress it; None if the reader was faster.
    fn begin(&self) -> Option<Bytes> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, SegmentState::Busy) {
            SegmentState::Raw(data) => Some(data),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Ends what [`Self::begin`] began.
    fn finish(&self, state: SegmentState) {
        *self.lock() = state;
        self.finished.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, SegmentState> {
        lock(&self.state)
    }
}

/// What a thread decompresses and decodes with, kept from segment to segment.
pub(crate) struct DecodeScratch {
    pub(crate) scratch: Scratch,
    decoder: Option<SegmentDecoder>,
}

impl DecodeScratch {
    pub(crate) fn new(columns: &BatchColumns, pool: &BufferPool) -> Self {
        Self { scratch: Scratch::default(), decoder: SegmentDecoder::new(columns, pool) }
    }
}

/// The threads and their queue.
pub(crate) struct Inflater {
    queue: Arc<InflateQueue>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// Segments that wait for a thread.
pub(crate) struct InflateQueue {
    queue: Mutex<Queue>,
    wake: Condvar,
    budget: Budget,
    options: WalkOptions,
    pool: BufferPool,
    columns: BatchColumns,
}

#[derive(Default)]
struct Queue {
    // Weak: a segment that was dropped by a seek needs no decompression any more.
    segments: VecDeque<Weak<Segment>>,
    closed: bool,
    /// True if a thread watches for room already.
    is_watched: bool,
    /// Decompressed bytes per compressed byte, smoothed; decides how much budget to ask for.
    ratio: f64,
}

impl Queue {
    /// The first segment that nobody has begun with; removes those before it.
    fn front(&mut self) -> Option<Arc<Segment>> {
        while let Some(first) = self.segments.front() {
            let raw = first.upgrade().filter(|segment| matches!(*segment.lock(), SegmentState::Raw(_)));
            if raw.is_some() {
                return raw;
            }
            self.segments.pop_front();
        }
        None
    }
}

impl Inflater {
    pub(crate) fn start(
        threads: usize,
        budget: &Budget,
        options: &WalkOptions,
        pool: &BufferPool,
        columns: &BatchColumns,
    ) -> Self {
        let queue = Arc::new(InflateQueue {
            queue: Mutex::new(Queue { ratio: 4.0, ..Queue::default() }),
            wake: Condvar::new(),
            budget: budget.clone(),
            options: *options,
            pool: pool.clone(),
            columns: columns.clone(),
        });
        let stack_bytes = if columns.is_typed() { DECODING_STACK_BYTES } else { STACK_BYTES };
        let threads = (0..threads).filter_map(|index| {
            let queue = queue.clone();
            let builder = Builder::new().name(format!("monedula-inflate-{index}")).stack_size(stack_bytes);
            start_thread(builder, move || queue.work()).ok()
        });
        Self { threads: threads.collect(), queue }
    }

    /// The queue, from which a reader takes its segments.
    pub(crate) fn queue(&self) -> &Arc<InflateQueue> {
        &self.queue
    }

    /// True if records are worth a hand-over to the threads.
    pub(crate) fn takes(&self, records: &[u8]) -> bool {
        let is_long = self.queue.columns.is_typed() && records.len() >= MIN_TYPED_BYTES;
        !self.threads.is_empty() && (is_long || is_compressed(records))
    }

    pub(crate) fn push(&self, segments: impl IntoIterator<Item = Weak<Segment>>) {
        let mut queue = self.queue.lock();
        queue.segments.extend(segments);
        drop(queue);
        self.queue.wake.notify_all();
    }

    /// Ends the threads, each after its current segment.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.queue.wake.notify_all();
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        self.close();
    }
}

impl InflateQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Takes a segment's data. A reader of typed columns that would wait for it works on segments behind it meanwhile.
    pub(crate) fn take(&self, segment: &Segment, scratch: &mut DecodeScratch) -> Option<SegmentPayload> {
        while scratch.decoder.is_some() && segment.is_busy() {
            let Some((next, charge)) = self.next_at_once() else { break };
            self.inflate(&next, charge, scratch);
        }
        segment.take()
    }

    fn work(&self) {
        let mut scratch = DecodeScratch::new(&self.columns, &self.pool);
        while let Some((segment, charge)) = self.next() {
            self.inflate(&segment, charge, &mut scratch);
        }
    }

    fn inflate(&self, segment: &Segment, mut charge: Charge, scratch: &mut DecodeScratch) {
        let Some(data) = segment.begin() else { return };
        let TopicPartition { topic, partition } = &segment.partition;
        let work = AssertUnwindSafe(|| {
            // No more than there is budget for: the rest of a segment that grows beyond that stays as it came.
            let mut grant = |bytes| charge.reach(bytes);
            let mut inflated = inflate(&data, &self.options, &self.pool, &mut scratch.scratch, &mut grant);
            if let Some(decoder) = &mut scratch.decoder {
                decoder.decode(&mut inflated, (topic, *partition), &self.options, &mut grant);
            }
            inflated
        });
        let Ok(inflated) = catch_unwind(work) else {
            // Out of memory. The reader, which waits for the segment, tries by itself, and raises the error to the
            // user.
            segment.finish(SegmentState::Raw(data));
            *scratch = DecodeScratch::new(&self.columns, &self.pool);
            return;
        };
        charge.set(inflated.bytes());
        let done_bytes = data.len() - inflated.rest().len();
        let ratio = inflated.bytes() as f64 / done_bytes.max(1) as f64;
        segment.finish(SegmentState::Inflated(inflated, charge));
        if done_bytes > 0 {
            let mut queue = self.lock();
            queue.ratio += (ratio - queue.ratio) / 16.0;
        }
    }

    /// Bytes that a segment is likely to have in the end. One that would not fit is begun nevertheless, and worked on as
    /// far as there is room.
    fn estimate(&self, queue: &Queue, segment: &Segment) -> usize {
        let estimate = (segment.compressed_bytes as f64 * queue.ratio.max(1.0) * HEADROOM) as usize;
        estimate.min(self.budget.limit() / 4)
    }

    /// As [`Self::next`], but `None` if there is none, or no budget for it.
    fn next_at_once(&self) -> Option<(Arc<Segment>, Charge)> {
        let mut queue = self.lock();
        let segment = queue.front()?;
        let charge = self.budget.try_take(self.estimate(&queue, &segment))?;
        queue.segments.pop_front();
        Some((segment, charge))
    }

    /// The next segment with the budget for its decompressed form.
    fn next(&self) -> Option<(Arc<Segment>, Charge)> {
        let mut look_again = LOOK_AGAIN_MIN;
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return None;
            }
            let Some(segment) = queue.front() else {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if let Some(charge) = self.budget.try_take(self.estimate(&queue, &segment)) {
                queue.segments.pop_front();
                // Another thread watches for room from now on.
                self.wake.notify_one();
                return Some((segment, charge));
            }
            drop(segment);
            // Room comes only when the reader has walked something, and nobody notifies these threads of freed
            // budget. One thread looks, less and less often: sixty-four that looked every 2 ms took a third of a core
            // while nobody polled.
            if queue.is_watched {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.is_watched = true;
            let waited = self.wake.wait_timeout(queue, look_again);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.is_watched = false;
            look_again = (look_again * 2).min(LOOK_AGAIN_MAX);
        }
    }
}

fn is_compressed(records: &[u8]) -> bool {
    Batches::of_any_format(records, 0)
        .next()
        .is_some_and(|batch| batch.is_ok_and(|batch| batch.header.compression() != Compression::None))
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::mpsc;

    use arrow_array::{Array, ArrayRef, NullArray};
    use arrow_schema::DataType;
    use monedula_columns::{BadValue, ColumnSet, Decoded, Lookup, OnBadValue, RecordContext, TypedColumn, TypedSpec};
    use monedula_protocol::compression::Compressor;
    use monedula_protocol::records::{BatchEncoder, NewRecord};

    use super::*;

    fn queue(budget: &Budget, columns: BatchColumns) -> InflateQueue {
        InflateQueue {
            queue: Mutex::default(),
            wake: Condvar::new(),
            budget: budget.clone(),
            options: WalkOptions::default(),
            pool: BufferPool::new(1 << 20),
            columns,
        }
    }

    fn segment(data: Bytes) -> Arc<Segment> {
        Arc::new(Segment::new(data, TopicPartition { topic: "t".into(), partition: 0 }))
    }

    /// Rows of nulls, each of which it tells.
    struct ToldColumn {
        told: mpsc::Sender<()>,
        rows: usize,
    }

    impl TypedColumn for ToldColumn {
        fn data_type(&self) -> DataType {
            DataType::Null
        }

        fn append(&mut self, _: Option<&[u8]>, _: RecordContext<'_>) -> Result<Decoded, Lookup<BadValue>> {
            self.rows += 1;
            let _ = self.told.send(());
            Ok(Decoded::Whole)
        }

        fn rows(&self) -> usize {
            self.rows
        }

        fn truncate(&mut self, rows: usize) {
            self.rows = rows;
        }

        fn bytes(&self) -> usize {
            0
        }

        fn finish(&mut self) -> (ArrayRef, usize) {
            (Arc::new(NullArray::new(std::mem::take(&mut self.rows))), 0)
        }

        fn extend(&mut self, _: &dyn Array, rows: Range<usize>) {
            self.rows += rows.len();
        }
    }

    #[test]
    fn a_reader_that_would_wait_for_a_segment_decodes_the_next_one() {
        let (told, decoded) = mpsc::channel();
        let told = Mutex::new(told);
        let make = move |_: &BufferPool| -> Box<dyn TypedColumn> {
            Box::new(ToldColumn { told: lock(&told).clone(), rows: 0 })
        };
        let value = Some(TypedSpec { make: Arc::new(make), on_bad: OnBadValue::Fail, flatten: false });
        let columns = BatchColumns { value, ..ColumnSet::default().into() };
        let mut encoder = BatchEncoder::new();
        encoder.append(NewRecord::default());
        let mut data = Vec::new();
        encoder.encode(&mut Compressor::new(), &mut data).expect("encodes");
        let (budget, data) = (Budget::new(1 << 20), Bytes::from(data));
        let (queue, busy, next) = (Arc::new(queue(&budget, columns)), segment(data.clone()), segment(data.clone()));
        let taken_by_a_thread = busy.begin().expect("nobody else took it");
        queue.lock().segments.extend([Arc::downgrade(&busy), Arc::downgrade(&next)]);
        let reader = thread::spawn({
            let (queue, busy) = (Arc::clone(&queue), Arc::clone(&busy));
            move || {
                let taken = queue.take(&busy, &mut DecodeScratch::new(&queue.columns, &queue.pool));
                matches!(taken, Some(SegmentPayload::Raw(_)))
            }
        });
        decoded.recv_timeout(Duration::from_secs(60)).expect("the next one is decoded meanwhile");
        busy.finish(SegmentState::Raw(taken_by_a_thread));
        assert!(reader.join().expect("no panic"), "it has what it waited for");
        assert!(matches!(next.take(), Some(SegmentPayload::Inflated(..))));
        assert_eq!(budget.used(), 0);
    }

    /// The guard of the match that looked was still held where the state was put back: the thread waited for itself,
    /// for ever.
    #[test]
    fn a_segment_that_its_reader_took_first_is_left_to_it() {
        let budget = Budget::new(1 << 20);
        let (queue, segment) = (queue(&budget, BatchColumns::default()), segment(Bytes::from_static(b"a batch")));
        assert!(matches!(segment.take(), Some(SegmentPayload::Raw(_))));
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            let charge = budget.try_take(100).expect("fits");
            let mut scratch = DecodeScratch::new(&queue.columns, &queue.pool);
            queue.inflate(&segment, charge, &mut scratch);
            let _ = done.send((segment.take().is_none(), budget.used()));
        });
        let outcome = ended.recv_timeout(Duration::from_secs(60)).expect("the thread goes on");
        assert_eq!(outcome, (true, 0));
    }
}
