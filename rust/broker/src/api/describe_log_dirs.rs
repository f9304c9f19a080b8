//! DescribeLogDirs, versions 1-5: describes the one log directory of the node, with the logs of which the node has a
//! replica.
//!
//! Not implemented: the total and usable bytes of the volume, which are -1 (unknown). A replica never lags and is never
//! a future replica.

use monedula_protocol::messages::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeLogDirsResult, DescribeLogDirsTopic,
};

use super::Handled;
use crate::cluster::Partition;
use crate::core::Core;
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

type Request<'a> = DescribeLogDirsRequest<'a>;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    core.authorize(call, Operation::Describe, Resource::Cluster)?;
    let topics = core.topics.all().map(|topic| {
        let held = topic.partitions.iter().filter(|partition| partition.replicas.contains(&call.node));
        let asked = held.filter(|partition| is_asked(request.topics.as_deref(), &topic.name, partition.index));
        DescribeLogDirsTopic { name: &topic.name, partitions: asked.map(describe).collect(), ..Default::default() }
    });
    // As in Kafka, a partition that the node does not have is left out without an error.
    let topics = topics.filter(|topic| !topic.partitions.is_empty()).collect();
    let path = core.settings.log_dir();
    let log_dir = path.to_string_lossy();
    let result = DescribeLogDirsResult { log_dir: &log_dir, topics, ..Default::default() };
    Ok(call.answer::<Request<'_>>(&DescribeLogDirsResponse { results: vec![result], ..Default::default() }))
}

fn is_asked(topics: Option<&[DescribableLogDirTopic<'_>]>, name: &str, index: i32) -> bool {
    topics.is_none_or(|topics| topics.iter().any(|topic| topic.topic == name && topic.partitions.contains(&index)))
}

fn describe(partition: &Partition) -> DescribeLogDirsPartition<'static> {
    DescribeLogDirsPartition {
        partition_index: partition.index,
        partition_size: i64::try_from(partition.log.bytes()).unwrap_or(i64::MAX),
        ..Default::default()
    }
}

pub(super) fn mentions<'a>(request: &Request<'a>) -> Mentions<'a> {
    let topics = request.topics.iter().flatten();
    let partitions =
        topics.flat_map(|topic| topic.partitions.iter().map(|&index| (TopicKey::Name(topic.topic), index)));
    Mentions { partitions: partitions.collect(), ..Default::default() }
}
