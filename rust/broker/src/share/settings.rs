//! The settings of a share group.

use super::ShareLimits;
use crate::cluster::{ConfigValues, duration_ms};
use crate::settings::KafkaSettings;

/// Where a share group begins with a partition of which it has no state yet (`share.auto.offset.reset`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum OffsetReset {
    Latest,
    Earliest,
    /// So many milliseconds ago.
    ByDuration(i64),
}

/// The settings of a share group: the broker's, overridden by the group's own configs.
#[derive(Clone, Debug)]
pub(crate) struct ShareSettings {
    pub(crate) session_timeout_ms: i32,
    pub(crate) heartbeat_interval_ms: i32,
    /// The shortest time between two target assignments, in milliseconds.
    pub(crate) assignment_interval_ms: i32,
    pub(crate) max_size: i32,
    pub(crate) limits: ShareLimits,
    pub(crate) offset_reset: OffsetReset,
    /// True if records of open and aborted transactions are left out (`share.isolation.level`).
    pub(crate) committed_only: bool,
    /// The topic of records that are not delivered again (KIP-1191); empty for none.
    pub(crate) dead_letter_topic: String,
    /// True if dead letters have the keys, values and headers of their records.
    pub(crate) dead_letters_have_content: bool,
}

impl ShareSettings {
    pub(crate) fn new(kafka: &KafkaSettings, configs: Option<&ConfigValues>) -> Self {
        let text = |name: &str| configs.and_then(|values| values.get(name)).map(String::as_str);
        let number = |name: &str, broker: i32| text(name).and_then(|value| value.parse().ok()).unwrap_or(broker);
        Self {
            session_timeout_ms: number("share.session.timeout.ms", kafka.group_share_session_timeout_ms),
            heartbeat_interval_ms: number("share.heartbeat.interval.ms", kafka.group_share_heartbeat_interval_ms),
            assignment_interval_ms: number("share.assignment.interval.ms", kafka.group_share_assignment_interval_ms),
            max_size: kafka.group_share_max_size,
            limits: ShareLimits {
                lock_ms: number("share.record.lock.duration.ms", kafka.group_share_record_lock_duration_ms).into(),
                delivery_count: number("share.delivery.count.limit", kafka.group_share_delivery_count_limit) as i16,
                record_locks: number("share.partition.max.record.locks", kafka.group_share_partition_max_record_locks)
                    .into(),
                renewals: text("share.renew.acknowledge.enable") != Some("false"),
            },
            offset_reset: match text("share.auto.offset.reset") {
                Some("earliest") => OffsetReset::Earliest,
                Some(value) => duration_ms(value).map_or(OffsetReset::Latest, OffsetReset::ByDuration),
                None => OffsetReset::Latest,
            },
            committed_only: text("share.isolation.level") == Some("read_committed"),
            dead_letter_topic: text("errors.deadletterqueue.topic.name").unwrap_or_default().to_owned(),
            dead_letters_have_content: text("errors.deadletterqueue.copy.record.enable") == Some("true"),
        }
    }
}
