//! Commands to the driver, from senders and from the user.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use monedula_engine::TopicPartition;
use monedula_engine::group::CommitOffset;
use monedula_engine::produce::{BatchId, SendFault};
use monedula_engine::transaction::{Ending, GroupMetadata, TransactionError};
use tokio::sync::oneshot;

use super::open_batch::ClosedBatch;

/// A command of senders or of the user to the driver.
pub(crate) enum ProduceCommand {
    /// A batch was opened. Its first record was sent at `since`.
    BatchOpened { partition: TopicPartition, batch: BatchId, since: Instant },
    /// A batch is full.
    BatchFull(Box<ClosedBatch>),
    /// Records wait for a topic's partitions to be known.
    TopicUnknown(Arc<str>),
    /// Records wait for partitions that a known topic may have by now.
    PartitionUnknown(Arc<str>),
    /// Memory is exhausted: send the batches that linger.
    MemoryExhausted,
    /// Finish everything that was sent before, then reply.
    Flush(oneshot::Sender<()>),
    /// As `Flush`, once the records that waited for metadata are in batches.
    FlushBatches(oneshot::Sender<()>),
    /// A verb of transactions.
    Verb(Verb, VerbReply),
    /// Fail all records that were not sent yet.
    FailUnsent(SendFault),
    /// As `FailUnsent`, once the records that waited for metadata are in batches.
    FailUnsentBatches(SendFault),
    /// End the driver: once everything is done, or at once.
    Stop { at_once: bool },
}

pub(super) type VerbReply = oneshot::Sender<Result<(), TransactionError>>;

/// A verb of transactions that the user called.
#[derive(Debug)]
pub(super) enum Verb {
    Init {
        until: Instant,
    },
    Begin,
    SendOffsets {
        group: GroupMetadata,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        until: Instant,
    },
    /// From now on the transaction can only be aborted.
    Fail {
        reason: String,
    },
    End {
        ending: Ending,
        until: Instant,
    },
}
