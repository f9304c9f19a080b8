//! AlterPartitionReassignments. The expected error codes and messages are those of Apache Kafka 4.3.1.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use monedula_protocol::messages::create_topics::{CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest};
use monedula_protocol::messages::list_partition_reassignments::ListPartitionReassignmentsRequest;
use serde_json::json;
use support::World;

/// A cluster of three nodes with the topic `a`, whose only partition has these replicas.
fn world(replicas: &[i32]) -> World {
    let mut world = World::with(3, &[]);
    let broker_ids = replicas.to_vec();
    let assignments = vec![CreatableReplicaAssignment { partition_index: 0, broker_ids, ..Default::default() }];
    let topic =
        CreatableTopic { name: "a", num_partitions: -1, replication_factor: -1, assignments, ..Default::default() };
    let answer = world.call(1, &CreateTopicsRequest { topics: vec![topic], ..Default::default() }, 7);
    assert_eq!(answer.topics[0].error_code, 0);
    world
}

/// Sends a reassignment of one partition. Returns the error code and message.
fn ask(world: &mut World, name: &str, index: i32, to: Option<&[i32]>, may_change_factor: bool) -> (i16, String) {
    let replicas = to.map(<[i32]>::to_vec);
    let partitions = vec![ReassignablePartition { partition_index: index, replicas, ..Default::default() }];
    let request = AlterPartitionReassignmentsRequest {
        allow_replication_factor_change: may_change_factor,
        topics: vec![ReassignableTopic { name, partitions, ..Default::default() }],
        ..Default::default()
    };
    let answer = world.call(1, &request, 1);
    let partition = &answer.responses[0].partitions[0];
    (partition.error_code, partition.error_message.unwrap_or_default().to_owned())
}

fn move_to(world: &mut World, to: &[i32]) {
    assert_eq!(ask(world, "a", 0, Some(to), true), (0, String::new()));
}

/// The partition's leader, leader epoch, replicas and in-sync replicas.
fn seen(world: &mut World) -> (i32, i32, Vec<i32>, Vec<i32>) {
    let topic = support::topic(world, 1, "a");
    let partition = &topic.partitions[0];
    let (replicas, isr) = (partition.replica_nodes.clone(), partition.isr_nodes.clone());
    (partition.leader_id, partition.leader_epoch, replicas, isr)
}

/// The replicas of the only reassignment in progress, those that it adds, and those that it removes.
fn under_way(world: &mut World) -> Option<(Vec<i32>, Vec<i32>, Vec<i32>)> {
    let answer = world.call(1, &ListPartitionReassignmentsRequest::default(), 0);
    let partition = &answer.topics.first()?.partitions[0];
    let (adding, removing) = (partition.adding_replicas.clone(), partition.removing_replicas.clone());
    Some((partition.replicas.clone(), adding, removing))
}

#[test]
fn a_move_to_living_nodes_is_done_at_once() {
    let mut world = world(&[1, 2]);
    move_to(&mut world, &[2, 1]);
    assert_eq!(seen(&mut world), (1, 0, vec![2, 1], vec![1, 2]), "another order changes no leader");
    move_to(&mut world, &[2, 1, 3]);
    assert_eq!(seen(&mut world), (1, 0, vec![2, 1, 3], vec![1, 2, 3]));
    move_to(&mut world, &[1, 3]);
    assert_eq!(seen(&mut world), (1, 1, vec![1, 3], vec![1, 3]), "whoever has no replica any more is fenced");
    move_to(&mut world, &[2, 3]);
    assert_eq!(seen(&mut world), (2, 2, vec![2, 3], vec![3, 2]), "the leader went");
    assert_eq!(under_way(&mut world), None);
}

#[test]
fn a_move_to_a_node_that_is_down_waits_for_it() {
    let mut world = world(&[1, 2]);
    world.control(json!({"command": "stop_node", "node": 3}));
    move_to(&mut world, &[3]);
    assert_eq!(under_way(&mut world), Some((vec![3, 1, 2], vec![3], vec![1, 2])));
    assert_eq!(seen(&mut world).2, [3, 1, 2]);
    world.control(json!({"command": "start_node", "node": 3}));
    assert_eq!(under_way(&mut world), None);
    assert_eq!(seen(&mut world), (3, 1, vec![3], vec![3]));
}

#[test]
fn a_move_under_way_is_ended_or_changed() {
    let mut world = world(&[1, 2]);
    let nothing = (ErrorCode::NoReassignmentInProgress.code(), String::new());
    assert_eq!(ask(&mut world, "a", 0, None, true), nothing);
    world.control(json!({"command": "stop_node", "node": 3}));
    move_to(&mut world, &[1, 3]);
    move_to(&mut world, &[3, 2]);
    assert_eq!(under_way(&mut world), Some((vec![3, 2, 1], vec![3], vec![1])));
    assert_eq!(ask(&mut world, "a", 0, None, true), (0, String::new()));
    assert_eq!(under_way(&mut world), None);
    assert_eq!(ask(&mut world, "a", 0, None, true), nothing);
}

// A node that was in sync already was added to the in-sync replicas once more, and counted twice for
// min.insync.replicas.
#[test]
fn a_move_that_is_sent_again_while_a_node_is_down_counts_no_replica_twice() {
    let mut world = world(&[1]);
    world.control(json!({"command": "stop_node", "node": 3}));
    move_to(&mut world, &[1, 2, 3]);
    move_to(&mut world, &[1, 2, 3]);
    assert_eq!(seen(&mut world), (1, 0, vec![1, 2, 3], vec![1, 2]));
}

#[test]
fn a_move_that_cannot_be_is_refused_in_kafkas_words() {
    use ErrorCode::{InvalidReplicaAssignment, InvalidReplicationFactor, UnknownTopicOrPartition};
    let mut world = world(&[1, 2]);
    let start = "The manual partition assignment includes";
    type Refusal<'a> = (&'a str, i32, &'a [i32], bool, ErrorCode, String);
    let refusals: [Refusal<'_>; 6] = [
        ("a", 0, &[], true, InvalidReplicaAssignment, format!("{start} an empty replica list.")),
        ("a", 0, &[9], true, InvalidReplicaAssignment, format!("{start} broker 9, but no such broker is registered.")),
        ("a", 0, &[1, 1], true, InvalidReplicaAssignment, format!("{start} the broker 1 more than once.")),
        ("a", 0, &[1], false, InvalidReplicationFactor, "The replication factor is changed from 2 to 1".into()),
        ("a", 7, &[1], true, UnknownTopicOrPartition, "Unable to find partition a:7.".into()),
        ("b", 0, &[1], true, UnknownTopicOrPartition, "Unable to find a topic named b.".into()),
    ];
    for (name, index, to, may_change, code, words) in refusals {
        assert_eq!(ask(&mut world, name, index, Some(to), may_change), (code.code(), words));
    }
    assert_eq!(seen(&mut world), (1, 0, vec![1, 2], vec![1, 2]));
}

#[test]
fn a_reassignment_stays_in_progress_while_replication_is_paused() {
    let mut world = world(&[1, 2]);
    world.control(json!({"command": "pause_replication", "paused": true}));
    move_to(&mut world, &[3, 2]);
    assert_eq!(under_way(&mut world), Some((vec![3, 2, 1], vec![3], vec![1])));
    assert_eq!(seen(&mut world), (1, 0, vec![3, 2, 1], vec![1, 2]));
    // A node that starts again does not catch up either.
    world.control(json!({"command": "stop_node", "node": 2}));
    world.control(json!({"command": "start_node", "node": 2}));
    assert_eq!(seen(&mut world).3, [1]);
    world.control(json!({"command": "pause_replication", "paused": false}));
    assert_eq!(under_way(&mut world), None);
    let (leader, _, replicas, isr) = seen(&mut world);
    assert_eq!((replicas, isr.len()), (vec![3, 2], 2));
    assert!([2, 3].contains(&leader), "{leader}");
}

#[test]
fn a_reassignment_that_is_paused_can_be_cancelled() {
    let mut world = world(&[1, 2]);
    world.control(json!({"command": "pause_replication", "paused": true}));
    move_to(&mut world, &[3]);
    assert!(under_way(&mut world).is_some());
    assert_eq!(ask(&mut world, "a", 0, None, true).0, 0);
    assert_eq!(seen(&mut world), (1, 1, vec![1, 2], vec![1, 2]), "whoever has no replica any more is fenced");
    world.control(json!({"command": "pause_replication", "paused": false}));
    assert_eq!(seen(&mut world), (1, 1, vec![1, 2], vec![1, 2]));
}
