//! Transactions as the user calls them. A verb whose future is dropped, or whose time is over, goes on; calling it again waits on.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use monedula_engine::produce::SendFault;
use monedula_engine::transaction::{Ending, TransactionError};
use tokio::sync::oneshot;

use super::Producer;
use super::driver::Order;
use super::session::Verb;
use crate::consumer::{PendingOffsets, TransactionOffsets};
use crate::error::ClientError;
use crate::lock::lock;

/// Offsets in the open transaction.
#[derive(Clone, Default)]
pub(super) struct Pending(Arc<Mutex<Vec<PendingOffsets>>>);

impl Pending {
    fn push(&self, offsets: PendingOffsets) {
        lock(&self.0).push(offsets);
    }

    fn end(&self, ending: Ending) {
        let pending = std::mem::take(&mut *lock(&self.0));
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

    /// Delivers what was sent, then commits. Nothing can be sent meanwhile, but for what waits for room already.
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
            self.accumulator.end_transaction(Ending::Abort);
            self.accumulator.order(Order::FailUnsent(SendFault::Aborted));
        }
        self.end(Ending::Abort, timeout)
    }

    /// # Errors
    /// If it is known already that the open transaction cannot be committed.
    pub fn check_commit(&self) -> Result<(), ClientError> {
        // Without an id there are none, which the verb itself says better.
        let commits = self.config().transactional_id.as_ref().map(|_| self.gate.commits());
        Ok(commits.unwrap_or(Ok(()))?)
    }

    fn end(&self, ending: Ending, timeout: Duration) -> impl Future<Output = Result<(), ClientError>> + Send + use<> {
        let (until, pending) = (until(timeout), self.pending.clone());
        let delivered = self.delivered(ending);
        let accumulator = self.accumulator.clone();
        // Whoever gives up waiting does not give up the end, nor what follows from it.
        let ended = self.runtime.spawn(async move {
            // The end of a transaction takes in what the coordinator knows of it by then, and nothing that comes later.
            match tokio::time::timeout_at(until.into(), delivered).await {
                Ok(delivered) => delivered?,
                Err(_) => {
                    let what = match ending {
                        Ending::Commit => "commit_transaction",
                        Ending::Abort => "abort_transaction",
                    };
                    let last_error = "records are still on their way".into();
                    return Err(TransactionError::TimedOut { what, last_error }.into());
                }
            }
            let (reply, done) = oneshot::channel();
            accumulator.order(Order::Verb(Verb::End { ending, until }, reply));
            heard(done).await?;
            pending.end(ending);
            Ok(())
        });
        async move { ended.await.unwrap_or(Err(ClientError::ProducerClosed)) }
    }

    /// Ends when all that was sent in the transaction is done. Nothing can be sent in it then.
    fn delivered(&self, ending: Ending) -> impl Future<Output = Result<(), ClientError>> + Send + use<> {
        let (gate, accumulator) = (self.gate.clone(), self.accumulator.clone());
        let commits = ending == Ending::Commit && self.config().transactional_id.is_some();
        let checked = if commits { gate.commits() } else { Ok(()) };
        let transaction = gate.to_commit();
        if commits && checked.is_ok() {
            gate.close_to_new();
        }
        async move {
            checked?;
            if commits {
                gate.turns_over().await;
                gate.commits()?;
                gate.still_commits(transaction)?;
                accumulator.end_transaction(ending);
            }
            let (reply, done) = oneshot::channel();
            accumulator.flush(reply);
            // A driver that is gone has failed everything.
            let _ = done.await;
            if commits {
                gate.commits()?;
                gate.still_commits(transaction)?;
            }
            Ok(())
        }
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
