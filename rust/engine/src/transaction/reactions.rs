//! What each error of each call leads to: the one table of it. docs/design/transactions.md shows it, and a test holds one against the other.

use monedula_protocol::error_code::ErrorCode;

/// What a session does about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// The same again, after a backoff.
    Retry,
    /// Look for the coordinator, then the same again.
    Rediscover,
    /// The transaction can only be aborted.
    Abort,
    /// As Abort, and a higher epoch is asked for afterwards (KIP-360).
    AbortAndRaise,
    /// Another producer took over: nothing is of use any more.
    Fence,
    /// No permission: init_transactions fails, and may be called again. Once initialized, as Fail.
    Deny,
    /// Nothing is of use any more.
    Fail,
}

use ErrorCode as E;
use Reaction as R;

/// The table: an API's errors in the order of their codes. What it does not name is retried where Kafka calls it retriable;
/// else the transaction is aborted (AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit), or all is over.
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
            (E::InvalidProducerIdMapping, R::AbortAndRaise),
            (E::ConcurrentTransactions, R::Retry),
            (E::TransactionalIdAuthorizationFailed, R::Fail),
            (E::OperationNotAttempted, R::Abort),
            (E::UnknownProducerId, R::AbortAndRaise),
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
            (E::InvalidProducerIdMapping, R::AbortAndRaise),
            (E::ConcurrentTransactions, R::Retry),
            (E::TransactionalIdAuthorizationFailed, R::Fail),
            (E::UnknownProducerId, R::AbortAndRaise),
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
            (E::InvalidProducerIdMapping, R::AbortAndRaise),
            (E::TransactionalIdAuthorizationFailed, R::Fail),
            (E::UnknownProducerId, R::AbortAndRaise),
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
            (E::InvalidProducerIdMapping, R::AbortAndRaise),
            (E::ConcurrentTransactions, R::Retry),
            (E::TransactionalIdAuthorizationFailed, R::Fail),
            (E::UnknownProducerId, R::AbortAndRaise),
            (E::ProducerFenced, R::Fence),
            (E::TransactionAbortable, R::Abort),
        ],
    ),
];

/// What `code`, which is an error, leads to in an answer to `api`.
pub fn reaction(api: &str, code: ErrorCode) -> Reaction {
    let errors = REACTIONS.iter().find(|(name, _)| *name == api).map_or(&[][..], |(_, errors)| errors);
    match errors.iter().find(|(known, _)| *known == code) {
        Some(&(_, reaction)) => reaction,
        None if code.is_retriable() => Reaction::Retry,
        None if matches!(api, "AddPartitionsToTxn" | "AddOffsetsToTxn" | "TxnOffsetCommit") => Reaction::Abort,
        None => Reaction::Fail,
    }
}
