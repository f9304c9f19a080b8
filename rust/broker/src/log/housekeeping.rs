//! What logs need done from time to time: retention, and forgetting producers.

use monedula_protocol::error_code::ErrorCode;

use super::{Cleaning, Retention};
use crate::cluster::Topic;
use crate::core::Core;
use crate::settings::KafkaSettings;

/// How often Kafka looks for producers that have been silent for long.
const PRODUCER_CHECK_INTERVAL_MS: i64 = 600_000;
/// Internal topics below this are not compacted: there is nothing to gain.
const COMPACT_ABOVE_BYTES: u64 = 1 << 20;

/// When what is due.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Housekeeping {
    retention_due_ms: i64,
    producers_due_ms: i64,
}

impl Housekeeping {
    pub(crate) fn new(now_ms: i64, settings: &KafkaSettings) -> Self {
        Self {
            retention_due_ms: now_ms.saturating_add(settings.log_retention_check_interval_ms.max(1)),
            producers_due_ms: now_ms + PRODUCER_CHECK_INTERVAL_MS,
        }
    }

    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        Some(self.retention_due_ms.min(self.producers_due_ms))
    }
}

fn retention(topic: &Topic, settings: &KafkaSettings) -> Retention {
    let config = &topic.config;
    Retention {
        delete: config.cleanup_policy(settings).delete,
        ms: config.retention_ms(settings),
        bytes: config.retention_bytes(settings),
    }
}

impl Core {
    pub(crate) fn keep_house(&mut self) {
        let now_ms = self.now_ms;
        if self.housekeeping.retention_due_ms <= now_ms {
            let interval_ms = self.settings.kafka.log_retention_check_interval_ms.max(1);
            self.housekeeping.retention_due_ms = now_ms.saturating_add(interval_ms);
            self.run_retention();
        }
        if self.housekeeping.producers_due_ms <= now_ms {
            self.housekeeping.producers_due_ms = now_ms + PRODUCER_CHECK_INTERVAL_MS;
            let expiration_ms = i64::from(self.settings.kafka.producer_id_expiration_ms);
            for topic in self.topics.all_for_append() {
                for partition in &mut topic.partitions {
                    partition.log.expire_producers(now_ms, expiration_ms);
                }
            }
        }
    }

    /// Drops what no log has to keep any more. A log that cannot is told of, and tried again the next time.
    pub(crate) fn run_retention(&mut self) {
        let mut changed = Vec::new();
        for topic in self.topics.all_mut() {
            let retention = retention(topic, &self.settings.kafka);
            for partition in &mut topic.partitions {
                if partition.log.retain(retention, self.now_ms).unwrap_or(false) {
                    changed.push((topic.name.clone(), partition.index));
                }
            }
        }
        for (topic, index) in changed {
            self.partition_changed(&topic, index);
        }
    }

    /// Compacts a partition, whatever its topic's policy says.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
    pub(crate) fn compact(&mut self, topic: &str, index: i32) -> Result<(), ErrorCode> {
        let settings = &self.settings.kafka;
        let found = self.topics.get_mut(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let cleaning = Cleaning {
            now_ms: self.now_ms,
            delete_retention_ms: found.config.delete_retention_ms(settings),
            min_lag_ms: found.config.min_compaction_lag_ms(settings),
            segment_bytes: found.config.segment_bytes(settings).max(1) as u64,
        };
        let index = usize::try_from(index).map_err(|_| ErrorCode::UnknownTopicOrPartition)?;
        found.partitions.get_mut(index).ok_or(ErrorCode::UnknownTopicOrPartition)?.log.compact(cleaning)
    }

    /// Compacts a partition of an internal topic that has grown much since the last time.
    pub(crate) fn compact_if_grown(&mut self, topic: &str, index: i32) {
        let partition = self.topics.partition(topic, index);
        let grown = partition.is_some_and(|partition| partition.log.wants_compaction(COMPACT_ABOVE_BYTES));
        if grown && let Err(error) = self.compact(topic, index) {
            ::log::error!("{topic}-{index} cannot be compacted: {error}");
        }
    }

    /// Makes a log end at an offset and begins a leader epoch, as an unclean election does to a log that was ahead.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
    pub(crate) fn truncate(&mut self, topic: &str, index: i32, end_offset: i64) -> Result<(), ErrorCode> {
        let partition = self.topics.partition_mut(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        partition.log.truncate_to(end_offset)?;
        let leader = partition.leader;
        self.set_leader(topic, index, leader)
    }

    /// Makes a log start at an offset; -1 stands for the high watermark. Returns where it starts.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE.
    pub(crate) fn delete_records(&mut self, topic: &str, index: i32, before: i64) -> Result<i64, ErrorCode> {
        let partition = self.topics.partition_mut(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let before = if before == -1 { partition.log.high_watermark() } else { before };
        partition.log.delete_before(before)?;
        let start_offset = partition.log.start_offset();
        self.partition_changed(topic, index);
        Ok(start_offset)
    }
}
