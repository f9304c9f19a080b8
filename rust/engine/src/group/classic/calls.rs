//! What a member asks brokers, and what comes back; bytes are the business of `wire`.

use std::collections::BTreeMap;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;

use crate::TopicPartition;
use crate::group::{CommitOffset, Committed, Lane, PartitionCodes, TopicIds};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Asks any broker who coordinates the group.
    FindCoordinator {
        /// The group.
        group_id: String,
    },
    /// Joins.
    Join {
        /// The group.
        group_id: String,
        /// Empty at first.
        member_id: String,
        /// Static id.
        instance_id: Option<String>,
        /// Session timeout.
        session_timeout: Duration,
        /// Rebalance timeout: the broker may hold the answer for so long.
        rebalance_timeout: Duration,
        /// Assignors with what each wants the leader to know.
        protocols: Vec<(String, Vec<u8>)>,
        /// Why (KIP-800).
        reason: String,
    },
    /// Asks for the assignment; the leader brings all.
    Sync {
        /// The group.
        group_id: String,
        /// The member.
        member_id: String,
        /// Static id.
        instance_id: Option<String>,
        /// The generation that the join brought.
        generation: i32,
        /// The assignor that was chosen.
        protocol: String,
        /// The broker may hold the answer for so long, until the leader has brought the assignment.
        rebalance_timeout: Duration,
        /// Assignments by member id; empty from followers.
        assignments: Vec<(String, Vec<u8>)>,
    },
    /// Tells that the member lives.
    Heartbeat {
        /// The group.
        group_id: String,
        /// The member.
        member_id: String,
        /// Static id.
        instance_id: Option<String>,
        /// Its generation.
        generation: i32,
    },
    /// Leaves.
    Leave {
        /// The group.
        group_id: String,
        /// The member.
        member_id: String,
        /// Static id.
        instance_id: Option<String>,
        /// Why (KIP-800).
        reason: String,
    },
    /// Commits.
    Commit {
        /// The group.
        group_id: String,
        /// The member.
        member_id: String,
        /// Static id.
        instance_id: Option<String>,
        /// Its generation.
        generation: i32,
        /// What to commit.
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        /// The ids of the topics whose offsets these are, as far as they are known.
        topic_ids: TopicIds,
    },
    /// Looks up what is committed. Offsets that an open transaction may still change are not wanted (KIP-447).
    FetchOffsets {
        /// The group.
        group_id: String,
        /// The partitions.
        partitions: Vec<TopicPartition>,
        /// The ids of their topics, as far as they are known.
        topic_ids: TopicIds,
    },
}

impl Call {
    /// The connection that it takes.
    pub fn lane(&self) -> Lane {
        match self {
            Self::FindCoordinator { .. } => Lane::Any,
            Self::Join { .. } | Self::Sync { .. } => Lane::Join,
            Self::Heartbeat { .. } | Self::Leave { .. } => Lane::Heartbeat,
            Self::Commit { .. } | Self::FetchOffsets { .. } => Lane::Offsets,
        }
    }

    /// Name of the API.
    pub fn api(&self) -> &'static str {
        match self {
            Self::FindCoordinator { .. } => "FindCoordinator",
            Self::Join { .. } => "JoinGroup",
            Self::Sync { .. } => "SyncGroup",
            Self::Heartbeat { .. } => "Heartbeat",
            Self::Leave { .. } => "LeaveGroup",
            Self::Commit { .. } => "OffsetCommit",
            Self::FetchOffsets { .. } => "OffsetFetch",
        }
    }

    /// How much longer than any other request its answer may take.
    pub fn extra_timeout(&self) -> Duration {
        match self {
            // As Java: the broker itself answers at the end of the rebalance timeout, and the answer takes a moment.
            Self::Join { rebalance_timeout, .. } | Self::Sync { rebalance_timeout, .. } => {
                *rebalance_timeout + Duration::from_secs(5)
            }
            _ => Duration::ZERO,
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
    /// The new generation.
    Join {
        /// Error.
        code: ErrorCode,
        /// Generation, -1 with an error.
        generation: i32,
        /// The member's id: with MEMBER_ID_REQUIRED, the one to join with.
        member_id: String,
        /// The leader's id.
        leader: String,
        /// The kind of group, where the broker says it (KIP-559).
        protocol_type: Option<String>,
        /// The assignor chosen.
        protocol: Option<String>,
        /// Whether the leader is to bring no assignment (KIP-814).
        skip_assignment: bool,
        /// For the leader: id, static id and metadata of each member.
        members: Vec<(String, Option<String>, Vec<u8>)>,
    },
    /// The assignment.
    Sync {
        /// Error.
        code: ErrorCode,
        /// The kind of group, where the broker says it (KIP-559).
        protocol_type: Option<String>,
        /// The assignor, where the broker says it.
        protocol: Option<String>,
        /// The assignment.
        assignment: Vec<u8>,
    },
    /// Whether the member is to join again.
    Heartbeat {
        /// Error.
        code: ErrorCode,
    },
    /// What became of leaving.
    Leave {
        /// Error of the request or of the member.
        code: ErrorCode,
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
