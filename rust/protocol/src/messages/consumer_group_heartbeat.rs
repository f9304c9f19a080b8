//! ConsumerGroupHeartbeat, API key 68, versions 0-1 (KIP-848).
//!
//! The one request with which a member joins, keeps its membership, acknowledges its partitions, and leaves. Version 1
//! adds subscriptions by regular expression, and member ids that the member generates itself (KIP-1082). Both are
//! flexible.

use crate::types::Uuid;
use crate::wire::api;

api! {
    ConsumerGroupHeartbeat, versions 0..=1, flexible 0..;

    /// Keeps a member alive, and sends what has changed since its last heartbeat.
    request ConsumerGroupHeartbeatRequest<'a> {
        group_id: &'a str, 0..;
        /// The member id, which stays the same as long as the member lives. In version 0, empty to join.
        member_id: &'a str, 0..;
        /// The member epoch; 0 to join, -1 to leave, -2 for a static member that leaves temporarily.
        member_epoch: i32, 0..;
        /// The group instance id; `None` for a dynamic member, or if it has not changed.
        instance_id: Option<&'a str> = None, 0.., nullable 0..;
        /// The member's rack; `None` if it has none, or if it has not changed.
        rack_id: Option<&'a str> = None, 0.., nullable 0..;
        /// The rebalance timeout in milliseconds: how long the member may take to revoke partitions; -1 if it has not
        /// changed.
        rebalance_timeout_ms: i32 = -1, 0..;
        /// The topics to which the member subscribes by name; `None` if they have not changed.
        subscribed_topic_names: Option<Vec<&'a str>> = None, 0.., nullable 0..;
        /// The regular expression to which the member subscribes, in RE2 syntax; empty to unsubscribe from it, `None`
        /// if it has not changed.
        subscribed_topic_regex: Option<&'a str> = None, 1.., nullable 1..;
        /// The server-side assignor that the member prefers; `None` for the broker's choice, or if it has not changed.
        server_assignor: Option<&'a str> = None, 0.., nullable 0..;
        /// The partitions that the member owns; `None` if they have not changed.
        topic_partitions: Option<Vec<TopicPartitions<'a>>> = None, 0.., nullable 0..;
    }

    /// The member's epoch, heartbeat interval and assignment.
    response ConsumerGroupHeartbeatResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str> = None, 0.., nullable 0..;
        member_id: Option<&'a str> = None, 0.., nullable 0..;
        member_epoch: i32, 0..;
        heartbeat_interval_ms: i32, 0..;
        /// The assignment; `None` if it has not changed.
        assignment: Option<Assignment<'a>> = None, 0.., nullable 0..;
    }

    /// Partitions of a topic.
    struct TopicPartitions<'a> {
        topic_id: Uuid, 0..;
        partitions: Vec<i32>, 0..;
    }

    /// A member's assignment.
    struct Assignment<'a> {
        /// The partitions that the member may own now. Those that it does not own yet have been released by their
        /// previous owners.
        topic_partitions: Vec<TopicPartitions<'a>>, 0..;
    }
}
