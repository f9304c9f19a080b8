//! DescribeConfigs, versions 1-4: describes configs of topics, brokers, groups and client metrics (KIP-714). Of a
//! broker's configs it has the settings of this broker and those that tools read, not all of Kafka's.
//!
//! Not implemented: log levels of broker loggers (the list is empty).

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult, DescribeConfigsSynonym,
};

use super::{ApiError, Handled, resource};
use crate::cluster::{
    CLIENT_METRICS_CONFIGS, ConfigDef, ConfigSource, ConfigValues, GROUP_CONFIGS, NodeId, STATIC_CONFIGS, Synonym,
    broker_def, check_topic_name, config_name, is_dynamic,
};
use crate::core::Core;
use crate::request::Call;
use crate::security::Operation;
use crate::settings::KafkaSettings;

struct ConfigEntry {
    name: String,
    /// `None` for a name that the broker does not know, whose value may be a secret.
    def: Option<ConfigDef>,
    value: Option<String>,
    source: ConfigSource,
    read_only: bool,
    synonyms: Vec<Synonym>,
    documentation: Option<String>,
}

impl ConfigEntry {
    fn new(def: ConfigDef, value: Option<String>, source: ConfigSource, synonyms: Vec<Synonym>) -> Self {
        let remark = if def.effect { "" } else { " This broker keeps it, and it changes nothing." };
        let documentation = Some(format!("{}{remark}", def.documentation));
        Self { name: def.name.to_owned(), def: Some(def), value, source, read_only: false, synonyms, documentation }
    }
}

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &DescribeConfigsRequest<'_>) -> Handled {
    let known = [resource::TOPIC, resource::BROKER, resource::BROKER_LOGGER, resource::CLIENT_METRICS, resource::GROUP];
    if request.resources.iter().any(|wanted| !known.contains(&wanted.resource_type)) {
        // As in Kafka, one resource of an unknown type fails the whole request.
        return Err(ErrorCode::InvalidRequest);
    }
    let described: Vec<Result<Vec<ConfigEntry>, ApiError>> =
        request.resources.iter().map(|wanted| describe(core, call, wanted)).collect();
    let results = request.resources.iter().zip(&described).map(|(wanted, described)| DescribeConfigsResult {
        error_code: described.as_ref().err().map_or(0, |error| error.code.code()),
        error_message: Some(described.as_ref().err().and_then(|error| error.message.as_deref()).unwrap_or_default()),
        resource_type: wanted.resource_type,
        resource_name: wanted.resource_name,
        configs: described.iter().flatten().map(|config| result(request, config)).collect(),
        ..Default::default()
    });
    let response = DescribeConfigsResponse { results: results.collect(), ..Default::default() };
    Ok(call.answer::<DescribeConfigsRequest<'_>>(&response))
}

fn describe(core: &Core, call: &Call<'_>, wanted: &DescribeConfigsResource<'_>) -> Result<Vec<ConfigEntry>, ApiError> {
    let asked = resource::authorized(wanted.resource_type, wanted.resource_name);
    let allowed = core.authorize(call, Operation::DescribeConfigs, asked);
    allowed.map_err(|error| ApiError::new(error, error.message()))?;
    let node = call.node;
    let all = match wanted.resource_type {
        resource::TOPIC => topic(core, wanted.resource_name)?,
        resource::BROKER => broker(core, node, wanted.resource_name)?,
        resource::BROKER_LOGGER => {
            resource::own_node(node, wanted.resource_name, "Broker id")?;
            Vec::new()
        }
        resource::CLIENT_METRICS => client_metrics(core, wanted.resource_name)?,
        _ => group(core, wanted.resource_name)?,
    };
    let keys = wanted.configuration_keys.as_deref().unwrap_or_default();
    Ok(all.into_iter().filter(|config| keys.is_empty() || keys.contains(&config.name.as_str())).collect())
}

fn topic(core: &Core, name: &str) -> Result<Vec<ConfigEntry>, ApiError> {
    check_topic_name(name).map_err(|message| ApiError::new(ErrorCode::InvalidTopicException, message))?;
    let topic = core.topics.get(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let configs = core.configs.describe_topic_config(&topic.config).into_iter();
    let described = configs.map(|(def, value, source, synonyms)| ConfigEntry::new(*def, Some(value), source, synonyms));
    Ok(described.collect())
}

fn broker(core: &Core, node: NodeId, name: &str) -> Result<Vec<ConfigEntry>, ApiError> {
    if name.is_empty() {
        let set = core.configs.of_broker(None).into_iter().flat_map(ConfigValues::keys);
        return Ok(set.map(|name| dynamic(core, None, name)).collect());
    }
    let id: i32 = name.parse().map_err(|_| {
        ApiError::new(ErrorCode::InvalidRequest, format!("Broker id must be an integer, but it is: {name}"))
    })?;
    if id != node.0 {
        let message = format!("Unexpected broker id, expected {node} or empty string, but received {name}");
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    let statics = STATIC_CONFIGS.iter().map(|config| &config.name);
    let mut described: Vec<ConfigEntry> =
        KafkaSettings::NAMES.iter().chain(statics).filter_map(|name| setting(core, Some(node), name)).collect();
    let set =
        [None, Some(node)].into_iter().filter_map(|node| core.configs.of_broker(node)).flat_map(ConfigValues::keys);
    for name in set.filter(|name| broker_def(name).is_none()) {
        if described.iter().all(|config| config.name != *name) {
            described.push(dynamic(core, Some(node), name));
        }
    }
    described.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(described)
}

fn setting(core: &Core, node: Option<NodeId>, name: &'static str) -> Option<ConfigEntry> {
    let def = broker_def(name)?;
    let mut synonyms = core.configs.synonyms_of_broker(node, name);
    match node {
        Some(node) => synonyms.extend(
            core.nodes.own_static_value(node, name, &core.settings).map(|v| (name, v, ConfigSource::StaticBroker)),
        ),
        None => synonyms.truncate(1),
    }
    // A value that was set comes before a default.
    synonyms.sort_by_key(|(.., source)| *source as i8);
    let first = synonyms.first();
    let (value, source) = (first.map(|(_, value, _)| value.clone()), first.map(|(.., source)| *source));
    let source = source.unwrap_or(ConfigSource::Default);
    Some(ConfigEntry { read_only: !is_dynamic(name), ..ConfigEntry::new(def, value, source, synonyms) })
}

/// A config that was set at runtime, whether or not the broker knows its name.
fn dynamic(core: &Core, node: Option<NodeId>, name: &str) -> ConfigEntry {
    if let Some(described) = config_name(name).and_then(|name| setting(core, node, name)) {
        return described;
    }
    let of_node = node.and_then(|node| core.configs.of_broker(Some(node))).is_some_and(|set| set.contains_key(name));
    let source = if of_node { ConfigSource::DynamicBroker } else { ConfigSource::DynamicDefaultBroker };
    ConfigEntry {
        name: name.to_owned(),
        def: None,
        value: None,
        source,
        read_only: true,
        synonyms: Vec::new(),
        documentation: None,
    }
}

fn group(core: &Core, group: &str) -> Result<Vec<ConfigEntry>, ApiError> {
    if group.is_empty() {
        return Err(ApiError::new(ErrorCode::InvalidRequest, "Group name must not be empty"));
    }
    let described = GROUP_CONFIGS.iter().map(|def| {
        let set = core.configs.of_group(group).and_then(|values| values.get(def.name));
        let mut synonyms: Vec<Synonym> =
            set.map(|value| (def.name, value.clone(), ConfigSource::Group)).into_iter().collect();
        match def.server {
            Some(name) => synonyms.extend(core.configs.synonyms_of_broker(None, name)),
            None => synonyms.push((def.name, def.default.to_owned(), ConfigSource::Default)),
        }
        let (value, source) = match synonyms.first() {
            Some((_, value, source)) => (value.clone(), *source),
            None => (def.default.to_owned(), ConfigSource::Default),
        };
        ConfigEntry::new(*def, Some(value), source, synonyms)
    });
    Ok(described.collect())
}

fn client_metrics(core: &Core, name: &str) -> Result<Vec<ConfigEntry>, ApiError> {
    if name.is_empty() {
        return Err(ApiError::new(ErrorCode::InvalidRequest, "Client metrics subscription name must not be empty"));
    }
    let described = CLIENT_METRICS_CONFIGS.iter().map(|def| {
        let set = core.client_metrics.of(name).and_then(|values| values.get(def.name));
        let source = if set.is_some() { ConfigSource::ClientMetrics } else { ConfigSource::Default };
        let value = set.cloned().unwrap_or_else(|| def.default.to_owned());
        // As in Kafka, a default is no synonym here.
        let synonyms = set.map(|value| (def.name, value.clone(), source)).into_iter().collect();
        ConfigEntry::new(*def, Some(value), source, synonyms)
    });
    Ok(described.collect())
}

fn result<'a>(request: &DescribeConfigsRequest<'_>, config: &'a ConfigEntry) -> DescribeConfigsResourceResult<'a> {
    let synonym = |(name, value, source): &'a Synonym| DescribeConfigsSynonym {
        name,
        value: Some(value),
        source: *source as i8,
        ..Default::default()
    };
    DescribeConfigsResourceResult {
        name: &config.name,
        value: config.value.as_deref(),
        read_only: config.read_only,
        config_source: config.source as i8,
        is_sensitive: config.def.is_none(),
        synonyms: config.synonyms.iter().filter(|_| request.include_synonyms).map(synonym).collect(),
        config_type: config.def.map_or(0, |def| def.kind as i8),
        documentation: config.documentation.as_deref().filter(|_| request.include_documentation),
        ..Default::default()
    }
}

pub(super) fn refuse<'a>(request: &DescribeConfigsRequest<'a>, error: ErrorCode) -> DescribeConfigsResponse<'a> {
    let refused = |wanted: &DescribeConfigsResource<'a>| DescribeConfigsResult {
        error_code: error.code(),
        error_message: Some(error.message()),
        resource_type: wanted.resource_type,
        resource_name: wanted.resource_name,
        ..Default::default()
    };
    DescribeConfigsResponse { results: request.resources.iter().map(refused).collect(), ..Default::default() }
}
