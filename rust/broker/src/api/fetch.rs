//! Fetch, versions 4-18: returns records, with or without a fetch session (KIP-227), at once or as soon as there are
//! enough bytes.
//!
//! Not implemented: replication. The fields that followers send (versions 15, 17, 18) are decoded and
//! have no effect beyond the replica id, since replicas share one log.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::fetch::{
    FetchRequest, FetchResponse, FetchTopic, FetchableTopicResponse, ForgottenTopic, PartitionData,
};
use monedula_protocol::types::Uuid;

use super::Handled;
use crate::cluster::NodeId;
use crate::core::Core;
use crate::fetching::{Fetch, Isolation, Sessions, Wanted};
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &FetchRequest<'_>) -> Handled {
    let topic_ids = call.version >= 13;
    let replica = match call.version {
        15.. => request.replica_state.replica_id,
        _ => request.replica_id,
    };
    let replica = (replica >= 0).then_some(NodeId(replica));
    let wanted = wanted(core, request, topic_ids);
    let forgotten: Vec<_> = forgotten(core, &request.forgotten_topics_data);
    let session = (request.session_id, request.session_epoch);
    let now_ms = core.now_ms;
    let resumed = core.fetch_sessions.resume(call.node, session, topic_ids, wanted, &forgotten, now_ms);
    let (session, mut wanted) = match resumed {
        Ok(resumed) => resumed,
        // An error of the session is of no partition, whatever the version.
        Err(error) => {
            let refused = FetchResponse { error_code: error.code(), ..Default::default() };
            return Ok(call.answer::<FetchRequest<'_>>(&refused));
        }
    };
    Sessions::resolve(&mut wanted, |id| core.topics.name_of(id));
    // Followers need not name the topics in any ACL.
    let follows = replica.is_some();
    let may_follow = follows && core.allows(call, Operation::ClusterAction, Resource::Cluster);
    for wanted in &mut wanted {
        let Some(topic) = &wanted.topic else { continue };
        let may_read = may_follow || !follows && core.allows(call, Operation::Read, Resource::Topic(topic));
        wanted.refused = match may_read {
            true => core.faults.partition_error(call, topic, wanted.index),
            false => Some(ErrorCode::TopicAuthorizationFailed),
        };
    }
    // Kafka looks at the isolation level once there is a partition to read from.
    let reads = |wanted: &Wanted| {
        wanted.refused.is_none()
            && wanted.topic.as_deref().is_some_and(|topic| core.topics.partition(topic, wanted.index).is_some())
    };
    if !(0..=1).contains(&request.isolation_level) && wanted.iter().any(reads) {
        return Err(ErrorCode::UnknownServerError);
    }
    let quota_bytes = if follows { i32::MAX } else { core.fetch_quota_bytes(call.ticket.connection) };
    let max_bytes = request.max_bytes.min(core.settings.kafka.fetch_max_bytes).min(quota_bytes);
    Ok(core.fetch(Fetch {
        ticket: call.ticket,
        node: call.node,
        due_ms: core.now_ms + i64::from(request.max_wait_ms),
        min_bytes: request.min_bytes.min(max_bytes).max(0) as u64,
        max_bytes: max_bytes.max(0) as usize,
        isolation: match (replica, request.isolation_level) {
            (Some(_), _) => Isolation::LogEnd,
            (None, 1) => Isolation::Committed,
            (None, _) => Isolation::Uncommitted,
        },
        replica,
        rack: (call.version >= 11).then(|| request.rack_id.into()),
        session,
        wanted,
    }))
}

/// The name and id of a topic that a request identifies by either.
fn resolve(core: &Core, name: &str, id: Uuid, topic_ids: bool) -> (Option<Arc<str>>, Uuid) {
    match topic_ids {
        true => (core.topics.name_of(id), id),
        false => (Some(core.topics.get(name).map_or_else(|| name.into(), |topic| Arc::clone(&topic.name))), Uuid::ZERO),
    }
}

fn wanted(core: &Core, request: &FetchRequest<'_>, topic_ids: bool) -> Vec<Wanted> {
    let mut all: Vec<Wanted> = Vec::new();
    // If a partition is requested twice, the later entry counts, at the position of the first.
    let mut places = HashMap::new();
    for FetchTopic { topic, topic_id, partitions, .. } in &request.topics {
        let (topic, topic_id) = resolve(core, topic, *topic_id, topic_ids);
        for partition in partitions {
            let wanted = Wanted {
                topic: topic.clone(),
                topic_id,
                index: partition.partition,
                fetch_offset: partition.fetch_offset,
                max_bytes: partition.partition_max_bytes,
                current_leader_epoch: partition.current_leader_epoch,
                last_fetched_epoch: partition.last_fetched_epoch,
                refused: None,
            };
            match places.entry((topic.clone(), topic_id, partition.partition)) {
                Entry::Occupied(place) => all[*place.get()] = wanted,
                Entry::Vacant(place) => {
                    place.insert(all.len());
                    all.push(wanted);
                }
            }
        }
    }
    all
}

fn forgotten(core: &Core, topics: &[ForgottenTopic<'_>]) -> Vec<(Option<Arc<str>>, Uuid, i32)> {
    let mut all = Vec::new();
    for ForgottenTopic { topic, topic_id, partitions, .. } in topics {
        let (topic, topic_id) = resolve(core, topic, *topic_id, !topic_id.is_zero());
        all.extend(partitions.iter().map(|&index| (topic.clone(), topic_id, index)));
    }
    all
}

/// From version 7 on, the response has an error code of its own; before, each partition carries the error.
pub(super) fn refuse<'a>(request: &FetchRequest<'a>, error: ErrorCode) -> FetchResponse<'a> {
    let refused = |topic: &FetchTopic<'a>| FetchableTopicResponse {
        topic: topic.topic,
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| PartitionData {
                partition_index: partition.partition,
                error_code: error.code(),
                high_watermark: -1,
                records: Some(&[]),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    // Kafka lists the partitions up to version 12, and leaves them out from version 13 on.
    let names = request.topics.iter().filter(|topic| topic.topic_id.is_zero());
    FetchResponse { error_code: error.code(), responses: names.map(refused).collect(), ..Default::default() }
}

pub(super) fn mentions<'a>(request: &FetchRequest<'a>) -> Mentions<'a> {
    let partitions = request.topics.iter().flat_map(|topic| {
        let key = TopicKey::new(topic.topic, topic.topic_id);
        topic.partitions.iter().map(move |partition| (key, partition.partition))
    });
    Mentions { partitions: partitions.collect(), session: request.session_id, ..Default::default() }
}
