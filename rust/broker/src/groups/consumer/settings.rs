//! The settings of a consumer group.

use super::Assignor;
use crate::cluster::ConfigValues;
use crate::settings::KafkaSettings;

/// The settings of a consumer group: the broker's, overridden by the group's own configs.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerSettings {
    pub(crate) session_timeout_ms: i32,
    pub(crate) heartbeat_interval_ms: i32,
    /// The shortest time between two target assignments, in milliseconds.
    pub(crate) assignment_interval_ms: i32,
    pub(crate) max_size: i32,
    /// The first is the default.
    pub(crate) assignors: Vec<Assignor>,
    pub(crate) migration: MigrationPolicy,
    /// The limit on members of a classic group, which a downgrade must respect.
    pub(crate) classic_max_size: i32,
}

/// The directions in which a group with members may change its protocol (`group.consumer.migration.policy`).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum MigrationPolicy {
    Disabled,
    Upgrade,
    Downgrade,
    #[default]
    Bidirectional,
}

impl MigrationPolicy {
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "disabled" => Some(Self::Disabled),
            "upgrade" => Some(Self::Upgrade),
            "downgrade" => Some(Self::Downgrade),
            "bidirectional" => Some(Self::Bidirectional),
            _ => None,
        }
    }

    pub(crate) fn upgrades(self) -> bool {
        matches!(self, Self::Upgrade | Self::Bidirectional)
    }

    pub(crate) fn downgrades(self) -> bool {
        matches!(self, Self::Downgrade | Self::Bidirectional)
    }
}

impl ConsumerSettings {
    pub(crate) fn new(kafka: &KafkaSettings) -> Self {
        let mut assignors: Vec<Assignor> =
            kafka.group_consumer_assignors.split(',').filter_map(|name| Assignor::by_name(name.trim())).collect();
        if assignors.is_empty() {
            assignors.extend(Assignor::ALL);
        }
        Self {
            session_timeout_ms: kafka.group_consumer_session_timeout_ms,
            heartbeat_interval_ms: kafka.group_consumer_heartbeat_interval_ms,
            assignment_interval_ms: kafka.group_consumer_assignment_interval_ms,
            max_size: kafka.group_consumer_max_size,
            assignors,
            migration: MigrationPolicy::by_name(&kafka.group_consumer_migration_policy).unwrap_or_default(),
            classic_max_size: kafka.group_max_size,
        }
    }

    /// Replaces the broker's settings by a group's own configs.
    pub(super) fn override_with(&mut self, configs: &ConfigValues) {
        let own = |name: &str| configs.get(name)?.parse().ok();
        self.session_timeout_ms = own("consumer.session.timeout.ms").unwrap_or(self.session_timeout_ms);
        self.heartbeat_interval_ms = own("consumer.heartbeat.interval.ms").unwrap_or(self.heartbeat_interval_ms);
    }

    /// The assignor that is used if no member names one.
    pub(crate) fn default_assignor(&self) -> Assignor {
        self.assignors.first().copied().unwrap_or(Assignor::Uniform)
    }
}
