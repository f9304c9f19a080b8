//! What each error code in an answer leads to: the reactions of all requests, in a single table (S121).
//! docs/design/groups.md shows the same table; a test compares the two.

use monedula_protocol::error_code::ErrorCode;

use crate::group::CallKind;

/// What a member does about an error. Answers to abandoned requests are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Send the same request again, after a backoff; a heartbeat then carries all fields.
    Retry,
    /// Look for the coordinator, then send the same request again; a heartbeat then carries all fields.
    Rediscover,
    /// All partitions are lost, and the member joins again with its id and epoch 0.
    Fence,
    /// In the group: as [`Self::Fence`]. While joining: the broker does not support KIP-848, so a classic member takes
    /// over (`group.protocol=auto`), or the membership is over.
    FallBack,
    /// Send the same request again after the next heartbeat has been answered, with the epoch that it brought, if the
    /// member is still in the group.
    AfterHeartbeat,
    /// The commit failed. The next heartbeat shows whether the member is still in the group: no error of a commit makes
    /// it join again.
    Gone,
    /// Report the error to the user (for heartbeats, once); the membership continues.
    Report,
    /// Report the error to the user on every call; the membership is over.
    Fail,
    /// Treat it as success.
    Done,
}

use ErrorCode as E;
use Reaction as R;

/// The table: the errors of each API in the order of their codes. An error that is not in the table is retried if Kafka
/// calls it retriable. Any other is reported for its partition (OffsetCommit, OffsetFetch), treated as success
/// (leaving), or ends the membership.
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
            // Not retried: waiting for a deleted topic would delay every revocation until it is too late (as in Java).
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
    match known_errors(kind).iter().find(|(known, _)| *known == code) {
        Some(&(_, reaction)) => reaction,
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

/// The name of a call: that of its API, for the heartbeat that leaves with a word more, since errors mean something else for it.
pub fn api(kind: CallKind) -> &'static str {
    match kind {
        CallKind::FindCoordinator => "FindCoordinator",
        CallKind::Heartbeat => "ConsumerGroupHeartbeat",
        CallKind::LeaveGroup => "ConsumerGroupHeartbeat, leaving",
        CallKind::OffsetCommit => "OffsetCommit",
        CallKind::OffsetFetch => "OffsetFetch",
        // Classic protocol only.
        CallKind::JoinGroup => "JoinGroup",
        CallKind::SyncGroup => "SyncGroup",
    }
}
