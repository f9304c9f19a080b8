//! News of the cluster: leaders, epochs, topic ids, topics that vanish and come back.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::SlotId;
use super::fault::Fault;
use super::machine::FetchMachine;
use super::partition::Phase;
use crate::cluster::{Cluster, Partition, Topic};
use crate::{Now, TopicPartition};

impl FetchMachine {
    /// The cluster view changed: leaders, epochs, ids, topics that vanished.
    pub fn cluster_changed(&mut self, cluster: &Cluster, now: Now) {
        self.brokers = cluster.brokers.keys().copied().collect();
        for id in self.slots.ids() {
            self.learn(id, cluster, true, now);
            self.touch(id, now);
        }
    }

    /// Takes over what the cluster view says of the partition. Where the view is not `fresh`, what it lacks or refuses may
    /// be old news, from before the user asked: newer metadata has to say so again.
    pub(super) fn learn(&mut self, id: SlotId, cluster: &Cluster, fresh: bool, now: Now) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if slot.phase == Phase::Failed {
            return;
        }
        let partition = slot.partition.clone();
        let Some(topic) = cluster.topics.get(&partition.topic) else {
            return self.want_metadata();
        };
        if topic.error != ErrorCode::None {
            if !fresh {
                slot.unknown_before = topic.unknown_answers;
            } else if let Some(fault) = self.topic_fault(id, topic) {
                return self.stop(id, fault);
            }
            return self.want_metadata();
        }
        slot.unknown_before = 0;
        if !self.identify(id, topic) {
            return self.recreated(id, partition);
        }
        match topic.partitions.get(&partition.partition) {
            Some(known) => self.follow(id, known, now),
            None => self.missing(id, fresh),
        }
    }

    /// Takes over the topic's id. False if the position belongs to another topic of that name.
    fn identify(&mut self, id: SlotId, topic: &Topic) -> bool {
        let Some(slot) = self.slots.get_mut(&id) else { return true };
        if topic.id == Uuid::ZERO || slot.topic_id == topic.id {
            return true;
        }
        if slot.topic_id != Uuid::ZERO && !matches!(slot.phase, Phase::Resolving(_)) {
            return false;
        }
        let index = slot.partition.partition;
        let old = std::mem::replace(&mut slot.topic_id, topic.id);
        self.by_id.remove(&(old, index));
        self.by_id.insert((topic.id, index), id);
        true
    }

    /// The position belongs to a topic that is no more. A group takes the partition away, and gives it anew.
    fn recreated(&mut self, id: SlotId, partition: TopicPartition) {
        match self.slots.get_mut(&id) {
            Some(slot) if slot.waits_for_topic => slot.phase = Phase::Failed,
            _ => self.stop(id, Fault::TopicRecreated { partition }),
        }
    }

    /// The topic exists, but not this partition of it.
    fn missing(&mut self, id: SlotId, fresh: bool) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        slot.missing_answers += u32::from(fresh);
        if slot.missing_answers >= self.config.unknown_topic_answers && !slot.waits_for_topic {
            let partition = slot.partition.clone();
            return self.stop(id, Fault::UnknownTopicOrPartition { partition, what: "partition" });
        }
        self.want_metadata();
    }

    /// Goes to the leader that the view names.
    fn follow(&mut self, id: SlotId, known: &Partition, now: Now) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        slot.missing_answers = 0;
        if known.leader.is_none() {
            slot.leader = None;
            return self.want_metadata();
        }
        if (slot.leader, slot.leader_epoch) == (known.leader, known.leader_epoch) {
            return;
        }
        let newer_epoch = known.leader_epoch > slot.leader_epoch && slot.leader_epoch >= 0;
        (slot.leader, slot.leader_epoch) = (known.leader, known.leader_epoch);
        slot.preferred = None;
        slot.retry_at = now;
        if slot.phase == Phase::Fetching && newer_epoch && slot.offset_epoch >= 0 {
            slot.phase = Phase::Validating;
        }
        // A lookup left with the old leader may never be answered.
        let lookup = slot.lookup.take();
        self.end_lookup(lookup);
    }

    fn topic_fault(&self, id: SlotId, topic: &Topic) -> Option<Fault> {
        let slot = self.slots.get(&id)?;
        let partition = slot.partition.clone();
        // A count below what it was began anew in between.
        let unknown = topic.unknown_answers.checked_sub(slot.unknown_before).unwrap_or(topic.unknown_answers);
        match topic.error {
            ErrorCode::TopicAuthorizationFailed => Some(Fault::TopicDenied { partition }),
            ErrorCode::UnknownTopicOrPartition if slot.waits_for_topic => None,
            ErrorCode::UnknownTopicOrPartition => (unknown >= self.config.unknown_topic_answers)
                .then_some(Fault::UnknownTopicOrPartition { partition, what: "topic" }),
            code => (!code.is_retriable()).then_some(Fault::Refused { partition, code }),
        }
    }
}
