//! Passes log events of clients and embedded brokers to Python's `logging`.
//!
//! A thread of its own passes events on when they happen, whether or not a call waits. While it waits for events it is
//! not attached to the interpreter. A call that returns or raises waits until the rest is passed on, so that the events
//! before an error are logged before it. It calls no handler itself while there is that thread: Python runs signal
//! handlers in the main thread, between any two instructions, and `logging` takes their exceptions for errors of its
//! handlers. The interpreter's exit ends the thread; a forked child begins without one. Where gevent or eventlet have
//! replaced the locks of handlers, those belong to greenlets of one thread, and calls in that thread pass events on.

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use monedula_client::blocking;
use monedula_client::lock::lock;
use monedula_client::log::{Drained, Event, Log};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use crate::interpreter::attaching::attached;
use crate::interpreter::deferred_error::{put_off, put_off_any};
use crate::interpreter::greenlets;
use crate::runtime::{is_ending, is_importer};

/// A log event: level, part, name, message, seconds since the epoch, fields.
type PyLogged<'py> = (u8, &'static str, &'static str, String, f64, Bound<'py, PyDict>);

/// Longest wait of a call for handlers that have its events: one may be slow, or wait for a lock of the caller's.
const PATIENCE: Duration = Duration::from_millis(50);

/// Longest wait of a call for the thread to begin, which needs a processor and the interpreter for that.
const START: Duration = Duration::from_secs(1);

/// Longest wait of the interpreter's exit for the thread: handlers are called for another second, and the one that runs
/// then has as long again.
const LAST_HANDLER: Duration = Duration::from_secs(2);

/// Thread that passes events on, in one process.
struct Forwarder {
    /// The logs, each with the part that has a level of its own, or "".
    logs: Mutex<Vec<(Log, &'static str)>>,
    rounds: Mutex<Rounds>,
    passed: Condvar,
    /// True if there are events for the thread; it parks otherwise.
    thread: Thread,
    ends: AtomicBool,
    has_ended: Mutex<bool>,
    ended: Condvar,
}

/// Number of times that the thread has taken events and passed them on.
#[derive(Default)]
struct Rounds {
    begun: u64,
    ended: u64,
    /// Time since which the handlers have the events of the round that has not ended.
    handling_since: Option<Instant>,
}

/// The forwarder of this process; null before the first client, and in a forked child. Its thread uses it: not dropped.
static FORWARDER: AtomicPtr<Forwarder> = AtomicPtr::new(null_mut());

thread_local! {
    /// True if this thread is inside of `logging` with events: a handler that calls a client must not wait for itself.
    static PASSES: Cell<bool> = const { Cell::new(false) };
}

fn forwarder() -> Option<&'static Forwarder> {
    // SAFETY: the pointer is null, or comes from a box that was leaked.
    unsafe { FORWARDER.load(Ordering::Acquire).as_ref() }
}

/// Passes the events of `log` on from now on, and takes the level of the logger `monedula`, or of its child `part`.
pub(crate) fn follow(py: Python<'_>, log: &Log, part: &'static str) {
    follow_level(py, log, part);
    notice_greenlets(py);
    watch(log, part);
}

/// True if greenlets were in place of threads when a client called last.
static IS_GREEN: AtomicBool = AtomicBool::new(false);

fn notice_greenlets(py: Python<'_>) -> bool {
    let is_green = greenlets::is_patched(py).unwrap_or_else(|error| {
        put_off_any(py, error);
        false
    });
    IS_GREEN.store(is_green, Ordering::Relaxed);
    is_green
}

/// Has the thread pass the events of `log` on.
fn watch(log: &Log, part: &'static str) {
    let Some(forwarder) = forwarder().or_else(start) else { return };
    lock(&forwarder.logs).push((log.clone(), part));
    log.on_event(|| {
        if let Some(forwarder) = self::forwarder() {
            forwarder.thread.unpark();
        }
    });
    forwarder.thread.unpark();
}

/// Starts the thread. Without one, if the system refuses it, calls pass events on.
fn start() -> Option<&'static Forwarder> {
    if is_ending() {
        return None;
    }
    let (ours, thread) = std::sync::mpsc::channel::<&'static Forwarder>();
    let run = move || {
        if let Ok(forwarder) = thread.recv() {
            // Attached once, so that its thread state stays: CPython up to 3.13 crashes without memory for another one.
            attached(|py| py.detach(|| forwarder.run()));
        }
    };
    let started = blocking::start_thread(blocking::named("monedula-log"), run).ok()?;
    let made = Box::into_raw(Box::new(Forwarder {
        logs: Mutex::default(),
        rounds: Mutex::default(),
        passed: Condvar::new(),
        thread: started.thread().clone(),
        ends: AtomicBool::new(false),
        has_ended: Mutex::new(false),
        ended: Condvar::new(),
    }));
    match FORWARDER.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        // The other end of the channel is dropped if another thread was faster: the new thread ends.
        Err(_) => {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(made) });
        }
        Ok(_) => {
            if let Some(forwarder) = forwarder() {
                let _ = ours.send(forwarder);
            }
        }
    }
    forwarder()
}

/// In a forked child there is no thread, and whoever held a lock of the forwarder's does not exist either.
pub(crate) fn forked() {
    FORWARDER.store(null_mut(), Ordering::Release);
}

impl Forwarder {
    fn run(&self) {
        let mut due_at: Option<Instant> = None;
        while !self.ends.load(Ordering::Acquire) {
            match due_at {
                Some(at) => std::thread::park_timeout(at.saturating_duration_since(Instant::now())),
                None => std::thread::park(),
            }
            due_at = self.pass_all_on();
        }
        *lock(&self.has_ended) = true;
        self.ended.notify_all();
    }

    /// Passes on what there is. Returns when there will be something again at the latest.
    fn pass_all_on(&self) -> Option<Instant> {
        if IS_GREEN.load(Ordering::Relaxed) {
            return None;
        }
        lock(&self.rounds).begun += 1;
        let (drained, due_at) = self.drain(false);
        if !drained.is_empty() {
            attached(|py| {
                lock(&self.rounds).handling_since = Some(Instant::now());
                pass_on(py, drained);
                // Passed on without the lock: the logger's code may let other threads run, which take it.
                let logs = lock(&self.logs).clone();
                for (log, part) in logs {
                    follow_level(py, &log, part);
                }
            });
        }
        let mut rounds = lock(&self.rounds);
        (rounds.ended, rounds.handling_since) = (rounds.begun, None);
        drop(rounds);
        self.passed.notify_all();
        due_at
    }

    /// Events of all logs, and the latest time at which there will be further ones.
    fn drain(&self, is_end: bool) -> (Vec<(Log, Drained)>, Option<Instant>) {
        let (mut all, mut due_at) = (Vec::new(), None);
        lock(&self.logs).retain(|(log, _)| {
            let is_over = log.is_abandoned();
            let drained = log.drain(is_end || is_over);
            due_at = due_at.into_iter().chain(drained.due_at.filter(|_| !is_over)).min();
            if !drained.events.is_empty() || drained.lost > 0 {
                all.push((log.clone(), drained));
            }
            !is_over
        });
        (all, due_at)
    }

    fn is_passing(&self) -> bool {
        let rounds = lock(&self.rounds);
        rounds.ended < rounds.begun
    }

    /// Waits until the thread has passed on what `log` has by now, and what it has taken before, for a while.
    fn wait(&self, log: &Log) {
        let give_up_at = Instant::now() + START;
        let mut rounds = lock(&self.rounds);
        // A round that has begun may have looked at this log already.
        let goal = if log.is_empty() { rounds.begun } else { rounds.begun + 1 };
        if rounds.ended < goal {
            self.thread.unpark();
        }
        while rounds.ended < goal && !self.ends.load(Ordering::Acquire) {
            let until = rounds.handling_since.map_or(give_up_at, |since| give_up_at.min(since + PATIENCE));
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // Waits no longer than handlers may take, since nobody tells when they begin.
            rounds = self.passed.wait_timeout(rounds, left.min(PATIENCE)).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Passes on what is left of a log, so that it is logged before the call returns, and updates the log's level.
pub(crate) fn flush_log(py: Python<'_>, log: &Log) {
    flush_part(py, log, "");
}

/// Like [`flush_log`], for a part of monedula whose child logger has its own level.
pub(crate) fn flush_part(py: Python<'_>, log: &Log, part: &'static str) {
    // A handler that calls a client, with events in hand.
    if PASSES.get() {
        return;
    }
    if notice_greenlets(py) {
        // Greenlets must not wait for threads of our own.
        let is_green = greenlets::has_hub(py).map_err(|error| put_off_any(py, error)).unwrap_or_default();
        if is_green || is_importer() {
            pass_on_all_of(py, log);
        }
        return follow_level(py, log, part);
    }
    match forwarder().filter(|forwarder| log.has_hook() && !forwarder.ends.load(Ordering::Acquire)) {
        Some(forwarder) => {
            if !log.is_empty() || forwarder.is_passing() {
                py.detach(|| forwarder.wait(log));
            }
        }
        None => {
            if pass_on_all_of(py, log) && !log.has_hook() {
                // The system had no thread then. It may have one now.
                watch(log, part);
            }
        }
    }
    follow_level(py, log, part);
}

/// Ends the thread, and waits for it for a while. Called detached, when the interpreter exits and no client is left.
pub(crate) fn end() {
    let Some(forwarder) = forwarder() else { return };
    Python::attach(|py| {
        if let Err(error) = function(py, &BEGIN_TO_END, "begin_to_end").and_then(|begin| begin.call0().map(drop)) {
            put_off(py, error);
        }
    });
    forwarder.ends.store(true, Ordering::Release);
    forwarder.thread.unpark();
    let has_ended = lock(&forwarder.has_ended);
    drop(forwarder.ended.wait_timeout_while(has_ended, LAST_HANDLER, |has_ended| !*has_ended));
}

/// Passes on everything that is left, at the end of the interpreter.
pub(crate) fn flush_last(py: Python<'_>) {
    if let Some(forwarder) = forwarder() {
        pass_on(py, forwarder.drain(true).0);
    }
}

/// Returns true if there was anything.
fn pass_on_all_of(py: Python<'_>, log: &Log) -> bool {
    let drained = log.drain(false);
    let is_any = !drained.events.is_empty() || drained.lost > 0;
    if is_any {
        pass_on(py, vec![(log.clone(), drained)]);
    }
    is_any
}

/// Gives events to `logging`. That must not break the call that they are about.
fn pass_on(py: Python<'_>, all: Vec<(Log, Drained)>) {
    let lost: usize = all.iter().map(|(_, drained)| drained.lost).sum();
    let mut events: Vec<(Log, Event)> = Vec::new();
    for (log, drained) in all {
        events.extend(drained.events.into_iter().map(|event| (log.clone(), event)));
    }
    events.sort_by_key(|(_, event)| event.at);
    PASSES.set(true);
    let passed = events.into_iter().map(|(log, event)| logged(py, &log, event)).collect::<PyResult<Vec<_>>>();
    let passed = passed.and_then(|events| function(py, &EMIT, "emit")?.call1((events, lost, is_ending())).map(drop));
    PASSES.set(false);
    if let Err(error) = passed {
        put_off(py, error);
    }
}

fn logged<'py>(py: Python<'py>, log: &Log, event: Event) -> PyResult<PyLogged<'py>> {
    let fields = PyDict::new(py);
    fields.set_item("client_id", log.client_id())?;
    fields.set_item("group", log.group())?;
    fields.set_item("broker", event.fields.broker)?;
    fields.set_item("topic", event.fields.topic.as_deref())?;
    fields.set_item("partition", event.fields.partition)?;
    fields.set_item("error_code", event.fields.error_code)?;
    fields.set_item("repeated", event.repeated)?;
    let at = event.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    Ok((event.level as u8, event.kind.part, event.kind.name, event.message, at, fields))
}

/// Takes the level of the logger, which the program may change at any time.
fn follow_level(py: Python<'_>, log: &Log, part: &str) {
    match threshold(py, part) {
        Ok(threshold) => log.set_threshold(threshold),
        Err(error) => put_off(py, error),
    }
}

/// The level below which the core need not keep events: of one part, or if `part` is empty of all but the broker. Reads
/// attributes alone, so that no Python code runs, out of which the exception of a signal handler could come.
fn threshold(py: Python<'_>, part: &str) -> PyResult<u8> {
    let followed = function(py, &FOLLOWED, "FOLLOWED")?.get_item(part)?;
    let (parent, children): (Bound<'_, PyAny>, Bound<'_, PyTuple>) = followed.extract()?;
    let mut lowest = effective_level(parent)?;
    for child in &children {
        let level = own_level(&child)?;
        if level != NOT_SET {
            lowest = lowest.min(level);
        }
    }
    Ok(lowest.clamp(0, 255) as u8)
}

/// The level of a logger that has none of its own: that of the next logger above it.
const NOT_SET: i64 = 0;

fn own_level(logger: &Bound<'_, PyAny>) -> PyResult<i64> {
    logger.getattr(intern!(logger.py(), "level"))?.extract()
}

fn effective_level(mut logger: Bound<'_, PyAny>) -> PyResult<i64> {
    while !logger.is_none() {
        let level = own_level(&logger)?;
        if level != NOT_SET {
            return Ok(level);
        }
        logger = logger.getattr(intern!(logger.py(), "parent"))?;
    }
    Ok(NOT_SET)
}

static BEGIN_TO_END: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static EMIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static FOLLOWED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn function<'py>(py: Python<'py>, once: &PyOnceLock<Py<PyAny>>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let found = || Ok::<_, PyErr>(py.import("monedula._logging")?.getattr(name)?.unbind());
    Ok(once.get_or_try_init(py, found)?.bind(py).clone())
}
