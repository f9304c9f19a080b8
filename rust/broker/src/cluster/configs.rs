//! Configs that can change at runtime: of all brokers, of one broker, and of groups.
//!
//! All nodes are simulated by one process with one set of settings. A value that is set for one broker is described as
//! that broker's own but applies to all; if several brokers differ, the value of the lowest broker id applies. The
//! values are kept in memory only.

use std::collections::BTreeMap;

use super::config_def::{ConfigDef, ConfigSource, Rule};
use super::static_configs::static_config;
use super::topic_configs::TOPIC_CONFIGS;
use crate::cluster::{NodeId, TopicConfig};
use crate::settings::{ConfigType, KafkaSettings};

/// Values that were set, by config name.
pub(crate) type ConfigValues = BTreeMap<String, String>;

/// A possible source of a value: the name of the config there, the value, and the kind of source.
pub(crate) type Synonym = (&'static str, String, ConfigSource);

/// Dynamic broker configs that are not the default of a topic config.
const OTHER_DYNAMIC: &[(&str, Rule)] = &[
    ("log.cleaner.backoff.ms", Rule::AtLeast(0)),
    ("producer.id.expiration.ms", Rule::AtLeast(1)),
    ("transaction.partition.verification.enable", Rule::Any),
];

/// Configs without a default in Kafka, which has the default in a config with a coarser unit (hours). Here their
/// default is the value of the coarser one.
const WITHOUT_DEFAULT: &[&str] = &["log.retention.ms", "log.roll.ms"];

/// Configs that are dynamic in Kafka and static here: the listeners cannot change at runtime.
const FIXED_HERE: &[&str] = &["listener.security.protocol.map", "listeners"];

const LISTS: &[&str] = &["log.cleanup.policy", "group.consumer.assignors"];

macro_rules! group_configs {
    ($($name:literal, $kind:ident, $rule:expr, $default:literal, $server:expr, $documentation:literal;)*) => {
        &[$(ConfigDef {
            name: $name,
            kind: ConfigType::$kind,
            rule: $rule,
            default: $default,
            server: $server,
            effect: true,
            documentation: $documentation,
        },)*]
    };
}

/// Kafka's group configs without those of Streams groups, which are not implemented, and without those of the
/// assignors' threads. Sorted by name.
#[rustfmt::skip]
pub(crate) const GROUP_CONFIGS: &[ConfigDef] = group_configs! {
    "consumer.assignment.interval.ms", Int, Rule::AtLeast(1), "1000", Some("group.consumer.assignment.interval.ms"),
        "Shortest time between two assignments of the group, in milliseconds.";
    "consumer.heartbeat.interval.ms", Int, Rule::AtLeast(1), "5000", Some("group.consumer.heartbeat.interval.ms"),
        "Heartbeat interval of the group's members, in milliseconds.";
    "consumer.session.timeout.ms", Int, Rule::AtLeast(1), "45000", Some("group.consumer.session.timeout.ms"),
        "Time without a heartbeat after which a member is removed, in milliseconds.";
    "errors.deadletterqueue.copy.record.enable", Boolean, Rule::Any, "false", None,
        "Whether dead letters of the share group have the keys, values and headers of their records.";
    "errors.deadletterqueue.topic.name", String, Rule::Any, "", None,
        "Topic of the records that the share group does not deliver again; empty for none.";
    "share.assignment.interval.ms", Int, Rule::Between(0, 15_000), "1000", Some("group.share.assignment.interval.ms"),
        "Shortest time between two assignments of the share group, in milliseconds.";
    "share.auto.offset.reset", String, Rule::OffsetReset, "latest", None,
        "Where the share group begins with a partition: earliest, latest, or by_duration: with a duration of ISO 8601.";
    "share.delivery.count.limit", Int, Rule::AtLeast(1), "5", Some("group.share.delivery.count.limit"),
        "Number of times that the share group delivers a record.";
    "share.heartbeat.interval.ms", Int, Rule::AtLeast(1), "5000", Some("group.share.heartbeat.interval.ms"),
        "Heartbeat interval of the share group's members, in milliseconds.";
    "share.isolation.level", String, Rule::OneOf(&["read_committed", "read_uncommitted"]), "read_uncommitted", None,
        "Whether the share group reads records of open and aborted transactions.";
    "share.partition.max.record.locks", Int, Rule::AtLeast(1), "2000", Some("group.share.partition.max.record.locks"),
        "Number of offsets of a partition that may be in flight in the share group.";
    "share.record.lock.duration.ms", Int, Rule::AtLeast(1), "30000", Some("group.share.record.lock.duration.ms"),
        "Time for which a member of the share group has a record that it has acquired, in milliseconds.";
    "share.renew.acknowledge.enable", Boolean, Rule::Any, "true", None,
        "Whether members of the share group may renew their locks of records.";
    "share.session.timeout.ms", Int, Rule::AtLeast(1), "45000", Some("group.share.session.timeout.ms"),
        "Time without a heartbeat after which a member of the share group is removed, in milliseconds.";
};

/// The configs that were set at runtime.
#[derive(Debug)]
pub(crate) struct Configs {
    started_with: KafkaSettings,
    /// The values for all brokers (`None`) and for single brokers.
    brokers: BTreeMap<Option<NodeId>, ConfigValues>,
    groups: BTreeMap<String, ConfigValues>,
}

impl Configs {
    pub(crate) fn new(started_with: KafkaSettings) -> Self {
        // In a new cluster of Kafka min.insync.replicas is a dynamic config (KIP-966), so that it is the same on every
        // broker.
        let min_insync = ("min.insync.replicas".to_owned(), started_with.min_insync_replicas.to_string());
        Self { started_with, brokers: [(None, [min_insync].into())].into(), groups: BTreeMap::new() }
    }

    pub(crate) fn of_broker(&self, node: Option<NodeId>) -> Option<&ConfigValues> {
        self.brokers.get(&node)
    }

    pub(crate) fn of_group(&self, group: &str) -> Option<&ConfigValues> {
        self.groups.get(group)
    }

    /// The groups that have configs of their own.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(String::as_str)
    }

    pub(crate) fn set_group(&mut self, group: &str, values: ConfigValues) {
        if values.is_empty() {
            self.groups.remove(group);
        } else {
            self.groups.insert(group.to_owned(), values);
        }
    }

    /// The possible values of a broker config with their sources. The first is in effect.
    pub(crate) fn synonyms_of_broker(&self, node: Option<NodeId>, name: &'static str) -> Vec<Synonym> {
        let set = |node: Option<NodeId>, source: ConfigSource| {
            let value = self.brokers.get(&node).and_then(|values| values.get(name));
            value.map(|value| (name, value.clone(), source))
        };
        let mut synonyms: Vec<Synonym> =
            node.and_then(|node| set(Some(node), ConfigSource::DynamicBroker)).into_iter().collect();
        synonyms.extend(set(None, ConfigSource::DynamicDefaultBroker));
        if let Some((started_with, default)) = entry(&self.started_with, name) {
            if started_with != default {
                synonyms.push((name, started_with, ConfigSource::StaticBroker));
            }
            if !WITHOUT_DEFAULT.contains(&name) {
                synonyms.push((name, default, ConfigSource::Default));
            }
        }
        if let Some(default) = static_config(name).and_then(|config| config.default) {
            synonyms.push((name, default.to_owned(), ConfigSource::Default));
        }
        synonyms
    }

    /// Replaces the dynamic configs of one broker, or of all (`None`), and applies the effective values to the
    /// settings.
    pub(crate) fn set_broker(&mut self, node: Option<NodeId>, values: ConfigValues, settings: &mut KafkaSettings) {
        let before = self.brokers.insert(node, values).unwrap_or_default();
        let after = self.brokers.get(&node).cloned().unwrap_or_default();
        let changed = before.keys().chain(after.keys()).filter(|name| before.get(*name) != after.get(*name));
        for name in changed.filter_map(|name| setting_name(name)) {
            let Some(value) = self.effective(name) else { continue };
            if let Err(error) = settings.set(name, &value) {
                log::error!("a value that was checked is refused: {error}");
            }
        }
    }

    fn effective(&self, name: &'static str) -> Option<String> {
        let own = self.brokers.iter().filter(|(node, _)| node.is_some()).find_map(|(_, values)| values.get(name));
        let all = || self.brokers.get(&None).and_then(|values| values.get(name));
        own.or_else(all).cloned().or_else(|| entry(&self.started_with, name).map(|(value, _)| value))
    }
}

/// The value of a setting and its default.
fn entry(settings: &KafkaSettings, name: &str) -> Option<(String, String)> {
    let find = |settings: &KafkaSettings| {
        settings.entries().into_iter().find(|(entry, ..)| *entry == name).map(|(_, value, _)| value)
    };
    Some((find(settings)?, find(&KafkaSettings::default())?))
}

/// The static name of a broker config that is described, with or without an effect.
pub(crate) fn config_name(name: &str) -> Option<&'static str> {
    setting_name(name).or_else(|| static_config(name).map(|config| config.name))
}

/// The static name of a broker config with an effect, which is a setting.
fn setting_name(name: &str) -> Option<&'static str> {
    KafkaSettings::NAMES.iter().copied().find(|setting| *setting == name)
}

/// The definition of a broker config. It has the same rule as the topic config of which it is the default, if there is
/// one.
pub(crate) fn broker_def(name: &str) -> Option<ConfigDef> {
    if let Some(config) = static_config(name) {
        let like = TOPIC_CONFIGS.iter().find(|def| def.server == Some(config.name));
        return Some(ConfigDef {
            name: config.name,
            kind: config.kind,
            rule: like.map_or(Rule::Any, |def| def.rule),
            default: config.default.unwrap_or_default(),
            server: Some(config.name),
            effect: !config.dynamic || FIXED_HERE.contains(&config.name),
            documentation: config.documentation,
        });
    }
    let name = setting_name(name)?;
    let like = TOPIC_CONFIGS.iter().find(|def| def.server == Some(name));
    let kind = match KafkaSettings::kind(name)? {
        ConfigType::String if LISTS.contains(&name) => ConfigType::List,
        kind => kind,
    };
    let other = OTHER_DYNAMIC.iter().find(|(other, _)| *other == name).map_or(Rule::Any, |(_, rule)| *rule);
    Some(ConfigDef {
        name,
        kind,
        rule: like.map_or(other, |def| def.rule),
        default: "",
        server: Some(name),
        effect: true,
        documentation: KafkaSettings::documentation(name)?,
    })
}

pub(crate) fn is_dynamic(name: &str) -> bool {
    static_config(name).is_some_and(|config| config.dynamic && !FIXED_HERE.contains(&name))
        || TOPIC_CONFIGS.iter().any(|def| def.server == Some(name))
        || OTHER_DYNAMIC.iter().any(|(other, _)| *other == name)
}

pub(crate) fn list_default(def: &ConfigDef) -> String {
    match def.server.and_then(|server| entry(&KafkaSettings::default(), server)) {
        Some((_, default)) => default,
        None => def.default.to_owned(),
    }
}

/// The definition of a topic config, its value, the source of the value, and all possible values with their sources.
pub(crate) type DescribedConfig = (&'static ConfigDef, String, ConfigSource, Vec<Synonym>);

impl Configs {
    pub(crate) fn describe_topic_config(&self, config: &TopicConfig) -> Vec<DescribedConfig> {
        let shown = TOPIC_CONFIGS.iter().filter(|def| def.is_public() || config.get(def.name).is_some());
        let describe = |def: &'static ConfigDef| {
            let own = config.get(def.name).map(|value| (def.name, value.to_owned(), ConfigSource::Topic));
            let mut synonyms: Vec<Synonym> = own.into_iter().collect();
            if let Some(server) = def.server {
                synonyms.extend(self.synonyms_of_topic_default(def, server));
            }
            let (value, source) = match synonyms.first() {
                Some((_, value, source)) => (value.clone(), *source),
                None => (def.default.to_owned(), ConfigSource::Default),
            };
            (def, value, source, synonyms)
        };
        shown.map(describe).collect()
    }

    fn synonyms_of_topic_default(&self, def: &'static ConfigDef, server: &'static str) -> Vec<Synonym> {
        if config_name(server).is_some() {
            return self.synonyms_of_broker(None, server);
        }
        vec![(server, def.default.to_owned(), ConfigSource::Default)]
    }
}
