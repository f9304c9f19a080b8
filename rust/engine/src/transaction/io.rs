//! What goes into the machine and what comes out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;

use super::State;
use crate::backoff::Backoff;
use crate::group::CommitOffset;
use crate::group::TopicIds;
use crate::produce::{Identity, SendFault};
use crate::{Now, TopicPartition};

/// Names a call; never used twice.
pub type CallId = u64;

/// Names something that the user waits for.
pub type Ticket = u64;

/// Settings of the machine.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// `transactional.id`; `None` for a producer that is idempotent only.
    pub transactional_id: Option<String>,
    /// `transaction.timeout.ms`.
    pub transaction_timeout: Duration,
    /// Waits between repetitions.
    pub backoff: Backoff,
}

/// Who commits offsets (KIP-447).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetadata {
    /// The group.
    pub group: String,
    /// Generation of a classic member, epoch of one under KIP-848; -1 for nobody's.
    pub generation: i32,
    /// Its id, or empty.
    pub member_id: String,
    /// `group.instance.id`.
    pub instance_id: Option<String>,
    /// The ids of the topics whose partitions it owns, as far as it knows them.
    pub topic_ids: TopicIds,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With everything.
    Commit,
    /// With nothing.
    Abort,
}

/// Whom to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any broker: the n-th of those that are known.
    Any {
        /// Which attempt it is.
        attempt: u32,
    },
    /// A coordinator: of the transactional id, or of a group.
    Coordinator {
        /// Its node id.
        node_id: i32,
    },
}

/// A request, as far as the machine fixes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Who coordinates the transactional id (`group` is `None`) or a group.
    FindCoordinator {
        /// The group.
        group: Option<String>,
    },
    /// InitProducerId; with an identity, a higher epoch of the same id is asked for (KIP-360).
    InitProducerId {
        /// The identity to be raised.
        current: Option<Identity>,
    },
    /// AddPartitionsToTxn; not needed from transaction version 2 on (KIP-890).
    AddPartitions {
        /// Who.
        identity: Identity,
        /// Which.
        partitions: BTreeSet<TopicPartition>,
    },
    /// AddOffsetsToTxn; not needed from transaction version 2 on.
    AddOffsets {
        /// Who.
        identity: Identity,
        /// The group.
        group: String,
    },
    /// TxnOffsetCommit, at the group's coordinator.
    CommitOffsets {
        /// Who.
        identity: Identity,
        /// The group and its member.
        group: GroupMetadata,
        /// What.
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        /// Whether the group is taken into the transaction by it (transaction version 2, KIP-890).
        version2: bool,
    },
    /// EndTxn.
    End {
        /// Who.
        identity: Identity,
        /// How.
        ending: Ending,
        /// Whether it raises the epoch (transaction version 2, KIP-890).
        version2: bool,
    },
}

/// What came for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The coordinator.
    Coordinator {
        /// Its node id.
        node_id: i32,
        /// Its advertised host.
        host: String,
        /// Its advertised port.
        port: i32,
    },
    /// The producer's id and epoch; of EndTxn too where it raises the epoch (KIP-890).
    Identity(Identity),
    /// Done.
    Ok,
    /// A code for each partition; one that the broker left out is not in it.
    Partitions(BTreeMap<TopicPartition, ErrorCode>),
}

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// The broker's error, with its words.
    Code(ErrorCode, Option<String>),
    /// No answer: the connection broke, or the time was over.
    Lost(String),
    /// The broker does not speak it; no repetition mends that.
    Fatal(String),
}

/// What happened, and what is wanted.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing but time has passed.
    Tick,
    /// The delivery machine needs an identity, or a newer one than `old`.
    NeedIdentity {
        /// The one that is no longer of use.
        old: Option<Identity>,
    },
    /// Whether the cluster has transaction version 2 (feature `transaction.version`, KIP-890); told before the first call, and
    /// whenever it changes. It counts from the next [`Input::Begin`] on.
    TransactionVersion2(bool),
    /// An answer to a [`Output::Call`]; exactly one comes for each.
    Answer {
        /// The call.
        id: CallId,
        /// What came.
        outcome: Result<Answer, CallFailure>,
    },
    /// `init_transactions`: fence older producers of this transactional id, end what they left. Answered by [`Output::Done`].
    Init {
        /// For the answer.
        ticket: Ticket,
        /// When it fails in any case.
        deadline: Now,
    },
    /// `begin_transaction`: answered at once.
    Begin {
        /// For the answer.
        ticket: Ticket,
    },
    /// A partition is about to get its first records of this transaction.
    Join(TopicPartition),
    /// `send_offsets`.
    SendOffsets {
        /// For the answer.
        ticket: Ticket,
        /// Whose.
        group: GroupMetadata,
        /// What.
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        /// When it fails in any case.
        deadline: Now,
    },
    /// `commit_transaction` or `abort_transaction`; the driver has flushed before.
    End {
        /// For the answer.
        ticket: Ticket,
        /// How.
        ending: Ending,
        /// When the wait ends in any case; the end itself is still carried out.
        deadline: Now,
    },
    /// Records of the transaction were given up: it can only be aborted.
    Failed(SendFault),
}

/// What the driver has to do, or to pass on.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Make a call and say [`Input::Answer`].
    Call {
        /// Names it.
        id: CallId,
        /// Whom.
        target: Target,
        /// What.
        call: Call,
    },
    /// Who the producer is now: to the delivery machine.
    Identity(Identity),
    /// The transaction has this partition: to the delivery machine.
    Joined(TopicPartition),
    /// The transaction is over: to the delivery machine.
    Ended,
    /// What the user waited for is done, or failed.
    Done {
        /// Its ticket.
        ticket: Ticket,
        /// How it went.
        outcome: Result<(), TransactionError>,
    },
    /// The transaction can only be aborted: what was not sent yet fails with this ([`crate::produce::Input::TransactionFailed`]).
    FailUnsent(SendFault),
    /// Nothing can be sent any more: to the delivery machine ([`crate::produce::Input::FailAll`]).
    Fatal(SendFault),
    /// What happened, for logs and figures.
    Event(SessionEvent),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The session went from one state to another.
    StateChanged {
        /// Before.
        from: State,
        /// Now.
        to: State,
    },
    /// A call failed and is made again.
    Retried {
        /// The API.
        api: &'static str,
        /// What it failed of.
        reason: String,
    },
}

/// Why a transaction's verb failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// Another producer with the same `transactional.id` took over: this one is of no use any more.
    #[error(
        "the producer was fenced ({code}): another one with transactional.id={transactional_id} was started, or a transaction \
         was open for longer than transaction.timeout.ms and the coordinator aborted it. Close this one"
    )]
    Fenced {
        /// The id.
        transactional_id: String,
        /// Kafka's name of what said so.
        code: &'static str,
    },
    /// The transaction can only be aborted.
    #[error("the transaction must be aborted: {reason}")]
    MustAbort {
        /// Why.
        reason: String,
    },
    /// The call does not belong here, such as a commit without a transaction.
    #[error("{0}")]
    State(String),
    /// No permission for the transactional id, or for the group.
    #[error("{what} is not allowed ({}): {}", code.name(), code.message())]
    Denied {
        /// What.
        what: String,
        /// The broker's error.
        code: ErrorCode,
    },
    /// Its time was over.
    #[error("{what} did not end within its time ({last_error}); it goes on: call it again to wait on")]
    TimedOut {
        /// What.
        what: &'static str,
        /// What the last attempt failed of.
        last_error: String,
    },
    /// The broker refused for good.
    #[error("{what}: the broker answered {} ({})", code.name(), message.as_deref().unwrap_or(code.message()))]
    Refused {
        /// What.
        what: &'static str,
        /// The broker's error.
        code: ErrorCode,
        /// Its own words.
        message: Option<String>,
    },
    /// The producer is of no use any more.
    #[error("{0}")]
    Fatal(String),
}
