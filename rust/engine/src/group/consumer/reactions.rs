//! What each error of each call leads to: the one table of it (S121). docs/design/groups.md shows it, and a test holds one against the other.

use monedula_protocol::error_code::ErrorCode;

use crate::group::Kind;

/// What a member does about an error. Answers that nobody waits for any more lead to nothing at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// The same again, after a backoff; a heartbeat says everything then.
    Retry,
    /// Look for the coordinator, then the same again; a heartbeat says everything then.
    Rediscover,
    /// All is lost, and the member joins again with its id and epoch 0.
    Fence,
    /// Of a member: as [`Self::Fence`]. Of one that joins: the broker lacks the protocol, so the classic one takes over
    /// (`group.protocol=auto`), or the membership is over.
    FallBack,
    /// The same again, after the next heartbeat has brought the epoch, or that there is none any more.
    AfterHeartbeat,
    /// The commit came to nothing. Whether the member is one still, only a heartbeat can say: none is forced to join again.
    Gone,
    /// Tell the user (of a heartbeat, once); all else goes on.
    Tell,
    /// Tell the user on every call; the membership is over.
    Fail,
    /// It comes to the same as success.
    Done,
}

use ErrorCode as E;
use Reaction as R;

/// The heartbeat that leaves has errors of its own meaning.
pub(super) const LEAVING: &str = "ConsumerGroupHeartbeat, leaving";

/// The table: an API's errors in the order of their codes. What it does not name is retried where Kafka calls it retriable;
/// else it is told of partitions (OffsetCommit, OffsetFetch), as good as success (leaving), and ends the membership elsewhere.
pub const REACTIONS: &[(&str, &[(ErrorCode, Reaction)])] = &[
    (
        "FindCoordinator",
        &[
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
            (E::TopicAuthorizationFailed, R::Tell),
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
            // Once a topic is deleted, waiting for it would hold up every revocation until it is too late (as in Java).
            (E::UnknownTopicOrPartition, R::Tell),
            (E::RequestTimedOut, R::Rediscover),
            (E::OffsetMetadataTooLarge, R::Tell),
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::IllegalGeneration, R::Gone),
            (E::UnknownMemberId, R::Gone),
            (E::InvalidCommitOffsetSize, R::Tell),
            (E::TopicAuthorizationFailed, R::Tell),
            (E::GroupAuthorizationFailed, R::Tell),
            (E::GroupIdNotFound, R::Gone),
            (E::FencedInstanceId, R::Fail),
            (E::UnknownTopicId, R::Tell),
            (E::FencedMemberEpoch, R::AfterHeartbeat),
            (E::StaleMemberEpoch, R::AfterHeartbeat),
        ],
    ),
    (
        "OffsetFetch",
        &[
            (E::UnknownTopicOrPartition, R::Tell),
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::IllegalGeneration, R::AfterHeartbeat),
            (E::UnknownMemberId, R::AfterHeartbeat),
            (E::TopicAuthorizationFailed, R::Tell),
            (E::GroupAuthorizationFailed, R::Fail),
            (E::GroupIdNotFound, R::AfterHeartbeat),
            (E::UnstableOffsetCommit, R::Retry),
            (E::FencedMemberEpoch, R::AfterHeartbeat),
            (E::StaleMemberEpoch, R::AfterHeartbeat),
        ],
    ),
];

/// What `code`, which is an error, leads to in an answer to `api`.
pub fn reaction(api: &str, code: ErrorCode) -> Reaction {
    let errors = REACTIONS.iter().find(|(name, _)| *name == api).map_or(&[][..], |(_, errors)| errors);
    match errors.iter().find(|(known, _)| *known == code) {
        Some(&(_, reaction)) => reaction,
        None if code.is_retriable() => Reaction::Retry,
        None if api.starts_with("Offset") => Reaction::Tell,
        None if api == LEAVING => Reaction::Done,
        None => Reaction::Fail,
    }
}

/// A kind of call as the table names it.
pub(super) fn api(kind: Kind) -> &'static str {
    match kind {
        Kind::FindCoordinator => "FindCoordinator",
        Kind::Heartbeat => "ConsumerGroupHeartbeat",
        Kind::OffsetCommit => "OffsetCommit",
        Kind::OffsetFetch => "OffsetFetch",
        Kind::LeaveGroup => LEAVING,
        // Of the classic protocol.
        Kind::JoinGroup => "JoinGroup",
        Kind::SyncGroup => "SyncGroup",
    }
}
