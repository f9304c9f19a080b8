//! DescribeShareGroupOffsets, versions 0-1 (KIP-932, KIP-1226): the start offsets of share groups as they are stored,
//! and how many records lie behind them.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_share_group_offsets::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup as WantedGroup,
    DescribeShareGroupOffsetsResponse, DescribeShareGroupOffsetsResponseGroup as DescribedGroup,
    DescribeShareGroupOffsetsResponsePartition as DescribedPartition,
    DescribeShareGroupOffsetsResponseTopic as DescribedTopic,
};
use monedula_protocol::types::Uuid;

use super::{ApiError, Handled};
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};
use crate::share::ShareKey;

/// A topic of a group: name, id, and partitions with the start offset, leader epoch and lag, or an error.
type Topic = (String, Uuid, Vec<(i32, Result<(i64, i32, i64), ErrorCode>)>);

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &DescribeShareGroupOffsetsRequest<'_>) -> Handled {
    let described: Vec<_> =
        request.groups.iter().map(|wanted| (wanted.group_id, describe(core, call, wanted))).collect();
    let groups = described.iter().map(|(group_id, described)| match described {
        Ok(topics) => DescribedGroup { group_id, topics: topics.iter().map(topic).collect(), ..Default::default() },
        Err(error) => DescribedGroup {
            group_id,
            error_code: error.code.code(),
            error_message: error.message.as_deref(),
            ..Default::default()
        },
    });
    let response = DescribeShareGroupOffsetsResponse { groups: groups.collect(), ..Default::default() };
    Ok(call.answer::<DescribeShareGroupOffsetsRequest<'_>>(&response))
}

fn describe(core: &mut Core, call: &Call<'_>, wanted: &WantedGroup<'_>) -> Result<Vec<Topic>, ApiError> {
    core.authorize(call, Operation::Describe, Resource::Group(wanted.group_id))?;
    let partition = core.group_partition(call.node, wanted.group_id)?;
    // As in Kafka, a group that does not exist has no offsets, which is no error.
    let group = core.share_group(partition, wanted.group_id);
    let may_see = |topic: &str| core.authorize(call, Operation::Describe, Resource::Topic(topic));
    let topics: Vec<(String, Vec<i32>)> = match &wanted.topics {
        Some(topics) => topics.iter().map(|topic| (topic.topic_name.to_owned(), topic.partitions.clone())).collect(),
        None => {
            let all = group.into_iter().flat_map(|group| group.initialized().values());
            let all = all.filter(|(name, _)| may_see(name).is_ok());
            all.map(|(name, partitions)| (name.to_string(), (0..*partitions).collect())).collect()
        }
    };
    let one = |(name, partitions): (String, Vec<i32>)| {
        // A topic that does not exist has no offset either.
        let found = may_see(&name).map(|()| core.topics.get(&name).map_or(Uuid::ZERO, |topic| topic.id));
        let partition = |index: i32| (index, found.map(|id| offset(core, wanted.group_id, id, index)));
        let partitions = partitions.into_iter().map(partition).collect();
        (name, found.unwrap_or_default(), partitions)
    };
    Ok(topics.into_iter().map(one).collect())
}

/// The start offset, leader epoch and lag of a partition; -1 for the offset and the lag before the first fetch.
fn offset(core: &Core, group_id: &str, topic: Uuid, partition: i32) -> (i64, i32, i64) {
    let key = ShareKey { group: group_id.into(), topic, partition };
    let found = core.share_partitions.snapshot(&key);
    found.map_or((-1, 0, -1), |found| (found.start_offset, found.leader_epoch, core.share_lag(&key, found)))
}

fn topic((topic_name, topic_id, partitions): &Topic) -> DescribedTopic<'_> {
    let partition = |(partition_index, found): &(i32, Result<(i64, i32, i64), ErrorCode>)| match found {
        Ok((start_offset, leader_epoch, lag)) => DescribedPartition {
            partition_index: *partition_index,
            start_offset: *start_offset,
            leader_epoch: *leader_epoch,
            lag: *lag,
            ..Default::default()
        },
        Err(error) => DescribedPartition {
            partition_index: *partition_index,
            error_code: error.code(),
            error_message: Some(error.message()),
            ..Default::default()
        },
    };
    let partitions = partitions.iter().map(partition).collect();
    DescribedTopic { topic_name, topic_id: *topic_id, partitions, ..Default::default() }
}

pub(super) fn refuse<'a>(
    request: &DescribeShareGroupOffsetsRequest<'a>,
    error: ErrorCode,
) -> DescribeShareGroupOffsetsResponse<'a> {
    let refused = |group: &WantedGroup<'a>| DescribedGroup {
        group_id: group.group_id,
        error_code: error.code(),
        ..Default::default()
    };
    DescribeShareGroupOffsetsResponse { groups: request.groups.iter().map(refused).collect(), ..Default::default() }
}

pub(super) fn mentions<'a>(request: &DescribeShareGroupOffsetsRequest<'a>) -> crate::request::Mentions<'a> {
    let groups = request.groups.iter().map(|group| group.group_id).collect();
    crate::request::Mentions { groups, ..Default::default() }
}
