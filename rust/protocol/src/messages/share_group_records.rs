//! The records of share groups (KIP-932): those that a group coordinator writes to `__consumer_offsets`, whose keys have
//! versions 10-15, and the snapshots that a share coordinator writes to `__share_group_state`.
//!
//! A record's key and value each begin with their version as an `int16`. The key's version is the kind of record. Keys
//! are not flexible, values are, and have version 0.

use crate::types::Uuid;
use crate::wire::{message, structure};

message! {
    /// The key of a group (version 11), of the epoch of its target assignment (12), and of the partitions whose state
    /// exists (15).
    ShareGroupKey<'a>, versions 11..=15;

    group_id: &'a str, 0..;
}

message! {
    /// The key of a member's subscription (version 10), of its target assignment (13), and of its current assignment
    /// (14).
    ShareGroupMemberKey<'a>, versions 10..=14;

    group_id: &'a str, 0..;
    member_id: &'a str, 0..;
}

message! {
    /// A member's metadata and subscription.
    ShareGroupMemberMetadataValue<'a>, versions 0..=0, flexible 0..;

    /// The member's rack, if any.
    rack_id: Option<&'a str>, 0.., nullable 0..;
    /// The client id that it joined with.
    client_id: &'a str, 0..;
    /// The address that it joined from.
    client_host: &'a str, 0..;
    /// The topics to which it subscribes.
    subscribed_topic_names: Vec<&'a str>, 0..;
}

message! {
    /// A group.
    ShareGroupMetadataValue<'a>, versions 0..=0, flexible 0..;

    epoch: i32, 0..;
    /// A hash over the metadata of the subscribed topics. If it changes, the coordinator raises the group epoch.
    metadata_hash: i64, 0..;
}

message! {
    /// The epoch of a target assignment.
    ShareGroupTargetAssignmentMetadataValue<'a>, versions 0..=0, flexible 0..;

    /// The group epoch for which the target assignment was computed.
    assignment_epoch: i32, 0..;
    /// The time at which the target assignment was computed, in milliseconds since the epoch.
    assignment_timestamp: i64, 0.., tag 0, ignorable;
}

message! {
    /// A member's target assignment.
    ShareGroupTargetAssignmentMemberValue<'a>, versions 0..=0, flexible 0..;

    topic_partitions: Vec<SharePartitions<'a>>, 0..;
}

message! {
    /// A member's current assignment.
    ShareGroupCurrentMemberAssignmentValue<'a>, versions 0..=0, flexible 0..;

    member_epoch: i32, 0..;
    /// The member epoch before that. A member that missed a response still sends it.
    previous_member_epoch: i32, 0..;
    /// Kafka's number of the member's state, of which there is one.
    state: i8, 0..;
    assigned_partitions: Vec<SharePartitions<'a>>, 0..;
}

structure! {
    /// Partitions of a topic.
    SharePartitions<'a> {
        topic_id: Uuid, 0..;
        partitions: Vec<i32>, 0..;
    }
}

message! {
    /// The partitions of a group whose state exists, or is being made or deleted.
    ShareGroupStatePartitionMetadataValue<'a>, versions 0..=0, flexible 0..;

    initializing_topics: Vec<StatePartitions<'a>>, 0..;
    initialized_topics: Vec<StatePartitions<'a>>, 0..;
    deleting_topics: Vec<StateTopic<'a>>, 0..;
}

structure! {
    /// Partitions of a topic with state.
    StatePartitions<'a> {
        topic_id: Uuid, 0..;
        topic_name: &'a str, 0..;
        partitions: Vec<i32>, 0..;
    }
}

structure! {
    /// A topic with state.
    StateTopic<'a> {
        topic_id: Uuid, 0..;
        topic_name: &'a str, 0..;
    }
}

message! {
    /// The key of a share partition's snapshot.
    ShareSnapshotKey<'a>, versions 0..=0;

    group_id: &'a str, 0..;
    topic_id: Uuid, 0..;
    partition: i32, 0..;
}

message! {
    /// The state of a share partition.
    ShareSnapshotValue<'a>, versions 0..=0, flexible 0..;

    /// The number of snapshots of the share partition before.
    snapshot_epoch: i32, 0..;
    /// The epoch of the state, which grows when the state is set anew.
    state_epoch: i32, 0..;
    /// The epoch of the partition's leader that wrote it.
    leader_epoch: i32, 0..;
    /// The first offset that is not done with; -1 before the first fetch.
    start_offset: i64, 0..;
    /// The number of offsets behind the start offset that are done with; -1 if not known.
    delivery_complete_count: i32 = -1, 0.., tag 0;
    /// The time of the first snapshot in milliseconds since the epoch.
    create_timestamp: i64, 0..;
    /// The time of this snapshot in milliseconds since the epoch.
    write_timestamp: i64, 0..;
    state_batches: Vec<StateBatch<'a>>, 0..;
}

structure! {
    /// Consecutive offsets with the same state.
    StateBatch<'a> {
        first_offset: i64, 0..;
        /// The last offset, inclusive.
        last_offset: i64, 0..;
        /// The state: 0 available, 2 acknowledged, 4 archived.
        delivery_state: i8, 0..;
        delivery_count: i16, 0..;
    }
}
