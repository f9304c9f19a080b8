//! Failovers of the coordinator: it moves, fails and loads.

use monedula_broker::settings::Settings;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};
use serde_json::json;

use crate::member::{Member, SESSION_MS, coordinator, describe, fetch, finish, join_all, make_topic};
use crate::support::World;

/// Three members of a stable group in a cluster of three nodes.
fn trio(world: &mut World) -> Vec<Member> {
    make_topic(world, "orders");
    let mut members: Vec<Member> = (0..3).map(|_| Member::new(world, "g")).collect();
    let mut all: Vec<&mut Member> = members.iter_mut().collect();
    let joins = join_all(world, &mut all);
    finish(world, &mut all, &joins);
    members
}

fn kill_coordinator(world: &mut World) -> i32 {
    let node = coordinator(world, "g");
    // Node 1 must stay alive, because the tests send FindCoordinator to it.
    let other = if node == 1 { 2 } else { node };
    world.control(json!({ "command": "move_coordinator", "group": "g", "node": other }));
    world.control(json!({ "command": "stop_node", "node": other }));
    let now = coordinator(world, "g");
    assert_ne!(now, other);
    now
}

// req: S142
// req: S143
#[test]
fn a_stable_group_goes_on_where_it_was() {
    let mut world = World::with(3, &[]);
    let mut members = trio(&mut world);
    assert_eq!(members[1].commit_with(&mut world, 0, 42, Some("a note")), ErrorCode::None);
    let before = describe(&mut world, "g");
    let node = kill_coordinator(&mut world);
    assert_eq!(describe(&mut world, "g"), before);
    for member in &mut members {
        member.node = node;
        assert_eq!(member.heartbeat(&mut world), ErrorCode::None);
        let sync = member.send_sync(&mut world, &[]);
        assert_eq!(member.synced(&mut world, &sync).assignment, member.id.as_bytes());
    }
    let found = fetch(&mut world, "g", 0);
    assert_eq!((found.committed_offset, found.metadata), (42, Some("a note")));
}

// req: S146
#[test]
fn a_node_that_coordinates_no_longer_says_so() {
    let mut world = World::with(2, &[]);
    let members = trio(&mut world);
    let old = members[0].node;
    let other = 3 - old;
    let waiting = Member::new(&mut world, "g").join(&mut world);
    world.control(json!({ "command": "move_coordinator", "group": "g", "node": other }));
    assert_eq!(ErrorCode::from_code(world.take(&waiting).unwrap().error_code), ErrorCode::NotCoordinator);
    assert_eq!(members[0].heartbeat(&mut world), ErrorCode::NotCoordinator);
    assert_eq!(members[0].refused_join(&mut world), ErrorCode::NotCoordinator);
    assert_eq!(members[0].commit(&mut world, 0, 1), ErrorCode::NotCoordinator);
    let sync = members[0].send_sync(&mut world, &[]);
    assert_eq!(ErrorCode::from_code(world.take(&sync).unwrap().error_code), ErrorCode::NotCoordinator);
    assert_eq!(coordinator(&mut world, "g"), other);
}

#[test]
fn a_coordinator_that_loads_refuses_all_but_heartbeats() {
    let mut settings = Settings { nodes: 2, coordinator_load_ms: 500, ..Settings::default() };
    settings.kafka.set("offsets.topic.num.partitions", "1").unwrap();
    let mut world = World::new(settings);
    coordinator(&mut world, "g");
    world.advance(500);
    let mut members = trio(&mut world);
    let other = 3 - members[0].node;
    world.control(json!({ "command": "move_coordinator", "group": "g", "node": other }));
    let loading = ErrorCode::CoordinatorLoadInProgress;
    for member in &mut members {
        member.node = other;
        assert_eq!(member.refused_join(&mut world), loading);
        assert_eq!(member.heartbeat(&mut world), ErrorCode::None);
        assert_eq!(member.commit(&mut world, 0, 1), loading);
        let sync = member.send_sync(&mut world, &[]);
        assert_eq!(ErrorCode::from_code(world.take(&sync).unwrap().error_code), loading);
    }
    let wanted = OffsetFetchRequestGroup { group_id: "g", topics: None, ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![wanted], ..Default::default() };
    assert_eq!(ErrorCode::from_code(world.call(other, &request, 8).groups[0].error_code), loading);
    world.advance(499);
    assert_eq!(members[0].commit(&mut world, 0, 1), loading);
    world.advance(1);
    for member in &members {
        assert_eq!(member.commit(&mut world, 0, 1), ErrorCode::None);
    }
}

#[test]
fn a_member_that_died_meanwhile_is_dropped_and_one_that_is_back_in_time_is_not() {
    let mut world = World::with(3, &[]);
    let mut members = trio(&mut world);
    let node = kill_coordinator(&mut world);
    members.iter_mut().for_each(|member| member.node = node);
    world.advance(i64::from(SESSION_MS) - 1);
    for member in &members[..2] {
        assert_eq!(member.heartbeat(&mut world), ErrorCode::None);
    }
    world.advance(1);
    assert_eq!(members[0].heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    assert_eq!(members[2].heartbeat(&mut world), ErrorCode::UnknownMemberId);
}

/// Sends the requests of real clients, following each answer, until all members are in one stable generation.
fn converge(world: &mut World, members: &mut [Member]) {
    for _ in 0..20 {
        let node = coordinator(world, "g");
        let mut again = Vec::new();
        for (index, member) in members.iter_mut().enumerate() {
            member.node = node;
            match member.heartbeat(world) {
                ErrorCode::None => {}
                ErrorCode::UnknownMemberId => {
                    member.id.clear();
                    again.push(index);
                }
                ErrorCode::IllegalGeneration | ErrorCode::RebalanceInProgress => again.push(index),
                other => panic!("{other}"),
            }
        }
        if again.is_empty() {
            return;
        }
        let mut joins: Vec<_> = again.iter().map(|&index| (index, members[index].join(world))).collect();
        // A member whose join was answered may have to join again already.
        joins.retain(|(index, waiting)| {
            if world.waits(waiting) {
                return true;
            }
            let answer = world.take(waiting).unwrap();
            if answer.error_code == 0 {
                members[*index].generation = answer.generation_id;
            }
            false
        });
        let ready: Vec<_> = joins.iter().filter(|(_, waiting)| !world.waits(waiting)).collect();
        assert!(ready.is_empty());
        let rest: Vec<usize> = (0..members.len()).filter(|index| joins.iter().all(|(own, _)| own != index)).collect();
        for index in rest {
            if members[index].heartbeat(world) != ErrorCode::None {
                let waiting = members[index].join(world);
                joins.push((index, waiting));
            }
        }
        let mut leader = None;
        for (index, waiting) in &joins {
            let Some(answer) = world.take(waiting) else { continue };
            assert_eq!(answer.error_code, 0, "{answer:?}");
            members[*index].generation = answer.generation_id;
            if answer.leader == members[*index].id {
                leader = Some((*index, answer.members.iter().map(|member| member.member_id).collect::<Vec<_>>()));
            }
        }
        if let Some((index, ids)) = leader {
            let given: Vec<_> = ids.iter().map(|id| (*id, id.as_bytes())).collect();
            members[index].send_sync(world, &given);
        }
    }
    panic!("no agreement after 20 rounds");
}

fn check_owners(world: &mut World, members: &[Member]) {
    let described = describe(world, "g");
    assert_eq!((described.group_state, described.members.len()), ("Stable", members.len()));
    for member in members {
        let sync = member.send_sync(world, &[]);
        assert_eq!(member.synced(world, &sync).assignment, member.id.as_bytes(), "its own and no other's");
    }
}

/// The phase of a rebalance in which the coordinator fails, after Kafka's first design of the protocol.
#[derive(Copy, Clone, Debug)]
enum Phase {
    /// A member joins, and no other member has been notified.
    Wanted,
    /// Some members have been notified of the rebalance.
    SomeTold,
    /// Some members have joined.
    SomeJoined,
    /// All members have joined, some have received the generation, and none has an assignment.
    SomeKnowTheGeneration,
    /// The assignment is stored, and only some members have received it.
    SomeAssigned,
}

#[test]
fn a_coordinator_that_dies_in_any_phase_of_a_rebalance_leaves_one_owner_each() {
    use Phase::{SomeAssigned, SomeJoined, SomeKnowTheGeneration, SomeTold, Wanted};
    for phase in [Wanted, SomeTold, SomeJoined, SomeKnowTheGeneration, SomeAssigned] {
        let mut world = World::with(3, &[]);
        let mut members = trio(&mut world);
        members.push(Member::new(&mut world, "g"));
        let joining = members[3].join(&mut world);
        if !matches!(phase, Wanted) {
            assert_eq!(members[0].heartbeat(&mut world), ErrorCode::RebalanceInProgress);
        }
        let mut joins = Vec::new();
        if !matches!(phase, Wanted | SomeTold) {
            joins.push(members[0].join(&mut world));
        }
        if matches!(phase, SomeKnowTheGeneration | SomeAssigned) {
            joins.push(members[1].join(&mut world));
            joins.push(members[2].join(&mut world));
            let leader = members[0].joined(&mut world, &joins[0]).leader;
            assert_eq!(leader, members[0].id);
        }
        if matches!(phase, SomeAssigned) {
            members[3].joined(&mut world, &joining);
            let ids: Vec<_> = members.iter().map(|member| member.id.clone()).collect();
            let given: Vec<_> = ids.iter().map(|id| (id.as_str(), id.as_bytes())).collect();
            let sync = members[0].send_sync(&mut world, &given);
            members[0].synced(&mut world, &sync);
        }
        kill_coordinator(&mut world);
        converge(&mut world, &mut members);
        check_owners(&mut world, &members);
        println!("{phase:?}: generation {}", members[0].generation);
    }
}

#[test]
fn what_only_some_heard_before_the_failover_is_sorted_out_by_generations() {
    let mut world = World::with(3, &[]);
    let mut members = trio(&mut world);
    let old = members[1].clone();
    // A generation that one member has received, but that was never stored.
    let join = members[0].join(&mut world);
    let others = [members[1].join(&mut world), members[2].join(&mut world)];
    assert_eq!(members[0].joined(&mut world, &join).generation_id, 3);
    assert!(others.iter().all(|waiting| !world.waits(waiting)));
    let node = kill_coordinator(&mut world);
    members.iter_mut().for_each(|member| member.node = node);
    assert_eq!(members[0].heartbeat(&mut world), ErrorCode::IllegalGeneration);
    assert_eq!(members[0].commit(&mut world, 0, 1), ErrorCode::IllegalGeneration);
    // A member that has not received it goes on with the stored generation.
    let old = Member { node, ..old };
    assert_eq!((old.generation, old.heartbeat(&mut world)), (2, ErrorCode::None));
}
