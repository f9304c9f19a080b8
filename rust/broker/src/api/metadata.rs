//! Metadata, versions 0-13: brokers, topics, partitions; creates topics where the request asks for it and the broker allows it.
//!
//! Not implemented: authorized operations (nothing is authorized here; they are answered as not asked for).

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};

use super::{Mentions, TopicKey};
use crate::cluster::{Coordinated, NewTopic, Partition, Topic, TopicConfig, check_topic_name};
use crate::core::{Answer, Call, Core};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &MetadataRequest<'_>) -> Answer {
    // In version 0 the empty array asks for all topics.
    let wanted = request.topics.as_ref().filter(|topics| call.version > 0 || !topics.is_empty());
    let create = call.version < 4 || request.allow_auto_topic_creation;
    for topic in wanted.into_iter().flatten() {
        if create && topic.topic_id.is_zero() {
            auto_create(core, topic.name.unwrap_or_default());
        }
    }
    let topics = match wanted {
        Some(wanted) => wanted.iter().map(|topic| one(core, call, topic)).collect(),
        None => core.topics.all().map(|topic| known(core, topic)).collect(),
    };
    let brokers = core.nodes.alive().map(|node| MetadataResponseBroker {
        node_id: node.id.0,
        host: &node.host,
        port: node.port.into(),
        rack: node.rack.as_deref(),
        ..Default::default()
    });
    call.answer::<MetadataRequest<'_>>(&MetadataResponse {
        brokers: brokers.collect(),
        cluster_id: Some(&core.settings.cluster_id),
        controller_id: core.nodes.controller().map_or(-1, |node| node.0),
        topics,
        ..Default::default()
    })
}

fn auto_create(core: &mut Core, name: &str) {
    if core.topics.get(name).is_some() || check_topic_name(name).is_err() {
        return;
    }
    if let Some(kind) = Coordinated::of_topic(name) {
        return core.ensure_internal_topic(kind);
    }
    if !core.settings.kafka.auto_create_topics_enable {
        return;
    }
    let (partitions, replicas) = (core.settings.kafka.num_partitions, core.settings.kafka.default_replication_factor);
    let replicas = core.place_replicas(0, partitions, replicas);
    log::info!("created topic {name} with {partitions} partitions, because metadata was asked for it");
    core.create_topic(NewTopic { name: name.into(), config: TopicConfig::default(), replicas });
}

fn one<'a>(core: &'a Core, call: &Call<'_>, wanted: &MetadataRequestTopic<'a>) -> MetadataResponseTopic<'a> {
    let refused = |error: ErrorCode| MetadataResponseTopic {
        error_code: error.code(),
        name: wanted.name,
        topic_id: wanted.topic_id,
        ..Default::default()
    };
    if !wanted.topic_id.is_zero() {
        let found = core.topics.name_of(wanted.topic_id).and_then(|name| core.topics.get(&name));
        return found.map_or_else(|| refused(ErrorCode::UnknownTopicId), |topic| known(core, topic));
    }
    let name = wanted.name.unwrap_or_default();
    match core.topics.get(name) {
        Some(topic) => known(core, topic),
        None if check_topic_name(name).is_err() => refused(ErrorCode::InvalidTopicException),
        None => {
            let mut answer = refused(ErrorCode::UnknownTopicOrPartition);
            // Up to version 11 the name cannot be null.
            answer.name = Some(name);
            answer.is_internal = call.version >= 1 && Coordinated::of_topic(name).is_some();
            answer
        }
    }
}

fn known<'a>(core: &Core, topic: &'a Topic) -> MetadataResponseTopic<'a> {
    MetadataResponseTopic {
        name: Some(&topic.name),
        topic_id: topic.id,
        is_internal: topic.internal,
        partitions: topic.partitions.iter().map(|partition| describe(core, partition)).collect(),
        ..Default::default()
    }
}

fn describe<'a>(core: &Core, partition: &Partition) -> MetadataResponsePartition<'a> {
    let ids = |nodes: &[crate::cluster::NodeId]| nodes.iter().map(|node| node.0).collect();
    let error = if partition.leader.is_none() { ErrorCode::LeaderNotAvailable } else { ErrorCode::None };
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
