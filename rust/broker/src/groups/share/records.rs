//! The changes of a share group as records of `__consumer_offsets`, in Kafka's layouts.

use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::api::Message;
use monedula_protocol::error::WireError;
use monedula_protocol::messages::share_group_records::{
    ShareGroupCurrentMemberAssignmentValue, ShareGroupKey, ShareGroupMemberKey, ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue, ShareGroupStatePartitionMetadataValue, ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue, SharePartitions, StatePartitions,
};
use monedula_protocol::wire::Reader;

use super::{InitializedTopics, ShareChange, ShareMember};
use crate::cluster::{StoredRecord, versioned};
use crate::groups::consumer::Partitions;

const SUBSCRIPTION: i16 = 10;
const GROUP: i16 = 11;
const TARGET_EPOCH: i16 = 12;
const TARGET: i16 = 13;
const CURRENT: i16 = 14;
const INITIALIZED: i16 = 15;

pub(crate) fn is_share_record(key_version: i16) -> bool {
    (SUBSCRIPTION..=INITIALIZED).contains(&key_version)
}

/// Reads the change in a record. `key` starts behind the key version.
///
/// # Errors
/// A record that cannot be read.
pub(super) fn read_record(
    key_version: i16,
    key: &mut Reader<'_>,
    value: Option<&[u8]>,
) -> Result<ShareChange, WireError> {
    let mut value = value.map(Reader::new);
    if let Some(value) = &mut value {
        // The version: all values have only version 0.
        value.i16()?;
    }
    if matches!(key_version, SUBSCRIPTION | TARGET | CURRENT) {
        let id: Arc<str> = ShareGroupMemberKey::decode(key, key_version)?.member_id.into();
        return read_member_record(key_version, id, value);
    }
    Ok(match (key_version, value) {
        (GROUP, Some(mut value)) => {
            let value = ShareGroupMetadataValue::decode(&mut value, 0)?;
            ShareChange::Epoch(value.epoch, value.metadata_hash)
        }
        (GROUP, None) => ShareChange::EpochGone,
        (TARGET_EPOCH, Some(mut value)) => {
            let value = ShareGroupTargetAssignmentMetadataValue::decode(&mut value, 0)?;
            ShareChange::TargetEpoch(value.assignment_epoch, value.assignment_timestamp)
        }
        (TARGET_EPOCH, None) => ShareChange::TargetEpochGone,
        (_, Some(mut value)) => {
            let value = ShareGroupStatePartitionMetadataValue::decode(&mut value, 0)?;
            let topics = value.initialized_topics.iter();
            let topic = |topic: &StatePartitions<'_>| {
                (topic.topic_id, (topic.topic_name.into(), topic.partitions.len() as i32))
            };
            ShareChange::Initialized(topics.map(topic).collect())
        }
        (_, None) => ShareChange::InitializedGone,
    })
}

fn read_member_record(key_version: i16, id: Arc<str>, value: Option<Reader<'_>>) -> Result<ShareChange, WireError> {
    let Some(mut value) = value else {
        return Ok(match key_version {
            SUBSCRIPTION => ShareChange::SubscriptionGone(id),
            TARGET => ShareChange::TargetGone(id),
            _ => ShareChange::CurrentGone(id),
        });
    };
    Ok(match key_version {
        SUBSCRIPTION => {
            let value = ShareGroupMemberMetadataValue::decode(&mut value, 0)?;
            ShareChange::Subscription(ShareMember {
                rack_id: value.rack_id.map(Arc::from),
                client_id: value.client_id.into(),
                client_host: value.client_host.into(),
                subscribed_names: value.subscribed_topic_names.into_iter().map(Arc::from).collect(),
                ..ShareMember::new(id)
            })
        }
        TARGET => {
            let value = ShareGroupTargetAssignmentMemberValue::decode(&mut value, 0)?;
            ShareChange::Target(id, partitions(&value.topic_partitions))
        }
        _ => {
            let value = ShareGroupCurrentMemberAssignmentValue::decode(&mut value, 0)?;
            ShareChange::Current(ShareMember {
                epoch: value.member_epoch,
                previous_epoch: value.previous_member_epoch,
                assigned: partitions(&value.assigned_partitions),
                ..ShareMember::new(id)
            })
        }
    })
}

fn partitions(topics: &[SharePartitions<'_>]) -> Partitions {
    let topics = topics.iter();
    topics.flat_map(|topic| topic.partitions.iter().map(|&partition| (topic.topic_id, partition))).collect()
}

fn by_topic(partitions: &Partitions) -> Vec<SharePartitions<'_>> {
    let topics = partitions.by_topic().map(|(topic_id, partitions)| SharePartitions {
        topic_id,
        partitions: partitions.iter().copied().collect(),
        ..Default::default()
    });
    topics.collect()
}

impl ShareChange {
    /// The record of the change.
    ///
    /// # Errors
    /// A string of more than 32 kB: flexible requests can carry one, keys of records cannot.
    pub(super) fn record(&self, group_id: &str) -> Result<StoredRecord, WireError> {
        let group = |version| versioned(&ShareGroupKey { group_id, ..Default::default() }, version);
        let member = |version, member_id: &Arc<str>| {
            versioned(&ShareGroupMemberKey { group_id, member_id, ..Default::default() }, version)
        };
        let (key, value) = match self {
            Self::Subscription(said) => (member(SUBSCRIPTION, &said.id), Some(subscription(said))),
            Self::SubscriptionGone(id) => (member(SUBSCRIPTION, id), None),
            Self::Current(now) => {
                let value = ShareGroupCurrentMemberAssignmentValue {
                    member_epoch: now.epoch,
                    previous_member_epoch: now.previous_epoch,
                    assigned_partitions: by_topic(&now.assigned),
                    ..Default::default()
                };
                (member(CURRENT, &now.id), Some(versioned(&value, 0)))
            }
            Self::CurrentGone(id) => (member(CURRENT, id), None),
            Self::Target(id, partitions) => {
                let topic_partitions = by_topic(partitions);
                let value = ShareGroupTargetAssignmentMemberValue { topic_partitions, ..Default::default() };
                (member(TARGET, id), Some(versioned(&value, 0)))
            }
            Self::TargetGone(id) => (member(TARGET, id), None),
            Self::TargetEpoch(epoch, at_ms) => {
                let value = ShareGroupTargetAssignmentMetadataValue {
                    assignment_epoch: *epoch,
                    assignment_timestamp: *at_ms,
                    ..Default::default()
                };
                (group(TARGET_EPOCH), Some(versioned(&value, 0)))
            }
            Self::TargetEpochGone => (group(TARGET_EPOCH), None),
            Self::Epoch(epoch, hash) => {
                let value = ShareGroupMetadataValue { epoch: *epoch, metadata_hash: *hash, ..Default::default() };
                (group(GROUP), Some(versioned(&value, 0)))
            }
            Self::EpochGone => (group(GROUP), None),
            Self::Initialized(topics) => (group(INITIALIZED), Some(initialized(topics))),
            Self::InitializedGone => (group(INITIALIZED), None),
        };
        Ok(StoredRecord { key: key?, value: value.transpose()? })
    }
}

fn subscription(member: &ShareMember) -> Result<Bytes, WireError> {
    let value = ShareGroupMemberMetadataValue {
        rack_id: member.rack_id.as_deref(),
        client_id: &member.client_id,
        client_host: &member.client_host,
        subscribed_topic_names: member.subscribed_names.iter().map(|name| &**name).collect(),
        ..Default::default()
    };
    versioned(&value, 0)
}

fn initialized(topics: &InitializedTopics) -> Result<Bytes, WireError> {
    let topics = topics.iter().map(|(&topic_id, (topic_name, count))| StatePartitions {
        topic_id,
        topic_name,
        partitions: (0..*count).collect(),
        ..Default::default()
    });
    versioned(&ShareGroupStatePartitionMetadataValue { initialized_topics: topics.collect(), ..Default::default() }, 0)
}
