//! Log events, kept until someone who may log them (a thread that holds the GIL) drains them.

use crate::lock::lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// How important an event is; the numbers are those of Python's `logging`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Bytes of requests and answers.
    Trace = 5,
    /// Every request, answer and connection attempt.
    Debug = 10,
    /// Rare and ordinary.
    Info = 20,
    /// Something failed and is tried again, or data was lost by someone else.
    Warning = 30,
}

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its importance.
    pub level: Level,
    /// The part of the client that says it, such as `network`.
    pub target: &'static str,
    /// The sentence.
    pub message: String,
    /// When it happened: nobody may drain it for long.
    pub at: SystemTime,
}

/// A bounded queue of events; cheap to clone. When it is full the oldest go, and their number is told.
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

    /// Keeps an event; `message` is not called if nobody wants to know.
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

    /// Takes all events, oldest first, and how many were lost before them.
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
