//! IncrementalAlterConfigs, versions 0-1: topics, brokers and groups; what is set takes effect at once.
//!
//! Not implemented: levels of a broker's log and client metrics (KIP-714), which are refused.

use std::collections::BTreeSet;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, AlterableConfig, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};

use super::{ApiError, Mentions, TopicKey, resource};
use crate::cluster::{ConfigDef, ConfigType, GROUP_CONFIGS, NodeId, TopicConfig, Values, broker_def, is_dynamic};
use crate::core::{Answer, Call, Core};

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &IncrementalAlterConfigsRequest<'_>) -> Answer {
    let key = |resource: &AlterConfigsResource<'_>| (resource.resource_type, resource.resource_name.to_owned());
    let twice = |resource: &AlterConfigsResource<'_>| {
        request.resources.iter().filter(|other| key(other) == key(resource)).count() > 1
    };
    let mut outcomes = Vec::new();
    for wanted in &request.resources {
        let outcome = if twice(wanted) {
            Err(invalid("Each resource must appear at most once."))
        } else {
            alter(core, call.node, wanted, request.validate_only)
        };
        outcomes.push(outcome);
    }
    let responses = request.resources.iter().zip(&outcomes).map(|(wanted, outcome)| AlterConfigsResourceResponse {
        error_code: outcome.as_ref().err().map_or(0, |error| error.code.code()),
        error_message: outcome.as_ref().err().and_then(|error| error.message.as_deref()),
        resource_type: wanted.resource_type,
        resource_name: wanted.resource_name,
        ..Default::default()
    });
    let response = IncrementalAlterConfigsResponse { responses: responses.collect(), ..Default::default() };
    call.answer::<IncrementalAlterConfigsRequest<'_>>(&response)
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

fn alter(
    core: &mut Core,
    node: NodeId,
    wanted: &AlterConfigsResource<'_>,
    validate_only: bool,
) -> Result<(), ApiError> {
    let mut names = BTreeSet::new();
    if !wanted.configs.iter().all(|config| names.insert(config.name)) {
        return Err(invalid("Error due to duplicate config keys"));
    }
    let nulls = wanted.configs.iter().filter(|config| config.config_operation != DELETE && config.value.is_none());
    let nulls: Vec<&str> = nulls.map(|config| config.name).collect();
    if !nulls.is_empty() {
        return Err(invalid(format!("Null value not supported for : {}", nulls.join(","))));
    }
    match wanted.resource_type {
        resource::TOPIC => topic(core, wanted, validate_only),
        resource::BROKER => broker(core, node, wanted, validate_only),
        resource::GROUP => group(core, wanted, validate_only),
        resource::BROKER_LOGGER => {
            resource::own_node(node, wanted.resource_name, "Node id")?;
            Err(invalid("The levels of this broker's log cannot be changed."))
        }
        kind => Err(invalid(format!("Unknown resource type {kind}"))),
    }
}

fn topic(core: &mut Core, wanted: &AlterConfigsResource<'_>, validate_only: bool) -> Result<(), ApiError> {
    let name = wanted.resource_name;
    if name.is_empty() {
        return Err(invalid("Default topic resources are not allowed."));
    }
    let missing = format!("The topic '{name}' does not exist.");
    let topic =
        core.topics.get(name).ok_or_else(|| ApiError::new(ErrorCode::UnknownTopicOrPartition, missing.as_str()))?;
    let before = topic.config.set_values().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let after = apply(before, &wanted.configs, ConfigDef::of_topic)?;
    let values = after.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let config = TopicConfig::new(values).map_err(|message| ApiError::new(ErrorCode::InvalidConfig, message))?;
    if !validate_only {
        core.set_topic_config(name, config);
    }
    Ok(())
}

fn broker(
    core: &mut Core,
    node: NodeId,
    wanted: &AlterConfigsResource<'_>,
    validate_only: bool,
) -> Result<(), ApiError> {
    let of = match wanted.resource_name {
        "" => None,
        name => {
            resource::own_node(node, name, "Broker id").map_err(|error| match &error.message {
                // Kafka reads the name as a node's id first.
                Some(message) if message.starts_with("Broker id must") => {
                    invalid(message.replacen("Broker", "Node", 1))
                }
                _ => error,
            })?;
            Some(node)
        }
    };
    let fixed: Vec<&str> = wanted
        .configs
        .iter()
        .map(|config| config.name)
        .filter(|name| broker_def(name).is_some() && !is_dynamic(name))
        .collect();
    let before = core.configs.of_broker(of).cloned().unwrap_or_default();
    let read_only =
        |name: &&str| wanted.configs.iter().any(|config| config.name == *name && config.config_operation != DELETE);
    if fixed.iter().any(read_only) {
        return Err(invalid(format!("Cannot update these configs dynamically: [{}]", fixed.join(", "))));
    }
    check_min_insync(of, &wanted.configs)?;
    let defs = |name: &str| broker_def(name);
    let mut after = apply_with(before, &wanted.configs, defs)?;
    for (name, value) in &mut after {
        let Some(def) = broker_def(name) else { continue };
        *value = def.normalize(value).map_err(invalid)?;
    }
    if !validate_only {
        core.set_broker_configs(of, after);
    }
    Ok(())
}

/// While eligible leader replicas (KIP-966) are on, this one is the cluster's alone.
fn check_min_insync(of: Option<NodeId>, configs: &[AlterableConfig<'_>]) -> Result<(), ApiError> {
    let Some(config) = configs.iter().find(|config| config.name == MIN_INSYNC_REPLICAS) else {
        return Ok(());
    };
    let message = match of {
        Some(_) => "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        None if config.config_operation == DELETE => {
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        }
        None => return Ok(()),
    };
    Err(ApiError::new(ErrorCode::InvalidConfig, message))
}

fn group(core: &mut Core, wanted: &AlterConfigsResource<'_>, validate_only: bool) -> Result<(), ApiError> {
    let group = wanted.resource_name;
    if group.is_empty() {
        return Err(invalid("Default group resources are not allowed."));
    }
    let refused = |message: String| ApiError::new(ErrorCode::InvalidConfig, message);
    let def = |name: &str| GROUP_CONFIGS.iter().find(|def| def.name == name);
    let before = core.configs.of_group(group).cloned().unwrap_or_default();
    let mut after = apply(before, &wanted.configs, def)?;
    for (name, value) in &mut after {
        let def = def(name).ok_or_else(|| refused(format!("Unknown group config name: {name}")))?;
        *value = def.normalize(value).map_err(refused)?;
        let settings = &core.settings.kafka;
        let (min, max, what) = match def.name {
            "consumer.assignment.interval.ms" => continue,
            "consumer.session.timeout.ms" => (
                settings.group_consumer_min_session_timeout_ms,
                settings.group_consumer_max_session_timeout_ms,
                "session.timeout.ms",
            ),
            _ => (
                settings.group_consumer_min_heartbeat_interval_ms,
                settings.group_consumer_max_heartbeat_interval_ms,
                "heartbeat.interval.ms",
            ),
        };
        let number: i32 = value.parse().unwrap_or_default();
        if number < min {
            return Err(refused(format!("{name} must be greater than or equal to group.consumer.min.{what}")));
        }
        if number > max {
            return Err(refused(format!("{name} must be less than or equal to group.consumer.max.{what}")));
        }
    }
    let effective =
        |name: &str, otherwise: i32| after.get(name).and_then(|value| value.parse().ok()).unwrap_or(otherwise);
    let session = effective("consumer.session.timeout.ms", core.settings.kafka.group_consumer_session_timeout_ms);
    let heartbeat =
        effective("consumer.heartbeat.interval.ms", core.settings.kafka.group_consumer_heartbeat_interval_ms);
    if session <= heartbeat {
        let message = "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms";
        return Err(refused(message.to_owned()));
    }
    if !validate_only {
        core.configs.set_group(group, after);
    }
    Ok(())
}

fn apply(
    values: Values,
    changes: &[AlterableConfig<'_>],
    def: impl Fn(&str) -> Option<&'static ConfigDef>,
) -> Result<Values, ApiError> {
    apply_with(values, changes, |name| def(name).copied())
}

/// The values after the changes, not yet looked at.
fn apply_with(
    mut values: Values,
    changes: &[AlterableConfig<'_>],
    def: impl Fn(&str) -> Option<ConfigDef>,
) -> Result<Values, ApiError> {
    for AlterableConfig { name, config_operation: operation, value, .. } in changes {
        let value = value.unwrap_or_default();
        match *operation {
            SET => drop(values.insert((*name).to_owned(), value.to_owned())),
            DELETE => drop(values.remove(*name)),
            APPEND | SUBTRACT => {
                let append = *operation == APPEND;
                let def = def(name).filter(|def| def.kind == ConfigType::List).ok_or_else(|| {
                    let operation = if append { "APPEND" } else { "SUBTRACT" };
                    let message = format!("Can't {operation} to key {name} because its type is not LIST.");
                    ApiError::new(ErrorCode::InvalidConfig, message)
                })?;
                let default = crate::cluster::list_default(&def);
                let before = values.get(*name).map_or(default.as_str(), String::as_str);
                let changed = change_list(before, value, append);
                values.insert((*name).to_owned(), changed);
            }
            // Kafka fails without words, too.
            _ => return Err(ApiError { code: ErrorCode::UnknownServerError, message: None }),
        }
    }
    Ok(values)
}

fn change_list(before: &str, change: &str, append: bool) -> String {
    let mut items: Vec<&str> = before.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
    for item in change.split(',') {
        if !append {
            items.retain(|kept| *kept != item);
        } else if !items.contains(&item) {
            items.push(item);
        }
    }
    items.join(",")
}

pub(super) fn refuse<'a>(
    request: &IncrementalAlterConfigsRequest<'a>,
    error: ErrorCode,
) -> IncrementalAlterConfigsResponse<'a> {
    let refused = |wanted: &AlterConfigsResource<'a>| AlterConfigsResourceResponse {
        error_code: error.code(),
        error_message: Some(error.message()),
        resource_type: wanted.resource_type,
        resource_name: wanted.resource_name,
        ..Default::default()
    };
    IncrementalAlterConfigsResponse { responses: request.resources.iter().map(refused).collect(), ..Default::default() }
}

pub(super) fn mentions<'a>(request: &IncrementalAlterConfigsRequest<'a>) -> Mentions<'a> {
    let named = |kind: i8| {
        let resources = request.resources.iter().filter(move |wanted| wanted.resource_type == kind);
        resources.map(|wanted| wanted.resource_name)
    };
    Mentions {
        topics: named(resource::TOPIC).map(TopicKey::Name).collect(),
        groups: named(resource::GROUP).collect(),
        ..Default::default()
    }
}
