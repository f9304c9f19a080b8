//! Acknowledgements of records of share groups: the part that ShareFetch and ShareAcknowledge share.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::ApiError;
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};
use crate::share::{Acknowledgement, SessionKey, ShareKey};

/// The outcome of the acknowledgements of each partition.
pub(super) type Acknowledged = BTreeMap<(Uuid, i32), Result<(), ApiError>>;

/// A batch of acknowledgements: first offset, last offset, types.
pub(super) type AcknowledgedBatch<'a> = (i64, i64, &'a [i8]);

/// The longest member id that Kafka accepts: that of a UUID with hyphens.
const MAX_MEMBER_ID_CHARACTERS: usize = 36;

/// True if a member of a share group may have this id.
pub(super) fn is_member_id(id: &str) -> bool {
    (1..=MAX_MEMBER_ID_CHARACTERS).contains(&id.encode_utf16().count()) && !id.trim().is_empty()
}

/// The session that a request names.
///
/// # Errors
/// GROUP_AUTHORIZATION_FAILED, INVALID_REQUEST without a group or a member.
pub(super) fn session(
    core: &Core,
    call: &Call<'_>,
    group: Option<&str>,
    member: Option<&str>,
) -> Result<SessionKey, ErrorCode> {
    let group = group.unwrap_or_default();
    core.authorize(call, Operation::Read, Resource::Group(group))?;
    match member {
        Some(member) if !group.is_empty() && is_member_id(member) => {
            Ok(SessionKey { node: call.node, group: group.into(), member: member.into() })
        }
        _ => Err(ErrorCode::InvalidRequest),
    }
}

/// Applies the acknowledgements of one partition.
///
/// # Errors
/// UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED, an error of a fault, UNKNOWN_TOPIC_OR_PARTITION for a partition of
/// which nothing is acquired here, NOT_LEADER_OR_FOLLOWER, INVALID_REQUEST, INVALID_RECORD_STATE, and why the new state
/// cannot be stored.
pub(super) fn acknowledge<'a>(
    core: &mut Core,
    call: &Call<'_>,
    session: &SessionKey,
    (topic, partition): (Uuid, i32),
    batches: impl Iterator<Item = AcknowledgedBatch<'a>>,
    renews: bool,
) -> Result<(), ApiError> {
    refusal(core, call, topic, partition).map_or(Ok(()), Err)?;
    let key = ShareKey { group: session.group.clone(), topic, partition };
    core.share_leader(call.node, &key)?;
    let parsed = Acknowledgement::parse(batches, renews)?;
    if core.share_partitions.partition(&key).is_none() {
        return Err(ErrorCode::UnknownTopicOrPartition.into());
    }
    core.change_share_partition(&key, false, |share, settings, now_ms| {
        share.acknowledge(&session.member, &parsed, settings.limits, now_ms)
    })
}

/// Why a client may not read a partition: the error of the authorizer, or of a fault.
pub(super) fn refusal(core: &mut Core, call: &Call<'_>, topic: Uuid, partition: i32) -> Option<ApiError> {
    let Some(name) = core.topics.name_of(topic) else { return Some(ErrorCode::UnknownTopicId.into()) };
    let allowed = core.authorize(call, Operation::Read, Resource::Topic(&name));
    let error = allowed.err().or_else(|| core.faults.partition_error(call, &name, partition));
    error.map(ApiError::from)
}
