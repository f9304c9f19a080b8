//! JoinGroup, versions 0-9: joins a classic group, or a consumer group with the classic protocol. The response waits
//! until the rebalance has all members.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::join_group::{JoinGroupRequest, JoinGroupResponse};

use super::Handled;
use crate::core::Core;
use crate::draw::hyphenated;
use crate::groups::{ClassicGroup, Effects, Group, Join, JoinAnswer, Protocol, Slot};
use crate::request::{Answer, Call};
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &JoinGroupRequest<'_>) -> Handled {
    let refused = |error, member_id: &str| {
        let answer = JoinAnswer::refused(error, member_id.into());
        Ok(call.answer::<JoinGroupRequest<'_>>(&answer.response(call.version)))
    };
    if let Err(error) = core.authorize(call, Operation::Read, Resource::Group(request.group_id)) {
        return refused(error, "");
    }
    if request.group_id.is_empty() {
        return refused(ErrorCode::InvalidGroupId, request.member_id);
    }
    let settings = &core.settings.kafka;
    let allowed = settings.group_min_session_timeout_ms..=settings.group_max_session_timeout_ms;
    if !allowed.contains(&request.session_timeout_ms) {
        return refused(ErrorCode::InvalidSessionTimeout, request.member_id);
    }
    let partition = match core.group_partition(call.node, request.group_id) {
        Ok(partition) => partition,
        Err(error) => return refused(error, ""),
    };
    let join = join(core, call, request);
    // If the change cannot be stored, change_group has already answered with the error.
    let _ = core.change_group(partition, request.group_id, |core, slot, effects| join_slot(core, slot, join, effects));
    Ok(Answer::Later)
}

fn join<'a>(core: &mut Core, call: &Call<'a>, request: &JoinGroupRequest<'a>) -> Join<'a> {
    let (new_member_id, new_consumer_member_id) = match request.member_id.is_empty() {
        true => {
            let id = core.draw.uuid();
            let prefix = request.group_instance_id.unwrap_or(call.client_id);
            (format!("{prefix}-{}", hyphenated(id)), id.to_string())
        }
        false => (String::new(), String::new()),
    };
    Join {
        ticket: call.ticket,
        member_id: request.member_id,
        new_member_id: new_member_id.into(),
        new_consumer_member_id: new_consumer_member_id.into(),
        instance_id: request.group_instance_id,
        client_id: call.client_id,
        // The form of Java's `InetAddress.toString()`.
        client_host: format!("/{}", call.origin.host).into(),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: if call.version == 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms },
        protocol_type: request.protocol_type,
        protocols: protocols(request),
        reason: request.reason.unwrap_or("not provided"),
        rules: core.join_rules(),
    }
}

/// The protocols without duplicate names: Kafka takes the first of a name.
fn protocols(request: &JoinGroupRequest<'_>) -> Box<[Protocol]> {
    let mut protocols: Vec<Protocol> = Vec::with_capacity(request.protocols.len());
    for protocol in &request.protocols {
        if !protocols.iter().any(|known| &*known.name == protocol.name) {
            // Copied, so that a member does not keep the whole frame in memory.
            let metadata = bytes::Bytes::copy_from_slice(protocol.metadata);
            protocols.push(Protocol { name: protocol.name.into(), metadata });
        }
    }
    protocols.into()
}

fn join_slot(core: &Core, slot: &mut Slot, mut join: Join<'_>, effects: &mut Effects) {
    if let Some(Group::Consumer(group)) = &slot.group {
        if !group.is_empty() {
            let id = slot.id.clone();
            // Ids that a consumer group assigns have no prefix, whichever protocol the member has.
            join.new_member_id = Arc::clone(&join.new_consumer_member_id);
            return core.with_consumer_context(&id, |context| slot.join_consumer_group(context, &join, effects));
        }
        if !join.member_id.is_empty() {
            return effects.join(join.ticket, JoinAnswer::refused(ErrorCode::UnknownMemberId, join.member_id.into()));
        }
        // An empty consumer group is replaced by a classic one.
        slot.drop_group(effects);
    }
    let is_new = slot.group.is_none();
    let stored = effects.records.len();
    if is_new && !join.member_id.is_empty() {
        return effects.join(join.ticket, JoinAnswer::refused(ErrorCode::UnknownMemberId, join.member_id.into()));
    }
    let group = slot.group.get_or_insert_with(|| Group::Classic(ClassicGroup::new(slot.id.clone())));
    match group {
        Group::Classic(group) => group.join(core.now_ms, join, effects),
        Group::Consumer(_) | Group::Share(_) => {
            effects.join(join.ticket, JoinAnswer::refused(ErrorCode::InconsistentGroupProtocol, join.member_id.into()))
        }
    }
    if is_new && effects.records.len() == stored {
        // Stored so that the group is known after a failover even before its first generation.
        effects.store(ClassicGroup::new(slot.id.clone()).record());
    }
}

pub(super) fn refuse<'a>(_request: &JoinGroupRequest<'a>, error: ErrorCode) -> JoinGroupResponse<'a> {
    JoinGroupResponse { error_code: error.code(), protocol_name: Some(""), ..Default::default() }
}
