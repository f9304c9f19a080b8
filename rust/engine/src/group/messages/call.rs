//! The requests of a member and their answers. Their encoding is in `wire`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::topic_ids::TopicIds;
use super::types::{CommitOffset, Committed, PartitionCodes};
use crate::TopicPartition;
use crate::group::state::GroupProtocol;
use crate::named::named;

/// Partitions as KIP-848 names them: by the ids of their topics.
pub type Partitions = BTreeSet<(Uuid, i32)>;

/// The connection that a request takes. A broker answers the requests of one connection in order, so a JoinGroup that
/// it holds, or a slow commit, would delay a heartbeat sent after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectionPurpose {
    /// FindCoordinator: any broker's ordinary connection.
    Any,
    /// JoinGroup and SyncGroup.
    JoinGroup,
    /// Heartbeat, ConsumerGroupHeartbeat and LeaveGroup.
    Heartbeat,
    /// OffsetCommit and OffsetFetch.
    Offsets,
}

named! {
    /// The kind of a request, which is the same under both protocols. It has the name of the API under the classic one.
    pub enum CallKind {
        /// FindCoordinator.
        FindCoordinator,
        /// JoinGroup. Classic only.
        JoinGroup,
        /// SyncGroup. Classic only.
        SyncGroup,
        /// Heartbeat, or ConsumerGroupHeartbeat under KIP-848.
        Heartbeat,
        /// LeaveGroup, or under KIP-848 the ConsumerGroupHeartbeat that leaves.
        LeaveGroup,
        /// OffsetCommit.
        OffsetCommit,
        /// OffsetFetch.
        OffsetFetch,
    }
}

/// A ConsumerGroupHeartbeat. It carries only the fields that changed; the first one, and the one after a failure, carry
/// all. A ShareGroupHeartbeat has no more of them than group, member, epoch, rack and topics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatCall {
    /// The group.
    pub group_id: String,
    /// The member.
    pub member_id: String,
    /// The member epoch: 0 joins, -1 leaves, -2 leaves temporarily (static members).
    pub epoch: i32,
    /// The static id (`group.instance.id`); a static member sends it in every request.
    pub instance_id: Option<String>,
    /// `client.rack`.
    pub rack: Option<String>,
    /// The rebalance timeout: how long the member may take to revoke partitions.
    pub rebalance_timeout: Option<Duration>,
    /// The topics subscribed to by name.
    pub topics: Option<BTreeSet<Arc<str>>>,
    /// The pattern subscribed to; an empty string ends a subscription by pattern.
    pub regex: Option<String>,
    /// `group.remote.assignor`.
    pub assignor: Option<String>,
    /// The owned partitions. A request with `None` never acknowledges an assignment.
    pub owned: Option<Partitions>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Asks any broker for the coordinator of the group.
    FindCoordinator {
        /// The group.
        group_id: String,
    },
    /// Joins the group. Classic only.
    JoinGroup {
        /// The group.
        group_id: String,
        /// The member id; empty before the coordinator has issued one.
        member_id: String,
        /// Static id.
        instance_id: Option<String>,
        /// Session timeout.
        session_timeout: Duration,
        /// Rebalance timeout: the broker may hold the answer for this long.
        rebalance_timeout: Duration,
        /// Assignors with the subscription metadata of each, which the leader gets.
        protocols: Vec<(String, Vec<u8>)>,
        /// The reason (KIP-800).
        reason: String,
    },
    /// Asks for the member's assignment; the leader sends the assignments of all members. Classic only.
    SyncGroup {
        /// The group.
        group_id: String,
        /// The member.
        member_id: String,
        /// Static id.
        instance_id: Option<String>,
        /// The generation of the JoinGroup.
        generation: i32,
        /// The assignor that was chosen.
        protocol: String,
        /// The broker may hold the answer for this long, until the leader has sent the assignment. Zero for the leader.
        leader_timeout: Duration,
        /// Assignments by member id; empty from followers.
        assignments: Vec<(String, Vec<u8>)>,
    },
    /// Keeps the session alive. Classic only.
    Heartbeat {
        /// The group.
        group_id: String,
        /// The member.
        member_id: String,
        /// Static id.
        instance_id: Option<String>,
        /// The generation.
        generation: i32,
    },
    /// Leaves the group. Classic only.
    LeaveGroup {
        /// The group.
        group_id: String,
        /// The member.
        member_id: String,
        /// Static id.
        instance_id: Option<String>,
        /// The reason (KIP-800).
        reason: String,
    },
    /// Joins, keeps the session alive, acknowledges, or leaves. KIP-848 only.
    ConsumerGroupHeartbeat(HeartbeatCall),
    /// Joins, keeps the session alive, or leaves. Share groups only.
    ShareGroupHeartbeat(HeartbeatCall),
    /// Commits offsets.
    OffsetCommit {
        /// The protocol of the group: it decides which versions can carry the request.
        protocol: GroupProtocol,
        /// The group.
        group_id: String,
        /// The member.
        member_id: String,
        /// Static id.
        instance_id: Option<String>,
        /// The generation, or its member epoch.
        generation_or_epoch: i32,
        /// The offsets.
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        /// The ids of their topics, as far as they are known. With them, the coordinator never takes offsets of a
        /// deleted topic for offsets of one that was recreated under its name (franz-go#1426).
        topic_ids: TopicIds,
    },
    /// Asks for committed offsets, excluding those that an open transaction may still change (KIP-447).
    OffsetFetch {
        /// The group.
        group_id: String,
        /// The member id and its epoch; KIP-848 only.
        member: Option<(String, i32)>,
        /// The partitions.
        partitions: Vec<TopicPartition>,
        /// The ids of their topics, as far as they are known.
        topic_ids: TopicIds,
    },
}

impl Call {
    /// The connection that the request takes.
    pub fn purpose(&self) -> ConnectionPurpose {
        match self {
            Self::FindCoordinator { .. } => ConnectionPurpose::Any,
            Self::JoinGroup { .. } | Self::SyncGroup { .. } => ConnectionPurpose::JoinGroup,
            Self::Heartbeat { .. }
            | Self::ConsumerGroupHeartbeat(_)
            | Self::ShareGroupHeartbeat(_)
            | Self::LeaveGroup { .. } => ConnectionPurpose::Heartbeat,
            Self::OffsetCommit { .. } | Self::OffsetFetch { .. } => ConnectionPurpose::Offsets,
        }
    }

    /// The name of the API.
    pub fn api(&self) -> &'static str {
        self.api_key().name()
    }

    /// The time for which this request may wait for its answer longer than any other.
    pub fn extra_timeout(&self) -> Duration {
        match self {
            // As in Java: the broker answers when the rebalance timeout ends, plus 5 s for the answer to arrive.
            Self::JoinGroup { rebalance_timeout, .. } => *rebalance_timeout + Duration::from_secs(5),
            Self::SyncGroup { leader_timeout, .. } => *leader_timeout,
            _ => Duration::ZERO,
        }
    }
}

/// The answer to a call, or why there is none.
pub(crate) type GroupOutcome = Result<GroupResponse, String>;

/// A decoded answer; its error code is [`ErrorCode::None`] if the request succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupResponse {
    /// The coordinator.
    FindCoordinator {
        /// Error of the group.
        code: ErrorCode,
        /// The node id.
        node_id: i32,
        /// The advertised host.
        host: String,
        /// The advertised port.
        port: i32,
    },
    /// The new generation.
    JoinGroup {
        /// Error.
        code: ErrorCode,
        /// Generation, -1 with an error.
        generation: i32,
        /// The member id; with MEMBER_ID_REQUIRED, the id to join with.
        member_id: String,
        /// The leader's id.
        leader: String,
        /// The type of the group, if the broker sends it (KIP-559).
        protocol_type: Option<String>,
        /// The assignor chosen.
        protocol: Option<String>,
        /// Set if the leader must not send an assignment (KIP-814).
        skip_assignment: bool,
        /// The id, static id and metadata of each member, for the leader.
        members: Vec<(String, Option<String>, Vec<u8>)>,
    },
    /// The assignment.
    SyncGroup {
        /// Error.
        code: ErrorCode,
        /// The type of the group, if the broker sends it (KIP-559).
        protocol_type: Option<String>,
        /// The assignor, if the broker sends it.
        protocol: Option<String>,
        /// The assignment.
        assignment: Vec<u8>,
    },
    /// The answer to a Heartbeat: the session continues, or the group rebalances.
    Heartbeat {
        /// Error.
        code: ErrorCode,
    },
    /// The answer to LeaveGroup.
    LeaveGroup {
        /// Error of the request, or of the member.
        code: ErrorCode,
    },
    /// The member's epoch and its target assignment; also of a ShareGroupHeartbeat.
    ConsumerGroupHeartbeat {
        /// Error.
        code: ErrorCode,
        /// The broker's error message.
        message: String,
        /// The member epoch.
        epoch: i32,
        /// The time to wait before the next heartbeat.
        interval: Duration,
        /// The target assignment; `None` if it has not changed.
        assignment: Option<Partitions>,
    },
    /// The result of each partition. Partitions that the answer leaves out are missing here too.
    OffsetCommit {
        /// By partition.
        codes: PartitionCodes,
    },
    /// Committed offsets.
    OffsetFetch {
        /// Error of the group.
        code: ErrorCode,
        /// By partition; partitions that the answer leaves out are missing here too.
        offsets: BTreeMap<TopicPartition, Result<Committed, ErrorCode>>,
    },
}
