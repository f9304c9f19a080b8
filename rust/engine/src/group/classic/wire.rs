//! The bytes of calls and answers, for every version of each API that a member speaks.
//!
//! A broker may leave out what was asked, answer it twice, or answer what nobody asked: what is missing stays missing, the
//! first answer counts, and the rest is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::{decode_response, encode_request};
use monedula_protocol::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use monedula_protocol::messages::heartbeat::HeartbeatRequest;
use monedula_protocol::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse, JoinGroupResponseMember,
};
use monedula_protocol::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity};
use monedula_protocol::messages::offset_commit::OffsetCommitRequest;
use monedula_protocol::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic};
use monedula_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};

use super::{Answer, Call};
use crate::TopicPartition;
use crate::group::{TOPIC_IDS_FROM, TopicIds, are_all_known, commit_topics, committed, fetched, lookup_topics};

/// The kind of group that consumers form.
const CONSUMER: &str = "consumer";

/// FindCoordinator's name for groups.
const GROUP: i8 = 0;

/// Brokers refuse no reason for its length, but Java's clients cut it here (KIP-800), and so brokers' logs are kept short.
const REASON_CHARS: usize = 255;

impl Call {
    /// The API that it calls.
    pub fn api_key(&self) -> ApiKey {
        match self {
            Self::FindCoordinator { .. } => ApiKey::FindCoordinator,
            Self::Join { .. } => ApiKey::JoinGroup,
            Self::Sync { .. } => ApiKey::SyncGroup,
            Self::Heartbeat { .. } => ApiKey::Heartbeat,
            Self::Leave { .. } => ApiKey::LeaveGroup,
            Self::Commit { .. } => ApiKey::OffsetCommit,
            Self::FetchOffsets { .. } => ApiKey::OffsetFetch,
        }
    }

    /// The versions that can carry it. A static member needs those that know static members: under older ones its id would
    /// be lost, and with it the promise that a bounce costs no rebalance (KIP-345).
    pub fn versions(&self) -> RangeInclusive<i16> {
        match self {
            // The key's type came with 1; before that there were groups only, but no error that says what is wrong.
            Self::FindCoordinator { .. } => 1..=*FindCoordinatorRequest::VERSIONS.end(),
            // The rebalance timeout came with 1, and Kafka 4.0 begins at 2.
            Self::Join { instance_id, .. } => from(instance_id, 2, 5)..=*JoinGroupRequest::VERSIONS.end(),
            Self::Sync { instance_id, .. } => from(instance_id, 0, 3)..=*SyncGroupRequest::VERSIONS.end(),
            Self::Heartbeat { instance_id, .. } => from(instance_id, 0, 3)..=*HeartbeatRequest::VERSIONS.end(),
            Self::Leave { instance_id, .. } => from(instance_id, 0, 3)..=*LeaveGroupRequest::VERSIONS.end(),
            Self::Commit { instance_id, offsets, topic_ids, .. } => {
                from(instance_id, 2, 7)..=highest(topic_ids, offsets.keys())
            }
            // The group's own error came with 2.
            Self::FetchOffsets { partitions, topic_ids, .. } => 2..=highest(topic_ids, partitions.iter()),
        }
    }

    /// The whole frame, with its length.
    ///
    /// # Errors
    /// What `version` cannot carry, such as a user's metadata beyond 32 KiB.
    pub fn encode(&self, version: i16, correlation_id: i32, client_id: Option<&str>) -> Result<Vec<u8>, WireError> {
        match self {
            Self::FindCoordinator { group_id } => {
                encode_request(&find_request(group_id, version), version, correlation_id, client_id)
            }
            Self::Join { protocols, session_timeout, rebalance_timeout, group_id, member_id, instance_id, reason } => {
                let request = JoinGroupRequest {
                    group_id,
                    session_timeout_ms: ms(*session_timeout),
                    rebalance_timeout_ms: ms(*rebalance_timeout),
                    member_id,
                    group_instance_id: instance_id.as_deref(),
                    protocol_type: CONSUMER,
                    protocols: join_protocols(protocols),
                    reason: said(reason),
                    ..Default::default()
                };
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::Sync { group_id, member_id, instance_id, generation, protocol, assignments, .. } => {
                let request = SyncGroupRequest {
                    group_id,
                    generation_id: *generation,
                    member_id,
                    group_instance_id: instance_id.as_deref(),
                    protocol_type: Some(CONSUMER),
                    protocol_name: Some(protocol),
                    assignments: sync_assignments(assignments),
                    ..Default::default()
                };
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
            Self::Leave { group_id, member_id, instance_id, reason } => {
                let request = leave_request(group_id, member_id, instance_id.as_deref(), reason, version);
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::Commit { group_id, member_id, instance_id, generation, offsets, topic_ids } => {
                let request = OffsetCommitRequest {
                    group_id,
                    generation_id_or_member_epoch: *generation,
                    member_id,
                    group_instance_id: instance_id.as_deref(),
                    topics: commit_topics(offsets, topic_ids),
                    ..Default::default()
                };
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::FetchOffsets { group_id, partitions, topic_ids } => {
                let request = offsets_request(group_id, partitions, topic_ids, version);
                encode_request(&request, version, correlation_id, client_id)
            }
        }
    }

    /// The answer to it. `frame` comes without its length.
    ///
    /// # Errors
    /// Whatever is wrong with the bytes.
    pub fn decode(&self, frame: &[u8], version: i16) -> Result<Answer, WireError> {
        let code = ErrorCode::from_code;
        Ok(match self {
            Self::FindCoordinator { group_id } => {
                found(&decode_response::<FindCoordinatorRequest<'_>>(frame, version)?, group_id, version)
            }
            Self::Join { .. } => joined(&decode_response::<JoinGroupRequest<'_>>(frame, version)?),
            Self::Sync { .. } => {
                let response = decode_response::<SyncGroupRequest<'_>>(frame, version)?;
                Answer::Sync {
                    code: code(response.error_code),
                    protocol_type: named(response.protocol_type),
                    protocol: named(response.protocol_name),
                    assignment: response.assignment.to_vec(),
                }
            }
            Self::Heartbeat { .. } => {
                Answer::Heartbeat { code: code(decode_response::<HeartbeatRequest<'_>>(frame, version)?.error_code) }
            }
            Self::Leave { member_id, .. } => {
                left(&decode_response::<LeaveGroupRequest<'_>>(frame, version)?, member_id, version)
            }
            Self::Commit { offsets, topic_ids, .. } => {
                let response = decode_response::<OffsetCommitRequest<'_>>(frame, version)?;
                Answer::Commit { codes: committed(&response, offsets, topic_ids, version) }
            }
            Self::FetchOffsets { group_id, partitions, topic_ids } => {
                let response = decode_response::<OffsetFetchRequest<'_>>(frame, version)?;
                let (code, offsets) = fetched(&response, group_id, partitions, topic_ids, version);
                Answer::FetchOffsets { code, offsets }
            }
        })
    }
}

/// The highest version of OffsetCommit and OffsetFetch: from 10 on topics go by their ids.
fn highest<'a>(topic_ids: &TopicIds, partitions: impl Iterator<Item = &'a TopicPartition>) -> i16 {
    if are_all_known(topic_ids, partitions) { TOPIC_IDS_FROM } else { TOPIC_IDS_FROM - 1 }
}

fn from(instance_id: &Option<String>, dynamic: i16, fixed: i16) -> i16 {
    if instance_id.is_some() { fixed } else { dynamic }
}

fn ms(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// A reason as it is sent, if there is one.
fn said(reason: &str) -> Option<&str> {
    let end = reason.char_indices().nth(REASON_CHARS).map_or(reason.len(), |(end, _)| end);
    (end > 0).then_some(&reason[..end])
}

/// A name in an answer: older versions have an empty one where there is none.
fn named(name: Option<&str>) -> Option<String> {
    name.filter(|name| !name.is_empty()).map(str::to_owned)
}

fn find_request(group_id: &str, version: i16) -> FindCoordinatorRequest<'_> {
    match version {
        ..=3 => FindCoordinatorRequest { key: group_id, key_type: GROUP, ..Default::default() },
        _ => FindCoordinatorRequest { coordinator_keys: vec![group_id], key_type: GROUP, ..Default::default() },
    }
}

fn join_protocols(protocols: &[(String, Vec<u8>)]) -> Vec<JoinGroupRequestProtocol<'_>> {
    let each = protocols.iter();
    each.map(|(name, metadata)| JoinGroupRequestProtocol { name, metadata, ..Default::default() }).collect()
}

fn sync_assignments(assignments: &[(String, Vec<u8>)]) -> Vec<SyncGroupRequestAssignment<'_>> {
    let each = assignments.iter();
    each.map(|(member_id, assignment)| SyncGroupRequestAssignment { member_id, assignment, ..Default::default() })
        .collect()
}

fn leave_request<'a>(
    group_id: &'a str,
    member_id: &'a str,
    group_instance_id: Option<&'a str>,
    reason: &'a str,
    version: i16,
) -> LeaveGroupRequest<'a> {
    if version <= 2 {
        return LeaveGroupRequest { group_id, member_id, ..Default::default() };
    }
    let member = MemberIdentity { member_id, group_instance_id, reason: said(reason), ..Default::default() };
    LeaveGroupRequest { group_id, members: vec![member], ..Default::default() }
}

fn offsets_request<'a>(
    group_id: &'a str,
    partitions: &'a [TopicPartition],
    topic_ids: &TopicIds,
    version: i16,
) -> OffsetFetchRequest<'a> {
    let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        by_topic.entry(&partition.topic).or_default().push(partition.partition);
    }
    // From 7 on only: older brokers answer what an open transaction may still change, and know no other way.
    let require_stable = version >= 7;
    if version <= 7 {
        let topic =
            |(name, partition_indexes)| OffsetFetchRequestTopic { name, partition_indexes, ..Default::default() };
        let topics = Some(by_topic.into_iter().map(topic).collect());
        return OffsetFetchRequest { group_id, topics, require_stable, ..Default::default() };
    }
    let group =
        OffsetFetchRequestGroup { group_id, topics: Some(lookup_topics(by_topic, topic_ids)), ..Default::default() };
    OffsetFetchRequest { groups: vec![group], require_stable, ..Default::default() }
}

fn found(response: &FindCoordinatorResponse<'_>, group_id: &str, version: i16) -> Answer {
    let (code, node_id, host, port) = match version {
        ..=3 => (response.error_code, response.node_id, response.host, response.port),
        _ => match response.coordinators.iter().find(|coordinator| coordinator.key == group_id) {
            Some(found) => (found.error_code, found.node_id, found.host, found.port),
            None => (ErrorCode::CoordinatorNotAvailable.code(), -1, "", -1),
        },
    };
    Answer::FindCoordinator { code: ErrorCode::from_code(code), node_id, host: host.to_owned(), port }
}

fn joined(response: &JoinGroupResponse<'_>) -> Answer {
    let mut seen = BTreeSet::new();
    let first = response.members.iter().filter(|member| seen.insert(member.member_id));
    let member = |member: &JoinGroupResponseMember<'_>| {
        let instance_id = member.group_instance_id.map(str::to_owned);
        (member.member_id.to_owned(), instance_id, member.metadata.to_vec())
    };
    Answer::Join {
        code: ErrorCode::from_code(response.error_code),
        generation: response.generation_id,
        member_id: response.member_id.to_owned(),
        leader: response.leader.to_owned(),
        protocol_type: named(response.protocol_type),
        protocol: named(response.protocol_name),
        skip_assignment: response.skip_assignment,
        members: first.map(member).collect(),
    }
}

fn left(response: &LeaveGroupResponse<'_>, member_id: &str, version: i16) -> Answer {
    let code = ErrorCode::from_code(response.error_code);
    if version <= 2 || code != ErrorCode::None {
        return Answer::Leave { code };
    }
    let member = response.members.iter().find(|member| member.member_id == member_id);
    let code = member.map_or(ErrorCode::UnknownServerError, |member| ErrorCode::from_code(member.error_code));
    Answer::Leave { code }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
