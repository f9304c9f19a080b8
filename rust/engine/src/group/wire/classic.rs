//! Encoding of requests and decoding of answers that only the classic protocol has.

use std::collections::BTreeSet;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse, JoinGroupResponseMember,
};
use monedula_protocol::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity};
use monedula_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};

use crate::group::messages::GroupResponse;

/// The protocol type of consumer groups.
const CONSUMER: &str = "consumer";

/// The length of a reason is limited as in Java's clients (KIP-800), which keeps the brokers' logs short; brokers
/// accept any length.
pub(super) const REASON_CHARS: usize = 255;

/// The reason as it is sent; `None` if it is empty.
pub(super) fn said(reason: &str) -> Option<&str> {
    let end = reason.char_indices().nth(REASON_CHARS).map_or(reason.len(), |(end, _)| end);
    (end > 0).then_some(&reason[..end])
}

/// A name in an answer: older versions have an empty string instead of null.
fn named(name: Option<&str>) -> Option<String> {
    name.filter(|name| !name.is_empty()).map(str::to_owned)
}

/// `timeouts_ms` are those of the session and of a rebalance.
pub(super) fn join_request<'a>(
    group_id: &'a str,
    (member_id, group_instance_id): (&'a str, Option<&'a str>),
    protocols: &'a [(String, Vec<u8>)],
    timeouts_ms: (i32, i32),
    reason: &'a str,
) -> JoinGroupRequest<'a> {
    let protocol =
        |(name, metadata): &'a (String, Vec<u8>)| JoinGroupRequestProtocol { name, metadata, ..Default::default() };
    JoinGroupRequest {
        group_id,
        session_timeout_ms: timeouts_ms.0,
        rebalance_timeout_ms: timeouts_ms.1,
        member_id,
        group_instance_id,
        protocol_type: CONSUMER,
        protocols: protocols.iter().map(protocol).collect(),
        reason: said(reason),
        ..Default::default()
    }
}

pub(super) fn sync_request<'a>(
    group_id: &'a str,
    (member_id, group_instance_id): (&'a str, Option<&'a str>),
    generation_id: i32,
    protocol: &'a str,
    assignments: &'a [(String, Vec<u8>)],
) -> SyncGroupRequest<'a> {
    let assignment = |(member_id, assignment): &'a (String, Vec<u8>)| SyncGroupRequestAssignment {
        member_id,
        assignment,
        ..Default::default()
    };
    SyncGroupRequest {
        group_id,
        generation_id,
        member_id,
        group_instance_id,
        protocol_type: Some(CONSUMER),
        protocol_name: Some(protocol),
        assignments: assignments.iter().map(assignment).collect(),
        ..Default::default()
    }
}

pub(super) fn leave_request<'a>(
    group_id: &'a str,
    member_id: &'a str,
    group_instance_id: Option<&'a str>,
    reason: &'a str,
    version: i16,
) -> LeaveGroupRequest<'a> {
    if version <= 2 {
        return LeaveGroupRequest { group_id, member_id, ..Default::default() };
    }
    let member = MemberIdentity { member_id, group_instance_id, reason: said(reason), ..Default::default() };
    LeaveGroupRequest { group_id, members: vec![member], ..Default::default() }
}

pub(super) fn joined(response: &JoinGroupResponse<'_>) -> GroupResponse {
    let mut seen = BTreeSet::new();
    let first = response.members.iter().filter(|member| seen.insert(member.member_id));
    let member = |member: &JoinGroupResponseMember<'_>| {
        let instance_id = member.group_instance_id.map(str::to_owned);
        (member.member_id.to_owned(), instance_id, member.metadata.to_vec())
    };
    GroupResponse::JoinGroup {
        code: ErrorCode::from_code(response.error_code),
        generation: response.generation_id,
        member_id: response.member_id.to_owned(),
        leader: response.leader.to_owned(),
        protocol_type: named(response.protocol_type),
        protocol: named(response.protocol_name),
        skip_assignment: response.skip_assignment,
        members: first.map(member).collect(),
    }
}

pub(super) fn synced(response: &SyncGroupResponse<'_>) -> GroupResponse {
    GroupResponse::SyncGroup {
        code: ErrorCode::from_code(response.error_code),
        protocol_type: named(response.protocol_type),
        protocol: named(response.protocol_name),
        assignment: response.assignment.to_vec(),
    }
}

pub(super) fn left(response: &LeaveGroupResponse<'_>, member_id: &str, version: i16) -> GroupResponse {
    let code = ErrorCode::from_code(response.error_code);
    if version <= 2 || code != ErrorCode::None {
        return GroupResponse::LeaveGroup { code };
    }
    let member = response.members.iter().find(|member| member.member_id == member_id);
    let code = member.map_or(ErrorCode::UnknownServerError, |member| ErrorCode::from_code(member.error_code));
    GroupResponse::LeaveGroup { code }
}
