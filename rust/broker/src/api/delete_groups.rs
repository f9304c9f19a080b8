//! DeleteGroups, versions 0-3: deletes groups without members, with their committed offsets, or the state of their share
//! partitions.
//!
//! Not implemented: streams groups (KIP-1071), of which there are none.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};

use super::{Handled, code};
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &DeleteGroupsRequest<'_>) -> Handled {
    let mut results: Vec<DeletableGroupResult<'_>> = Vec::with_capacity(request.groups_names.len());
    for &group_id in &request.groups_names {
        if results.iter().any(|result| result.group_id == group_id) {
            continue;
        }
        let allowed = core.authorize(call, Operation::Delete, Resource::Group(group_id));
        let error_code = code(allowed.and_then(|()| core.delete_group(call.node, group_id)));
        results.push(DeletableGroupResult { group_id, error_code, ..Default::default() });
    }
    Ok(call.answer::<DeleteGroupsRequest<'_>>(&DeleteGroupsResponse { results, ..Default::default() }))
}

pub(super) fn refuse<'a>(request: &DeleteGroupsRequest<'a>, error: ErrorCode) -> DeleteGroupsResponse<'a> {
    let refused =
        |&group_id: &&'a str| DeletableGroupResult { group_id, error_code: error.code(), ..Default::default() };
    DeleteGroupsResponse { results: request.groups_names.iter().map(refused).collect(), ..Default::default() }
}
