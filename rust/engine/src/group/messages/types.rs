//! Small types that both protocols use: ids, callback kinds, offsets to commit, results by partition.

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::TopicPartition;
use crate::group::error::CommitError;

/// The id of a call. None is used twice, so a late answer to a cancelled call is recognized.
pub type CallId = u64;

/// The id of a request to the driver or to the user, or of the user. Its answer carries the same ticket.
pub type Ticket = u64;

/// The broker that a request is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any broker: the n-th of the known ones, in some order, so that each attempt asks another (req S115).
    Any {
        /// The number of the attempt, from 0.
        attempt: u32,
    },
    /// The coordinator.
    Coordinator {
        /// The node id.
        node_id: i32,
    },
}

/// The partitions whose finished offsets are collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All owned partitions.
    All,
    /// Only these partitions.
    Only(BTreeSet<TopicPartition>),
}

/// The kinds of the user's rebalance callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallbackKind {
    /// Partitions were assigned. No record of them is handed out before the callback ends (req S025).
    Assigned,
    /// Partitions are revoked. Their offsets may still be committed in the callback.
    Revoked,
    /// Partitions were lost. Their offsets cannot be committed any more.
    Lost,
}

/// An offset to commit for one partition, or a committed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitOffset {
    /// The offset of the next record to read.
    pub offset: i64,
    /// The leader epoch of the record before that offset; -1 if unknown.
    pub leader_epoch: i32,
    /// The user's metadata string.
    pub metadata: String,
}

/// The committed offset of a partition; `None` if there is none.
pub type Committed = Option<CommitOffset>;

/// The error code of each partition.
pub type PartitionCodes = BTreeMap<TopicPartition, ErrorCode>;

/// A topic as metadata describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// The topic id; zero from brokers that do not send topic ids.
    pub id: Uuid,
    /// The number of its partitions.
    pub partitions: usize,
}

/// Offsets to commit, by partition.
pub(crate) type Offsets = BTreeMap<TopicPartition, CommitOffset>;

/// The result of each partition, with the offset that was to be committed.
pub(crate) type Outcomes = BTreeMap<TopicPartition, (CommitOffset, Result<(), CommitError>)>;
