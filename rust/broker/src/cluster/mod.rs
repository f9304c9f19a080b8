//! The state of the simulated cluster: nodes, topics with their configs, partitions, replicas and leaders.

mod client_metrics;
mod config_def;
mod configs;
mod coordinators;
mod nodes;
mod partition;
mod placement;
mod static_configs;
mod store;
mod topic_configs;
mod topics;

pub(crate) use client_metrics::{CLIENT_METRICS_CONFIGS, ClientMetrics, MetricsClient, Push, check_match};
pub(crate) use config_def::{ConfigDef, ConfigSource, duration_ms};
pub(crate) use configs::{
    ConfigValues, Configs, GROUP_CONFIGS, Synonym, broker_def, config_name, is_dynamic, list_default,
};
pub(crate) use coordinators::{Coordinated, partition_of_key};
pub use nodes::NodeId;
pub(crate) use nodes::{Node, Nodes};
pub(crate) use partition::Partition;
pub(crate) use static_configs::STATIC_CONFIGS;
pub(crate) use store::{StoredRecord, versioned};
pub(crate) use topic_configs::TopicConfig;
pub(crate) use topics::{MAX_PARTITIONS_PER_REQUEST, NewTopic, Topic, Topics, check_topic_name};
