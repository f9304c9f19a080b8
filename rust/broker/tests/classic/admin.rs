//! Finding the coordinator; listing, describing and deleting groups.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::delete_groups::DeleteGroupsRequest;
use monedula_protocol::messages::describe_groups::DescribeGroupsRequest;
use monedula_protocol::messages::find_coordinator::FindCoordinatorRequest;
use monedula_protocol::messages::list_groups::ListGroupsRequest;
use serde_json::json;

use crate::member::{Member, coordinator, make_topic, settle, state};
use crate::support::World;

fn list(world: &mut World, node: i32, states: &[&'static str], types: &[&'static str]) -> Vec<String> {
    let request =
        ListGroupsRequest { states_filter: states.to_vec(), types_filter: types.to_vec(), ..Default::default() };
    let answer = world.call(node, &request, 5);
    assert_eq!(answer.error_code, 0);
    answer.groups.iter().map(|group| group.group_id.to_owned()).collect()
}

#[test]
fn every_node_lists_the_groups_that_it_coordinates() {
    let mut world = World::with(3, &[]);
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let mut wanted: Vec<Vec<String>> = vec![Vec::new(); 3];
    for name in names {
        let mut member = Member::new(&mut world, name);
        settle(&mut world, &mut [&mut member]);
        wanted[member.node as usize - 1].push(name.to_owned());
    }
    for node in 1..=3 {
        let mut found = list(&mut world, node, &[], &[]);
        found.sort();
        assert_eq!(found, wanted[node as usize - 1]);
    }
    for version in 0..=5 {
        let answer = world.call(1, &ListGroupsRequest::default(), version);
        for group in &answer.groups {
            assert_eq!(group.protocol_type, "consumer");
            assert_eq!(group.group_state, if version >= 4 { "Stable" } else { "" });
            assert_eq!(group.group_type, if version >= 5 { "classic" } else { "" });
        }
    }
}

#[test]
fn groups_are_listed_by_state_and_type() {
    let mut world = World::default();
    let (mut stable, mut empty) = (Member::new(&mut world, "stable"), Member::new(&mut world, "empty"));
    settle(&mut world, &mut [&mut stable]);
    settle(&mut world, &mut [&mut empty]);
    assert_eq!(empty.leave(&mut world), ErrorCode::None);
    assert_eq!(list(&mut world, 1, &["Stable"], &[]), ["stable"]);
    assert_eq!(list(&mut world, 1, &["eMPTY", "Dead"], &["CLASSIC"]), ["empty"]);
    assert_eq!(list(&mut world, 1, &[], &["consumer"]), [""; 0]);
    assert_eq!(list(&mut world, 1, &["nonsense"], &[]), [""; 0]);
    assert_eq!(list(&mut world, 1, &[], &["nonsense"]), [""; 0]);
}

#[test]
fn groups_that_are_not_there_are_described_as_each_version_knows_it() {
    let mut world = World::with(2, &[]);
    let node = coordinator(&mut world, "nobody");
    for version in 0..=6 {
        let request = DescribeGroupsRequest {
            groups: vec!["nobody"],
            include_authorized_operations: version >= 3,
            ..Default::default()
        };
        let answer = world.call(node, &request, version).groups[0].clone();
        assert_eq!((answer.group_id, answer.group_state), ("nobody", "Dead"));
        if version >= 6 {
            let message = Some("Group nobody not found.");
            assert_eq!(
                (ErrorCode::from_code(answer.error_code), answer.error_message),
                (ErrorCode::GroupIdNotFound, message)
            );
            assert_eq!(answer.authorized_operations, i32::MIN);
        } else {
            assert_eq!((answer.error_code, answer.error_message), (0, None));
            assert_eq!(answer.authorized_operations, if version >= 3 { 3400 } else { i32::MIN });
        }
        let answer = world.call(3 - node, &request, version).groups[0].clone();
        assert_eq!((ErrorCode::from_code(answer.error_code), answer.group_state), (ErrorCode::NotCoordinator, ""));
    }
}

#[test]
fn groups_without_members_are_deleted_with_their_offsets() {
    let mut world = World::with(2, &[]);
    make_topic(&mut world, "orders");
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    assert_eq!(member.commit(&mut world, 0, 5), ErrorCode::None);
    let delete = |world: &mut World, node: i32| {
        let request = DeleteGroupsRequest { groups_names: vec!["g", "g"], ..Default::default() };
        let answer = world.call(node, &request, 2);
        assert_eq!(answer.results.len(), 1, "each once");
        ErrorCode::from_code(answer.results[0].error_code)
    };
    assert_eq!(delete(&mut world, member.node), ErrorCode::NonEmptyGroup);
    assert_eq!(member.heartbeat(&mut world), ErrorCode::None);
    assert_eq!(delete(&mut world, 3 - member.node), ErrorCode::NotCoordinator);
    assert_eq!(member.leave(&mut world), ErrorCode::None);
    assert_eq!(delete(&mut world, member.node), ErrorCode::None);
    assert_eq!(delete(&mut world, member.node), ErrorCode::GroupIdNotFound);
    assert_eq!(state(&mut world, "g"), "Dead");
    assert_eq!(crate::member::fetch(&mut world, "g", 0).committed_offset, -1);
    // The group stays deleted when the partition is read back from its log.
    world.control(json!({ "command": "move_coordinator", "group": "g", "node": 3 - member.node }));
    assert_eq!(state(&mut world, "g"), "Dead");
    assert_eq!(crate::member::fetch(&mut world, "g", 0).committed_offset, -1);
}

// req: S097
#[test]
fn coordinators_are_found_one_by_one_and_many_at_once() {
    let mut world = World::default();
    coordinator(&mut world, "g");
    for version in 0..=3 {
        let answer = world.call(1, &FindCoordinatorRequest { key: "g", ..Default::default() }, version);
        assert_eq!((answer.error_code, answer.node_id, answer.host), (0, 1, "127.0.0.1"));
        assert_eq!(answer.error_message, Some(if version >= 1 { "NONE" } else { "" }));
    }
    for version in 4..=6 {
        let request = FindCoordinatorRequest { coordinator_keys: vec!["g", "", "h"], ..Default::default() };
        let answer = world.call(1, &request, version);
        let found: Vec<_> = answer
            .coordinators
            .iter()
            .map(|found| (found.key, found.error_code, found.node_id, found.error_message))
            .collect();
        assert_eq!(found, [("g", 0, 1, Some("")), ("", 0, 1, Some("")), ("h", 0, 1, Some(""))]);
        let none = world.call(1, &FindCoordinatorRequest::default(), version);
        assert!(none.coordinators.is_empty());
    }
}

#[test]
fn coordinators_that_are_not_there_are_told_in_kafkas_words() {
    let mut world = World::with(2, &[("offsets.topic.num.partitions", "2")]);
    coordinator(&mut world, "g");
    let wrong = world.call(1, &FindCoordinatorRequest { key: "g", key_type: 9, ..Default::default() }, 3);
    assert_eq!(
        (ErrorCode::from_code(wrong.error_code), wrong.node_id, wrong.port),
        (ErrorCode::InvalidRequest, -1, -1)
    );
    assert!(wrong.error_message.unwrap().starts_with("This most likely occurs because of a request being malformed"));
    let request = FindCoordinatorRequest { coordinator_keys: vec!["g"], key_type: 9, ..Default::default() };
    let wrong = world.call(1, &request, 6).coordinators[0].clone();
    assert_eq!((ErrorCode::from_code(wrong.error_code), wrong.key, wrong.host), (ErrorCode::InvalidRequest, "g", ""));
}
