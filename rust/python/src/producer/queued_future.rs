//! The future of a record that waits before it can be sent, for room or for its topic's metadata.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use monedula_client::lock::lock;
use monedula_client::producer::RecordFuture;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

pub(crate) type Waker = Box<dyn FnOnce() + Send>;

/// A send that is queued until a thread of Python's carries it out.
#[derive(Default)]
pub(crate) struct QueuedFuture {
    state: Mutex<QueuedFutureState>,
    changed: Condvar,
}

enum QueuedFutureState {
    Queued(Vec<Waker>),
    Sent(RecordFuture),
    /// The record was not sent, and never will be.
    Failed(Py<PyBaseException>),
}

impl Default for QueuedFutureState {
    fn default() -> Self {
        Self::Queued(Vec::new())
    }
}

pub(crate) enum Progress {
    Queued,
    Sent(RecordFuture),
    Failed(PyErr),
}

impl QueuedFuture {
    pub(crate) fn resolve(&self, sent: &RecordFuture) {
        for waker in self.finish(QueuedFutureState::Sent(sent.clone())) {
            sent.on_done(waker);
        }
    }

    pub(crate) fn fail(&self, error: Py<PyBaseException>) {
        for waker in self.finish(QueuedFutureState::Failed(error)) {
            waker();
        }
    }

    fn finish(&self, finished: QueuedFutureState) -> Vec<Waker> {
        let mut state = self.state();
        let QueuedFutureState::Queued(wakers) = &mut *state else { return Vec::new() };
        let wakers = std::mem::take(wakers);
        *state = finished;
        drop(state);
        self.changed.notify_all();
        wakers
    }

    pub(crate) fn progress(&self, py: Python<'_>) -> Progress {
        match &*self.state() {
            QueuedFutureState::Queued(_) => Progress::Queued,
            QueuedFutureState::Sent(sent) => Progress::Sent(sent.clone()),
            QueuedFutureState::Failed(error) => Progress::Failed(PyErr::from_value(error.bind(py).clone().into_any())),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        match &*self.state() {
            QueuedFutureState::Queued(_) => false,
            QueuedFutureState::Sent(sent) => sent.is_done(),
            QueuedFutureState::Failed(_) => true,
        }
    }

    /// Waits until the record is done, at most until `until`. Returns true if it is.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let state = self.state();
        let left = until.saturating_duration_since(Instant::now());
        let waiting = |state: &mut QueuedFutureState| matches!(state, QueuedFutureState::Queued(_));
        let waited = self.changed.wait_timeout_while(state, left, waiting).unwrap_or_else(PoisonError::into_inner);
        let sent = match &*waited.0 {
            QueuedFutureState::Queued(_) => return false,
            QueuedFutureState::Failed(_) => return true,
            QueuedFutureState::Sent(sent) => sent.clone(),
        };
        drop(waited);
        sent.wait(until).is_some()
    }

    pub(crate) fn on_done(&self, waker: Waker) {
        let mut state = self.state();
        match &mut *state {
            QueuedFutureState::Queued(wakers) => wakers.push(waker),
            QueuedFutureState::Sent(sent) => {
                let sent = sent.clone();
                drop(state);
                sent.on_done(waker);
            }
            QueuedFutureState::Failed(_) => {
                drop(state);
                waker();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, QueuedFutureState> {
        lock(&self.state)
    }
}
