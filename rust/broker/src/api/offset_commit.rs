//! OffsetCommit, versions 2-10: commits offsets of a group, for its members or for clients that assign partitions
//! themselves.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestTopic, OffsetCommitResponse, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};

use super::group_offsets::{self, Checked};
use super::{Mentions, TopicKey};
use crate::core::Core;
use crate::groups::{Commit, Identity, NewOffset};
use crate::request::{Answer, Call};
use crate::security::{Operation, Resource};

/// Topics are identified by id from this version on.
const TOPIC_IDS_FROM: i16 = 10;
/// Clients know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH from this version on.
const MEMBER_EPOCHS_FROM: i16 = 9;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &OffsetCommitRequest<'_>) -> Answer {
    if let Err(error) = core.authorize(call, Operation::Read, Resource::Group(request.group_id)) {
        return call.answer::<OffsetCommitRequest<'_>>(&refuse(request, error));
    }
    let by_id = call.version >= TOPIC_IDS_FROM;
    let names = request.topics.iter().map(|topic| group_offsets::name_of(core, topic.name, topic.topic_id, by_id));
    let names: Vec<_> = names.collect();
    let mut checked = Vec::with_capacity(request.topics.len());
    // The offsets without an error go to the group, in this order.
    let mut offsets = Vec::new();
    for (topic, name) in request.topics.iter().zip(&names) {
        let named = ((topic.name, topic.topic_id), name.as_deref());
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        let topic_checked = Checked::new(core, call, named, indexes);
        for partition in topic_checked.asked().map(|place| &topic.partitions[place]) {
            let Some(name) = name else { break };
            offsets.push(NewOffset {
                topic: name,
                partition: partition.partition_index,
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata: partition.committed_metadata,
            });
        }
        checked.push(topic_checked);
    }
    let committed = commit(core, call, request, offsets);
    let topics = group_offsets::merge(&checked, &committed).into_iter().map(|((name, topic_id), partitions)| {
        let described = partitions.into_iter().map(|(partition_index, error)| OffsetCommitResponsePartition {
            partition_index,
            error_code: error.code(),
            ..Default::default()
        });
        OffsetCommitResponseTopic { name, topic_id, partitions: described.collect(), ..Default::default() }
    });
    call.answer::<OffsetCommitRequest<'_>>(&OffsetCommitResponse { topics: topics.collect(), ..Default::default() })
}

/// Commits the offsets to the group. Returns the error of each.
fn commit(
    core: &mut Core,
    call: &Call<'_>,
    request: &OffsetCommitRequest<'_>,
    offsets: Vec<NewOffset<'_>>,
) -> Vec<ErrorCode> {
    // Kafka does not check the group if no offset is left to commit.
    if offsets.is_empty() {
        return Vec::new();
    }
    let count = offsets.len();
    let commit = Commit {
        group_id: request.group_id,
        who: Identity {
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
    core.commit_offsets(call.node, &commit).unwrap_or_else(|error| vec![error; count])
}

pub(super) fn refuse<'a>(request: &OffsetCommitRequest<'a>, error: ErrorCode) -> OffsetCommitResponse<'a> {
    let partition = |partition: &monedula_protocol::messages::offset_commit::OffsetCommitRequestPartition<'a>| {
        OffsetCommitResponsePartition {
            partition_index: partition.partition_index,
            error_code: error.code(),
            ..Default::default()
        }
    };
    let topic = |topic: &OffsetCommitRequestTopic<'a>| OffsetCommitResponseTopic {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(partition).collect(),
        ..Default::default()
    };
    OffsetCommitResponse { topics: request.topics.iter().map(topic).collect(), ..Default::default() }
}

pub(super) fn mentions<'a>(request: &OffsetCommitRequest<'a>) -> Mentions<'a> {
    let partitions = request.topics.iter().flat_map(|topic| {
        let key = TopicKey::new(topic.name, topic.topic_id);
        topic.partitions.iter().map(move |partition| (key, partition.partition_index))
    });
    Mentions { groups: vec![request.group_id], partitions: partitions.collect(), ..Default::default() }
}
