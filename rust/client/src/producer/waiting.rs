//! Lines of records that wait before they can be in a batch, for room or for their partition to be chosen, for whoever serves them on
//! a thread of its own. The order and the transactions are the engine's ([`WaitingQueues`]).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use monedula_engine::produce::WaitingQueues;

use super::gate::{Gate, Turn};
use crate::error::ClientError;
use crate::lock::lock;

/// See the [module](self). What waits is given back whole, never dropped under a lock.
pub struct WaitingLines<T> {
    gate: Arc<Gate>,
    lines: Mutex<WaitingQueues<Held<T>>>,
    changed: Condvar,
}

#[derive(Clone)]
struct Held<T> {
    what: T,
    since: Instant,
    /// Until it is done, its transaction is not committed.
    turn: Arc<Turn>,
}

/// Who is served.
pub struct First<T> {
    /// What waits.
    pub what: T,
    /// For how long it has waited.
    pub waited: Duration,
    /// The transaction that it was sent in.
    pub sent_in: u64,
    /// Whether that is not over. Where the record gets into a batch the gate asks once more.
    pub goes: bool,
}

impl<T: Clone> WaitingLines<T> {
    pub(super) fn new(gate: Arc<Gate>) -> Self {
        Self { gate, lines: Mutex::new(WaitingQueues::default()), changed: Condvar::new() }
    }

    /// Has `what` stand at a line's end; with `opens`, also where there is no such line yet. Says whether it stands there, and
    /// whether it is the first one: then the line has to be served.
    ///
    /// # Errors
    /// If nothing can be sent now.
    pub fn join(&self, line: &str, opens: bool, what: impl FnOnce() -> T) -> Result<Option<bool>, ClientError> {
        if !opens && !self.lines().has_queue(line) {
            return Ok(None);
        }
        let turn = Arc::new(self.gate.enter()?);
        let held = Held { what: what(), since: Instant::now(), turn };
        let mut lines = self.lines();
        if !opens && !lines.has_queue(line) {
            drop(lines);
            return Ok(None);
        }
        let sent_in = held.turn.transaction();
        Ok(Some(lines.push(line, sent_in, held)))
    }

    /// Who is to be served in a line, if there is somebody. It stays the first until it is [`Self::done`].
    pub fn first(&self, line: &str) -> Option<First<T>> {
        let lines = self.lines();
        let (place, held) = lines.front(line)?;
        let (what, waited) = (held.what.clone(), held.since.elapsed());
        Some(First { what, waited, sent_in: place.transaction, goes: lines.may_send(place) })
    }

    /// The first of a line is sent, or has failed with `failure`, which its transaction is told of. Whether there is another one to
    /// be served: once this says no, whoever comes next opens the line anew, to be served by somebody else.
    pub fn done(&self, line: &str, failure: Option<&str>) -> bool {
        let mut lines = self.lines();
        if let (Some((place, _)), Some(reason)) = (lines.front(line), failure) {
            self.gate.spoil(place.transaction, &reason);
        }
        let (done, goes_on) = (lines.pop(line), lines.has_queue(line));
        drop(lines);
        self.changed.notify_all();
        drop(done);
        goes_on
    }

    /// The last transaction is aborted: gives whatever waits of it, which has failed.
    pub fn take_back(&self) -> Vec<T> {
        let taken_back = self.lines().abort(self.gate.transaction());
        self.changed.notify_all();
        taken_back.into_iter().map(|held| held.what).collect()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.lines().len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lines().is_empty()
    }

    /// The number of the last one that came: a goal for [`Self::wait`].
    pub fn last(&self) -> u64 {
        self.lines().last_number()
    }

    /// Waits until all up to this one are done, at most until `until`; whether they are.
    pub fn wait(&self, last: u64, until: Instant) -> bool {
        let mut lines = self.lines();
        while !lines.is_done_up_to(last) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            lines = self.changed.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lines(&self) -> MutexGuard<'_, WaitingQueues<Held<T>>> {
        lock(&self.lines)
    }
}
