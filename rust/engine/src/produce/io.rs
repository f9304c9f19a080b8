//! What goes into the machine and what comes out.

use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;

use crate::backoff::Backoff;
use crate::{Now, TopicPartition};

/// Names a batch; never used twice.
pub type BatchId = u64;

/// Names a request; never used twice.
pub type RequestId = u64;

/// Names something that the user waits for.
pub type Ticket = u64;

/// Who must have a batch before it is acknowledged (`acks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// Nobody: there is no answer, and no offset is ever known.
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
    /// Whether batches carry a producer id and sequence numbers (`enable.idempotence`, KIP-98).
    pub idempotent: bool,
    /// Whether they belong to transactions: a partition is taken into one before its first batch is sent.
    pub transactional: bool,
    /// Requests without an answer, for each broker (`max.in.flight.requests.per.connection`).
    pub max_in_flight: usize,
    /// How long an open batch waits for more records (`linger.ms`).
    pub linger: Duration,
    /// Most bytes of a request's batches (`max.request.size`); a single batch may be larger.
    pub max_request_bytes: usize,
    /// From a batch's first record to its end, one way or the other (`delivery.timeout.ms`).
    pub delivery_timeout: Duration,
    /// How often a batch is sent again (`retries`).
    pub retries: u32,
    /// Waits between repetitions (`retry.backoff.ms`, `retry.backoff.max.ms`).
    pub backoff: Backoff,
}

/// Who sends (KIP-98).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The producer's id.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
}

/// A batch as the machine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its id.
    pub id: BatchId,
    /// How many records it has.
    pub records: u32,
    /// Its bytes on the wire.
    pub bytes: usize,
}

/// What happened, and what is wanted.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing but time has passed.
    Tick,
    /// A batch was opened behind all others of its partition.
    Opened {
        /// Where.
        partition: TopicPartition,
        /// The new batch.
        batch: BatchId,
        /// When its first record was sent; long ago if that had to wait for its topic. Linger and delivery timeout count from then.
        since: Now,
    },
    /// The batch takes no more records: it is full. Said without [`Output::Close`]; the driver packs it on its own.
    Full {
        /// Which.
        batch: BatchId,
    },
    /// The batch is closed and compressed, and can be sent. Follows each [`Input::Full`] and [`Output::Close`].
    Packed(Batch),
    /// For [`Output::Split`]: these take the batch's place, in this order; each is packed. Not said once the batch is done; if that
    /// crosses with its end, the parts have the same end.
    SplitInto {
        /// The batch that was too large.
        batch: BatchId,
        /// Its parts; with no parts it could not be split, and fails.
        parts: Vec<Batch>,
    },
    /// Who this producer is from now on. Batches that were never sent get sequence numbers of this epoch; see
    /// [`Output::NewIdentity`].
    Identity(Identity),
    /// The current transaction has this partition.
    InTransaction(TopicPartition),
    /// The transaction is over: partitions are to be taken in again.
    TransactionEnded,
    /// What came for a request. Exactly one comes for each [`Output::Send`]; with acks 0, once it is written, with no
    /// partitions.
    Answer {
        /// The request.
        request: RequestId,
        /// What came.
        outcome: Result<Vec<PartitionAnswer>, RequestFailure>,
    },
    /// The user waits until every batch that is there now is done: nothing of them lingers. [`Output::Flushed`] answers.
    Flush {
        /// For the answer.
        ticket: Ticket,
    },
    /// Everything not yet done fails with this, and what is opened later too: the producer was closed or fenced.
    FailAll(SendFault),
    /// Every batch that was not sent yet fails with this, and what is under way is waited for: the transaction is aborted.
    FailUnsent(SendFault),
    /// The transaction can only be aborted, for a reason that the machine does not know of: every batch that was not sent yet fails
    /// with this, and what is opened before [`Input::TransactionEnded`] fails with [`SendFault::Aborted`].
    TransactionFailed(SendFault),
}

/// What a broker said of one partition's batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionAnswer {
    /// Which.
    pub partition: TopicPartition,
    /// The error, or none.
    pub code: ErrorCode,
    /// The broker's words for it.
    pub message: Option<String>,
    /// Offset of the first record, or -1.
    pub base_offset: i64,
    /// When the broker appended it, where the topic keeps that time; else -1.
    pub log_append_time_ms: i64,
    /// Start of the log, or -1.
    pub log_start_offset: i64,
    /// Records for which the batch was refused, with the reasons (KIP-467).
    pub record_errors: Vec<(i32, Option<String>)>,
    /// A newer leader and its epoch (KIP-951).
    pub leader: Option<(i32, i32)>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestFailure {
    /// The connection broke or could not be made: the request may have been carried out or not.
    Lost(String),
    /// It was surely never sent.
    NotSent(String),
    /// No repetition mends it: the versions, for example.
    Fatal(String),
}

/// What the driver has to do, or to pass on.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Close the batch, pack it, say [`Input::Packed`].
    Close {
        /// Which.
        batch: BatchId,
    },
    /// Send one request to a broker.
    Send {
        /// Names it.
        request: RequestId,
        /// Node id.
        broker: i32,
        /// At most one batch of each partition.
        batches: Vec<Sending>,
    },
    /// The broker found the batch too large: divide its records in two or more batches, say [`Input::SplitInto`].
    Split {
        /// Which.
        batch: BatchId,
    },
    /// The batch is done, or given up. Nothing more is said of it; its bytes may go. It may still be open, or being packed, where it
    /// was given up: what is said of it then is not heard.
    Done {
        /// Which.
        batch: BatchId,
        /// What became of it.
        outcome: Result<Acknowledged, SendFault>,
    },
    /// Fetch metadata, soon.
    RefreshMetadata,
    /// A broker named a newer leader (KIP-951): merge it and call `cluster_changed`.
    LeaderHint {
        /// Partition.
        partition: TopicPartition,
        /// Node id of the new leader.
        leader: i32,
        /// Its epoch.
        leader_epoch: i32,
    },
    /// An identity is needed: the first, or one with a higher epoch because sequence numbers of the old one are in doubt
    /// (KIP-360). Those who need it wait for [`Input::Identity`]; other partitions go on with the old one. In a transaction it comes
    /// after [`Output::TransactionFailed`], and the identity is due only once the transaction is over.
    NewIdentity {
        /// The one that is no longer of use; `None` for the first.
        old: Option<Identity>,
        /// Why, for the log.
        reason: String,
    },
    /// Take the partition into the current transaction and say [`Input::InTransaction`].
    JoinTransaction(TopicPartition),
    /// A batch of the transaction failed, said once, and before the end of that batch and of any flush: the transaction can only
    /// be aborted. What was not sent yet, and what is opened before [`Input::TransactionEnded`], fails with [`SendFault::Aborted`].
    TransactionFailed(SendFault),
    /// All that was there at [`Input::Flush`] is done.
    Flushed {
        /// Its ticket.
        ticket: Ticket,
    },
}

/// A batch in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sending {
    /// Which.
    pub batch: BatchId,
    /// Where.
    pub partition: TopicPartition,
    /// Producer id and epoch and the sequence number of its first record; `None` without idempotence.
    pub sequence: Option<(Identity, i32)>,
}

/// Where a batch's records are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Offset of the first; `None` with acks 0, or where the broker had the batch already and no longer knows where.
    pub base_offset: Option<i64>,
    /// When the broker appended them, where the topic keeps that time.
    pub log_append_time_ms: Option<i64>,
}

/// Why a batch's records were given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendFault {
    /// Its time was over. With `in_doubt` it had been sent and may be in the log all the same.
    #[error(
        "{partition}: not delivered within delivery.timeout.ms={} ms, {attempts} attempts{}{}",
        after.as_millis(),
        if *in_doubt { "; it may have been written all the same" } else { "" },
        last_error.as_ref().map(|error| format!("; the last error: {error}")).unwrap_or_default()
    )]
    TimedOut {
        /// Where to.
        partition: TopicPartition,
        /// The timeout.
        after: Duration,
        /// How often it was sent.
        attempts: u32,
        /// Whether it may have been written.
        in_doubt: bool,
        /// What the last attempt failed of.
        last_error: Option<String>,
    },
    /// The topic, or this partition of it, does not exist.
    #[error("{partition}: the cluster does not know this topic or partition; check its name, or create it")]
    UnknownTopicOrPartition {
        /// Where to.
        partition: TopicPartition,
    },
    /// The broker refused the batch for good, or as often as `retries` allows.
    #[error("{partition}: the broker refused the records: {} ({}){}", code.name(), message.as_deref().unwrap_or(code.message()), repeated(*attempts))]
    Refused {
        /// Where to.
        partition: TopicPartition,
        /// The broker's error.
        code: ErrorCode,
        /// Its own words.
        message: Option<String>,
        /// How often it was sent.
        attempts: u32,
        /// Records that spoil the batch: index in it, and why (KIP-467). The others failed only because of these.
        records: Arc<[(u32, String)]>,
    },
    /// Another producer with the same transactional id took over.
    #[error("the producer was fenced: another one with the same transactional.id was started ({reason})")]
    Fenced {
        /// What said so.
        reason: String,
    },
    /// Something else in the transaction failed before the records were sent: it can only be aborted.
    #[error("not sent, because the transaction must be aborted: {reason}")]
    TransactionFailed {
        /// What failed.
        reason: String,
    },
    /// The transaction was aborted before the records were sent.
    #[error("the transaction was aborted before these records were sent")]
    Aborted,
    /// The producer was closed first.
    #[error("the producer was closed before these records were delivered")]
    Closed,
    /// No request can be made at all.
    #[error("{reason}")]
    Fatal {
        /// Why.
        reason: String,
    },
}

fn repeated(attempts: u32) -> String {
    if attempts > 1 { format!(", {attempts} attempts") } else { String::new() }
}

/// When the machine has to be called without anything having happened.
pub type WakeAt = Option<Now>;
