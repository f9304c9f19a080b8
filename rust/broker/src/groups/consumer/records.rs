//! The changes of a consumer group as records of `__consumer_offsets`, in Kafka's layouts.

use crate::planted::{Bug, planted};
use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::api::Message;
use monedula_protocol::error::WireError;
use monedula_protocol::messages::consumer_group_records::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupKey,
    ConsumerGroupMemberKey, ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue, CurrentPartitions, TargetPartitions,
};
use monedula_protocol::wire::Reader;

use super::{Change, ClassicMembership, ConsumerMember, Held, MemberState, Partitions, ResolvedRegex};
use crate::cluster::{StoredRecord, versioned};

const GROUP: i16 = 3;
const SUBSCRIPTION: i16 = 5;
const TARGET_EPOCH: i16 = 6;
const TARGET: i16 = 7;
const CURRENT: i16 = 8;
const REGEX: i16 = 16;

pub(crate) fn is_consumer_record(key_version: i16) -> bool {
    matches!(key_version, GROUP | SUBSCRIPTION | TARGET_EPOCH | TARGET | CURRENT | REGEX)
}

/// Reads the change in a record. `key` starts behind the key version.
///
/// # Errors
/// A record that cannot be read.
pub(crate) fn read_record(key_version: i16, key: &mut Reader<'_>, value: Option<&[u8]>) -> Result<Change, WireError> {
    let mut value = value.map(Reader::new);
    if let Some(value) = &mut value {
        // The version: all values have only version 0.
        value.i16()?;
    }
    match key_version {
        GROUP => Ok(match value {
            Some(mut value) => {
                let value = ConsumerGroupMetadataValue::decode(&mut value, 0)?;
                Change::Epoch(value.epoch, value.metadata_hash)
            }
            None => Change::EpochGone,
        }),
        TARGET_EPOCH => Ok(match value {
            Some(mut value) => {
                let value = ConsumerGroupTargetAssignmentMetadataValue::decode(&mut value, 0)?;
                Change::TargetEpoch(value.assignment_epoch, value.assignment_timestamp)
            }
            None => Change::TargetEpochGone,
        }),
        REGEX => {
            let key = ConsumerGroupRegularExpressionKey::decode(key, key_version)?;
            let regex: Arc<str> = key.regular_expression.into();
            Ok(match value {
                Some(mut value) => {
                    let value = ConsumerGroupRegularExpressionValue::decode(&mut value, 0)?;
                    let topics = value.topics.into_iter().map(Arc::from).collect();
                    Change::Regex(regex, ResolvedRegex { topics, at_ms: value.timestamp })
                }
                None => Change::RegexGone(regex),
            })
        }
        _ => {
            let member_id: Arc<str> = ConsumerGroupMemberKey::decode(key, key_version)?.member_id.into();
            read_member_record(key_version, member_id, value)
        }
    }
}

fn read_member_record(key_version: i16, id: Arc<str>, value: Option<Reader<'_>>) -> Result<Change, WireError> {
    let Some(mut value) = value else {
        return Ok(match key_version {
            SUBSCRIPTION => Change::SubscriptionGone(id),
            TARGET => Change::TargetGone(id),
            _ => Change::CurrentGone(id),
        });
    };
    Ok(match key_version {
        SUBSCRIPTION => Change::Subscription(said(id, ConsumerGroupMemberMetadataValue::decode(&mut value, 0)?)),
        TARGET => {
            let value = ConsumerGroupTargetAssignmentMemberValue::decode(&mut value, 0)?;
            let topics = value.topic_partitions.iter();
            let partitions = topics
                .flat_map(|topic| topic.partitions.iter().map(|&partition| (topic.topic_id, partition)))
                .collect();
            Change::Target(id, partitions)
        }
        _ => {
            let value = ConsumerGroupCurrentMemberAssignmentValue::decode(&mut value, 0)?;
            Change::Current(ConsumerMember {
                epoch: value.member_epoch,
                previous_epoch: value.previous_member_epoch,
                state: MemberState::from_code(value.state).unwrap_or_default(),
                assigned: held(&value.assigned_partitions, value.member_epoch),
                pending_revocation: match planted(Bug::ForgetRevocation) {
                    true => Held::default(),
                    false => held(&value.partitions_pending_revocation, value.member_epoch),
                },
                ..ConsumerMember::new(id)
            })
        }
    })
}

fn said(id: Arc<str>, value: ConsumerGroupMemberMetadataValue<'_>) -> ConsumerMember {
    let classic = |classic: ClassicMemberMetadata<'_>| ClassicMembership {
        session_timeout_ms: classic.session_timeout_ms,
        protocols: classic
            .supported_protocols
            .iter()
            .map(|protocol| (protocol.name.into(), Bytes::copy_from_slice(protocol.metadata)))
            .collect(),
    };
    ConsumerMember {
        instance_id: value.instance_id.map(Arc::from),
        rack_id: value.rack_id.map(Arc::from),
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        client_id: value.client_id.into(),
        client_host: value.client_host.into(),
        subscribed_names: value.subscribed_topic_names.into_iter().map(Arc::from).collect(),
        subscribed_regex: value.subscribed_topic_regex.unwrap_or_default().into(),
        server_assignor: value.server_assignor.map(Arc::from),
        classic: value.classic_member_metadata.map(classic),
        ..ConsumerMember::new(id)
    }
}

fn held(topics: &[CurrentPartitions<'_>], member_epoch: i32) -> Held {
    let mut all = Held::default();
    for topic in topics {
        for (index, &partition) in topic.partitions.iter().enumerate() {
            // Records of older brokers have no assignment epochs.
            let epoch = topic.assignment_epochs.get(index).copied().unwrap_or(member_epoch);
            all.insert(topic.topic_id, partition, epoch);
        }
    }
    all
}

impl Change {
    /// The record of the change.
    ///
    /// # Errors
    /// A string of more than 32 kB: flexible requests can carry one, keys of records cannot.
    pub(crate) fn record(&self, group_id: &str) -> Result<StoredRecord, WireError> {
        let group = |version| versioned(&ConsumerGroupKey { group_id, ..Default::default() }, version);
        let member = |version, member_id: &Arc<str>| {
            versioned(&ConsumerGroupMemberKey { group_id, member_id, ..Default::default() }, version)
        };
        let pattern = |regular_expression: &Arc<str>| {
            versioned(&ConsumerGroupRegularExpressionKey { group_id, regular_expression, ..Default::default() }, REGEX)
        };
        let (key, value) = match self {
            Self::Subscription(said) => (member(SUBSCRIPTION, &said.id), Some(subscription(said))),
            Self::SubscriptionGone(id) => (member(SUBSCRIPTION, id), None),
            Self::Current(now) => (member(CURRENT, &now.id), Some(current(now))),
            Self::CurrentGone(id) => (member(CURRENT, id), None),
            Self::Target(id, partitions) => (member(TARGET, id), Some(target(partitions))),
            Self::TargetGone(id) => (member(TARGET, id), None),
            Self::TargetEpoch(epoch, at_ms) => {
                let value = ConsumerGroupTargetAssignmentMetadataValue {
                    assignment_epoch: *epoch,
                    assignment_timestamp: *at_ms,
                    ..Default::default()
                };
                (group(TARGET_EPOCH), Some(versioned(&value, 0)))
            }
            Self::TargetEpochGone => (group(TARGET_EPOCH), None),
            Self::Epoch(epoch, hash) => {
                let value = ConsumerGroupMetadataValue { epoch: *epoch, metadata_hash: *hash, ..Default::default() };
                (group(GROUP), Some(versioned(&value, 0)))
            }
            Self::EpochGone => (group(GROUP), None),
            Self::Regex(regex, resolved) => {
                let topics = resolved.topics.iter().map(|topic| &**topic).collect();
                let value =
                    ConsumerGroupRegularExpressionValue { topics, timestamp: resolved.at_ms, ..Default::default() };
                (pattern(regex), Some(versioned(&value, 0)))
            }
            Self::RegexGone(regex) => (pattern(regex), None),
        };
        Ok(StoredRecord { key: key?, value: value.transpose()? })
    }
}

fn subscription(member: &ConsumerMember) -> Result<Bytes, WireError> {
    let classic = |classic: &ClassicMembership| -> (i32, Vec<(Arc<str>, Bytes)>) {
        (classic.session_timeout_ms, classic.protocols.clone())
    };
    let classic = member.classic.as_ref().map(classic);
    let classic_member_metadata = classic.as_ref().map(|(session_timeout_ms, protocols)| ClassicMemberMetadata {
        session_timeout_ms: *session_timeout_ms,
        supported_protocols: protocols
            .iter()
            .map(|(name, metadata)| ClassicProtocol { name, metadata, ..Default::default() })
            .collect(),
        ..Default::default()
    });
    let value = ConsumerGroupMemberMetadataValue {
        instance_id: member.instance_id.as_deref(),
        rack_id: member.rack_id.as_deref(),
        client_id: &member.client_id,
        client_host: &member.client_host,
        subscribed_topic_names: member.subscribed_names.iter().map(|name| &**name).collect(),
        subscribed_topic_regex: Some(&member.subscribed_regex),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        server_assignor: member.server_assignor.as_deref(),
        classic_member_metadata,
        ..Default::default()
    };
    versioned(&value, 0)
}

fn current(member: &ConsumerMember) -> Result<Bytes, WireError> {
    let topics = |held: &Held| {
        let topic = |(topic_id, partitions): (_, &std::collections::BTreeMap<i32, i32>)| CurrentPartitions {
            topic_id,
            partitions: partitions.keys().copied().collect(),
            assignment_epochs: partitions.values().copied().collect(),
            ..Default::default()
        };
        held.by_topic().map(topic).collect()
    };
    let value = ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: member.epoch,
        previous_member_epoch: member.previous_epoch,
        state: member.state.code(),
        assigned_partitions: topics(&member.assigned),
        partitions_pending_revocation: topics(&member.pending_revocation),
        ..Default::default()
    };
    versioned(&value, 0)
}

fn target(partitions: &Partitions) -> Result<Bytes, WireError> {
    let topic = |(topic_id, partitions): (_, &std::collections::BTreeSet<i32>)| TargetPartitions {
        topic_id,
        partitions: partitions.iter().copied().collect(),
        ..Default::default()
    };
    let value = ConsumerGroupTargetAssignmentMemberValue {
        topic_partitions: partitions.by_topic().map(topic).collect(),
        ..Default::default()
    };
    versioned(&value, 0)
}
