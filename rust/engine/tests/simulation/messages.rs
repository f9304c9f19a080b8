//! What the simulation asks of calls and answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::group::{Call, CommitOffset, Committed, GroupResponse, HeartbeatCall, PartitionCodes};
use monedula_protocol::error_code::ErrorCode;

/// What is found of each partition.
pub(crate) type Found = BTreeMap<TopicPartition, Result<Committed, ErrorCode>>;

pub(crate) trait Asked {
    /// Of a commit, its generation or epoch, and what is committed.
    fn commit(&self) -> Option<(i32, &BTreeMap<TopicPartition, CommitOffset>)>;
    /// Of a lookup of what is committed, the partitions.
    fn looks_up(&self) -> Option<&[TopicPartition]>;
    fn heartbeat(&self) -> Option<&HeartbeatCall>;
    fn heartbeat_mut(&mut self) -> Option<&mut HeartbeatCall>;
    /// The member id that it names, and the static id.
    fn identity(&self) -> Option<(&str, Option<&str>)>;
    /// The static id with which it joins.
    fn joins_as(&self) -> Option<&str>;
    /// An answer to a commit that says that all is well.
    fn committed(&self) -> Option<GroupResponse>;
    /// An answer that refuses it with an error that can mean the end, where that is one to this call.
    fn refused(&self, code: ErrorCode) -> Option<GroupResponse>;
    /// An answer to a lookup that has found nothing.
    fn found_nothing(&self) -> Option<GroupResponse>;
}

impl Asked for Call {
    fn commit(&self) -> Option<(i32, &BTreeMap<TopicPartition, CommitOffset>)> {
        match self {
            Self::OffsetCommit { generation_or_epoch, offsets, .. } => Some((*generation_or_epoch, offsets)),
            _ => None,
        }
    }

    fn looks_up(&self) -> Option<&[TopicPartition]> {
        match self {
            Self::OffsetFetch { partitions, .. } => Some(partitions),
            _ => None,
        }
    }

    fn heartbeat(&self) -> Option<&HeartbeatCall> {
        match self {
            Self::ConsumerGroupHeartbeat(heartbeat) => Some(heartbeat),
            _ => None,
        }
    }

    fn heartbeat_mut(&mut self) -> Option<&mut HeartbeatCall> {
        match self {
            Self::ConsumerGroupHeartbeat(heartbeat) => Some(heartbeat),
            _ => None,
        }
    }

    fn identity(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Self::JoinGroup { member_id, instance_id, .. }
            | Self::SyncGroup { member_id, instance_id, .. }
            | Self::Heartbeat { member_id, instance_id, .. }
            | Self::LeaveGroup { member_id, instance_id, .. }
            | Self::OffsetCommit { member_id, instance_id, .. }
            | Self::ConsumerGroupHeartbeat(HeartbeatCall { member_id, instance_id, .. })
            | Self::ShareGroupHeartbeat(HeartbeatCall { member_id, instance_id, .. }) => {
                Some((member_id, instance_id.as_deref()))
            }
            Self::FindCoordinator { .. } | Self::OffsetFetch { .. } => None,
        }
    }

    fn joins_as(&self) -> Option<&str> {
        match self {
            Self::JoinGroup { instance_id, .. }
            | Self::ConsumerGroupHeartbeat(HeartbeatCall { epoch: 0, instance_id, .. }) => instance_id.as_deref(),
            _ => None,
        }
    }

    fn committed(&self) -> Option<GroupResponse> {
        let (_, offsets) = self.commit()?;
        let codes = offsets.keys().map(|partition| (partition.clone(), ErrorCode::None)).collect();
        Some(GroupResponse::OffsetCommit { codes })
    }

    fn refused(&self, code: ErrorCode) -> Option<GroupResponse> {
        use ErrorCode as E;
        match (self, code) {
            (
                Self::ConsumerGroupHeartbeat(HeartbeatCall { epoch: 1.., .. }),
                E::UnknownServerError | E::FencedInstanceId,
            )
            | (Self::ConsumerGroupHeartbeat(HeartbeatCall { epoch: 0, .. }), E::UnreleasedInstanceId) => {
                Some(GroupResponse::ConsumerGroupHeartbeat {
                    code,
                    message: String::new(),
                    epoch: 0,
                    interval: Duration::ZERO,
                    assignment: None,
                })
            }
            (Self::Heartbeat { .. }, E::FencedInstanceId) => Some(GroupResponse::Heartbeat { code }),
            (Self::JoinGroup { member_id, .. }, E::InconsistentGroupProtocol) => Some(GroupResponse::JoinGroup {
                code,
                generation: -1,
                protocol_type: None,
                protocol: None,
                leader: String::new(),
                member_id: member_id.clone(),
                skip_assignment: false,
                members: Vec::new(),
            }),
            _ => None,
        }
    }

    fn found_nothing(&self) -> Option<GroupResponse> {
        let offsets = self.looks_up()?.iter().map(|partition| (partition.clone(), Ok(None))).collect();
        Some(GroupResponse::OffsetFetch { code: ErrorCode::None, offsets })
    }
}

pub(crate) trait Answered {
    /// The error, of a commit the first.
    fn code(&self) -> ErrorCode;
    /// The errors: one, of a commit that of each partition.
    fn codes(&self) -> BTreeSet<ErrorCode>;
    fn commit_codes(&self) -> Option<&PartitionCodes>;
    fn commit_codes_mut(&mut self) -> Option<&mut PartitionCodes>;
    fn found(&self) -> Option<&Found>;
    /// Whether it proves that its receiver was in the group when it asked.
    fn proves_membership(&self) -> bool;
}

impl Answered for GroupResponse {
    fn code(&self) -> ErrorCode {
        match self {
            Self::FindCoordinator { code, .. }
            | Self::JoinGroup { code, .. }
            | Self::SyncGroup { code, .. }
            | Self::Heartbeat { code }
            | Self::LeaveGroup { code }
            | Self::ConsumerGroupHeartbeat { code, .. }
            | Self::OffsetFetch { code, .. } => *code,
            Self::OffsetCommit { codes } => codes.values().next().copied().unwrap_or(ErrorCode::None),
        }
    }

    fn codes(&self) -> BTreeSet<ErrorCode> {
        match self {
            Self::OffsetCommit { codes } => codes.values().copied().collect(),
            _ => [self.code()].into(),
        }
    }

    fn commit_codes(&self) -> Option<&PartitionCodes> {
        match self {
            Self::OffsetCommit { codes } => Some(codes),
            _ => None,
        }
    }

    fn commit_codes_mut(&mut self) -> Option<&mut PartitionCodes> {
        match self {
            Self::OffsetCommit { codes } => Some(codes),
            _ => None,
        }
    }

    fn found(&self) -> Option<&Found> {
        match self {
            Self::OffsetFetch { offsets, .. } => Some(offsets),
            _ => None,
        }
    }

    fn proves_membership(&self) -> bool {
        match self {
            Self::Heartbeat { code } => matches!(code, ErrorCode::None | ErrorCode::RebalanceInProgress),
            Self::JoinGroup { code, .. } => *code == ErrorCode::None,
            Self::ConsumerGroupHeartbeat { code, epoch, .. } => *code == ErrorCode::None && *epoch > 0,
            _ => false,
        }
    }
}
