//! What each error of each call leads to. docs/design/transactions.md shows the same table, and a test compares the two.

use monedula_protocol::error_code::ErrorCode;

/// What a session does about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Makes the call again after a backoff.
    Retry,
    /// Finds the coordinator, then makes the call again.
    Rediscover,
    /// The transaction can only be aborted.
    Abort,
    /// As Abort, and the epoch is bumped afterwards (KIP-360).
    AbortAndBumpEpoch,
    /// Another producer took over: this one cannot be used any more.
    Fence,
    /// No permission: init_transactions fails, and may be called again. Once initialized, as Fail.
    Deny,
    /// The producer cannot be used any more.
    Fail,
}

use ErrorCode as E;
use Reaction as R;

/// The table: the errors of each API in the order of their codes. An error that is not in it is retried if Kafka calls it retriable;
/// else the transaction is aborted (AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit), or the producer fails (other APIs).
pub const REACTIONS: &[(&str, &[(ErrorCode, Reaction)])] = &[
    (
        "FindCoordinator",
        &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Retry),
            (E::InvalidGroupId, R::Abort),
            (E::GroupAuthorizationFailed, R::Abort),
            (E::TransactionalIdAuthorizationFailed, R::Deny),
            (E::TransactionAbortable, R::Abort),
        ],
    ),
    (
        "InitProducerId",
        &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::ClusterAuthorizationFailed, R::Deny),
            (E::InvalidProducerEpoch, R::Fence),
            (E::InvalidTransactionTimeout, R::Fail),
            (E::ConcurrentTransactions, R::Retry),
            (E::TransactionalIdAuthorizationFailed, R::Deny),
            (E::ProducerFenced, R::Fence),
        ],
    ),
    (
        "AddPartitionsToTxn",
        &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::TopicAuthorizationFailed, R::Abort),
            (E::InvalidProducerEpoch, R::Fence),
            (E::InvalidTxnState, R::Fail),
            (E::InvalidProducerIdMapping, R::AbortAndBumpEpoch),
            (E::ConcurrentTransactions, R::Retry),
            (E::TransactionalIdAuthorizationFailed, R::Fail),
            (E::OperationNotAttempted, R::Abort),
            (E::UnknownProducerId, R::AbortAndBumpEpoch),
            (E::ProducerFenced, R::Fence),
            (E::TransactionAbortable, R::Abort),
        ],
    ),
    (
        "AddOffsetsToTxn",
        &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::GroupAuthorizationFailed, R::Abort),
            (E::InvalidProducerEpoch, R::Fence),
            (E::InvalidTxnState, R::Fail),
            (E::InvalidProducerIdMapping, R::AbortAndBumpEpoch),
            (E::ConcurrentTransactions, R::Retry),
            (E::TransactionalIdAuthorizationFailed, R::Fail),
            (E::UnknownProducerId, R::AbortAndBumpEpoch),
            (E::ProducerFenced, R::Fence),
            (E::TransactionAbortable, R::Abort),
        ],
    ),
    (
        "TxnOffsetCommit",
        &[
            (E::UnknownTopicOrPartition, R::Retry),
            (E::RequestTimedOut, R::Rediscover),
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::IllegalGeneration, R::Abort),
            (E::UnknownMemberId, R::Abort),
            (E::GroupAuthorizationFailed, R::Abort),
            (E::InvalidProducerEpoch, R::Fence),
            (E::InvalidProducerIdMapping, R::AbortAndBumpEpoch),
            (E::TransactionalIdAuthorizationFailed, R::Fail),
            (E::UnknownProducerId, R::AbortAndBumpEpoch),
            (E::GroupIdNotFound, R::Abort),
            (E::FencedInstanceId, R::Abort),
            (E::ProducerFenced, R::Fence),
            (E::UnknownTopicId, R::Retry),
            (E::StaleMemberEpoch, R::Abort),
            (E::TransactionAbortable, R::Abort),
        ],
    ),
    (
        "EndTxn",
        &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::InvalidProducerEpoch, R::Fence),
            (E::InvalidTxnState, R::Fail),
            (E::InvalidProducerIdMapping, R::AbortAndBumpEpoch),
            (E::ConcurrentTransactions, R::Retry),
            (E::TransactionalIdAuthorizationFailed, R::Fail),
            (E::UnknownProducerId, R::AbortAndBumpEpoch),
            (E::ProducerFenced, R::Fence),
            (E::TransactionAbortable, R::Abort),
        ],
    ),
];

/// What an error in an answer of `api` leads to.
pub fn reaction(api: &str, code: ErrorCode) -> Reaction {
    let errors = REACTIONS.iter().find(|(name, _)| *name == api).map_or(&[][..], |(_, errors)| errors);
    match errors.iter().find(|(known, _)| *known == code) {
        Some(&(_, reaction)) => reaction,
        None if code.is_retriable() => Reaction::Retry,
        None if matches!(api, "AddPartitionsToTxn" | "AddOffsetsToTxn" | "TxnOffsetCommit") => Reaction::Abort,
        None => Reaction::Fail,
    }
}
