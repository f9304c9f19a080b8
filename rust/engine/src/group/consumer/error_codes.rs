//! What each error code in an answer leads to: the reactions of all requests, in a single table (S121).
//! docs/design/groups.md shows the same table; a test compares the two.

use monedula_protocol::error_code::ErrorCode;

use crate::group::Kind;

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

/// The table's name for the heartbeat that leaves, for which errors mean something else.
pub(super) const LEAVING: &str = "ConsumerGroupHeartbeat, leaving";

/// The table: the errors of each API in the order of their codes. An error that is not in the table is retried if Kafka
/// calls it retriable. Any other is reported for its partition (OffsetCommit, OffsetFetch), treated as success
/// (leaving), or ends the membership.
pub const REACTIONS: &[(&str, &[(ErrorCode, Reaction)])] = &[
    (
        "FindCoordinator",
        &[
            // Of one broker that has a fault of its own: another may know the coordinator.
            (E::UnknownServerError, R::Retry),
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Retry),
            (E::InvalidGroupId, R::Fail),
            (E::GroupAuthorizationFailed, R::Fail),
        ],
    ),
    (
        "ConsumerGroupHeartbeat",
        &[
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
    ),
    (
        LEAVING,
        &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::UnknownMemberId, R::Done),
            (E::GroupAuthorizationFailed, R::Done),
            (E::GroupIdNotFound, R::Done),
            (E::FencedInstanceId, R::Done),
            (E::FencedMemberEpoch, R::Done),
        ],
    ),
    (
        "OffsetCommit",
        &[
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
    ),
    (
        "OffsetFetch",
        &[
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
    ),
];

/// The reaction to `code`, which is an error, in an answer to `api`.
pub fn reaction(api: &str, code: ErrorCode) -> Reaction {
    let errors = REACTIONS.iter().find(|(name, _)| *name == api).map_or(&[][..], |(_, errors)| errors);
    match errors.iter().find(|(known, _)| *known == code) {
        Some(&(_, reaction)) => reaction,
        None if code.is_retriable() => Reaction::Retry,
        None if api.starts_with("Offset") => Reaction::Report,
        None if api == LEAVING => Reaction::Done,
        None => Reaction::Fail,
    }
}

/// The name of a kind of call in the table.
pub(super) fn api(kind: Kind) -> &'static str {
    match kind {
        Kind::FindCoordinator => "FindCoordinator",
        Kind::Heartbeat => "ConsumerGroupHeartbeat",
        Kind::OffsetCommit => "OffsetCommit",
        Kind::OffsetFetch => "OffsetFetch",
        Kind::LeaveGroup => LEAVING,
        // Classic protocol only.
        Kind::JoinGroup => "JoinGroup",
        Kind::SyncGroup => "SyncGroup",
    }
}
