//! SyncGroup, versions 0-5.

use monedula_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};

use crate::core::{Core, Ticket};
use crate::groups::SyncAnswer;

/// Answers a sync that waited.
pub(crate) fn answer(core: &mut Core, ticket: Ticket, answer: &SyncAnswer) {
    core.answer::<SyncGroupRequest<'_>>(
        ticket,
        &SyncGroupResponse {
            error_code: answer.error.code(),
            protocol_type: answer.protocol_type.as_deref(),
            protocol_name: answer.protocol_name.as_deref(),
            assignment: &answer.assignment,
            ..Default::default()
        },
    );
}
