//! Coordinators of keys, and the internal topics whose leaders they are.

use monedula_protocol::error_code::ErrorCode;

use super::Core;
use crate::cluster::{Coordinated, NewTopic, NodeId, TopicConfig, partition_of_key};

/// Kafka's `offsets.topic.segment.bytes`, `transaction.state.log.segment.bytes` and
/// `share.coordinator.state.topic.segment.bytes`.
const INTERNAL_SEGMENT_BYTES: i32 = 104_857_600;

/// Kafka's `transaction.state.log.min.isr` and `share.coordinator.state.topic.min.isr`, where there are as many replicas.
const STATE_MIN_ISR: usize = 2;

impl Core {
    /// The partition of the internal topic to which a key belongs.
    pub(crate) fn coordinator_partition(&self, kind: Coordinated, key: &str) -> i32 {
        let partitions = match self.topics.get(kind.topic()) {
            Some(topic) => topic.partitions.len() as i32,
            None => kind.partitions(&self.settings.kafka),
        };
        partition_of_key(key, partitions)
    }

    /// The node that coordinates a key; `None` before the internal topic exists.
    pub(crate) fn coordinator(&self, kind: Coordinated, key: &str) -> Option<NodeId> {
        let index = self.coordinator_partition(kind, key);
        self.topics.partition(kind.topic(), index)?.leader
    }

    /// Checks that `node` coordinates the key.
    ///
    /// # Errors
    /// NOT_COORDINATOR.
    pub(crate) fn check_coordinator(&self, kind: Coordinated, key: &str, node: NodeId) -> Result<(), ErrorCode> {
        match self.coordinator(kind, key) {
            Some(coordinator) if coordinator == node && !self.faults.hides(kind.topic(), node) => Ok(()),
            _ => Err(ErrorCode::NotCoordinator),
        }
    }

    /// Creates the internal topic of a kind of keys, if it does not exist yet. Returns whether it did not.
    pub(crate) fn ensure_internal_topic(&mut self, kind: Coordinated) -> bool {
        if self.topics.get(kind.topic()).is_some() {
            return false;
        }
        let replicas = self.nodes.place_replicas(0, kind.partitions(&self.settings.kafka), 3);
        let config = self.internal_config(kind, replicas.first().map_or(1, Vec::len));
        self.create_topic(NewTopic { name: kind.topic().into(), config, replicas });
        true
    }

    /// The configs that Kafka sets for an internal topic. As elsewhere, segments are no larger than the setting.
    fn internal_config(&self, kind: Coordinated, replicas: usize) -> TopicConfig {
        let segment_bytes = INTERNAL_SEGMENT_BYTES.min(self.settings.kafka.log_segment_bytes).to_string();
        let min_insync_replicas = STATE_MIN_ISR.min(replicas).to_string();
        // The coordinator itself compacts the state of share partitions; Kafka deletes what is before the last snapshots.
        let cleanup_policy = if kind == Coordinated::SharePartitions { "delete" } else { "compact" };
        let mut values = vec![("cleanup.policy", cleanup_policy), ("segment.bytes", segment_bytes.as_str())];
        match kind {
            Coordinated::Groups => values.push(("compression.type", "producer")),
            Coordinated::Transactions => values.extend([
                ("compression.type", "uncompressed"),
                ("min.insync.replicas", min_insync_replicas.as_str()),
                ("unclean.leader.election.enable", "false"),
            ]),
            Coordinated::SharePartitions => values.extend([
                ("compression.type", "producer"),
                ("min.insync.replicas", min_insync_replicas.as_str()),
                ("retention.ms", "-1"),
            ]),
        }
        TopicConfig::new(values).unwrap_or_default()
    }

    /// Handles an internal topic that was created or found in the data directory: the leaders of its partitions become
    /// coordinators.
    pub(crate) fn coordinators_made(&mut self, kind: Coordinated) {
        let partitions = self.topics.get(kind.topic()).map_or(0, |topic| topic.partitions.len());
        for partition in 0..partitions {
            self.leader_changed(kind.topic(), partition as i32);
        }
    }
}
