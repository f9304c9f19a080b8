//! Changes of topics and leaders, with their effects on waiting fetches and on the coordinators.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::Core;
use crate::cluster::{Coordinated, NewTopic, NodeId, Partition, Topic, TopicConfig};
use crate::groups::Groups;
use crate::log::Log;
use crate::transactions::Transactions;

impl Core {
    /// Creates a topic whose name and replicas have been checked.
    pub(crate) fn create_topic(&mut self, new: NewTopic) -> Uuid {
        let id = self.draw.uuid();
        let internal = Coordinated::of_topic(&new.name);
        let partitions = (0..).zip(new.replicas).map(|(index, replicas)| self.new_partition(index, replicas)).collect();
        self.topics.insert(Topic { name: new.name, id, internal: internal.is_some(), config: new.config, partitions });
        self.metadata_changed();
        if let Some(kind) = internal {
            self.coordinators_made(kind);
        }
        id
    }

    fn new_partition(&self, index: i32, replicas: Vec<NodeId>) -> Partition {
        let isr: Vec<_> = replicas.iter().copied().filter(|&node| self.nodes.is_alive(node)).collect();
        Partition {
            index,
            leader: isr.first().copied(),
            leader_epoch: 0,
            replicas,
            isr,
            adding: Vec::new(),
            removing: Vec::new(),
            log: Log::default(),
        }
    }

    /// Adds partitions to a topic. Their replicas have been checked.
    pub(crate) fn add_partitions(&mut self, name: &str, replicas: Vec<Vec<NodeId>>) {
        let Some(first) = self.topics.get(name).map(|topic| topic.partitions.len() as i32) else {
            return;
        };
        let added: Vec<Partition> =
            (first..).zip(replicas).map(|(index, replicas)| self.new_partition(index, replicas)).collect();
        if let Some(topic) = self.topics.get_mut(name) {
            topic.partitions.extend(added);
        }
        self.metadata_changed();
    }

    /// Replaces the configs of a topic, with immediate effect.
    pub(crate) fn set_topic_config(&mut self, name: &str, config: TopicConfig) {
        self.housekeeping.look_for_dirt();
        if let Some(topic) = self.topics.get_mut(name) {
            topic.config = config;
        }
    }

    /// Deletes a topic with its logs and the offsets that groups have committed for it.
    pub(crate) fn delete_topic(&mut self, name: &str) -> Option<Topic> {
        let topic = self.topics.remove(name)?;
        for partition in 0..topic.partitions.len() as i32 {
            self.leader_changed(name, partition);
        }
        Groups::topic_deleted(self, name);
        self.share_topic_deleted(topic.id);
        self.metadata_changed();
        Some(topic)
    }

    /// Must be called after topics or partitions are created, deleted or reassigned: waiting fetches are checked again,
    /// and consumer groups check their subscriptions.
    pub(crate) fn metadata_changed(&mut self) {
        self.parked.all_changed();
        self.parked_share_fetches.all_changed();
        self.groups.metadata_changed();
    }

    /// Makes `leader` the leader of a partition in a new epoch.
    pub(crate) fn set_leader(&mut self, topic: &str, partition: i32, leader: Option<NodeId>) -> Result<(), ErrorCode> {
        let found = self.topics.partition_mut(topic, partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        found.leader = leader;
        found.leader_epoch += 1;
        self.leader_changed(topic, partition);
        Ok(())
    }

    /// Must be called after a partition has a new leader, the same leader in a new epoch, or was deleted: fetches that
    /// wait for it are checked again, and the coordinator of an internal partition changes.
    pub(crate) fn leader_changed(&mut self, topic: &str, partition: i32) {
        self.new_epoch(topic, partition);
        if let Some(id) = self.topics.get(topic).map(|topic| topic.id) {
            self.share_partitions.leader_changed(id, partition);
        }
        match Coordinated::of_topic(topic) {
            Some(Coordinated::Groups) => Groups::leader_changed(self, partition),
            Some(Coordinated::Transactions) => Transactions::leader_changed(self, partition),
            Some(Coordinated::SharePartitions) => self.share_coordinator_changed(partition),
            None => {}
        }
    }
}
