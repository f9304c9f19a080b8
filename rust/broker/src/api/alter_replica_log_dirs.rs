//! AlterReplicaLogDirs, versions 1-2 (KIP-113).
//!
//! Not implemented: moving replicas. Each node has one log directory, so a replica can only be moved to the directory
//! where it is; any other path gets LOG_DIR_NOT_FOUND.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::alter_replica_log_dirs::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
};

use super::{Handled, code};
use crate::cluster::NodeId;
use crate::core::Core;
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

type Request<'a> = AlterReplicaLogDirsRequest<'a>;

/// The maximum length of a directory name in bytes.
const MAX_DIRECTORY_NAME_BYTES: usize = 255;
/// The length of the suffix that Kafka adds to `topic-partition` for the directory of a moving replica: a dot, an id,
/// `-future`.
const FUTURE_SUFFIX_BYTES: usize = 40;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    core.authorize(call, Operation::Alter, Resource::Cluster)?;
    let core = &*core;
    Ok(call.answer::<Request<'_>>(&response(request, |topic, partition, path| {
        check(core, call.node, topic, partition, path)
    })))
}

/// The response, with the outcome of each partition. If a partition is named twice, its last directory counts.
fn response<'a>(
    request: &Request<'a>,
    mut outcome: impl FnMut(&'a str, i32, &'a str) -> Result<(), ErrorCode>,
) -> AlterReplicaLogDirsResponse<'a> {
    let mut wanted: BTreeMap<&str, BTreeMap<i32, &str>> = BTreeMap::new();
    for dir in &request.dirs {
        for topic in &dir.topics {
            let named = wanted.entry(topic.name).or_default();
            named.extend(topic.partitions.iter().map(|&partition| (partition, dir.path)));
        }
    }
    wanted.retain(|_, partitions| !partitions.is_empty());
    let results = wanted.into_iter().map(|(topic_name, partitions)| AlterReplicaLogDirTopicResult {
        topic_name,
        partitions: partitions
            .into_iter()
            .map(|(partition_index, path)| AlterReplicaLogDirPartitionResult {
                partition_index,
                error_code: code(outcome(topic_name, partition_index, path)),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    AlterReplicaLogDirsResponse { results: results.collect(), ..Default::default() }
}

fn check(core: &Core, node: NodeId, topic: &str, partition: i32, path: &str) -> Result<(), ErrorCode> {
    if format!("{topic}-{partition}").len() + FUTURE_SUFFIX_BYTES > MAX_DIRECTORY_NAME_BYTES {
        return Err(ErrorCode::InvalidTopicException);
    }
    if core.settings.log_dir().to_string_lossy() != path {
        return Err(ErrorCode::LogDirNotFound);
    }
    match core.topics.partition(topic, partition) {
        Some(found) if found.replicas.contains(&node) => Ok(()),
        // Kafka keeps REPLICA_NOT_AVAILABLE here for compatibility with old clients.
        Some(_) => Err(ErrorCode::ReplicaNotAvailable),
        None => Err(ErrorCode::UnknownTopicOrPartition),
    }
}

pub(super) fn refuse<'a>(request: &Request<'a>, error: ErrorCode) -> AlterReplicaLogDirsResponse<'a> {
    response(request, |_, _, _| Err(error))
}

pub(super) fn mentions<'a>(request: &Request<'a>) -> Mentions<'a> {
    let topics = request.dirs.iter().flat_map(|dir| &dir.topics);
    let partitions = topics.flat_map(|topic| topic.partitions.iter().map(|&index| (TopicKey::Name(topic.name), index)));
    Mentions { partitions: partitions.collect(), ..Default::default() }
}
