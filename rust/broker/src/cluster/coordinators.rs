//! Coordinators of groups, transactional ids and share partitions.
//!
//! As in Kafka, a key belongs to a partition of an internal topic, by Java's hash of the key, and the leader of that
//! partition is the coordinator. A coordinator is moved by moving that leader.

use monedula_protocol::java;

use crate::settings::KafkaSettings;

/// The kinds of keys that have coordinators.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Coordinated {
    /// Groups, in `__consumer_offsets`.
    Groups,
    /// Transactional ids, in `__transaction_state`.
    Transactions,
    /// The state of share partitions, in `__share_group_state`.
    SharePartitions,
}

impl Coordinated {
    pub(crate) fn topic(self) -> &'static str {
        match self {
            Self::Groups => "__consumer_offsets",
            Self::Transactions => "__transaction_state",
            Self::SharePartitions => "__share_group_state",
        }
    }

    /// The partition count of the internal topic when it is created.
    pub(crate) fn partitions(self, settings: &KafkaSettings) -> i32 {
        match self {
            Self::Groups => settings.offsets_topic_num_partitions,
            Self::Transactions => settings.transaction_state_log_num_partitions,
            Self::SharePartitions => settings.share_coordinator_state_topic_num_partitions,
        }
    }

    pub(crate) fn of_topic(name: &str) -> Option<Self> {
        [Self::Groups, Self::Transactions, Self::SharePartitions].into_iter().find(|kind| kind.topic() == name)
    }
}

/// The absolute value of the key's hash, modulo the number of partitions. (When Kafka chooses partitions for records,
/// it clears the sign bit instead.)
pub(crate) fn partition_of_key(key: &str, partitions: i32) -> i32 {
    java::hash(key).checked_abs().unwrap_or(0) % partitions.max(1)
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
