//! DeleteTopics, versions 1-6: deletes topics by name, and from version 6 on by id.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::delete_topics::{DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse};
use monedula_protocol::types::Uuid;

use super::{ApiError, Handled, has_no_time};
use crate::core::Core;
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

/// A topic as the request identifies it: name and id, of which the other is `None` or zero.
type TopicRef<'a> = (Option<&'a str>, Uuid);

struct DeletedTopic {
    name: Option<String>,
    id: Uuid,
    error: Option<ApiError>,
}

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &DeleteTopicsRequest<'_>) -> Handled {
    if !core.settings.kafka.delete_topic_enable {
        // Clients know TOPIC_DELETION_DISABLED from version 3 on.
        return Err(if call.version < 3 { ErrorCode::InvalidRequest } else { ErrorCode::TopicDeletionDisabled });
    }
    if has_no_time(request.timeout_ms) {
        return Err(ErrorCode::RequestTimedOut);
    }
    let wanted = wanted(request);
    let mut outcomes: Vec<DeletedTopic> = Vec::new();
    for (index, &topic) in wanted.iter().enumerate() {
        let twice = wanted.iter().filter(|other| **other == topic).count() > 1;
        if twice && wanted[..index].contains(&topic) || named_as_well(core, &wanted, topic) {
            continue;
        }
        let supplied = topic.0.and_then(|name| core.topics.get(name)).map(|found| found.id);
        match supplied.filter(|&id| wanted.contains(&(None, id))) {
            Some(id) if may_delete(core, call, topic.0) => {
                outcomes.push(DeletedTopic { id, ..supplied_twice(topic.0) })
            }
            _ => outcomes.push(delete(core, call, topic, twice)),
        }
    }
    let responses = outcomes.iter().map(|outcome| DeletableTopicResult {
        name: outcome.name.as_deref(),
        topic_id: outcome.id,
        error_code: outcome.error.as_ref().map_or(0, |error| error.code.code()),
        error_message: outcome.error.as_ref().and_then(|error| error.message.as_deref()),
        ..Default::default()
    });
    let response = DeleteTopicsResponse { responses: responses.collect(), ..Default::default() };
    Ok(call.answer::<DeleteTopicsRequest<'_>>(&response))
}

fn wanted<'a>(request: &DeleteTopicsRequest<'a>) -> Vec<TopicRef<'a>> {
    let by_name = request.topic_names.iter().map(|name| (Some(*name), Uuid::ZERO));
    by_name.chain(request.topics.iter().map(|topic| (topic.name, topic.topic_id))).collect()
}

/// True if a topic that is requested by id is also requested by its name. It is then refused once, under the name.
fn named_as_well(core: &Core, wanted: &[TopicRef<'_>], (name, id): TopicRef<'_>) -> bool {
    let found = core.topics.name_of(id).filter(|_| name.is_none());
    found.is_some_and(|found| wanted.contains(&(Some(&*found), Uuid::ZERO)))
}

fn supplied_twice(name: Option<&str>) -> DeletedTopic {
    let message = "The provided topic name maps to an ID that was already supplied.";
    let error = ApiError::new(ErrorCode::InvalidRequest, message);
    DeletedTopic { name: name.map(str::to_owned), id: Uuid::ZERO, error: Some(error) }
}

fn may_delete(core: &Core, call: &Call<'_>, name: Option<&str>) -> bool {
    core.allows(call, Operation::Delete, Resource::Cluster)
        || name.is_some_and(|name| core.allows(call, Operation::Delete, Resource::Topic(name)))
}

/// The refusal of a topic that the client may not delete. A name that the request does not have is told only to clients
/// that may describe the topic, and a topic that does not exist is told as such only to those, too.
fn forbidden(core: &Core, call: &Call<'_>, (name, id): TopicRef<'_>, found: Option<&str>) -> Option<DeletedTopic> {
    let asked = name.or(found)?;
    if may_delete(core, call, Some(asked)) {
        return None;
    }
    let may_describe = core.allows(call, Operation::Describe, Resource::Topic(asked));
    if may_describe && found.is_none() {
        return None;
    }
    let error = ErrorCode::TopicAuthorizationFailed;
    let error = Some(ApiError::new(error, error.message()));
    Some(DeletedTopic { name: name.or(found.filter(|_| may_describe)).map(str::to_owned), id, error })
}

fn delete(core: &mut Core, call: &Call<'_>, (name, id): TopicRef<'_>, twice: bool) -> DeletedTopic {
    let refused = |error: ApiError| DeletedTopic { name: name.map(str::to_owned), id, error: Some(error) };
    let invalid = |message: &str| refused(ApiError::new(ErrorCode::InvalidRequest, message));
    match (name, id.is_zero()) {
        (None, true) => return invalid("Neither topic name nor id were specified."),
        (Some(_), false) => return invalid("You may not specify both topic name and topic id."),
        (Some(_), true) if twice => return invalid("Duplicate topic name."),
        (None, false) if twice => return invalid("Duplicate topic id."),
        _ => {}
    }
    let found = match name {
        Some(name) => core.topics.get(name).map(|topic| topic.name.clone()),
        None => core.topics.name_of(id),
    };
    if let Some(forbidden) = forbidden(core, call, (name, id), found.as_deref()) {
        return forbidden;
    }
    match found.and_then(|name| core.delete_topic(&name)) {
        Some(topic) => {
            log::info!("deleted topic {}", topic.name);
            DeletedTopic { name: Some(topic.name.to_string()), id: topic.id, error: None }
        }
        None if name.is_some() => {
            let message = "This server does not host this topic-partition.";
            refused(ApiError::new(ErrorCode::UnknownTopicOrPartition, message))
        }
        None => refused(ApiError::new(ErrorCode::UnknownTopicId, "This server does not host this topic ID.")),
    }
}

pub(super) fn refuse<'a>(request: &DeleteTopicsRequest<'a>, error: ErrorCode) -> DeleteTopicsResponse<'a> {
    let refused = |(name, topic_id): TopicRef<'a>| DeletableTopicResult {
        name,
        topic_id,
        error_code: error.code(),
        ..Default::default()
    };
    DeleteTopicsResponse { responses: wanted(request).into_iter().map(refused).collect(), ..Default::default() }
}

pub(super) fn mentions<'a>(request: &DeleteTopicsRequest<'a>) -> Mentions<'a> {
    let topics = wanted(request).into_iter().map(|(name, id)| TopicKey::new(name.unwrap_or_default(), id)).collect();
    Mentions { topics, ..Default::default() }
}
