//! ConsumerGroupHeartbeat, versions 0-1 (KIP-848): a member of a consumer group joins, stays alive, reports the
//! partitions that it owns, and leaves with this one request.
//!
//! Not implemented: RE2/J for patterns of topics (SubscribedTopicRegex). They are those of Rust's `regex` crate.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::consumer_group_heartbeat::{
    Assignment, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};

use super::{ApiError, Handled};
use crate::core::Core;
use crate::groups::consumer::{
    Assignor, ConsumerSettings, Heartbeat, HeartbeatAnswer, JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, Partitions,
};
use crate::request::Call;
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ConsumerGroupHeartbeatRequest<'_>) -> Handled {
    Ok(match &beat(core, call, request) {
        Ok(answer) => call.answer::<ConsumerGroupHeartbeatRequest<'_>>(&ConsumerGroupHeartbeatResponse {
            member_id: Some(&answer.member_id),
            member_epoch: answer.member_epoch,
            heartbeat_interval_ms: answer.heartbeat_interval_ms,
            assignment: answer.assignment.as_ref().map(assignment),
            ..Default::default()
        }),
        Err(ApiError { code, message }) => {
            // Some clients treat INVALID_REQUEST as fatal: the log says what was wrong.
            let (member_id, group_id, why) =
                (request.member_id, request.group_id, message.as_deref().unwrap_or_default());
            log::info!("member {member_id:?} of group {group_id:?} is refused: {code}: {why}");
            call.answer::<ConsumerGroupHeartbeatRequest<'_>>(&ConsumerGroupHeartbeatResponse {
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
    request: &ConsumerGroupHeartbeatRequest<'_>,
) -> Result<HeartbeatAnswer, ApiError> {
    may_join(core, call, request)?;
    check(core, call, request)?;
    let partition = core.group_partition(call.node, request.group_id)?;
    let heartbeat = heartbeat(core, call, request);
    core.consumer_group_heartbeat(partition, request.group_id, &heartbeat)
}

/// Checks that the client may be a member of the group and describe the topics that it subscribes to.
fn may_join(core: &Core, call: &Call<'_>, request: &ConsumerGroupHeartbeatRequest<'_>) -> Result<(), ErrorCode> {
    core.authorize(call, Operation::Read, Resource::Group(request.group_id))?;
    let mut topics = request.subscribed_topic_names.iter().flatten();
    topics.try_for_each(|topic| core.authorize(call, Operation::Describe, Resource::Topic(topic)))
}

/// Kafka's checks of the request alone, before it looks up the group.
fn check(core: &Core, call: &Call<'_>, request: &ConsumerGroupHeartbeatRequest<'_>) -> Result<(), ApiError> {
    let invalid = |message: &str| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    let is_blank = |text: Option<&str>| text.is_some_and(|text| text.trim().is_empty());
    let epoch = request.member_epoch;
    if (call.version >= 1 || epoch > JOIN_EPOCH || epoch == LEAVE_EPOCH) && is_blank(Some(request.member_id)) {
        return invalid("MemberId can't be empty.");
    }
    if is_blank(Some(request.group_id)) {
        return invalid("GroupId can't be empty.");
    }
    if is_blank(request.instance_id) {
        return invalid("InstanceId can't be empty.");
    }
    if is_blank(request.rack_id) {
        return invalid("RackId can't be empty.");
    }
    if epoch == JOIN_EPOCH {
        if request.rebalance_timeout_ms == -1 {
            return invalid("RebalanceTimeoutMs must be provided in first request.");
        }
        if request.topic_partitions.as_ref().is_none_or(|topics| !topics.is_empty()) {
            return invalid("TopicPartitions must be empty when (re-)joining.");
        }
        if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
            return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.");
        }
    } else if epoch == LEAVE_STATIC_EPOCH {
        if request.instance_id.is_none() {
            return invalid("InstanceId can't be null.");
        }
    } else if epoch < LEAVE_STATIC_EPOCH {
        return invalid("MemberEpoch is invalid.");
    }
    let Some(name) = request.server_assignor else { return Ok(()) };
    let offered = ConsumerSettings::new(&core.settings.kafka).assignors;
    if offered.iter().any(|assignor| assignor.name() == name) {
        return Ok(());
    }
    let names: Vec<_> = offered.into_iter().map(Assignor::name).collect();
    let message = format!("ServerAssignor {name} is not supported. Supported assignors: {}.", names.join(", "));
    Err(ApiError::new(ErrorCode::UnsupportedAssignor, message))
}

fn heartbeat(core: &mut Core, call: &Call<'_>, request: &ConsumerGroupHeartbeatRequest<'_>) -> Heartbeat {
    let member_id = match request.member_id {
        // In version 0 the broker generates the member id.
        "" => core.draw.uuid().to_string().into(),
        id => id.into(),
    };
    let owned = |topics: &Vec<TopicPartitions<'_>>| -> Partitions {
        let topics = topics.iter();
        topics.flat_map(|topic| topic.partitions.iter().map(|&partition| (topic.topic_id, partition))).collect()
    };
    let names = request.subscribed_topic_names.as_ref();
    Heartbeat {
        member_id,
        member_epoch: request.member_epoch,
        instance_id: request.instance_id.map(Into::into),
        rack_id: request.rack_id.map(Into::into),
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        subscribed_names: names.map(|names| names.iter().map(|&name| name.into()).collect()),
        subscribed_regex: request.subscribed_topic_regex.map(Into::into),
        server_assignor: request.server_assignor.map(Into::into),
        owned: request.topic_partitions.as_ref().map(owned),
        client_id: call.client_id.into(),
        // The form of Java's `InetAddress.toString()`.
        client_host: format!("/{}", call.origin.host).into(),
    }
}

fn assignment<'a>(partitions: &Partitions) -> Assignment<'a> {
    let topic_partitions = partitions.by_topic().map(|(topic_id, partitions)| TopicPartitions {
        topic_id,
        partitions: partitions.iter().copied().collect(),
        ..Default::default()
    });
    Assignment { topic_partitions: topic_partitions.collect(), ..Default::default() }
}
