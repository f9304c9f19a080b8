//! Reassignments of partitions to other nodes (KIP-455). All replicas share one log, so a new replica is in sync as
//! soon as its node is alive: a reassignment stays in progress only while a node that it adds is stopped, or while
//! replication is paused.

use monedula_protocol::error_code::ErrorCode;

use super::Core;
use crate::cluster::NodeId;

impl Core {
    /// Begins a reassignment to these nodes, which have been checked. It completes at once if it can.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION.
    pub(crate) fn reassign(&mut self, topic: &str, index: i32, target: Vec<NodeId>) -> Result<(), ErrorCode> {
        let (nodes, paused) = (&self.nodes, self.replication_paused);
        let partition = self.topics.partition_mut(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let removing = sorted(without(&partition.replicas, &target));
        let adding = sorted(without(&target, &partition.replicas));
        partition.replicas = target;
        partition.replicas.extend(&removing);
        // As in Kafka, replicas that an earlier reassignment adds or removes stay marked if this one adds or removes
        // none.
        if !removing.is_empty() {
            partition.removing = removing;
        }
        if !adding.is_empty() {
            partition.adding = adding;
        }
        // A replica that an earlier reassignment added may be in sync already.
        let arrives = |node: &NodeId| !paused && nodes.is_alive(*node) && !partition.isr.contains(node);
        let arrived: Vec<NodeId> = partition.adding.iter().copied().filter(arrives).collect();
        partition.isr.extend(arrived);
        self.metadata_changed();
        self.complete_reassignment(topic, index);
        Ok(())
    }

    /// Cancels a reassignment: the partition keeps its old replicas.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION; NO_REASSIGNMENT_IN_PROGRESS; INVALID_REPLICA_ASSIGNMENT if only added replicas are
    /// in sync and the topic does not allow unclean leader election.
    pub(crate) fn cancel_reassignment(&mut self, topic: &str, index: i32) -> Result<(), ErrorCode> {
        let unclean = self
            .topics
            .get(topic)
            .is_some_and(|topic| topic.config.unclean_leader_election_enable(&self.settings.kafka));
        let partition = self.topics.partition_mut(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        if !partition.is_reassigned() {
            return Err(ErrorCode::NoReassignmentInProgress);
        }
        let replicas = without(&partition.replicas, &partition.adding);
        let mut isr = without(&partition.isr, &partition.adding);
        if isr.is_empty() {
            if !unclean {
                return Err(ErrorCode::InvalidReplicaAssignment);
            }
            isr.extend(replicas.first());
        }
        self.settle(topic, index, replicas, isr);
        Ok(())
    }

    /// Completes a reassignment whose target replicas are all in sync.
    pub(crate) fn complete_reassignment(&mut self, topic: &str, index: i32) {
        let Some(partition) = self.topics.partition(topic, index).filter(|partition| partition.is_reassigned()) else {
            return;
        };
        let replicas = partition.target_replicas();
        let isr = without(&partition.isr, &partition.removing);
        if !isr.is_empty() && without(&replicas, &isr).is_empty() {
            self.settle(topic, index, replicas, isr);
        }
    }

    fn settle(&mut self, topic: &str, index: i32, replicas: Vec<NodeId>, isr: Vec<NodeId>) {
        let Some(partition) = self.topics.partition_mut(topic, index) else { return };
        let shrinks = !without(&partition.replicas, &replicas).is_empty();
        let leader = partition.leader;
        partition.replicas = replicas;
        partition.adding.clear();
        partition.removing.clear();
        let stays = leader.is_some_and(|leader| isr.contains(&leader));
        self.set_isr(topic, index, isr);
        match stays {
            false => self.elect(topic, index),
            // A new leader epoch, so that a node which lost its replica is not taken for one that has it.
            true if shrinks => drop(self.set_leader(topic, index, leader)),
            true => {}
        }
        self.metadata_changed();
    }
}

fn without(nodes: &[NodeId], gone: &[NodeId]) -> Vec<NodeId> {
    nodes.iter().copied().filter(|node| !gone.contains(node)).collect()
}

fn sorted(mut nodes: Vec<NodeId>) -> Vec<NodeId> {
    nodes.sort_unstable();
    nodes
}
