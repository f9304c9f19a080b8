//! Admission of records to a transaction. The accumulator checks it under the lock under which transactions are closed:
//! a record that was admitted is in a batch that the driver knows of before anything that follows the closing.
//!
//! Transactions have numbers. A record that had to wait names the one in which it was sent, and no other admits it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use monedula_engine::produce::SendFault;
use monedula_engine::transaction::{Ending, TransactionError};
use tokio::sync::Notify;

use crate::error::ClientError;
use crate::lock::lock;

/// Set while the transaction admits records that have waited.
const ADMITS_WAITING: u64 = 1;
/// Set while the transaction admits all records. A commit clears this bit first, and lets records that wait come in.
const ADMITS_ALL: u64 = 2;
const NUMBER_SHIFT: u32 = 2;

/// The admission of records to the open transaction; see the [module](self). Without a `transactional.id` it admits all
/// records until the producer fails for good.
#[derive(Debug, Default)]
pub(crate) struct TransactionAdmission {
    /// The number of the last transaction, shifted, with [`ADMITS_WAITING`] and [`ADMITS_ALL`].
    open: AtomicU64,
    state: Mutex<AdmissionState>,
    /// Notified when a permit is released.
    released: Notify,
}

#[derive(Debug, Default)]
struct AdmissionState {
    /// Reason that nothing can be sent now.
    refusal: Option<TransactionError>,
    /// Reason that nothing can be sent any more: the client was not let in.
    client_refusal: Option<ClientError>,
    /// End of the last transaction.
    ending: Option<Ending>,
    /// Reason that records of the transaction failed before they were in a batch. The session does not learn of these.
    failure: Option<String>,
    /// The permits that are held, each with the number of its transaction.
    permits: BTreeMap<u64, u64>,
    next_permit: u64,
}

/// Held while a caller sends something that may have to wait. The transaction in which it was acquired is not committed
/// before it is dropped.
#[derive(Debug)]
pub struct SendPermit {
    admission: Arc<TransactionAdmission>,
    number: u64,
    transaction: u64,
}

impl SendPermit {
    /// The number of the transaction that it belongs to.
    pub fn transaction(&self) -> u64 {
        self.transaction
    }
}

impl Drop for SendPermit {
    fn drop(&mut self) {
        self.admission.state().permits.remove(&self.number);
        self.admission.released.notify_waiters();
    }
}

impl TransactionAdmission {
    /// Checks that a record is admitted. `sent_in` is the transaction of a record that had to wait. Returns the number
    /// of the open transaction.
    ///
    /// # Errors
    /// Reason that the record cannot be sent now.
    #[inline]
    pub(crate) fn check(&self, sent_in: Option<u64>) -> Result<u64, ClientError> {
        let open = self.open.load(Ordering::Acquire);
        let transaction = open >> NUMBER_SHIFT;
        let is_open = match sent_in {
            None => open & ADMITS_ALL != 0,
            Some(sent_in) => open & ADMITS_WAITING != 0 && sent_in == transaction,
        };
        if is_open { Ok(transaction) } else { Err(self.refusal(sent_in)) }
    }

    #[cold]
    fn refusal(&self, sent_in: Option<u64>) -> ClientError {
        let state = self.state();
        let is_over = sent_in.is_some_and(|sent_in| sent_in != self.transaction());
        if let Some(error) = &state.client_refusal {
            return error.clone();
        }
        match &state.refusal {
            // A failure of the producer, or of the transaction itself, is the better error.
            Some(error) if !matches!(error, TransactionError::State(_)) => error.clone().into(),
            _ if is_over || sent_in.is_some() && state.ending == Some(Ending::Abort) => SendFault::Aborted.into(),
            Some(error) => error.clone().into(),
            None => ClientError::ProducerClosed,
        }
    }

    pub(super) fn transaction(&self) -> u64 {
        self.open.load(Ordering::Acquire) >> NUMBER_SHIFT
    }

    fn admits(&self, which: u64) -> bool {
        self.open.load(Ordering::Acquire) & which != 0
    }

    /// # Errors
    /// If nothing can be sent now.
    pub(crate) fn acquire(self: &Arc<Self>) -> Result<SendPermit, ClientError> {
        let mut state = self.state();
        if !self.admits(ADMITS_ALL) {
            drop(state);
            return Err(self.refusal(None));
        }
        state.next_permit += 1;
        let (number, transaction) = (state.next_permit, self.transaction());
        state.permits.insert(number, transaction);
        Ok(SendPermit { admission: self.clone(), number, transaction })
    }

    /// Follows the session: `refusal` says why records cannot be sent, `None` that they can. Opens the next transaction
    /// if the last one was closed.
    pub(super) fn set_refusal(&self, refusal: Option<TransactionError>) {
        let mut state = self.state();
        match (self.admits(ADMITS_WAITING), &refusal) {
            (false, None) if state.client_refusal.is_none() => {
                (state.failure, state.ending) = (None, None);
                let next = (self.transaction() + 1) << NUMBER_SHIFT;
                self.open.store(next | ADMITS_WAITING | ADMITS_ALL, Ordering::Release);
            }
            (true, Some(_)) => self.admit_none(),
            _ => {}
        }
        state.refusal = refusal;
    }

    /// The client was not let in, or its settings are wrong: nothing can be sent from now on, and an open transaction
    /// can only be aborted.
    pub(super) fn refuse_client(&self, error: ClientError) {
        let mut state = self.state();
        if state.client_refusal.is_some() {
            return;
        }
        if self.admits(ADMITS_WAITING) && state.ending != Some(Ending::Abort) {
            // Whatever of it could still be committed over connections that stand: its outcome must not depend on that.
            state.failure.get_or_insert_with(|| error.to_string());
        }
        state.client_refusal = Some(error);
        self.admit_none();
    }

    fn admit_none(&self) {
        self.open.store(self.transaction() << NUMBER_SHIFT, Ordering::Release);
    }

    /// A commit begins: from now on only records are admitted that already wait.
    pub(super) fn close_to_new_records(&self) {
        let mut state = self.state();
        if self.admits(ADMITS_ALL) {
            (state.refusal, state.ending) = (Some(is_ending("committed")), Some(Ending::Commit));
            self.open.fetch_and(!ADMITS_ALL, Ordering::AcqRel);
        }
    }

    /// The transaction is about to end: no records are admitted from now on.
    pub(super) fn close(&self, ending: Ending) {
        let mut state = self.state();
        let ended = match ending {
            Ending::Commit => "committed",
            Ending::Abort => "aborted",
        };
        if ending == Ending::Abort {
            state.failure = None;
        }
        if ending == Ending::Abort || self.admits(ADMITS_WAITING) {
            state.ending = Some(ending);
        }
        if self.admits(ADMITS_WAITING) {
            state.refusal = Some(is_ending(ended));
            self.admit_none();
        }
    }

    /// Records of this transaction failed before they were in a batch: it must not be committed without them.
    pub(crate) fn fail_transaction(&self, transaction: u64, reason: &impl ToString) {
        self.fail_if(|last| last == transaction, reason);
    }

    /// As [`Self::fail_transaction`], for the last transaction.
    pub(crate) fn fail_open_transaction(&self, reason: &impl ToString) {
        self.fail_if(|_| true, reason);
    }

    fn fail_if(&self, is_it: impl Fn(u64) -> bool, reason: &impl ToString) {
        let mut state = self.state();
        if is_it(self.transaction()) && state.ending != Some(Ending::Abort) {
            state.failure.get_or_insert_with(|| reason.to_string());
        }
    }

    /// # Errors
    /// Reason that the transaction cannot be committed, if it is known.
    pub(super) fn check_commit(&self) -> Result<(), TransactionError> {
        let state = self.state();
        match (&state.refusal, &state.failure) {
            (Some(error), _) if !matches!(error, TransactionError::State(_)) => Err(error.clone()),
            (_, Some(reason)) => Err(TransactionError::MustAbort { reason: reason.clone() }),
            _ => Ok(()),
        }
    }

    /// The transaction that a commit is for: the open one, or one that another commit has closed already.
    pub(super) fn transaction_to_commit(&self) -> Option<u64> {
        let state = self.state();
        (self.admits(ADMITS_WAITING) || state.ending == Some(Ending::Commit)).then_some(self.transaction())
    }

    /// # Errors
    /// If the transaction was aborted by another caller during the commit, which must not commit the next transaction.
    pub(super) fn check_still_commits(&self, transaction: Option<u64>) -> Result<(), TransactionError> {
        let state = self.state();
        let is_over = transaction.is_some_and(|transaction| transaction != self.transaction());
        if is_over || transaction.is_some() && state.ending == Some(Ending::Abort) {
            let reason = "it was aborted while it was being committed".into();
            return Err(TransactionError::MustAbort { reason });
        }
        Ok(())
    }

    /// # Errors
    /// If another producer has taken over.
    pub(super) fn check_fenced(&self) -> Result<(), TransactionError> {
        match &self.state().refusal {
            Some(error @ TransactionError::Fenced { .. }) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// True if no permit of the last transaction is held. Permits of earlier transactions may be held longer.
    fn has_no_permits(&self) -> bool {
        let state = self.state();
        state.permits.values().all(|transaction| *transaction != self.transaction())
    }

    /// Waits until no permit of the last transaction is held.
    pub(super) async fn permits_released(&self) {
        loop {
            let released = self.released.notified();
            if self.has_no_permits() {
                return;
            }
            released.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, AdmissionState> {
        lock(&self.state)
    }
}

fn is_ending(ended: &str) -> TransactionError {
    TransactionError::State(format!("the transaction is being {ended}: begin another to send in"))
}
