//! Operations: futures that run on the runtime while an event loop or a thread does other work.
//!
//! When an operation ends, it writes a byte to a socket that the event loop watches; the loop then takes the result.
//! Python objects are therefore touched on the loop's own thread only.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use monedula_client::error::ClientError;
use monedula_client::lock::lock;
use monedula_client::log::Log;
use pyo3::prelude::*;

use crate::error::to_py;
use crate::logging::flush_log;
use crate::memory_reserve;
use crate::runtime::{Own, ended, in_slices, spawn};
use crate::seconds::Seconds;

/// The result of an operation; the Python thread that takes it converts it to a Python object.
pub(crate) type Outcome = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Slot = Arc<(Mutex<OperationState>, Condvar)>;

#[derive(Default)]
enum OperationState {
    #[default]
    UnderWay,
    Done(Result<Outcome, ClientError>),
    Taken,
}

fn locked(slot: &Slot) -> std::sync::MutexGuard<'_, OperationState> {
    lock(&slot.0)
}

/// Notifies whoever waits when the operation's task ends, even one that the runtime drops at its end.
struct Completion {
    slot: Slot,
    notifier: Notifier,
}

impl Drop for Completion {
    fn drop(&mut self) {
        let mut state = locked(&self.slot);
        if matches!(*state, OperationState::UnderWay) {
            *state = OperationState::Done(Err(ClientError::Closed));
        }
        drop(state);
        self.slot.1.notify_all();
        self.notifier.notify();
    }
}

/// An operation that is running or done.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct Operation {
    /// In a forked child there is no thread that could complete it.
    parts: Own<Parts>,
}

struct Parts {
    slot: Slot,
    cancel: Box<dyn Fn() + Send + Sync>,
    log: Log,
}

impl Operation {
    /// Starts `future` on the runtime. When it is done, `notifier` is notified; `convert` makes the result a Python
    /// object.
    ///
    /// # Errors
    /// `MemoryError` if the process has none to spare, `NoThreadError` as [`crate::runtime::handle`].
    pub(crate) fn start<T: Send + 'static>(
        future: impl Future<Output = Result<T, ClientError>> + Send + 'static,
        notifier: Notifier,
        log: &Log,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Self> {
        memory_reserve::check_unused().map_err(|error| Python::attach(|py| to_py(py, error)))?;
        let slot = Slot::default();
        let completion = Completion { slot: slot.clone(), notifier };
        let task = spawn(async move {
            let outcome =
                ended(future).await.map(|value| Box::new(move |py: Python<'_>| convert(py, value)) as Outcome);
            *locked(&completion.slot) = OperationState::Done(outcome);
        })?;
        let parts = Parts { slot, cancel: Box::new(move || task.abort()), log: log.clone() };
        Ok(Self { parts: Own::new(parts) })
    }
}

#[pymethods]
impl Operation {
    /// Whether the operation is done.
    fn done(&self) -> PyResult<bool> {
        Ok(!matches!(*locked(&self.parts.get()?.slot), OperationState::UnderWay))
    }

    /// Waits until the operation is done. `timeout` is in seconds, `None` waits without limit. Returns whether it is
    /// done.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<bool> {
        let timeout = timeout.map(|timeout| timeout.duration(py)).transpose()?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let slot = &self.parts.get()?.slot;
        in_slices(py, |until| {
            let until = deadline.map_or(until, |deadline| until.min(deadline));
            let state = locked(slot);
            let left = until.saturating_duration_since(Instant::now());
            let waits = |state: &mut OperationState| matches!(state, OperationState::UnderWay);
            let waited = slot.1.wait_timeout_while(state, left, waits);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let done = !matches!(*state, OperationState::UnderWay);
            let over = deadline.is_some_and(|deadline| deadline <= Instant::now());
            Ok((done || over).then_some(done))
        })
    }

    /// Takes the result, or raises the error. Can be called only once.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let parts = self.parts.get()?;
        flush_log(py, &parts.log);
        let mut slot = locked(&parts.slot);
        let state = match *slot {
            OperationState::UnderWay => OperationState::UnderWay,
            _ => std::mem::replace(&mut *slot, OperationState::Taken),
        };
        drop(slot);
        match state {
            OperationState::Done(Ok(convert)) => convert(py),
            OperationState::Done(Err(error)) => Err(to_py(py, error)),
            OperationState::UnderWay | OperationState::Taken => Err(to_py(py, ClientError::Closed)),
        }
    }

    /// Cancels the operation. Its result must not be taken afterwards.
    fn cancel(&self) {
        if let Ok(parts) = self.parts.get() {
            (parts.cancel)();
        }
    }
}

/// The receiver of the notification that an operation is done.
#[derive(Clone)]
pub(crate) enum Notifier {
    /// The sending end of a socket pair that an event loop watches. It is a duplicate of Python's descriptor: if Python
    /// closes its own and the number is reused, no byte is written to the wrong file.
    Loop(Arc<Socket>),
    /// A flag that the consumer's wait checks between two slices.
    Flag(Arc<AtomicBool>),
}

#[cfg(unix)]
pub(crate) type Socket = std::os::unix::net::UnixStream;
#[cfg(windows)]
pub(crate) type Socket = std::net::TcpStream;

impl Notifier {
    /// Duplicates the non-blocking socket whose descriptor Python gives.
    pub(crate) fn new(descriptor: i64) -> std::io::Result<Self> {
        // SAFETY: Python's socket owns the descriptor and outlives this call; it is only duplicated, never closed here.
        let borrowed = std::mem::ManuallyDrop::new(unsafe { Self::borrow(descriptor) });
        Ok(Self::Loop(Arc::new(borrowed.try_clone()?)))
    }

    #[cfg(unix)]
    unsafe fn borrow(descriptor: i64) -> Socket {
        use std::os::fd::FromRawFd;
        // SAFETY: the caller's promise.
        unsafe { Socket::from_raw_fd(descriptor as i32) }
    }

    #[cfg(windows)]
    unsafe fn borrow(descriptor: i64) -> Socket {
        use std::os::windows::io::FromRawSocket;
        // SAFETY: the caller's promise.
        unsafe { Socket::from_raw_socket(descriptor as u64) }
    }

    fn notify(&self) {
        match self {
            // If the socket's buffer is full the loop wakes anyway; if the other end is closed there is no loop to
            // wake.
            Self::Loop(socket) => drop((&**socket).write(&[1])),
            Self::Flag(flag) => flag.store(true, Ordering::Release),
        }
    }
}
