//! LeaveGroup, versions 0-5: removes one member, or from version 3 on several (KIP-345), from a classic group, or from
//! a consumer group if they use the classic protocol.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberResponse};

use super::{Handled, code};
use crate::core::Core;
use crate::groups::{Group, Leaver};
use crate::request::Call;
use crate::security::{Operation, Resource};

/// The last version with a single member, whose error is that of the response.
const LAST_OF_ONE_MEMBER: i16 = 2;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &LeaveGroupRequest<'_>) -> Handled {
    core.authorize(call, Operation::Read, Resource::Group(request.group_id))?;
    let leavers = leavers(call.version, request);
    let outcomes = leave(core, call, request.group_id, &leavers)?;
    if call.version <= LAST_OF_ONE_MEMBER {
        let error_code = outcomes.first().copied().map_or(0, code);
        return Ok(call.answer::<LeaveGroupRequest<'_>>(&LeaveGroupResponse { error_code, ..Default::default() }));
    }
    let members = leavers.iter().zip(outcomes).map(|(leaver, outcome)| MemberResponse {
        member_id: leaver.member_id,
        group_instance_id: leaver.instance_id,
        error_code: code(outcome),
        ..Default::default()
    });
    Ok(call.answer::<LeaveGroupRequest<'_>>(&LeaveGroupResponse { members: members.collect(), ..Default::default() }))
}

fn leavers<'a>(version: i16, request: &LeaveGroupRequest<'a>) -> Vec<Leaver<'a>> {
    if version <= LAST_OF_ONE_MEMBER {
        return vec![Leaver { member_id: request.member_id, instance_id: None, reason: "not provided" }];
    }
    let leavers = request.members.iter().map(|member| Leaver {
        member_id: member.member_id,
        instance_id: member.group_instance_id,
        reason: member.reason.unwrap_or("not provided"),
    });
    leavers.collect()
}

fn leave(
    core: &mut Core,
    call: &Call<'_>,
    group_id: &str,
    leavers: &[Leaver<'_>],
) -> Result<Vec<Result<(), ErrorCode>>, ErrorCode> {
    if group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let partition = core.group_partition(call.node, group_id)?;
    core.change_group(partition, group_id, |core, slot, effects| match &mut slot.group {
        Some(Group::Classic(group)) => group.leave(core.now_ms, leavers, effects),
        Some(Group::Consumer(_)) => {
            core.with_consumer_context(group_id, |context| slot.leave_consumer_group(context, leavers, effects))
        }
        Some(Group::Share(_)) | None => vec![Err(ErrorCode::UnknownMemberId); leavers.len()],
    })
}
