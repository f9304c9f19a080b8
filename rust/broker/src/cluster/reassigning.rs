//! Partitions that move to other nodes (KIP-455). All replicas share one log, so a new one is in sync as soon as its node
//! lives: a move is under way only while one that it adds is down.

use monedula_protocol::error_code::ErrorCode;

use crate::cluster::{NodeId, Partition};
use crate::core::Core;

impl Partition {
    /// Whether it moves.
    pub(crate) fn is_reassigned(&self) -> bool {
        !self.adding.is_empty() || !self.removing.is_empty()
    }

    /// The replicas that it is to have in the end.
    pub(crate) fn target_replicas(&self) -> Vec<NodeId> {
        without(&self.replicas, &self.removing)
    }
}

impl Core {
    /// Begins a move to these nodes, which have been checked; it ends at once where it can.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION.
    pub(crate) fn reassign(&mut self, topic: &str, index: i32, target: Vec<NodeId>) -> Result<(), ErrorCode> {
        let nodes = &self.nodes;
        let partition = self.topics.partition_mut(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let removing = sorted(without(&partition.replicas, &target));
        let adding = sorted(without(&target, &partition.replicas));
        partition.replicas = target;
        partition.replicas.extend(&removing);
        // As in Kafka, what an earlier move adds or removes stays so where this one has nothing of its own.
        if !removing.is_empty() {
            partition.removing = removing;
        }
        if !adding.is_empty() {
            partition.adding = adding;
        }
        let arrived = partition.adding.iter().filter(|&&node| nodes.is_alive(node));
        partition.isr.extend(arrived);
        self.metadata_changed();
        self.complete_reassignment(topic, index);
        Ok(())
    }

    /// Ends a move: the partition stays where it was.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION; NO_REASSIGNMENT_IN_PROGRESS; INVALID_REPLICA_ASSIGNMENT where only what is new is in sync,
    /// unless others may lead too.
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

    /// Ends a move whose new replicas are all in sync.
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
            // Whoever lost its replica must not be taken for one that has it.
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
