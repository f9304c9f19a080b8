//! TxnOffsetCommit, versions 0-6: writes offsets that are committed when the transaction commits. From version 5 on it
//! adds the group's partition to the transaction itself (KIP-890); from version 6 on topics are identified by id
//! (KIP-1319).
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};

use super::{Handled, group_offsets};
use crate::cluster::Coordinated;
use crate::core::Core;
use crate::groups::{Commit, MemberIdentity, NewOffset};
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};
use crate::transactions::Membership;

/// Clients know COORDINATOR_LOAD_IN_PROGRESS in this response from this version on (KAFKA-7296).
const KNOWS_LOADING_FROM: i16 = 2;
/// Clients know TRANSACTION_ABORTABLE from this version on.
const KNOWS_ABORTABLE_FROM: i16 = 4;
const ADDS_FROM: i16 = 5;
/// From this version on, topics are identified by id, and clients know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH.
const TOPIC_IDS_FROM: i16 = 6;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &TxnOffsetCommitRequest<'_>) -> Handled {
    core.authorize(call, Operation::Write, Resource::TransactionalId(request.transactional_id))?;
    core.authorize(call, Operation::Read, Resource::Group(request.group_id))?;
    let mut committed =
        group_offsets::commit(core, call, topics(request), call.version >= TOPIC_IDS_FROM, |core, offsets| {
            commit(core, call, request, offsets)
        });
    if call.version < KNOWS_LOADING_FROM {
        let errors = committed.iter_mut().flat_map(|(_, partitions)| partitions).map(|(_, error)| error);
        for error in errors.filter(|error| **error == ErrorCode::CoordinatorLoadInProgress) {
            *error = ErrorCode::CoordinatorNotAvailable;
        }
    }
    Ok(call.answer::<TxnOffsetCommitRequest<'_>>(&response(committed)))
}

fn commit(
    core: &mut Core,
    call: &Call<'_>,
    request: &TxnOffsetCommitRequest<'_>,
    offsets: Vec<NewOffset<'_>>,
) -> Result<Vec<ErrorCode>, ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    // The node must coordinate the group before the transaction is changed.
    core.check_coordinator(Coordinated::Groups, request.group_id, call.node)?;
    let partition = core.coordinator_partition(Coordinated::Groups, request.group_id);
    let membership = match call.version {
        ADDS_FROM.. => Membership::Added,
        version => Membership::Checked { knows_abortable: version >= KNOWS_ABORTABLE_FROM },
    };
    let producer = (request.producer_id, request.producer_epoch);
    let target = (Coordinated::Groups.topic().into(), partition);
    core.join_transaction(request.transactional_id, producer, target, membership)?;
    let commit = Commit {
        group_id: request.group_id,
        who: MemberIdentity {
            member_id: request.member_id,
            instance_id: request.group_instance_id,
            generation_id: request.generation_id_or_member_epoch,
        },
        version: call.version,
        tells_member_epochs: call.version >= TOPIC_IDS_FROM,
        retention_ms: None,
        producer_id: Some(request.producer_id),
        offsets,
    };
    core.commit_offsets(call.node, &commit)
}

group_offsets::mapping!(
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
    TxnOffsetCommitResponsePartition
);

pub(super) fn mentions<'a>(request: &TxnOffsetCommitRequest<'a>) -> Mentions<'a> {
    let partitions = request.topics.iter().flat_map(|topic| {
        let key = TopicKey::new(topic.name, topic.topic_id);
        topic.partitions.iter().map(move |partition| (key, partition.partition_index))
    });
    Mentions {
        transactional_id: Some(request.transactional_id),
        groups: vec![request.group_id],
        partitions: partitions.collect(),
        ..Default::default()
    }
}
