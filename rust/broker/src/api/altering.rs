//! Changes of configs: the part that IncrementalAlterConfigs and AlterConfigs share.
//!
//! A change is a function from the values set before to the values set after it; everything is checked before anything
//! takes effect. Configs of brokers and groups are kept in memory only: a restart loses them, also with a data
//! directory.

use std::collections::{BTreeSet, HashMap};

use monedula_protocol::error_code::ErrorCode;

use super::{ApiError, resource};
use crate::cluster::{
    CLIENT_METRICS_CONFIGS, ConfigValues, GROUP_CONFIGS, NodeId, TopicConfig, broker_def, check_match,
    check_topic_name, is_dynamic,
};
use crate::core::Core;
use crate::request::Call;
use crate::security::Operation;
use crate::settings::KafkaSettings;

const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

/// A resource whose configs are to be changed.
#[derive(Copy, Clone, Debug)]
pub(super) struct Target<'a> {
    /// The node that received the request.
    pub(super) node: NodeId,
    pub(super) name: &'a str,
    pub(super) validate_only: bool,
}

pub(super) fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

/// Calls `alter` for each resource of a request that the client may alter, and returns the outcomes in order. A
/// resource comes with its type and name; one that is named more than once is refused each time.
pub(super) fn each<'a, R>(
    core: &mut Core,
    call: &Call<'_>,
    resources: impl Iterator<Item = (R, (i8, &'a str))> + Clone,
    mut alter: impl FnMut(&mut Core, R) -> Result<(), ApiError>,
) -> Vec<Result<(), ApiError>> {
    let mut times: HashMap<(i8, &str), usize> = HashMap::new();
    for (_, key) in resources.clone() {
        *times.entry(key).or_default() += 1;
    }
    let outcome = |(resource, key): (R, (i8, &'a str))| match times.get(&key) {
        Some(1) => authorize(core, call, key.0, key.1).and_then(|()| alter(core, resource)),
        _ => Err(invalid("Each resource must appear at most once.")),
    };
    resources.map(outcome).collect()
}

/// The error code and message of each outcome.
pub(super) fn errors(outcomes: &[Result<(), ApiError>]) -> impl Iterator<Item = (i16, Option<&str>)> {
    outcomes.iter().map(|outcome| match outcome {
        Ok(()) => (0, None),
        Err(error) => (error.code.code(), error.message.as_deref()),
    })
}

/// Checks that the client may alter the configs of a resource.
///
/// # Errors
/// The resource's error of authorization.
fn authorize(core: &Core, call: &Call<'_>, kind: i8, name: &str) -> Result<(), ApiError> {
    let allowed = core.authorize(call, Operation::AlterConfigs, resource::authorized(kind, name));
    allowed.map_err(|error| match kind {
        // Kafka's broker refuses these itself, without a message.
        resource::BROKER | resource::BROKER_LOGGER => error.into(),
        _ => ApiError::new(error, error.message()),
    })
}

/// Checks that a resource's configs are named once each, and that those which need a value have one.
///
/// # Errors
/// INVALID_REQUEST with Kafka's message.
pub(super) fn check_names<'a>(names: impl Iterator<Item = (&'a str, bool)> + Clone) -> Result<(), ApiError> {
    let mut seen = BTreeSet::new();
    if !names.clone().all(|(name, _)| seen.insert(name)) {
        return Err(invalid("Error due to duplicate config keys"));
    }
    let nulls: Vec<&str> = names.filter(|(_, is_given)| !is_given).map(|(name, _)| name).collect();
    if nulls.is_empty() {
        return Ok(());
    }
    Err(invalid(format!("Null value not supported for : {}", nulls.join(","))))
}

/// Changes a topic's configs.
///
/// # Errors
/// The errors of Kafka's controller, in the order of its checks.
pub(super) fn topic(
    core: &mut Core,
    target: Target<'_>,
    change: impl FnOnce(ConfigValues) -> Result<ConfigValues, ApiError>,
) -> Result<(), ApiError> {
    let name = target.name;
    let before: Option<ConfigValues> = core.topics.get(name).map(|topic| {
        let set = topic.config.set_values();
        set.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    });
    let exists = before.is_some();
    let after = change(before.unwrap_or_default())?;
    if name.is_empty() {
        return Err(invalid("Default topic resources are not allowed."));
    }
    check_topic_name(name).map_err(|message| ApiError::new(ErrorCode::InvalidTopicException, message))?;
    let refused = |message: String| ApiError::new(ErrorCode::InvalidConfig, message);
    let values = after.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let config = TopicConfig::new(values).map_err(refused)?;
    config.check_lags(&core.settings.kafka).map_err(refused)?;
    if !exists {
        let message = format!("The topic '{name}' does not exist.");
        return Err(ApiError::new(ErrorCode::UnknownTopicOrPartition, message));
    }
    if !target.validate_only {
        core.set_topic_config(name, config);
    }
    Ok(())
}

/// Changes the configs of one broker, or of all brokers if the name is empty. `named` are the configs that the request
/// names, each with whether it is to be set (and not deleted).
///
/// # Errors
/// The errors of Kafka's broker, then those of its controller.
pub(super) fn broker(
    core: &mut Core,
    target: Target<'_>,
    named: &[(&str, bool)],
    change: impl FnOnce(ConfigValues) -> Result<ConfigValues, ApiError>,
) -> Result<(), ApiError> {
    let of = match target.name {
        "" => None,
        name => {
            resource::own_node(target.node, name, "Broker id").map_err(|error| match &error.message {
                // Kafka first parses the name as a node id, so its message says "Node".
                Some(message) if message.starts_with("Broker id must") => {
                    invalid(message.replacen("Broker", "Node", 1))
                }
                _ => error,
            })?;
            Some(target.node)
        }
    };
    let fixed: Vec<&str> = named.iter().map(|(name, _)| *name).filter(|name| is_fixed(name)).collect();
    // Deleting the value of a static config changes nothing and is allowed. Setting one is an error that names all
    // static configs of the request.
    if named.iter().any(|(name, is_set)| *is_set && is_fixed(name)) {
        return Err(invalid(format!("Cannot update these configs dynamically: [{}]", fixed.join(", "))));
    }
    let before = core.configs.of_broker(of).cloned().unwrap_or_default();
    let was_set = before.contains_key(MIN_INSYNC_REPLICAS);
    let mut after = change(before)?;
    let named = named.iter().any(|(name, _)| *name == MIN_INSYNC_REPLICAS);
    check_min_insync(of, named || was_set, after.contains_key(MIN_INSYNC_REPLICAS))?;
    for (name, value) in &mut after {
        let Some(def) = broker_def(name) else { continue };
        *value = def.normalize(value).map_err(invalid)?;
    }
    if !target.validate_only {
        core.housekeeping.look_for_dirt();
        core.configs.set_broker(of, after, &mut core.settings.kafka);
    }
    Ok(())
}

/// True if a setting is static: it cannot change while the broker runs.
fn is_fixed(name: &str) -> bool {
    broker_def(name).is_some() && !is_dynamic(name)
}

/// While eligible leader replicas (ELR, KIP-966) are enabled, min.insync.replicas can be set for the cluster only, not
/// for one broker, and cannot be removed.
fn check_min_insync(of: Option<NodeId>, is_touched: bool, is_set: bool) -> Result<(), ApiError> {
    let message = match of {
        Some(_) if is_touched => "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        None if is_touched && !is_set => "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        _ => return Ok(()),
    };
    Err(ApiError::new(ErrorCode::InvalidConfig, message))
}

/// Changes a group's configs.
///
/// # Errors
/// The errors of Kafka's controller.
pub(super) fn group(
    core: &mut Core,
    target: Target<'_>,
    change: impl FnOnce(ConfigValues) -> Result<ConfigValues, ApiError>,
) -> Result<(), ApiError> {
    let group = target.name;
    if group.is_empty() {
        return Err(invalid("Default group resources are not allowed."));
    }
    let before = core.configs.of_group(group).cloned().unwrap_or_default();
    let mut after = change(before)?;
    let refused = |message: String| ApiError::new(ErrorCode::InvalidConfig, message);
    for (name, value) in &mut after {
        let def = group_def(name).ok_or_else(|| refused(format!("Unknown group config name: {name}")))?;
        *value = def.normalize(value).map_err(refused)?;
        check_bounds(&core.settings.kafka, name, value).map_err(refused)?;
    }
    if after.get("errors.deadletterqueue.topic.name").is_some_and(|topic| topic.starts_with("__")) {
        return Err(refused("errors.deadletterqueue.topic.name must not begin with __".to_owned()));
    }
    for kind in ["consumer", "share"] {
        let effective = |what: &str| -> i64 {
            let own = after.get(&format!("{kind}.{what}")).and_then(|value| value.parse().ok());
            own.or_else(|| core.settings.kafka.number(&format!("group.{kind}.{what}"))).unwrap_or_default()
        };
        if effective("session.timeout.ms") <= effective("heartbeat.interval.ms") {
            let message = format!("{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms");
            return Err(refused(message));
        }
    }
    if !target.validate_only {
        core.configs.set_group(group, after);
    }
    Ok(())
}

/// Checks a number against the bounds that the broker sets for a group config: those of `share.x` are `group.share.min.x`
/// and `group.share.max.x`.
fn check_bounds(settings: &KafkaSettings, name: &str, value: &str) -> Result<(), String> {
    let (Some((kind, what)), Ok(number)) = (name.split_once('.'), value.parse::<i64>()) else { return Ok(()) };
    for (bound, than) in [("min", "greater"), ("max", "less")] {
        let setting = format!("group.{kind}.{bound}.{what}");
        let is_beyond = |limit: i64| if bound == "min" { number < limit } else { number > limit };
        if settings.number(&setting).is_some_and(is_beyond) {
            return Err(format!("{name} must be {than} than or equal to {setting}"));
        }
    }
    Ok(())
}

/// Changes a subscription of client metrics (KIP-714).
///
/// # Errors
/// The errors of Kafka's controller.
pub(super) fn client_metrics(
    core: &mut Core,
    target: Target<'_>,
    change: impl FnOnce(ConfigValues) -> Result<ConfigValues, ApiError>,
) -> Result<(), ApiError> {
    let name = target.name;
    if name.is_empty() {
        return Err(invalid("Default client metrics resources are not allowed."));
    }
    let mut after = change(core.client_metrics.of(name).cloned().unwrap_or_default())?;
    for (config, value) in &mut after {
        let def = client_metrics_def(config)
            .ok_or_else(|| invalid(format!("Unknown client metrics configuration: {config}")))?;
        *value = def.normalize(value).map_err(|message| match config.as_str() {
            "interval.ms" => invalid(format!(
                "Invalid value {value} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            )),
            _ => ApiError::new(ErrorCode::InvalidConfig, message),
        })?;
        if config == "match" {
            check_match(value).map_err(|message| ApiError::new(ErrorCode::InvalidConfig, message))?;
        }
    }
    if !target.validate_only {
        core.client_metrics.set(name, after);
    }
    Ok(())
}

pub(super) fn client_metrics_def(name: &str) -> Option<&'static crate::cluster::ConfigDef> {
    CLIENT_METRICS_CONFIGS.iter().find(|def| def.name == name)
}

pub(super) fn group_def(name: &str) -> Option<&'static crate::cluster::ConfigDef> {
    GROUP_CONFIGS.iter().find(|def| def.name == name)
}
