//! Transactions, as Python's own classes use them.

use std::sync::Arc;
use std::time::Duration;

use monedula_client::error::ClientError;
use monedula_engine::transaction::TransactionError;
use pyo3::prelude::*;

use super::{ProducerCore, Shared};
use crate::consumer::group::{MemberCore, commit_what};
use crate::error::to_py;
use crate::operation::Operation;
use crate::runtime::Own;
use crate::seconds::Seconds;

/// A producer's transactions; see `monedula.Producer.transaction`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct TransactionCore {
    shared: Own<Arc<Shared>>,
}

#[pymethods]
impl TransactionCore {
    #[new]
    fn new(core: &ProducerCore) -> PyResult<Self> {
        Ok(Self { shared: Own::new(core.shared.get()?.clone()) })
    }

    /// Carries out a verb: "init", "begin", "commit" or "abort". `timeout` is in seconds; `None` is `max.block.ms`.
    fn run(&self, py: Python<'_>, verb: &str, timeout: Option<Seconds>) -> PyResult<Operation> {
        let shared = self.shared.get()?;
        let doing = doing(py, shared, verb, self.timeout(py, timeout)?);
        Operation::start(doing, shared.producer.log(), |py, ()| Ok(py.None()))
    }

    /// Raises if it is already known that the open transaction cannot be committed.
    fn check_commit(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.get()?.producer.check_commit().map_err(|error| to_py(py, error))
    }

    /// Commits offsets with the transaction. Arguments as `MemberCore.commit`.
    fn send_offsets(
        &self,
        py: Python<'_>,
        member: &MemberCore,
        what: Option<&Bound<'_, PyAny>>,
        holder: Option<u64>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let (shared, consumer) = (self.shared.get()?.clone(), member.consumer()?.clone());
        let (what, timeout) = (commit_what(&consumer, what, holder)?, self.timeout(py, timeout)?);
        let taken = py.detach(|| consumer.take_offsets(what));
        if let Err(error @ (ClientError::Argument(_) | ClientError::Closed)) = taken {
            return Err(to_py(py, error));
        }
        let log = shared.producer.log().clone();
        let sending = async move {
            match taken {
                Ok(offsets) => shared.producer.send_offsets(offsets, timeout).await,
                Err(error) => {
                    // Records that are in the transaction already must not be committed without their offsets.
                    if let ClientError::Transaction(TransactionError::MustAbort { reason }) = &error {
                        shared.producer.fail_transaction(reason.clone()).await?;
                    }
                    Err(error)
                }
            }
        };
        Operation::start(sending, &log, |py, ()| Ok(py.None()))
    }
}

impl TransactionCore {
    fn timeout(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Duration> {
        match timeout {
            Some(timeout) => timeout.duration(py),
            None => Ok(self.shared.get()?.max_block),
        }
    }
}

fn doing(
    py: Python<'_>,
    shared: &Shared,
    verb: &str,
    timeout: Duration,
) -> std::pin::Pin<Box<dyn Future<Output = Result<(), ClientError>> + Send>> {
    let producer = &shared.producer;
    match verb {
        "init" => Box::pin(producer.init_transactions(timeout)),
        "begin" => Box::pin(producer.begin_transaction()),
        "commit" => Box::pin(producer.commit_transaction(timeout)),
        _ => {
            let aborted = producer.abort_transaction(timeout);
            // After that: from now on no record of the transaction can be queued.
            shared.abort_queued(py);
            Box::pin(aborted)
        }
    }
}
