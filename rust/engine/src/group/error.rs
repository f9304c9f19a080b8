//! Errors of a group member, one variant for each thing that the user can do about it.

use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;

use crate::assign::AssignError;

/// An error of the membership as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The principal is not authorized for the group.
    #[error("using the group {group} is not allowed (GROUP_AUTHORIZATION_FAILED); ask for the READ permission on it")]
    Denied {
        /// The group.
        group: String,
    },
    /// Another consumer joined with the same static id and fenced this one.
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
        "{group} is a share group, or its members have no assignor in common (INCONSISTENT_GROUP_PROTOCOL). If it is a \
         share group, use ShareConsumer or another group.id. If not, this member offers {assignors}: set \
         partition.assignment.strategy to one that the others have. Consumers of librdkafka, such as confluent-kafka's, have \
         range,roundrobin unless told otherwise, and Java's range,cooperative-sticky. To move a group from one assignor to \
         another, have its members list both meanwhile"
    )]
    InconsistentProtocol {
        /// The group.
        group: String,
        /// The assignors of this member.
        assignors: String,
    },
    /// The session timeout is outside of the broker's limits.
    #[error(
        "session.timeout.ms={} is outside of what the broker allows (INVALID_SESSION_TIMEOUT): see \
         group.min.session.timeout.ms and group.max.session.timeout.ms of the broker", session_timeout.as_millis()
    )]
    InvalidSessionTimeout {
        /// The setting.
        session_timeout: Duration,
    },
    /// The user did not poll for `max.poll.interval.ms`, so the member left the group.
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
    /// This leader could not compute an assignment.
    #[error("group {group}: {error}")]
    Assign {
        /// The group.
        group: String,
        /// The reason.
        error: AssignError,
    },
    /// The coordinator answered with an error that a retry cannot fix.
    #[error("group {group}: {api} was answered {} ({})", code.name(), code.message())]
    Broker {
        /// The group.
        group: String,
        /// Name of the API.
        api: &'static str,
        /// The error code of the answer.
        code: ErrorCode,
    },
    /// A request that cannot be sent at all, for example because the broker supports no version that can carry it.
    #[error("group {group}: {reason}")]
    Call {
        /// The group.
        group: String,
        /// The reason.
        reason: String,
    },
    /// The broker does not support KIP-848, or does not allow it for this group.
    #[error(
        "the broker does not offer the consumer group protocol of KIP-848 for the group {group} ({}). If it is a share \
         group, use ShareConsumer or another group.id. If not, set group.protocol=classic, or group.protocol=auto to use it \
         where it is offered", reason.trim_end_matches('.')
    )]
    Unsupported {
        /// The group.
        group: String,
        /// The broker's message.
        reason: String,
    },
    /// The broker does not have the requested assignor.
    #[error(
        "the broker does not have the assignor group.remote.assignor={assignor} (UNSUPPORTED_ASSIGNOR){}: use one of the \
         broker's group.consumer.assignors, or none for the broker's choice",
        said(message)
    )]
    UnsupportedAssignor {
        /// The setting.
        assignor: String,
        /// The broker's message.
        message: String,
    },
    /// The broker rejects the subscription pattern.
    #[error(
        "the broker cannot use the pattern {pattern:?} (INVALID_REGULAR_EXPRESSION){}: patterns that brokers match are in \
         RE2's syntax",
        said(message)
    )]
    InvalidRegex {
        /// The pattern.
        pattern: String,
        /// The broker's message.
        message: String,
    },
    /// The group has as many members as the broker allows.
    #[error(
        "the group {group} is full (GROUP_MAX_SIZE_REACHED){}: run fewer consumers, or raise the broker's \
         group.consumer.max.size",
        said(message)
    )]
    GroupFull {
        /// The group.
        group: String,
        /// The broker's message.
        message: String,
    },
    /// Another consumer still holds the static id.
    #[error(
        "group.instance.id={instance} of the group {group} is in use by another consumer (UNRELEASED_INSTANCE_ID): each \
         running consumer of a group needs an id of its own. If that consumer died without closing, its id is free again \
         when its session ends (group.consumer.session.timeout.ms of the broker)"
    )]
    UnreleasedInstance {
        /// The group.
        group: String,
        /// The id.
        instance: String,
    },
    /// The principal is not authorized for a subscribed topic.
    #[error(
        "reading a topic that the group {group} subscribes to is not allowed (TOPIC_AUTHORIZATION_FAILED){}; ask for the \
         DESCRIBE and READ permissions. The consumer goes on trying",
        said(message)
    )]
    TopicDenied {
        /// The group.
        group: String,
        /// The broker's message.
        message: String,
    },
    /// The broker does not offer share groups.
    #[error(
        "the broker does not offer share groups (KIP-932), which the group {group} needs ({reason}): Kafka has them from 4.1 \
         on, switched on by the feature share.version"
    )]
    NoShareGroups {
        /// The group.
        group: String,
        /// The broker's message.
        reason: String,
    },
    /// The group exists, and is no share group.
    #[error(
        "the group {group} is no share group (GROUP_ID_NOT_FOUND{}): take another group.id, or delete it",
        said(message)
    )]
    NoShareGroup {
        /// The group.
        group: String,
        /// The broker's message.
        message: String,
    },
    /// A heartbeat failed with an error that has no variant of its own, such as INVALID_REQUEST.
    #[error("group {group}: {api} was answered {} ({}){}", code.name(), code.message(), said(message))]
    Heartbeat {
        /// The group.
        group: String,
        /// Name of the API.
        api: &'static str,
        /// The error code of the answer.
        code: ErrorCode,
        /// The broker's message.
        message: String,
    },
}

impl GroupError {
    /// The error for an error code in an answer of `api` that no retry can fix, and that both protocols have.
    pub(crate) fn of_code(api: &'static str, code: ErrorCode, group: &str, instance: Option<&str>) -> Self {
        let group = group.to_owned();
        match code {
            ErrorCode::GroupAuthorizationFailed => Self::Denied { group },
            ErrorCode::FencedInstanceId => {
                Self::FencedInstance { group, instance: instance.unwrap_or_default().to_owned() }
            }
            code => Self::Broker { group, api, code },
        }
    }
}

/// The broker's message as the end of a sentence; empty if it sent none.
fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

/// The reason why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// No connection, a broken one, no answer in time, or an unreadable one: a retry may succeed, maybe at another
    /// broker. With the reason.
    Lost(String),
    /// As [`Self::Lost`], but the request was certainly not sent and will not be, for example because no connection
    /// could be made: the broker has not processed it.
    Unsent(String),
    /// The request can never be sent, for example because the broker supports no suitable version. With the whole error
    /// text.
    Never(String),
}

/// The reason why an offset was not committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The partition is not owned, or not any more. No request was sent.
    #[error("it is not assigned to this consumer, or not any more: another member may own it")]
    NotOwned,
    /// The member is not in the group any more and joins again. Another member may already own the partition.
    #[error("the member is not in the group any more ({}): its partitions may have other owners", code.name())]
    MemberGone {
        /// The error code of the coordinator.
        code: ErrorCode,
    },
    /// The broker refused this partition's offset.
    #[error("the broker answered {} ({})", code.name(), code.message())]
    Refused {
        /// The error code of the partition.
        code: ErrorCode,
    },
    /// The commit was not confirmed before its deadline.
    #[error("it was not committed in time; the last attempt: {last}")]
    TimedOut {
        /// The reason why the last attempt failed.
        last: String,
    },
    /// The consumer left the group, or was closed, before the offset was committed.
    #[error("the consumer left the group before it was committed")]
    Closed,
}
