//! The requests and timers of a share group as its slot handles them, and what they change elsewhere: the state of
//! share partitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;
use monedula_protocol::wire::Reader;

use super::records::read_record;
use super::{InitializedTopics, ShareChange, ShareContext, ShareGroup, ShareHeartbeat};
use crate::cluster::{NodeId, StoredRecord};
use crate::core::Core;
use crate::error::ApiError;
use crate::groups::consumer::{ClusterImage, HeartbeatAnswer, JOIN_EPOCH, LEAVE_EPOCH};
use crate::groups::{Effects, Group, Slot};

impl Core {
    /// Calls `work` with the context of a share group.
    pub(crate) fn with_share_context<T>(&self, group_id: &str, work: impl FnOnce(&ShareContext<'_>) -> T) -> T {
        let settings = self.share_settings(group_id);
        let image = ClusterImage { topics: &self.topics, nodes: &self.nodes };
        work(&ShareContext { now_ms: self.now_ms, image: &image, settings: &settings })
    }

    /// Handles a ShareGroupHeartbeat. `partition` is the group's partition of `__consumer_offsets`.
    ///
    /// # Errors
    /// A heartbeat that is refused.
    pub(crate) fn share_group_heartbeat(
        &mut self,
        partition: i32,
        group_id: &str,
        request: &ShareHeartbeat,
    ) -> Result<HeartbeatAnswer, ApiError> {
        let before = self.share_group(partition, group_id).map(|group| group.initialized().clone());
        let answered = self.change_group(partition, group_id, |core, slot, effects| {
            core.with_share_context(group_id, |context| slot.share_heartbeat(context, request, effects))
        });
        let answer = answered.unwrap_or_else(|error| Err(ApiError::new(error, error.name())))?;
        let after = self.share_group(partition, group_id).map(|group| group.initialized().clone());
        self.initialize_share_partitions(group_id, &before.unwrap_or_default(), &after.unwrap_or_default());
        Ok(answer)
    }

    /// The share group of this id, if there is one.
    pub(crate) fn share_group(&self, partition: i32, group_id: &str) -> Option<&ShareGroup> {
        match self.groups.slot(partition, group_id)?.group.as_ref()? {
            Group::Share(group) => Some(group),
            _ => None,
        }
    }

    /// Gives those partitions a state that have become part of a group. It is without a start offset: the first fetch
    /// decides on that.
    fn initialize_share_partitions(&mut self, group_id: &str, before: &InitializedTopics, after: &InitializedTopics) {
        for (&topic, &(_, partitions)) in after {
            let known = before.get(&topic).map_or(0, |(_, partitions)| *partitions);
            for index in known..partitions {
                if let Err(error) = self.initialize_share_partition(group_id, topic, index, -1) {
                    log::error!("share group {group_id} has no state of {topic}-{index}: {error}");
                }
            }
        }
    }

    /// Sets the start offsets of a share group without members (AlterShareGroupOffsets). A group that does not exist is
    /// created. The caller has checked that the partitions exist.
    ///
    /// # Errors
    /// NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND for a group of another kind.
    pub(crate) fn alter_share_offsets(
        &mut self,
        node: NodeId,
        group_id: &str,
        offsets: &[(Uuid, i32, i64)],
    ) -> Result<(), ApiError> {
        let partition = self.group_partition(node, group_id)?;
        let named: BTreeMap<Uuid, (Arc<str>, i32)> = offsets
            .iter()
            .filter_map(|(topic, ..)| {
                let name = self.topics.name_of(*topic)?;
                let partitions = self.topics.get(&name)?.partitions.len() as i32;
                Some((*topic, (name, partitions)))
            })
            .collect();
        let before = self.share_group(partition, group_id).map(|group| group.initialized().clone());
        self.change_group(partition, group_id, |_, slot, effects| slot.add_share_state(named.clone(), effects))??;
        self.initialize_share_partitions(group_id, &before.unwrap_or_default(), &named);
        for &(topic, index, offset) in offsets {
            self.initialize_share_partition(group_id, topic, index, offset)?;
        }
        Ok(())
    }

    /// Removes topics from a share group without members (DeleteShareGroupOffsets). Returns those that it had.
    ///
    /// # Errors
    /// NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    pub(crate) fn delete_share_offsets(
        &mut self,
        node: NodeId,
        group_id: &str,
        topics: &[Uuid],
    ) -> Result<InitializedTopics, ApiError> {
        let partition = self.group_partition(node, group_id)?;
        let gone =
            self.change_group(partition, group_id, |_, slot, effects| slot.remove_share_state(topics, effects))??;
        self.delete_share_partitions(group_id, &gone);
        Ok(gone)
    }
}

impl Slot {
    fn share_heartbeat(
        &mut self,
        context: &ShareContext<'_>,
        request: &ShareHeartbeat,
        effects: &mut Effects,
    ) -> Result<HeartbeatAnswer, ApiError> {
        if request.member_epoch == LEAVE_EPOCH {
            let group = self.existing_share_group()?;
            if !group.members.contains_key(&request.member_id) {
                return Err(group.unknown(&request.member_id));
            }
            log::info!("member {} leaves share group {}", request.member_id, group.id);
            let changes = group.fence(context, &request.member_id);
            self.record_share(&changes, effects);
            return Ok(HeartbeatAnswer::left(Arc::clone(&request.member_id), LEAVE_EPOCH));
        }
        let (answer, changes) = match &mut self.group {
            None if request.member_epoch == JOIN_EPOCH => {
                let mut group = ShareGroup::new(Arc::clone(&self.id));
                let done = group.heartbeat(context, request)?;
                self.group = Some(Group::Share(group));
                done
            }
            _ => self.existing_share_group()?.heartbeat(context, request)?,
        };
        self.record_share(&changes, effects);
        Ok(answer)
    }

    fn existing_share_group(&mut self) -> Result<&mut ShareGroup, ApiError> {
        let refused = |why: &str| ApiError::new(ErrorCode::GroupIdNotFound, format!("Group {} {why}.", self.id));
        match &mut self.group {
            Some(Group::Share(group)) => Ok(group),
            Some(_) => Err(refused("is not a share group")),
            None => Err(refused("not found")),
        }
    }

    /// The share group of the slot, which has no members.
    fn empty_share_group(&mut self) -> Result<&mut ShareGroup, ApiError> {
        let group = self.existing_share_group()?;
        match group.is_empty() {
            true => Ok(group),
            false => {
                let message = format!("The group {} is not empty.", group.id);
                Err(ApiError::new(ErrorCode::NonEmptyGroup, message))
            }
        }
    }

    fn add_share_state(&mut self, named: InitializedTopics, effects: &mut Effects) -> Result<(), ApiError> {
        let mut changes = Vec::new();
        if self.group.is_none() {
            self.group = Some(Group::Share(ShareGroup::new(Arc::clone(&self.id))));
            changes.push(ShareChange::Epoch(0, 0));
        }
        let group = self.empty_share_group()?;
        let mut topics = group.initialized().clone();
        topics.extend(named);
        changes.push(group.set_initialized(topics));
        self.record_share(&changes, effects);
        Ok(())
    }

    fn remove_share_state(&mut self, topics: &[Uuid], effects: &mut Effects) -> Result<InitializedTopics, ApiError> {
        let group = self.empty_share_group()?;
        let is_gone = |topic: &Uuid| topics.contains(topic);
        let (gone, kept) = group.initialized().clone().into_iter().partition(|(topic, _)| is_gone(topic));
        let change = group.set_initialized(kept);
        self.record_share(&[change], effects);
        Ok(gone)
    }

    /// Removes the members whose sessions have expired.
    pub(crate) fn expire_share_members(&mut self, context: &ShareContext<'_>, effects: &mut Effects) {
        while let Some(Group::Share(group)) = &mut self.group {
            let Some(member_id) = group.expired(context.now_ms) else { break };
            let changes = group.fence(context, &member_id);
            self.record_share(&changes, effects);
        }
    }

    /// Removes topics that no longer exist from the state of a share group.
    pub(crate) fn drop_lost_share_topics(&mut self, core: &Core, effects: &mut Effects) {
        let Some(Group::Share(group)) = &mut self.group else { return };
        let mut topics = group.initialized().clone();
        topics.retain(|topic, _| core.topics.name_of(*topic).is_some());
        if topics.len() < group.initialized().len() {
            let change = group.set_initialized(topics);
            self.record_share(&[change], effects);
        }
    }

    fn record_share(&self, changes: &[ShareChange], effects: &mut Effects) {
        changes.iter().for_each(|change| effects.store(change.record(&self.id)));
    }

    /// Applies a record that was read back from the log.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub(crate) fn replay_share(&mut self, key_version: i16, record: &StoredRecord) -> Result<(), WireError> {
        let mut key = Reader::new(&record.key);
        key.i16()?;
        let change = read_record(key_version, &mut key, record.value.as_deref())?;
        match &mut self.group {
            Some(Group::Share(_)) if change == ShareChange::EpochGone => self.group = None,
            Some(Group::Share(group)) => group.apply(&change),
            // The tombstones of a group that is gone, or was replaced.
            _ if record.value.is_none() => {}
            _ => {
                let mut group = ShareGroup::new(Arc::clone(&self.id));
                group.apply(&change);
                self.group = Some(Group::Share(group));
            }
        }
        Ok(())
    }
}
