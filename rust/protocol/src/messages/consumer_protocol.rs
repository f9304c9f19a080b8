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

message! {
    /// What a leader whose assignor leaves things for later tells every member with the assignment, and what a member that joins tells
    /// the next leader: no other client has it, so that it is read strictly. Times are what is left of them, since no two machines'
    /// clocks agree.
    ScheduleUserData<'a>, versions 0..=0;

    /// Until the group's first partitions are assigned, in milliseconds; -1: they are.
    start_ms: i32 = -1, 0..;
    /// Until partitions may move again, in milliseconds; -1: now.
    round_ms: i32 = -1, 0..;
    /// Whether partitions wait for that.
    unbalanced: bool, 0..;
    /// How many members there were.
    members: i32, 0..;
    /// The topics that were assigned, as far as they were there.
    topics: Vec<TopicSize<'a>>, 0..;
    /// Partitions without an owner, since they are to be another's and had to be given up first.
    moving: Vec<TopicPartition<'a>>, 0..;
    /// Partitions without an owner, since their owner may come back.
    losses: Vec<Loss<'a>>, 0..;
    /// Members that came while nobody was waited for: each makes up for one that is lost.
    newcomers: Vec<Newcomers<'a>>, 0..;
    /// Who the members were, as far as that is told: their static ids, or the ids of their membership.
    names: Vec<&'a str>, 0..;
}

message! {
    /// What a member of such an assignor tells the leader.
    ScheduleSubscription<'a>, versions 0..=0;

    /// The generation of its last assignment, if it is in the group ever since; -1: it is new.
    generation: i32 = -1, 0..;
    /// What it was told with that: [`ScheduleUserData`] with its version, as of now.
    schedule: Option<&'a [u8]> = None, 0.., nullable 0..;
    /// Whether its user wants a rebalance now, whatever is waited for.
    ends_waits: bool, 0..;
}

structure! {
    /// A topic and how many partitions it had.
    TopicSize<'a> {
        /// The topic's name.
        topic: &'a str, 0..;
        /// The number of its partitions.
        partitions: i32, 0..;
    }
}

structure! {
    /// What members left behind that were lost in one rebalance.
    Loss<'a> {
        /// Until it is given away, in milliseconds.
        remaining_ms: i32, 0..;
        /// How many of these members did not come back.
        members: i32, 0..;
        /// What they had.
        partitions: Vec<TopicPartition<'a>>, 0..;
        /// Who they are, as far as that is known.
        names: Vec<&'a str>, 0..;
    }
}

structure! {
    /// Members that came in one rebalance while nobody was waited for.
    Newcomers<'a> {
        /// For how long a loss is not waited for, in milliseconds.
        remaining_ms: i32, 0..;
        /// How many of them make up for nobody yet.
        members: i32, 0..;
    }
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
        write(self, version)
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
        write(self, version)
    }
}

impl<'a> ScheduleUserData<'a> {
    /// Reads one behind its version.
    ///
    /// # Errors
    /// Bytes that are none, and a version that is not known.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        read_strictly(bytes)
    }

    /// Writes it behind its version.
    ///
    /// # Errors
    /// What cannot be encoded.
    pub fn write(&self) -> Result<Vec<u8>, WireError> {
        write(self, 0)
    }
}

impl<'a> ScheduleSubscription<'a> {
    /// Reads one behind its version.
    ///
    /// # Errors
    /// Bytes that are none, and a version that is not known.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        read_strictly(bytes)
    }

    /// Writes it behind its version.
    ///
    /// # Errors
    /// What cannot be encoded.
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

/// Another version may mean anything, and so may what is left over.
fn read_strictly<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<M, WireError> {
    let mut reader = Reader::new(bytes);
    let version = reader.i16()?;
    let message = M::decode(&mut reader, version)?;
    reader.finish()?;
    Ok(message)
}
