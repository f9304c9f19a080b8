//! Transactions as the user calls them. A verb whose future is dropped, or whose time is over, goes on; calling it again waits on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use monedula_engine::produce::SendFault;
use monedula_engine::transaction::{Ending, TransactionError};
use tokio::sync::oneshot;

use super::Producer;
use super::driver::Order;
use super::session::Verb;
use crate::consumer::{PendingOffsets, TransactionOffsets};
use crate::error::ClientError;

/// Offsets in the open transaction.
#[derive(Clone, Default)]
pub(super) struct Pending(Arc<Mutex<Vec<PendingOffsets>>>);

impl Pending {
    fn push(&self, offsets: PendingOffsets) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(offsets);
    }

    fn end(&self, ending: Ending) {
        let pending = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if ending == Ending::Commit {
            pending.iter().for_each(PendingOffsets::committed);
        }
    }
}

impl Producer {
    /// Fences older producers with this `transactional.id`, and ends what they left open. Once, before the first transaction.
    pub fn init_transactions(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        self.verb(Verb::Init { until: until(timeout) })
    }

    /// Begins a transaction: what is sent from now on belongs to it.
    pub fn begin_transaction(&self) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        self.verb(Verb::Begin)
    }

    /// Brings a consumer's offsets into the transaction.
    pub fn send_offsets(
        &self,
        offsets: TransactionOffsets,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        // Though the wait may end before they are there: the end of the transaction waits for them.
        self.pending.push(offsets.pending());
        let TransactionOffsets { group, offsets: of, .. } = &offsets;
        let sent = self.verb(Verb::SendOffsets { group: group.clone(), offsets: of.clone(), until: until(timeout) });
        async move {
            let outcome = sent.await;
            // Until here no partition is given up.
            drop(offsets);
            outcome
        }
    }

    /// The transaction can only be aborted from now on.
    pub fn spoil_transaction(&self, reason: String) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        self.verb(Verb::Spoil { reason })
    }

    /// Delivers what was sent, then commits. Nothing can be sent meanwhile.
    pub fn commit_transaction(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        self.end(Ending::Commit, timeout)
    }

    /// Aborts: what was not sent yet fails, and readers of committed records will see nothing of the rest.
    pub fn abort_transaction(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        if self.config().transactional_id.is_some() {
            self.gate.close(Ending::Abort);
            self.accumulator.order(Order::FailUnsent(SendFault::Aborted));
        }
        self.end(Ending::Abort, timeout)
    }

    fn end(&self, ending: Ending, timeout: Duration) -> impl Future<Output = Result<(), ClientError>> + Send + use<> {
        if self.config().transactional_id.is_some() {
            self.gate.close(ending);
        }
        let (until, flush, accumulator) = (until(timeout), self.flush(), self.accumulator.clone());
        let pending = self.pending.clone();
        // Whoever gives up waiting does not give up the end, nor what follows from it.
        let ended = self.runtime.spawn(async move {
            // The end of a transaction takes in what the coordinator knows of it by then, and nothing that comes later.
            if tokio::time::timeout_at(until.into(), flush).await.is_err() {
                let what = match ending {
                    Ending::Commit => "commit_transaction",
                    Ending::Abort => "abort_transaction",
                };
                let last_error = "records are still on their way".into();
                return Err(TransactionError::TimedOut { what, last_error }.into());
            }
            let (reply, done) = oneshot::channel();
            accumulator.order(Order::Verb(Verb::End { ending, until }, reply));
            heard(done).await?;
            pending.end(ending);
            Ok(())
        });
        async move { ended.await.unwrap_or(Err(ClientError::ProducerClosed)) }
    }

    fn verb(&self, verb: Verb) -> impl Future<Output = Result<(), ClientError>> + Send + use<> {
        let (reply, done) = oneshot::channel();
        self.accumulator.order(Order::Verb(verb, reply));
        heard(done)
    }
}

async fn heard(done: oneshot::Receiver<Result<(), TransactionError>>) -> Result<(), ClientError> {
    match done.await {
        Ok(outcome) => outcome.map_err(ClientError::from),
        Err(_) => Err(ClientError::ProducerClosed),
    }
}

fn until(timeout: Duration) -> Instant {
    // What is too far away for a clock is far enough away at a year.
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + Duration::from_secs(365 * 86_400))
}
