//! Work that goes on while an event loop does other things.
//!
//! The loop is woken by a byte on a socket that it watches; it then asks the operation for its result. So no Python object
//! is ever touched outside of the loop's own thread.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use monedula_client::error::ClientError;
use monedula_client::log::Log;
use pyo3::prelude::*;

use crate::error::to_py;
use crate::logging::flush_log;

/// What an operation came to; made into a Python object by whoever asks.
pub(crate) type Outcome = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Slot = Arc<Mutex<Option<Result<Outcome, ClientError>>>>;

/// An operation under way, or done.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct Operation {
    slot: Slot,
    cancel: Box<dyn Fn() + Send + Sync>,
    log: Log,
}

impl Operation {
    /// Starts `future` on the runtime; a byte goes to `notifier` when it is done.
    pub(crate) fn start<T: Send + 'static>(
        future: impl Future<Output = Result<T, ClientError>> + Send + 'static,
        notifier: Notifier,
        log: &Log,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Self> {
        let slot = Slot::default();
        let done = slot.clone();
        let task = crate::runtime::handle()?.spawn(async move {
            let outcome = future.await.map(|value| Box::new(move |py: Python<'_>| convert(py, value)) as Outcome);
            *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            notifier.notify();
        });
        Ok(Self { slot, cancel: Box::new(move || task.abort()), log: log.clone() })
    }
}

#[pymethods]
impl Operation {
    /// Whether the result is there.
    fn done(&self) -> bool {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Takes the result, or raises what went wrong. Once only.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        flush_log(py, &self.log);
        let outcome = self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        match outcome.unwrap_or(Err(ClientError::Closed)) {
            Ok(convert) => convert(py),
            Err(error) => Err(to_py(py, error)),
        }
    }

    /// Ends the operation; its result is never asked for.
    fn cancel(&self) {
        (self.cancel)();
    }
}

/// The sending end of the socket pair that an event loop watches; a duplicate of Python's, so that closing that one never
/// makes a byte go elsewhere.
#[derive(Clone)]
pub(crate) struct Notifier(Arc<Socket>);

#[cfg(unix)]
type Socket = std::os::unix::net::UnixStream;
#[cfg(windows)]
type Socket = std::net::TcpStream;

impl Notifier {
    /// Duplicates the non-blocking socket whose descriptor Python gives.
    pub(crate) fn new(descriptor: i64) -> std::io::Result<Self> {
        // SAFETY: Python's socket owns the descriptor and outlives this call; it is only duplicated, never closed here.
        let borrowed = std::mem::ManuallyDrop::new(unsafe { Self::borrow(descriptor) });
        Ok(Self(Arc::new(borrowed.try_clone()?)))
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
        // A full pipe already wakes the loop, and a closed one has nobody to wake.
        let _ = (&*self.0).write(&[1]);
    }
}
