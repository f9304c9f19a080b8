//! Coordinators of groups and transactional ids.
//!
//! As in Kafka, a key belongs to a partition of an internal topic, by Java's hash of the key, and the leader of that
//! partition is the coordinator. A coordinator is moved by moving that leader.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::java;

use crate::cluster::NodeId;
use crate::core::Core;

/// The kinds of keys that have coordinators.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Coordinated {
    /// Groups, in `__consumer_offsets`.
    Groups,
    /// Transactional ids, in `__transaction_state`.
    Transactions,
}

impl Coordinated {
    pub(crate) fn topic(self) -> &'static str {
        match self {
            Self::Groups => "__consumer_offsets",
            Self::Transactions => "__transaction_state",
        }
    }

    pub(crate) fn of_topic(name: &str) -> Option<Self> {
        [Self::Groups, Self::Transactions].into_iter().find(|kind| kind.topic() == name)
    }
}

/// The absolute value of the key's hash, modulo the number of partitions. (When Kafka chooses partitions for records,
/// it clears the sign bit instead.)
pub(crate) fn partition_of_key(key: &str, partitions: i32) -> i32 {
    java::hash(key).checked_abs().unwrap_or(0) % partitions.max(1)
}

impl Core {
    /// The partition of the internal topic to which a key belongs.
    pub(crate) fn coordinator_partition(&self, kind: Coordinated, key: &str) -> i32 {
        let partitions = match self.topics.get(kind.topic()) {
            Some(topic) => topic.partitions.len() as i32,
            None => match kind {
                Coordinated::Groups => self.settings.kafka.offsets_topic_num_partitions,
                Coordinated::Transactions => self.settings.kafka.transaction_state_log_num_partitions,
            },
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hashed_as_java_does() {
        // Computed with the JVM's String.hashCode(): its absolute value, modulo 50.
        for (key, partition) in
            [("monedula", 9), ("a group", 16), ("my-group", 12), ("\u{1f426}", 25), ("polygenelubricants", 0), ("", 0)]
        {
            assert_eq!(partition_of_key(key, 50), partition, "{key}");
        }
    }
}
