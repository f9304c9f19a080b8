//! Configs of topics, brokers, groups and client metrics: describing, changing and finding them.

use std::time::Duration;

use monedula_protocol::api::Request;
use monedula_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
};
use monedula_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use monedula_protocol::messages::list_config_resources::ListConfigResourcesRequest;

use super::call::{AdminCall, CallResult, ItemCall, Items, Recipient, Refusal, Subject, read, refuse_all};
use super::{Admin, AdminContext};
use crate::net::network::NodeId;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

/// A resource that has configs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigResource {
    /// Kafka's number of the resource type.
    pub kind: i8,
    /// The name; for a broker its id, or empty for the defaults of all brokers.
    pub name: String,
}

/// A config with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The name of the config.
    pub name: String,
    /// The value; `None` if it is sensitive.
    pub value: Option<String>,
    /// Kafka's number of the source of the value.
    pub source: i8,
    /// Kafka's number of the config's type, 0 if the broker does not report it.
    pub kind: i8,
    /// True if the value is a secret.
    pub sensitive: bool,
    /// True if it cannot be changed while the broker runs.
    pub read_only: bool,
    /// The configs that the value may be taken from, highest precedence first.
    pub synonyms: Vec<ConfigSynonym>,
    /// The broker's description of the config.
    pub documentation: Option<String>,
}

/// One of the configs that a value may be taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// The name, which may differ from the config's.
    pub name: String,
    /// The value; `None` if it is sensitive.
    pub value: Option<String>,
    /// Kafka's number of its source.
    pub source: i8,
}

/// The kind of change of a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i8)]
pub enum ConfigOperation {
    /// Set the value.
    Set = 0,
    /// Revert to the default.
    Delete = 1,
    /// Append the value to a list.
    Append = 2,
    /// Remove the value from a list.
    Subtract = 3,
}

/// A change of one config.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigChange {
    /// The name of the config.
    pub name: String,
    /// The kind of change.
    pub operation: ConfigOperation,
    /// The value; `None` for [`ConfigOperation::Delete`].
    pub value: Option<String>,
}

impl ConfigResource {
    fn title(&self) -> String {
        let Self { kind, name } = self;
        match (*kind, name.is_empty()) {
            (TOPIC, _) => format!("topic {name}"),
            (BROKER, true) => "all brokers".into(),
            (BROKER, false) => format!("broker {name}"),
            (BROKER_LOGGER, _) => format!("the loggers of broker {name}"),
            (GROUP, _) => format!("group {name}"),
            _ => format!("client metrics {name}"),
        }
    }

    /// A broker answers for its own configs only; those of other resources are sent to `otherwise`.
    fn recipient(&self, otherwise: Recipient) -> Recipient {
        match self.kind {
            BROKER | BROKER_LOGGER => self.name.parse().map_or(otherwise, Recipient::Broker),
            _ => otherwise,
        }
    }

    fn subject(&self) -> Subject {
        match self.kind {
            TOPIC => Subject::topic(&self.name),
            GROUP => Subject::group(&self.name),
            _ => Subject::default(),
        }
    }
}

impl Admin {
    /// Describes the configs of these resources: those with these names, or all.
    pub fn describe_configs(
        &self,
        resources: Vec<ConfigResource>,
        names: Option<Vec<String>>,
        documentation: bool,
        timeout: Duration,
    ) -> AdminCall<Items<ConfigResource, Vec<ConfigEntry>>> {
        self.run(DescribeConfigs { names, documentation }, resources, timeout)
    }

    /// Changes some configs and leaves the others unchanged (IncrementalAlterConfigs); `validate_only` changes none.
    pub fn alter_configs(
        &self,
        changes: Vec<(ConfigResource, Vec<ConfigChange>)>,
        validate_only: bool,
        timeout: Duration,
    ) -> AdminCall<Items<ConfigResource, ()>> {
        self.until_closed(move |context| async move {
            let altered = context.run(AlterConfigs { validate_only }, changes, timeout).await?;
            Ok(altered.into_iter().map(|((resource, _), outcome)| (resource, outcome)).collect())
        })
    }

    /// Lists the resources of these types that have configs; of all types if there are none (KIP-1142, from Kafka 4.1
    /// on; client metrics alone from 3.7 on).
    pub fn list_config_resources(&self, kinds: Vec<i8>, timeout: Duration) -> AdminCall<Vec<ConfigResource>> {
        self.run_one(ListConfigResources { kinds }, (), timeout)
    }
}

struct ListConfigResources {
    kinds: Vec<i8>,
}

impl ItemCall for ListConfigResources {
    type Key = ();
    type Value = Vec<ConfigResource>;
    const RECIPIENT: Recipient = Recipient::InTurn;

    fn what(&self, (): &()) -> String {
        "listing the resources that have settings".into()
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, keys: &[()]) -> CallResult<Self> {
        let build = |version| ListConfigResourcesRequest {
            resource_types: if version == 0 { Vec::new() } else { self.kinds.clone() },
            ..Default::default()
        };
        // Version 0 lists client metrics only.
        let lowest = if self.kinds == [CLIENT_METRICS] { 0 } else { 1 };
        let versions = lowest..=*ListConfigResourcesRequest::VERSIONS.end();
        let (frame, version) = context.call(node, versions, build).await?;
        let response = read::<ListConfigResourcesRequest<'_>>(&frame, version)?;
        if let Err(refusal) = Refusal::check(response.error_code, None) {
            return Ok(refuse_all(keys, &refusal));
        }
        let listed = response.config_resources.iter();
        let mut resources: Vec<ConfigResource> = listed
            .map(|found| ConfigResource { kind: found.resource_type, name: found.resource_name.to_owned() })
            .collect();
        resources.sort();
        Ok(vec![((), Ok(resources))])
    }
}

struct DescribeConfigs {
    names: Option<Vec<String>>,
    documentation: bool,
}

impl ItemCall for DescribeConfigs {
    type Key = ConfigResource;
    type Value = Vec<ConfigEntry>;

    fn what(&self, resource: &ConfigResource) -> String {
        format!("describing the settings of {}", resource.title())
    }

    fn subject(&self, resource: &ConfigResource) -> Subject {
        resource.subject()
    }

    fn recipient(&self, resource: &ConfigResource) -> Recipient {
        resource.recipient(Recipient::InTurn)
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, resources: &[ConfigResource]) -> CallResult<Self> {
        let build = |_| DescribeConfigsRequest {
            resources: resources
                .iter()
                .map(|resource| DescribeConfigsResource {
                    resource_type: resource.kind,
                    resource_name: &resource.name,
                    configuration_keys: self.names.as_ref().map(|names| names.iter().map(String::as_str).collect()),
                    ..Default::default()
                })
                .collect(),
            include_synonyms: true,
            include_documentation: self.documentation,
            ..Default::default()
        };
        let lowest = if self.documentation { 3 } else { *DescribeConfigsRequest::VERSIONS.start() };
        let versions = lowest..=*DescribeConfigsRequest::VERSIONS.end();
        let (frame, version) = context.call(node, versions, build).await?;
        let response = read::<DescribeConfigsRequest<'_>>(&frame, version)?;
        let answers = response.results.iter().map(|answer| {
            let resource = ConfigResource { kind: answer.resource_type, name: answer.resource_name.to_owned() };
            let outcome = Refusal::check(answer.error_code, answer.error_message);
            (resource, outcome.map(|()| answer.configs.iter().map(entry).collect()))
        });
        Ok(answers.collect())
    }
}

fn entry(config: &DescribeConfigsResourceResult<'_>) -> ConfigEntry {
    let synonyms = config.synonyms.iter().map(|synonym| ConfigSynonym {
        name: synonym.name.to_owned(),
        value: synonym.value.map(str::to_owned),
        source: synonym.source,
    });
    ConfigEntry {
        name: config.name.to_owned(),
        value: config.value.map(str::to_owned),
        source: config.config_source,
        kind: config.config_type,
        sensitive: config.is_sensitive,
        read_only: config.read_only,
        synonyms: synonyms.collect(),
        documentation: config.documentation.map(str::to_owned),
    }
}

struct AlterConfigs {
    validate_only: bool,
}

impl ItemCall for AlterConfigs {
    type Key = (ConfigResource, Vec<ConfigChange>);
    type Value = ();

    fn what(&self, (resource, _): &Self::Key) -> String {
        format!("changing the settings of {}", resource.title())
    }

    fn subject(&self, (resource, _): &Self::Key) -> Subject {
        resource.subject()
    }

    fn recipient(&self, (resource, _): &Self::Key) -> Recipient {
        resource.recipient(Recipient::Controller)
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, keys: &[Self::Key]) -> CallResult<Self> {
        let build = |_| IncrementalAlterConfigsRequest {
            resources: keys.iter().map(alterable).collect(),
            validate_only: self.validate_only,
            ..Default::default()
        };
        let (frame, version) = context.call(node, IncrementalAlterConfigsRequest::VERSIONS, build).await?;
        let response = read::<IncrementalAlterConfigsRequest<'_>>(&frame, version)?;
        let answers = response.responses.iter().filter_map(|answer| {
            let mut asked = keys.iter();
            let key = asked
                .find(|(resource, _)| resource.kind == answer.resource_type && resource.name == answer.resource_name)?;
            Some((key.clone(), Refusal::check(answer.error_code, answer.error_message)))
        });
        Ok(answers.collect())
    }
}

fn alterable((resource, changes): &(ConfigResource, Vec<ConfigChange>)) -> AlterConfigsResource<'_> {
    let configs = changes.iter().map(|change| AlterableConfig {
        name: &change.name,
        config_operation: change.operation as i8,
        value: change.value.as_deref(),
        ..Default::default()
    });
    AlterConfigsResource {
        resource_type: resource.kind,
        resource_name: &resource.name,
        configs: configs.collect(),
        ..Default::default()
    }
}
