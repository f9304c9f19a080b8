//! The future of one sent record, and the record's metadata.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use monedula_client::error::ClientError;
use monedula_client::producer::{Delivered, RecordFuture};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use crate::convert;
use crate::error::to_py;
use crate::interpreter::deferred_error;
use crate::interpreter::loop_waker::LoopWaker;
use crate::logging::flush_log;
use crate::producer::callbacks::{Callbacks, forget, in_its_loop};
use crate::producer::not_yet;
use crate::producer::observed_future::ObservedFuture;
use crate::producer::queued_future::{Progress, QueuedFuture, Waker};
use crate::runtime::{Own, done_within};
use crate::seconds::Seconds;

/// The outcome of a sent record.
#[pyclass(frozen, freelist = 4096, module = "monedula")]
pub(crate) struct SendFuture {
    /// Empty until the record is sent, for a future that was made before.
    parts: OnceLock<Own<FutureParts>>,
}

struct FutureParts {
    sending: Sending,
    callbacks: Arc<Callbacks>,
    is_seen: AtomicBool,
}

enum Sending {
    Sent(RecordFuture),
    Queued(Arc<QueuedFuture>),
}

/// Topic, partition, offset and timestamp of a record.
type PyPlace<'py> = (Bound<'py, PyString>, i32, Option<i64>, i64);

/// The place of an acknowledged record: topic, partition, offset and timestamp.
#[pyclass(frozen, get_all, module = "monedula")]
pub(crate) struct RecordMetadata {
    /// Topic.
    topic: Py<PyString>,
    /// Partition.
    partition: i32,
    /// Offset. `None` with `acks=0`, or if the broker detected a duplicate whose offset it no longer knows.
    offset: Option<i64>,
    /// Timestamp in milliseconds since the Unix epoch: the record's own, or the broker's for a topic with
    /// LogAppendTime.
    timestamp: i64,
}

#[pymethods]
impl RecordMetadata {
    #[new]
    #[pyo3(signature = (topic, partition, offset, timestamp))]
    fn new(topic: Py<PyString>, partition: i32, offset: Option<i64>, timestamp: i64) -> Self {
        Self { topic, partition, offset, timestamp }
    }

    /// Makes it picklable and copyable, for processes that send it to each other.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyType>, PyPlace<'py>)> {
        let metadata = slf.get();
        let topic = metadata.topic.bind(slf.py()).clone();
        Ok((slf.get_type(), (topic, metadata.partition, metadata.offset, metadata.timestamp)))
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        let numbers = |metadata: &Self| (metadata.partition, metadata.offset, metadata.timestamp);
        Ok(numbers(self) == numbers(other) && self.topic.bind(py).as_any().eq(other.topic.bind(py))?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (self.topic.bind(py), self.partition, self.offset, self.timestamp).into_pyobject(py)?.hash()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let offset = self.offset.map_or("?".into(), |offset| offset.to_string());
        format!("<monedula.RecordMetadata {}-{} @{offset}>", self.topic.bind(py).to_string_lossy(), self.partition)
    }
}

impl SendFuture {
    /// Converts it to a Python object that the cyclic garbage collector does not visit. PyO3 tracks every object. A
    /// future refers to no object that Python code could put into a cycle, and tracking a million kept futures took a
    /// seventh of a loop of sends.
    pub(super) fn into_untracked(self, py: Python<'_>) -> PyResult<Bound<'_, Self>> {
        let future = Bound::new(py, self)?;
        // SAFETY: the object is complete and the GIL is held. Its deallocation checks whether it is tracked.
        unsafe { pyo3::ffi::PyObject_GC_UnTrack(future.as_ptr().cast()) };
        Ok(future)
    }
}

#[pymethods]
impl SendFuture {
    /// Returns true once the record's outcome is known.
    fn done(&self) -> PyResult<bool> {
        Ok(self.parts()?.sending.is_done())
    }

    /// Wait until the record is acknowledged, and return its place.
    ///
    /// Args:
    ///     timeout: seconds, `None` for no limit; `delivery.timeout.ms` bounds the wait in any case.
    ///
    /// Raises:
    ///     KafkaError: a subclass, if the record was not delivered: `DeliveryTimeoutError`, `UnknownTopicError`,
    ///         `RecordTooLargeError`, `InvalidRecordError` and so on.
    ///     KafkaTimeoutError: after `timeout`; the record may still be delivered.
    #[pyo3(signature = (timeout=None))]
    fn result(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<RecordMetadata> {
        let parts = self.parts()?;
        if let Some(outcome) = parts.seen_outcome(py) {
            return outcome;
        }
        parts.wait(py, timeout)?;
        parts.seen_outcome(py).unwrap_or_else(|| Err(not_yet(py, "the record", timeout, (parts.callbacks.trouble)())))
    }

    /// Wait like `result`, and return the error, or `None`.
    ///
    /// Raises:
    ///     KafkaTimeoutError: after `timeout`.
    #[pyo3(signature = (timeout=None))]
    fn exception(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Option<PyErr>> {
        let parts = self.parts()?;
        if !parts.sending.is_done() {
            parts.wait(py, timeout)?;
        }
        match parts.seen_outcome(py) {
            Some(outcome) => Ok(outcome.err()),
            None => Err(not_yet(py, "the record", timeout, (parts.callbacks.trouble)())),
        }
    }

    /// Call `callback` with this future once it is done: on the producer's callback thread, one callback after the
    /// other. If it is added in a running event loop, it is called in that loop, as by asyncio's own futures.
    ///
    /// Exceptions that it raises are logged.
    fn add_done_callback(slf: &Bound<'_, Self>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        slf.get().call_when_done(slf, &in_its_loop(slf, callback)?)
    }

    /// Remove a callback that was added in a running event loop.
    ///
    /// Args:
    ///     callback: the function that was added.
    ///
    /// Returns:
    ///     How many were removed. Callbacks that were added elsewhere stay.
    fn remove_done_callback(slf: &Bound<'_, Self>, callback: &Bound<'_, PyAny>) -> PyResult<usize> {
        forget(slf, callback)
    }

    /// Always `False`: a sent record cannot be cancelled.
    fn cancelled(&self) -> bool {
        false
    }

    /// Await the future in any asyncio-compatible event loop. Cancelling the wait does not stop the sending.
    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("monedula._asyncio.futures")?.call_method1("waiting", (slf,))
    }

    /// Methods of other clients' futures: the error says what to use.
    fn __getattr__(slf: &Bound<'_, Self>, name: &Bound<'_, PyString>) -> PyResult<()> {
        Err(convert::no_attribute(slf, name))
    }

    /// Wakes an event loop with `number` once the future is done.
    fn _wake(&self, waker: &LoopWaker, number: u64) -> PyResult<()> {
        let waker = waker.shared()?;
        self.parts()?.sending.on_done(Box::new(move || waker.wake(number)));
        Ok(())
    }

    /// Calls `callback` with an `ObservedFuture` once the future is done, on the producer's callback thread.
    fn _observe(slf: &Bound<'_, Self>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        let FutureParts { sending, callbacks, .. } = slf.get().parts()?;
        let observed = ObservedFuture::of(slf.as_any())?;
        callbacks.add(slf.py(), callback, observed, |waker| sending.on_done(waker))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(match self.parts()?.unseen_outcome(py) {
            None => "<monedula.SendFuture in flight>".into(),
            Some(Ok(metadata)) => format!("<monedula.SendFuture {}>", metadata.__repr__(py)),
            Some(Err(error)) => format!("<monedula.SendFuture failed: {error}>"),
        })
    }
}

impl SendFuture {
    #[inline]
    pub(crate) fn of(sent: RecordFuture, callbacks: &Arc<Callbacks>) -> Self {
        Self { parts: OnceLock::from(Own::new(FutureParts::of(Sending::Sent(sent), callbacks))) }
    }

    pub(crate) fn queued(queued: Arc<QueuedFuture>, callbacks: &Arc<Callbacks>) -> Self {
        Self { parts: OnceLock::from(Own::new(FutureParts::of(Sending::Queued(queued), callbacks))) }
    }

    /// The future of a record that is sent next. To make it may release the GIL: PyO3 does when it makes the first one,
    /// and the garbage collector may run Python code.
    pub(super) fn of_next(py: Python<'_>) -> PyResult<Bound<'_, Self>> {
        Self { parts: OnceLock::new() }.into_untracked(py)
    }

    pub(super) fn set_sent(&self, sent: RecordFuture, callbacks: &Arc<Callbacks>) {
        let _ = self.parts.set(Own::new(FutureParts::of(Sending::Sent(sent), callbacks)));
    }

    #[inline]
    fn parts(&self) -> PyResult<&FutureParts> {
        match self.parts.get() {
            Some(parts) => parts.get(),
            None => Err(PyRuntimeError::new_err("this future's record is not sent yet")),
        }
    }

    /// Somebody is told of the record's outcome: if it failed, the failure is seen.
    pub(crate) fn look(&self, py: Python<'_>) {
        if let Ok(parts) = self.parts() {
            let _ = parts.seen_outcome(py);
        }
    }

    /// The outcome, for telemetry: a failure stays unseen.
    pub(super) fn unseen_outcome(&self, py: Python<'_>) -> PyResult<Option<PyResult<RecordMetadata>>> {
        Ok(self.parts()?.unseen_outcome(py))
    }

    /// The core's future of a record that was not queued.
    pub(crate) fn sent(&self) -> PyResult<&RecordFuture> {
        match &self.parts()?.sending {
            Sending::Sent(sent) => Ok(sent),
            Sending::Queued(_) => Err(PyRuntimeError::new_err("this future's record is queued")),
        }
    }

    pub(crate) fn call_when_done(&self, slf: &Bound<'_, Self>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        let FutureParts { sending, callbacks, .. } = self.parts()?;
        callbacks.add(slf.py(), callback, slf.clone().into_any().unbind(), |waker| sending.on_done(waker))
    }
}

impl FutureParts {
    fn of(sending: Sending, callbacks: &Arc<Callbacks>) -> Self {
        Self { sending, callbacks: callbacks.clone(), is_seen: AtomicBool::new(false) }
    }

    fn unseen_outcome(&self, py: Python<'_>) -> Option<PyResult<RecordMetadata>> {
        Some(as_python(py, self.sending.outcome(py)?))
    }

    /// The outcome, for somebody who looks at it.
    fn seen_outcome(&self, py: Python<'_>) -> Option<PyResult<RecordMetadata>> {
        let outcome = self.sending.outcome(py);
        if let Some(Err(failure)) = &outcome
            && !self.is_seen.swap(true, Ordering::Relaxed)
        {
            self.callbacks.failures.seen(1, &failure.text(py));
        }
        Some(as_python(py, outcome?))
    }

    fn wait(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<()> {
        let waited = done_within(py, timeout, |until| self.sending.wait(until));
        flush_log(py, &self.callbacks.log);
        waited.map(drop)
    }
}

impl Sending {
    fn is_done(&self) -> bool {
        match self {
            Self::Sent(sent) => sent.is_done(),
            Self::Queued(queued) => queued.is_done(),
        }
    }

    fn wait(&self, until: Instant) -> bool {
        match self {
            Self::Sent(sent) => sent.wait(until).is_some(),
            Self::Queued(queued) => queued.wait(until),
        }
    }

    fn on_done(&self, waker: Waker) {
        match self {
            Self::Sent(sent) => sent.on_done(waker),
            Self::Queued(queued) => queued.on_done(waker),
        }
    }

    fn outcome(&self, py: Python<'_>) -> Option<Result<Delivered, Failure>> {
        let outcome = match self {
            Self::Sent(sent) => sent.try_outcome(),
            Self::Queued(queued) => match queued.progress(py) {
                Progress::Queued => None,
                Progress::Sent(sent) => sent.try_outcome(),
                Progress::Failed(error) => return Some(Err(Failure::Unsent(error))),
            },
        };
        Some(outcome?.map_err(Failure::Sent))
    }
}

/// Reason that a record was not delivered.
enum Failure {
    Sent(ClientError),
    Unsent(PyErr),
}

impl Failure {
    fn text(&self, py: Python<'_>) -> String {
        match self {
            Self::Sent(error) => error.to_string(),
            Self::Unsent(error) => deferred_error::text(error.value(py)),
        }
    }

    fn into_error(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Sent(error) => to_py(py, error),
            Self::Unsent(error) => error,
        }
    }
}

fn as_python(py: Python<'_>, outcome: Result<Delivered, Failure>) -> PyResult<RecordMetadata> {
    outcome.map(|delivered| metadata(py, delivered)).map_err(|failure| failure.into_error(py))
}

fn metadata(py: Python<'_>, delivered: Delivered) -> RecordMetadata {
    let Delivered { topic, partition, offset, timestamp_ms } = delivered;
    RecordMetadata { topic: PyString::intern(py, &topic).unbind(), partition, offset, timestamp: timestamp_ms }
}
