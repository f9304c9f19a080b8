//! Why an acknowledgement did not take effect.

use monedula_protocol::error_code::ErrorCode;

/// Why an acknowledgement did not take effect, or may not have: the records may be delivered again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcknowledgeError {
    /// The locks were over before: the records may be with another member already.
    #[error(
        "the lock was over (INVALID_RECORD_STATE): the records may be with another member. Renew it, or take fewer rows"
    )]
    LockLost,
    /// A lock was not renewed.
    #[error(
        "the lock was over, or the group has share.renew.acknowledge.enable=false (INVALID_RECORD_STATE): decide of the rows \
         before batch.deadline"
    )]
    NotRenewed,
    /// The broker renews no locks at all.
    #[error(
        "the broker renews no locks, which needs Kafka 4.2 (UNSUPPORTED_VERSION): decide of the rows before batch.deadline"
    )]
    NoRenewals,
    /// The partition has another leader, which knows nothing of the locks.
    #[error("the partition has another leader: the records may be delivered again")]
    LeaderMoved,
    /// The session in which the records were acquired ended: the broker releases them, at the latest when their locks are
    /// over.
    #[error("the share session with the broker ended, and the records are delivered again")]
    SessionLost,
    /// The answer was lost: the broker may have processed the acknowledgement.
    #[error("whether the broker took it is not known: {reason}")]
    Unknown {
        /// What happened to the request.
        reason: String,
    },
    /// The broker refused it.
    #[error("the broker answered {} ({})", code.name(), code.message())]
    Refused {
        /// The error code.
        code: ErrorCode,
    },
    /// The consumer was closed before.
    #[error("the consumer was closed before, which released the records")]
    Closed,
}

impl AcknowledgeError {
    /// The error for a code in an answer.
    pub(super) fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::InvalidRecordState => Self::LockLost,
            ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch => Self::LeaderMoved,
            code => Self::Refused { code },
        }
    }

    /// The name of the error, as in the results that users see.
    pub fn name(&self) -> &'static str {
        match self {
            Self::LockLost | Self::NotRenewed => "INVALID_RECORD_STATE",
            Self::LeaderMoved => "NOT_LEADER_OR_FOLLOWER",
            Self::NoRenewals => ErrorCode::UnsupportedVersion.name(),
            Self::SessionLost => "SHARE_SESSION_NOT_FOUND",
            Self::Unknown { .. } => "UNKNOWN",
            Self::Refused { code } => code.name(),
            Self::Closed => "CLOSED",
        }
    }
}
