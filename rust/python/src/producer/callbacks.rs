//! Callbacks of futures: they are run one after the other, by a thread of Python's that starts with the first of them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use monedula_client::log::Log;
use pyo3::prelude::*;

use crate::logging::flush_log;
use crate::runtime::{Own, is_ending_elsewhere, park_for_ever};

/// Callbacks that the thread takes at once: between two lots, others wait for no more than these.
const LOT: usize = 1024;

/// A callback that is due, and the future for it.
type Job = (Py<PyAny>, Py<PyAny>);

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
    runs: bool,
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
            !std::mem::replace(&mut state.runs, true)
        };
        if starts && let Err(error) = self.start(py) {
            let mut state = self.state();
            state.pending -= 1;
            state.runs = false;
            return Err(error);
        }
        let (callbacks, job) = (self.clone(), (call.clone().unbind(), future));
        on_done(Box::new(move || callbacks.become_due(job)));
        Ok(())
    }

    fn start(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let desk = CallbackDesk { callbacks: Own::new(self.clone()) };
        py.import("monedula._callbacks")?.call_method1("start", (desk,))?;
        Ok(())
    }

    fn become_due(&self, job: Job) {
        let mut state = self.state();
        state.pending -= 1;
        state.queued += 1;
        state.due.push_back(job);
        if state.due.len() == 1 {
            self.changed.notify_all();
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
    fn next(&self) -> Vec<Job> {
        let mut state = self.state();
        state.thread = Some(std::thread::current().id());
        state.ran += std::mem::take(&mut state.taken);
        self.changed.notify_all();
        while state.due.is_empty() {
            if state.closed && state.pending == 0 {
                (state.runs, state.thread) = (false, None);
                return Vec::new();
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let lot = state.due.len().min(LOT);
        state.taken = lot as u64;
        state.due.drain(..lot).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where Python's thread finds what it is to call; see `monedula._callbacks`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct CallbackDesk {
    callbacks: Own<Arc<Callbacks>>,
}

#[pymethods]
impl CallbackDesk {
    /// Waits for callbacks with their futures; none when the producer is gone.
    fn next(&self, py: Python<'_>) -> PyResult<Vec<(Py<PyAny>, Py<PyAny>)>> {
        let callbacks = self.callbacks.get()?;
        flush_log(py, &callbacks.log);
        Ok(py.detach(|| {
            let due = callbacks.next();
            // The interpreter is about to freeze this thread; there is nothing left for it.
            if due.is_empty() && is_ending_elsewhere() {
                park_for_ever();
            }
            due
        }))
    }
}
