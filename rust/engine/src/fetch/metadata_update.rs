//! Metadata updates: leaders, epochs, topic ids, topics that vanish and come back.

use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::AssignmentId;
use super::fault::Fault;
use super::machine::FetchMachine;
use super::partition::Phase;
use crate::cluster::{Cluster, Partition, Topic};
use crate::{Now, TopicPartition};

impl FetchMachine {
    pub(super) fn update_metadata(&mut self, cluster: &Cluster, now: Now) {
        self.brokers = cluster.brokers.keys().copied().collect();
        for id in self.partitions.ids() {
            self.learn(id, cluster, true, now);
            self.touch(id, now);
        }
    }

    /// Takes over what the cluster view says of the partition. A view that is not `fresh` may be older than the
    /// assignment or the seek: what it lacks or refuses does not count before newer metadata says so again.
    pub(super) fn learn(&mut self, id: AssignmentId, cluster: &Cluster, fresh: bool, now: Now) {
        let Some(state) = self.partitions.get_mut(&id) else { return };
        if state.phase == Phase::Failed {
            return;
        }
        let partition = state.partition.clone();
        let Some(topic) = cluster.topics.get(&partition.topic) else {
            return self.want_metadata();
        };
        if topic.error != ErrorCode::None {
            if !fresh {
                state.unknown_before = topic.unknown_for();
            } else if let Some(fault) = self.topic_fault(id, topic) {
                return self.stop(id, fault);
            }
            return self.want_metadata();
        }
        state.unknown_before = Duration::ZERO;
        if !self.identify(id, topic) {
            return self.recreated(id, partition);
        }
        match topic.partitions.get(&partition.partition) {
            Some(known) => self.follow(id, known, now),
            None => self.missing(id, fresh, now),
        }
    }

    /// Takes over the topic's id. False if the position belongs to another topic of that name.
    fn identify(&mut self, id: AssignmentId, topic: &Topic) -> bool {
        let Some(state) = self.partitions.get_mut(&id) else { return true };
        if topic.id == Uuid::ZERO || state.topic_id == topic.id {
            return true;
        }
        if state.topic_id != Uuid::ZERO && !matches!(state.phase, Phase::ListingOffset(_)) {
            return false;
        }
        let index = state.partition.partition;
        let old = std::mem::replace(&mut state.topic_id, topic.id);
        self.by_id.remove(&(old, index));
        self.by_id.insert((topic.id, index), id);
        true
    }

    /// The position belongs to a topic that was deleted and created again. A group revokes such a partition, and
    /// assigns it again.
    fn recreated(&mut self, id: AssignmentId, partition: TopicPartition) {
        match self.partitions.get_mut(&id) {
            Some(state) if state.waits_for_topic => state.phase = Phase::Failed,
            _ => self.stop(id, Fault::TopicRecreated { partition }),
        }
    }

    /// The topic exists, but not this partition of it.
    fn missing(&mut self, id: AssignmentId, fresh: bool, now: Now) {
        let Some(state) = self.partitions.get_mut(&id) else { return };
        if fresh {
            state.missing_since.get_or_insert(now);
        }
        let is_over = state.missing_since.is_some_and(|since| now >= since + self.config.propagation);
        if is_over && !state.waits_for_topic {
            let partition = state.partition.clone();
            return self.stop(id, Fault::UnknownTopicOrPartition { partition, what: "partition" });
        }
        self.want_metadata();
    }

    /// Goes to the leader that the view names.
    fn follow(&mut self, id: AssignmentId, known: &Partition, now: Now) {
        let Some(state) = self.partitions.get_mut(&id) else { return };
        state.missing_since = None;
        if known.leader.is_none() {
            state.leader = None;
            return self.want_metadata();
        }
        if (state.leader, state.leader_epoch) == (known.leader, known.leader_epoch) {
            return;
        }
        let newer_epoch = known.leader_epoch > state.leader_epoch && state.leader_epoch >= 0;
        (state.leader, state.leader_epoch) = (known.leader, known.leader_epoch);
        state.preferred = None;
        state.retry_at = now;
        if state.phase == Phase::Fetching && newer_epoch && state.offset_epoch >= 0 {
            state.phase = Phase::Validating;
        }
        // A lookup that was sent to the old leader may never be answered.
        let lookup_at = state.lookup_at.take();
        self.end_lookup(lookup_at);
    }

    fn topic_fault(&self, id: AssignmentId, topic: &Topic) -> Option<Fault> {
        let state = self.partitions.get(&id)?;
        let partition = state.partition.clone();
        // A time below the earlier one began again in between.
        let unknown = topic.unknown_for().checked_sub(state.unknown_before).unwrap_or(topic.unknown_for());
        match topic.error {
            ErrorCode::TopicAuthorizationFailed => Some(Fault::TopicDenied { partition }),
            ErrorCode::UnknownTopicOrPartition if state.waits_for_topic => None,
            ErrorCode::UnknownTopicOrPartition => (unknown >= self.config.propagation)
                .then_some(Fault::UnknownTopicOrPartition { partition, what: "topic" }),
            code => (!code.is_retriable()).then_some(Fault::Refused { partition, code }),
        }
    }
}
