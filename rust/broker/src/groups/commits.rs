//! Offset commits: the checks of the member, the commit itself, and the deletion of offsets, groups and topics. Also
//! the end of a transaction that committed offsets.

use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::records::OffsetKey;
use super::{ClassicGroup, CommittedOffset, ConsumerGroup, Effects, Group, Groups, MemberIdentity, Slot};
use crate::cluster::{Coordinated, NodeId};
use crate::core::Core;

#[derive(Debug)]
pub(crate) struct Commit<'a> {
    pub(crate) group_id: &'a str,
    pub(crate) who: MemberIdentity<'a>,
    /// The version of OffsetCommit or TxnOffsetCommit.
    pub(crate) version: i16,
    /// True if the client knows the errors GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH. Others get ILLEGAL_GENERATION.
    pub(crate) tells_member_epochs: bool,
    /// The retention time that the client requests, if it does.
    pub(crate) retention_ms: Option<i64>,
    /// The producer whose open transaction the offsets belong to; `None` outside of a transaction.
    pub(crate) producer_id: Option<i64>,
    pub(crate) offsets: Vec<NewOffset<'a>>,
}

/// An offset to commit. The caller has checked that the topic and the partition exist.
#[derive(Copy, Clone, Debug)]
pub(crate) struct NewOffset<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: Option<&'a str>,
}

impl Core {
    /// Commits offsets, or adds them to a transaction (KIP-447). Returns the error code of each, in order.
    ///
    /// # Errors
    /// The errors of the whole request: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and those of the member checks.
    pub(crate) fn commit_offsets(&mut self, node: NodeId, commit: &Commit<'_>) -> Result<Vec<ErrorCode>, ErrorCode> {
        let partition = self.group_partition(node, commit.group_id)?;
        self.change_group(partition, commit.group_id, |core, slot, effects| core.commit_in(slot, commit, effects))?
    }

    fn commit_in(
        &self,
        slot: &mut Slot,
        commit: &Commit<'_>,
        effects: &mut Effects,
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        let in_transaction = commit.producer_id.is_some();
        match &mut slot.group {
            Some(Group::Classic(group)) => group.check_commit(self.now_ms, commit.who, in_transaction)?,
            Some(Group::Consumer(group)) => self.check_consumer_commit(group, commit)?,
            Some(Group::Share(_)) if commit.tells_member_epochs => return Err(ErrorCode::GroupIdNotFound),
            Some(Group::Share(_)) => return Err(ErrorCode::IllegalGeneration),
            // A client without membership may commit to a group that does not exist yet: the commit creates it.
            None if commit.who.generation_id < 0 => {
                log::info!("group {} is made by a commit without a member", slot.id);
                let mut group = ClassicGroup::new(Arc::clone(&slot.id));
                group.check_commit(self.now_ms, commit.who, in_transaction)?;
                slot.group = Some(Group::Classic(group));
            }
            None if commit.tells_member_epochs => return Err(ErrorCode::GroupIdNotFound),
            None => return Err(ErrorCode::IllegalGeneration),
        }
        let commit_one = |offset: &NewOffset<'_>| self.commit_one(slot, commit, offset, effects);
        Ok(commit.offsets.iter().map(commit_one).collect())
    }

    fn check_consumer_commit(&self, group: &ConsumerGroup, commit: &Commit<'_>) -> Result<(), ErrorCode> {
        let in_transaction = commit.producer_id.is_some();
        let check = || {
            let Some(member) = group.check_commit(commit.who, commit.version, in_transaction)? else {
                return Ok(());
            };
            let checked = commit.offsets.iter().filter(|offset| !self.has_too_large_metadata(offset));
            for offset in checked {
                let topic = self.topics.get(offset.topic).map(|topic| topic.id).unwrap_or_default();
                member.check_commit_of(commit.who.generation_id, topic, offset.partition)?;
            }
            Ok(())
        };
        check().map_err(|error| match error {
            // Producers below version 6 of TxnOffsetCommit do not know STALE_MEMBER_EPOCH.
            ErrorCode::StaleMemberEpoch if in_transaction && !commit.tells_member_epochs => {
                ErrorCode::IllegalGeneration
            }
            error => error,
        })
    }

    fn has_too_large_metadata(&self, offset: &NewOffset<'_>) -> bool {
        // As in Kafka, the bound counts Java characters (UTF-16 units), not bytes.
        let length = offset.metadata.unwrap_or_default().encode_utf16().count();
        length as i64 > i64::from(self.settings.kafka.offset_metadata_max_bytes)
    }

    fn commit_one(
        &self,
        slot: &mut Slot,
        commit: &Commit<'_>,
        offset: &NewOffset<'_>,
        effects: &mut Effects,
    ) -> ErrorCode {
        if self.has_too_large_metadata(offset) {
            return ErrorCode::OffsetMetadataTooLarge;
        }
        let committed = CommittedOffset {
            topic_id: self.topics.get(offset.topic).map(|topic| topic.id).unwrap_or_default(),
            offset: offset.offset,
            leader_epoch: offset.leader_epoch,
            metadata: offset.metadata.unwrap_or_default().into(),
            committed_at_ms: self.now_ms,
            expires_at_ms: commit.retention_ms.map(|retention_ms| self.now_ms.saturating_add(retention_ms)),
            order: 0,
        };
        let key = OffsetKey { topic: offset.topic, partition: offset.partition, producer_id: commit.producer_id };
        slot.offsets.commit(&slot.id, &key, committed, effects);
        ErrorCode::None
    }

    /// Deletes offsets of a group (OffsetDelete). Returns the error code of each topic, in order. Offsets of topics
    /// that a member subscribes to stay.
    ///
    /// # Errors
    /// NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    pub(crate) fn delete_offsets(
        &mut self,
        node: NodeId,
        group_id: &str,
        topics: &[(&str, Vec<i32>)],
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        let partition = self.group_partition(node, group_id)?;
        self.change_group(partition, group_id, |_, slot, effects| {
            let group = slot.group.as_ref().ok_or(ErrorCode::GroupIdNotFound)?;
            group.check_offset_delete()?;
            let mut outcomes = Vec::with_capacity(topics.len());
            for (topic, partitions) in topics {
                if group.is_subscribed_to(topic) {
                    outcomes.push(ErrorCode::GroupSubscribedToTopic);
                    continue;
                }
                for &partition in partitions {
                    slot.offsets.delete(&slot.id, topic, partition, effects);
                }
                outcomes.push(ErrorCode::None);
            }
            Ok(outcomes)
        })?
    }

    /// Deletes a group with all its offsets, or with its state of share partitions.
    ///
    /// # Errors
    /// NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    pub(crate) fn delete_group(&mut self, node: NodeId, group_id: &str) -> Result<(), ErrorCode> {
        let partition = self.group_partition(node, group_id)?;
        let initialized = self.share_group(partition, group_id).map(|group| group.initialized().clone());
        self.change_group(partition, group_id, |_, slot, effects| {
            let group = slot.group.as_ref().ok_or(ErrorCode::GroupIdNotFound)?;
            if !group.is_empty() {
                return Err(ErrorCode::NonEmptyGroup);
            }
            slot.delete(effects);
            Ok(())
        })??;
        self.delete_share_partitions(group_id, &initialized.unwrap_or_default());
        Ok(())
    }
}

impl Slot {
    /// Deletes the group and its offsets.
    pub(super) fn delete(&mut self, effects: &mut Effects) {
        for (topic, partition) in self.offsets.partitions() {
            self.offsets.delete(&self.id, &topic, partition, effects);
        }
        if let Some(group) = self.group.take() {
            log::info!("group {} is deleted", self.id);
            group.store_gone(&self.id, effects);
        }
    }

    /// Deletes the offsets of topics that no longer exist.
    pub(super) fn drop_lost_topics(&mut self, core: &Core, effects: &mut Effects) {
        for (topic, partition) in self.offsets.partitions() {
            if core.topics.get(&topic).is_none() {
                self.offsets.delete(&self.id, &topic, partition, effects);
            }
        }
    }
}

impl Groups {
    /// Deletes the offsets of a topic that was deleted.
    pub(crate) fn topic_deleted(core: &mut Core, topic: &str) {
        for partition in core.groups.loaded_partitions() {
            for id in core.groups.ids(partition) {
                let kept = core
                    .groups
                    .slot(partition, &id)
                    .is_none_or(|slot| !slot.offsets.mentions(topic) && !matches!(slot.group, Some(Group::Share(_))));
                if kept {
                    continue;
                }
                let deleted = core.change_group(partition, &id, |core, slot, effects| {
                    slot.drop_lost_topics(core, effects);
                    slot.drop_lost_share_topics(core, effects);
                });
                if deleted.is_err() {
                    break;
                }
            }
        }
    }
}

/// Ends a producer's transaction in a partition of `__consumer_offsets`, in place of writing a marker there: the
/// offsets of the transaction become committed, or are dropped. It is idempotent.
///
/// # Errors
/// COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR if the partition has no leader, and why a record could not be stored.
/// All of them are retriable.
pub(crate) fn complete_transaction(
    core: &mut Core,
    producer_id: i64,
    partition: i32,
    commit: bool,
) -> Result<(), ErrorCode> {
    if core.topics.partition(Coordinated::Groups.topic(), partition).is_none() {
        return Ok(());
    }
    core.groups.check_loaded(partition)?;
    let open = core.groups.slots(partition).filter(|slot| slot.offsets.has_pending_of(producer_id));
    let ids: Vec<_> = open.map(|slot| Arc::clone(&slot.id)).collect();
    for id in ids {
        core.change_group(partition, &id, |_, slot, effects| {
            slot.offsets.complete(&slot.id, producer_id, commit, effects);
        })?;
    }
    Ok(())
}
