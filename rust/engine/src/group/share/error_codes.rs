//! The reactions of a member of a share group to error codes. docs/design/groups.md shows the same table; a test
//! compares the two.

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
            (E::UnsupportedVersion, R::Fail),
            (E::InvalidRequest, R::Fail),
            // In the group: a heartbeat with an epoch creates no group. While joining: the group is of another kind.
            (E::GroupIdNotFound, R::Fence),
            (E::GroupMaxSizeReached, R::Fail),
            (E::FencedMemberEpoch, R::Fence),
        ],
        CallKind::LeaveGroup => &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::UnknownMemberId, R::Done),
            (E::GroupAuthorizationFailed, R::Done),
            (E::GroupIdNotFound, R::Done),
            (E::FencedMemberEpoch, R::Done),
        ],
        // Consumer groups' only.
        CallKind::JoinGroup | CallKind::SyncGroup | CallKind::OffsetCommit | CallKind::OffsetFetch => &[],
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
        CallKind::Heartbeat => "ShareGroupHeartbeat",
        CallKind::LeaveGroup => "ShareGroupHeartbeat, leaving",
        kind => kind.name(),
    }
}
