//! Share partitions as their leaders keep them: reading back, storing, releasing, and their snapshots as the share
//! coordinators keep them.

use std::sync::Arc;

use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::Core;
use crate::cluster::{Coordinated, NodeId, Partition};
use crate::error::ApiError;
use crate::fetching::Isolation;
use crate::groups::InitializedTopics;
use crate::share::{
    DeadLetter, OffsetReset, SessionKey, ShareKey, SharePartition, ShareSettings, Snapshot, read_snapshot,
    snapshot_record,
};

impl Core {
    /// The settings of a share group.
    pub(crate) fn share_settings(&self, group: &str) -> ShareSettings {
        ShareSettings::new(&self.settings.kafka, self.configs.of_group(group))
    }

    /// The partition of a share partition, if `node` leads it.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER.
    pub(crate) fn share_leader(&self, node: NodeId, key: &ShareKey) -> Result<(Arc<str>, &Partition), ErrorCode> {
        let topic = self.topics.name_of(key.topic).ok_or(ErrorCode::UnknownTopicId)?;
        let partition = self.topics.partition(&topic, key.partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        match partition.leader == Some(node) && !self.faults.hides(&topic, node) {
            true => Ok((topic, partition)),
            false => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// Reads a share partition back, unless it is in use.
    ///
    /// # Errors
    /// COORDINATOR_NOT_AVAILABLE without a leader of its partition of `__share_group_state`, UNKNOWN_SERVER_ERROR if
    /// the group has no state of it, and the errors of [`Core::share_leader`].
    pub(crate) fn load_share_partition(&mut self, node: NodeId, key: &ShareKey) -> Result<(), ApiError> {
        let (_, partition) = self.share_leader(node, key)?;
        if self.share_partitions.partition(key).is_some() {
            return Ok(());
        }
        self.share_state_partition(key)?;
        let Some(snapshot) = self.share_partitions.snapshot(key) else {
            // The group's coordinator has not initialized it, which Kafka does not expect.
            return Err(ErrorCode::UnknownServerError.into());
        };
        let mut share = match snapshot.start_offset {
            -1 => SharePartition::new(self.first_share_offset(partition, &key.group)),
            _ => snapshot.restored(),
        };
        share.log_starts_at(partition.log.start_offset());
        self.share_partitions.put(key, share);
        Ok(())
    }

    /// Where a group begins with a partition (`share.auto.offset.reset`).
    fn first_share_offset(&self, partition: &Partition, group: &str) -> i64 {
        let log = &partition.log;
        let at = |ms: i64| log.first_at(ms).ok().flatten().map(|position| position.offset);
        match self.share_settings(group).offset_reset {
            OffsetReset::Earliest => log.start_offset(),
            OffsetReset::Latest => log.high_watermark(),
            OffsetReset::ByDuration(ms) => at(self.now_ms - ms).unwrap_or(log.high_watermark()),
        }
    }

    /// Changes a share partition that is in use, and stores it. With `anyway` the change takes effect even if it cannot
    /// be stored: time does not stand still without a coordinator.
    ///
    /// # Errors
    /// Those of `change`, and records that cannot be stored; then nothing has changed.
    pub(crate) fn change_share_partition(
        &mut self,
        key: &ShareKey,
        anyway: bool,
        change: impl FnOnce(&mut SharePartition, &ShareSettings, i64) -> Result<Vec<DeadLetter>, ApiError>,
    ) -> Result<(), ApiError> {
        let Some(before) = self.share_partitions.partition(key).cloned() else { return Ok(()) };
        let mut share = before.clone();
        let settings = self.share_settings(&key.group);
        let dead = change(&mut share, &settings, self.now_ms)?;
        match self.store_share_partition(key, (&before, &share)) {
            Err(error) if !anyway => return Err(error.into()),
            Err(error) => log::error!("the state of share group {} is not stored: {error}", key.group),
            Ok(()) => {}
        }
        self.share_partitions.put(key, share);
        self.write_dead_letters(key, &dead, &settings);
        if let Some(topic) = self.topics.name_of(key.topic) {
            // What was freed may be acquired by others.
            self.parked_share_fetches.changed(&topic, key.partition);
        }
        Ok(())
    }

    /// Stores what has become of a share partition.
    fn store_share_partition(
        &mut self,
        key: &ShareKey,
        change: (&SharePartition, &SharePartition),
    ) -> Result<(), ErrorCode> {
        let leader_epoch = self
            .topics
            .name_of(key.topic)
            .and_then(|topic| self.topics.partition(&topic, key.partition))
            .map_or(0, |partition| partition.leader_epoch);
        self.share_state_partition(key)?;
        let last = self.share_partitions.snapshot(key).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let snapshot = last.followed_by(change, leader_epoch, self.now_ms);
        self.store_snapshot(key, Some(snapshot))
    }

    fn store_snapshot(&mut self, key: &ShareKey, snapshot: Option<Snapshot>) -> Result<(), ErrorCode> {
        let partition = self.share_state_partition(key)?;
        let record = snapshot_record(key, snapshot.as_ref()).map_err(|error: WireError| {
            log::error!("the state of a share partition cannot be encoded: {error}");
            ErrorCode::UnknownServerError
        })?;
        self.store(Coordinated::SharePartitions, partition, &[record])?;
        self.share_partitions.set_snapshot(key.clone(), snapshot);
        Ok(())
    }

    /// The partition of `__share_group_state` that has a share partition.
    fn share_state_partition(&self, key: &ShareKey) -> Result<i32, ErrorCode> {
        let name = key.coordinator_key();
        match self.coordinator(Coordinated::SharePartitions, &name) {
            Some(_) => Ok(self.coordinator_partition(Coordinated::SharePartitions, &name)),
            None => Err(ErrorCode::CoordinatorNotAvailable),
        }
    }

    /// Sets the state of a share partition anew, with a start offset or -1 for none yet.
    ///
    /// # Errors
    /// COORDINATOR_NOT_AVAILABLE.
    pub(crate) fn initialize_share_partition(
        &mut self,
        group: &str,
        topic: Uuid,
        partition: i32,
        start_offset: i64,
    ) -> Result<(), ErrorCode> {
        self.ensure_internal_topic(Coordinated::SharePartitions);
        let key = ShareKey { group: group.into(), topic, partition };
        self.share_partitions.drop_partition(&key);
        let state_epoch = self.share_partitions.snapshot(&key).map_or(0, |before| before.state_epoch + 1);
        self.store_snapshot(&key, Some(Snapshot::first(start_offset, state_epoch, self.now_ms)))
    }

    /// Deletes the state of topics of a share group.
    pub(crate) fn delete_share_partitions(&mut self, group: &str, topics: &InitializedTopics) {
        for (&topic, &(_, partitions)) in topics {
            for partition in 0..partitions {
                self.delete_share_partition(&ShareKey { group: group.into(), topic, partition });
            }
        }
    }

    fn delete_share_partition(&mut self, key: &ShareKey) {
        self.share_partitions.drop_partition(key);
        if self.share_partitions.snapshot(key).is_some()
            && let Err(error) = self.store_snapshot(key, None)
        {
            log::error!("the state of share group {} is not deleted: {error}", key.group);
        }
    }

    /// Handles the deletion of a topic: nothing of it is left in any share group.
    pub(super) fn share_topic_deleted(&mut self, topic: Uuid) {
        self.share_partitions.keys_of_topic(topic).iter().for_each(|key| self.delete_share_partition(key));
    }

    /// Handles a new leader, or a new leader epoch, of a partition of `__share_group_state`: reads its snapshots back
    /// if it has one.
    pub(super) fn share_coordinator_changed(&mut self, partition: i32) {
        let partitions =
            self.topics.get(Coordinated::SharePartitions.topic()).map_or(1, |topic| topic.partitions.len());
        let of =
            |key: &ShareKey| crate::cluster::partition_of_key(&key.coordinator_key(), partitions as i32) == partition;
        self.share_partitions.forget_snapshots(of);
        let found = self.topics.partition(Coordinated::SharePartitions.topic(), partition);
        if found.is_none_or(|found| found.leader.is_none()) {
            return;
        }
        for record in self.topics.stored(Coordinated::SharePartitions, partition) {
            match read_snapshot(&record) {
                Ok((key, snapshot)) => self.share_partitions.set_snapshot(key, snapshot),
                Err(error) => log::error!("a record of __share_group_state-{partition} is skipped: {error}"),
            }
        }
    }

    /// Releases the records whose locks are over.
    pub(super) fn expire_share_locks(&mut self) {
        while let Some(key) = self.share_partitions.first_due(self.now_ms) {
            // It cannot fail: the change takes effect anyway.
            let _ = self.change_share_partition(&key, true, |share, settings, now_ms| {
                Ok(share.expire(settings.limits, now_ms))
            });
        }
    }

    /// Ends all locks of a group at once. Returns the number of records.
    pub(crate) fn expire_locks_of(&mut self, group: &str) -> i64 {
        let mut released = 0;
        for key in self.share_partitions.of_group(group) {
            released += self.share_partitions.partition(&key).map_or(0, SharePartition::acquired_count);
            let _ = self
                .change_share_partition(&key, true, |share, settings, _| Ok(share.expire(settings.limits, i64::MAX)));
        }
        released
    }

    /// Releases the records of a session that has ended.
    pub(crate) fn release_session(&mut self, session: &SessionKey) {
        let held = self.share_partitions.of_group(&session.group).into_iter().filter(|key| {
            self.share_leader(session.node, key).is_ok()
                && self.share_partitions.partition(key).is_some_and(|share| share.is_held_by(&session.member))
        });
        for key in held.collect::<Vec<_>>() {
            let _ = self.change_share_partition(&key, true, |share, settings, _| {
                Ok(share.release(&session.member, settings.limits))
            });
        }
    }

    /// The number of records of a share partition that are not done with; -1 before the first fetch.
    pub(crate) fn share_lag(&self, key: &ShareKey, snapshot: &Snapshot) -> i64 {
        let topic = self.topics.name_of(key.topic);
        let Some(partition) = topic.and_then(|topic| self.topics.partition(&topic, key.partition)) else { return -1 };
        match snapshot.start_offset {
            -1 => -1,
            start => {
                let end_offset = Isolation::Uncommitted.end_of(&partition.log);
                end_offset.saturating_sub(start).saturating_sub(snapshot.delivery_complete_count).max(0)
            }
        }
    }
}
