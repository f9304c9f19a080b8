//! What a coordinator writes to `__consumer_offsets` about groups of the new protocol (KIP-848): keys, versions 3-8 and 16, and
//! values, version 0.
//!
//! The version of a key says what kind of record it is, and stands before it. That of a value stands before it too. Keys are
//! not flexible, values are.

use crate::types::Uuid;
use crate::wire::{message, structure};

message! {
    /// The key of a group (3), of its partitions as older brokers stored them (4), and of its target assignment (6).
    ConsumerGroupKey<'a>, versions 3..=6;

    /// The group.
    group_id: &'a str, 0..;
}

message! {
    /// The key of a member's subscription (5), of its target assignment (7), and of its current assignment (8).
    ConsumerGroupMemberKey<'a>, versions 5..=8;

    /// The group.
    group_id: &'a str, 0..;
    /// The member.
    member_id: &'a str, 0..;
}

message! {
    /// The key of a pattern that members subscribe to.
    ConsumerGroupRegularExpressionKey<'a>, versions 16..=16;

    /// The group.
    group_id: &'a str, 0..;
    /// The pattern.
    regular_expression: &'a str, 0..;
}

message! {
    /// A group.
    ConsumerGroupMetadataValue<'a>, versions 0..=0, flexible 0..;

    /// Its epoch.
    epoch: i32, 0..;
    /// A hash over the topics that it subscribes to: another hash has the epoch bumped.
    metadata_hash: i64, 0.., tag 0;
}

message! {
    /// What a member says of itself.
    ConsumerGroupMemberMetadataValue<'a>, versions 0..=0, flexible 0..;

    /// The static member, if it is one.
    instance_id: Option<&'a str>, 0.., nullable 0..;
    /// Its rack, if it told one.
    rack_id: Option<&'a str>, 0.., nullable 0..;
    /// The client id that it joined with.
    client_id: &'a str, 0..;
    /// The address that it joined from.
    client_host: &'a str, 0..;
    /// The topics it subscribes to by name.
    subscribed_topic_names: Vec<&'a str>, 0..;
    /// The pattern it subscribes to, if there is one.
    subscribed_topic_regex: Option<&'a str>, 0.., nullable 0..;
    /// How long it may take to give partitions back.
    rebalance_timeout_ms: i32 = -1, 0..;
    /// The assignor it wants the broker to use.
    server_assignor: Option<&'a str>, 0.., nullable 0..;
    /// What is kept of a member of the classic protocol.
    classic_member_metadata: Option<ClassicMemberMetadata<'a>> = None, 0.., nullable 0.., tag 0;
}

structure! {
    /// A member of the classic protocol in a group of the new one.
    ClassicMemberMetadata<'a> {
        /// How long it may be silent.
        session_timeout_ms: i32, 0..;
        /// The protocols that it can follow.
        supported_protocols: Vec<ClassicProtocol<'a>>, 0..;
    }
}

structure! {
    /// A protocol that a member can follow.
    ClassicProtocol<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// Its subscription.
        metadata: &'a [u8], 0..;
    }
}

message! {
    /// The epoch of a target assignment.
    ConsumerGroupTargetAssignmentMetadataValue<'a>, versions 0..=0, flexible 0..;

    /// The group epoch that it was made for.
    assignment_epoch: i32, 0..;
    /// When it was made, in milliseconds since the Unix epoch.
    assignment_timestamp: i64, 0.., tag 0;
}

message! {
    /// What a member is to own in the end.
    ConsumerGroupTargetAssignmentMemberValue<'a>, versions 0..=0, flexible 0..;

    /// The partitions.
    topic_partitions: Vec<TargetPartitions<'a>>, 0..;
}

structure! {
    /// Partitions of a topic.
    TargetPartitions<'a> {
        /// The topic.
        topic_id: Uuid, 0..;
        /// The partitions.
        partitions: Vec<i32>, 0..;
    }
}

message! {
    /// What a member owns.
    ConsumerGroupCurrentMemberAssignmentValue<'a>, versions 0..=0, flexible 0..;

    /// Its epoch.
    member_epoch: i32, 0..;
    /// The one before, which a member that missed an answer still has.
    previous_member_epoch: i32, 0..;
    /// Where it is on its way to its target.
    state: i8, 0..;
    /// What it was told to own.
    assigned_partitions: Vec<CurrentPartitions<'a>>, 0..;
    /// What it was told to give back, and still holds.
    partitions_pending_revocation: Vec<CurrentPartitions<'a>>, 0..;
}

structure! {
    /// Partitions of a topic.
    CurrentPartitions<'a> {
        /// The topic.
        topic_id: Uuid, 0..;
        /// The partitions.
        partitions: Vec<i32>, 0..;
        /// The epoch in which the member was given each of them (KIP-1251).
        assignment_epochs: Vec<i32>, 0.., tag 0;
    }
}

message! {
    /// What a pattern matches.
    ConsumerGroupRegularExpressionValue<'a>, versions 0..=0, flexible 0..;

    /// The topics.
    topics: Vec<&'a str>, 0..;
    /// The version of the cluster's metadata in which they were found.
    version: i64, 0..;
    /// When they were found.
    timestamp: i64, 0..;
}
