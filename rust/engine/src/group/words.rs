//! What both protocols say in the same words.

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

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

/// Connections to the coordinator: brokers answer the requests of one connection one after the other, so a JoinGroup that is
/// held, or a slow commit, would keep back a heartbeat behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// FindCoordinator: any broker's ordinary connection.
    Any,
    /// JoinGroup and SyncGroup.
    Join,
    /// Heartbeat and LeaveGroup.
    Heartbeat,
    /// OffsetCommit and OffsetFetch.
    Offsets,
}

/// Why a call got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// Not connected, disconnected, timed out, unreadable: it may do better elsewhere or later. With what happened.
    Lost(String),
    /// It can never be made, such as a version that the broker lacks. With the whole sentence.
    Never(String),
}

/// Why an offset was not committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The partition is not owned any more, or never was. Nothing was sent.
    #[error("it is not assigned to this consumer, or not any more: another member may own it")]
    NotOwned,
    /// The member is out of the group; it joins again. Another may own the partition already.
    #[error("the member is not in the group any more ({}): its partitions may have other owners", code.name())]
    MemberGone {
        /// What the coordinator said.
        code: ErrorCode,
    },
    /// The broker refused this partition's offset.
    #[error("the broker answered {} ({})", code.name(), code.message())]
    Refused {
        /// Its answer.
        code: ErrorCode,
    },
    /// No answer that counts came in time.
    #[error("it was not committed in time; the last attempt: {last}")]
    TimedOut {
        /// What the last attempt failed of.
        last: String,
    },
    /// The consumer left the group, or was closed, before.
    #[error("the consumer left the group before it was committed")]
    Closed,
}

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
