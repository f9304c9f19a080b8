//! What each error of a Produce answer leads to: the one table of it. docs/design/producing.md shows it, and a test holds one against the other.

use monedula_protocol::error_code::ErrorCode;

/// What becomes of a batch that a broker refused. In a transaction, everything that ends a batch ends the transaction with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// It was acknowledged before.
    Done,
    /// The same again, after a backoff. It may be in the log all the same.
    Retry,
    /// The same again, after a backoff. It is surely not in the log.
    RetryRefused,
    /// Metadata is asked for, then the same again. It may be in the log all the same.
    Refresh,
    /// Its records go in smaller batches; a single record fails.
    Split,
    /// The broker misses what stands before it, or knows nothing of the producer: what stands before it is delivered first;
    /// where that is not the reason, sequence numbers begin anew (KIP-360). In a transaction the batch fails.
    Renumber,
    /// The batch fails; all else goes on.
    Fail,
    /// The batch fails, and may be in the log all the same.
    FailInDoubt,
    /// Everything fails: another producer has taken over.
    Fence,
    /// Everything fails: nothing that this producer sends will be taken.
    FailAll,
}

use ErrorCode as E;
use Reaction as R;

/// The table, in the order of the codes. What it does not name is retried where Kafka calls it retriable; else the batch fails.
pub const REACTIONS: &[(ErrorCode, Reaction)] = &[
    (E::UnknownServerError, R::FailInDoubt),
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

/// What `code`, which is an error, leads to.
pub fn reaction(code: ErrorCode) -> Reaction {
    match REACTIONS.iter().find(|(known, _)| *known == code) {
        Some(&(_, reaction)) => reaction,
        None if code.is_retriable() => Reaction::Retry,
        None => Reaction::Fail,
    }
}
