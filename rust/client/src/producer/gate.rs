//! The gate that records pass on their way into the open transaction. It is asked under the accumulator's lock, with which it is
//! also closed: what has passed is in a batch that the driver knows of before anything that follows the closing.
//!
//! Transactions have numbers. A record that had to wait tells in which one it was sent, and no other one lets it in.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use monedula_engine::produce::SendFault;
use monedula_engine::transaction::{Ending, TransactionError};
use tokio::sync::Notify;

use crate::error::ClientError;
use crate::lock::lock;

/// Records that have waited may be sent in the transaction.
const WAITING: u64 = 1;
/// All records may be. A commit ends this first, and lets those that wait come in.
const ALL: u64 = 2;
const NUMBER_SHIFT: u32 = 2;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// The number of the last transaction, shifted, with [`WAITING`] and [`ALL`].
    open: AtomicU64,
    state: Mutex<State>,
    /// A turn is over.
    left: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Why nothing can be sent now.
    refusal: Option<TransactionError>,
    /// How the last transaction ends.
    ending: Option<Ending>,
    /// What has come to nothing before it was in a batch: the session never hears of it.
    failure: Option<String>,
    /// Those that are not over, and the transaction of each.
    turns: BTreeMap<u64, u64>,
    next_turn: u64,
}

/// Whoever sends something that may have to wait, until this is dropped: the transaction in which it began is not committed before.
#[derive(Debug)]
pub struct Turn {
    gate: Arc<Gate>,
    number: u64,
    transaction: u64,
}

impl Turn {
    /// The number of the transaction that it belongs to.
    pub fn transaction(&self) -> u64 {
        self.transaction
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.gate.state().turns.remove(&self.number);
        self.gate.left.notify_waiters();
    }
}

impl Gate {
    /// The number of the open transaction, if it is the one that a record was sent in, for one that had to wait.
    ///
    /// # Errors
    /// Why the record cannot be sent now.
    #[inline]
    pub(crate) fn check(&self, sent_in: Option<u64>) -> Result<u64, ClientError> {
        let open = self.open.load(Ordering::Acquire);
        let transaction = open >> NUMBER_SHIFT;
        let is_open = match sent_in {
            None => open & ALL != 0,
            Some(sent_in) => open & WAITING != 0 && sent_in == transaction,
        };
        if is_open { Ok(transaction) } else { Err(self.refusal(sent_in)) }
    }

    #[cold]
    fn refusal(&self, sent_in: Option<u64>) -> ClientError {
        let state = self.state();
        let is_over = sent_in.is_some_and(|sent_in| sent_in != self.transaction());
        match &state.refusal {
            // What went wrong for good, or with the transaction itself, is the better answer.
            Some(error) if !matches!(error, TransactionError::State(_)) => error.clone().into(),
            _ if is_over || sent_in.is_some() && state.ending == Some(Ending::Abort) => SendFault::Aborted.into(),
            Some(error) => error.clone().into(),
            None => ClientError::ProducerClosed,
        }
    }

    pub(super) fn transaction(&self) -> u64 {
        self.open.load(Ordering::Acquire) >> NUMBER_SHIFT
    }

    fn is(&self, open: u64) -> bool {
        self.open.load(Ordering::Acquire) & open != 0
    }

    /// Begins something that may have to wait.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Turn, ClientError> {
        let mut state = self.state();
        if !self.is(ALL) {
            drop(state);
            return Err(self.refusal(None));
        }
        state.next_turn += 1;
        let (number, transaction) = (state.next_turn, self.transaction());
        state.turns.insert(number, transaction);
        Ok(Turn { gate: self.clone(), number, transaction })
    }

    /// What the session says: whether records may be sent.
    pub(super) fn set(&self, refusal: Option<TransactionError>) {
        let mut state = self.state();
        match (self.is(WAITING), &refusal) {
            (false, None) => {
                (state.failure, state.ending) = (None, None);
                self.open.store(((self.transaction() + 1) << NUMBER_SHIFT) | WAITING | ALL, Ordering::Release);
            }
            (true, Some(_)) => self.shut(),
            _ => {}
        }
        state.refusal = refusal;
    }

    fn shut(&self) {
        self.open.store(self.transaction() << NUMBER_SHIFT, Ordering::Release);
    }

    /// A commit begins: from now on only those get in that have begun to wait before.
    pub(super) fn close_to_new(&self) {
        let mut state = self.state();
        if self.is(ALL) {
            (state.refusal, state.ending) = (Some(is_being("committed")), Some(Ending::Commit));
            self.open.fetch_and(!ALL, Ordering::AcqRel);
        }
    }

    /// Lets nothing in from now on: the transaction is about to end.
    pub(super) fn close(&self, ending: Ending) {
        let mut state = self.state();
        let ended = match ending {
            Ending::Commit => "committed",
            Ending::Abort => "aborted",
        };
        if ending == Ending::Abort {
            state.failure = None;
        }
        if ending == Ending::Abort || self.is(WAITING) {
            state.ending = Some(ending);
        }
        if self.is(WAITING) {
            state.refusal = Some(is_being(ended));
            self.shut();
        }
    }

    /// Something of a transaction came to nothing before it was in a batch: it must not be committed without it.
    pub(crate) fn spoil(&self, transaction: u64, reason: &impl ToString) {
        self.spoil_if(|open| open == transaction, reason);
    }

    /// The same, of the last transaction.
    pub(crate) fn spoil_open(&self, reason: &impl ToString) {
        self.spoil_if(|_| true, reason);
    }

    fn spoil_if(&self, is_it: impl Fn(u64) -> bool, reason: &impl ToString) {
        let mut state = self.state();
        if is_it(self.transaction()) && state.ending != Some(Ending::Abort) {
            state.failure.get_or_insert_with(|| reason.to_string());
        }
    }

    /// Why the transaction cannot be committed, as far as that is known.
    pub(super) fn commits(&self) -> Result<(), TransactionError> {
        let state = self.state();
        match (&state.refusal, &state.failure) {
            (Some(error), _) if !matches!(error, TransactionError::State(_)) => Err(error.clone()),
            (_, Some(reason)) => Err(TransactionError::MustAbort { reason: reason.clone() }),
            _ => Ok(()),
        }
    }

    /// The transaction that a commit is for: the open one, or one that another commit has closed already.
    pub(super) fn to_commit(&self) -> Option<u64> {
        let state = self.state();
        (self.is(WAITING) || state.ending == Some(Ending::Commit)).then_some(self.transaction())
    }

    /// # Errors
    /// If the transaction was aborted, by somebody who did not wait for the commit: it must not commit the next one.
    pub(super) fn still_commits(&self, transaction: Option<u64>) -> Result<(), TransactionError> {
        let state = self.state();
        let is_over = transaction.is_some_and(|transaction| transaction != self.transaction());
        if is_over || transaction.is_some() && state.ending == Some(Ending::Abort) {
            let reason = "it was aborted while it was being committed".into();
            return Err(TransactionError::MustAbort { reason });
        }
        Ok(())
    }

    /// # Errors
    /// Whether another producer has taken over.
    pub(super) fn fenced(&self) -> Result<(), TransactionError> {
        match &self.state().refusal {
            Some(error @ TransactionError::Fenced { .. }) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Whether all turns of this transaction are over; those of transactions before may last longer.
    pub(super) fn is_quiet(&self) -> bool {
        let state = self.state();
        state.turns.values().all(|transaction| *transaction != self.transaction())
    }

    /// Ends when they are.
    pub(super) async fn turns_over(&self) {
        loop {
            let left = self.left.notified();
            if self.is_quiet() {
                return;
            }
            left.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn is_being(ended: &str) -> TransactionError {
    TransactionError::State(format!("the transaction is being {ended}: begin another to send in"))
}
