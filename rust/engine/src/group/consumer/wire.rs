//! The bytes of calls and answers. FindCoordinator is that of the classic protocol, and so is what answers say of offsets.
//!
//! A broker may leave out what was asked, answer it twice, or answer what nobody asked: what is missing stays missing, the
//! first answer counts, and the rest is dropped.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use monedula_protocol::api::ApiKey;
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::{decode_response, encode_request};
use monedula_protocol::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use monedula_protocol::messages::offset_commit::OffsetCommitRequest;
use monedula_protocol::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};
use monedula_protocol::types::Uuid;

use super::{Answer, Call, HeartbeatCall, Partitions, TopicIds};
use crate::TopicPartition;
use crate::group::classic;
use crate::group::{commit_topics, committed, fetched, lookup_topics};

impl Call {
    /// The API that it calls.
    pub fn api_key(&self) -> ApiKey {
        match self {
            Self::FindCoordinator { .. } => ApiKey::FindCoordinator,
            Self::Heartbeat(_) => ApiKey::ConsumerGroupHeartbeat,
            Self::Commit { .. } => ApiKey::OffsetCommit,
            Self::FetchOffsets { .. } => ApiKey::OffsetFetch,
        }
    }

    /// The versions that can carry it. A broker that offers none of ConsumerGroupHeartbeat's lacks the protocol: its version 0,
    /// of the early access in Kafka 3.7 to 3.9, knows neither patterns nor ids that members make.
    pub fn versions(&self) -> RangeInclusive<i16> {
        match self {
            Self::FindCoordinator { group_id } => find_call(group_id).versions(),
            Self::Heartbeat(_) => 1..=1,
            // Member epochs came with 9; from 10 on topics go by their ids.
            Self::Commit { .. } | Self::FetchOffsets { .. } => 9..=10,
        }
    }

    /// The whole frame, with its length.
    ///
    /// # Errors
    /// What `version` cannot carry, such as a user's metadata beyond 32 KiB.
    pub fn encode(&self, version: i16, correlation_id: i32, client_id: Option<&str>) -> Result<Vec<u8>, WireError> {
        match self {
            Self::FindCoordinator { group_id } => find_call(group_id).encode(version, correlation_id, client_id),
            Self::Heartbeat(call) => encode_request(&heartbeat_request(call), version, correlation_id, client_id),
            Self::Commit { group_id, member_id, instance_id, epoch, offsets, topic_ids } => {
                let request = OffsetCommitRequest {
                    group_id,
                    generation_id_or_member_epoch: *epoch,
                    member_id,
                    group_instance_id: instance_id.as_deref(),
                    topics: commit_topics(offsets, topic_ids),
                    ..Default::default()
                };
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::FetchOffsets { group_id, member_id, epoch, partitions, topic_ids } => {
                let request = offsets_request(group_id, member_id, *epoch, partitions, topic_ids);
                encode_request(&request, version, correlation_id, client_id)
            }
        }
    }

    /// The answer to it. `frame` comes without its length.
    ///
    /// # Errors
    /// Whatever is wrong with the bytes.
    pub fn decode(&self, frame: &[u8], version: i16) -> Result<Answer, WireError> {
        // But for heartbeats, answers have nothing of members in them, so they are those of the classic protocol's calls.
        Ok(match self {
            Self::Heartbeat(_) => {
                heartbeat_answer(&decode_response::<ConsumerGroupHeartbeatRequest<'_>>(frame, version)?)
            }
            Self::FindCoordinator { group_id } => match find_call(group_id).decode(frame, version)? {
                classic::Answer::FindCoordinator { code, node_id, host, port } => {
                    Answer::FindCoordinator { code, node_id, host, port }
                }
                // It has no other answer.
                _ => Answer::FetchOffsets { code: ErrorCode::UnknownServerError, offsets: BTreeMap::new() },
            },
            Self::Commit { offsets, topic_ids, .. } => {
                let response = decode_response::<OffsetCommitRequest<'_>>(frame, version)?;
                Answer::Commit { codes: committed(&response, offsets, topic_ids, version) }
            }
            Self::FetchOffsets { group_id, partitions, topic_ids, .. } => {
                let response = decode_response::<OffsetFetchRequest<'_>>(frame, version)?;
                let (code, offsets) = fetched(&response, group_id, partitions, topic_ids, version);
                Answer::FetchOffsets { code, offsets }
            }
        })
    }
}

fn find_call(group_id: &str) -> classic::Call {
    classic::Call::FindCoordinator { group_id: group_id.to_owned() }
}

fn heartbeat_request(call: &HeartbeatCall) -> ConsumerGroupHeartbeatRequest<'_> {
    let ms = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    ConsumerGroupHeartbeatRequest {
        group_id: &call.group_id,
        member_id: &call.member_id,
        member_epoch: call.epoch,
        instance_id: call.instance_id.as_deref(),
        rack_id: call.rack.as_deref(),
        rebalance_timeout_ms: call.rebalance_timeout.map_or(-1, ms),
        subscribed_topic_names: call.topics.as_ref().map(|topics| topics.iter().map(|topic| &**topic).collect()),
        subscribed_topic_regex: call.regex.as_deref(),
        server_assignor: call.assignor.as_deref(),
        topic_partitions: call.owned.as_ref().map(by_topic),
        ..Default::default()
    }
}

fn by_topic<'a>(partitions: &Partitions) -> Vec<TopicPartitions<'a>> {
    let mut topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    for &(topic_id, partition) in partitions {
        topics.entry(topic_id).or_default().push(partition);
    }
    let each = topics.into_iter();
    each.map(|(topic_id, partitions)| TopicPartitions { topic_id, partitions, ..Default::default() }).collect()
}

fn heartbeat_answer(response: &ConsumerGroupHeartbeatResponse<'_>) -> Answer {
    let assignment = response.assignment.as_ref().map(|assignment| {
        let topics = assignment.topic_partitions.iter();
        topics.flat_map(|topic| topic.partitions.iter().map(|&partition| (topic.topic_id, partition))).collect()
    });
    Answer::Heartbeat {
        code: ErrorCode::from_code(response.error_code),
        message: response.error_message.unwrap_or_default().to_owned(),
        epoch: response.member_epoch,
        interval: Duration::from_millis(u64::try_from(response.heartbeat_interval_ms).unwrap_or(0)),
        assignment,
    }
}

fn offsets_request<'a>(
    group_id: &'a str,
    member_id: &'a str,
    member_epoch: i32,
    partitions: &'a [TopicPartition],
    topic_ids: &TopicIds,
) -> OffsetFetchRequest<'a> {
    let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        by_topic.entry(&partition.topic).or_default().push(partition.partition);
    }
    let group = OffsetFetchRequestGroup {
        group_id,
        member_id: Some(member_id),
        member_epoch,
        topics: Some(lookup_topics(by_topic, topic_ids)),
        ..Default::default()
    };
    OffsetFetchRequest { groups: vec![group], require_stable: true, ..Default::default() }
}
