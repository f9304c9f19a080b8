//! DescribeGroups, versions 0-6: describes classic groups. An unknown group, or a consumer group, is described as Dead
//! up to version 5, and gets GROUP_ID_NOT_FOUND from version 6 on.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use bytes::Bytes;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};

use super::Handled;
use crate::core::Core;
use crate::groups::{ClassicGroup, Group};
use crate::request::Call;
use crate::security::{Operation, Resource};

/// An unknown group gets GROUP_ID_NOT_FOUND from this version on.
const NOT_FOUND_FROM: i16 = 6;

enum Refused {
    Error(ErrorCode),
    /// No group has that id, or it is not a classic group.
    NotFound(String),
}

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &DescribeGroupsRequest<'_>) -> Handled {
    let checked: Vec<_> = request.groups.iter().map(|group_id| check(core, call, group_id)).collect();
    let operations = |group_id: &str| match request.include_authorized_operations {
        true => core.authorized_operations(call, Resource::Group(group_id)),
        false => i32::MIN,
    };
    // The members' metadata for the group's protocol, kept here because the response borrows it.
    let metadata: Vec<Vec<Bytes>> = request
        .groups
        .iter()
        .zip(&checked)
        .map(|(group_id, checked)| checked.as_ref().map(|&index| metadata(core, index, group_id)).unwrap_or_default())
        .collect();
    let groups = request.groups.iter().zip(&checked).zip(&metadata).map(|((group_id, checked), metadata)| {
        let described = match checked {
            Ok(index) => classic(core, *index, group_id).map(|group| describe(group_id, group, metadata)),
            Err(Refused::Error(error)) => return refused(group_id, *error),
            Err(Refused::NotFound(message)) if call.version >= NOT_FOUND_FROM => {
                let error = refused(group_id, ErrorCode::GroupIdNotFound);
                return DescribedGroup { error_message: Some(message), group_state: "Dead", ..error };
            }
            Err(Refused::NotFound(_)) => None,
        };
        let dead = || DescribedGroup { group_id, group_state: "Dead", ..Default::default() };
        DescribedGroup { authorized_operations: operations(group_id), ..described.unwrap_or_else(dead) }
    });
    Ok(call.answer::<DescribeGroupsRequest<'_>>(&DescribeGroupsResponse {
        groups: groups.collect(),
        ..Default::default()
    }))
}

fn check(core: &mut Core, call: &Call<'_>, group_id: &str) -> Result<i32, Refused> {
    core.authorize(call, Operation::Describe, Resource::Group(group_id)).map_err(Refused::Error)?;
    let index = core.group_partition(call.node, group_id).map_err(Refused::Error)?;
    match core.groups.slot(index, group_id).and_then(|slot| slot.group.as_ref()) {
        Some(Group::Classic(_)) => Ok(index),
        Some(Group::Consumer(_) | Group::Share(_)) => {
            Err(Refused::NotFound(format!("Group {group_id} is not a classic group.")))
        }
        None => Err(Refused::NotFound(format!("Group {group_id} not found."))),
    }
}

fn classic<'a>(core: &'a Core, index: i32, group_id: &str) -> Option<&'a ClassicGroup> {
    match core.groups.slot(index, group_id)?.group.as_ref()? {
        Group::Classic(group) => Some(group),
        Group::Consumer(_) | Group::Share(_) => None,
    }
}

fn metadata(core: &Core, index: i32, group_id: &str) -> Vec<Bytes> {
    let Some(group) = classic(core, index, group_id) else { return Vec::new() };
    let protocol = group.stable_protocol();
    group.members().map(|(_, member)| protocol.map(|name| member.metadata(name)).unwrap_or_default()).collect()
}

fn describe<'a>(group_id: &'a str, group: &'a ClassicGroup, metadata: &'a [Bytes]) -> DescribedGroup<'a> {
    let members = group.members().zip(metadata).map(|((id, member), metadata)| DescribedGroupMember {
        member_id: id,
        group_instance_id: member.instance_id.as_deref(),
        client_id: &member.client_id,
        client_host: &member.client_host,
        member_metadata: metadata,
        member_assignment: &member.assignment,
        ..Default::default()
    });
    DescribedGroup {
        group_id,
        group_state: group.state().name(),
        protocol_type: group.protocol_type().map(|name| &**name).unwrap_or_default(),
        protocol_data: group.stable_protocol().unwrap_or_default(),
        members: members.collect(),
        ..Default::default()
    }
}

fn refused(group_id: &str, error: ErrorCode) -> DescribedGroup<'_> {
    DescribedGroup { group_id, error_code: error.code(), ..Default::default() }
}

pub(super) fn refuse<'a>(request: &DescribeGroupsRequest<'a>, error: ErrorCode) -> DescribeGroupsResponse<'a> {
    let groups = request.groups.iter().map(|group_id| refused(group_id, error)).collect();
    DescribeGroupsResponse { groups, ..Default::default() }
}
