//! ShareAcknowledge, versions 1-2 (KIP-932): acknowledges records that a member of a share group has acquired.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::share_acknowledge::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionData, ShareAcknowledgeRequest, ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
};
use monedula_protocol::types::Uuid;

use super::Handled;
use super::acknowledging::{self, Acknowledged, acknowledge};
use crate::core::Core;
use crate::request::{Answer, Call, Mentions, TopicKey};
use crate::share::{FINAL_EPOCH, INITIAL_EPOCH, SessionTopics};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ShareAcknowledgeRequest<'_>) -> Handled {
    let session = acknowledging::session(core, call, request.group_id, request.member_id)?;
    let epoch = request.share_session_epoch;
    // Only ShareFetch opens a session.
    if epoch == INITIAL_EPOCH {
        return Err(ErrorCode::InvalidShareSessionEpoch);
    }
    core.share_sessions.check(&session, epoch, true, 0)?;
    let mut acknowledged = Acknowledged::new();
    for topic in &request.topics {
        // A partition without any is not answered.
        for partition in topic.partitions.iter().filter(|partition| !partition.acknowledgement_batches.is_empty()) {
            let key = (topic.topic_id, partition.partition_index);
            let batches = partition.acknowledgement_batches.iter();
            let batches = batches.map(|batch| (batch.first_offset, batch.last_offset, &batch.acknowledge_types[..]));
            let outcome = acknowledge(core, call, &session, key, batches, request.is_renew_ack);
            acknowledged.insert(key, outcome);
        }
    }
    if epoch == FINAL_EPOCH {
        core.share_sessions.close(&session);
        core.release_session(&session);
    } else {
        core.share_sessions.advance(&session, epoch, call.ticket.connection, &SessionTopics::default());
    }
    let lock_ms = core.share_settings(&session.group).limits.lock_ms as i32;
    Ok(answer(core, call, &acknowledged, lock_ms))
}

fn answer(core: &Core, call: &Call<'_>, acknowledged: &Acknowledged, lock_ms: i32) -> Answer {
    let mut topics: BTreeMap<Uuid, Vec<PartitionData<'_>>> = BTreeMap::new();
    let mut leaders = Vec::new();
    for (&(topic_id, partition_index), outcome) in acknowledged {
        let error = outcome.as_ref().err();
        let moved = error.is_some_and(|error| error.code == ErrorCode::NotLeaderOrFollower);
        let name = core.topics.name_of(topic_id).filter(|_| moved);
        let leader = name.and_then(|name| core.topics.leader_hint(&name, partition_index));
        leaders.extend(leader);
        let (leader_id, leader_epoch) = leader.unwrap_or_default();
        topics.entry(topic_id).or_default().push(PartitionData {
            partition_index,
            error_code: error.map_or(0, |error| error.code.code()),
            error_message: error.and_then(|error| error.message.as_deref()),
            current_leader: LeaderIdAndEpoch { leader_id, leader_epoch, ..Default::default() },
            ..Default::default()
        });
    }
    let endpoints = core.nodes.endpoints(leaders.into_iter(), core.peers.protocol(call.ticket.connection));
    let node_endpoints = endpoints.iter().map(|node| NodeEndpoint {
        node_id: node.id.0,
        host: &node.host,
        port: node.port.into(),
        rack: node.rack.as_deref(),
        ..Default::default()
    });
    let responses = topics.into_iter().map(|(topic_id, partitions)| ShareAcknowledgeTopicResponse {
        topic_id,
        partitions,
        ..Default::default()
    });
    call.answer::<ShareAcknowledgeRequest<'_>>(&ShareAcknowledgeResponse {
        acquisition_lock_timeout_ms: lock_ms,
        responses: responses.collect(),
        node_endpoints: node_endpoints.collect(),
        ..Default::default()
    })
}

pub(super) fn mentions<'a>(request: &ShareAcknowledgeRequest<'a>) -> Mentions<'a> {
    let partitions = request.topics.iter().flat_map(|topic| {
        let key = TopicKey::Id(topic.topic_id);
        topic.partitions.iter().map(move |partition| (key, partition.partition_index))
    });
    Mentions {
        groups: request.group_id.into_iter().collect(),
        member: request.member_id,
        partitions: partitions.collect(),
        ..Default::default()
    }
}
