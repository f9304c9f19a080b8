//! The view that a consumer group has of the cluster: its topics, their partitions and racks.

use std::sync::Arc;

use monedula_protocol::types::Uuid;

use crate::cluster::{Nodes, Topics};

pub(crate) trait Image {
    fn topic_id(&self, name: &str) -> Option<Uuid>;

    fn topic_name(&self, id: Uuid) -> Option<Arc<str>>;

    /// The number of partitions of a topic.
    fn partitions(&self, id: Uuid) -> Option<i32>;

    /// The names of all topics. Internal ones are included, because Kafka matches patterns against them, too.
    fn names(&self) -> Vec<Arc<str>>;

    /// The racks of each partition's replicas, by partition. A change of them bumps the group's epoch.
    fn racks(&self, _id: Uuid) -> Vec<Vec<Arc<str>>> {
        Vec::new()
    }
}

/// The topics of the broker's cluster.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ClusterImage<'a> {
    pub(crate) topics: &'a Topics,
    pub(crate) nodes: &'a Nodes,
}

impl Image for ClusterImage<'_> {
    fn topic_id(&self, name: &str) -> Option<Uuid> {
        self.topics.get(name).map(|topic| topic.id)
    }

    fn topic_name(&self, id: Uuid) -> Option<Arc<str>> {
        self.topics.name_of(id)
    }

    fn partitions(&self, id: Uuid) -> Option<i32> {
        let name = self.topics.name_of(id)?;
        self.topics.get(&name).map(|topic| topic.partitions.len() as i32)
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.topics.all().map(|topic| Arc::clone(&topic.name)).collect()
    }

    fn racks(&self, id: Uuid) -> Vec<Vec<Arc<str>>> {
        let Some(topic) = self.topics.name_of(id).and_then(|name| self.topics.get(&name)) else {
            return Vec::new();
        };
        let rack = |node: &crate::cluster::NodeId| self.nodes.get(*node).and_then(|node| node.rack.clone());
        let racks = |partition: &crate::cluster::Partition| {
            let mut racks: Vec<_> = partition.replicas.iter().filter_map(rack).collect();
            racks.sort();
            racks
        };
        topic.partitions.iter().map(racks).collect()
    }
}
