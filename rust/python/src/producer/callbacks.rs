//! The callbacks of a producer's futures. One Python thread runs them one after the other; it starts with the first
//! callback.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use monedula_client::lock::lock;
use monedula_client::log::{Level, Log};
use pyo3::prelude::*;

use crate::error::argument_error;
use crate::logging::flush_log;
use crate::runtime::{Own, is_ending_elsewhere, park_for_ever};

/// How many callbacks the thread takes at a time. A wait for callbacks therefore waits for at most this many later
/// ones.
const LOT: usize = 1024;

/// A callback that is due, and its argument, the future.
type Job = (Py<PyAny>, Py<PyAny>);

/// The function to call instead of `callback`: in a running asyncio event loop, one that calls it in that loop,
/// otherwise `callback` itself. `asyncio.wait` accepts any object with `add_done_callback`, and expects the call in its
/// own loop.
///
/// # Errors
/// If `callback` is not callable.
pub(super) fn in_its_loop<'py>(
    future: &Bound<'py, PyAny>,
    callback: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = future.py();
    if !callback.is_callable() {
        let message = format!("{} cannot be called: give a function that takes the future", callback.repr()?);
        return Err(argument_error(py, message));
    }
    // If asyncio was not imported, no loop runs. Importing it would cost more than the rest of monedula.
    if !py.import("sys")?.getattr("modules")?.contains("asyncio.events")? {
        return Ok(callback.clone());
    }
    py.import("monedula._awaiting")?.call_method1("in_its_loop", (future, callback))
}

/// Removes a callback that was added in a running event loop. Returns how many were removed.
pub(super) fn forget(future: &Bound<'_, PyAny>, callback: &Bound<'_, PyAny>) -> PyResult<usize> {
    future.py().import("monedula._awaiting")?.call_method1("forget", (future, callback))?.extract()
}

/// The callbacks of one producer.
pub(crate) struct Callbacks {
    state: Mutex<State>,
    changed: Condvar,
    /// The producer's log, which waits for one of its futures pass on to `logging`.
    pub(crate) log: Log,
}

#[derive(Default)]
struct State {
    due: VecDeque<Job>,
    /// Number of callbacks whose future is not done.
    pending: usize,
    /// How many callbacks became due, and how many of these have run.
    queued: u64,
    ran: u64,
    /// How many callbacks the thread has taken and not reported as run.
    taken: u64,
    thread: Option<ThreadId>,
    /// The number of the running thread's desk. `None` if there is no thread: callbacks that become due are dropped
    /// then.
    desk: Option<u64>,
    desks: u64,
    closed: bool,
}

impl Callbacks {
    pub(crate) fn new(log: Log) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), log })
    }

    /// Registers `call` to run with `future`. `on_done` receives a function, and must arrange that it is called when
    /// the future is done.
    pub(crate) fn add(
        self: &Arc<Self>,
        py: Python<'_>,
        call: &Bound<'_, PyAny>,
        future: Py<PyAny>,
        on_done: impl FnOnce(Box<dyn FnOnce() + Send>),
    ) -> PyResult<()> {
        let starts = {
            let mut state = self.state();
            state.pending += 1;
            state.open_desk()
        };
        if let Some(number) = starts
            && let Err(error) = self.start(py, number)
        {
            self.state().pending -= 1;
            return Err(error);
        }
        let (callbacks, job) = (self.clone(), (call.clone().unbind(), future));
        on_done(Box::new(move || callbacks.become_due(job)));
        Ok(())
    }

    fn start(self: &Arc<Self>, py: Python<'_>, number: u64) -> PyResult<()> {
        // If the thread cannot be started, the desk is dropped, which `left` notices.
        let desk = CallbackDesk { callbacks: Own::new(self.clone()), number };
        py.import("monedula._callbacks")?.call_method1("start", (desk,))?;
        Ok(())
    }

    fn become_due(&self, job: Job) {
        let mut state = self.state();
        state.pending -= 1;
        state.queued += 1;
        state.due.push_back(job);
        if state.desk.is_none() {
            return self.give_up(state);
        }
        if state.due.len() == 1 {
            self.changed.notify_all();
        }
    }

    /// The thread of this desk has ended. If it ended unexpectedly, waits for callbacks must not last for ever.
    fn left(&self, number: u64) {
        let mut state = self.state();
        if state.desk != Some(number) {
            return;
        }
        (state.desk, state.thread) = (None, None);
        self.log.record(Level::Warning, "producer", || {
            "the thread that runs callbacks ended; callbacks that are due now are not run".into()
        });
        self.give_up(state);
    }

    /// Drops the callbacks that are due, because there is no thread to run them. They count as run.
    fn give_up(&self, mut state: MutexGuard<'_, State>) {
        (state.ran, state.taken) = (state.queued, 0);
        let due = std::mem::take(&mut state.due);
        let lost = due.len();
        drop(state);
        // Without the lock: objects that the callbacks hold may call into this module when they are dropped.
        drop(due);
        self.changed.notify_all();
        if lost > 0 {
            self.log.record(Level::Warning, "producer", || {
                format!("{lost} callbacks were not run: their thread has ended")
            });
        }
    }

    /// Whether the caller is a callback: the current thread is the one that runs callbacks.
    pub(crate) fn is_current(&self) -> bool {
        self.state().thread == Some(std::thread::current().id())
    }

    /// Waits until as many callbacks have run as [`Self::goal`] returned. Returns whether they have.
    pub(crate) fn settle(&self, goal: u64, until: Instant) -> bool {
        let mut state = self.state();
        loop {
            if state.ran >= goal {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The number of callbacks that have run when all that are due now have run.
    pub(crate) fn goal(&self) -> u64 {
        self.state().queued
    }

    /// Called when the producer is dropped: the thread ends once no callback is pending.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Waits for callbacks that are due. Returns an empty list when the thread must end.
    fn next(&self, number: u64) -> Vec<Job> {
        let mut state = self.state();
        if state.desk != Some(number) {
            return Vec::new();
        }
        state.thread = Some(std::thread::current().id());
        state.ran += std::mem::take(&mut state.taken);
        self.changed.notify_all();
        while state.due.is_empty() {
            if state.closed && state.pending == 0 {
                (state.desk, state.thread) = (None, None);
                return Vec::new();
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let lot = state.due.len().min(LOT);
        state.taken = lot as u64;
        state.due.drain(..lot).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Opens a desk if there is none, and returns its number: the caller must start a thread for it.
    fn open_desk(&mut self) -> Option<u64> {
        if self.desk.is_some() {
            return None;
        }
        self.desks += 1;
        self.desk = Some(self.desks);
        self.desk
    }
}

/// The object that the Python thread for callbacks runs; see `monedula._callbacks`. It is dropped when the thread ends.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct CallbackDesk {
    callbacks: Own<Arc<Callbacks>>,
    number: u64,
}

impl Drop for CallbackDesk {
    fn drop(&mut self) {
        if let Ok(callbacks) = self.callbacks.get() {
            callbacks.left(self.number);
        }
    }
}

#[pymethods]
impl CallbackDesk {
    /// Runs callbacks with their futures, one after the other, until the producer is dropped and no callback is
    /// pending. `report` is called with each callback that raises, and its exception.
    fn run(&self, py: Python<'_>, report: &Bound<'_, PyAny>) -> PyResult<()> {
        let callbacks = self.callbacks.get()?;
        loop {
            flush_log(py, &callbacks.log);
            let due = py.detach(|| {
                let due = callbacks.next(self.number);
                // The interpreter is ending and is about to freeze this thread.
                if due.is_empty() && is_ending_elsewhere() {
                    park_for_ever();
                }
                due
            });
            if due.is_empty() {
                return Ok(());
            }
            for (call, future) in due {
                // Report also what is not an `Exception`, such as SystemExit or pytest's Failed: no code above would
                // see it.
                if let Err(error) = call.call1(py, (future,)) {
                    // A logging handler that raises must not end the thread either.
                    let _ = report.call1((call, error));
                }
            }
        }
    }
}
