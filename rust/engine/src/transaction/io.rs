//! Settings, inputs and outputs of the producer session.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;

use super::SessionState;
use crate::backoff::Backoff;
use crate::group::{CallId, CommitOffset, Target, Ticket, TopicIds};
use crate::produce::{ProducerIdentity, SendFault};
use crate::{Now, TopicPartition};

/// Settings of the machine.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// `transactional.id`; `None` for a producer that is only idempotent.
    pub transactional_id: Option<String>,
    /// `transaction.timeout.ms`.
    pub transaction_timeout: Duration,
    /// Waits between retries.
    pub backoff: Backoff,
}

/// The group, and its member, whose offsets are committed (KIP-447).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetadata {
    /// The group.
    pub group: String,
    /// Generation of a classic member, or member epoch under KIP-848; -1 without a member.
    pub generation: i32,
    /// The member id, or empty.
    pub member_id: String,
    /// `group.instance.id`.
    pub instance_id: Option<String>,
    /// The ids of the topics whose partitions the member owns, as far as it knows them.
    pub topic_ids: TopicIds,
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Commit.
    Commit,
    /// Abort.
    Abort,
}

/// A request, without its encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// FindCoordinator for a group, or for the transactional id if `group` is `None`.
    FindCoordinator {
        /// The group.
        group: Option<String>,
    },
    /// InitProducerId. With an identity it requests a higher epoch of the same producer id (KIP-360).
    InitProducerId {
        /// The identity whose epoch is bumped.
        current: Option<ProducerIdentity>,
    },
    /// Adds partitions to the transaction; not needed under transaction version 2 (KIP-890).
    AddPartitionsToTxn {
        /// The producer.
        identity: ProducerIdentity,
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// Adds a group to the transaction; not needed under transaction version 2.
    AddOffsetsToTxn {
        /// The producer.
        identity: ProducerIdentity,
        /// The group.
        group: String,
    },
    /// Commits offsets with the transaction, at the group's coordinator.
    TxnOffsetCommit {
        /// The producer.
        identity: ProducerIdentity,
        /// The group and its member.
        group: GroupMetadata,
        /// The offsets.
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        /// Set if it adds the group to the transaction (transaction version 2, KIP-890).
        version2: bool,
    },
    /// Ends the transaction.
    EndTxn {
        /// The producer.
        identity: ProducerIdentity,
        /// Commit or abort.
        ending: Ending,
        /// Set if it bumps the epoch (transaction version 2, KIP-890).
        version2: bool,
    },
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionResponse {
    /// The coordinator.
    Coordinator {
        /// The node id.
        node_id: i32,
        /// The advertised host.
        host: String,
        /// The advertised port.
        port: i32,
    },
    /// The producer id and epoch. EndTxn returns it too, where it bumps the epoch (KIP-890).
    Identity(ProducerIdentity),
    /// Success.
    Ok,
    /// A code for each partition. Partitions that the broker left out are not in it.
    Partitions(BTreeMap<TopicPartition, ErrorCode>),
}

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// The broker's error, with its message.
    Code(ErrorCode, Option<String>),
    /// No answer: the connection broke, or the request timed out.
    Lost(String),
    /// The broker does not support the call, so no retry can succeed.
    Fatal(String),
}

/// An event, or a wish of the user.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing but time has passed.
    Tick,
    /// The delivery machine needs an identity, or a newer one than `old`.
    NeedIdentity {
        /// The identity that must not be used any more.
        old: Option<ProducerIdentity>,
    },
    /// The cluster has transaction version 2 (feature `transaction.version`, KIP-890), or not. Given before the first
    /// call, and after each change. It applies from the next [`Input::Begin`] on.
    TransactionVersion2(bool),
    /// The outcome of an [`Output::Call`]. Exactly one follows each call.
    Answer {
        /// The call.
        id: CallId,
        /// The answer, or why there is none.
        outcome: Result<TransactionResponse, CallFailure>,
    },
    /// `init_transactions`: fence older producers of this transactional id, and end their open transaction. Answered by
    /// [`Output::Done`].
    Init {
        /// Identifies the verb.
        ticket: Ticket,
        /// The time when the user's wait fails with a timeout.
        deadline: Now,
    },
    /// `begin_transaction`; answered at once.
    Begin {
        /// Identifies the verb.
        ticket: Ticket,
    },
    /// A partition is about to get its first records of this transaction.
    AddPartition(TopicPartition),
    /// `send_offsets`.
    SendOffsets {
        /// Identifies the verb.
        ticket: Ticket,
        /// The group and its member.
        group: GroupMetadata,
        /// The offsets.
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        /// The time when the user's wait fails with a timeout.
        deadline: Now,
    },
    /// `commit_transaction` or `abort_transaction`. The driver has flushed the transaction's records before.
    End {
        /// Identifies the verb.
        ticket: Ticket,
        /// Commit or abort.
        ending: Ending,
        /// The time when the user's wait fails with a timeout. The transaction is ended nevertheless.
        deadline: Now,
    },
    /// Records of the transaction failed: it can only be aborted.
    DeliveryFailed(SendFault),
}

/// A task of the driver, or news that it passes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Make a call, and give its outcome by [`Input::Answer`].
    Call {
        /// Identifies the call.
        id: CallId,
        /// The broker.
        target: Target,
        /// The request.
        call: Call,
    },
    /// The producer id and epoch from now on, for the delivery machine.
    Identity(ProducerIdentity),
    /// The partition is part of the transaction, for the delivery machine.
    PartitionAdded(TopicPartition),
    /// The transaction has ended, for the delivery machine.
    Ended,
    /// A verb of the user has ended.
    Done {
        /// Identifies the verb.
        ticket: Ticket,
        /// Success, or the error.
        outcome: Result<(), TransactionError>,
    },
    /// Tells the delivery machine that the transaction can only be aborted, and records that were not sent fail with
    /// this fault ([`crate::produce::Input::TransactionFailed`]).
    FailUnsent(SendFault),
    /// Tells the delivery machine that nothing can be sent any more ([`crate::produce::Input::FailAll`]).
    Fatal(SendFault),
    /// An event for logs and metrics.
    Event(SessionEvent),
}

/// An event of a session, for logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The session went from one state to another.
    StateChanged {
        /// The old state.
        from: SessionState,
        /// The new state.
        to: SessionState,
    },
    /// A call failed and is retried.
    Retried {
        /// The API.
        api: &'static str,
        /// The reason why it failed.
        reason: String,
    },
}

/// The reason why a verb of transactions failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// Another producer with the same `transactional.id` took over: this one cannot be used any more.
    #[error(
        "the producer was fenced ({code}): another one with transactional.id={transactional_id} was started, or a transaction \
         was open for longer than transaction.timeout.ms and the coordinator aborted it. Close this one"
    )]
    Fenced {
        /// The `transactional.id`.
        transactional_id: String,
        /// Kafka's name of the broker's error.
        code: &'static str,
    },
    /// The transaction can only be aborted.
    #[error("the transaction must be aborted: {reason}")]
    MustAbort {
        /// The reason.
        reason: String,
    },
    /// The verb is not allowed in this state, such as a commit without a transaction.
    #[error("{0}")]
    State(String),
    /// No permission for the transactional id, or for the group.
    #[error("{what} is not allowed ({}): {}", code.name(), code.message())]
    Denied {
        /// The action that is not allowed.
        what: String,
        /// The broker's error.
        code: ErrorCode,
    },
    /// The verb did not end in time.
    #[error("{what} did not end within {} ms ({last_error}); it goes on: call it again to wait on", after.as_millis())]
    TimedOut {
        /// The verb.
        what: &'static str,
        /// The time that it was waited for.
        after: Duration,
        /// The reason why the last attempt failed.
        last_error: String,
    },
    /// The broker refused the call, and a retry would not help.
    #[error("{what}: the broker answered {} ({})", code.name(), message.as_deref().unwrap_or(code.message()))]
    Refused {
        /// The API.
        what: &'static str,
        /// The broker's error.
        code: ErrorCode,
        /// The broker's error message.
        message: Option<String>,
    },
    /// The producer cannot be used any more.
    #[error("{0}")]
    Fatal(String),
}
