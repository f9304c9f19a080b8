//! What can go wrong with a membership, by what the user can do about it.

use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;

use crate::assign::AssignError;

/// An error of the membership as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The user may not use the group.
    #[error(
        "using the consumer group {group} is not allowed (GROUP_AUTHORIZATION_FAILED); ask for the READ permission on it"
    )]
    Denied {
        /// The group.
        group: String,
    },
    /// Another process has the same static id.
    #[error(
        "group.instance.id={instance} of the group {group} was taken over by another consumer (FENCED_INSTANCE_ID): each \
         running consumer of a group needs an id of its own"
    )]
    FencedInstance {
        /// The group.
        group: String,
        /// The id.
        instance: String,
    },
    /// No assignor is common to all members.
    #[error(
        "the members of the group {group} have no assignor in common (INCONSISTENT_GROUP_PROTOCOL): this one offers \
         {assignors}. Set partition.assignment.strategy to one that the others have: consumers of librdkafka, such as \
         confluent-kafka's, have range,roundrobin unless told otherwise, and Java's range,cooperative-sticky. To move a \
         group from one assignor to another, have its members list both meanwhile. Or use another group.id"
    )]
    InconsistentProtocol {
        /// The group.
        group: String,
        /// What this member offers.
        assignors: String,
    },
    /// The broker does not allow the session timeout.
    #[error(
        "session.timeout.ms={} is outside of what the broker allows (INVALID_SESSION_TIMEOUT): see \
         group.min.session.timeout.ms and group.max.session.timeout.ms of the broker", session_timeout.as_millis()
    )]
    InvalidSessionTimeout {
        /// The setting.
        session_timeout: Duration,
    },
    /// The user did not poll for so long that the member had to leave.
    #[error(
        "no poll for more than max.poll.interval.ms={}: the member left the group {group}, and others read its partitions. \
         The next poll joins again. Take smaller batches, call keep_alive() meanwhile, or raise max.poll.interval.ms",
        after.as_millis()
    )]
    MaxPollExceeded {
        /// The group.
        group: String,
        /// The setting.
        after: Duration,
    },
    /// There is no assignment.
    #[error("group {group}: {error}")]
    Assign {
        /// The group.
        group: String,
        /// Why.
        error: AssignError,
    },
    /// An answer that no repetition mends.
    #[error("group {group}: {api} was answered {} ({})", code.name(), code.message())]
    Broker {
        /// The group.
        group: String,
        /// Name of the API.
        api: &'static str,
        /// The answer.
        code: ErrorCode,
    },
    /// A call that cannot be made at all, such as one that the broker has no version of.
    #[error("group {group}: {reason}")]
    Call {
        /// The group.
        group: String,
        /// Why.
        reason: String,
    },
}
