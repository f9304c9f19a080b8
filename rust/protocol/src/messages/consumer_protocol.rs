//! What consumers of the classic protocol say to each other through the coordinator, versions 0-3: their subscriptions in
//! JoinGroup, and their assignments in SyncGroup.
//!
//! 1 adds the partitions that a member owns (KIP-429), 2 its generation (KIP-792), 3 its rack (KIP-881). The version stands before
//! the message. Versions from the future begin as those that are known, and are read as the last of them.

use crate::api::Message;
use crate::error::WireError;
use crate::wire::{Reader, Writer, message, structure};

/// The last version that is known.
pub const LAST_VERSION: i16 = 3;

message! {
    /// What a member subscribes to.
    ConsumerProtocolSubscription<'a>, versions 0..=3;

    /// The topics.
    topics: Vec<&'a str>, 0..;
    /// What its assignor wants the leader to know.
    user_data: Option<&'a [u8]> = None, 0.., nullable 0..;
    /// The partitions that it owns.
    owned_partitions: Vec<TopicPartition<'a>>, 1.., ignorable;
    /// The generation in which it owned them, or -1.
    generation_id: i32 = -1, 2.., ignorable;
    /// Its rack, if it has one.
    rack_id: Option<&'a str> = None, 3.., nullable 3.., ignorable;
}

message! {
    /// What a member is to own.
    ConsumerProtocolAssignment<'a>, versions 0..=3;

    /// The partitions.
    assigned_partitions: Vec<TopicPartition<'a>>, 0..;
    /// What the leader's assignor wants the member to know.
    user_data: Option<&'a [u8]> = None, 0.., nullable 0..;
}

message! {
    /// What a member of Java's sticky assignor wants the leader to know: its user data. It stands there without a version, so one
    /// reads the last and then what came before.
    StickyUserData<'a>, versions 0..=1;

    /// What the member was assigned last.
    previous_assignment: Vec<TopicPartition<'a>>, 0..;
    /// The generation in which that was, or -1.
    generation: i32 = -1, 1.., ignorable;
}

structure! {
    /// Partitions of a topic.
    TopicPartition<'a> {
        /// The topic's name.
        topic: &'a str, 0..;
        /// The partitions.
        partitions: Vec<i32>, 0..;
    }
}

/// The version of a subscription or an assignment, as it is to be read.
///
/// # Errors
/// Bytes that are too short, and a version below 0.
pub fn version(reader: &mut Reader<'_>) -> Result<i16, WireError> {
    let version = reader.i16()?;
    // Let the message itself refuse what is below its first version.
    Ok(version.min(LAST_VERSION))
}

impl<'a> ConsumerProtocolSubscription<'a> {
    /// Reads one behind its version.
    ///
    /// # Errors
    /// Bytes that are none.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let version = version(&mut reader)?;
        Self::decode(&mut reader, version)
    }

    /// Writes it behind its version.
    ///
    /// # Errors
    /// What cannot be encoded.
    pub fn write(&self, version: i16) -> Result<Vec<u8>, WireError> {
        let mut writer = Writer::new();
        writer.i16(version);
        self.encode(&mut writer, version)?;
        Ok(writer.into_bytes())
    }
}

impl<'a> ConsumerProtocolAssignment<'a> {
    /// Reads one behind its version.
    ///
    /// # Errors
    /// Bytes that are none.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let version = version(&mut reader)?;
        Self::decode(&mut reader, version)
    }

    /// Writes it behind its version.
    ///
    /// # Errors
    /// What cannot be encoded.
    pub fn write(&self, version: i16) -> Result<Vec<u8>, WireError> {
        let mut writer = Writer::new();
        writer.i16(version);
        self.encode(&mut writer, version)?;
        Ok(writer.into_bytes())
    }
}
