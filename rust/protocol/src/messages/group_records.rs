//! What a group coordinator writes into `__consumer_offsets`: keys and values of its records.
//!
//! A record's key and value each begin with their version as an `int16`; the key's version says what kind of record it is:
//! 0 and 1 an offset, 2 a classic group.

use crate::types::Uuid;
use crate::wire::{message, structure};

message! {
    /// Whose offset it is.
    OffsetCommitKey<'a>, versions 0..=1;

    /// The group.
    group: &'a str, 0..;
    /// The topic.
    topic: &'a str, 0..;
    /// The partition.
    partition: i32, 0..;
}

message! {
    /// An offset. 4 is flexible.
    OffsetCommitValue<'a>, versions 0..=4, flexible 4..;

    /// The offset of the next record to read.
    offset: i64, 0..;
    /// The leader epoch of the record before it, or -1.
    leader_epoch: i32 = -1, 3.., ignorable;
    /// What the client keeps with it.
    metadata: &'a str, 0..;
    /// When it was committed.
    commit_timestamp: i64, 0..;
    /// When it is dropped, as the client asked; -1 to leave that to the broker.
    expire_timestamp: i64 = -1, 1..=1, ignorable;
    /// The topic's id, or zeros.
    topic_id: Uuid, 4.., tag 0, ignorable;
}

message! {
    /// Which classic group it is.
    GroupMetadataKey<'a>, versions 2..=2;

    /// The group.
    group: &'a str, 2..;
}

message! {
    /// A generation of a classic group. 4 is flexible.
    GroupMetadataValue<'a>, versions 0..=4, flexible 4..;

    /// What kind of group it is; empty for one that only keeps offsets.
    protocol_type: &'a str, 0..;
    /// The generation.
    generation: i32, 0..;
    /// The protocol that was chosen.
    protocol: Option<&'a str>, 0.., nullable 0..;
    /// The member that assigns.
    leader: Option<&'a str>, 0.., nullable 0..;
    /// When the group came into the state it is in.
    current_state_timestamp: i64 = -1, 2.., ignorable;
    /// The members.
    members: Vec<MemberMetadata<'a>>, 0..;
}

structure! {
    /// A member of a classic group.
    MemberMetadata<'a> {
        /// Its id.
        member_id: &'a str, 0..;
        /// The static member, if it is one.
        group_instance_id: Option<&'a str> = None, 3.., nullable 3.., ignorable;
        /// The client id that it joined with.
        client_id: &'a str, 0..;
        /// The address that it joined from.
        client_host: &'a str, 0..;
        /// How long a rebalance waits for it.
        rebalance_timeout: i32 = -1, 1.., ignorable;
        /// How long it may be silent.
        session_timeout: i32, 0..;
        /// Its metadata for the protocol.
        subscription: &'a [u8], 0..;
        /// Its assignment.
        assignment: &'a [u8], 0..;
    }
}
