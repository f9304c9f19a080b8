//! Periodic work on logs: retention, compaction, and the expiry of producers.

use monedula_protocol::error_code::ErrorCode;

use super::Core;
use crate::cluster::Topic;
use crate::log::{Cleaning, CompactionConditions, Retention};
use crate::settings::KafkaSettings;

/// Kafka's default of `producer.id.expiration.check.interval.ms`.
const PRODUCER_CHECK_INTERVAL_MS: i64 = 600_000;
/// Partitions of internal topics below this size are not compacted after a write.
const COMPACT_ABOVE_BYTES: u64 = 1 << 20;

#[derive(Copy, Clone, Debug)]
pub(crate) struct Housekeeping {
    retention_due_ms: i64,
    producers_due_ms: i64,
    cleaner_ran_ms: i64,
    /// True if something has happened since then that may make a log worth compacting.
    cleaner_looks: bool,
    /// The time at which a log may become worth compacting although nothing happens.
    cleaner_due_ms: Option<i64>,
}

impl Housekeeping {
    pub(crate) fn new(now_ms: i64, settings: &KafkaSettings) -> Self {
        Self {
            retention_due_ms: now_ms.saturating_add(settings.log_retention_check_interval_ms.max(1)),
            producers_due_ms: now_ms + PRODUCER_CHECK_INTERVAL_MS,
            cleaner_ran_ms: now_ms,
            cleaner_looks: true,
            cleaner_due_ms: None,
        }
    }

    pub(crate) fn next_due_ms(&self, settings: &KafkaSettings) -> Option<i64> {
        let cleaner_due_ms = self.cleaner_due_ms(settings).unwrap_or(i64::MAX);
        Some(self.retention_due_ms.min(self.producers_due_ms).min(cleaner_due_ms))
    }

    /// The cleaner's next run: not before log.cleaner.backoff.ms after the last one, and not while nothing changes.
    fn cleaner_due_ms(&self, settings: &KafkaSettings) -> Option<i64> {
        let earliest_ms = self.cleaner_ran_ms.saturating_add(settings.log_cleaner_backoff_ms.max(1));
        match self.cleaner_looks {
            true => Some(earliest_ms),
            false => self.cleaner_due_ms.map(|due_ms| due_ms.max(earliest_ms)),
        }
    }

    /// Must be called when something happens that may make a log worth compacting: a segment was closed, configs
    /// changed.
    pub(crate) fn look_for_dirt(&mut self) {
        self.cleaner_looks = true;
    }
}

fn cleaning(topic: &Topic, settings: &KafkaSettings, now_ms: i64) -> Cleaning {
    let config = &topic.config;
    Cleaning {
        now_ms,
        delete_retention_ms: config.delete_retention_ms(settings),
        min_lag_ms: config.min_compaction_lag_ms(settings),
        segment_bytes: config.segment_bytes(settings).max(1) as u64,
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
        if self.housekeeping.cleaner_due_ms(&self.settings.kafka).is_some_and(|due_ms| due_ms <= now_ms) {
            self.housekeeping.cleaner_ran_ms = now_ms;
            self.housekeeping.cleaner_looks = false;
            self.housekeeping.cleaner_due_ms = self.run_cleaner();
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

    /// Removes the segments that retention no longer keeps. A log that fails is retried the next time; the error was
    /// logged.
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

    /// Compacts the logs that are worth it, of topics whose cleanup.policy has `compact`. Returns when time alone may
    /// make another log worth it. An error is logged, and the log is checked again when something has changed.
    fn run_cleaner(&mut self) -> Option<i64> {
        let settings = &self.settings.kafka;
        if !settings.log_cleaner_enable {
            return None;
        }
        let mut next_due_ms: Option<i64> = None;
        for topic in self.topics.all_for_append().filter(|topic| topic.config.cleanup_policy(settings).compact) {
            let cleaning = cleaning(topic, settings, self.now_ms);
            let conditions = CompactionConditions {
                min_ratio: topic.config.min_cleanable_dirty_ratio(settings),
                max_lag_ms: topic.config.max_compaction_lag_ms(settings),
            };
            for partition in &mut topic.partitions {
                match partition.log.clean_if_due(conditions, cleaning) {
                    Ok(due_ms) => next_due_ms = [next_due_ms, due_ms].into_iter().flatten().min(),
                    Err(error) => log::error!("{}-{} cannot be compacted: {error}", topic.name, partition.index),
                }
            }
        }
        next_due_ms
    }

    /// Compacts a partition, whatever the cleanup.policy of its topic is.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
    pub(crate) fn compact(&mut self, topic: &str, index: i32) -> Result<(), ErrorCode> {
        let found = self.topics.get_mut(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let cleaning = cleaning(found, &self.settings.kafka, self.now_ms);
        found.partition_mut(index)?.log.compact(cleaning)
    }

    /// Compacts a partition of an internal topic if it has grown much since the last round.
    pub(crate) fn compact_if_grown(&mut self, topic: &str, index: i32) {
        let partition = self.topics.partition(topic, index);
        let grown = partition.is_some_and(|partition| partition.log.wants_compaction(COMPACT_ABOVE_BYTES));
        if grown && let Err(error) = self.compact(topic, index) {
            log::error!("{topic}-{index} cannot be compacted: {error}");
        }
    }

    /// Truncates a log and begins a new leader epoch, as an unclean election does to a log that was ahead.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
    pub(crate) fn truncate(&mut self, topic: &str, index: i32, end_offset: i64) -> Result<(), ErrorCode> {
        let partition = self.topics.partition_mut(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        partition.log.truncate_to(end_offset)?;
        let leader = partition.leader;
        self.set_leader(topic, index, leader)
    }

    /// Moves the log start offset; -1 stands for the high watermark. Returns the log start offset.
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
