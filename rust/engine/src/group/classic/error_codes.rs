//! The reactions of a classic member to error codes. docs/design/groups.md shows the same table; a
//! test compares the two.

use monedula_protocol::error_code::ErrorCode;

use crate::group::messages::{CallKind, FIND_COORDINATOR, Reaction};

use ErrorCode as E;
use Reaction as R;

/// The errors of each API, in the order of their codes. `Reaction::of` knows what follows from all others.
pub fn known_errors(kind: CallKind) -> &'static [(ErrorCode, Reaction)] {
    match kind {
        CallKind::FindCoordinator => FIND_COORDINATOR,
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
    Reaction::of(known_errors(kind), kind, code)
}
