//! FindCoordinator, versions 0-6: finds the coordinators of groups, transactional ids and share partitions, of one key
//! or, from version 4 on, of several (KIP-699). The first use creates the internal topic, and is answered
//! COORDINATOR_NOT_AVAILABLE.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use monedula_protocol::types::Uuid;

use super::Handled;
use crate::cluster::{Coordinated, Node};
use crate::core::Core;
use crate::request::{Call, Mentions};
use crate::security::{Operation, Resource};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &FindCoordinatorRequest<'_>) -> Handled {
    let found: Vec<Result<Node, ErrorCode>> =
        keys(request).into_iter().map(|key| find(core, call, request.key_type, key)).collect();
    // Only now, so that a request for several keys finds none of them, as in Kafka.
    if found.iter().any(|found| matches!(found, Err(ErrorCode::CoordinatorNotAvailable)))
        && let Some(kind) = coordinated(request.key_type)
        && core.ensure_internal_topic(kind)
    {
        core.first_used(kind.topic());
    }
    if call.version < 4 {
        let only = found.into_iter().next().unwrap_or(Err(ErrorCode::InvalidRequest));
        let answer = coordinator(request.key, &only);
        return Ok(call.answer::<FindCoordinatorRequest<'_>>(&FindCoordinatorResponse {
            error_code: answer.error_code,
            error_message: Some(only.as_ref().err().map_or("NONE", |error| words(*error))),
            node_id: answer.node_id,
            host: answer.host,
            port: answer.port,
            ..Default::default()
        }));
    }
    if !(GROUP..=SHARE).contains(&request.key_type) {
        return Err(ErrorCode::InvalidRequest);
    }
    let coordinators =
        request.coordinator_keys.iter().zip(&found).map(|(key, found)| coordinator(key, found)).collect();
    Ok(call.answer::<FindCoordinatorRequest<'_>>(&FindCoordinatorResponse { coordinators, ..Default::default() }))
}

fn keys<'a>(request: &FindCoordinatorRequest<'a>) -> Vec<&'a str> {
    if request.coordinator_keys.is_empty() { vec![request.key] } else { request.coordinator_keys.clone() }
}

fn coordinated(key_type: i8) -> Option<Coordinated> {
    match key_type {
        GROUP => Some(Coordinated::Groups),
        TRANSACTION => Some(Coordinated::Transactions),
        SHARE => Some(Coordinated::SharePartitions),
        _ => None,
    }
}

fn find(core: &Core, call: &Call<'_>, key_type: i8, key: &str) -> Result<Node, ErrorCode> {
    let kind = coordinated(key_type).ok_or(ErrorCode::InvalidRequest)?;
    if kind == Coordinated::SharePartitions && !is_share_key(key) {
        return Err(ErrorCode::InvalidRequest);
    }
    let resource = match kind {
        Coordinated::Groups => Resource::Group(key),
        Coordinated::Transactions => Resource::TransactionalId(key),
        // Only brokers ask for it.
        Coordinated::SharePartitions => Resource::Cluster,
    };
    let operation = if kind == Coordinated::SharePartitions { Operation::ClusterAction } else { Operation::Describe };
    core.authorize(call, operation, resource)?;
    if core.faults.hides(kind.topic(), call.node) {
        return Err(ErrorCode::CoordinatorNotAvailable);
    }
    let node = core.coordinator(kind, key).ok_or(ErrorCode::CoordinatorNotAvailable)?;
    let node = core.nodes.get(node).ok_or(ErrorCode::CoordinatorNotAvailable)?;
    Ok(node.seen_at(call.origin.protocol))
}

/// True if a key is that of a share partition: `group:topic id:partition`.
fn is_share_key(key: &str) -> bool {
    let mut parts = key.rsplitn(3, ':');
    let (partition, topic, group) = (parts.next(), parts.next(), parts.next());
    group.is_some_and(|group| !group.is_empty())
        && topic.is_some_and(|topic| topic.parse::<Uuid>().is_ok())
        && partition.is_some_and(|partition| partition.parse::<i32>().is_ok())
}

fn coordinator<'a>(key: &'a str, found: &'a Result<Node, ErrorCode>) -> Coordinator<'a> {
    match found {
        Ok(node) => {
            Coordinator { key, node_id: node.id.0, host: &node.host, port: node.port.into(), ..Default::default() }
        }
        // Kafka sends an empty message here.
        Err(error) => Coordinator { error_message: Some(""), ..refused(key, *error) },
    }
}

/// Kafka's messages for the errors that this API itself finds.
fn words(error: ErrorCode) -> &'static str {
    match error {
        ErrorCode::CoordinatorNotAvailable => "The coordinator is not available.",
        ErrorCode::InvalidRequest => {
            "This most likely occurs because of a request being malformed by the client library or the message was sent \
             to an incompatible broker. See the broker logs for more details."
        }
        ErrorCode::GroupAuthorizationFailed | ErrorCode::TransactionalIdAuthorizationFailed => error.message(),
        other => other.name(),
    }
}

fn refused(key: &str, error: ErrorCode) -> Coordinator<'_> {
    let error_message = Some(words(error));
    Coordinator { key, node_id: -1, host: "", port: -1, error_code: error.code(), error_message, ..Default::default() }
}

pub(super) fn refuse<'a>(request: &FindCoordinatorRequest<'a>, error: ErrorCode) -> FindCoordinatorResponse<'a> {
    let coordinators = request.coordinator_keys.iter().map(|key| refused(key, error)).collect();
    let (error_code, error_message) = (error.code(), Some(words(error)));
    // Versions up to 3 have the error at the top level, where the encoder of later versions leaves it out.
    if request.coordinator_keys.is_empty() {
        return FindCoordinatorResponse { error_code, error_message, node_id: -1, port: -1, ..Default::default() };
    }
    FindCoordinatorResponse { coordinators, ..Default::default() }
}

pub(super) fn mentions<'a>(request: &FindCoordinatorRequest<'a>) -> Mentions<'a> {
    match request.key_type {
        GROUP => Mentions { groups: keys(request), ..Default::default() },
        _ => Mentions { transactional_id: keys(request).first().copied(), ..Default::default() },
    }
}
