//! What both protocols say in the same words.

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::CommitError;
use crate::TopicPartition;

/// Names a call; never used twice, so that answers which nobody waits for any more are known.
pub type CallId = u64;

/// Names something that the driver or the user is asked for, and what comes back for it.
pub type Ticket = u64;

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any broker: the n-th of those that are known, in some order, so that each attempt asks another (seed S115).
    Any {
        /// Which attempt it is.
        attempt: u32,
    },
    /// The coordinator.
    Coordinator {
        /// Its node id.
        node_id: i32,
    },
}

/// Which partitions a snapshot is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All that are owned.
    All,
    /// These.
    Only(BTreeSet<TopicPartition>),
}

/// What is told to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallbackKind {
    /// Partitions were gained; nothing of them is handed out before the callback ends (seed S025).
    Assigned,
    /// Partitions are to be given up; offsets may still be committed in the callback.
    Revoked,
    /// Partitions were lost already; nothing of them can be committed any more.
    Lost,
}

/// Where a group has read a partition to, as it is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitOffset {
    /// The offset of the next record to read.
    pub offset: i64,
    /// The leader epoch of the record before it, -1 unknown.
    pub leader_epoch: i32,
    /// What the user keeps with it.
    pub metadata: String,
}

/// What is committed of a partition; `None` where nothing is.
pub type Committed = Option<CommitOffset>;

/// What became of each partition.
pub type PartitionCodes = BTreeMap<TopicPartition, ErrorCode>;

/// What metadata says of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its id; zero where the broker tells none.
    pub id: Uuid,
    /// How many partitions it has.
    pub partitions: usize,
}

/// What to commit.
pub(crate) type Offsets = BTreeMap<TopicPartition, CommitOffset>;

/// What became of each partition, with what was to be committed.
pub(crate) type Outcomes = BTreeMap<TopicPartition, (CommitOffset, Result<(), CommitError>)>;
