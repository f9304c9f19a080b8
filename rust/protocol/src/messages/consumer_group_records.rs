//! The records that a group coordinator writes to `__consumer_offsets` about groups of the consumer protocol (KIP-848):
//! keys, versions 3-8 and 16, and values, version 0.
//!
//! A record's key and value each begin with their version as an `int16`. The key's version is the kind of record. Keys
//! are not flexible, values are.

use crate::types::Uuid;
use crate::wire::{message, structure};

message! {
    /// The key of a group (version 3), of its topics' partitions as stored by older brokers (4), and of the epoch of
    /// its target assignment (6).
    ConsumerGroupKey<'a>, versions 3..=6;

    group_id: &'a str, 0..;
}

message! {
    /// The key of a member's subscription (version 5), of its target assignment (7), and of its current assignment (8).
    ConsumerGroupMemberKey<'a>, versions 5..=8;

    group_id: &'a str, 0..;
    member_id: &'a str, 0..;
}

message! {
    /// The key of a regular expression to which members subscribe.
    ConsumerGroupRegularExpressionKey<'a>, versions 16..=16;

    group_id: &'a str, 0..;
    regular_expression: &'a str, 0..;
}

message! {
    /// A group.
    ConsumerGroupMetadataValue<'a>, versions 0..=0, flexible 0..;

    epoch: i32, 0..;
    /// A hash over the metadata of the subscribed topics. If it changes, the coordinator raises the group epoch.
    metadata_hash: i64, 0.., tag 0;
}

message! {
    /// A member's metadata and subscription.
    ConsumerGroupMemberMetadataValue<'a>, versions 0..=0, flexible 0..;

    /// The group instance id of a static member; `None` for a dynamic one.
    instance_id: Option<&'a str>, 0.., nullable 0..;
    /// The member's rack, if any.
    rack_id: Option<&'a str>, 0.., nullable 0..;
    /// The client id that it joined with.
    client_id: &'a str, 0..;
    /// The address that it joined from.
    client_host: &'a str, 0..;
    /// The topics to which it subscribes by name.
    subscribed_topic_names: Vec<&'a str>, 0..;
    /// The regular expression to which it subscribes, if any.
    subscribed_topic_regex: Option<&'a str>, 0.., nullable 0..;
    /// The rebalance timeout in milliseconds: how long the member may take to revoke partitions.
    rebalance_timeout_ms: i32 = -1, 0..;
    /// The server-side assignor that the member prefers.
    server_assignor: Option<&'a str>, 0.., nullable 0..;
    /// The session timeout and protocols of a member with the classic protocol.
    classic_member_metadata: Option<ClassicMemberMetadata<'a>> = None, 0.., nullable 0.., tag 0;
}

structure! {
    /// A member with the classic protocol in a group of the consumer protocol.
    ClassicMemberMetadata<'a> {
        session_timeout_ms: i32, 0..;
        /// The protocols that it supports.
        supported_protocols: Vec<ClassicProtocol<'a>>, 0..;
    }
}

structure! {
    /// A protocol that a member supports.
    ClassicProtocol<'a> {
        /// The protocol's name.
        name: &'a str, 0..;
        /// The protocol's subscription.
        metadata: &'a [u8], 0..;
    }
}

message! {
    /// The epoch of a target assignment.
    ConsumerGroupTargetAssignmentMetadataValue<'a>, versions 0..=0, flexible 0..;

    /// The group epoch for which the target assignment was computed.
    assignment_epoch: i32, 0..;
    /// The time at which the target assignment was computed, in milliseconds since the epoch.
    assignment_timestamp: i64, 0.., tag 0;
}

message! {
    /// A member's target assignment.
    ConsumerGroupTargetAssignmentMemberValue<'a>, versions 0..=0, flexible 0..;

    topic_partitions: Vec<TargetPartitions<'a>>, 0..;
}

structure! {
    /// Partitions of a topic.
    TargetPartitions<'a> {
        topic_id: Uuid, 0..;
        partitions: Vec<i32>, 0..;
    }
}

message! {
    /// A member's current assignment.
    ConsumerGroupCurrentMemberAssignmentValue<'a>, versions 0..=0, flexible 0..;

    member_epoch: i32, 0..;
    /// The member epoch before that. A member that missed a response still sends it.
    previous_member_epoch: i32, 0..;
    /// Kafka's number of the member's state in the reconciliation with its target assignment.
    state: i8, 0..;
    assigned_partitions: Vec<CurrentPartitions<'a>>, 0..;
    /// The partitions that the member must revoke and has not released yet.
    partitions_pending_revocation: Vec<CurrentPartitions<'a>>, 0..;
}

structure! {
    /// Partitions of a topic.
    CurrentPartitions<'a> {
        topic_id: Uuid, 0..;
        partitions: Vec<i32>, 0..;
        /// The member epoch at which each partition was assigned (KIP-1251).
        assignment_epochs: Vec<i32>, 0.., tag 0;
    }
}

message! {
    /// The topics that match a regular expression.
    ConsumerGroupRegularExpressionValue<'a>, versions 0..=0, flexible 0..;

    topics: Vec<&'a str>, 0..;
    /// The version of the metadata image against which the topics were matched.
    version: i64, 0..;
    /// The time at which the topics were matched, in milliseconds since the epoch.
    timestamp: i64, 0..;
}
