//! Heartbeat, versions 0-4: keeps a member's session alive, in a classic group or with the classic protocol in a
//! consumer group.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};

use super::{Handled, code};
use crate::core::Core;
use crate::groups::{Group, MemberIdentity};
use crate::request::Call;
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &HeartbeatRequest<'_>) -> Handled {
    core.authorize(call, Operation::Read, Resource::Group(request.group_id))?;
    let outcome = match beat(core, call, request) {
        // As in Kafka: while the coordinator loads, it does not know the member yet, and answers without an error.
        Err(ErrorCode::CoordinatorLoadInProgress) => Ok(()),
        outcome => outcome,
    };
    Ok(call.answer::<HeartbeatRequest<'_>>(&HeartbeatResponse { error_code: code(outcome), ..Default::default() }))
}

fn beat(core: &mut Core, call: &Call<'_>, request: &HeartbeatRequest<'_>) -> Result<(), ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let partition = core.group_partition(call.node, request.group_id)?;
    let who = MemberIdentity {
        member_id: request.member_id,
        instance_id: request.group_instance_id,
        generation_id: request.generation_id,
    };
    core.change_group(partition, request.group_id, |core, slot, _| match &mut slot.group {
        Some(Group::Classic(group)) => group.heartbeat(core.now_ms, who),
        Some(Group::Consumer(group)) => {
            core.with_consumer_context(&slot.id, |context| group.classic_heartbeat(context, who))
        }
        Some(Group::Share(_)) | None => Err(ErrorCode::UnknownMemberId),
    })?
}
