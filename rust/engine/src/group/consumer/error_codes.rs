//! The reactions of a member under KIP-848 to error codes. docs/design/groups.md shows the same table; a test compares
//! the two.

use monedula_protocol::error_code::ErrorCode;

use crate::group::messages::{CallKind, FIND_COORDINATOR, Reaction};

use ErrorCode as E;
use Reaction as R;

/// The errors of each API, in the order of their codes. `Reaction::of` knows what follows from all others.
pub fn known_errors(kind: CallKind) -> &'static [(ErrorCode, Reaction)] {
    match kind {
        CallKind::FindCoordinator => FIND_COORDINATOR,
        CallKind::Heartbeat => &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::InvalidGroupId, R::Fail),
            (E::UnknownMemberId, R::Fence),
            (E::TopicAuthorizationFailed, R::Report),
            (E::GroupAuthorizationFailed, R::Fail),
            (E::UnsupportedVersion, R::FallBack),
            (E::InvalidRequest, R::Fail),
            (E::GroupIdNotFound, R::FallBack),
            (E::GroupMaxSizeReached, R::Fail),
            (E::FencedInstanceId, R::Fail),
            (E::FencedMemberEpoch, R::Fence),
            (E::UnreleasedInstanceId, R::Fail),
            (E::UnsupportedAssignor, R::Fail),
            (E::InvalidRegularExpression, R::Fail),
        ],
        CallKind::LeaveGroup => &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::UnknownMemberId, R::Done),
            (E::GroupAuthorizationFailed, R::Done),
            (E::GroupIdNotFound, R::Done),
            (E::FencedInstanceId, R::Done),
            (E::FencedMemberEpoch, R::Done),
        ],
        CallKind::OffsetCommit => &[
            // A retry would wait for a deleted topic, and delay every revocation until it is too late (as in Java).
            (E::UnknownTopicOrPartition, R::Report),
            (E::RequestTimedOut, R::Rediscover),
            (E::OffsetMetadataTooLarge, R::Report),
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::IllegalGeneration, R::Gone),
            (E::UnknownMemberId, R::Gone),
            (E::InvalidCommitOffsetSize, R::Report),
            (E::TopicAuthorizationFailed, R::Report),
            (E::GroupAuthorizationFailed, R::Report),
            (E::GroupIdNotFound, R::Gone),
            (E::FencedInstanceId, R::Fail),
            (E::UnknownTopicId, R::Report),
            (E::FencedMemberEpoch, R::AfterHeartbeat),
            (E::StaleMemberEpoch, R::AfterHeartbeat),
        ],
        CallKind::OffsetFetch => &[
            (E::UnknownTopicOrPartition, R::Report),
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::IllegalGeneration, R::AfterHeartbeat),
            (E::UnknownMemberId, R::AfterHeartbeat),
            (E::TopicAuthorizationFailed, R::Report),
            (E::GroupAuthorizationFailed, R::Fail),
            (E::GroupIdNotFound, R::AfterHeartbeat),
            (E::UnstableOffsetCommit, R::Retry),
            (E::FencedMemberEpoch, R::AfterHeartbeat),
            (E::StaleMemberEpoch, R::AfterHeartbeat),
        ],
        // The classic protocol's.
        CallKind::JoinGroup | CallKind::SyncGroup => &[],
    }
}

/// The reaction to `code`, which is an error, in the answer to a call.
pub fn reaction(kind: CallKind, code: ErrorCode) -> Reaction {
    Reaction::of(known_errors(kind), kind, code)
}

/// The name of a call: that of its API. The heartbeat that leaves has one of its own, since errors mean something else
/// for it.
pub fn api(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Heartbeat => "ConsumerGroupHeartbeat",
        CallKind::LeaveGroup => "ConsumerGroupHeartbeat, leaving",
        kind => kind.name(),
    }
}
