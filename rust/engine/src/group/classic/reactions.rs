//! What each error of each call leads to: the one table of it (S121). docs/design/groups.md shows it, and a test holds one against the other.

use monedula_protocol::error_code::ErrorCode;

use crate::group::Kind;

/// What a member does about an error. Answers to requests of an older generation, or that nobody waits for any more, lead to
/// nothing at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// The same again, after a backoff.
    Retry,
    /// Look for the coordinator, then the same again.
    Rediscover,
    /// Join at once with the member id that came with the error (KIP-394).
    TakeMemberId,
    /// Join again; what is owned stays owned.
    Rejoin,
    /// The generation is over: what was owned is lost, and the member joins again under its id.
    DropGeneration,
    /// The member is not known any more: what was owned is lost, and it joins again without an id.
    DropMember,
    /// Tell the user about the partition; all else goes on.
    Tell,
    /// Tell the user on every call; the membership is over.
    Fail,
    /// It comes to the same as success.
    Done,
}

use ErrorCode as E;
use Reaction as R;

/// The table: an API's errors in the order of their codes. What it does not name is retried where Kafka calls it retriable
/// (SyncGroup: by joining again, after a backoff); else it is told of partitions (OffsetCommit, OffsetFetch) and ends the
/// membership elsewhere.
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
        "JoinGroup",
        &[
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
    ),
    (
        "SyncGroup",
        &[
            (E::CoordinatorLoadInProgress, R::Rejoin),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::IllegalGeneration, R::DropGeneration),
            // A coordinator that has upgraded the group meanwhile takes the member's first assignor for the one chosen (Kafka's does).
            (E::InconsistentGroupProtocol, R::Rejoin),
            (E::UnknownMemberId, R::DropMember),
            (E::RebalanceInProgress, R::Rejoin),
            (E::GroupAuthorizationFailed, R::Fail),
            (E::FencedInstanceId, R::Fail),
        ],
    ),
    (
        "Heartbeat",
        &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::IllegalGeneration, R::DropGeneration),
            (E::UnknownMemberId, R::DropMember),
            (E::RebalanceInProgress, R::Rejoin),
            (E::GroupAuthorizationFailed, R::Fail),
            (E::FencedInstanceId, R::Fail),
        ],
    ),
    (
        "LeaveGroup",
        &[
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::UnknownMemberId, R::Done),
            (E::GroupAuthorizationFailed, R::Done),
            (E::FencedInstanceId, R::Done),
        ],
    ),
    (
        "OffsetCommit",
        &[
            (E::UnknownTopicOrPartition, R::Retry),
            (E::RequestTimedOut, R::Rediscover),
            (E::OffsetMetadataTooLarge, R::Tell),
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::IllegalGeneration, R::DropGeneration),
            (E::UnknownMemberId, R::DropMember),
            (E::RebalanceInProgress, R::Rejoin),
            (E::InvalidCommitOffsetSize, R::Tell),
            (E::TopicAuthorizationFailed, R::Tell),
            (E::GroupAuthorizationFailed, R::Tell),
            (E::FencedInstanceId, R::Fail),
            (E::UnknownTopicId, R::Retry),
        ],
    ),
    (
        "OffsetFetch",
        &[
            (E::UnknownTopicOrPartition, R::Tell),
            (E::CoordinatorLoadInProgress, R::Retry),
            (E::CoordinatorNotAvailable, R::Rediscover),
            (E::NotCoordinator, R::Rediscover),
            (E::TopicAuthorizationFailed, R::Tell),
            (E::GroupAuthorizationFailed, R::Fail),
            (E::UnstableOffsetCommit, R::Retry),
            (E::UnknownTopicId, R::Retry),
        ],
    ),
];

/// What `code`, which is an error, leads to in an answer to `api`.
pub fn reaction(api: &str, code: ErrorCode) -> Reaction {
    let errors = REACTIONS.iter().find(|(name, _)| *name == api).map_or(&[][..], |(_, errors)| errors);
    match errors.iter().find(|(known, _)| *known == code) {
        Some(&(_, reaction)) => reaction,
        // What is missed of a rebalance is had by another only.
        None if code.is_retriable() && api == "SyncGroup" => Reaction::Rejoin,
        None if code.is_retriable() => Reaction::Retry,
        None if api.starts_with("Offset") => Reaction::Tell,
        None if api == "LeaveGroup" => Reaction::Done,
        None => Reaction::Fail,
    }
}

/// A kind of call as the table names it.
pub(super) fn api(kind: Kind) -> &'static str {
    match kind {
        Kind::FindCoordinator => "FindCoordinator",
        Kind::JoinGroup => "JoinGroup",
        Kind::SyncGroup => "SyncGroup",
        Kind::Heartbeat => "Heartbeat",
        Kind::LeaveGroup => "LeaveGroup",
        Kind::OffsetCommit => "OffsetCommit",
        Kind::OffsetFetch => "OffsetFetch",
    }
}
