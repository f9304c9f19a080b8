//! Events of topics, and of the records that wait for them: a topic becomes known, grows, is missing, is
//! forgotten.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use monedula_engine::cluster::Cluster;
use monedula_protocol::records::NewRecord;

use super::super::awaiting_metadata::{AwaitingMetadata, FailedRecords};
use super::super::memory::TopicUsage;
use super::super::pending_topics::TopicPartitions;
use super::super::receipt::RecordFuture;
use super::super::record::Refused;
use super::Accumulator;
use super::topic::{KnownTopic, Partition, Topic};
use crate::error::ClientError;
use crate::lock::lock;

impl Accumulator {
    /// The partitions of a topic are known: sends the records that waited for them, in their order. Returns those that
    /// failed.
    pub(crate) fn topic_known(&self, name: &Arc<str>, partitions: TopicPartitions) -> Option<FailedRecords> {
        let mut topics = self.topics_mut();
        let topic = topics.remove(name);
        let (mut known, awaiting) = match topic {
            Some(Topic::Known(topic)) => (topic, None),
            Some(Topic::Unknown(awaiting)) => {
                let awaiting = awaiting.into_inner().unwrap_or_else(PoisonError::into_inner);
                (self.new_topic(name, awaiting.usage.clone()), Some(awaiting))
            }
            None => (self.new_topic(name, TopicUsage::default()), None),
        };
        known.resize(partitions);
        let failed = awaiting.and_then(|awaiting| self.forward(&known, awaiting));
        topics.insert(name.clone(), Topic::Known(known));
        failed
    }

    fn new_topic(&self, name: &Arc<str>, usage: TopicUsage) -> KnownTopic {
        let topic = KnownTopic::new(name.clone(), usage);
        topic.used_ms.store(self.now_ms(), Ordering::Relaxed);
        topic
    }

    /// Takes new metadata for partitions that were not known: the records for them are sent, or fail.
    pub(crate) fn partitions_refreshed(&self, name: &Arc<str>) -> Option<FailedRecords> {
        // With the exclusive lock, so that no sender overtakes these records.
        match self.topics_mut().get(name) {
            Some(Topic::Known(topic)) => self.forward(topic, topic.take_awaiting_partitions()),
            _ => None,
        }
    }

    /// Sends records that waited, while nothing else is sent.
    fn forward(&self, topic: &KnownTopic, awaiting: AwaitingMetadata) -> Option<FailedRecords> {
        let _lifted = self.memory.lift();
        awaiting.forward(|(partition, since), record| self.send_awaited(topic, partition, record, since))
    }

    /// As [`Self::send_known`], for a record that waited for metadata.
    fn send_awaited(
        &self,
        topic: &KnownTopic,
        partition: Option<i32>,
        record: &NewRecord<'_>,
        since: Instant,
    ) -> Result<RecordFuture, ClientError> {
        self.send_known(topic, partition, record, Some(since)).map_err(|refused| match refused {
            Refused::Error(error) => error,
            Refused::Full { .. } => ClientError::Internal("no memory for a parked record".into()),
        })
    }

    /// A topic cannot be sent to: its waiting records fail. Returns their number. The next send requests its metadata
    /// again.
    pub(crate) fn topic_failed(&self, name: &str, error: &ClientError) -> u64 {
        let awaiting = {
            let mut topics = self.topics_mut();
            match topics.get(name) {
                Some(Topic::Unknown(_)) => topics.remove(name),
                Some(Topic::Known(topic)) => return topic.take_awaiting_partitions().fail(error),
                None => None,
            }
        };
        match awaiting {
            Some(Topic::Unknown(awaiting)) => awaiting.into_inner().unwrap_or_else(PoisonError::into_inner).fail(error),
            _ => 0,
        }
    }

    /// Forgets topics that nothing was sent to for this long and that have no unfinished batches. Returns their names.
    pub(crate) fn forget_idle_topics(&self, max_idle: Duration) -> Vec<Arc<str>> {
        let horizon = self.now_ms().saturating_sub(max_idle.as_millis() as u64);
        let is_idle = |topic: &Topic| match topic {
            Topic::Known(topic) => {
                topic.used_ms.load(Ordering::Relaxed) < horizon
                    && topic.partitions.iter().all(|partition| partition.batches.get() == 0)
                    && topic.awaiting_partitions().is_empty()
            }
            Topic::Unknown(_) => false,
        };
        if !self.topics().values().any(is_idle) {
            return Vec::new();
        }
        let mut topics = self.topics_mut();
        topics.extract_if(|_, topic| is_idle(topic)).map(|(name, _)| name).collect()
    }

    /// The number of topics, and of records that are unfinished.
    pub(crate) fn counts(&self) -> (usize, u64) {
        let topics = self.topics();
        let open =
            |partition: &Partition| partition.state().open.as_ref().map_or(0, |open| u64::from(open.writer.records()));
        let of_topic = |topic: &Topic| match topic {
            Topic::Unknown(awaiting) => lock(awaiting).records(),
            Topic::Known(topic) => {
                topic.awaiting_partitions().records() + topic.partitions.iter().map(open).sum::<u64>()
            }
        };
        (topics.len(), topics.values().map(of_topic).sum::<u64>() + self.unfinished.total())
    }

    /// Topics may have more partitions, or partitions other leaders. Sends records that waited for new partitions, and
    /// returns those that failed.
    pub(crate) fn update_partitions(&self, cluster: &Cluster) -> Vec<FailedRecords> {
        let partitions_of = |name: &Arc<str>| cluster.topics.get(name).and_then(TopicPartitions::of);
        let changed = |(name, topic): (&Arc<str>, &Topic)| match topic {
            Topic::Known(known) => {
                let now = partitions_of(name)?;
                (now.count != known.partition_count || now.led != known.led).then(|| name.clone())
            }
            Topic::Unknown(_) => None,
        };
        let changed: Vec<Arc<str>> = self.topics().iter().filter_map(changed).collect();
        if changed.is_empty() {
            return Vec::new();
        }
        let mut failed = Vec::new();
        let mut topics = self.topics_mut();
        for name in changed {
            if let (Some(Topic::Known(known)), Some(partitions)) = (topics.get_mut(&name), partitions_of(&name)) {
                let had = known.partition_count;
                known.resize(partitions);
                if known.partition_count > had {
                    // Still under the exclusive lock: records that are sent later must come behind.
                    failed.extend(self.forward(known, known.take_awaiting_partitions()));
                }
            }
        }
        failed
    }
}
