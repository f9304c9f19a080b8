//! The records that a group coordinator writes to `__consumer_offsets` about offsets and classic groups.
//!
//! A record's key and value each begin with their version as an `int16`. The key's version is the kind of record: 0 and
//! 1 an offset, 2 a classic group.

use crate::types::Uuid;
use crate::wire::{message, structure};

message! {
    /// The key of an offset: group, topic and partition.
    OffsetCommitKey<'a>, versions 0..=1;

    /// The group id.
    group: &'a str, 0..;
    topic: &'a str, 0..;
    partition: i32, 0..;
}

message! {
    /// A committed offset. Version 4 is flexible.
    OffsetCommitValue<'a>, versions 0..=4, flexible 4..;

    /// The offset of the next record to read.
    offset: i64, 0..;
    /// The leader epoch of the record before that offset, or -1.
    leader_epoch: i32 = -1, 3.., ignorable;
    /// The metadata that the client stored with the offset.
    metadata: &'a str, 0..;
    /// The time at which the offset was committed, in milliseconds since the epoch.
    commit_timestamp: i64, 0..;
    /// The time at which the offset expires, in milliseconds since the epoch; -1 for the broker's own retention.
    expire_timestamp: i64 = -1, 1..=1, ignorable;
    /// The topic's id; zero if not known.
    topic_id: Uuid, 4.., tag 0, ignorable;
}

message! {
    /// The key of a classic group.
    GroupMetadataKey<'a>, versions 2..=2;

    /// The group id.
    group: &'a str, 2..;
}

message! {
    /// A generation of a classic group. Version 4 is flexible.
    GroupMetadataValue<'a>, versions 0..=4, flexible 4..;

    /// The protocol type; empty for a group that only stores offsets.
    protocol_type: &'a str, 0..;
    generation: i32, 0..;
    /// The protocol that the coordinator selected.
    protocol: Option<&'a str>, 0.., nullable 0..;
    /// The member id of the leader, which computes the assignment.
    leader: Option<&'a str>, 0.., nullable 0..;
    /// The time at which the group entered its current state, in milliseconds since the epoch; -1 if not known.
    current_state_timestamp: i64 = -1, 2.., ignorable;
    members: Vec<MemberMetadata<'a>>, 0..;
}

structure! {
    /// A member of a classic group.
    MemberMetadata<'a> {
        member_id: &'a str, 0..;
        /// The group instance id of a static member; `None` for a dynamic one.
        group_instance_id: Option<&'a str> = None, 3.., nullable 3.., ignorable;
        /// The client id that it joined with.
        client_id: &'a str, 0..;
        /// The address that it joined from.
        client_host: &'a str, 0..;
        /// The rebalance timeout in milliseconds.
        rebalance_timeout: i32 = -1, 1.., ignorable;
        /// The session timeout in milliseconds.
        session_timeout: i32, 0..;
        /// The member's metadata for the protocol.
        subscription: &'a [u8], 0..;
        /// The member's assignment.
        assignment: &'a [u8], 0..;
    }
}
