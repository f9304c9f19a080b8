//! What can go wrong with a membership, by what the user can do about it.

use crate::group::classic::GroupError;

/// An error of the membership as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// One that the classic protocol has as well.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The broker lacks the protocol, or does not allow it for this group.
    #[error(
        "the broker does not offer the consumer group protocol of KIP-848 for the group {group} ({reason}): set \
         group.protocol=classic, or group.protocol=auto to use it where it is offered"
    )]
    Unsupported {
        /// The group.
        group: String,
        /// What the broker said.
        reason: String,
    },
    /// The broker does not have the assignor.
    #[error(
        "the broker does not have the assignor group.remote.assignor={assignor} (UNSUPPORTED_ASSIGNOR){}: use one of the \
         broker's group.consumer.assignors, or none for the broker's choice",
        said(message)
    )]
    UnsupportedAssignor {
        /// The setting.
        assignor: String,
        /// What the broker said.
        message: String,
    },
    /// The broker cannot read the pattern.
    #[error(
        "the broker cannot use the pattern {pattern:?} (INVALID_REGULAR_EXPRESSION){}: patterns that brokers match are in \
         RE2's syntax",
        said(message)
    )]
    InvalidRegex {
        /// The pattern.
        pattern: String,
        /// What the broker said.
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
        /// What the broker said.
        message: String,
    },
    /// Another consumer has the static id.
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
    /// The user may not read a topic that is subscribed to.
    #[error(
        "reading a topic that the group {group} subscribes to is not allowed (TOPIC_AUTHORIZATION_FAILED){}; ask for the \
         DESCRIBE and READ permissions. The consumer goes on trying",
        said(message)
    )]
    TopicDenied {
        /// The group.
        group: String,
        /// What the broker said.
        message: String,
    },
    /// The broker takes the request for wrong, or failed of it.
    #[error("group {group}: ConsumerGroupHeartbeat was answered {} ({}){}", code.name(), code.message(), said(message))]
    Heartbeat {
        /// The group.
        group: String,
        /// The answer.
        code: monedula_protocol::error_code::ErrorCode,
        /// What the broker said.
        message: String,
    },
}

/// The broker's own words, if it has any.
fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}
