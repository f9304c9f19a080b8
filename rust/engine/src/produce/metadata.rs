//! Metadata: who leads the partitions, topics that are gone, and when metadata is requested again.

use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::types::Uuid;

use super::io::SendFault;
use super::machine::{PartitionIndex, ProduceMachine, Timer};
use crate::Now;
use crate::cluster::{Cluster, Topic};

impl ProduceMachine {
    pub(super) fn update_metadata(&mut self, cluster: Arc<Cluster>) {
        self.cluster = cluster;
        for partition in 0..self.queues.len() {
            self.update_leader(partition);
            self.update_partition(partition);
        }
    }

    pub(super) fn unknown_for(&self, partition: PartitionIndex) -> Duration {
        let topic = self.cluster.topics.get(&self.queues[partition].topic_partition.topic);
        topic.map_or(Duration::ZERO, Topic::unknown_for)
    }

    pub(super) fn update_leader(&mut self, partition: PartitionIndex) {
        let queue = &mut self.queues[partition];
        let known = self.cluster.partition(&queue.topic_partition);
        let leader = known.and_then(|known| known.leader).filter(|leader| self.cluster.brokers.contains_key(leader));
        let epoch = known.map_or(-1, |known| known.leader_epoch);
        let id = self.cluster.topics.get(&queue.topic_partition.topic).map_or(Uuid::ZERO, |topic| topic.id);
        if (queue.leader, queue.leader_epoch, queue.topic_id) != (leader, epoch, id) {
            (queue.leader, queue.leader_epoch, queue.topic_id) = (leader, epoch, id);
            // The backoff was for the old leader (KIP-951).
            queue.retry_at = Now::ZERO;
            queue.retry_out_of_order();
        }
        let topic = self.cluster.topics.get(&queue.topic_partition.topic);
        let unknown_for = topic.map_or(Duration::ZERO, Topic::unknown_for);
        queue.unknown_before = queue.unknown_before.min(unknown_for);
        let vanished =
            topic.is_some_and(|topic| !topic.partitions.is_empty() && topic.unknown.is_none()) && known.is_none();
        let is_unknown = topic.is_some_and(|topic| topic.unknown.is_some());
        if vanished || is_unknown && unknown_for - queue.unknown_before >= self.config.propagation {
            let fault = SendFault::UnknownTopicOrPartition { partition: queue.topic_partition.clone() };
            self.fail_partition(partition, &fault);
        }
    }

    /// Schedules a metadata request if batches of the partition wait for a leader, unless one is scheduled.
    pub(super) fn schedule_refresh(&mut self, partition: PartitionIndex) {
        if self.lacks_leader(partition) && self.refresh_at.is_none() {
            let at = self.now + self.config.backoff.delay(self.refreshes, &mut self.jitter);
            self.refreshes = self.refreshes.saturating_add(1);
            self.refresh_at = Some(at);
            self.timers.insert((at, Timer::Refresh));
        }
    }

    /// The scheduled metadata request is due.
    pub(super) fn refresh_due(&mut self) {
        self.refresh_at = None;
        match (0..self.queues.len()).find(|&partition| self.lacks_leader(partition)) {
            Some(partition) => {
                self.refresh_wanted = true;
                self.request_prerequisites(partition);
            }
            None => self.refreshes = 0,
        }
    }

    /// Tells whether batches wait and metadata knows no leader for them, or does not know the topic.
    fn lacks_leader(&self, partition: PartitionIndex) -> bool {
        let queue = &self.queues[partition];
        let topic = self.cluster.topics.get(&queue.topic_partition.topic);
        let unknown = topic.is_some_and(|topic| topic.unknown.is_some());
        queue.oldest_unreported().is_some() && (queue.leader.is_none() || unknown)
    }
}
