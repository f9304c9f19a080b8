//! Topics that become known, that stay unknown, and that are idle.

use std::sync::Arc;

use super::super::awaiting_metadata::FailedRecords;
use super::super::command::ProduceCommand;
use super::super::pending_topics::TopicStatus;
use super::{Flush, Running};
use crate::error::{ClientError, counted};
use crate::log::{Entry, kinds};

/// Idle topics are looked for this many times within `metadata.max.idle.ms`.
const SWEEPS: u32 = 4;

impl Running {
    /// Checks whether metadata knows the topics that records wait for.
    pub(super) fn check_pending_topics(&mut self) {
        if self.pending_topics.is_empty() {
            return;
        }
        let (now, view) = (self.now(), self.driver.base.metadata.view());
        for topic in self.pending_topics.topics() {
            match self.pending_topics.check(&topic, &view, now) {
                TopicStatus::Waiting => {}
                TopicStatus::Retry(attempts) => {
                    self.driver.base.log.record(&kinds::TOPIC_UNKNOWN, || {
                        let text = format!("no partitions of {topic} after {attempts} lookups; it is looked up again");
                        Entry::new(text).topic(&topic)
                    });
                    self.driver.base.metadata.want();
                }
                TopicStatus::Known(partitions) => {
                    let failed = self.driver.accumulator.topic_known(&topic, partitions);
                    failed.iter().for_each(|failed| self.records_failed(failed));
                    self.topic_resolved(&topic);
                }
                TopicStatus::Refreshed => {
                    let failed = self.driver.accumulator.partitions_refreshed(&topic);
                    failed.iter().for_each(|failed| self.records_failed(failed));
                    self.topic_resolved(&topic);
                }
                TopicStatus::Failed(error) => self.topic_missing(&topic, &error),
                TopicStatus::Expired(after) => {
                    let error = self.driver.base.network.unreachable(after);
                    self.topic_missing(&topic, &error);
                }
            }
        }
    }

    /// As [`Self::topic_failed`]. A transaction that had records for the topic must not be committed without them.
    pub(super) fn topic_missing(&mut self, topic: &Arc<str>, error: &ClientError) {
        // Noted before the outcome is reported: whoever has seen it must not get a further record admitted.
        self.note_refusal();
        if self.topic_failed(topic, error) > 0 {
            self.driver.accumulator.fail_transaction(error);
        }
    }

    /// Records that waited for metadata failed, because their partition does not exist.
    pub(super) fn records_failed(&mut self, failed: &FailedRecords) {
        let FailedRecords { records, error } = failed;
        let text = || format!("{} failed: {error}", counted(*records, "record"));
        self.driver.base.log.record(&kinds::RECORDS_FAILED, text);
        self.driver.count_failed(*records, error);
        self.driver.accumulator.fail_transaction(error);
    }

    /// Fails the records that wait for a topic. Returns their number.
    pub(super) fn topic_failed(&mut self, topic: &Arc<str>, error: &ClientError) -> u64 {
        self.driver.base.log.record(&kinds::RECORDS_FAILED, || Entry::new(error.to_string()).topic(topic));
        let failed = self.driver.accumulator.topic_failed(topic, error);
        self.driver.count_failed(failed, error);
        if !self.pending_topics.is_known(topic) {
            self.driver.base.metadata.release([topic.clone()]);
        }
        self.topic_resolved(topic);
        failed
    }

    fn topic_resolved(&mut self, topic: &Arc<str>) {
        self.pending_topics.remove(topic);
        for flush in &mut self.waiting_flushes {
            flush.topics.remove(topic);
        }
        // The commands about the batches of these records are queued: the flush is queued behind them.
        let (over, waiting) =
            std::mem::take(&mut self.waiting_flushes).into_iter().partition(|flush| flush.topics.is_empty());
        self.waiting_flushes = waiting;
        let over: Vec<Flush> = over;
        over.into_iter()
            .for_each(|flush| self.driver.accumulator.send_command(ProduceCommand::FlushBatches(flush.reply)));
        if self.stopping {
            self.driver.accumulator.stop(false);
        }
    }

    /// Forgets topics that nothing was sent to for `metadata.max.idle.ms`. The machine keeps their sequence numbers, as
    /// the brokers do.
    pub(super) fn forget_idle_topics(&mut self) {
        let (now, max_idle) = (self.now(), self.driver.config.max_idle);
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now + max_idle / SWEEPS;
        let dropped = self.driver.accumulator.forget_idle_topics(max_idle);
        for topic in &dropped {
            self.driver.base.log.record(&kinds::TOPIC_FORGOTTEN, || {
                let idle_ms = max_idle.as_millis();
                Entry::new(format!("{topic} is forgotten: nothing was sent to it for {idle_ms} ms")).topic(topic)
            });
        }
        self.driver.base.metadata.release(dropped);
    }
}
