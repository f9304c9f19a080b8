//! Passes log events of clients and embedded brokers to Python's `logging`.
//!
//! A thread of its own passes events on when they happen, whether or not a call waits. While it waits for events it is
//! not attached to the interpreter. A call that returns or raises passes on what is left, so that what led to an error is
//! logged before it. The interpreter's exit ends the thread; a forked child begins without one.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use monedula_client::lock::lock;
use monedula_client::log::{Drained, Event, Log};
use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::attaching::attached;
use crate::python_code::{call, import};
use crate::runtime::is_ending;

/// A log event: level, part, name, message, seconds since the epoch, fields.
type PyLogged<'py> = (u8, &'static str, &'static str, String, f64, Bound<'py, PyDict>);

/// For how long a call waits for events that the thread passes on just now. A handler that is slow, or that waits for a
/// lock of the caller's, holds a call up no longer.
const PATIENCE: Duration = Duration::from_millis(50);

/// For how long the interpreter's exit waits for the thread: handlers are called for another second, and the one that runs
/// then has as long again.
const LAST_HANDLER: Duration = Duration::from_secs(2);

/// What passes events on, in one process.
struct Forwarder {
    /// The logs, each with the part that has a level of its own, or "".
    logs: Mutex<Vec<(Log, &'static str)>>,
    /// Whether a thread has taken events and not passed them all on.
    is_passing: Mutex<bool>,
    passed: Condvar,
    /// Whether there are events for the thread; it parks otherwise.
    thread: Thread,
    ends: AtomicBool,
    has_ended: Mutex<bool>,
    ended: Condvar,
}

/// The forwarder of this process; null before the first client, and in a forked child. Never dropped: its thread uses it.
static FORWARDER: AtomicPtr<Forwarder> = AtomicPtr::new(null_mut());

thread_local! {
    /// Whether this thread is inside of `logging` with events: a handler that calls a client must not wait for itself.
    static PASSES: Cell<bool> = const { Cell::new(false) };
}

fn forwarder() -> Option<&'static Forwarder> {
    // SAFETY: the pointer is null, or comes from a box that was leaked.
    unsafe { FORWARDER.load(Ordering::Acquire).as_ref() }
}

/// Passes the events of `log` on from now on, and takes the level of the logger `monedula`, or of its child `part`.
pub(crate) fn follow(py: Python<'_>, log: &Log, part: &'static str) {
    follow_level(py, log, part);
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
            forwarder.run();
        }
    };
    let started = std::thread::Builder::new().name("monedula-log".into()).spawn(run).ok()?;
    let made = Box::into_raw(Box::new(Forwarder {
        logs: Mutex::default(),
        is_passing: Mutex::new(false),
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
        // Not attached yet: whoever is may wait for this.
        self.begin(None);
        let (drained, due_at) = self.drain(false);
        if !drained.is_empty() {
            attached(|py| {
                pass_on(py, drained);
                // Not under the lock: the logger's code may let other threads run, which take it.
                let logs = lock(&self.logs).clone();
                for (log, part) in logs {
                    follow_level(py, &log, part);
                }
            });
        }
        self.end();
        due_at
    }

    /// What all logs have, and when there will be something again at the latest.
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

    /// Waits until no other thread passes events on, at most for `patience`. [`Self::end`] has to follow if it is true.
    fn begin(&self, patience: Option<Duration>) -> bool {
        let until = patience.map(|patience| Instant::now() + patience);
        let mut is_passing = lock(&self.is_passing);
        while *is_passing {
            is_passing = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return false,
                Some(left) => self.passed.wait_timeout(is_passing, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.passed.wait(is_passing).unwrap_or_else(PoisonError::into_inner),
            };
        }
        *is_passing = true;
        true
    }

    fn end(&self) {
        *lock(&self.is_passing) = false;
        self.passed.notify_all();
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
    match forwarder() {
        None => pass_on_all_of(py, log),
        Some(forwarder) => {
            let has_events = !log.is_empty() || *lock(&forwarder.is_passing);
            if has_events && py.detach(|| forwarder.begin(Some(PATIENCE))) {
                pass_on_all_of(py, log);
                forwarder.end();
            }
        }
    }
    follow_level(py, log, part);
}

/// Ends the thread, and waits for it for a while. Called detached, when the interpreter exits and no client is left.
pub(crate) fn end() {
    let Some(forwarder) = forwarder() else { return };
    Python::attach(|py| {
        if let Err(error) = function(py, &BEGIN_TO_END, "begin_to_end").and_then(|begin| call(&begin, ()).map(drop)) {
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

fn pass_on_all_of(py: Python<'_>, log: &Log) {
    let drained = log.drain(false);
    if !drained.events.is_empty() || drained.lost > 0 {
        pass_on(py, vec![(log.clone(), drained)]);
    }
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
    let passed = passed.and_then(|events| call(&function(py, &EMIT, "emit")?, (events, lost, is_ending())).map(drop));
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
    let threshold = function(py, &THRESHOLD, "threshold");
    let threshold = threshold.and_then(|threshold| call(&threshold, (part,))?.extract::<u8>());
    match threshold {
        Ok(threshold) => log.set_threshold(threshold),
        Err(error) => put_off(py, error),
    }
}

/// Raises an error later if it is no `Exception`, as Ctrl-C is not: the interpreter raises it as soon as it runs on. Ctrl-C
/// just before a call to Python is raised inside that call, where logging, or a library that calls us, would keep it.
/// Errors of logging itself are dropped.
pub(crate) fn put_off(py: Python<'_>, error: PyErr) {
    if error.is_instance_of::<PyException>(py) {
        return;
    }
    *lock(&PUT_OFF) = Some(error);
    // SAFETY: the function needs no argument, and lives as long as the process.
    unsafe { ffi::Py_AddPendingCall(Some(raise_put_off), null_mut()) };
}

static PUT_OFF: Mutex<Option<PyErr>> = Mutex::new(None);

extern "C" fn raise_put_off(_nothing: *mut c_void) -> c_int {
    let Some(error) = lock(&PUT_OFF).take() else {
        return 0;
    };
    Python::attach(|py| error.restore(py));
    -1
}

static BEGIN_TO_END: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static EMIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static THRESHOLD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn function<'py>(py: Python<'py>, once: &PyOnceLock<Py<PyAny>>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let found = || Ok::<_, PyErr>(import(py, "monedula._logging")?.getattr(name)?.unbind());
    Ok(once.get_or_try_init(py, found)?.bind(py).clone())
}
