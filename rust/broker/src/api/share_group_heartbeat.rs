//! ShareGroupHeartbeat, version 1 (KIP-932): a member of a share group joins, stays alive and leaves with this one
//! request.
//!
//! Not implemented: assignors other than Kafka's `simple`, and their threads.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::share_group_heartbeat::{
    Assignment, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, TopicPartitions,
};

use super::{ApiError, Handled, acknowledging};
use crate::core::Core;
use crate::groups::consumer::{HeartbeatAnswer, JOIN_EPOCH, LEAVE_EPOCH, Partitions};
use crate::groups::share::ShareHeartbeat;
use crate::request::Call;
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ShareGroupHeartbeatRequest<'_>) -> Handled {
    Ok(match &beat(core, call, request) {
        Ok(answer) => call.answer::<ShareGroupHeartbeatRequest<'_>>(&ShareGroupHeartbeatResponse {
            member_id: Some(&answer.member_id),
            member_epoch: answer.member_epoch,
            heartbeat_interval_ms: answer.heartbeat_interval_ms,
            assignment: answer.assignment.as_ref().map(assignment),
            ..Default::default()
        }),
        Err(ApiError { code, message }) => {
            let (member_id, group_id, why) =
                (request.member_id, request.group_id, message.as_deref().unwrap_or_default());
            log::info!("member {member_id:?} of share group {group_id:?} is refused: {code}: {why}");
            call.answer::<ShareGroupHeartbeatRequest<'_>>(&ShareGroupHeartbeatResponse {
                error_code: code.code(),
                error_message: message.as_deref(),
                ..Default::default()
            })
        }
    })
}

fn beat(
    core: &mut Core,
    call: &Call<'_>,
    request: &ShareGroupHeartbeatRequest<'_>,
) -> Result<HeartbeatAnswer, ApiError> {
    core.authorize(call, Operation::Read, Resource::Group(request.group_id))?;
    let mut topics = request.subscribed_topic_names.iter().flatten();
    topics.try_for_each(|topic| core.authorize(call, Operation::Describe, Resource::Topic(topic)))?;
    check(request)?;
    let partition = core.group_partition(call.node, request.group_id)?;
    let heartbeat = ShareHeartbeat {
        member_id: request.member_id.into(),
        member_epoch: request.member_epoch,
        rack_id: request.rack_id.map(Into::into),
        subscribed_names: request
            .subscribed_topic_names
            .as_ref()
            .map(|names| names.iter().map(|&name| name.into()).collect()),
        client_id: call.client_id.into(),
        // The form of Java's `InetAddress.toString()`.
        client_host: format!("/{}", call.origin.host).into(),
    };
    core.share_group_heartbeat(partition, request.group_id, &heartbeat)
}

/// Kafka's checks of the request alone, before it looks up the group.
fn check(request: &ShareGroupHeartbeatRequest<'_>) -> Result<(), ApiError> {
    let invalid = |message: &str| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    let is_blank = |text: &str| text.trim().is_empty();
    if !acknowledging::is_member_id(request.member_id) {
        return Err(ErrorCode::InvalidRequest.into());
    }
    if is_blank(request.group_id) {
        return invalid("GroupId can't be empty.");
    }
    if request.rack_id.is_some_and(is_blank) {
        return invalid("RackId can't be empty.");
    }
    if request.member_epoch == JOIN_EPOCH && request.subscribed_topic_names.as_ref().is_none_or(Vec::is_empty) {
        return invalid("SubscribedTopicNames must be set in first request.");
    }
    if request.member_epoch < LEAVE_EPOCH {
        return invalid("MemberEpoch is invalid.");
    }
    Ok(())
}

fn assignment<'a>(partitions: &Partitions) -> Assignment<'a> {
    let topic_partitions = partitions.by_topic().map(|(topic_id, partitions)| TopicPartitions {
        topic_id,
        partitions: partitions.iter().copied().collect(),
        ..Default::default()
    });
    Assignment { topic_partitions: topic_partitions.collect(), ..Default::default() }
}
