//! What a member asks brokers, and what comes back; bytes are the business of `wire`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::TopicPartition;
use crate::group::{CommitOffset, Committed, Lane, PartitionCodes, TopicIds};

/// Partitions as the protocol names them: by the ids of their topics.
pub type Partitions = BTreeSet<(Uuid, i32)>;

/// A heartbeat. Only what changed is in it, but for the first and those after one that failed, which say everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatCall {
    /// The group.
    pub group_id: String,
    /// The member.
    pub member_id: String,
    /// Its epoch: 0 joins, -1 leaves, -2 leaves for a while.
    pub epoch: i32,
    /// Static id; always there if the member has one.
    pub instance_id: Option<String>,
    /// Its rack.
    pub rack: Option<String>,
    /// How long it may take to give partitions back.
    pub rebalance_timeout: Option<Duration>,
    /// Topics subscribed to by name.
    pub topics: Option<BTreeSet<Arc<str>>>,
    /// The pattern subscribed to; empty to end that.
    pub regex: Option<String>,
    /// The assignor.
    pub assignor: Option<String>,
    /// What it owns. `None` never acknowledges anything.
    pub owned: Option<Partitions>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Asks any broker who coordinates the group.
    FindCoordinator {
        /// The group.
        group_id: String,
    },
    /// Joins, stays, acknowledges, leaves.
    Heartbeat(HeartbeatCall),
    /// Commits.
    Commit {
        /// The group.
        group_id: String,
        /// The member.
        member_id: String,
        /// Static id.
        instance_id: Option<String>,
        /// Its epoch.
        epoch: i32,
        /// What to commit.
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        /// The ids of its topics, as far as the broker takes them: offsets of a topic that is no more are never taken for those
        /// of one that was made anew under its name (franz-go#1426).
        topic_ids: TopicIds,
    },
    /// Looks up what is committed. Offsets that an open transaction may still change are not wanted (KIP-447).
    FetchOffsets {
        /// The group.
        group_id: String,
        /// The member.
        member_id: String,
        /// Its epoch.
        epoch: i32,
        /// The partitions.
        partitions: Vec<TopicPartition>,
        /// The ids of their topics.
        topic_ids: TopicIds,
    },
}

impl Call {
    /// The connection that it takes.
    pub fn lane(&self) -> Lane {
        match self {
            Self::FindCoordinator { .. } => Lane::Any,
            Self::Heartbeat(_) => Lane::Heartbeat,
            Self::Commit { .. } | Self::FetchOffsets { .. } => Lane::Offsets,
        }
    }

    /// Name of the API.
    pub fn api(&self) -> &'static str {
        match self {
            Self::FindCoordinator { .. } => "FindCoordinator",
            Self::Heartbeat(_) => "ConsumerGroupHeartbeat",
            Self::Commit { .. } => "OffsetCommit",
            Self::FetchOffsets { .. } => "OffsetFetch",
        }
    }
}

/// An answer; its error code is [`ErrorCode::None`] where all is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The coordinator.
    FindCoordinator {
        /// Error of the group.
        code: ErrorCode,
        /// Its node id.
        node_id: i32,
        /// Its advertised host.
        host: String,
        /// Its advertised port.
        port: i32,
    },
    /// What the coordinator wants of the member.
    Heartbeat {
        /// Error.
        code: ErrorCode,
        /// The broker's own words about it.
        message: String,
        /// The member's epoch.
        epoch: i32,
        /// How long to wait before the next heartbeat.
        interval: Duration,
        /// What the member is to own; `None` where that has not changed.
        assignment: Option<Partitions>,
    },
    /// What became of each partition. One that the answer does not name is not in it.
    Commit {
        /// By partition.
        codes: PartitionCodes,
    },
    /// What is committed.
    FetchOffsets {
        /// Error of the group.
        code: ErrorCode,
        /// By partition; one that the answer does not name is not in it.
        offsets: BTreeMap<TopicPartition, Result<Committed, ErrorCode>>,
    },
}
