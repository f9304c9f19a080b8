//! The future of a record that waits before it can be sent, for room or for its topic's metadata.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use monedula_client::lock::lock;
use monedula_client::producer::RecordFuture;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

pub(crate) type Waker = Box<dyn FnOnce() + Send>;

/// A send that is deferred until a thread of Python's carries it out.
#[derive(Default)]
pub(crate) struct DeferredSend {
    state: Mutex<DeferredSendState>,
    changed: Condvar,
}

enum DeferredSendState {
    Waiting(Vec<Waker>),
    RecordFuture(RecordFuture),
    /// It was not sent, and never will be.
    Failed(Py<PyBaseException>),
}

impl Default for DeferredSendState {
    fn default() -> Self {
        Self::Waiting(Vec::new())
    }
}

/// How far a deferred send has come.
pub(crate) enum Progress {
    Waiting,
    RecordFuture(RecordFuture),
    Failed(PyErr),
}

impl DeferredSend {
    pub(crate) fn resolve(&self, sent: &RecordFuture) {
        for waker in self.finish(DeferredSendState::RecordFuture(sent.clone())) {
            sent.on_done(waker);
        }
    }

    pub(crate) fn fail(&self, error: Py<PyBaseException>) {
        for waker in self.finish(DeferredSendState::Failed(error)) {
            waker();
        }
    }

    fn finish(&self, finished: DeferredSendState) -> Vec<Waker> {
        let mut state = self.state();
        let DeferredSendState::Waiting(wakers) = &mut *state else { return Vec::new() };
        let wakers = std::mem::take(wakers);
        *state = finished;
        drop(state);
        self.changed.notify_all();
        wakers
    }

    pub(crate) fn progress(&self, py: Python<'_>) -> Progress {
        match &*self.state() {
            DeferredSendState::Waiting(_) => Progress::Waiting,
            DeferredSendState::RecordFuture(sent) => Progress::RecordFuture(sent.clone()),
            DeferredSendState::Failed(error) => Progress::Failed(PyErr::from_value(error.bind(py).clone().into_any())),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        match &*self.state() {
            DeferredSendState::Waiting(_) => false,
            DeferredSendState::RecordFuture(sent) => sent.is_done(),
            DeferredSendState::Failed(_) => true,
        }
    }

    /// Waits until the record is done, at most until `until`. Returns whether it is.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let state = self.state();
        let left = until.saturating_duration_since(Instant::now());
        let waiting = |state: &mut DeferredSendState| matches!(state, DeferredSendState::Waiting(_));
        let waited = self.changed.wait_timeout_while(state, left, waiting).unwrap_or_else(PoisonError::into_inner);
        let sent = match &*waited.0 {
            DeferredSendState::Waiting(_) => return false,
            DeferredSendState::Failed(_) => return true,
            DeferredSendState::RecordFuture(sent) => sent.clone(),
        };
        drop(waited);
        sent.wait(until).is_some()
    }

    pub(crate) fn on_done(&self, waker: Waker) {
        let mut state = self.state();
        match &mut *state {
            DeferredSendState::Waiting(wakers) => wakers.push(waker),
            DeferredSendState::RecordFuture(sent) => {
                let sent = sent.clone();
                drop(state);
                sent.on_done(waker);
            }
            DeferredSendState::Failed(_) => {
                drop(state);
                waker();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, DeferredSendState> {
        lock(&self.state)
    }
}
