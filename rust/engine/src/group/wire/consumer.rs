//! Encoding of ConsumerGroupHeartbeat and decoding of its answer.

use std::collections::BTreeMap;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use monedula_protocol::types::Uuid;

use crate::group::messages::{GroupResponse, HeartbeatCall, Partitions};

pub(super) fn heartbeat_request(call: &HeartbeatCall, rebalance_timeout_ms: i32) -> ConsumerGroupHeartbeatRequest<'_> {
    ConsumerGroupHeartbeatRequest {
        group_id: &call.group_id,
        member_id: &call.member_id,
        member_epoch: call.epoch,
        instance_id: call.instance_id.as_deref(),
        rack_id: call.rack.as_deref(),
        rebalance_timeout_ms,
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

pub(super) fn heartbeat_answer(response: &ConsumerGroupHeartbeatResponse<'_>) -> GroupResponse {
    let assignment = response.assignment.as_ref().map(|assignment| {
        let topics = assignment.topic_partitions.iter();
        topics.flat_map(|topic| topic.partitions.iter().map(|&partition| (topic.topic_id, partition))).collect()
    });
    GroupResponse::ConsumerGroupHeartbeat {
        code: ErrorCode::from_code(response.error_code),
        message: response.error_message.unwrap_or_default().to_owned(),
        epoch: response.member_epoch,
        interval: Duration::from_millis(u64::try_from(response.heartbeat_interval_ms).unwrap_or(0)),
        assignment,
    }
}
