//! The verbs of transactions. A verb whose future is dropped, or whose time is over, goes on; calling it again waits
//! for its end.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use monedula_engine::produce::SendFault;
use monedula_engine::transaction::{Ending, TransactionError};
use tokio::sync::oneshot;

use super::command::{ProduceCommand, Verb};
use super::handle::Producer;
use crate::consumer::{PendingOffsets, TransactionOffsets};
use crate::error::ClientError;
use crate::lock::lock;
use crate::net::network::Network;

/// The consumers' offsets that were sent to the open transaction.
#[derive(Clone, Default)]
pub(super) struct OffsetsInTransaction(Arc<Mutex<Vec<PendingOffsets>>>);

impl OffsetsInTransaction {
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
    /// Fences older producers with this `transactional.id`, and ends their open transaction. Called once, before the
    /// first transaction.
    pub fn init_transactions(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        self.verb(Verb::Init { until: until(timeout) })
    }

    /// Begins a transaction: records sent from now on belong to it.
    pub fn begin_transaction(&self) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        self.verb(Verb::Begin)
    }

    /// Commits a consumer's offsets with the transaction.
    pub fn send_offsets(
        &self,
        offsets: TransactionOffsets,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        // Counted before the call, since the wait may end before the offsets are committed: the end of the transaction
        // waits for them.
        self.offsets.push(offsets.pending());
        let TransactionOffsets { group, offsets: of, .. } = &offsets;
        let sent = self.verb(Verb::SendOffsets { group: group.clone(), offsets: of.clone(), until: until(timeout) });
        async move {
            let outcome = sent.await;
            // Until here, no partition of the consumer is revoked.
            drop(offsets);
            outcome
        }
    }

    /// From now on the transaction can only be aborted.
    pub fn fail_transaction(&self, reason: String) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        self.verb(Verb::Fail { reason })
    }

    /// Delivers the records of the transaction, then commits it. Meanwhile only records can be sent that already wait
    /// for room.
    pub fn commit_transaction(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        self.end(Ending::Commit, timeout)
    }

    /// Aborts the transaction: records that were not sent fail, and readers of committed records never see those that
    /// were.
    pub fn abort_transaction(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        if self.config().transactional_id.is_some() {
            self.accumulator.end_transaction(Ending::Abort);
            self.accumulator.send_command(ProduceCommand::FailUnsent(SendFault::Aborted));
        }
        self.end(Ending::Abort, timeout)
    }

    /// # Errors
    /// An open transaction of which it is known already that it cannot be committed.
    pub fn check_commit(&self) -> Result<(), ClientError> {
        // Without a `transactional.id` the verb itself has the better error.
        let commits = self.config().transactional_id.as_ref().map(|_| self.admission.check_commit());
        commits.unwrap_or(Ok(())).map_err(|error| explained(error, &self.base.network))
    }

    fn end(&self, ending: Ending, timeout: Duration) -> impl Future<Output = Result<(), ClientError>> + Send + use<> {
        let (after, until, sent_offsets) = (timeout, until(timeout), self.offsets.clone());
        let delivered = self.delivered(ending);
        let (accumulator, network) = (self.accumulator.clone(), self.base.network.clone());
        // A task, so that the transaction ends even if the caller drops this future.
        let ended = self.runtime.spawn(async move {
            // EndTxn covers the partitions that the coordinator knows of by then, so all records have to be delivered
            // before it.
            match tokio::time::timeout_at(until.into(), delivered).await {
                Ok(delivered) => delivered.map_err(|error| explained(error, &network))?,
                Err(_) => {
                    let what = match ending {
                        Ending::Commit => "commit_transaction",
                        Ending::Abort => "abort_transaction",
                    };
                    let last_error = "records are still on their way".to_owned();
                    let last_error = network.explain(Some(last_error)).unwrap_or_default();
                    return Err(TransactionError::TimedOut { what, after, last_error }.into());
                }
            }
            let (reply, done) = oneshot::channel();
            accumulator.send_command(ProduceCommand::Verb(Verb::End { ending, until }, reply));
            outcome_of(done, &network).await?;
            sent_offsets.end(ending);
            Ok(())
        });
        async move { ended.await.unwrap_or(Err(ClientError::ProducerClosed)) }
    }

    /// Resolves when all records of the transaction are done. For a commit, none can be sent in it from then on.
    fn delivered(&self, ending: Ending) -> impl Future<Output = Result<(), TransactionError>> + Send + use<> {
        let (admission, accumulator) = (self.admission.clone(), self.accumulator.clone());
        let commits = ending == Ending::Commit && self.config().transactional_id.is_some();
        let checked = if commits { admission.check_commit() } else { Ok(()) };
        let transaction = admission.transaction_to_commit();
        if commits && checked.is_ok() {
            admission.close_to_new_records();
        }
        async move {
            checked?;
            if commits {
                admission.permits_released().await;
                admission.check_commit()?;
                admission.check_still_commits(transaction)?;
                accumulator.end_transaction(ending);
            }
            let (reply, done) = oneshot::channel();
            accumulator.flush(reply);
            // Fails only if the driver is gone, which has failed everything then.
            let _ = done.await;
            if commits {
                admission.check_commit()?;
                admission.check_still_commits(transaction)?;
            }
            Ok(())
        }
    }

    fn verb(&self, verb: Verb) -> impl Future<Output = Result<(), ClientError>> + Send + use<> {
        let (reply, done) = oneshot::channel();
        self.accumulator.send_command(ProduceCommand::Verb(verb, reply));
        let network = self.base.network.clone();
        async move { outcome_of(done, &network).await }
    }
}

async fn outcome_of(
    done: oneshot::Receiver<Result<(), TransactionError>>,
    network: &Network,
) -> Result<(), ClientError> {
    match done.await {
        Ok(outcome) => outcome.map_err(|error| explained(error, network)),
        Err(_) => Err(ClientError::ProducerClosed),
    }
}

/// Where a broker does not let the client in, the transaction fails because of that, whatever failed first.
fn explained(error: TransactionError, network: &Network) -> ClientError {
    match error {
        TransactionError::Fatal(_) | TransactionError::MustAbort { .. } => {
            network.refusal().unwrap_or_else(|| error.into())
        }
        TransactionError::TimedOut { what, after, last_error } => {
            let last_error = network.explain(Some(last_error)).unwrap_or_default();
            TransactionError::TimedOut { what, after, last_error }.into()
        }
        error => error.into(),
    }
}

fn until(timeout: Duration) -> Instant {
    // A clock cannot represent every timeout; a year is long enough.
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + Duration::from_secs(365 * 86_400))
}
