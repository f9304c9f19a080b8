//! Reactions to the errors of a Produce answer. docs/design/producing.md shows the same table, and a test compares the
//! two.

use monedula_protocol::error_code::ErrorCode;

/// The reaction to the refusal of a batch by a broker. In a transaction a batch that fails also fails the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Counts it as acknowledged: the broker already had it.
    Done,
    /// Sends it again after a backoff. It may be in the log nevertheless.
    Retry,
    /// Sends it again after a backoff. It is certainly not in the log.
    RetryRefused,
    /// Requests metadata, and sends it again after a backoff, or as soon as a new leader is known. It may be in the log
    /// nevertheless.
    Refresh,
    /// Sends its records in smaller batches. A batch of one record fails.
    Split,
    /// The broker lacks the batches before it, or has no record of the producer: delivers those batches first. If they
    /// are not the reason, assigns new sequence numbers (KIP-360); in a transaction the batch fails instead.
    Renumber,
    /// Fails the batch; all others go on.
    Fail,
    /// Fails the batch, which may be in the log nevertheless.
    FailOutcomeUnknown,
    /// Fails everything: another producer has taken over.
    Fence,
    /// Fails everything: the broker will accept nothing from this producer.
    FailAll,
}

use ErrorCode as E;
use Reaction as R;

/// The table, in the order of the codes. An error that is not in it is retried if Kafka calls it retriable; else the
/// batch fails.
pub const REACTIONS: &[(ErrorCode, Reaction)] = &[
    (E::UnknownServerError, R::FailOutcomeUnknown),
    (E::CorruptMessage, R::Retry),
    (E::UnknownTopicOrPartition, R::Refresh),
    (E::LeaderNotAvailable, R::Refresh),
    (E::NotLeaderOrFollower, R::Refresh),
    (E::RequestTimedOut, R::Retry),
    (E::ReplicaNotAvailable, R::Refresh),
    (E::MessageTooLarge, R::Split),
    (E::NetworkException, R::Refresh),
    (E::InvalidTopicException, R::Fail),
    (E::RecordListTooLarge, R::Split),
    (E::NotEnoughReplicas, R::RetryRefused),
    (E::NotEnoughReplicasAfterAppend, R::Retry),
    (E::InvalidRequiredAcks, R::Fail),
    (E::TopicAuthorizationFailed, R::Fail),
    (E::ClusterAuthorizationFailed, R::FailAll),
    (E::InvalidTimestamp, R::Fail),
    (E::UnsupportedForMessageFormat, R::Fail),
    (E::PolicyViolation, R::Fail),
    (E::OutOfOrderSequenceNumber, R::Renumber),
    (E::DuplicateSequenceNumber, R::Done),
    (E::InvalidProducerEpoch, R::Renumber),
    (E::InvalidTxnState, R::Fail),
    (E::InvalidProducerIdMapping, R::Fail),
    (E::ConcurrentTransactions, R::RetryRefused),
    (E::TransactionalIdAuthorizationFailed, R::FailAll),
    (E::KafkaStorageError, R::Refresh),
    (E::UnknownProducerId, R::Renumber),
    (E::FencedLeaderEpoch, R::Refresh),
    (E::UnknownLeaderEpoch, R::Refresh),
    (E::UnsupportedCompressionType, R::Fail),
    (E::InvalidRecord, R::Fail),
    (E::ThrottlingQuotaExceeded, R::Retry),
    (E::ProducerFenced, R::Fence),
    (E::UnknownTopicId, R::Refresh),
    (E::TransactionAbortable, R::Fail),
];

/// The reaction to an error.
pub fn reaction(code: ErrorCode) -> Reaction {
    match REACTIONS.iter().find(|(known, _)| *known == code) {
        Some(&(_, reaction)) => reaction,
        None if code.is_retriable() => Reaction::Retry,
        None => Reaction::Fail,
    }
}
