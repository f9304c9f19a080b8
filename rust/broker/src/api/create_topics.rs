//! CreateTopics, versions 2-7. Every node accepts it, as Kafka's brokers forward it to the controller.
//!
//! Not implemented: policies of the broker for new topics (`create.topic.policy.class.name`).

use std::collections::BTreeSet;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest,
    CreateTopicsResponse,
};

use super::{ApiError, Handled, has_no_time};
use crate::cluster::{ConfigSource, MAX_PARTITIONS_PER_REQUEST, NewTopic, NodeId, TopicConfig, check_topic_name};
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};

/// The topic of Kafka's controllers, which clients cannot create.
const CLUSTER_METADATA: &str = "__cluster_metadata";

/// A topic that was created, or with validate_only could be.
struct Created {
    id: monedula_protocol::types::Uuid,
    partitions: i32,
    replicas: i16,
    configs: Vec<(&'static str, String, ConfigSource)>,
}

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &CreateTopicsRequest<'_>) -> Handled {
    if has_no_time(request.timeout_ms) {
        return Err(ErrorCode::RequestTimedOut);
    }
    let outcomes = create_all(core, call, request);
    let topics = request.topics.iter().zip(&outcomes);
    // A name that the request has twice is answered once.
    let mut answered = BTreeSet::new();
    let topics = topics.filter(|(topic, _)| answered.insert(topic.name)).map(|(topic, outcome)| match outcome {
        // A client that may not describe the configs of the new topic learns nothing more than its id.
        Ok(created) if !core.allows(call, Operation::DescribeConfigs, Resource::Topic(topic.name)) => {
            CreatableTopicResult {
                name: topic.name,
                topic_id: created.id,
                error_message: None,
                topic_config_error_code: ErrorCode::TopicAuthorizationFailed.code(),
                ..Default::default()
            }
        }
        Ok(created) => CreatableTopicResult {
            name: topic.name,
            topic_id: created.id,
            error_message: None,
            num_partitions: created.partitions,
            replication_factor: created.replicas,
            configs: Some(created.configs.iter().map(config).collect()),
            ..Default::default()
        },
        Err(error) => refused(topic.name, error.code, error.message.as_deref()),
    });
    Ok(call.answer::<CreateTopicsRequest<'_>>(&CreateTopicsResponse { topics: topics.collect(), ..Default::default() }))
}

fn create_all(core: &mut Core, call: &Call<'_>, request: &CreateTopicsRequest<'_>) -> Vec<Result<Created, ApiError>> {
    let allowed: Vec<bool> = request.topics.iter().map(|topic| may_create(core, call, topic.name)).collect();
    let counted = request.topics.iter().zip(&allowed).filter(|(_, allowed)| **allowed);
    let partitions: i64 = counted.map(|(topic, _)| partitions_of(core, topic)).sum();
    if partitions > MAX_PARTITIONS_PER_REQUEST {
        let refuse = |_| {
            let message = "Excessively large number of partitions per request.";
            Err(ApiError::new(ErrorCode::PolicyViolation, message))
        };
        return request.topics.iter().map(refuse).collect();
    }
    let twice = |name: &str| request.topics.iter().filter(|topic| topic.name == name).count() > 1;
    // All names are checked before any topic is created: two new topics of one request do not collide with each other.
    let named: Vec<Result<(), ApiError>> = request
        .topics
        .iter()
        .zip(&allowed)
        .map(|(topic, &allowed)| {
            if twice(topic.name) {
                return Err(ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic name."));
            }
            if !allowed {
                return Err(ApiError::new(ErrorCode::TopicAuthorizationFailed, "Authorization failed."));
            }
            check_name(core, topic.name)
        })
        .collect();
    let create = |(topic, named): (&CreatableTopic<'_>, Result<(), ApiError>)| {
        named.and_then(|()| create_one(core, topic, request.validate_only))
    };
    request.topics.iter().zip(named).map(create).collect()
}

fn may_create(core: &Core, call: &Call<'_>, name: &str) -> bool {
    // Nobody may create the topic of the controllers, which has an error of its own.
    name == CLUSTER_METADATA
        || core.allows(call, Operation::Create, Resource::Cluster)
        || core.allows(call, Operation::Create, Resource::Topic(name))
}

fn partitions_of(core: &Core, topic: &CreatableTopic<'_>) -> i64 {
    match topic.num_partitions {
        -1 if topic.assignments.is_empty() => core.settings.kafka.num_partitions.into(),
        -1 => topic.assignments.len() as i64,
        count => i64::from(count).max(0),
    }
}

fn check_name(core: &Core, name: &str) -> Result<(), ApiError> {
    if name == CLUSTER_METADATA {
        let message = format!("Creation of internal topic {CLUSTER_METADATA} is prohibited.");
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    check_topic_name(name).map_err(|message| ApiError::new(ErrorCode::InvalidTopicException, message))?;
    if core.topics.get(name).is_some() {
        return Err(ApiError::new(ErrorCode::TopicAlreadyExists, format!("Topic '{name}' already exists.")));
    }
    // Kafka's metric names have '_' for '.', so topic names that differ only in that collide.
    let flat = |name: &str| name.replace('.', "_");
    if let Some(other) = core.topics.all().find(|topic| flat(&topic.name) == flat(name)) {
        let message = format!("Topic '{name}' collides with existing topic: {}", other.name);
        return Err(ApiError::new(ErrorCode::InvalidTopicException, message));
    }
    Ok(())
}

fn create_one(core: &mut Core, topic: &CreatableTopic<'_>, validate_only: bool) -> Result<Created, ApiError> {
    let nulls: Vec<&str> =
        topic.configs.iter().filter(|config| config.value.is_none()).map(|config| config.name).collect();
    if !nulls.is_empty() {
        let message = format!("Null value not supported for topic configs: {}", nulls.join(","));
        return Err(ApiError::new(ErrorCode::InvalidConfig, message));
    }
    let values = topic.configs.iter().filter_map(|config| Some((config.name, config.value?)));
    let config = TopicConfig::new(values).map_err(|message| ApiError::new(ErrorCode::InvalidConfig, message))?;
    let replicas = replicas(core, topic)?;
    let mut created = Created {
        id: monedula_protocol::types::Uuid::ZERO,
        partitions: replicas.len() as i32,
        replicas: replicas.first().map_or(0, Vec::len) as i16,
        configs: core
            .configs
            .describe_topic_config(&config)
            .into_iter()
            .map(|(def, value, source, _)| (def.name, value, source))
            .collect(),
    };
    created.id = if validate_only {
        core.draw.uuid()
    } else {
        log::info!("created topic {} with {} partitions", topic.name, replicas.len());
        let id = core.create_topic(NewTopic { name: topic.name.into(), config, replicas });
        core.first_used(topic.name);
        id
    };
    Ok(created)
}

fn replicas(core: &Core, topic: &CreatableTopic<'_>) -> Result<Vec<Vec<NodeId>>, ApiError> {
    if !topic.assignments.is_empty() {
        return assigned(core, topic);
    }
    if topic.replication_factor < -1 || topic.replication_factor == 0 {
        let message = "Replication factor must be larger than 0, or -1 to use the default value.";
        return Err(ApiError::new(ErrorCode::InvalidReplicationFactor, message));
    }
    if topic.num_partitions < -1 || topic.num_partitions == 0 {
        let message = "Number of partitions was set to an invalid non-positive value.";
        return Err(ApiError::new(ErrorCode::InvalidPartitions, message));
    }
    let settings = &core.settings.kafka;
    let partitions = if topic.num_partitions == -1 { settings.num_partitions } else { topic.num_partitions };
    let replicas = match topic.replication_factor {
        // The default replication factor is limited to the number of nodes.
        -1 => settings.default_replication_factor.min(core.nodes.all().count() as i16),
        replicas => replicas,
    };
    core.nodes.try_place_replicas(0, partitions, replicas)
}

fn assigned(core: &Core, topic: &CreatableTopic<'_>) -> Result<Vec<Vec<NodeId>>, ApiError> {
    let manual = |what: &str| {
        let message = format!("A manual partition assignment was specified, but {what} was not set to -1.");
        ApiError::new(ErrorCode::InvalidRequest, message)
    };
    if topic.replication_factor != -1 {
        return Err(manual("replication factor"));
    }
    if topic.num_partitions != -1 {
        return Err(manual("numPartitions"));
    }
    let invalid = |message: String| ApiError::new(ErrorCode::InvalidReplicaAssignment, message);
    let mut factor = None;
    let mut by_index = std::collections::BTreeMap::new();
    for CreatableReplicaAssignment { partition_index: index, broker_ids, .. } in &topic.assignments {
        if by_index.contains_key(index) {
            return Err(invalid(format!("Found multiple manual partition assignments for partition {index}")));
        }
        let replicas = core.nodes.check_assignment(*index, broker_ids, factor)?;
        factor = Some(replicas.len());
        by_index.insert(*index, replicas);
    }
    if !by_index.keys().copied().eq(0..by_index.len() as i32) {
        return Err(invalid("partitions should be a consecutive 0-based integer sequence".to_owned()));
    }
    Ok(by_index.into_values().collect())
}

fn config<'a>((name, value, source): &'a (&'static str, String, ConfigSource)) -> CreatableTopicConfigs<'a> {
    CreatableTopicConfigs { name, value: Some(value), config_source: *source as i8, ..Default::default() }
}

fn refused<'a>(name: &'a str, error: ErrorCode, message: Option<&'a str>) -> CreatableTopicResult<'a> {
    CreatableTopicResult {
        name,
        error_code: error.code(),
        error_message: message,
        configs: Some(Vec::new()),
        ..Default::default()
    }
}

pub(super) fn refuse<'a>(request: &CreateTopicsRequest<'a>, error: ErrorCode) -> CreateTopicsResponse<'a> {
    let topics = request.topics.iter().map(|topic| refused(topic.name, error, None)).collect();
    CreateTopicsResponse { topics, ..Default::default() }
}
