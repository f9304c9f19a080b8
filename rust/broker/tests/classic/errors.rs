//! The error code of each API in each state of a group.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::delete_groups::DeleteGroupsRequest;
use monedula_protocol::messages::describe_groups::DescribeGroupsRequest;
use monedula_protocol::messages::heartbeat::HeartbeatRequest;
use monedula_protocol::messages::join_group::JoinGroupRequest;
use monedula_protocol::messages::leave_group::LeaveGroupRequest;
use monedula_protocol::messages::offset_delete::OffsetDeleteRequest;
use monedula_protocol::messages::sync_group::SyncGroupRequest;

use crate::member::{Member, make_topic, settle, state};
use crate::support::World;

/// A group in a state, and a member of it.
fn group_in(state_name: &str) -> (World, Member) {
    let mut world = World::default();
    make_topic(&mut world, "orders");
    let mut member = Member::new(&mut world, "g");
    if state_name == "Dead" {
        member.id = "nobody".to_owned();
        member.generation = 1;
        return (world, member);
    }
    settle(&mut world, &mut [&mut member]);
    match state_name {
        "Stable" => {}
        "Empty" => assert_eq!(member.leave(&mut world), ErrorCode::None),
        "PreparingRebalance" => {
            Member::new(&mut world, "g").join(&mut world);
        }
        "CompletingRebalance" => {
            let join = member.join(&mut world);
            member.joined(&mut world, &join);
        }
        other => panic!("{other}"),
    }
    assert_eq!(state(&mut world, "g"), state_name);
    (world, member)
}

fn sync(world: &mut World, member: &Member) -> ErrorCode {
    let waiting = member.send_sync(world, &[]);
    ErrorCode::from_code(world.take(&waiting).expect("the leader's sync is answered").error_code)
}

#[test]
fn each_api_has_its_error_in_each_state() {
    use ErrorCode::{IllegalGeneration, None, RebalanceInProgress, UnknownMemberId};
    type Ask = fn(&mut World, &Member) -> ErrorCode;
    let heartbeat: Ask = |world, member| member.heartbeat(world);
    let commit: Ask = |world, member| member.commit(world, 0, 1);
    let leave: Ask = |world, member| member.leave(world);
    let same = |member: &Member| member.clone();
    let unknown = |member: &Member| Member { id: "unknown".to_owned(), ..member.clone() };
    let late = |member: &Member| Member { generation: member.generation - 1, ..member.clone() };
    let early = |member: &Member| Member { generation: member.generation + 1, ..member.clone() };
    let instance = |member: &Member| Member { instance: Some("nobody"), ..member.clone() };
    type Who = fn(&Member) -> Member;
    let states = ["Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"];
    let table: &[(&str, Ask, &str, Who, [ErrorCode; 5])] = &[
        ("heartbeat", heartbeat, "itself", same, [UnknownMemberId, UnknownMemberId, RebalanceInProgress, None, None]),
        ("heartbeat", heartbeat, "unknown", unknown, [UnknownMemberId; 5]),
        ("heartbeat", heartbeat, "instance", instance, [UnknownMemberId; 5]),
        (
            "heartbeat",
            heartbeat,
            "late",
            late,
            [UnknownMemberId, UnknownMemberId, IllegalGeneration, IllegalGeneration, IllegalGeneration],
        ),
        ("sync", sync, "itself", same, [UnknownMemberId, UnknownMemberId, RebalanceInProgress, None, None]),
        ("sync", sync, "unknown", unknown, [UnknownMemberId; 5]),
        (
            "sync",
            sync,
            "early",
            early,
            [UnknownMemberId, UnknownMemberId, IllegalGeneration, IllegalGeneration, IllegalGeneration],
        ),
        (
            "commit",
            commit,
            "itself",
            same,
            [ErrorCode::GroupIdNotFound, UnknownMemberId, None, RebalanceInProgress, None],
        ),
        (
            "commit",
            commit,
            "unknown",
            unknown,
            [ErrorCode::GroupIdNotFound, UnknownMemberId, UnknownMemberId, UnknownMemberId, UnknownMemberId],
        ),
        (
            "commit",
            commit,
            "early",
            early,
            [ErrorCode::GroupIdNotFound, UnknownMemberId, IllegalGeneration, IllegalGeneration, IllegalGeneration],
        ),
        ("leave", leave, "itself", same, [UnknownMemberId, UnknownMemberId, None, None, None]),
        ("leave", leave, "unknown", unknown, [UnknownMemberId; 5]),
    ];
    for (api, ask, name, who, wanted) in table {
        for (state_name, wanted) in states.iter().zip(wanted) {
            let (mut world, member) = group_in(state_name);
            assert_eq!(ask(&mut world, &who(&member)), *wanted, "{api} of {name} in {state_name}");
        }
    }
}

#[test]
fn sessions_out_of_bounds_and_empty_ids_are_refused() {
    let mut world = World::default();
    for session_ms in [0, -1, 5999, 1_800_001, i32::MAX] {
        let member = Member { session_ms, id: "x".to_owned(), ..Member::new(&mut world, "g") };
        let waiting = member.send_join(&mut world);
        let answer = world.take(&waiting).unwrap();
        assert_eq!(ErrorCode::from_code(answer.error_code), ErrorCode::InvalidSessionTimeout);
        assert_eq!((answer.member_id, answer.generation_id), ("x", -1));
    }
    let invalid = ErrorCode::InvalidGroupId.code();
    let join = world.send(1, &JoinGroupRequest::default(), 9);
    assert_eq!(world.take(&join).unwrap().error_code, invalid);
    let named = (Some("consumer"), Some("range"));
    let request = SyncGroupRequest { protocol_type: named.0, protocol_name: named.1, ..Default::default() };
    let sync = world.send(1, &request, 5);
    assert_eq!(world.take(&sync).unwrap().error_code, invalid);
    assert_eq!(world.call(1, &HeartbeatRequest::default(), 4).error_code, invalid);
    assert_eq!(world.call(1, &LeaveGroupRequest::default(), 5).error_code, invalid);
    assert_eq!(world.call(1, &OffsetDeleteRequest::default(), 0).error_code, invalid);
    // These APIs accept an empty group id, for old clients.
    let describe = DescribeGroupsRequest { groups: vec![""], ..Default::default() };
    assert_eq!(world.call(1, &describe, 5).groups[0].group_state, "Dead");
    let delete = DeleteGroupsRequest { groups_names: vec![""], ..Default::default() };
    assert_eq!(world.call(1, &delete, 2).results[0].error_code, ErrorCode::GroupIdNotFound.code());
}

#[test]
fn every_version_joins_syncs_beats_and_leaves() {
    for version in 0..=9 {
        let mut world = World::default();
        let mut member = Member { version, ..Member::new(&mut world, "g") };
        let join = member.join(&mut world);
        let answer = member.joined(&mut world, &join);
        assert_eq!((answer.protocol_name, answer.members.len()), (Some("range"), 1));
        let request = SyncGroupRequest {
            group_id: "g",
            generation_id: 1,
            member_id: crate::member::leak(&member.id),
            protocol_type: Some("consumer"),
            protocol_name: Some("range"),
            ..Default::default()
        };
        let sync = world.send(1, &request, version.min(5));
        assert_eq!(world.take(&sync).unwrap().error_code, 0);
        let request = HeartbeatRequest {
            group_id: "g",
            generation_id: 1,
            member_id: crate::member::leak(&member.id),
            ..Default::default()
        };
        assert_eq!(world.call(1, &request, version.min(4)).error_code, 0);
        if version <= 2 {
            let leave = |id| LeaveGroupRequest { group_id: "g", member_id: id, ..Default::default() };
            let answer = world.call(1, &leave("unknown"), version);
            assert_eq!(ErrorCode::from_code(answer.error_code), ErrorCode::UnknownMemberId);
            assert_eq!(world.call(1, &leave(crate::member::leak(&member.id)), version).error_code, 0);
        } else {
            assert_eq!(member.leave(&mut world), ErrorCode::None);
        }
        assert_eq!(state(&mut world, "g"), "Empty");
    }
}

#[test]
fn whoever_names_another_protocol_is_refused() {
    let mut world = World::default();
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    for (protocol_type, protocol_name) in [
        (Some("connect"), Some("range")),
        (Some("consumer"), Some("x")),
        (Some("consumer"), None),
        (None, Some("range")),
    ] {
        let request = SyncGroupRequest {
            group_id: "g",
            generation_id: 1,
            member_id: crate::member::leak(&member.id),
            protocol_type,
            protocol_name,
            ..Default::default()
        };
        let sync = world.send(1, &request, 5);
        let answer = world.take(&sync).unwrap();
        assert_eq!(ErrorCode::from_code(answer.error_code), ErrorCode::InconsistentGroupProtocol);
    }
}
