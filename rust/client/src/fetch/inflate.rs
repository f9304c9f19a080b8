//! Decompression ahead of the reader, on threads of its own, in parallel across partitions and batches.
//!
//! Decompressing ahead is an optimisation, and nothing waits for it to begin: a segment that no thread has taken yet is
//! decompressed by the reader itself, batch by batch, while walking.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, Builder};
use std::time::Duration;

use bytes::Bytes;
use monedula_columns::{BufferPool, Inflated, Scratch, WalkOptions, inflate};

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

/// A run of whole record batches of one partition.
pub(crate) struct Segment {
    state: Mutex<SegmentState>,
    finished: Condvar,
    compressed_bytes: usize,
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
    /// Decompressed and checked; the charge is to be kept as long as the data.
    Inflated(Inflated, Charge),
}

impl Segment {
    pub(crate) fn new(data: Bytes) -> Self {
        Self { compressed_bytes: data.len(), state: Mutex::new(SegmentState::Raw(data)), finished: Condvar::new() }
    }

    pub(crate) fn compressed_bytes(&self) -> usize {
        self.compressed_bytes
    }

    /// Takes the data; waits if a thread is at work on it.
    pub(crate) fn take(&self) -> Option<SegmentPayload> {
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

/// The threads and their queue.
pub(crate) struct Inflater {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    budget: Budget,
    options: WalkOptions,
    pool: BufferPool,
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

impl Inflater {
    pub(crate) fn start(threads: usize, budget: &Budget, options: &WalkOptions, pool: &BufferPool) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue { ratio: 4.0, ..Queue::default() }),
            wake: Condvar::new(),
            budget: budget.clone(),
            options: *options,
            pool: pool.clone(),
        });
        let threads = (0..threads).filter_map(|index| {
            let shared = shared.clone();
            let builder = Builder::new().name(format!("monedula-inflate-{index}")).stack_size(STACK_BYTES);
            start_thread(builder, move || shared.work()).ok()
        });
        Self { threads: threads.collect(), shared }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.threads.is_empty()
    }

    pub(crate) fn push(&self, segments: impl IntoIterator<Item = Weak<Segment>>) {
        let mut queue = self.shared.lock();
        queue.segments.extend(segments);
        drop(queue);
        self.shared.wake.notify_all();
    }

    /// Ends the threads, each after its current segment.
    pub(crate) fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    fn work(&self) {
        let mut scratch = Scratch::default();
        while let Some((segment, charge)) = self.next() {
            self.inflate(&segment, charge, &mut scratch);
        }
    }

    fn inflate(&self, segment: &Segment, mut charge: Charge, scratch: &mut Scratch) {
        let Some(data) = segment.begin() else { return };
        let work = AssertUnwindSafe(|| {
            // No more than there is budget for: the rest of a segment that grows beyond that stays as it came.
            let mut grant = |bytes| charge.reach(bytes);
            inflate(&data, &self.options, &self.pool, scratch, &mut grant)
        });
        let Ok(inflated) = catch_unwind(work) else {
            // Out of memory. The reader, which waits for the segment, tries by itself, and raises the error to the
            // user.
            segment.finish(SegmentState::Raw(data));
            *scratch = Scratch::default();
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

    /// The next segment with the budget for its decompressed form.
    fn next(&self) -> Option<(Arc<Segment>, Charge)> {
        let mut look_again = LOOK_AGAIN_MIN;
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return None;
            }
            let Some(segment) = queue.segments.front().map(Weak::upgrade) else {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let raw = segment.filter(|segment| matches!(*segment.lock(), SegmentState::Raw(_)));
            let Some(segment) = raw else {
                queue.segments.pop_front();
                continue;
            };
            let estimate = (segment.compressed_bytes as f64 * queue.ratio.max(1.0) * HEADROOM) as usize;
            // A segment that would not fit is begun nevertheless, and decompressed as far as there is room.
            let estimate = estimate.min(self.budget.limit() / 4);
            if let Some(charge) = self.budget.try_take(estimate) {
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The guard of the match that looked was still held where the state was put back: the thread waited for itself,
    /// for ever.
    #[test]
    fn a_segment_that_its_reader_took_first_is_left_to_it() {
        let budget = Budget::new(1 << 20);
        let shared = Shared {
            queue: Mutex::default(),
            wake: Condvar::new(),
            budget: budget.clone(),
            options: WalkOptions::default(),
            pool: BufferPool::new(1 << 20),
        };
        let segment = Arc::new(Segment::new(Bytes::from_static(b"a batch")));
        assert!(matches!(segment.take(), Some(SegmentPayload::Raw(_))));
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            let charge = budget.try_take(100).expect("fits");
            shared.inflate(&segment, charge, &mut Scratch::default());
            let _ = done.send((segment.take().is_none(), budget.used()));
        });
        let outcome = ended.recv_timeout(Duration::from_secs(60)).expect("the thread goes on");
        assert_eq!(outcome, (true, 0));
    }
}
