//! Commands of the user's calls to the driver.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_engine::share::{AcknowledgeError, Acknowledgement};
use monedula_engine::{Now, TopicPartition};
use tokio::sync::oneshot;

/// The outcome of acknowledgements of a partition: the number of records, and whether it took effect.
pub type AcknowledgeOutcome = (TopicPartition, u64, Result<(), AcknowledgeError>);

/// The batches that a commit covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All that was decided.
    All,
    /// What was decided of this batch.
    Batch(u64),
}

pub(super) type Reply = oneshot::Sender<Vec<AcknowledgeOutcome>>;

pub(super) enum ShareCommand {
    Subscribe(BTreeSet<Arc<str>>),
    Unsubscribe,
    /// Acknowledgements to send; those with an error fail without a request. The reply has the outcomes of all that are
    /// under way, too.
    Acknowledge {
        acknowledgements: Vec<(Acknowledgement, Option<AcknowledgeError>)>,
        reply: Option<Reply>,
    },
    /// Locks to renew; those with an error fail without a request.
    Renew {
        renewals: Vec<(Acknowledgement, Option<AcknowledgeError>)>,
        reply: Reply,
    },
    Close {
        deadline: Now,
    },
}
