//! The reactions of a member to error codes. Each protocol has its table in `error_codes.rs` (S121).

use monedula_protocol::error_code::ErrorCode;

use super::call::CallKind;

/// The reaction of a member to an error. Answers to cancelled requests, or to requests of an older generation, are
/// ignored. If partitions of one answer have several errors, the greatest reaction decides: it says most about the
/// membership, or its cause has to go away before a retry can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reaction {
    /// Treat it as success.
    Done,
    /// Report the error to the user (for heartbeats, once); the membership continues.
    Report,
    /// KIP-848 only: the commit failed. The next heartbeat shows whether the member is still in the group: no error of
    /// a commit makes it join again.
    Gone,
    /// Send the same request again, after a backoff; a heartbeat under KIP-848 then carries all fields.
    Retry,
    /// Look for the coordinator, then as [`Self::Retry`].
    Rediscover,
    /// KIP-848 only: send the same request again after the next heartbeat has been answered, with the epoch that it
    /// brought, if the member is still in the group.
    AfterHeartbeat,
    /// Classic only: join at once with the member id that came with the error (KIP-394).
    TakeMemberId,
    /// Classic only: join again, and keep the owned partitions.
    Rejoin,
    /// Classic only: the generation is over: the owned partitions are lost, and the member joins again with its id.
    DropGeneration,
    /// Classic only: the coordinator does not know the member any more: the owned partitions are lost, and it joins
    /// again without an id.
    DropMember,
    /// KIP-848 only: all partitions are lost, and the member joins again with its id and epoch 0.
    Fence,
    /// KIP-848 only. In the group: as [`Self::Fence`]. While joining: the broker does not support KIP-848, so a classic
    /// member takes over (`group.protocol=auto`), or the membership is over.
    FallBack,
    /// Report the error to the user on every call; the membership is over.
    Fail,
}

/// The errors of FindCoordinator, in the order of their codes.
pub(crate) const FIND_COORDINATOR: &[(ErrorCode, Reaction)] = &[
    // A broker may have a fault of its own: another may know the coordinator.
    (ErrorCode::UnknownServerError, Reaction::Retry),
    (ErrorCode::CoordinatorLoadInProgress, Reaction::Retry),
    (ErrorCode::CoordinatorNotAvailable, Reaction::Retry),
    (ErrorCode::InvalidGroupId, Reaction::Fail),
    (ErrorCode::GroupAuthorizationFailed, Reaction::Fail),
];

impl Reaction {
    /// The reaction to `code`, which is an error, in the answer to a call that has this table. An error that is not in
    /// the table is retried if Kafka calls it retriable. Any other is reported for its partition (OffsetCommit,
    /// OffsetFetch), treated as success (leaving), or ends the membership.
    pub(crate) fn of(known: &[(ErrorCode, Self)], kind: CallKind, code: ErrorCode) -> Self {
        match known.iter().find(|(known, _)| *known == code) {
            Some(&(_, reaction)) => reaction,
            // A missed assignment can only be had by another rebalance.
            None if code.is_retriable() && kind == CallKind::SyncGroup => Self::Rejoin,
            None if code.is_retriable() => Self::Retry,
            None => match kind {
                CallKind::OffsetCommit | CallKind::OffsetFetch => Self::Report,
                CallKind::LeaveGroup => Self::Done,
                CallKind::FindCoordinator | CallKind::JoinGroup | CallKind::SyncGroup | CallKind::Heartbeat => {
                    Self::Fail
                }
            },
        }
    }

    /// The first of the errors of several partitions with the greatest reaction.
    pub(crate) fn worst(errors: impl IntoIterator<Item = (ErrorCode, Self)>) -> Option<(ErrorCode, Self)> {
        errors.into_iter().reduce(|worst, next| if worst.1 < next.1 { next } else { worst })
    }
}
