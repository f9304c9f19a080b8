//! Calls and answers of either protocol.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::group::classic::{self as classic, CommitOffset, Committed, Lane, PartitionCodes};
use monedula_engine::group::consumer::{self as consumer, HeartbeatCall};
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;

/// What is found of each partition.
pub(crate) type Found = BTreeMap<TopicPartition, Result<Committed, ErrorCode>>;

#[derive(Clone, Debug)]
pub(crate) enum Call {
    Classic(classic::Call),
    Consumer(consumer::Call),
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Classic(classic::Answer),
    Consumer(consumer::Answer),
}

impl Call {
    pub(crate) fn api(&self) -> &'static str {
        match self {
            Self::Classic(call) => call.api(),
            Self::Consumer(call) => call.api(),
        }
    }

    pub(crate) fn lane(&self) -> Lane {
        match self {
            Self::Classic(call) => call.lane(),
            Self::Consumer(call) => call.lane(),
        }
    }

    /// How much longer than any other its answer may take.
    pub(crate) fn extra_timeout(&self) -> Duration {
        match self {
            Self::Classic(call) => call.extra_timeout(),
            Self::Consumer(_) => Duration::ZERO,
        }
    }

    pub(crate) fn versions(&self) -> RangeInclusive<i16> {
        match self {
            Self::Classic(call) => call.versions(),
            Self::Consumer(call) => call.versions(),
        }
    }

    pub(crate) fn encode(&self, version: i16, correlation_id: i32) -> Result<Vec<u8>, WireError> {
        match self {
            Self::Classic(call) => call.encode(version, correlation_id, Some("simulation")),
            Self::Consumer(call) => call.encode(version, correlation_id, Some("simulation")),
        }
    }

    pub(crate) fn decode(&self, frame: &[u8], version: i16) -> Result<Answer, WireError> {
        Ok(match self {
            Self::Classic(call) => Answer::Classic(call.decode(frame, version)?),
            Self::Consumer(call) => Answer::Consumer(call.decode(frame, version)?),
        })
    }

    /// Of a commit, its generation or epoch, and what is committed.
    pub(crate) fn commit(&self) -> Option<(i32, &BTreeMap<TopicPartition, CommitOffset>)> {
        match self {
            Self::Classic(classic::Call::Commit { generation, offsets, .. }) => Some((*generation, offsets)),
            Self::Consumer(consumer::Call::Commit { epoch, offsets, .. }) => Some((*epoch, offsets)),
            _ => None,
        }
    }

    /// Of a lookup of what is committed, the partitions.
    pub(crate) fn looks_up(&self) -> Option<&[TopicPartition]> {
        match self {
            Self::Classic(classic::Call::FetchOffsets { partitions, .. })
            | Self::Consumer(consumer::Call::FetchOffsets { partitions, .. }) => Some(partitions),
            _ => None,
        }
    }

    pub(crate) fn heartbeat(&self) -> Option<&HeartbeatCall> {
        match self {
            Self::Consumer(consumer::Call::Heartbeat(heartbeat)) => Some(heartbeat),
            _ => None,
        }
    }

    pub(crate) fn heartbeat_mut(&mut self) -> Option<&mut HeartbeatCall> {
        match self {
            Self::Consumer(consumer::Call::Heartbeat(heartbeat)) => Some(heartbeat),
            _ => None,
        }
    }

    /// The member id that it names, and the static id.
    pub(crate) fn identity(&self) -> Option<(&str, Option<&str>)> {
        use classic::Call as C;
        match self {
            Self::Classic(
                C::Join { member_id, instance_id, .. }
                | C::Sync { member_id, instance_id, .. }
                | C::Heartbeat { member_id, instance_id, .. }
                | C::Leave { member_id, instance_id, .. }
                | C::Commit { member_id, instance_id, .. },
            )
            | Self::Consumer(
                consumer::Call::Heartbeat(HeartbeatCall { member_id, instance_id, .. })
                | consumer::Call::Commit { member_id, instance_id, .. },
            ) => Some((member_id, instance_id.as_deref())),
            _ => None,
        }
    }

    /// The static id with which it joins.
    pub(crate) fn joins_as(&self) -> Option<&str> {
        match self {
            Self::Classic(classic::Call::Join { instance_id, .. }) => instance_id.as_deref(),
            Self::Consumer(consumer::Call::Heartbeat(HeartbeatCall { epoch: 0, instance_id, .. })) => {
                instance_id.as_deref()
            }
            _ => None,
        }
    }

    /// An answer to a commit that says that all is well.
    pub(crate) fn committed(&self) -> Option<Answer> {
        let (_, offsets) = self.commit()?;
        let codes = offsets.keys().map(|partition| (partition.clone(), ErrorCode::None)).collect();
        Some(match self {
            Self::Classic(_) => Answer::Classic(classic::Answer::Commit { codes }),
            Self::Consumer(_) => Answer::Consumer(consumer::Answer::Commit { codes }),
        })
    }

    /// An answer that refuses it with an error that can mean the end, where that is one to this call.
    pub(crate) fn refused(&self, code: ErrorCode) -> Option<Answer> {
        use ErrorCode as E;
        match (self, code) {
            (
                Self::Consumer(consumer::Call::Heartbeat(HeartbeatCall { epoch: 1.., .. })),
                E::UnknownServerError | E::FencedInstanceId,
            )
            | (Self::Consumer(consumer::Call::Heartbeat(HeartbeatCall { epoch: 0, .. })), E::UnreleasedInstanceId) => {
                let answer = consumer::Answer::Heartbeat {
                    code,
                    message: String::new(),
                    epoch: 0,
                    interval: Duration::ZERO,
                    assignment: None,
                };
                Some(Answer::Consumer(answer))
            }
            (Self::Classic(classic::Call::Heartbeat { .. }), E::FencedInstanceId) => {
                Some(Answer::Classic(classic::Answer::Heartbeat { code }))
            }
            (Self::Classic(classic::Call::Join { member_id, .. }), E::InconsistentGroupProtocol) => {
                Some(Answer::Classic(classic::Answer::Join {
                    code,
                    generation: -1,
                    protocol_type: None,
                    protocol: None,
                    leader: String::new(),
                    member_id: member_id.clone(),
                    skip_assignment: false,
                    members: Vec::new(),
                }))
            }
            _ => None,
        }
    }

    /// An answer to a lookup that has found nothing.
    pub(crate) fn found_nothing(&self) -> Option<Answer> {
        let offsets = self.looks_up()?.iter().map(|partition| (partition.clone(), Ok(None))).collect();
        let code = ErrorCode::None;
        Some(match self {
            Self::Classic(_) => Answer::Classic(classic::Answer::FetchOffsets { code, offsets }),
            Self::Consumer(_) => Answer::Consumer(consumer::Answer::FetchOffsets { code, offsets }),
        })
    }
}

impl Answer {
    /// The error, of a commit the first.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Classic(
                classic::Answer::FindCoordinator { code, .. }
                | classic::Answer::Join { code, .. }
                | classic::Answer::Sync { code, .. }
                | classic::Answer::Heartbeat { code }
                | classic::Answer::Leave { code }
                | classic::Answer::FetchOffsets { code, .. },
            )
            | Self::Consumer(
                consumer::Answer::FindCoordinator { code, .. }
                | consumer::Answer::Heartbeat { code, .. }
                | consumer::Answer::FetchOffsets { code, .. },
            ) => *code,
            Self::Classic(classic::Answer::Commit { codes }) | Self::Consumer(consumer::Answer::Commit { codes }) => {
                codes.values().next().copied().unwrap_or(ErrorCode::None)
            }
        }
    }

    pub(crate) fn commit_codes(&self) -> Option<&PartitionCodes> {
        match self {
            Self::Classic(classic::Answer::Commit { codes }) | Self::Consumer(consumer::Answer::Commit { codes }) => {
                Some(codes)
            }
            _ => None,
        }
    }

    pub(crate) fn commit_codes_mut(&mut self) -> Option<&mut PartitionCodes> {
        match self {
            Self::Classic(classic::Answer::Commit { codes }) | Self::Consumer(consumer::Answer::Commit { codes }) => {
                Some(codes)
            }
            _ => None,
        }
    }

    pub(crate) fn found(&self) -> Option<&Found> {
        match self {
            Self::Classic(classic::Answer::FetchOffsets { offsets, .. })
            | Self::Consumer(consumer::Answer::FetchOffsets { offsets, .. }) => Some(offsets),
            _ => None,
        }
    }

    /// Whether it proves that its receiver was in the group when it asked.
    pub(crate) fn proves_membership(&self) -> bool {
        match self {
            Self::Classic(classic::Answer::Heartbeat { code }) => {
                matches!(code, ErrorCode::None | ErrorCode::RebalanceInProgress)
            }
            Self::Classic(classic::Answer::Join { code, .. }) => *code == ErrorCode::None,
            Self::Consumer(consumer::Answer::Heartbeat { code, epoch, .. }) => *code == ErrorCode::None && *epoch > 0,
            _ => false,
        }
    }

    pub(crate) fn into_classic(self) -> classic::Answer {
        match self {
            Self::Classic(answer) => answer,
            Self::Consumer(answer) => panic!("a member of the classic protocol is answered {answer:?}"),
        }
    }

    pub(crate) fn into_consumer(self) -> consumer::Answer {
        match self {
            Self::Consumer(answer) => answer,
            Self::Classic(answer) => panic!("a member of the consumer protocol is answered {answer:?}"),
        }
    }
}
