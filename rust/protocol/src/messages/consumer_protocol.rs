//! The metadata that consumers of the classic protocol exchange through the coordinator, versions 0-3: their
//! subscriptions in JoinGroup, and their assignments in SyncGroup. Also the user data of Java's sticky assignor and of
//! this project's own assignor, which defers moves of partitions.
//!
//! Version 1 adds the partitions that a member owns (KIP-429), 2 its generation (KIP-792), 3 its rack (KIP-881). The
//! version stands before the message. A later version begins with the same fields, and is decoded as the last known
//! version.

use crate::api::Message;
use crate::error::WireError;
use crate::wire::{Reader, Writer, message, structure};

/// The last known version of subscriptions and assignments.
pub const LAST_VERSION: i16 = 3;

message! {
    /// A member's subscription, sent in JoinGroup.
    ConsumerProtocolSubscription<'a>, versions 0..=3;

    topics: Vec<&'a str>, 0..;
    /// Data of the member's assignor for the leader.
    user_data: Option<&'a [u8]> = None, 0.., nullable 0..;
    /// The partitions that it owns.
    owned_partitions: Vec<TopicPartition<'a>>, 1.., ignorable;
    /// The generation in which it owned them, or -1.
    generation_id: i32 = -1, 2.., ignorable;
    /// The member's rack, if it has one.
    rack_id: Option<&'a str> = None, 3.., nullable 3.., ignorable;
}

message! {
    /// A member's assignment, received in SyncGroup.
    ConsumerProtocolAssignment<'a>, versions 0..=3;

    assigned_partitions: Vec<TopicPartition<'a>>, 0..;
    /// Data of the leader's assignor for the member.
    user_data: Option<&'a [u8]> = None, 0.., nullable 0..;
}

message! {
    /// The user data of a member with Java's sticky assignor: its last assignment. It has no version in front, so a
    /// reader tries the last version first, and then the one before.
    StickyUserData<'a>, versions 0..=1;

    /// The member's last assignment.
    previous_assignment: Vec<TopicPartition<'a>>, 0..;
    /// The generation of that assignment, or -1.
    generation: i32 = -1, 1.., ignorable;
}

message! {
    /// The state of this project's assignor that defers moves of partitions. The leader sends it to every member with
    /// the assignment; a member that rejoins sends it to the next leader. No other client has this format, so it is
    /// decoded strictly. Times are sent as the time left, since the clocks of two machines differ.
    ScheduleUserData<'a>, versions 0..=0;

    /// The time until the group's first partitions are assigned, in milliseconds; -1 if they are assigned.
    start_ms: i32 = -1, 0..;
    /// The time until partitions may move again, in milliseconds; -1 if they may move now.
    round_ms: i32 = -1, 0..;
    /// True if moves of partitions are deferred until then.
    unbalanced: bool, 0..;
    /// The number of members at the assignment.
    members: i32, 0..;
    /// The assigned topics that existed, with their numbers of partitions.
    topics: Vec<TopicSize<'a>>, 0..;
    /// Partitions without an owner, because they move to another member and had to be revoked first.
    moving: Vec<TopicPartition<'a>>, 0..;
    /// Partitions without an owner, because their last owner may return.
    losses: Vec<Loss<'a>>, 0..;
    /// Members that joined while no lost member was awaited. Each of them may replace a member that is lost later.
    newcomers: Vec<Newcomers<'a>>, 0..;
    /// The members' group instance ids, or the member ids of dynamic members; empty if the list would be too long.
    names: Vec<&'a str>, 0..;
}

message! {
    /// The user data in the subscription of a member with this assignor.
    ScheduleSubscription<'a>, versions 0..=0;

    /// The generation of the member's last assignment, if it has been in the group since then; -1 for a new member.
    generation: i32 = -1, 0..;
    /// The encoded [`ScheduleUserData`] that came with that assignment, with its times counted down until now.
    schedule: Option<&'a [u8]> = None, 0.., nullable 0..;
    /// True if the user has requested a rebalance now, which ends all waits.
    ends_waits: bool, 0..;
}

structure! {
    /// A topic and its number of partitions.
    TopicSize<'a> {
        topic: &'a str, 0..;
        /// The topic's number of partitions.
        partitions: i32, 0..;
    }
}

structure! {
    /// The partitions of the members that were lost in one rebalance.
    Loss<'a> {
        /// The time until the partitions are assigned to other members, in milliseconds.
        remaining_ms: i32, 0..;
        /// The number of these members that have not returned.
        members: i32, 0..;
        /// The partitions that these members owned.
        partitions: Vec<TopicPartition<'a>>, 0..;
        /// The group instance ids or member ids of these members; empty if not known.
        names: Vec<&'a str>, 0..;
    }
}

structure! {
    /// Members that joined in one rebalance while no lost member was awaited.
    Newcomers<'a> {
        /// The time during which a lost member counts as replaced by one of these, in milliseconds.
        remaining_ms: i32, 0..;
        /// The number of these members that have not replaced a lost one yet.
        members: i32, 0..;
    }
}

structure! {
    /// Partitions of a topic.
    TopicPartition<'a> {
        topic: &'a str, 0..;
        partitions: Vec<i32>, 0..;
    }
}

/// Reads the version of a subscription or an assignment, and returns the version with which to decode it: at most
/// [`LAST_VERSION`].
///
/// # Errors
/// Bytes that are too short.
pub fn version(reader: &mut Reader<'_>) -> Result<i16, WireError> {
    let version = reader.i16()?;
    // A version below 0 passes here, and decoding the message refuses it.
    Ok(version.min(LAST_VERSION))
}

impl<'a> ConsumerProtocolSubscription<'a> {
    /// Decodes the version and the message behind it.
    ///
    /// # Errors
    /// Malformed bytes.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let version = version(&mut reader)?;
        Self::decode(&mut reader, version)
    }

    /// Encodes the version and the message.
    ///
    /// # Errors
    /// A value that is too long, or that the version cannot carry.
    pub fn write(&self, version: i16) -> Result<Vec<u8>, WireError> {
        write(self, version)
    }
}

impl<'a> ConsumerProtocolAssignment<'a> {
    /// Decodes the version and the message behind it.
    ///
    /// # Errors
    /// Malformed bytes.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let version = version(&mut reader)?;
        Self::decode(&mut reader, version)
    }

    /// Encodes the version and the message.
    ///
    /// # Errors
    /// A value that is too long, or that the version cannot carry.
    pub fn write(&self, version: i16) -> Result<Vec<u8>, WireError> {
        write(self, version)
    }
}

impl<'a> ScheduleUserData<'a> {
    /// Decodes the version and the message behind it.
    ///
    /// # Errors
    /// Malformed bytes, an unknown version, and bytes left over.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        read_strictly(bytes)
    }

    /// Encodes the version and the message.
    ///
    /// # Errors
    /// A value that is too long, or that the version cannot carry.
    pub fn write(&self) -> Result<Vec<u8>, WireError> {
        write(self, 0)
    }
}

impl<'a> ScheduleSubscription<'a> {
    /// Decodes the version and the message behind it.
    ///
    /// # Errors
    /// Malformed bytes, an unknown version, and bytes left over.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        read_strictly(bytes)
    }

    /// Encodes the version and the message.
    ///
    /// # Errors
    /// A value that is too long, or that the version cannot carry.
    pub fn write(&self) -> Result<Vec<u8>, WireError> {
        write(self, 0)
    }
}

fn write<'a>(message: &impl Message<'a>, version: i16) -> Result<Vec<u8>, WireError> {
    let mut writer = Writer::new();
    writer.i16(version);
    message.encode(&mut writer, version)?;
    Ok(writer.into_bytes())
}

/// Decodes a version and the message behind it. Unlike Kafka's own messages, other versions and bytes left over are
/// errors, since nothing is known about their meaning.
fn read_strictly<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<M, WireError> {
    let mut reader = Reader::new(bytes);
    let version = reader.i16()?;
    let message = M::decode(&mut reader, version)?;
    reader.finish()?;
    Ok(message)
}
