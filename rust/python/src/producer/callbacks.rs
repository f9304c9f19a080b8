//! Callbacks of futures. A thread of Python's, which starts with the first one, runs them one after the other.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use monedula_client::lock::lock;
use monedula_client::log::{Log, kinds};
use monedula_client::producer::Failures;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

use crate::error::argument_error;
use crate::interpreter::deferred_error;
use crate::logging::flush_log;
use crate::producer::batch_future::BatchFuture;
use crate::producer::future::SendFuture;
use crate::runtime::Own;

/// Number of callbacks that the thread takes at once: `settle` may have to wait for this many others.
const MAX_AT_ONCE: usize = 1024;

/// A callback that is due, and its argument, the future.
type Job = (Py<PyAny>, Py<PyAny>);

/// The function to call in place of a callback. If an asyncio event loop is running, it calls the callback in that
/// loop: `asyncio.wait` takes any object that has `add_done_callback`, and expects to be called in its own loop.
///
/// # Errors
/// If the callback is not callable.
pub(super) fn in_its_loop<'py>(
    future: &Bound<'py, PyAny>,
    callback: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = future.py();
    check_callable(callback)?;
    // Without the import of asyncio no loop is running, and the import costs more than everything else here.
    if !py.import("sys")?.getattr("modules")?.contains("asyncio.events")? {
        return Ok(callback.clone());
    }
    py.import("monedula._asyncio.futures")?.call_method1("in_its_loop", (future, callback))
}

pub(super) fn check_callable(callback: &Bound<'_, PyAny>) -> PyResult<()> {
    if callback.is_callable() {
        return Ok(());
    }
    let message = format!("{} cannot be called: give a function that takes the future", callback.repr()?);
    Err(argument_error(callback.py(), message))
}

/// Takes back a callback that was given in a running loop. Returns how many there were.
pub(super) fn forget(future: &Bound<'_, PyAny>, callback: &Bound<'_, PyAny>) -> PyResult<usize> {
    future.py().import("monedula._asyncio.futures")?.call_method1("forget", (future, callback))?.extract()
}

pub(crate) type TroubleSource = Box<dyn Fn() -> Option<String> + Send + Sync>;

pub(crate) struct Callbacks {
    state: Mutex<CallbacksState>,
    changed: Condvar,
    /// The producer's log, for callers that wait for its futures.
    pub(crate) log: Log,
    /// The source of the reasons in errors of callers that wait in vain.
    pub(crate) trouble: TroubleSource,
    /// Counts failures that were seen.
    pub(crate) failures: Arc<Failures>,
    /// The error of the first record that failed before it was sent.
    first_unsent: OnceLock<Py<PyBaseException>>,
}

#[derive(Default)]
struct CallbacksState {
    due: VecDeque<Job>,
    /// Number of callbacks whose future is not done.
    pending: usize,
    /// Number of callbacks that became due, and of those that were run.
    queued: u64,
    ran: u64,
    /// Number of callbacks that the thread is running.
    taken: u64,
    thread: Option<ThreadId>,
    /// The number of the runner whose thread is alive. Without one, due callbacks are never run.
    runner: Option<u64>,
    runners: u64,
    closed: bool,
}

impl Callbacks {
    pub(crate) fn new(log: Log, failures: Arc<Failures>, trouble: TroubleSource) -> Arc<Self> {
        let first_unsent = OnceLock::new();
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), log, trouble, failures, first_unsent })
    }

    /// Counts a record that failed before it was sent.
    pub(super) fn count_unsent(&self, py: Python<'_>, error: &Py<PyBaseException>) {
        self.failures.add_unsent(deferred_error::text(error.bind(py).as_any()));
        let _ = self.first_unsent.get_or_init(|| error.clone_ref(py));
    }

    pub(super) fn first_unsent(&self, py: Python<'_>) -> Option<PyErr> {
        self.first_unsent.get().map(|error| PyErr::from_value(error.bind(py).clone().into_any()))
    }

    /// Runs `call` with `future` once the function that `on_done` receives is called.
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
            state.add_runner()
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

    /// Has the thread for a callback started: that runs Python code.
    ///
    /// # Errors
    /// If the callback is not callable, or no thread can be started.
    pub(super) fn prepare(self: &Arc<Self>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        check_callable(callback)?;
        let starts = self.state().add_runner();
        starts.map_or(Ok(()), |number| self.start(callback.py(), number))
    }

    fn start(self: &Arc<Self>, py: Python<'_>, number: u64) -> PyResult<()> {
        // If no thread can be started, the runner is dropped, which reports that it has ended.
        let runner = CallbackRunner { callbacks: Own::new(self.clone()), number };
        py.import("monedula.producer._callback_thread")?.call_method1("start", (runner,))?;
        Ok(())
    }

    fn become_due(&self, job: Job) {
        let mut state = self.state();
        state.pending -= 1;
        state.queued += 1;
        state.due.push_back(job);
        if state.runner.is_none() {
            return self.drop_due(state);
        }
        if state.due.len() == 1 {
            self.changed.notify_all();
        }
    }

    /// The thread of this runner ended. Unless it was expected to, callers that wait for callbacks must not wait for
    /// ever.
    fn runner_ended(&self, number: u64) {
        let mut state = self.state();
        if state.runner != Some(number) {
            return;
        }
        (state.runner, state.thread) = (None, None);
        self.log.record(&kinds::CALLBACKS_LOST, || {
            "the thread that runs callbacks ended; callbacks that are due now are not run".to_owned()
        });
        self.drop_due(state);
    }

    /// Drops the due callbacks, which no thread will run. They count as run.
    fn drop_due(&self, mut state: MutexGuard<'_, CallbacksState>) {
        (state.ran, state.taken) = (state.queued, 0);
        let due = std::mem::take(&mut state.due);
        let lost = due.len();
        drop(state);
        // The objects that callbacks hold may call into this when they are dropped, so it happens without the lock.
        drop(due);
        self.changed.notify_all();
        if lost > 0 {
            self.log
                .record(&kinds::CALLBACKS_LOST, || format!("{lost} callbacks were not run: their thread has ended"));
        }
    }

    pub(crate) fn is_current(&self) -> bool {
        self.state().thread == Some(std::thread::current().id())
    }

    /// Waits until as many callbacks were run as [`Self::goal`] returned, at most until `until`. Returns true if they
    /// were.
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

    /// Number of callbacks that will have been run once those that are due now are.
    pub(crate) fn goal(&self) -> u64 {
        self.state().queued
    }

    /// The producer is gone: the thread ends once all callbacks were run.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Waits for due callbacks and returns them; none if the thread has to end.
    fn next(&self, number: u64) -> Vec<Job> {
        let mut state = self.state();
        if state.runner != Some(number) {
            return Vec::new();
        }
        state.thread = Some(std::thread::current().id());
        state.ran += std::mem::take(&mut state.taken);
        self.changed.notify_all();
        while state.due.is_empty() {
            if state.closed && state.pending == 0 {
                (state.runner, state.thread) = (None, None);
                return Vec::new();
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let count = state.due.len().min(MAX_AT_ONCE);
        state.taken = count as u64;
        state.due.drain(..count).collect()
    }

    fn state(&self) -> MutexGuard<'_, CallbacksState> {
        lock(&self.state)
    }
}

impl CallbacksState {
    /// Registers a runner if there is none, and returns its number: the caller has to start its thread.
    fn add_runner(&mut self) -> Option<u64> {
        if self.runner.is_some() {
            return None;
        }
        self.runners += 1;
        self.runner = Some(self.runners);
        self.runner
    }
}

/// The body of the thread that runs callbacks (`monedula.producer._callback_thread`). Dropped when that ends.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct CallbackRunner {
    callbacks: Own<Arc<Callbacks>>,
    number: u64,
}

impl Drop for CallbackRunner {
    fn drop(&mut self) {
        if let Ok(callbacks) = self.callbacks.get() {
            callbacks.runner_ended(self.number);
        }
    }
}

#[pymethods]
impl CallbackRunner {
    /// Runs callbacks with their futures, one after the other, until the producer is gone. Calls `report` with each
    /// callback that raises, and the exception.
    fn run(&self, py: Python<'_>, report: &Bound<'_, PyAny>) -> PyResult<()> {
        let callbacks = self.callbacks.get()?;
        loop {
            flush_log(py, &callbacks.log);
            let due = py.detach(|| callbacks.next(self.number));
            if due.is_empty() {
                return Ok(());
            }
            for (callback, future) in due {
                // Whoever gave a callback is told of the failure.
                if let Ok(sent) = future.bind(py).cast::<SendFuture>() {
                    sent.get().look(py);
                } else if let Ok(rows) = future.bind(py).cast::<BatchFuture>() {
                    rows.get().look();
                }
                // Also catches exceptions that are no `Exception`, such as SystemExit or pytest's Failed: no caller
                // would see them.
                if let Err(error) = callback.bind(py).call1((future,)) {
                    // A logging handler that raises must not end the thread either.
                    let _ = report.call1((callback, error));
                }
            }
        }
    }
}
