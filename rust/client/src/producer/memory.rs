//! The bound on memory (`buffer.memory`): the bytes of each batch, and the senders that wait for room.
//!
//! The capacity of buffers is counted, from the opening of a batch to its end. One topic may hold at most eight times
//! the memory that is free, so that a topic whose leader is gone leaves room for others (req S166).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::lock::lock;
use tokio::sync::oneshot;

const TOPIC_SHARE: usize = 8;

/// Longest sleep of a waiting thread before it checks again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The memory of one producer. Clones share the bound.
#[derive(Clone)]
pub(crate) struct Memory(Arc<Inner>);

struct Inner {
    limit: usize,
    used: AtomicUsize,
    releases: AtomicU64,
    /// The value of `releases` when a reservation was refused last.
    refused_at: AtomicU64,
    lifted: AtomicBool,
    closed: AtomicBool,
    waiting: AtomicUsize,
    waiters: Mutex<VecDeque<(usize, Waker)>>,
}

enum Waker {
    Thread(std::thread::Thread),
    Task(oneshot::Sender<()>),
}

/// Bytes that a topic holds.
pub(crate) type TopicUsage = Arc<AtomicUsize>;

/// Memory that is reserved, until it is dropped.
pub(crate) struct Charge {
    memory: Memory,
    topic: TopicUsage,
    bytes: usize,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Inner {
            limit,
            used: AtomicUsize::new(0),
            releases: AtomicU64::new(1),
            refused_at: AtomicU64::new(0),
            lifted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            waiters: Mutex::default(),
        }))
    }

    pub(crate) fn usage(&self) -> (usize, usize) {
        (self.0.used.load(Ordering::Relaxed), self.0.limit)
    }

    /// Number of threads and tasks that wait for room.
    pub(crate) fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// A charge of 0 bytes, to be raised.
    pub(crate) fn charge(&self, topic: &TopicUsage) -> Charge {
        Charge { memory: self.clone(), topic: topic.clone(), bytes: 0 }
    }

    /// Lifts the bound until the result is dropped: for records whose memory was reserved already, in another buffer.
    /// Nothing else may be sent meanwhile.
    pub(crate) fn lift(&self) -> LimitLiftGuard {
        self.0.lifted.store(true, Ordering::Release);
        LimitLiftGuard(self.clone())
    }

    fn reserve(&self, topic: &AtomicUsize, bytes: usize) -> bool {
        let inner = &*self.0;
        let of_topic = topic.load(Ordering::Relaxed);
        let fits = |used: usize| {
            // A record that is alone has nothing to wait for: a bound below the size of one record must not block it
            // for ever.
            let alone = used == 0 || inner.lifted.load(Ordering::Acquire);
            let free = inner.limit.checked_sub(used + bytes);
            alone || free.is_some_and(|free| of_topic == 0 || of_topic + bytes <= free.saturating_mul(TOPIC_SHARE))
        };
        let reserve = |used: usize| fits(used).then_some(used + bytes);
        let reserved = inner.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, reserve).is_ok();
        if reserved {
            topic.fetch_add(bytes, Ordering::Relaxed);
        } else {
            inner.refused_at.store(inner.releases.load(Ordering::Acquire), Ordering::Release);
        }
        reserved
    }

    fn release(&self, topic: &AtomicUsize, bytes: usize) {
        topic.fetch_sub(bytes, Ordering::Relaxed);
        self.0.used.fetch_sub(bytes, Ordering::AcqRel);
        self.0.releases.fetch_add(1, Ordering::AcqRel);
        if self.0.waiting.load(Ordering::Acquire) > 0 {
            self.wake();
        }
    }

    /// Wakes the senders that have waited longest, as many as there is room for.
    fn wake(&self) {
        let mut free = self.0.limit.saturating_sub(self.0.used.load(Ordering::Acquire));
        let mut woken = Vec::new();
        let mut waiters = self.waiters();
        while let Some((needed, _)) = waiters.front() {
            if *needed > free && self.0.used.load(Ordering::Acquire) > 0 {
                break;
            }
            free = free.saturating_sub(*needed);
            woken.extend(waiters.pop_front());
        }
        drop(waiters);
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// True if a refused reservation of `bytes` is worth another attempt. A topic that holds its share is refused
    /// although there is room. So something must have been released since, or some time must have passed, because
    /// another sender's refusal may have hidden a release.
    fn has_room(&self, bytes: usize, waiting_since: Instant) -> bool {
        let used = self.0.used.load(Ordering::Acquire);
        let fits = used == 0 || used + bytes <= self.0.limit;
        let released = self.0.releases.load(Ordering::Acquire) > self.0.refused_at.load(Ordering::Acquire);
        self.is_closed() || fits && (released || waiting_since.elapsed() >= LOOK_AGAIN / 2)
    }

    /// Waits for room for `bytes`, or for the producer to close, at most until `until`. Returns false if there was no
    /// room in time.
    pub(crate) fn wait(&self, bytes: usize, until: Instant) -> bool {
        self.0.waiting.fetch_add(1, Ordering::AcqRel);
        self.waiters().push_back((bytes, Waker::Thread(std::thread::current())));
        let since = Instant::now();
        let there = loop {
            if self.has_room(bytes, since) {
                break true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                break false;
            }
            std::thread::park_timeout(left.min(LOOK_AGAIN));
        };
        let this = std::thread::current().id();
        self.waiters().retain(|(_, waker)| !matches!(waker, Waker::Thread(thread) if thread.id() == this));
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
        there
    }

    /// As [`Self::wait`], for a task.
    pub(crate) async fn wait_async(&self, bytes: usize) {
        let _waiting = RoomWaiter::new(&self.0.waiting);
        let since = Instant::now();
        while !self.has_room(bytes, since) {
            let (wake, woken) = oneshot::channel();
            self.waiters().push_back((bytes, Waker::Task(wake)));
            // A wake-up between the check and the push is lost, so the wait is short.
            let _ = tokio::time::timeout(LOOK_AGAIN, woken).await;
            self.waiters().retain(|(_, waker)| !matches!(waker, Waker::Task(wake) if wake.is_closed()));
        }
    }

    pub(crate) fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
        let waiters = std::mem::take(&mut *self.waiters());
        waiters.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }

    fn waiters(&self) -> MutexGuard<'_, VecDeque<(usize, Waker)>> {
        lock(&self.0.waiters)
    }
}

pub(crate) struct LimitLiftGuard(Memory);

impl Drop for LimitLiftGuard {
    fn drop(&mut self) {
        self.0.0.lifted.store(false, Ordering::Release);
    }
}

/// Counts one more waiting task until it is dropped: a task may be cancelled at any point.
struct RoomWaiter<'a>(&'a AtomicUsize);

impl<'a> RoomWaiter<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for RoomWaiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Waker {
    fn wake(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Task(task) => drop(task.send(())),
        }
    }
}

impl Charge {
    /// Raises the charge to `bytes`, if there is room.
    pub(crate) fn raise(&mut self, bytes: usize) -> bool {
        let raised = bytes <= self.bytes || self.memory.reserve(&self.topic, bytes - self.bytes);
        if raised {
            self.bytes = self.bytes.max(bytes);
        }
        raised
    }

    /// A charge of 0 bytes for the same topic.
    pub(crate) fn sibling(&self) -> Self {
        self.memory.charge(&self.topic)
    }

    /// Sets the charge to `bytes`, whether there is room or not: for records that move from one buffer to another.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.memory.0.used.fetch_add(bytes - self.bytes, Ordering::AcqRel);
            self.topic.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            self.memory.release(&self.topic, self.bytes - bytes);
        }
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}
