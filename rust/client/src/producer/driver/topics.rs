//! Topics that become known, that stay unknown, and that nobody sends to any more.

use std::sync::Arc;

use super::super::lookups::Looked;
use super::super::parked::Stranded;
use super::{Flush, Order, Running};
use crate::error::ClientError;
use crate::log::Level;

/// Into how many parts the time is divided after which a topic is forgotten, to be looked at once in each.
const SWEEPS: u32 = 4;

impl Running {
    /// Looks what has become of topics with parked records.
    pub(super) fn look(&mut self) {
        if self.lookups.is_empty() {
            return;
        }
        let (now, view) = (self.now(), self.driver.metadata.view());
        for topic in self.lookups.topics() {
            match self.lookups.look(&topic, &view, now) {
                Looked::Waiting => {}
                Looked::Again(tries) => {
                    self.driver.log.record(Level::Info, "producer", || {
                        format!("no partitions of {topic} after {tries} lookups; it is looked up again")
                    });
                    self.driver.metadata.want();
                }
                Looked::Known(partitions) => {
                    let stranded = self.driver.accumulator.topic_known(&topic, partitions);
                    stranded.iter().for_each(|stranded| self.stranded(stranded));
                    self.looked_up(&topic);
                }
                Looked::Asked => {
                    let stranded = self.driver.accumulator.beyond_asked(&topic);
                    stranded.iter().for_each(|stranded| self.stranded(stranded));
                    self.looked_up(&topic);
                }
                Looked::Failed(error) => self.topic_missing(&topic, &error),
                Looked::Expired(after) => {
                    let error = ClientError::Unreachable { after, reasons: self.driver.network.failures() };
                    self.topic_missing(&topic, &error);
                }
            }
        }
    }

    /// As [`Self::topic_failed`]; a transaction that had records for the topic must not be committed without them.
    pub(super) fn topic_missing(&mut self, topic: &Arc<str>, error: &ClientError) {
        if self.topic_failed(topic, error) > 0 {
            self.driver.accumulator.spoil(error);
        }
    }

    /// Records that were parked for partitions which are not there failed.
    pub(super) fn stranded(&mut self, stranded: &Stranded) {
        let Stranded { records, error } = stranded;
        self.driver.log.record(Level::Warning, "producer", || format!("{records} records failed: {error}"));
        self.driver.metrics.records_failed(*records);
        self.driver.accumulator.spoil(error);
    }

    /// Says how many records failed.
    pub(super) fn topic_failed(&mut self, topic: &Arc<str>, error: &ClientError) -> u64 {
        self.driver.log.record(Level::Warning, "producer", || error.to_string());
        let failed = self.driver.accumulator.topic_failed(topic, error);
        self.driver.metrics.records_failed(failed);
        if !self.lookups.is_beyond(topic) {
            self.driver.metadata.release([topic.clone()]);
        }
        self.looked_up(topic);
        failed
    }

    fn looked_up(&mut self, topic: &Arc<str>) {
        self.lookups.end(topic);
        for flush in &mut self.waiting_flushes {
            flush.topics.remove(topic);
        }
        // The batches of these records were told of through the orders, where the flush has to stand behind them.
        let (over, waiting) =
            std::mem::take(&mut self.waiting_flushes).into_iter().partition(|flush| flush.topics.is_empty());
        self.waiting_flushes = waiting;
        let over: Vec<Flush> = over;
        over.into_iter().for_each(|flush| self.driver.accumulator.order(Order::FlushBatches(flush.reply)));
        if self.stopping {
            self.driver.accumulator.stop(false);
        }
    }

    /// Forgets topics that nothing was sent to for `metadata.max.idle.ms`. The machine keeps their sequence numbers: the
    /// brokers know them too.
    pub(super) fn drop_idle(&mut self) {
        let (now, max_idle) = (self.now(), self.driver.config.max_idle);
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now + max_idle / SWEEPS;
        let dropped = self.driver.accumulator.drop_idle(max_idle);
        for topic in &dropped {
            self.driver.log.record(Level::Debug, "producer", || {
                format!("{topic} is forgotten: nothing was sent to it for {} ms", max_idle.as_millis())
            });
        }
        self.driver.metadata.release(dropped);
    }
}
