//! Log events, buffered until a thread that may call Python's `logging` (because it holds the GIL) drains them.

use crate::lock::lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// The level of an event; the numbers are those of Python's `logging`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Bytes of requests and responses.
    Trace = 5,
    /// Each request, response and connection attempt.
    Debug = 10,
    /// Rare events in normal operation.
    Info = 20,
    /// Something failed and is retried, or data was lost through no fault of the client.
    Warning = 30,
}

/// A log event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its level.
    pub level: Level,
    /// The part of the client that recorded it, such as `network`.
    pub target: &'static str,
    /// The text.
    pub message: String,
    /// When it was recorded, which may be long before it is drained.
    pub at: SystemTime,
}

/// A bounded queue of log events; cheap to clone. When it is full, the oldest event is dropped and counted.
#[derive(Clone, Debug)]
pub struct Log(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    threshold: AtomicU8,
    events: Mutex<(VecDeque<Event>, usize)>,
}

impl Default for Log {
    fn default() -> Self {
        let threshold = AtomicU8::new(Level::Info as u8);
        Self(Arc::new(Inner { threshold, events: Mutex::default() }))
    }
}

impl Log {
    const CAPACITY: usize = 1000;

    /// Only events of `level` and above are kept from now on.
    pub fn set_threshold(&self, level: u8) {
        self.0.threshold.store(level, Ordering::Relaxed);
    }

    /// Whether an event of `level` would be kept.
    pub fn wants(&self, level: Level) -> bool {
        level as u8 >= self.0.threshold.load(Ordering::Relaxed)
    }

    /// Records an event; `message` is not called if the level is below the threshold.
    pub fn record(&self, level: Level, target: &'static str, message: impl FnOnce() -> String) {
        if !self.wants(level) {
            return;
        }
        let event = Event { level, target, message: message(), at: SystemTime::now() };
        let mut events = lock(&self.0.events);
        if events.0.len() == Self::CAPACITY {
            events.0.pop_front();
            events.1 += 1;
        }
        events.0.push_back(event);
    }

    /// Takes all events, oldest first, and the number of events that were dropped.
    pub fn drain(&self) -> (Vec<Event>, usize) {
        let mut events = lock(&self.0.events);
        let lost = std::mem::take(&mut events.1);
        (events.0.drain(..).collect(), lost)
    }

    /// Whether there is anything to drain.
    pub fn is_empty(&self) -> bool {
        lock(&self.0.events).0.is_empty()
    }
}
