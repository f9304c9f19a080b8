//! list_groups returns every group, even if a group moves from one coordinator to another during the call.

use monedula_broker::control::Command;
use monedula_broker::{Effect, NodeId};
use monedula_client::admin::GroupFilter;

use crate::support::{PATIENCE, World, hits, refuse};

const GROUPS: [&str; 3] = ["first", "second", "third"];

/// A cluster of three nodes, each the coordinator of one group.
fn world() -> World {
    let world = World::new(&["events:1"], 3);
    let admin = world.admin(&[]);
    for (group, node) in GROUPS.into_iter().zip(1..) {
        world.move_coordinator(group, node);
        world.make_group(&admin, group);
    }
    world
}

#[test]
fn the_groups_of_all_nodes_are_listed() {
    let world = world();
    let listed = world.run(world.admin(&[]).list_groups(GroupFilter::default(), PATIENCE)).expect("lists");
    let told: Vec<(&str, i32)> = listed.items.iter().map(|(group, told)| (group.as_str(), told.coordinator)).collect();
    assert_eq!(told, [("first", 1), ("second", 2), ("third", 3)]);
}

#[test]
fn groups_of_a_node_that_dies_are_asked_for_where_they_went() {
    let world = world();
    let admin = world.admin(&[]);
    let held = world.fault("ListGroups", &[1], Effect::Hold, None);
    let others = world.fault("ListGroups", &[2, 3], Effect::Observe, None);
    let listing = world.begin(admin.list_groups(GroupFilter::default(), PATIENCE));
    assert!(held.wait(1, PATIENCE).expect("is set") && others.wait(2, PATIENCE).expect("is set"));
    world.control(Command::StopNode { node: NodeId(1) });
    let listed = world.ended(listing).expect("lists");
    assert_eq!(listed.items.keys().map(String::as_str).collect::<Vec<_>>(), GROUPS);
    assert_ne!(listed.items["first"].coordinator, 1);
}

#[test]
fn groups_of_a_node_that_hands_them_over_are_asked_for_where_they_went() {
    let world = world();
    // Long enough for the group to move before node 1 is asked again.
    let admin = world.admin(&[("retry.backoff.ms", "500")]);
    let loading = world.fault("ListGroups", &[1], refuse("COORDINATOR_LOAD_IN_PROGRESS"), Some(1));
    let watched = world.watched("ListGroups");
    let listing = world.begin(admin.list_groups(GroupFilter::default(), PATIENCE));
    assert!(loading.wait(1, PATIENCE).expect("is set"));
    assert!(watched[1].wait(1, PATIENCE).expect("is set") && watched[2].wait(1, PATIENCE).expect("is set"));
    world.move_coordinator("first", 2);
    let listed = world.ended(listing).expect("lists");
    assert_eq!(listed.items.keys().map(String::as_str).collect::<Vec<_>>(), GROUPS);
    assert_eq!(hits(&watched)[1..], [2, 2], "all nodes are asked once more");
}

#[test]
fn a_coordinator_that_loads_is_waited_for() {
    let world = world();
    let admin = world.admin(&[]);
    let refusals = ["COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"]
        .map(|error| world.fault("ListGroups", &[2], refuse(error), Some(2)));
    let listed = world.run(admin.list_groups(GroupFilter::default(), PATIENCE)).expect("lists");
    assert_eq!(listed.items.keys().map(String::as_str).collect::<Vec<_>>(), GROUPS);
    assert_eq!(hits(&refusals), [2, 2]);
}
