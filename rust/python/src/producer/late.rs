//! A record that has a future before it is sent: it waits in a queue for room, or for the topic's partitions.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use monedula_client::lock::lock;
use monedula_client::producer::Sent;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

pub(crate) type Waker = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(crate) struct Late {
    state: Mutex<State>,
    changed: Condvar,
}

enum State {
    Waiting(Vec<Waker>),
    Sent(Sent),
    /// The record will never be sent, and the error.
    Failed(Py<PyBaseException>),
}

impl Default for State {
    fn default() -> Self {
        Self::Waiting(Vec::new())
    }
}

/// The current state of the record.
pub(crate) enum Found {
    Waiting,
    Sent(Sent),
    Failed(PyErr),
}

impl Late {
    pub(crate) fn send(&self, sent: &Sent) {
        for waker in self.settle(State::Sent(sent.clone())) {
            sent.on_done(waker);
        }
    }

    pub(crate) fn fail(&self, error: Py<PyBaseException>) {
        for waker in self.settle(State::Failed(error)) {
            waker();
        }
    }

    fn settle(&self, settled: State) -> Vec<Waker> {
        let mut state = self.state();
        let State::Waiting(wakers) = &mut *state else { return Vec::new() };
        let wakers = std::mem::take(wakers);
        *state = settled;
        drop(state);
        self.changed.notify_all();
        wakers
    }

    pub(crate) fn look(&self, py: Python<'_>) -> Found {
        match &*self.state() {
            State::Waiting(_) => Found::Waiting,
            State::Sent(sent) => Found::Sent(sent.clone()),
            State::Failed(error) => Found::Failed(PyErr::from_value(error.bind(py).clone().into_any())),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        match &*self.state() {
            State::Waiting(_) => false,
            State::Sent(sent) => sent.is_done(),
            State::Failed(_) => true,
        }
    }

    /// Waits until the record is done, at most until `until`. Returns whether it is done.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let state = self.state();
        let left = until.saturating_duration_since(Instant::now());
        let waiting = |state: &mut State| matches!(state, State::Waiting(_));
        let waited = self.changed.wait_timeout_while(state, left, waiting).unwrap_or_else(PoisonError::into_inner);
        let sent = match &*waited.0 {
            State::Waiting(_) => return false,
            State::Failed(_) => return true,
            State::Sent(sent) => sent.clone(),
        };
        drop(waited);
        sent.wait(until).is_some()
    }

    pub(crate) fn on_done(&self, waker: Waker) {
        let mut state = self.state();
        match &mut *state {
            State::Waiting(wakers) => wakers.push(waker),
            State::Sent(sent) => {
                let sent = sent.clone();
                drop(state);
                sent.on_done(waker);
            }
            State::Failed(_) => {
                drop(state);
                waker();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
