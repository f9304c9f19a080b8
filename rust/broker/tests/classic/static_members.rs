//! Static members (KIP-345), and static leaders that skip the assignment (KIP-814).

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::leave_group::{LeaveGroupRequest, MemberIdentity};

use serde_json::json;

use crate::member::{Member, REBALANCE_MS, SESSION_MS, describe, finish, join_all, settle, state, subscription};
use crate::support::World;

/// Two static members, the first of which leads.
fn pair(world: &mut World) -> (Member, Member) {
    let (mut a, mut b) = (Member::fixed(world, "g", "a"), Member::fixed(world, "g", "b"));
    let joins = join_all(world, &mut [&mut a, &mut b]);
    finish(world, &mut [&mut a, &mut b], &joins);
    (a, b)
}

#[test]
fn a_static_member_that_is_back_takes_its_place_without_a_rebalance() {
    let mut world = World::default();
    let (a, b) = pair(&mut world);
    assert!(b.id.starts_with("b-"), "{}", b.id);
    let mut back = Member { id: String::new(), ..b.clone() };
    let join = back.join(&mut world);
    let answer = back.joined(&mut world, &join);
    assert_eq!((answer.generation_id, answer.leader, answer.skip_assignment), (2, a.id.as_str(), false));
    assert_ne!(back.id, b.id);
    let sync = back.send_sync(&mut world, &[]);
    assert_eq!(back.synced(&mut world, &sync).assignment, b.id.as_bytes(), "what the old one had");
    assert_eq!(a.heartbeat(&mut world), ErrorCode::None);
    // All requests with the old id are fenced.
    assert_eq!(b.heartbeat(&mut world), ErrorCode::FencedInstanceId);
    assert_eq!(b.refused_join(&mut world), ErrorCode::FencedInstanceId);
    let sync = b.send_sync(&mut world, &[]);
    assert_eq!(ErrorCode::from_code(world.take(&sync).unwrap().error_code), ErrorCode::FencedInstanceId);
}

#[test]
fn who_took_a_place_keeps_it_after_a_failover() {
    let mut world = World::with(2, &[]);
    let (a, b) = pair(&mut world);
    let mut back = Member { id: String::new(), ..b.clone() };
    let join = back.join(&mut world);
    back.joined(&mut world, &join);
    let node = 3 - a.node;
    world.control(json!({ "command": "move_coordinator", "group": "g", "node": node }));
    for member in [&a, &back] {
        assert_eq!(Member { node, ..member.clone() }.heartbeat(&mut world), ErrorCode::None);
    }
    assert_eq!(Member { node, ..b }.heartbeat(&mut world), ErrorCode::FencedInstanceId);
}

#[test]
fn a_leader_that_is_back_leaves_the_assignment_as_it_is() {
    let mut world = World::default();
    let (a, b) = pair(&mut world);
    let mut back = Member { id: String::new(), ..a.clone() };
    let join = back.join(&mut world);
    let answer = back.joined(&mut world, &join);
    assert_eq!((answer.leader, answer.skip_assignment, answer.members.len()), (back.id.as_str(), true, 2));
    let sync = back.send_sync(&mut world, &[]);
    assert_eq!(back.synced(&mut world, &sync).assignment, a.id.as_bytes());
    // Before version 9 the answer names the old leader id, so that the member does not act as the leader.
    let mut old = Member { id: String::new(), version: 8, ..back.clone() };
    let join = old.join(&mut world);
    let answer = old.joined(&mut world, &join);
    assert_eq!((answer.leader, answer.members.len()), (back.id.as_str(), 0));
    assert_eq!(b.heartbeat(&mut world), ErrorCode::None);
}

#[test]
fn a_static_member_that_changes_the_protocol_brings_a_rebalance() {
    let mut world = World::default();
    let own = |names: &[&'static str]| names.iter().map(|&name| (name, subscription(&["t"]))).collect::<Vec<_>>();
    let mut a = Member { protocols: own(&["range", "sticky"]), ..Member::fixed(&mut world, "g", "a") };
    settle(&mut world, &mut [&mut a]);
    let mut back = Member { id: String::new(), protocols: own(&["sticky", "range"]), ..a.clone() };
    let join = back.join(&mut world);
    let answer = back.joined(&mut world, &join);
    assert_eq!((answer.generation_id, answer.protocol_name), (2, Some("sticky")));
}

#[test]
fn a_static_member_is_back_while_the_leader_assigns() {
    let mut world = World::default();
    let (mut a, mut b) = pair(&mut world);
    let joins = join_all(&mut world, &mut [&mut a, &mut b]);
    a.joined(&mut world, &joins[0]);
    b.joined(&mut world, &joins[1]);
    let waiting = b.send_sync(&mut world, &[]);
    // The leader would assign partitions to an id that no longer exists.
    let mut back = Member { id: String::new(), ..b.clone() };
    let join = back.join(&mut world);
    assert_eq!(ErrorCode::from_code(world.take(&waiting).unwrap().error_code), ErrorCode::FencedInstanceId);
    assert_eq!(a.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    let again = a.join(&mut world);
    finish(&mut world, &mut [&mut a, &mut back], &[again, join]);
}

#[test]
fn a_join_of_the_old_id_that_waits_is_fenced() {
    let mut world = World::default();
    let (mut a, mut b) = pair(&mut world);
    b.protocols = vec![("range", subscription(&["other"]))];
    let waiting = b.join(&mut world);
    let mut back = Member { id: String::new(), ..b.clone() };
    let join = back.join(&mut world);
    assert_eq!(ErrorCode::from_code(world.take(&waiting).unwrap().error_code), ErrorCode::FencedInstanceId);
    let again = a.join(&mut world);
    finish(&mut world, &mut [&mut a, &mut back], &[again, join]);
}

#[test]
fn a_static_member_has_until_its_session_ends_even_if_a_rebalance_ends_before() {
    let mut world = World::default();
    let mut a = Member { session_ms: 1_000_000, ..Member::fixed(&mut world, "g", "a") };
    let mut away = Member { session_ms: 1_000_000, ..Member::fixed(&mut world, "g", "away") };
    let joins = join_all(&mut world, &mut [&mut a, &mut away]);
    finish(&mut world, &mut [&mut a, &mut away], &joins);
    let join = a.join(&mut world);
    world.advance(i64::from(REBALANCE_MS));
    a.joined(&mut world, &join);
    assert_eq!(describe(&mut world, "g").members.len(), 2, "it is assigned to while it is away");
    assert_eq!(away.heartbeat(&mut world), ErrorCode::IllegalGeneration);
}

#[test]
fn static_members_that_are_all_away_end_with_their_sessions() {
    let mut world = World::default();
    let (a, b) = pair(&mut world);
    world.advance(i64::from(SESSION_MS));
    assert_eq!(a.heartbeat(&mut world), ErrorCode::UnknownMemberId);
    assert_eq!(b.heartbeat(&mut world), ErrorCode::UnknownMemberId);
    assert_eq!(state(&mut world, "g"), "Empty");
}

#[test]
fn an_administrator_takes_members_out_by_their_instance_ids() {
    let mut world = World::default();
    let (a, b) = pair(&mut world);
    let identity = |member_id, group_instance_id| MemberIdentity { member_id, group_instance_id, ..Default::default() };
    let members = vec![
        identity("", Some("b")),
        identity("", Some("nobody")),
        identity("", None),
        identity("wrong", Some("a")),
        identity("unknown", None),
    ];
    let request = LeaveGroupRequest { group_id: "g", members, ..Default::default() };
    let answer = world.call(a.node, &request, 5);
    let errors: Vec<_> = answer.members.iter().map(|member| ErrorCode::from_code(member.error_code)).collect();
    let unknown = ErrorCode::UnknownMemberId;
    assert_eq!(errors, [ErrorCode::None, unknown, unknown, ErrorCode::FencedInstanceId, unknown]);
    assert_eq!((answer.members[0].member_id, answer.members[0].group_instance_id), ("", Some("b")));
    assert_eq!(b.heartbeat(&mut world), ErrorCode::UnknownMemberId);
    assert_eq!(a.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
}
