//! Results of the user's calls: batches, callbacks to run, outcomes of commits.

use std::collections::BTreeMap;

use monedula_columns::ColumnBatch;
use monedula_engine::TopicPartition;
use monedula_engine::group::{CallbackKind, CommitError, CommitOffset};
use monedula_engine::ledger::{BatchId, OffsetAndEpoch};

/// A callback that is to be run now, in the thread that it was handed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCallback {
    /// Number for [`crate::consumer::Consumer::called_back`].
    pub ticket: u64,
    /// The kind of the callback.
    pub kind: CallbackKind,
    /// The partitions that change.
    pub partitions: Vec<TopicPartition>,
}

/// A batch, with what a commit of it needs.
#[derive(Debug)]
pub struct HandedBatch {
    /// The rows.
    pub columns: ColumnBatch,
    /// The batch's id; 0 if it has no rows.
    pub id: BatchId,
    /// The place after the batch in each of its partitions, with the id of the partition's reading.
    pub places: Vec<(TopicPartition, u64, OffsetAndEpoch)>,
}

/// End of a wait.
#[derive(Debug)]
pub enum Polled {
    /// Rows.
    Batch(HandedBatch),
    /// A callback is to be run before anything else.
    Callback(PendingCallback),
    /// Time is up.
    Nothing,
}

/// Progress of leaving a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// A callback is to be run.
    Callback(PendingCallback),
    /// Leaving is not done yet.
    Waiting,
    /// Nothing is owned any more, and the group is left, or its time is up.
    Done,
}

/// Outcome of each partition of a commit, with the offset that was to be committed.
pub type CommitOutcome = BTreeMap<TopicPartition, (CommitOffset, Result<(), CommitError>)>;
