//! JoinGroup, versions 0-9.

use monedula_protocol::messages::join_group::{JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember};

use crate::core::{Core, Ticket};
use crate::groups::JoinAnswer;

/// Answers a join that waited.
pub(crate) fn answer(core: &mut Core, ticket: Ticket, answer: &JoinAnswer) {
    let members = answer.members.iter().map(|member| JoinGroupResponseMember {
        member_id: &member.member_id,
        group_instance_id: member.instance_id.as_deref(),
        metadata: &member.metadata,
        ..Default::default()
    });
    // Up to version 6 the name cannot be null.
    let no_name = (ticket.version < 7).then_some("");
    core.answer::<JoinGroupRequest<'_>>(
        ticket,
        &JoinGroupResponse {
            error_code: answer.error.code(),
            generation_id: answer.generation_id,
            protocol_type: answer.protocol_type.as_deref(),
            protocol_name: answer.protocol_name.as_deref().or(no_name),
            leader: &answer.leader,
            skip_assignment: answer.skip_assignment,
            member_id: &answer.member_id,
            members: members.collect(),
            ..Default::default()
        },
    );
}
