//! Settings, inputs and outputs of the produce machine.

use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;

use crate::backoff::Backoff;
use crate::cluster::Cluster;
use crate::{Now, TopicPartition};

/// Identifies a batch. Never reused.
pub type BatchId = u64;

/// Identifies a request. Never reused.
pub type RequestId = u64;

/// Identifies a flush that the user waits for.
pub type Ticket = u64;

/// The replicas that must have a batch before it is acknowledged (`acks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// None: the broker sends no answer, and no offset is ever known.
    None,
    /// The leader.
    Leader,
    /// Every in-sync replica.
    All,
}

/// Settings of the machine.
#[derive(Clone, Debug)]
pub struct ProduceConfig {
    /// `acks`.
    pub acks: Acks,
    /// Set if batches carry a producer id and sequence numbers (`enable.idempotence`, KIP-98).
    pub idempotent: bool,
    /// Set if batches belong to transactions: a partition is added to the transaction before its first batch is sent.
    pub transactional: bool,
    /// Most requests in flight to one broker (`max.in.flight.requests.per.connection`).
    pub max_in_flight: usize,
    /// The time that an open batch waits for more records (`linger.ms`).
    pub linger: Duration,
    /// Most bytes of the batches of one request (`max.request.size`). A single batch may be larger.
    pub max_request_bytes: usize,
    /// The time after its first record within which a batch is acknowledged or fails (`delivery.timeout.ms`).
    pub delivery_timeout: Duration,
    /// The number of retries of a batch (`retries`).
    pub retries: u32,
    /// Waits between retries (`retry.backoff.ms`, `retry.backoff.max.ms`).
    pub backoff: Backoff,
    /// After how long a topic that no answer knows counts as missing (`topic.metadata.propagation.max.ms`).
    pub propagation: Duration,
}

/// A producer id and its epoch (KIP-98).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdentity {
    /// The producer id.
    pub producer_id: i64,
    /// The epoch.
    pub epoch: i16,
}

/// A packed batch, as far as the machine knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The id.
    pub id: BatchId,
    /// The number of its records.
    pub records: u32,
    /// The size on the wire.
    pub bytes: usize,
}

/// An event, or a wish of the user.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing but time has passed.
    Tick,
    /// New metadata: who leads what.
    MetadataUpdate {
        /// The cluster.
        cluster: Arc<Cluster>,
    },
    /// A batch was opened behind all others of its partition.
    Opened {
        /// The partition.
        partition: TopicPartition,
        /// The new batch.
        batch: BatchId,
        /// The time when its first record was sent, which is long ago if that record had to wait for its topic's
        /// metadata. Linger and delivery timeout count from then.
        since: Now,
    },
    /// The batch is full. The driver packs it without being asked by [`Output::Close`].
    Full {
        /// The batch.
        batch: BatchId,
    },
    /// The batch is closed and compressed, and can be sent. Follows every [`Input::Full`] and [`Output::Close`].
    Packed(Batch),
    /// The answer to [`Output::Split`]: these packed batches replace the batch, in this order. Not to be given once the
    /// batch is done. If it crosses with the end of the batch, the parts end in the same way.
    SplitInto {
        /// The batch that was too large.
        batch: BatchId,
        /// The batch's parts. None if it could not be split: it fails.
        parts: Vec<Batch>,
    },
    /// The producer id and epoch from now on. Batches that were never sent get sequence numbers of this epoch; see
    /// [`Output::NewIdentity`].
    Identity(ProducerIdentity),
    /// The partition is part of the current transaction. Answers [`Output::AddToTransaction`].
    AddedToTransaction(TopicPartition),
    /// The transaction has ended: partitions have to be added to the next one again.
    TransactionEnded,
    /// The outcome of a request. Exactly one follows each [`Output::Send`]. With acks 0 it follows once the request is
    /// written, and has no partitions.
    Answer {
        /// The request.
        request: RequestId,
        /// The answer, or why there is none.
        outcome: Result<Vec<PartitionAnswer>, RequestFailure>,
    },
    /// The user waits until every batch opened so far is done. These batches linger no longer. Answered by
    /// [`Output::Flushed`].
    Flush {
        /// Identifies the flush.
        ticket: Ticket,
    },
    /// The producer was closed or fenced: every unfinished batch fails with this fault, and so do batches opened later.
    FailAll(SendFault),
    /// The transaction is being aborted: every batch that was never sent fails with this fault. Batches in flight are
    /// waited for.
    FailUnsent(SendFault),
    /// The transaction can only be aborted, for a reason outside of this machine: every batch that was never sent fails
    /// with this fault. Batches opened before [`Input::TransactionEnded`] fail with [`SendFault::Aborted`].
    TransactionFailed(SendFault),
}

/// A broker's answer for the batch of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionAnswer {
    /// The partition.
    pub partition: TopicPartition,
    /// The error, or [`ErrorCode::None`].
    pub code: ErrorCode,
    /// The broker's error message.
    pub message: Option<String>,
    /// Offset of the first record, or -1.
    pub base_offset: i64,
    /// The time when the broker appended the batch, in milliseconds since 1970, for topics with LogAppendTime; else -1.
    pub log_append_time_ms: i64,
    /// Log start offset, or -1.
    pub log_start_offset: i64,
    /// Records for which the batch was refused: index in the batch, and reason (KIP-467).
    pub record_errors: Vec<(i32, Option<String>)>,
    /// A newer leader and its leader epoch (KIP-951).
    pub leader: Option<(i32, i32)>,
}

/// The reason why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestFailure {
    /// The connection broke, or the answer did not come in time or was unreadable: the broker may have carried the
    /// request out.
    Lost(String),
    /// The request was certainly not sent.
    NotSent(String),
    /// The request can never be sent, because client and broker have no version in common, for example.
    Fatal(String),
}

/// A task of the driver, or news that it passes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Close the batch, pack it, and give [`Input::Packed`].
    Close {
        /// The batch.
        batch: BatchId,
    },
    /// Send one Produce request to a broker. It is in flight until its [`Input::Answer`].
    Send {
        /// Identifies the request.
        request: RequestId,
        /// Node id.
        broker: i32,
        /// The batches, at most one of each partition.
        batches: Vec<RequestBatch>,
    },
    /// The broker found the batch too large: divide its records into two or more batches, and give
    /// [`Input::SplitInto`].
    Split {
        /// The batch.
        batch: BatchId,
    },
    /// The batch is acknowledged or has failed. This is the last output about it, so its memory may be freed. A batch
    /// that failed may still be open, or being packed: later inputs about it are ignored.
    Done {
        /// The batch.
        batch: BatchId,
        /// The place of its records, or the reason why they were not delivered.
        outcome: Result<Acknowledged, SendFault>,
    },
    /// Request metadata, soon.
    RefreshMetadata,
    /// A broker named a newer leader (KIP-951): merge it, and give [`Input::MetadataUpdate`].
    LeaderHint {
        /// Partition.
        partition: TopicPartition,
        /// Node id of the new leader.
        leader: i32,
        /// The leader epoch.
        leader_epoch: i32,
    },
    /// An identity is needed: the first, or one with a higher epoch because it is unknown which sequence numbers of the
    /// old epoch are in the log (KIP-360). Partitions that need it wait for [`Input::Identity`]; others go on with the
    /// old one. In a transaction it follows [`Output::TransactionFailed`], and the identity is needed only once the
    /// transaction has ended.
    NewIdentity {
        /// The identity that must not be used any more; `None` for the first.
        old: Option<ProducerIdentity>,
        /// The reason, for the log.
        reason: String,
    },
    /// Add the partition to the current transaction and give [`Input::AddedToTransaction`].
    AddToTransaction(TopicPartition),
    /// A batch of the transaction failed: the transaction can only be aborted. Put out once a transaction, before the
    /// end of that batch and of any flush. Batches that were never sent, and those opened before
    /// [`Input::TransactionEnded`], fail with [`SendFault::Aborted`].
    TransactionFailed(SendFault),
    /// All batches that were unfinished at [`Input::Flush`] are done.
    Flushed {
        /// The ticket of the flush.
        ticket: Ticket,
    },
}

/// A batch in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestBatch {
    /// The batch.
    pub batch: BatchId,
    /// The partition.
    pub partition: TopicPartition,
    /// Producer id and epoch, and the sequence number of its first record. `None` without idempotence.
    pub sequence: Option<(ProducerIdentity, i32)>,
}

/// The place of a batch's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Offset of the first record. `None` with acks 0, or if the broker already had the batch and no longer knows its
    /// offset.
    pub base_offset: Option<i64>,
    /// The time when the broker appended them, in milliseconds since 1970, for topics with LogAppendTime.
    pub log_append_time_ms: Option<i64>,
}

/// The reason why the records of a batch were not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendFault {
    /// `delivery.timeout.ms` is over. With `outcome_unknown` the batch was sent and may be in the log.
    #[error(
        "{partition}: not delivered within delivery.timeout.ms={} ms, {attempts} attempts{}{}",
        after.as_millis(),
        if *outcome_unknown { "; it may have been written all the same" } else { "" },
        because(last_error)
    )]
    TimedOut {
        /// The partition.
        partition: TopicPartition,
        /// The timeout.
        after: Duration,
        /// The number of times that the batch was sent.
        attempts: u32,
        /// Set if the batch may be in the log.
        outcome_unknown: bool,
        /// The reason why the last attempt failed.
        last_error: Option<String>,
    },
    /// The topic, or this partition of it, does not exist.
    #[error("{partition}: the cluster does not know this topic or partition; check its name, or create it")]
    UnknownTopicOrPartition {
        /// The partition.
        partition: TopicPartition,
    },
    /// The broker refused the batch for good, or more often than `retries` allows.
    #[error("{partition}: the broker refused the records: {} ({}){}", code.name(), message.as_deref().unwrap_or(code.message()), repeated(*attempts))]
    Refused {
        /// The partition.
        partition: TopicPartition,
        /// The broker's error.
        code: ErrorCode,
        /// The broker's error message.
        message: Option<String>,
        /// The number of times that the batch was sent.
        attempts: u32,
        /// Records because of which the batch was refused: index in the batch, and reason (KIP-467). The other records
        /// failed only because of these.
        records: Arc<[(u32, String)]>,
    },
    /// Another producer with the same transactional id took over.
    #[error("the producer was fenced: another one with the same transactional.id was started ({reason})")]
    Fenced {
        /// The name of the broker's error.
        reason: String,
    },
    /// The transaction failed before the records were sent, and can only be aborted.
    #[error("not sent, because the transaction must be aborted: {reason}")]
    TransactionFailed {
        /// The reason why the transaction failed.
        reason: String,
    },
    /// The transaction was aborted before the records were sent.
    #[error("the transaction was aborted before these records were sent")]
    Aborted,
    /// The producer was closed before the records were delivered.
    #[error("the producer was closed before these records were delivered{}", because(last_error))]
    Closed {
        /// The obstacle that held them back, as far as it is known.
        last_error: Option<String>,
    },
    /// No request can be sent at all.
    #[error("{reason}")]
    Fatal {
        /// The reason.
        reason: String,
    },
}

fn because(last_error: &Option<String>) -> String {
    last_error.as_ref().map(|error| format!("; the last error: {error}")).unwrap_or_default()
}

fn repeated(attempts: u32) -> String {
    if attempts > 1 { format!(", {attempts} attempts") } else { String::new() }
}
