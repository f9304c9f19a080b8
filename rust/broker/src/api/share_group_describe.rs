//! ShareGroupDescribe, version 1 (KIP-932): describes share groups. A group of another kind gets GROUP_ID_NOT_FOUND.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::share_group_describe::{
    Assignment, DescribedGroup, Member as DescribedMember, ShareGroupDescribeRequest, ShareGroupDescribeResponse,
    TopicPartitions,
};
use monedula_protocol::types::Uuid;

use super::{ApiError, Handled};
use crate::core::Core;
use crate::groups::ShareGroup;
use crate::groups::share::{ASSIGNOR, ShareMember};
use crate::request::Call;
use crate::security::{Operation, Resource};

type Names = BTreeMap<Uuid, Arc<str>>;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ShareGroupDescribeRequest<'_>) -> Handled {
    let partitions: Vec<_> = request.group_ids.iter().map(|id| partition(core, call, id)).collect();
    // Assigned topics that no longer exist are left out.
    let names: Names = core.topics.all().map(|topic| (topic.id, Arc::clone(&topic.name))).collect();
    let asked = request.group_ids.iter().copied().zip(partitions);
    let described: Vec<_> = asked
        .map(|(group_id, partition)| {
            let described = partition.and_then(|partition| {
                let group = core.share_group(partition, group_id).ok_or_else(|| {
                    ApiError::new(ErrorCode::GroupIdNotFound, format!("Group {group_id} is no share group."))
                })?;
                may_see_topics(core, call, group, &names)?;
                let mut described = describe(group_id, group, &names);
                if request.include_authorized_operations {
                    described.authorized_operations = core.authorized_operations(call, Resource::Group(group_id));
                }
                Ok(described)
            });
            (group_id, described)
        })
        .collect();
    let groups = described.iter().map(|(group_id, described)| match described {
        Ok(group) => group.clone(),
        Err(ApiError { code, message }) => DescribedGroup {
            group_id,
            error_code: code.code(),
            error_message: message.as_deref(),
            ..Default::default()
        },
    });
    let groups = groups.collect();
    Ok(call.answer::<ShareGroupDescribeRequest<'_>>(&ShareGroupDescribeResponse { groups, ..Default::default() }))
}

fn partition(core: &mut Core, call: &Call<'_>, group_id: &str) -> Result<i32, ApiError> {
    core.authorize(call, Operation::Describe, Resource::Group(group_id))?;
    if group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId.into());
    }
    Ok(core.group_partition(call.node, group_id)?)
}

/// Checks that the client may describe all topics that members of the group subscribe to or are assigned.
fn may_see_topics(core: &Core, call: &Call<'_>, group: &ShareGroup, names: &Names) -> Result<(), ApiError> {
    let may_see = |topic: &str| core.allows(call, Operation::Describe, Resource::Topic(topic));
    let all = group.members().all(|member| {
        let mut assigned = member.assigned.by_topic().filter_map(|(id, _)| names.get(&id));
        member.subscribed_names.iter().all(|topic| may_see(topic)) && assigned.all(|topic| may_see(topic))
    });
    let message = "The group has described topic(s) that the client is not authorized to describe.";
    if all { Ok(()) } else { Err(ApiError::new(ErrorCode::TopicAuthorizationFailed, message)) }
}

fn describe<'a>(group_id: &'a str, group: &'a ShareGroup, names: &'a Names) -> DescribedGroup<'a> {
    DescribedGroup {
        group_id,
        group_state: group.state(),
        group_epoch: group.epoch(),
        assignment_epoch: group.target_epoch(),
        assignor_name: ASSIGNOR,
        members: group.members().map(|member| describe_member(member, names)).collect(),
        ..Default::default()
    }
}

fn describe_member<'a>(member: &'a ShareMember, names: &'a Names) -> DescribedMember<'a> {
    let topic_partitions = member.assigned.by_topic().filter_map(|(topic_id, partitions)| {
        let topic_name = names.get(&topic_id)?;
        let partitions = partitions.iter().copied().collect();
        Some(TopicPartitions { topic_id, topic_name, partitions, ..Default::default() })
    });
    DescribedMember {
        member_id: &member.id,
        rack_id: member.rack_id.as_deref(),
        member_epoch: member.epoch,
        client_id: &member.client_id,
        client_host: &member.client_host,
        subscribed_topic_names: member.subscribed_names.iter().map(|name| &**name).collect(),
        assignment: Assignment { topic_partitions: topic_partitions.collect(), ..Default::default() },
        ..Default::default()
    }
}

pub(super) fn refuse<'a>(request: &ShareGroupDescribeRequest<'a>, error: ErrorCode) -> ShareGroupDescribeResponse<'a> {
    let refused = |group_id: &&'a str| DescribedGroup { group_id, error_code: error.code(), ..Default::default() };
    ShareGroupDescribeResponse { groups: request.group_ids.iter().map(refused).collect(), ..Default::default() }
}
