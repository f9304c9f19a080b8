//! The nodes that the replicas of partitions are placed on, and checks of those that clients name.

use monedula_protocol::error_code::ErrorCode;

use super::{NodeId, Nodes};
use crate::error::ApiError;

impl Nodes {
    /// Places the replicas of new partitions, if there are enough nodes.
    ///
    /// # Errors
    /// INVALID_REPLICATION_FACTOR with Kafka's message if there are too few nodes.
    pub(crate) fn try_place_replicas(
        &self,
        first: i32,
        partitions: i32,
        replicas: i16,
    ) -> Result<Vec<Vec<NodeId>>, ApiError> {
        let registered = self.all().count();
        let problem = if self.alive().next().is_none() {
            "All brokers are currently fenced.".to_owned()
        } else if replicas as usize > registered {
            format!(
                "The target replication factor of {replicas} cannot be reached because only {registered} broker(s) \
                 are registered or some brokers have all their log directories cordoned."
            )
        } else {
            return Ok(self.place_replicas(first, partitions, replicas));
        };
        let message = format!("Unable to replicate the partition {replicas} time(s): {problem}");
        Err(ApiError::new(ErrorCode::InvalidReplicationFactor, message))
    }

    /// Checks the replica assignment of a new partition that a client requests.
    ///
    /// # Errors
    /// INVALID_REPLICA_ASSIGNMENT with Kafka's message.
    pub(crate) fn check_assignment(
        &self,
        partition: i32,
        assignment: &[i32],
        factor: Option<usize>,
    ) -> Result<Vec<NodeId>, ApiError> {
        let replicas = self.check_replicas(assignment)?;
        let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
        let start = "The manual partition assignment includes";
        if let Some(factor) = factor.filter(|factor| *factor != replicas.len()) {
            let count = replicas.len();
            return invalid(format!(
                "{start} a partition with {count} replica(s), but this is not consistent with previous partitions, \
                 which have {factor} replica(s)."
            ));
        }
        if !replicas.iter().any(|node| self.is_alive(*node)) {
            return invalid(format!(
                "All brokers specified in the manual partition assignment for partition {partition} are fenced or in \
                 controlled shutdown."
            ));
        }
        Ok(replicas)
    }

    /// Checks the nodes that a client names for a partition's replicas: each must exist, alive or not, and be named
    /// once.
    ///
    /// # Errors
    /// INVALID_REPLICA_ASSIGNMENT.
    pub(crate) fn check_replicas(&self, assignment: &[i32]) -> Result<Vec<NodeId>, ApiError> {
        let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
        let start = "The manual partition assignment includes";
        let replicas: Vec<NodeId> = assignment.iter().copied().map(NodeId).collect();
        if replicas.is_empty() {
            return invalid(format!("{start} an empty replica list."));
        }
        let mut sorted = replicas.clone();
        sorted.sort_unstable();
        for (index, node) in sorted.iter().enumerate() {
            if self.get(*node).is_none() {
                return invalid(format!("{start} broker {node}, but no such broker is registered."));
            }
            if index > 0 && sorted[index - 1] == *node {
                return invalid(format!("{start} the broker {node} more than once."));
            }
        }
        Ok(replicas)
    }

    /// Places the replicas of new partitions: partition i starts at living node i modulo their number, and continues in
    /// order.
    pub(crate) fn place_replicas(&self, first: i32, partitions: i32, replicas: i16) -> Vec<Vec<NodeId>> {
        let alive: Vec<NodeId> = self.alive().map(|node| node.id).collect();
        // As in Kafka, nodes that are down come last: they get replicas only if there are too few others.
        let down: Vec<NodeId> = self.all().filter(|node| !node.alive).map(|node| node.id).collect();
        let count = (replicas.max(1) as usize).min(alive.len() + down.len());
        let place = |index: i32| {
            let around = (0..alive.len()).map(|step| alive[(index as usize + step) % alive.len()]);
            around.chain(down.iter().copied()).take(count).collect()
        };
        (first..first + partitions).map(place).collect()
    }
}
