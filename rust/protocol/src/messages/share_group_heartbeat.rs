//! ShareGroupHeartbeat, API key 76, version 1, flexible (KIP-932).
//!
//! The one request with which a member joins a share group, keeps its membership, and leaves. An assignment is taken at
//! once: nothing is revoked or acknowledged, since several members may have the same partition.

use crate::types::Uuid;
use crate::wire::api;

api! {
    ShareGroupHeartbeat, versions 1..=1, flexible 1..;

    /// Keeps a member alive, and sends what has changed since its last heartbeat.
    request ShareGroupHeartbeatRequest<'a> {
        group_id: &'a str, 1..;
        /// The member id, which the member generates itself and keeps as long as it lives.
        member_id: &'a str, 1..;
        /// The member epoch; 0 to join, -1 to leave.
        member_epoch: i32, 1..;
        /// The member's rack; `None` if it has none, or if it has not changed.
        rack_id: Option<&'a str> = None, 1.., nullable 1..;
        /// The topics to which the member subscribes; `None` if they have not changed.
        subscribed_topic_names: Option<Vec<&'a str>> = None, 1.., nullable 1..;
    }

    /// The member's epoch, heartbeat interval and assignment.
    response ShareGroupHeartbeatResponse<'a> {
        throttle_time_ms: i32, 1..;
        error_code: i16, 1..;
        error_message: Option<&'a str> = None, 1.., nullable 1..;
        member_id: Option<&'a str> = None, 1.., nullable 1..;
        /// The member epoch; -1 in the response to leaving.
        member_epoch: i32, 1..;
        heartbeat_interval_ms: i32, 1..;
        /// The assignment; `None` if it has not changed.
        assignment: Option<Assignment<'a>> = None, 1.., nullable 1..;
    }

    /// Partitions of a topic.
    struct TopicPartitions<'a> {
        topic_id: Uuid, 1..;
        partitions: Vec<i32>, 1..;
    }

    /// A member's assignment.
    struct Assignment<'a> {
        topic_partitions: Vec<TopicPartitions<'a>>, 1..;
    }
}
