//! Log events, buffered until a thread that may call Python's `logging` takes them.
//!
//! Nothing here waits: an event is recorded under a lock that is held for moments, and a hook tells whoever passes
//! events on. A level that is off costs one comparison.

pub mod kinds;
mod repeats;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Instant, SystemTime};

use monedula_engine::TopicPartition;
use monedula_protocol::error_code::ErrorCode;

use self::repeats::Repeats;
use crate::lock::lock;

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

/// A kind of events.
#[derive(Clone, Copy, Debug)]
pub struct EventKind {
    /// The name, which stays the same from version to version.
    pub name: &'static str,
    /// The part of the client, such as `network`: the child logger.
    pub part: &'static str,
    /// The level of all events of this kind.
    pub level: Level,
    /// True if repetitions are counted instead of logged one by one.
    pub is_limited: bool,
}

/// Subject of an event. The group and `client.id` are those of the [`Log`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fields {
    /// The broker as host:port.
    pub broker: Option<String>,
    /// The topic.
    pub topic: Option<Arc<str>>,
    /// The partition.
    pub partition: Option<i32>,
    /// Kafka's name of an error.
    pub error_code: Option<&'static str>,
}

/// The text of an event and its fields.
#[derive(Clone, Debug)]
pub struct Entry {
    message: String,
    fields: Fields,
}

impl From<String> for Entry {
    fn from(message: String) -> Self {
        Self { message, fields: Fields::default() }
    }
}

impl Entry {
    /// An entry that is about nothing in particular.
    pub fn new(message: impl Into<String>) -> Self {
        message.into().into()
    }

    /// Names the broker that the event is about, as host:port.
    #[must_use]
    pub fn broker(mut self, broker: impl Into<String>) -> Self {
        self.fields.broker = Some(broker.into());
        self
    }

    /// Names the topic that the event is about.
    #[must_use]
    pub fn topic(mut self, topic: &Arc<str>) -> Self {
        self.fields.topic = Some(topic.clone());
        self
    }

    /// Names the partition that the event is about.
    #[must_use]
    pub fn partition(self, partition: &TopicPartition) -> Self {
        let mut entry = self.topic(&partition.topic);
        entry.fields.partition = Some(partition.partition);
        entry
    }

    /// A broker answered with this error.
    #[must_use]
    pub fn code(mut self, code: ErrorCode) -> Self {
        self.fields.error_code = Some(code.name());
        self
    }
}

/// A log event.
#[derive(Clone, Debug)]
pub struct Event {
    /// The kind.
    pub kind: EventKind,
    /// The level. That of the kind, except for the embedded broker's.
    pub level: Level,
    /// The text.
    pub message: String,
    /// Subject.
    pub fields: Fields,
    /// Number of repetitions since it was last told of; 0 for the first one.
    pub repeated: u64,
    /// Time of the event, which may be long before it is drained.
    pub at: SystemTime,
}

/// Events since the last drain.
#[derive(Debug, Default)]
pub struct Drained {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// Number of older events that were dropped for lack of room.
    pub lost: usize,
    /// Time of the next drain at the latest, because repetitions are due.
    pub due_at: Option<Instant>,
}

/// A bounded queue of log events; cheap to clone. When it is full, the oldest event is dropped and counted.
#[derive(Clone, Debug)]
pub struct Log(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client_id: Option<String>,
    group: Option<String>,
    threshold: AtomicU8,
    state: Mutex<LogState>,
    on_event: OnceLock<fn()>,
}

#[derive(Debug, Default)]
struct LogState {
    events: VecDeque<Event>,
    lost: usize,
    repeats: Repeats,
}

impl LogState {
    const CAPACITY: usize = 1000;

    fn push(&mut self, event: Event) {
        if self.events.len() == Self::CAPACITY {
            self.events.pop_front();
            self.lost += 1;
        }
        self.events.push_back(event);
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::of(None, None)
    }
}

impl Log {
    /// The log of a client with this `client.id` and `group.id`.
    pub fn of(client_id: Option<String>, group: Option<String>) -> Self {
        let threshold = AtomicU8::new(Level::Info as u8);
        let (state, on_event) = (Mutex::default(), OnceLock::new());
        Self(Arc::new(Inner { client_id, group, threshold, state, on_event }))
    }

    /// The `client.id` that all events are of.
    pub fn client_id(&self) -> Option<&str> {
        self.0.client_id.as_deref()
    }

    /// The group that all events are of.
    pub fn group(&self) -> Option<&str> {
        self.0.group.as_deref()
    }

    /// Has `hook` called after each event, by the thread that recorded it. The first hook stays.
    pub fn on_event(&self, hook: fn()) {
        let _ = self.0.on_event.set(hook);
    }

    /// True if somebody is told of events.
    pub fn has_hook(&self) -> bool {
        self.0.on_event.get().is_some()
    }

    /// Only events of `level` and above are kept from now on.
    pub fn set_threshold(&self, level: u8) {
        self.0.threshold.store(level, Ordering::Relaxed);
    }

    /// True if an event of `level` would be kept.
    pub fn wants(&self, level: Level) -> bool {
        level as u8 >= self.0.threshold.load(Ordering::Relaxed)
    }

    /// Records an event; `entry` is not called if the level is below the threshold.
    pub fn record<E: Into<Entry>>(&self, kind: &EventKind, entry: impl FnOnce() -> E) {
        self.record_at_level(kind.level, kind, entry);
    }

    /// As [`Self::record`], with another level than the kind's.
    pub fn record_at_level<E: Into<Entry>>(&self, level: Level, kind: &EventKind, entry: impl FnOnce() -> E) {
        if self.wants(level) {
            let Entry { message, fields } = entry().into();
            let at = SystemTime::now();
            self.take(Instant::now(), Event { kind: *kind, level, message, fields, repeated: 0, at });
        }
    }

    fn take(&self, now: Instant, event: Event) {
        // A log for debugging has every event.
        let is_limited = event.kind.is_limited && !self.wants(Level::Debug);
        let mut state = lock(&self.0.state);
        if is_limited {
            // A window that is over ends before this event, whether somebody drains in time or not.
            for due in state.repeats.due(now, false) {
                state.push(due);
            }
            let Some(event) = state.repeats.pass(now, event) else { return };
            state.push(event);
        } else {
            state.push(event);
        }
        drop(state);
        if let Some(hook) = self.0.on_event.get() {
            hook();
        }
    }

    /// Takes what was recorded. At the end of the log, repetitions are not waited for.
    pub fn drain(&self, is_end: bool) -> Drained {
        self.drain_at(Instant::now(), is_end)
    }

    fn drain_at(&self, now: Instant, is_end: bool) -> Drained {
        let mut state = lock(&self.0.state);
        for due in state.repeats.due(now, is_end) {
            state.push(due);
        }
        let events = state.events.drain(..).collect();
        Drained { events, lost: std::mem::take(&mut state.lost), due_at: state.repeats.due_at() }
    }

    /// The client was closed: repetitions are not kept back any longer.
    pub(crate) fn finish(&self) {
        let mut state = lock(&self.0.state);
        let due = state.repeats.due(Instant::now(), true);
        due.into_iter().for_each(|due| state.push(due));
        drop(state);
        if let Some(hook) = self.0.on_event.get() {
            hook();
        }
    }

    /// True if there is nothing to drain now.
    pub fn is_empty(&self) -> bool {
        lock(&self.0.state).events.is_empty()
    }

    /// True if whoever asks has the only handle: nothing more will be recorded.
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
