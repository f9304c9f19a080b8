//! Who leads and who is in sync when nodes come and go. All replicas share one log, so whoever comes back has caught up.

use monedula_protocol::error_code::ErrorCode;

use crate::cluster::{NodeId, Partition};
use crate::core::Core;

impl Core {
    /// A node has stopped: it leaves the replicas in sync, unless it is the last of them, and others lead what it led.
    pub(crate) fn node_stopped(&mut self, node: NodeId) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.alive = false;
        }
        self.each_partition(|core, topic, index| {
            let Some(partition) = core.topics.partition_mut(topic, index) else { return };
            if partition.isr.len() > 1 {
                partition.isr.retain(|replica| *replica != node);
            }
            if partition.leader == Some(node) {
                core.elect(topic, index);
            }
        });
    }

    /// A node runs again: it is in sync at once, and leads what nobody could lead without it.
    pub(crate) fn node_started(&mut self, node: NodeId) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.alive = true;
        }
        self.each_partition(|core, topic, index| {
            let Some(partition) = core.topics.partition(topic, index) else { return };
            if !partition.replicas.contains(&node) {
                return;
            }
            if partition.leader.is_none() {
                core.elect(topic, index);
            }
            let Some(partition) = core.topics.partition(topic, index) else { return };
            if partition.leader.is_some() && !partition.isr.contains(&node) {
                let isr = partition.isr.iter().copied().chain([node]).collect();
                core.set_isr(topic, index, isr);
            }
        });
    }

    /// Says which replicas of a partition are in sync. More of them may commit what waited.
    pub(crate) fn set_isr(&mut self, topic: &str, index: i32, isr: Vec<NodeId>) {
        let Some(topic) = self.topics.get_mut(topic) else { return };
        let min_insync_replicas = topic.config.min_insync_replicas(&self.settings.kafka);
        let Some(partition) = usize::try_from(index).ok().and_then(|index| topic.partitions.get_mut(index)) else {
            return;
        };
        partition.isr = isr;
        partition.advance_high_watermark(min_insync_replicas);
    }

    /// Makes sure that a node has a replica in sync, in the preferred place: in place of the last one if it had none.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION.
    pub(crate) fn give_replica(&mut self, topic: &str, index: i32, node: NodeId) -> Result<(), ErrorCode> {
        let partition = self.topics.partition_mut(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        if !partition.replicas.contains(&node) {
            let gone = partition.replicas.pop();
            partition.isr.retain(|replica| Some(*replica) != gone);
            partition.replicas.insert(0, node);
        }
        if !partition.isr.contains(&node) {
            partition.isr.push(node);
        }
        Ok(())
    }

    /// Makes the first living replica in sync the leader; one that is not in sync only where that is allowed.
    fn elect(&mut self, name: &str, index: i32) {
        let Some(topic) = self.topics.get(name) else { return };
        let Some(partition) = self.topics.partition(name, index) else { return };
        let is_alive = |replica: &&NodeId| self.nodes.is_alive(**replica);
        let clean = partition.replicas.iter().filter(is_alive).find(|replica| partition.isr.contains(replica));
        let unclean = match topic.config.unclean_leader_election_enable(&self.settings.kafka) {
            true => partition.replicas.iter().find(is_alive),
            false => None,
        };
        let (leader, is_clean) = (clean.or(unclean).copied(), clean.is_some());
        if leader == partition.leader {
            return;
        }
        if let (Some(leader), false) = (leader, is_clean) {
            log::warn!("node {leader} leads {name}-{index} without having been in sync");
            if let Some(partition) = self.topics.partition_mut(name, index) {
                partition.isr = vec![leader];
            }
        }
        // The partition exists, so this cannot fail.
        let _ = self.set_leader(name, index, leader);
    }

    fn each_partition(&mut self, mut work: impl FnMut(&mut Self, &str, i32)) {
        let of_topic = |topic: &super::Topic| {
            let indexes = topic.partitions.iter().map(|partition: &Partition| partition.index);
            indexes.map(|index| (topic.name.clone(), index)).collect::<Vec<_>>()
        };
        let partitions: Vec<_> = self.topics.all().flat_map(of_topic).collect();
        for (topic, index) in partitions {
            work(self, &topic, index);
        }
    }
}
