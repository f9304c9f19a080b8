//! ConsumerGroupHeartbeat, API key 68, versions 0-1 (KIP-848).
//!
//! One request joins, stays, tells what the member owns, and leaves. 1 adds subscriptions by pattern, and has members
//! make their own ids (KIP-1082). All are flexible.

use crate::types::Uuid;
use crate::wire::api;

api! {
    ConsumerGroupHeartbeat, versions 0..=1, flexible 0..;

    /// Tells that a member lives, and what changed with it since its last heartbeat.
    request ConsumerGroupHeartbeatRequest<'a> {
        /// The group.
        group_id: &'a str, 0..;
        /// The member, the same as long as it lives; in version 0 empty to join.
        member_id: &'a str, 0..;
        /// Its epoch; 0 to join, -1 to leave, -2 for a static member that will be back.
        member_epoch: i32, 0..;
        /// The static member; `None` if it is none, or if nothing changed.
        instance_id: Option<&'a str> = None, 0.., nullable 0..;
        /// Its rack; `None` if it tells none, or if nothing changed.
        rack_id: Option<&'a str> = None, 0.., nullable 0..;
        /// How long it may take to give partitions back; -1 if nothing changed.
        rebalance_timeout_ms: i32 = -1, 0..;
        /// The topics it subscribes to; `None` if nothing changed.
        subscribed_topic_names: Option<Vec<&'a str>> = None, 0.., nullable 0..;
        /// The pattern it subscribes to, in RE2's syntax, empty to end that; `None` if nothing changed.
        subscribed_topic_regex: Option<&'a str> = None, 1.., nullable 1..;
        /// The assignor it wants the broker to use; `None` for the broker's choice, or if nothing changed.
        server_assignor: Option<&'a str> = None, 0.., nullable 0..;
        /// The partitions it owns; `None` if nothing changed.
        topic_partitions: Option<Vec<TopicPartitions<'a>>> = None, 0.., nullable 0..;
    }

    /// What the member is to do.
    response ConsumerGroupHeartbeatResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// The error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str> = None, 0.., nullable 0..;
        /// The member's id.
        member_id: Option<&'a str> = None, 0.., nullable 0..;
        /// Its epoch.
        member_epoch: i32, 0..;
        /// How long it is to wait before it tells again.
        heartbeat_interval_ms: i32, 0..;
        /// What it is to own; `None` if nothing changed.
        assignment: Option<Assignment<'a>> = None, 0.., nullable 0..;
    }

    /// Partitions of a topic.
    struct TopicPartitions<'a> {
        /// Its id.
        topic_id: Uuid, 0..;
        /// The partitions.
        partitions: Vec<i32>, 0..;
    }

    /// What a member is to own.
    struct Assignment<'a> {
        /// The partitions; those of them that it lacks are free for it now.
        topic_partitions: Vec<TopicPartitions<'a>>, 0..;
    }
}
