//! Commands of the user: assigning, seeking, pausing, and what a driver gives back.

use std::time::Duration;

use monedula_protocol::types::Uuid;

use super::AssignmentId;
use super::config::ResetPolicy;
use super::fault::Fault;
use super::io::{Output, Start};
use super::machine::FetchMachine;
use super::partition::{PartitionState, Phase};
use crate::cluster::Cluster;
use crate::{Now, TopicPartition};

/// The settings of a partition's reading; see [`super::Input::Assign`].
pub(super) struct Assignment {
    pub(super) reading_id: u64,
    pub(super) start: Start,
    pub(super) end: Option<i64>,
    pub(super) waits_for_topic: bool,
}

impl FetchMachine {
    pub(super) fn assign(&mut self, partition: &TopicPartition, how: Assignment, cluster: &Cluster, now: Now) {
        self.unassign(partition, now);
        let id = self.next_id;
        self.next_id += 1;
        let state = PartitionState {
            partition: partition.clone(),
            reading_id: how.reading_id,
            phase: Phase::Failed,
            paused: false,
            offset: 0,
            offset_epoch: -1,
            topic_id: Uuid::ZERO,
            leader: None,
            leader_epoch: -1,
            preferred: None,
            max_bytes: self.config.max_partition_bytes,
            attempts: 0,
            retry_at: Now::ZERO,
            fetched_from: None,
            lookup_at: None,
            missing_since: None,
            end: how.end,
            high_watermark: None,
            unknown_before: Duration::ZERO,
            served: 0,
            waits_for_topic: how.waits_for_topic,
        };
        self.partitions.insert(id, state);
        self.by_partition.insert(partition.clone(), id);
        self.start(id, how.start);
        self.learn(id, cluster, false, now);
        self.touch(id, now);
    }

    pub(super) fn unassign(&mut self, partition: &TopicPartition, now: Now) {
        let Some(id) = self.by_partition.remove(partition) else { return };
        self.set_phase(id, Phase::Failed);
        self.touch(id, now);
        let Some(state) = self.partitions.remove(&id) else { return };
        self.complete.remove(&id);
        self.end_lookup(state.lookup_at);
        self.by_id.remove(&(state.topic_id, partition.partition));
        if self.nodes.values().any(|node| node.session.asked(id).is_some()) {
            self.retired.insert(id, state.partition);
        }
    }

    pub(super) fn seek(
        &mut self,
        partition: &TopicPartition,
        reading_id: u64,
        start: Start,
        cluster: &Cluster,
        now: Now,
    ) {
        let Some(&id) = self.by_partition.get(partition) else { return };
        if let Some(state) = self.partitions.get_mut(&id) {
            state.reading_id = reading_id;
            state.attempts = 0;
            state.retry_at = Now::ZERO;
            state.missing_since = None;
            state.high_watermark = None;
            self.by_id.remove(&(state.topic_id, partition.partition));
            state.topic_id = Uuid::ZERO;
            let lookup_at = state.lookup_at.take();
            self.end_lookup(lookup_at);
        }
        self.start(id, start);
        self.learn(id, cluster, false, now);
        self.touch(id, now);
    }

    pub(super) fn pause(&mut self, partition: &TopicPartition, paused: bool, now: Now) {
        let Some(&id) = self.by_partition.get(partition) else { return };
        if let Some(state) = self.partitions.get_mut(&id) {
            state.paused = paused;
        }
        self.touch(id, now);
    }

    pub(super) fn rewind(&mut self, partition: &TopicPartition, reading_id: u64, offset: i64, now: Now) {
        let Some(id) = self.current(partition, reading_id) else { return };
        let Some(state) = self.partitions.get_mut(&id) else { return };
        (state.offset, state.offset_epoch) = (offset, -1);
        if state.phase == Phase::Failed {
            state.phase = Phase::Fetching;
            // A partition that stopped takes no metadata: its leader may have changed, and its topic been recreated.
            self.want_metadata();
        }
        self.touch(id, now);
    }

    pub(super) fn unreadable(&mut self, partition: &TopicPartition, reading_id: u64, offset: i64, now: Now) {
        let Some(id) = self.current(partition, reading_id) else { return };
        if let Some(state) = self.partitions.get_mut(&id) {
            (state.offset, state.offset_epoch, state.phase) = (offset, -1, Phase::Failed);
        }
        self.touch(id, now);
    }

    /// Puts the partition into the phase in which a read from `start` begins.
    fn start(&mut self, id: AssignmentId, start: Start) {
        let policy = self.config.reset;
        let Some(state) = self.partitions.get_mut(&id) else { return };
        let (partition, reading_id) = (state.partition.clone(), state.reading_id);
        state.phase = match (start, policy) {
            (Start::Offset(offset, offset_epoch), _) => {
                (state.offset, state.offset_epoch) = (offset, offset_epoch);
                self.emit(Output::Positioned { partition, reading_id, offset, moved_from: None });
                self.set_phase(id, if offset_epoch >= 0 { Phase::Validating } else { Phase::Fetching });
                return;
            }
            (Start::Policy, ResetPolicy::Earliest) => Phase::ListingOffset(Start::Earliest),
            (Start::Policy, ResetPolicy::Latest) => Phase::ListingOffset(Start::Latest),
            (Start::Policy, ResetPolicy::ByDuration(age)) => Phase::ListingOffset(Start::Ago(age)),
            (Start::Policy, ResetPolicy::Fail) => {
                state.phase = Phase::Fetching;
                return self.stop(id, Fault::NoOffset { partition });
            }
            (start, _) => Phase::ListingOffset(start),
        };
    }
}
