//! A member with a call in flight, for each API.

use std::collections::BTreeMap;

use monedula_engine::assign::Protocol;
use monedula_engine::group::{Call, CallId, GroupResponse, Input, Ticket};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{HEARTBEAT, World, commit_codes, config, coordinator, join_error, offsets, sync_error};

/// Every API of a member.
pub(crate) const APIS: [&str; 7] =
    ["FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"];

/// The ticket of the user's commit in [`pending`].
pub(crate) const TICKET: Ticket = 77;

/// A cooperative member with a call of this API in flight. It owns t-0 and t-1, except in its first calls.
pub(crate) fn pending(api: &str) -> (World, CallId, Call) {
    let mut config = config(Protocol::Cooperative);
    config.member.auto_commit_interval = None;
    let mut world = match api {
        "FindCoordinator" => {
            let mut world = World::new(config);
            world.subscribe(&["t"]);
            world
        }
        "OffsetFetch" => {
            let mut world = World::subscribed(config);
            world.rebalance(1, &[0, 1]);
            world
        }
        _ => World::stable(config, &[0, 1]),
    };
    match api {
        "JoinGroup" => world.beat(ErrorCode::RebalanceInProgress),
        "SyncGroup" => {
            world.beat(ErrorCode::RebalanceInProgress);
            let (id, _) = world.call("JoinGroup");
            world.join(id, 2);
        }
        "Heartbeat" => world.pass(HEARTBEAT),
        "LeaveGroup" => world.put(Input::Unsubscribe),
        "OffsetCommit" => world.commit(TICKET, offsets(&[(0, 20)])),
        _ => {}
    }
    let (id, call) = world.call(api);
    world.no_call();
    world.trace();
    (world, id, call)
}

/// An answer of this API with an error.
pub(crate) fn failed(api: &str, code: ErrorCode) -> GroupResponse {
    match api {
        "FindCoordinator" => coordinator(code, -1),
        "JoinGroup" => join_error(code, "given"),
        "SyncGroup" => sync_error(code),
        "Heartbeat" => GroupResponse::Heartbeat { code },
        "LeaveGroup" => GroupResponse::LeaveGroup { code },
        "OffsetCommit" => commit_codes(&offsets(&[(0, 20)]), code),
        _ => GroupResponse::OffsetFetch { code, offsets: BTreeMap::new() },
    }
}

/// The call that is sent after such a call failed: only another join leads to an assignment.
pub(crate) fn again(api: &str) -> &str {
    if api == "SyncGroup" { "JoinGroup" } else { api }
}
