//! ConsumerGroupDescribe, versions 0-1 (KIP-848): describes consumer groups. As in Kafka, a classic group gets
//! GROUP_ID_NOT_FOUND.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::consumer_group_describe::{
    Assignment, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedGroup, Member as DescribedMember,
    TopicPartitions,
};
use monedula_protocol::types::Uuid;

use super::{ApiError, Handled};
use crate::core::Core;
use crate::groups::Group;
use crate::groups::consumer::{ConsumerGroup, ConsumerMember, ConsumerSettings, Partitions};
use crate::request::Call;
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ConsumerGroupDescribeRequest<'_>) -> Handled {
    let partitions: Vec<_> = request.group_ids.iter().map(|id| partition(core, call, id)).collect();
    let names = names(core);
    let asked = request.group_ids.iter().copied().zip(partitions);
    let described = asked.map(|(group_id, partition)| {
        let described = partition.and_then(|partition| find(core, partition, group_id)).and_then(|group| {
            let mut described = DescribedGroup { group_id, ..describe(core, group, &names) };
            if request.include_authorized_operations {
                described.authorized_operations = core.authorized_operations(call, Resource::Group(group_id));
            }
            if may_see_topics(core, call, &described) {
                return Ok(described);
            }
            let message = "The group has described topic(s) that the client is not authorized to describe.";
            Err(ApiError::new(ErrorCode::TopicAuthorizationFailed, message))
        });
        (group_id, described)
    });
    let described: Vec<_> = described.collect();
    let groups = described.iter().map(|(group_id, described)| match described {
        Ok(group) => group.clone(),
        Err(ApiError { code, message }) => {
            let error_message = message.as_deref();
            DescribedGroup { group_id, error_code: code.code(), error_message, ..Default::default() }
        }
    });
    let groups = groups.collect();
    Ok(call.answer::<ConsumerGroupDescribeRequest<'_>>(&ConsumerGroupDescribeResponse { groups, ..Default::default() }))
}

/// True if the client may describe all topics that members of the group subscribe to or are assigned.
fn may_see_topics(core: &Core, call: &Call<'_>, group: &DescribedGroup<'_>) -> bool {
    let assigned = |assignment: &Assignment<'_>| -> Vec<String> {
        assignment.topic_partitions.iter().map(|topic| topic.topic_name.to_owned()).collect()
    };
    let may_see = |topic: &str| core.allows(call, Operation::Describe, Resource::Topic(topic));
    group.members.iter().all(|member| {
        member.subscribed_topic_names.iter().all(|topic| may_see(topic))
            && assigned(&member.assignment).iter().all(|topic| may_see(topic))
            && assigned(&member.target_assignment).iter().all(|topic| may_see(topic))
    })
}

fn partition(core: &mut Core, call: &Call<'_>, group_id: &str) -> Result<i32, ApiError> {
    core.authorize(call, Operation::Describe, Resource::Group(group_id))?;
    if group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId.into());
    }
    Ok(core.group_partition(call.node, group_id)?)
}

fn find<'a>(core: &'a Core, partition: i32, group_id: &str) -> Result<&'a ConsumerGroup, ApiError> {
    let not_found = |why| ApiError::new(ErrorCode::GroupIdNotFound, format!("Group {group_id} {why}."));
    match core.groups.slot(partition, group_id).and_then(|slot| slot.group.as_ref()) {
        Some(Group::Consumer(group)) => Ok(group),
        Some(_) => Err(not_found("is not a consumer group")),
        None => Err(not_found("not found")),
    }
}

/// The names of all topics by id. Assigned topics that no longer exist are left out of the response.
fn names(core: &Core) -> BTreeMap<Uuid, Arc<str>> {
    core.topics.all().map(|topic| (topic.id, Arc::clone(&topic.name))).collect()
}

fn describe<'a>(core: &Core, group: &'a ConsumerGroup, names: &'a BTreeMap<Uuid, Arc<str>>) -> DescribedGroup<'a> {
    let default = || ConsumerSettings::new(&core.settings.kafka).default_assignor().name();
    DescribedGroup {
        group_state: group.state().name(),
        group_epoch: group.epoch(),
        assignment_epoch: group.target_epoch(),
        assignor_name: group.assignor_name().unwrap_or_else(default),
        members: group.members().map(|member| describe_member(group, member, names)).collect(),
        ..Default::default()
    }
}

fn describe_member<'a>(
    group: &ConsumerGroup,
    member: &'a ConsumerMember,
    names: &'a BTreeMap<Uuid, Arc<str>>,
) -> DescribedMember<'a> {
    // Partitions that the member has not finished revoking count as assigned.
    let held = member.assigned.iter().chain(member.pending_revocation.iter());
    let held: Partitions = held.map(|(topic, partition, _)| (topic, partition)).collect();
    let target = group.target(&member.id).map_or_else(Assignment::default, |target| assignment(target, names));
    DescribedMember {
        member_id: &member.id,
        instance_id: member.instance_id.as_deref(),
        rack_id: member.rack_id.as_deref(),
        member_epoch: member.epoch,
        client_id: &member.client_id,
        client_host: &member.client_host,
        subscribed_topic_names: member.subscribed_names.iter().map(|name| &**name).collect(),
        subscribed_topic_regex: Some(&member.subscribed_regex),
        assignment: assignment(&held, names),
        target_assignment: target,
        member_type: if member.classic.is_some() { 0 } else { 1 },
        ..Default::default()
    }
}

fn assignment<'a>(partitions: &Partitions, names: &'a BTreeMap<Uuid, Arc<str>>) -> Assignment<'a> {
    let topic_partitions = partitions.by_topic().filter_map(|(topic_id, partitions)| {
        let topic_name = names.get(&topic_id)?;
        Some(TopicPartitions {
            topic_id,
            topic_name,
            partitions: partitions.iter().copied().collect(),
            ..Default::default()
        })
    });
    Assignment { topic_partitions: topic_partitions.collect(), ..Default::default() }
}

pub(super) fn refuse<'a>(
    request: &ConsumerGroupDescribeRequest<'a>,
    error: ErrorCode,
) -> ConsumerGroupDescribeResponse<'a> {
    let refused = |group_id: &&'a str| DescribedGroup { group_id, error_code: error.code(), ..Default::default() };
    ConsumerGroupDescribeResponse { groups: request.group_ids.iter().map(refused).collect(), ..Default::default() }
}
