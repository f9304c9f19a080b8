//! The state of the simulated cluster: nodes, topics with their configs, partitions, replicas and leaders.

mod appends;
mod client_metrics;
mod config_def;
mod configs;
mod coordinators;
mod first_use;
mod housekeeping;
mod nodes;
mod partition;
mod persistence;
mod placement;
mod reassigning;
mod replicas;
mod static_configs;
mod store;
mod topic_configs;
mod topics;

pub(crate) use appends::{Appended, Marker};
pub(crate) use client_metrics::{CLIENT_METRICS_CONFIGS, ClientMetrics, MetricsClient, Push, check_match};
pub(crate) use config_def::{ConfigDef, ConfigSource};
pub(crate) use configs::{Configs, GROUP_CONFIGS, Synonym, Values, broker_def, config_name, is_dynamic, list_default};
pub(crate) use coordinators::Coordinated;
pub(crate) use housekeeping::Housekeeping;
pub use nodes::NodeId;
pub(crate) use nodes::{Node, Nodes};
pub(crate) use partition::Partition;
pub(crate) use replicas::Election;
pub(crate) use static_configs::STATIC_CONFIGS;
pub(crate) use store::{StoredRecord, versioned};
pub(crate) use topic_configs::TopicConfig;
pub(crate) use topics::{MAX_PARTITIONS_PER_REQUEST, NewTopic, Topic, Topics, check_topic_name};
