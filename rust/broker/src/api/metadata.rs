//! Metadata, versions 0-13: brokers, topics and partitions. Creates missing topics if the request and the broker's
//! settings allow; the request that creates a topic is answered UNKNOWN_TOPIC_OR_PARTITION for it.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use monedula_protocol::types::Uuid;

use super::{Handled, cluster_operations};
use crate::cluster::{Coordinated, NewTopic, NodeId, Partition, Topic, TopicConfig, check_topic_name};
use crate::core::Core;
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

/// Topics can be requested by id from this version on.
const TOPIC_IDS_FROM: i16 = 12;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &MetadataRequest<'_>) -> Handled {
    if let Some(error) = malformed(call, request) {
        return Err(error);
    }
    let wanted = wanted(call, request);
    let create = call.version < 4 || request.allow_auto_topic_creation;
    let mut missing = Missing::default();
    for topic in wanted.iter().flatten() {
        let name = topic.name.unwrap_or_default();
        if create && topic.topic_id.is_zero() && may_describe(core, call, name) && core.topics.get(name).is_none() {
            match auto_create(core, call, name) {
                true => missing.created.insert(name),
                false => missing.forbidden.insert(name),
            };
        }
    }
    let faults = faults(core, call, wanted.as_deref());
    let mut topics: Vec<MetadataResponseTopic<'_>> = match &wanted {
        Some(wanted) => wanted.iter().map(|topic| one(core, call, topic, &missing)).collect(),
        // Topics that the client may not describe are left out.
        None => {
            let seen = core
                .topics
                .all()
                .filter(|topic| may_describe(core, call, &topic.name) && !core.faults.hides(&topic.name, call.node));
            seen.map(|topic| known(core, call, topic)).collect()
        }
    };
    topics.retain_mut(|topic| {
        let fault = topic.name.and_then(|name| faults.get(name)).copied();
        if let Some(error) = fault {
            (topic.error_code, topic.partitions) = (error.code(), Vec::new());
            topic.topic_id = if error == ErrorCode::UnknownTopicOrPartition { Uuid::ZERO } else { topic.topic_id };
        }
        // A broker that does not know a topic leaves it out of a list of all topics.
        wanted.is_some() || fault != Some(ErrorCode::UnknownTopicOrPartition)
    });
    if request.include_topic_authorized_operations {
        let refused = ErrorCode::TopicAuthorizationFailed.code();
        for topic in topics.iter_mut().filter(|topic| topic.error_code != refused) {
            let Some(name) = topic.name else { continue };
            topic.topic_authorized_operations = core.authorized_operations(call, Resource::Topic(name));
        }
    }
    let brokers = core.nodes.alive().map(|node| MetadataResponseBroker {
        node_id: node.id.0,
        host: &node.host,
        port: node.port(call.origin.protocol).into(),
        rack: node.rack.as_deref(),
        ..Default::default()
    });
    let cluster_operations = match request.include_cluster_authorized_operations {
        true => cluster_operations(core, call),
        false => i32::MIN,
    };
    Ok(call.answer::<MetadataRequest<'_>>(&MetadataResponse {
        brokers: brokers.collect(),
        cluster_id: Some(&core.settings.cluster_id),
        controller_id: core.nodes.controller().map_or(-1, |node| node.0),
        topics,
        cluster_authorized_operations: cluster_operations,
        ..Default::default()
    }))
}

/// Topics that a request names and that did not exist.
#[derive(Debug, Default)]
struct Missing<'a> {
    /// Topics that the client may describe but not create.
    forbidden: BTreeSet<&'a str>,
    /// Topics that may be created. They are there for the next request only: Kafka's broker answers from what it knew
    /// before it asked the controller to create them.
    created: BTreeSet<&'a str>,
}

/// The errors that faults set for topics of the answer: a broker that does not know a topic yet, for example.
fn faults(
    core: &mut Core,
    call: &Call<'_>,
    wanted: Option<&[MetadataRequestTopic<'_>]>,
) -> BTreeMap<String, ErrorCode> {
    if core.faults.is_empty() {
        return BTreeMap::new();
    }
    let names: Vec<String> = match wanted {
        None => core.topics.all().map(|topic| topic.name.to_string()).collect(),
        Some(wanted) => {
            let name = |topic: &MetadataRequestTopic<'_>| match topic.topic_id.is_zero() {
                true => topic.name.map(str::to_owned),
                false => core.topics.name_of(topic.topic_id).map(|name| name.to_string()),
            };
            wanted.iter().filter_map(name).collect()
        }
    };
    let known: Vec<String> = names.into_iter().filter(|name| !core.faults.hides(name, call.node)).collect();
    let faults = &mut core.faults;
    known.into_iter().filter_map(|name| faults.partition_error(call, &name, -1).map(|error| (name, error))).collect()
}

/// The error of the request as a whole, if it is malformed.
fn malformed(call: &Call<'_>, request: &MetadataRequest<'_>) -> Option<ErrorCode> {
    let mut topics = request.topics.iter().flatten();
    if call.version < TOPIC_IDS_FROM {
        let wrong = |topic: &MetadataRequestTopic<'_>| topic.name.is_none() || !topic.topic_id.is_zero();
        return topics.any(wrong).then_some(ErrorCode::InvalidRequest);
    }
    // Kafka fails on a topic without name and id with an unexpected exception.
    let by_id = request.topics.iter().flatten().any(|topic| !topic.topic_id.is_zero());
    let nameless = !by_id && topics.any(|topic| topic.name.is_none());
    nameless.then_some(ErrorCode::UnknownServerError)
}

/// The requested topics, each once; `None` for all topics. If any topic is requested by id, those requested by name are
/// ignored.
fn wanted<'a>(call: &Call<'_>, request: &MetadataRequest<'a>) -> Option<Vec<MetadataRequestTopic<'a>>> {
    // In version 0 an empty array requests all topics.
    let topics = request.topics.as_ref().filter(|topics| call.version > 0 || !topics.is_empty())?;
    let by_id = topics.iter().any(|topic| !topic.topic_id.is_zero());
    let mut seen = BTreeSet::new();
    let wanted = topics.iter().filter(|topic| !by_id || !topic.topic_id.is_zero());
    Some(wanted.filter(|topic| seen.insert((topic.topic_id.0, topic.name))).cloned().collect())
}

fn may_describe(core: &Core, call: &Call<'_>, name: &str) -> bool {
    core.allows(call, Operation::Describe, Resource::Topic(name))
}

/// Creates a topic that does not exist if the settings allow. Returns false if the client may not create it.
fn auto_create(core: &mut Core, call: &Call<'_>, name: &str) -> bool {
    let enabled = core.settings.kafka.auto_create_topics_enable;
    let may_create = core.allows(call, Operation::Create, Resource::Cluster)
        || core.allows(call, Operation::Create, Resource::Topic(name));
    if enabled && !may_create {
        return false;
    }
    match Coordinated::of_topic(name) {
        // The topics of the coordinators are created whatever the setting.
        Some(kind) => {
            core.ensure_internal_topic(kind);
            core.first_used(name);
        }
        None if enabled && check_topic_name(name).is_ok() => create_with_defaults(core, name),
        None => {}
    }
    true
}

fn create_with_defaults(core: &mut Core, name: &str) {
    let (partitions, replicas) = (core.settings.kafka.num_partitions, core.settings.kafka.default_replication_factor);
    let replicas = core.nodes.place_replicas(0, partitions, replicas);
    log::info!("created topic {name} with {partitions} partitions, because metadata was asked for it");
    core.create_topic(NewTopic { name: name.into(), config: TopicConfig::default(), replicas });
    core.first_used(name);
}

fn one<'a>(
    core: &'a Core,
    call: &Call<'_>,
    wanted: &MetadataRequestTopic<'a>,
    missing: &Missing<'_>,
) -> MetadataResponseTopic<'a> {
    let refused = |error: ErrorCode| MetadataResponseTopic {
        error_code: error.code(),
        // An error for a topic that was requested by id carries no name.
        name: wanted.name.filter(|_| wanted.topic_id.is_zero()),
        topic_id: wanted.topic_id,
        ..Default::default()
    };
    if !wanted.topic_id.is_zero() {
        let found = core.topics.name_of(wanted.topic_id).and_then(|name| core.topics.get(&name));
        let found = found.filter(|topic| !core.faults.hides(&topic.name, call.node));
        // Topic ids are no secret, names are.
        return match found {
            None => refused(ErrorCode::UnknownTopicId),
            Some(topic) if !may_describe(core, call, &topic.name) => refused(ErrorCode::TopicAuthorizationFailed),
            Some(topic) => known(core, call, topic),
        };
    }
    let name = wanted.name.unwrap_or_default();
    if !may_describe(core, call, name) {
        return refused(ErrorCode::TopicAuthorizationFailed);
    }
    if missing.forbidden.contains(name) {
        let is_internal = call.version >= 1 && Coordinated::of_topic(name).is_some();
        return MetadataResponseTopic { is_internal, ..refused(ErrorCode::TopicAuthorizationFailed) };
    }
    let is_new = missing.created.contains(name) || core.faults.hides(name, call.node);
    match core.topics.get(name).filter(|_| !is_new) {
        Some(topic) => known(core, call, topic),
        None if check_topic_name(name).is_err() => refused(ErrorCode::InvalidTopicException),
        None => {
            let mut answer = refused(ErrorCode::UnknownTopicOrPartition);
            // The name cannot be null up to version 11.
            answer.name = Some(name);
            answer.is_internal = call.version >= 1 && Coordinated::of_topic(name).is_some();
            answer
        }
    }
}

fn known<'a>(core: &Core, call: &Call<'_>, topic: &'a Topic) -> MetadataResponseTopic<'a> {
    MetadataResponseTopic {
        name: Some(&topic.name),
        topic_id: topic.id,
        is_internal: topic.internal,
        partitions: topic.partitions.iter().map(|partition| describe(core, call, partition)).collect(),
        ..Default::default()
    }
}

fn describe<'a>(core: &Core, call: &Call<'_>, partition: &Partition) -> MetadataResponsePartition<'a> {
    // Clients of version 0 connect to every replica in the response, so dead ones are left out.
    let told = |node: &&NodeId| call.version > 0 || core.nodes.is_alive(**node);
    let ids = |nodes: &[NodeId]| nodes.iter().filter(told).map(|node| node.0).collect::<Vec<_>>();
    let error = if partition.leader.is_none() {
        ErrorCode::LeaderNotAvailable
    } else if ids(&partition.replicas).len() < partition.replicas.len() {
        ErrorCode::ReplicaNotAvailable
    } else {
        ErrorCode::None
    };
    MetadataResponsePartition {
        error_code: error.code(),
        partition_index: partition.index,
        leader_id: partition.leader.map_or(-1, |node| node.0),
        leader_epoch: partition.leader_epoch,
        replica_nodes: ids(&partition.replicas),
        isr_nodes: ids(&partition.isr),
        offline_replicas: partition
            .replicas
            .iter()
            .filter(|&&node| !core.nodes.is_alive(node))
            .map(|node| node.0)
            .collect(),
        ..Default::default()
    }
}

pub(super) fn refuse<'a>(request: &MetadataRequest<'a>, error: ErrorCode) -> MetadataResponse<'a> {
    let refused = |topic: &MetadataRequestTopic<'a>| MetadataResponseTopic {
        error_code: error.code(),
        name: Some(topic.name.unwrap_or_default()),
        topic_id: topic.topic_id,
        ..Default::default()
    };
    let topics = request.topics.iter().flatten().map(refused).collect();
    MetadataResponse { topics, error_code: error.code(), ..Default::default() }
}

pub(super) fn mentions<'a>(request: &MetadataRequest<'a>) -> Mentions<'a> {
    let topics = request.topics.iter().flatten();
    let topics = topics.map(|topic| TopicKey::new(topic.name.unwrap_or_default(), topic.topic_id)).collect();
    Mentions { topics, ..Default::default() }
}
