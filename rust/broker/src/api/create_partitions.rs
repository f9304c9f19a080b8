//! CreatePartitions, versions 0-3: adds partitions to topics, with the replicas that the request assigns or that the
//! broker places. Every node accepts it.
//!
//! Not implemented: policies of the broker for topics (`create.topic.policy.class.name`).

use std::collections::BTreeSet;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
};

use super::{ApiError, Handled, has_no_time};
use crate::cluster::{MAX_PARTITIONS_PER_REQUEST, NodeId};
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &CreatePartitionsRequest<'_>) -> Handled {
    if has_no_time(request.timeout_ms) {
        return Err(ErrorCode::RequestTimedOut);
    }
    let twice = |name: &str| request.topics.iter().filter(|topic| topic.name == name).count() > 1;
    let mut seen = BTreeSet::new();
    let mut outcomes = Vec::new();
    for topic in request.topics.iter().filter(|topic| seen.insert(topic.name)) {
        let outcome = if twice(topic.name) {
            Err(ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic name."))
        } else if !core.allows(call, Operation::Alter, Resource::Topic(topic.name)) {
            Err(ErrorCode::TopicAuthorizationFailed.into())
        } else {
            add(core, topic, request.validate_only)
        };
        outcomes.push((topic.name, outcome));
    }
    let results = outcomes.iter().map(|(name, outcome)| CreatePartitionsTopicResult {
        name,
        error_code: outcome.as_ref().err().map_or(0, |error| error.code.code()),
        error_message: outcome.as_ref().err().and_then(|error| error.message.as_deref()),
        ..Default::default()
    });
    let response = CreatePartitionsResponse { results: results.collect(), ..Default::default() };
    Ok(call.answer::<CreatePartitionsRequest<'_>>(&response))
}

fn add(core: &mut Core, topic: &CreatePartitionsTopic<'_>, validate_only: bool) -> Result<(), ApiError> {
    let replicas = replicas(core, topic)?;
    if !validate_only {
        log::info!("topic {} has {} partitions now", topic.name, topic.count);
        core.add_partitions(topic.name, replicas);
    }
    Ok(())
}

fn replicas(core: &Core, topic: &CreatePartitionsTopic<'_>) -> Result<Vec<Vec<NodeId>>, ApiError> {
    let name = topic.name;
    let found = core.topics.get(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let there = found.partitions.len() as i32;
    let invalid = |message: String| ApiError::new(ErrorCode::InvalidPartitions, message);
    if topic.count == there {
        return Err(invalid(format!("Topic already has {there} partition(s).")));
    }
    if topic.count < there {
        return Err(invalid(format!(
            "The topic {name} currently has {there} partition(s); {} would not be an increase.",
            topic.count
        )));
    }
    let additional = topic.count - there;
    if i64::from(additional) > MAX_PARTITIONS_PER_REQUEST {
        return Err(ErrorCode::UnknownServerError.into());
    }
    let factor = found.partitions.first().map_or(1, |partition| partition.replicas.len());
    let Some(assignments) = &topic.assignments else {
        return core.nodes.try_place_replicas(there, additional, factor as i16);
    };
    if assignments.len() != additional as usize {
        let message = format!(
            "Attempted to add {additional} additional partition(s), but only {} assignment(s) were specified.",
            assignments.len()
        );
        return Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    }
    let check = |(index, assignment): (i32, &Vec<i32>)| core.nodes.check_assignment(index, assignment, Some(factor));
    (there..).zip(assignments.iter().map(|assignment| &assignment.broker_ids)).map(check).collect()
}

pub(super) fn refuse<'a>(request: &CreatePartitionsRequest<'a>, error: ErrorCode) -> CreatePartitionsResponse<'a> {
    let refused = |topic: &CreatePartitionsTopic<'a>| CreatePartitionsTopicResult {
        name: topic.name,
        error_code: error.code(),
        ..Default::default()
    };
    CreatePartitionsResponse { results: request.topics.iter().map(refused).collect(), ..Default::default() }
}
