//! Encoding of ShareGroupHeartbeat and decoding of its answer.

use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::share_group_heartbeat::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};

use crate::group::messages::{GroupResponse, HeartbeatCall};

pub(super) fn heartbeat_request(call: &HeartbeatCall) -> ShareGroupHeartbeatRequest<'_> {
    ShareGroupHeartbeatRequest {
        group_id: &call.group_id,
        member_id: &call.member_id,
        member_epoch: call.epoch,
        rack_id: call.rack.as_deref(),
        subscribed_topic_names: call.topics.as_ref().map(|topics| topics.iter().map(|topic| &**topic).collect()),
        ..Default::default()
    }
}

pub(super) fn heartbeat_answer(response: &ShareGroupHeartbeatResponse<'_>) -> GroupResponse {
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
