//! Nodes, topics and partitions: who leads what, and since which epoch.

mod coordinators;
mod nodes;
mod partition;
mod store;
mod topics;

pub(crate) use coordinators::Coordinated;
pub use nodes::NodeId;
pub(crate) use nodes::{Node, Nodes};
pub(crate) use partition::Partition;
pub(crate) use store::StoredRecord;
pub(crate) use topics::{NewTopic, Topic, TopicConfig, Topics, check_topic_name};
