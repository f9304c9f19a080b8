//! Callbacks of futures: they are run one after the other, by a thread of Python's that starts with the first of them.

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

/// Callbacks that the thread takes at once: between two lots, others wait for no more than these.
const LOT: usize = 1024;

/// A callback that is due, and the future for it.
type Job = (Py<PyAny>, Py<PyAny>);

/// What to have called in place of a callback: where an event loop of asyncio's runs, one that has it called in that loop.
/// `asyncio.wait` takes whatever has `add_done_callback`, and expects to be called in its own loop.
///
/// # Errors
/// If it cannot be called.
pub(super) fn in_its_loop<'py>(
    future: &Bound<'py, PyAny>,
    callback: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = future.py();
    if !callback.is_callable() {
        let message = format!("{} cannot be called: give a function that takes the future", callback.repr()?);
        return Err(argument_error(py, message));
    }
    // No loop runs where asyncio was not imported, and to import it costs more than all the rest.
    if !py.import("sys")?.getattr("modules")?.contains("asyncio.events")? {
        return Ok(callback.clone());
    }
    py.import("monedula._awaiting")?.call_method1("in_its_loop", (future, callback))
}

/// Takes a callback back that was given in a running loop; how many there were.
pub(super) fn forget(future: &Bound<'_, PyAny>, callback: &Bound<'_, PyAny>) -> PyResult<usize> {
    future.py().import("monedula._awaiting")?.call_method1("forget", (future, callback))?.extract()
}

/// Those of one producer.
pub(crate) struct Callbacks {
    state: Mutex<State>,
    changed: Condvar,
    /// The producer's, for whoever waits for one of its futures.
    pub(crate) log: Log,
}

#[derive(Default)]
struct State {
    due: VecDeque<Job>,
    /// Callbacks whose future is not done.
    pending: usize,
    /// How many became due, and how many of these were run.
    queued: u64,
    ran: u64,
    /// What the thread has in hands.
    taken: u64,
    thread: Option<ThreadId>,
    /// The desk of the thread that runs; nobody runs what is due where there is none.
    desk: Option<u64>,
    desks: u64,
    closed: bool,
}

impl Callbacks {
    pub(crate) fn new(log: Log) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), log })
    }

    /// Has `call` run with `future`, once what `on_done` is given was called.
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
        // Where no thread can be started, this is dropped, and says so.
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

    /// The thread of this desk ended. If that was not its end, whoever waits for callbacks must not wait for ever.
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

    /// Nobody runs what is due: it counts as run.
    fn give_up(&self, mut state: MutexGuard<'_, State>) {
        (state.ran, state.taken) = (state.queued, 0);
        let due = std::mem::take(&mut state.due);
        let lost = due.len();
        drop(state);
        // What the callbacks hold may come back here when it is let go of.
        drop(due);
        self.changed.notify_all();
        if lost > 0 {
            self.log.record(Level::Warning, "producer", || {
                format!("{lost} callbacks were not run: their thread has ended")
            });
        }
    }

    /// Whether it is a callback who asks.
    pub(crate) fn is_current(&self) -> bool {
        self.state().thread == Some(std::thread::current().id())
    }

    /// Waits until as many were run as [`Self::goal`] said. Whether they were.
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

    /// How many were run once all that are due now were.
    pub(crate) fn goal(&self) -> u64 {
        self.state().queued
    }

    /// The producer is gone: the thread ends once nothing is left to be called.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// What is due, once something is; nothing when the thread is to end.
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
    /// The number of the desk for a thread that is to be started, if there is none.
    fn open_desk(&mut self) -> Option<u64> {
        if self.desk.is_some() {
            return None;
        }
        self.desks += 1;
        self.desk = Some(self.desks);
        self.desk
    }
}

/// What a thread of Python's runs; see `monedula._callbacks`. When it is dropped, the thread has ended.
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
    /// Runs callbacks with their futures, one after the other, until the producer is gone. `report` is called with those that
    /// raise, and what they raise.
    fn run(&self, py: Python<'_>, report: &Bound<'_, PyAny>) -> PyResult<()> {
        let callbacks = self.callbacks.get()?;
        loop {
            flush_log(py, &callbacks.log);
            let due = py.detach(|| {
                let due = callbacks.next(self.number);
                // The interpreter is about to freeze this thread; there is nothing left for it.
                if due.is_empty() && is_ending_elsewhere() {
                    park_for_ever();
                }
                due
            });
            if due.is_empty() {
                return Ok(());
            }
            for (call, future) in due {
                // Also what is no `Exception`, such as SystemExit or pytest's Failed: nobody stands above this thread to see it.
                if let Err(error) = call.call1(py, (future,)) {
                    // A handler of the log that raises must not end the thread either.
                    let _ = report.call1((call, error));
                }
            }
        }
    }
}
