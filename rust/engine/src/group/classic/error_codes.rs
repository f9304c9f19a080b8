//! What each error code in an answer leads to: the reactions of all requests, in a single table (S121).
//! docs/design/groups.md shows the same table; a test compares the two.

use monedula_protocol::error_code::ErrorCode;

use crate::group::CallKind;

/// What a member does about an error. Answers to requests of an older generation, or to abandoned requests, are
/// ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Send the same request again, after a backoff.
    Retry,
    /// Look for the coordinator, then send the same request again.
    Rediscover,
    /// Join at once with the member id that came with the error (KIP-394).
    TakeMemberId,
    /// Join again, and keep the owned partitions.
    Rejoin,
    /// The generation is over: the owned partitions are lost, and the member joins again with its id.
    DropGeneration,
    /// The coordinator does not know the member any more: the owned partitions are lost, and it joins again without an
    /// id.
    DropMember,
    /// Report the error of this partition to the user; the membership continues.
    Report,
    /// Report the error to the user on every call; the membership is over.
    Fail,
    /// Treat it as success.
    Done,
}

use ErrorCode as E;
use Reaction as R;

/// The table: the errors of each API in the order of their codes. An error that is not in the table is retried if Kafka
/// calls it retriable (SyncGroup: by joining again, after a backoff). Any other is reported for its partition
/// (OffsetCommit, OffsetFetch), treated as success (LeaveGroup), or ends the membership.
pub fn known_errors(kind: CallKind) -> &'static [(ErrorCode, Reaction)] {
    match kind {
        CallKind::FindCoordinator => &[
            // Of one broker that has a fault of its own: another may know the coordinator.
            (E::UnknownServerError, R::Retry),
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Retry),
            (E::InvalidGroupId, R::Fail),
            (E::GroupAuthorizationFailed, R::Fail),
        ],
        CallKind::JoinGroup => &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::IllegalGeneration, R::DropGeneration),
            (E::InconsistentGroupProtocol, R::Fail),
            (E::InvalidGroupId, R::Fail),
            (E::UnknownMemberId, R::DropMember),
            (E::InvalidSessionTimeout, R::Fail),
            (E::RebalanceInProgress, R::Retry),
            (E::GroupAuthorizationFailed, R::Fail),
            (E::MemberIdRequired, R::TakeMemberId),
            (E::GroupMaxSizeReached, R::Fail),
            (E::FencedInstanceId, R::Fail),
        ],
        CallKind::SyncGroup => &[
            (E::CoordinatorLoadInProgress, R::Rejoin),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::IllegalGeneration, R::DropGeneration),
            // A coordinator that has upgraded the group meanwhile (Kafka's) expects the member's first assignor as the
            // chosen one.
            (E::InconsistentGroupProtocol, R::Rejoin),
            (E::UnknownMemberId, R::DropMember),
            (E::RebalanceInProgress, R::Rejoin),
            (E::GroupAuthorizationFailed, R::Fail),
            (E::FencedInstanceId, R::Fail),
        ],
        CallKind::Heartbeat => &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::IllegalGeneration, R::DropGeneration),
            (E::UnknownMemberId, R::DropMember),
            (E::RebalanceInProgress, R::Rejoin),
            (E::GroupAuthorizationFailed, R::Fail),
            (E::FencedInstanceId, R::Fail),
        ],
        CallKind::LeaveGroup => &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::UnknownMemberId, R::Done),
            (E::GroupAuthorizationFailed, R::Done),
            (E::FencedInstanceId, R::Done),
        ],
        CallKind::OffsetCommit => &[
            (E::UnknownTopicOrPartition, R::Retry),
            (E::RequestTimedOut, R::Rediscover),
            (E::OffsetMetadataTooLarge, R::Report),
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::IllegalGeneration, R::DropGeneration),
            (E::UnknownMemberId, R::DropMember),
            (E::RebalanceInProgress, R::Rejoin),
            (E::InvalidCommitOffsetSize, R::Report),
            (E::TopicAuthorizationFailed, R::Report),
            (E::GroupAuthorizationFailed, R::Report),
            (E::FencedInstanceId, R::Fail),
            (E::UnknownTopicId, R::Retry),
        ],
        CallKind::OffsetFetch => &[
            (E::UnknownTopicOrPartition, R::Report),
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::TopicAuthorizationFailed, R::Report),
            (E::GroupAuthorizationFailed, R::Fail),
            (E::UnstableOffsetCommit, R::Retry),
            (E::UnknownTopicId, R::Retry),
        ],
    }
}

/// The reaction to `code`, which is an error, in the answer to a call.
pub fn reaction(kind: CallKind, code: ErrorCode) -> Reaction {
    match known_errors(kind).iter().find(|(known, _)| *known == code) {
        Some(&(_, reaction)) => reaction,
        // A missed assignment can only be had by another rebalance.
        None if code.is_retriable() && kind == CallKind::SyncGroup => Reaction::Rejoin,
        None if code.is_retriable() => Reaction::Retry,
        None => match kind {
            CallKind::OffsetCommit | CallKind::OffsetFetch => Reaction::Report,
            CallKind::LeaveGroup => Reaction::Done,
            CallKind::FindCoordinator | CallKind::JoinGroup | CallKind::SyncGroup | CallKind::Heartbeat => {
                Reaction::Fail
            }
        },
    }
}

/// The name of a call: that of its API.
pub fn api(kind: CallKind) -> &'static str {
    match kind {
        CallKind::FindCoordinator => "FindCoordinator",
        CallKind::JoinGroup => "JoinGroup",
        CallKind::SyncGroup => "SyncGroup",
        CallKind::Heartbeat => "Heartbeat",
        CallKind::LeaveGroup => "LeaveGroup",
        CallKind::OffsetCommit => "OffsetCommit",
        CallKind::OffsetFetch => "OffsetFetch",
    }
}
