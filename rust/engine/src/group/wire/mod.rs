//! Encoding of requests and decoding of answers, for every version of each API that a member uses. The messages of only
//! one protocol are in `classic`, `consumer` and `share`.
//!
//! A broker may leave out a requested item, answer it twice, or add one that was not requested. Missing items stay
//! missing, the first answer for an item counts, and all others are ignored.

mod classic;
mod consumer;
mod offsets;
mod share;

use std::ops::RangeInclusive;
use std::time::Duration;

use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::{decode_response, encode_request};
use monedula_protocol::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use monedula_protocol::messages::find_coordinator::FindCoordinatorRequest;
use monedula_protocol::messages::heartbeat::HeartbeatRequest;
use monedula_protocol::messages::join_group::JoinGroupRequest;
use monedula_protocol::messages::leave_group::LeaveGroupRequest;
use monedula_protocol::messages::offset_commit::OffsetCommitRequest;
use monedula_protocol::messages::offset_fetch::OffsetFetchRequest;
use monedula_protocol::messages::share_group_heartbeat::ShareGroupHeartbeatRequest;
use monedula_protocol::messages::sync_group::SyncGroupRequest;

use crate::TopicPartition;
use crate::group::messages::{Call, GroupResponse, TOPIC_IDS_FROM, TopicIds, are_all_known};
use crate::group::state::GroupProtocol;

pub use offsets::{commit_topics, committed_offsets, offset_fetch_request};

/// The first version of OffsetCommit and OffsetFetch that carries member epochs.
const MEMBER_EPOCHS_FROM: i16 = 9;

impl Call {
    /// The API of the request.
    pub fn api_key(&self) -> ApiKey {
        match self {
            Self::FindCoordinator { .. } => ApiKey::FindCoordinator,
            Self::JoinGroup { .. } => ApiKey::JoinGroup,
            Self::SyncGroup { .. } => ApiKey::SyncGroup,
            Self::Heartbeat { .. } => ApiKey::Heartbeat,
            Self::LeaveGroup { .. } => ApiKey::LeaveGroup,
            Self::ConsumerGroupHeartbeat(_) => ApiKey::ConsumerGroupHeartbeat,
            Self::ShareGroupHeartbeat(_) => ApiKey::ShareGroupHeartbeat,
            Self::OffsetCommit { .. } => ApiKey::OffsetCommit,
            Self::OffsetFetch { .. } => ApiKey::OffsetFetch,
        }
    }

    /// The versions that can carry the request. A static member needs those with a static id: older ones would drop the
    /// id, and a restart would cost a rebalance, which static membership prevents (KIP-345).
    pub fn versions(&self) -> RangeInclusive<i16> {
        match self {
            // Version 1 added the key type. Version 0 knows groups only, but its answer has no error message.
            Self::FindCoordinator { .. } => 1..=*FindCoordinatorRequest::VERSIONS.end(),
            // Version 1 added the rebalance timeout; Kafka 4.0 supports 2 and later.
            Self::JoinGroup { instance_id, .. } => from(instance_id, 2, 5)..=*JoinGroupRequest::VERSIONS.end(),
            Self::SyncGroup { instance_id, .. } => from(instance_id, 0, 3)..=*SyncGroupRequest::VERSIONS.end(),
            Self::Heartbeat { instance_id, .. } => from(instance_id, 0, 3)..=*HeartbeatRequest::VERSIONS.end(),
            Self::LeaveGroup { instance_id, .. } => from(instance_id, 0, 3)..=*LeaveGroupRequest::VERSIONS.end(),
            // A broker without version 1 counts as lacking the protocol: version 0, of the early access in Kafka 3.7 to
            // 3.9, supports neither patterns nor member ids that the members generate.
            Self::ConsumerGroupHeartbeat(_) => 1..=1,
            Self::ShareGroupHeartbeat(_) => ShareGroupHeartbeatRequest::VERSIONS,
            Self::OffsetCommit { protocol: GroupProtocol::Consumer, .. }
            | Self::OffsetFetch { member: Some(_), .. } => MEMBER_EPOCHS_FROM..=TOPIC_IDS_FROM,
            Self::OffsetCommit { instance_id, offsets, topic_ids, .. } => {
                from(instance_id, 2, 7)..=highest(topic_ids, offsets.keys())
            }
            // Version 2 added the error of the group.
            Self::OffsetFetch { partitions, topic_ids, .. } => 2..=highest(topic_ids, partitions.iter()),
        }
    }

    /// The whole request frame, including its length.
    ///
    /// # Errors
    /// If `version` cannot carry a field, such as commit metadata of more than 32 KiB.
    pub fn encode(&self, version: i16, correlation_id: i32, client_id: Option<&str>) -> Result<Vec<u8>, WireError> {
        match self {
            Self::FindCoordinator { group_id } => {
                let request = FindCoordinatorRequest::of_key(group_id, FindCoordinatorRequest::GROUP, version);
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::ConsumerGroupHeartbeat(call) => {
                let rebalance_timeout_ms = call.rebalance_timeout.map_or(-1, ms);
                let request = consumer::heartbeat_request(call, rebalance_timeout_ms);
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::ShareGroupHeartbeat(call) => {
                encode_request(&share::heartbeat_request(call), version, correlation_id, client_id)
            }
            Self::OffsetCommit {
                group_id, member_id, instance_id, generation_or_epoch, offsets, topic_ids, ..
            } => {
                let request = OffsetCommitRequest {
                    group_id,
                    generation_id_or_member_epoch: *generation_or_epoch,
                    member_id,
                    group_instance_id: instance_id.as_deref(),
                    topics: commit_topics(offsets, topic_ids),
                    ..Default::default()
                };
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::OffsetFetch { group_id, member, partitions, topic_ids } => {
                let (member, partitions) = (member.as_ref(), Some(partitions.as_slice()));
                let request = offset_fetch_request(group_id, member, partitions, topic_ids, version);
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::JoinGroup {
                group_id,
                member_id,
                instance_id,
                protocols,
                session_timeout,
                rebalance_timeout,
                reason,
            } => {
                let member = (member_id.as_str(), instance_id.as_deref());
                let timeouts_ms = (ms(*session_timeout), ms(*rebalance_timeout));
                let request = classic::join_request(group_id, member, protocols, timeouts_ms, reason);
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::SyncGroup { group_id, member_id, instance_id, generation, protocol, assignments, .. } => {
                let member = (member_id.as_str(), instance_id.as_deref());
                let request = classic::sync_request(group_id, member, *generation, protocol, assignments);
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::Heartbeat { group_id, member_id, instance_id, generation } => {
                let request = HeartbeatRequest {
                    group_id,
                    generation_id: *generation,
                    member_id,
                    group_instance_id: instance_id.as_deref(),
                    ..Default::default()
                };
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::LeaveGroup { group_id, member_id, instance_id, reason } => {
                let request = classic::leave_request(group_id, member_id, instance_id.as_deref(), reason, version);
                encode_request(&request, version, correlation_id, client_id)
            }
        }
    }

    /// Decodes the answer to this request. `frame` does not include the length.
    ///
    /// # Errors
    /// If the bytes are malformed.
    pub fn decode(&self, frame: &[u8], version: i16) -> Result<GroupResponse, WireError> {
        Ok(match self {
            Self::FindCoordinator { group_id } => {
                let response = decode_response::<FindCoordinatorRequest<'_>>(frame, version)?;
                let found = response.of_key(group_id, version);
                let (code, host) = (ErrorCode::from_code(found.error_code), found.host.to_owned());
                GroupResponse::FindCoordinator { code, node_id: found.node_id, host, port: found.port }
            }
            Self::JoinGroup { .. } => classic::joined(&decode_response::<JoinGroupRequest<'_>>(frame, version)?),
            Self::SyncGroup { .. } => classic::synced(&decode_response::<SyncGroupRequest<'_>>(frame, version)?),
            Self::Heartbeat { .. } => {
                let response = decode_response::<HeartbeatRequest<'_>>(frame, version)?;
                GroupResponse::Heartbeat { code: ErrorCode::from_code(response.error_code) }
            }
            Self::LeaveGroup { member_id, .. } => {
                classic::left(&decode_response::<LeaveGroupRequest<'_>>(frame, version)?, member_id, version)
            }
            Self::ConsumerGroupHeartbeat(_) => {
                consumer::heartbeat_answer(&decode_response::<ConsumerGroupHeartbeatRequest<'_>>(frame, version)?)
            }
            Self::ShareGroupHeartbeat(_) => {
                share::heartbeat_answer(&decode_response::<ShareGroupHeartbeatRequest<'_>>(frame, version)?)
            }
            Self::OffsetCommit { offsets, topic_ids, .. } => {
                let response = decode_response::<OffsetCommitRequest<'_>>(frame, version)?;
                GroupResponse::OffsetCommit { codes: offsets::committed(&response, offsets, topic_ids, version) }
            }
            Self::OffsetFetch { group_id, partitions, topic_ids, .. } => {
                let response = decode_response::<OffsetFetchRequest<'_>>(frame, version)?;
                let found = committed_offsets(&response, group_id, Some(partitions.as_slice()), topic_ids, version);
                let (code, offsets) = found.unwrap_or_else(|| (ErrorCode::UnknownServerError, Default::default()));
                GroupResponse::OffsetFetch { code, offsets }
            }
        })
    }
}

/// The highest usable version of OffsetCommit and OffsetFetch: 10 names topics by id, so all ids have to be known.
fn highest<'a>(topic_ids: &TopicIds, partitions: impl Iterator<Item = &'a TopicPartition>) -> i16 {
    if are_all_known(topic_ids, partitions) { TOPIC_IDS_FROM } else { TOPIC_IDS_FROM - 1 }
}

fn from(instance_id: &Option<String>, dynamic: i16, fixed: i16) -> i16 {
    if instance_id.is_some() { fixed } else { dynamic }
}

/// A duration in milliseconds, as requests carry it.
fn ms(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
