//! OffsetCommit, versions 2-10: commits offsets of a group, for its members or for clients that assign partitions
//! themselves.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};

use super::{Handled, group_offsets};
use crate::core::Core;
use crate::groups::{Commit, MemberIdentity, NewOffset};
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

/// Topics are identified by id from this version on.
const TOPIC_IDS_FROM: i16 = 10;
/// Clients know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH from this version on.
const MEMBER_EPOCHS_FROM: i16 = 9;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &OffsetCommitRequest<'_>) -> Handled {
    core.authorize(call, Operation::Read, Resource::Group(request.group_id))?;
    let committed =
        group_offsets::commit(core, call, topics(request), call.version >= TOPIC_IDS_FROM, |core, offsets| {
            let commit = Commit {
                group_id: request.group_id,
                who: MemberIdentity {
                    member_id: request.member_id,
                    instance_id: request.group_instance_id,
                    generation_id: request.generation_id_or_member_epoch,
                },
                version: call.version,
                tells_member_epochs: call.version >= MEMBER_EPOCHS_FROM,
                retention_ms: Some(request.retention_time_ms).filter(|&retention_ms| retention_ms >= 0),
                producer_id: None,
                offsets,
            };
            core.commit_offsets(call.node, &commit)
        });
    Ok(call.answer::<OffsetCommitRequest<'_>>(&response(committed)))
}

group_offsets::mapping!(
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
    OffsetCommitResponsePartition
);

pub(super) fn mentions<'a>(request: &OffsetCommitRequest<'a>) -> Mentions<'a> {
    let partitions = request.topics.iter().flat_map(|topic| {
        let key = TopicKey::new(topic.name, topic.topic_id);
        topic.partitions.iter().map(move |partition| (key, partition.partition_index))
    });
    Mentions { groups: vec![request.group_id], partitions: partitions.collect(), ..Default::default() }
}
