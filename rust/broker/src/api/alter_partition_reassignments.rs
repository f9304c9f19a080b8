//! AlterPartitionReassignments, versions 0-1: starts and cancels reassignments of partitions (KIP-455).
//!
//! Not implemented: copying data. Replicas share one log, so a reassignment ends within the request if all new replicas
//! are alive.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ReassignablePartition,
    ReassignablePartitionResponse, ReassignableTopicResponse,
};

use super::{ApiError, Handled, has_no_time};
use crate::core::Core;
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

type Request<'a> = AlterPartitionReassignmentsRequest<'a>;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    core.authorize(call, Operation::Alter, Resource::Cluster)?;
    if has_no_time(request.timeout_ms) {
        return Ok(call.answer::<Request<'_>>(&refused_all(request, ErrorCode::RequestTimedOut, None)));
    }
    let mut outcomes = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let outcome = match core.faults.partition_error(call, topic.name, partition.partition_index) {
                Some(code) => Err(code.into()),
                None => alter(core, topic.name, partition, request.allow_replication_factor_change),
            };
            partitions.push((partition.partition_index, outcome));
        }
        outcomes.push((topic.name, partitions));
    }
    let responses = outcomes.iter().map(|(name, partitions)| ReassignableTopicResponse {
        name,
        partitions: partitions
            .iter()
            .map(|(index, outcome)| match outcome {
                Ok(()) => answer(*index, ErrorCode::None, None),
                Err(error) => answer(*index, error.code, error.message.as_deref()),
            })
            .collect(),
        ..Default::default()
    });
    let response = AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: request.allow_replication_factor_change,
        // Kafka does not forward a request without topics to the controller; it answers with default values, here an
        // empty message.
        error_message: request.topics.is_empty().then_some(""),
        responses: responses.collect(),
        ..Default::default()
    };
    Ok(call.answer::<Request<'_>>(&response))
}

fn answer(partition_index: i32, error: ErrorCode, error_message: Option<&str>) -> ReassignablePartitionResponse<'_> {
    ReassignablePartitionResponse { partition_index, error_code: error.code(), error_message, ..Default::default() }
}

fn alter(
    core: &mut Core,
    topic: &str,
    wanted: &ReassignablePartition<'_>,
    may_change_factor: bool,
) -> Result<(), ApiError> {
    let index = wanted.partition_index;
    let unknown = |message: String| ApiError::new(ErrorCode::UnknownTopicOrPartition, message);
    if core.topics.get(topic).is_none() {
        return Err(unknown(format!("Unable to find a topic named {topic}.")));
    }
    let partition = core.topics.partition(topic, index);
    let partition = partition.ok_or_else(|| unknown(format!("Unable to find partition {topic}:{index}.")))?;
    let Some(replicas) = &wanted.replicas else {
        return core.cancel_reassignment(topic, index).map_err(|code| refused(code, topic, index));
    };
    let factor = partition.target_replicas().len();
    let target = core.nodes.check_replicas(replicas)?;
    if !may_change_factor && target.len() != factor {
        let message = format!("The replication factor is changed from {factor} to {}", target.len());
        return Err(ApiError::new(ErrorCode::InvalidReplicationFactor, message));
    }
    core.reassign(topic, index, target).map_err(|code| refused(code, topic, index))
}

fn refused(code: ErrorCode, topic: &str, index: i32) -> ApiError {
    match code {
        ErrorCode::InvalidReplicaAssignment => ApiError::new(
            code,
            format!(
                "Unable to revert partition assignment for {topic}:{index} because it would require an unclean leader \
                 election."
            ),
        ),
        code => code.into(),
    }
}

pub(super) fn refuse<'a>(request: &Request<'a>, error: ErrorCode) -> AlterPartitionReassignmentsResponse<'a> {
    refused_all(request, error, Some(error.message()))
}

fn refused_all<'a>(
    request: &Request<'a>,
    error: ErrorCode,
    error_message: Option<&'a str>,
) -> AlterPartitionReassignmentsResponse<'a> {
    let topics = request.topics.iter().map(|topic| ReassignableTopicResponse {
        name: topic.name,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| answer(partition.partition_index, error, error_message))
            .collect(),
        ..Default::default()
    });
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: request.allow_replication_factor_change,
        error_code: error.code(),
        error_message,
        responses: topics.collect(),
        ..Default::default()
    }
}

pub(super) fn mentions<'a>(request: &Request<'a>) -> Mentions<'a> {
    let partitions = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| (TopicKey::Name(topic.name), partition.partition_index))
    });
    Mentions { partitions: partitions.collect(), ..Default::default() }
}
