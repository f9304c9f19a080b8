//! Reactions to the errors of each call. docs/design/transactions.md shows the same table, and a test compares the two.

use monedula_protocol::error_code::ErrorCode;

use super::io::Call;

/// The reaction of a session to an error.
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

/// The table: the errors of each API in the order of their codes. An error that is not in it is retried if Kafka calls
/// it retriable; else the transaction is aborted (AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit), or the
/// producer fails (other APIs).
pub fn known_errors(call: &Call) -> &'static [(ErrorCode, Reaction)] {
    match call {
        Call::FindCoordinator { .. } => &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Retry),
            (E::InvalidGroupId, R::Abort),
            (E::GroupAuthorizationFailed, R::Abort),
            (E::TransactionalIdAuthorizationFailed, R::Deny),
            (E::TransactionAbortable, R::Abort),
        ],
        Call::InitProducerId { .. } => &[
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
        Call::AddPartitionsToTxn { .. } => &[
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
        Call::AddOffsetsToTxn { .. } => &[
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
        Call::TxnOffsetCommit { .. } => &[
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
        Call::EndTxn { .. } => &[
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
    }
}

/// The reaction to `code`, which is an error, in the answer to a call.
pub fn reaction(call: &Call, code: ErrorCode) -> Reaction {
    match known_errors(call).iter().find(|(known, _)| *known == code) {
        Some(&(_, reaction)) => reaction,
        None if code.is_retriable() => Reaction::Retry,
        None => match call {
            Call::AddPartitionsToTxn { .. } | Call::AddOffsetsToTxn { .. } | Call::TxnOffsetCommit { .. } => {
                Reaction::Abort
            }
            Call::FindCoordinator { .. } | Call::InitProducerId { .. } | Call::EndTxn { .. } => Reaction::Fail,
        },
    }
}
