//! What becomes of topics: known, grown, missing, forgotten; and of the records that wait for them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use monedula_engine::cluster::Cluster;
use monedula_protocol::records::NewRecord;

use super::super::memory::TopicShare;
use super::super::parked::{Parked, Stranded};
use super::super::receipt::Sent;
use super::super::record::Refused;
use super::{Accumulator, KnownTopic, Partitions, Slot, Topic};
use crate::error::ClientError;
use crate::lock::lock;

impl Accumulator {
    /// A topic has so many partitions: parked records go their way, in the order of their sending. Says which could not.
    pub(crate) fn topic_known(&self, name: &Arc<str>, partitions: Partitions) -> Option<Stranded> {
        let mut topics = self.topics_mut();
        let topic = topics.remove(name);
        let (mut known, parked) = match topic {
            Some(Topic::Known(topic)) => (topic, None),
            Some(Topic::Parked(parked)) => {
                let parked = parked.into_inner().unwrap_or_else(PoisonError::into_inner);
                (self.new_topic(name, parked.share.clone()), Some(parked))
            }
            None => (self.new_topic(name, TopicShare::default()), None),
        };
        known.resize(partitions);
        let stranded = parked.and_then(|parked| self.forward(&known, parked));
        topics.insert(name.clone(), Topic::Known(known));
        stranded
    }

    fn new_topic(&self, name: &Arc<str>, share: TopicShare) -> KnownTopic {
        let topic = KnownTopic::new(name.clone(), share);
        topic.used_ms.store(self.now_ms(), Ordering::Relaxed);
        topic
    }

    /// Metadata was asked for partitions that were not known: records for them go their way, or fail.
    pub(crate) fn beyond_asked(&self, name: &Arc<str>) -> Option<Stranded> {
        // With every sender out of the way, so that none gets in between.
        match self.topics_mut().get(name) {
            Some(Topic::Known(topic)) => self.forward(topic, topic.take_beyond()),
            _ => None,
        }
    }

    /// Has parked records go their way, while no one else is sending.
    fn forward(&self, topic: &KnownTopic, parked: Parked) -> Option<Stranded> {
        let _lifted = self.memory.lift();
        parked.forward(|(partition, since), record| self.send_parked(topic, partition, record, since))
    }

    /// As [`Self::send_known`], for a record that was parked.
    fn send_parked(
        &self,
        topic: &KnownTopic,
        partition: Option<i32>,
        record: &NewRecord<'_>,
        since: Instant,
    ) -> Result<Sent, ClientError> {
        self.send_known(topic, partition, record, Some(since)).map_err(|refused| match refused {
            Refused::Error(error) => error,
            Refused::Full { .. } => ClientError::Internal("no memory for a parked record".into()),
        })
    }

    /// A topic cannot be sent to: its parked records fail, so many, and the next send looks it up again.
    pub(crate) fn topic_failed(&self, name: &str, error: &ClientError) -> u64 {
        let parked = {
            let mut topics = self.topics_mut();
            match topics.get(name) {
                Some(Topic::Parked(_)) => topics.remove(name),
                Some(Topic::Known(topic)) => return topic.take_beyond().fail(error),
                None => None,
            }
        };
        match parked {
            Some(Topic::Parked(parked)) => parked.into_inner().unwrap_or_else(PoisonError::into_inner).fail(error),
            _ => 0,
        }
    }

    /// Drops topics that nothing was sent to for so long, and of which nothing is under way. Says which.
    pub(crate) fn drop_idle(&self, max_idle: Duration) -> Vec<Arc<str>> {
        let horizon = self.now_ms().saturating_sub(max_idle.as_millis() as u64);
        let is_idle = |topic: &Topic| match topic {
            Topic::Known(topic) => {
                topic.used_ms.load(Ordering::Relaxed) < horizon
                    && topic.slots.iter().all(|slot| slot.line.length() == 0)
                    && topic.beyond().is_empty()
            }
            Topic::Parked(_) => false,
        };
        if !self.topics().values().any(is_idle) {
            return Vec::new();
        }
        let mut topics = self.topics_mut();
        topics.extract_if(|_, topic| is_idle(topic)).map(|(name, _)| name).collect()
    }

    /// How many topics are kept, and how many records are not done yet.
    pub(crate) fn kept(&self) -> (usize, u64) {
        let topics = self.topics();
        let open = |slot: &Slot| slot.state().open.as_ref().map_or(0, |open| u64::from(open.writer.records()));
        let of_topic = |topic: &Topic| match topic {
            Topic::Parked(parked) => lock(parked).records(),
            Topic::Known(topic) => topic.beyond().records() + topic.slots.iter().map(open).sum::<u64>(),
        };
        (topics.len(), topics.values().map(of_topic).sum::<u64>() + self.unfinished.records())
    }

    /// Partitions may have been added to topics, or found other leaders. Says which records that waited for partitions
    /// still have none.
    pub(crate) fn cluster_changed(&self, cluster: &Cluster) -> Vec<Stranded> {
        let told = |name: &Arc<str>| cluster.topics.get(name).and_then(Partitions::of);
        let changed = |(name, topic): (&Arc<str>, &Topic)| match topic {
            Topic::Known(known) => {
                told(name).filter(|told| told.count != known.partitions || told.led != known.led).map(|_| name.clone())
            }
            Topic::Parked(_) => None,
        };
        let changed: Vec<Arc<str>> = self.topics().iter().filter_map(changed).collect();
        if changed.is_empty() {
            return Vec::new();
        }
        let mut stranded = Vec::new();
        let mut topics = self.topics_mut();
        for name in changed {
            if let (Some(Topic::Known(known)), Some(told)) = (topics.get_mut(&name), told(&name)) {
                let had = known.partitions;
                known.resize(told);
                if known.partitions > had {
                    // Now: whoever sends to the new ones next must come behind.
                    stranded.extend(self.forward(known, known.take_beyond()));
                }
            }
        }
        stranded
    }
}
