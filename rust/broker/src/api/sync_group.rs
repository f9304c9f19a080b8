//! SyncGroup, versions 0-5: takes the assignments from the leader of a classic group and returns each member its own.
//! Members of consumer groups that use the classic protocol are served too.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::sync_group::SyncGroupRequest;

use super::Handled;
use crate::core::Core;
use crate::groups::{Effects, Group, MemberIdentity, Slot, Sync, SyncAnswer};
use crate::request::{Answer, Call};
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &SyncGroupRequest<'_>) -> Handled {
    // KIP-559: from version 5 on, a member names the protocol type and protocol that it expects of the group.
    if call.version >= 5 && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    core.authorize(call, Operation::Read, Resource::Group(request.group_id))?;
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let partition = core.group_partition(call.node, request.group_id)?;
    let sync = Sync {
        ticket: call.ticket,
        who: MemberIdentity {
            member_id: request.member_id,
            instance_id: request.group_instance_id,
            generation_id: request.generation_id,
        },
        protocol_type: request.protocol_type,
        protocol_name: request.protocol_name,
        assignments: request.assignments.iter().map(|assigned| (assigned.member_id, assigned.assignment)).collect(),
    };
    // If the change cannot be stored, change_group has already answered with the error.
    let _ = core.change_group(partition, request.group_id, |core, slot, effects| sync_slot(core, slot, &sync, effects));
    Ok(Answer::Later)
}

fn sync_slot(core: &Core, slot: &mut Slot, sync: &Sync<'_>, effects: &mut Effects) {
    match &mut slot.group {
        Some(Group::Classic(group)) => group.sync(core.now_ms, sync, effects),
        Some(Group::Consumer(_)) => {
            let id = slot.id.clone();
            core.with_consumer_context(&id, |context| slot.sync_consumer_group(context, sync, effects));
        }
        Some(Group::Share(_)) | None => effects.sync(sync.ticket, SyncAnswer::refused(ErrorCode::UnknownMemberId)),
    }
}
