//! Operations: futures that run on the runtime while an event loop or a thread does other work.
//!
//! A thread blocks in `outcome`; an event loop is woken through its [`LoopWaker`] and takes the result itself, so that
//! Python objects are touched on the loop's own thread only.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use monedula_client::blocking::silently;
use monedula_client::error::ClientError;
use monedula_client::lock::lock;
use monedula_client::log::Log;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::emergency_allocator;
use crate::error::to_py;
use crate::interpreter::loop_waker::LoopWaker;
use crate::logging::flush_log;
use crate::runtime::{Own, done_within, ended, spawn};
use crate::seconds::Seconds;

/// What PyO3 panics with where Python has no memory for an object.
const NO_OBJECT: [&str; 2] = ["PyObject pointer is null", "Python API call failed"];

/// The result of an operation; the Python thread that takes it converts it to a Python object.
pub(crate) type Conversion = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Waker = Box<dyn FnOnce() + Send>;

type Slot = Arc<(Mutex<OperationState>, Condvar)>;

enum OperationState {
    UnderWay(Vec<Waker>),
    Done(Result<Conversion, ClientError>),
    Taken,
}

impl OperationState {
    fn is_under_way(&self) -> bool {
        matches!(self, Self::UnderWay(_))
    }
}

fn locked(slot: &Slot) -> std::sync::MutexGuard<'_, OperationState> {
    lock(&slot.0)
}

/// The end of an operation's task. If the runtime drops the task at its own end, whoever waits learns that too.
struct Completion(Slot);

impl Completion {
    fn set(&self, outcome: Result<Conversion, ClientError>) {
        let mut state = locked(&self.0);
        if !state.is_under_way() {
            return;
        }
        let OperationState::UnderWay(wakers) = std::mem::replace(&mut *state, OperationState::Done(outcome)) else {
            return;
        };
        drop(state);
        self.0.1.notify_all();
        wakers.into_iter().for_each(|wake| wake());
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.set(Err(ClientError::Closed));
    }
}

/// An operation that is running or done.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct Operation {
    /// In a forked child there is no thread that could complete it.
    parts: Own<RunningOperation>,
}

struct RunningOperation {
    slot: Slot,
    cancel: Box<dyn Fn() + Send + Sync>,
    log: Log,
}

impl Operation {
    /// Starts `future` on the runtime; `convert` makes its result a Python object.
    ///
    /// # Errors
    /// `MemoryError` if the process has none to spare, `NoThreadError` as [`crate::runtime::handle`].
    pub(crate) fn start<T: Send + 'static>(
        future: impl Future<Output = Result<T, ClientError>> + Send + 'static,
        log: &Log,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Self> {
        emergency_allocator::check_unused().map_err(|error| Python::attach(|py| to_py(py, error)))?;
        let slot: Slot = Arc::new((Mutex::new(OperationState::UnderWay(Vec::new())), Condvar::new()));
        let completion = Completion(slot.clone());
        let task = spawn(async move {
            let outcome = ended(future).await;
            completion.set(outcome.map(|value| Box::new(move |py: Python<'_>| convert(py, value)) as Conversion));
        })?;
        let parts = RunningOperation { slot, cancel: Box::new(move || task.abort()), log: log.clone() };
        Ok(Self { parts: Own::new(parts) })
    }

    /// Calls `wake` when the operation is done, at once if it is.
    pub(crate) fn on_done(&self, wake: impl FnOnce() + Send + 'static) -> PyResult<()> {
        let mut state = locked(&self.parts.get()?.slot);
        match &mut *state {
            OperationState::UnderWay(wakers) => wakers.push(Box::new(wake)),
            OperationState::Done(_) | OperationState::Taken => {
                drop(state);
                wake();
            }
        }
        Ok(())
    }
}

#[pymethods]
impl Operation {
    fn done(&self) -> PyResult<bool> {
        Ok(!locked(&self.parts.get()?.slot).is_under_way())
    }

    /// Waits until the operation is done, at most `timeout` seconds. Returns true if it is done.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<bool> {
        let slot = &self.parts.get()?.slot;
        done_within(py, timeout, |until| {
            let state = locked(slot);
            let left = until.saturating_duration_since(Instant::now());
            let waited = slot.1.wait_timeout_while(state, left, |state| state.is_under_way());
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            !state.is_under_way()
        })
    }

    /// Takes the result, or raises the error. Can be called only once.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let parts = self.parts.get()?;
        flush_log(py, &parts.log);
        let mut state = locked(&parts.slot);
        let taken =
            if state.is_under_way() { None } else { Some(std::mem::replace(&mut *state, OperationState::Taken)) };
        drop(state);
        match taken {
            Some(OperationState::Done(Ok(convert))) => match silently(|| convert(py)) {
                Ok(converted) => converted,
                Err(message) if NO_OBJECT.iter().any(|each| message.contains(each)) => Err(PyMemoryError::new_err(())),
                Err(message) => panic!("{message}"),
            },
            Some(OperationState::Done(Err(error))) => Err(to_py(py, error)),
            _ => Err(to_py(py, ClientError::Closed)),
        }
    }

    /// Waits in this thread for the end, and takes the result. The exception of a signal handler cancels the operation.
    fn outcome(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if let Err(raised) = self.wait(py, None) {
            self.cancel();
            return Err(raised);
        }
        self.result(py)
    }

    /// Has a loop woken, with this number, when the operation is done.
    fn _wake(&self, waker: &LoopWaker, number: u64) -> PyResult<()> {
        let waker = waker.shared()?;
        self.on_done(move || waker.wake(number))
    }

    /// Cancels the operation. Its result must not be taken afterwards.
    fn cancel(&self) {
        if let Ok(parts) = self.parts.get() {
            (parts.cancel)();
        }
    }
}
