//! Faults that the core applies, in virtual time. `server.rs` tests those on the bytes of answers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use monedula_broker::core::Wire;
use monedula_protocol::messages::api_versions::ApiVersionsRequest;
use monedula_protocol::messages::describe_producers::{DescribeProducersRequest, TopicRequest};
use monedula_protocol::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use monedula_protocol::messages::find_coordinator::FindCoordinatorRequest;
use monedula_protocol::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use serde_json::{Value, json};
use support::{Outcome, World};

fn world() -> World {
    let mut world = World::with(2, &[]);
    support::make_coordinators(&mut world);
    for topic in ["orders", "events"] {
        world.control(json!({"command": "create_topic", "topic": topic, "partitions": 2, "replicas": 2}));
    }
    world
}

fn set(world: &mut World, fault: Value) -> u64 {
    world.control(json!({"command": "fault", "fault": fault}))["fault"].as_u64().unwrap()
}

fn hits(world: &mut World, fault: u64) -> u64 {
    world.control(json!({"command": "fault_hits", "fault": fault}))["hits"].as_u64().unwrap()
}

fn metadata(topic: &str) -> MetadataRequest<'_> {
    let topic = MetadataRequestTopic { name: Some(topic), ..Default::default() };
    MetadataRequest { topics: Some(vec![topic]), allow_auto_topic_creation: true, ..Default::default() }
}

fn leader_error(world: &mut World, topic: &str, partitions: &[i32]) -> Vec<i16> {
    let partitions = partitions.iter().map(|&partition_index| ListOffsetsPartition {
        partition_index,
        timestamp: -1,
        ..Default::default()
    });
    let topic = ListOffsetsTopic { name: topic, partitions: partitions.collect(), ..Default::default() };
    let answer = world.call(1, &ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() }, 5);
    answer.topics[0].partitions.iter().map(|partition| partition.error_code).collect()
}

#[test]
fn an_error_answers_so_many_requests_after_so_many() {
    let mut world = world();
    let error = json!({"effect": "error", "error": "COORDINATOR_LOAD_IN_PROGRESS"});
    let fault = set(
        &mut world,
        json!({"when": {"apis": ["FindCoordinator"], "group": "g"}, "what": error, "skip": 1, "count": 2}),
    );
    let mut code = |key| {
        let request = FindCoordinatorRequest { key, ..Default::default() };
        world.call(1, &request, 2).error_code
    };
    assert_eq!([code("g"), code("other"), code("g"), code("other"), code("g"), code("g")], [0, 0, 14, 0, 14, 0]);
    assert_eq!(hits(&mut world, fault), 2);
}

#[test]
fn an_error_of_a_partition_leaves_the_others_alone() {
    let mut world = world();
    world.control(json!({"command": "move_leader", "topic": "orders", "partition": 0, "node": 1}));
    world.control(json!({"command": "move_leader", "topic": "orders", "partition": 1, "node": 1}));
    world.control(json!({"command": "move_leader", "topic": "events", "partition": 0, "node": 1}));
    let error = json!({"effect": "error", "error": "KAFKA_STORAGE_ERROR"});
    let fault = set(&mut world, json!({"when": {"topic": "orders", "partition": 1}, "what": error, "count": 1}));
    assert_eq!(leader_error(&mut world, "events", &[0]), [0]);
    assert_eq!(hits(&mut world, fault), 0);
    assert_eq!(leader_error(&mut world, "orders", &[0, 1]), [0, 56]);
    assert_eq!(leader_error(&mut world, "orders", &[0, 1]), [0, 0]);
    assert_eq!(hits(&mut world, fault), 1);
}

#[test]
fn an_error_of_a_partition_leaves_the_others_alone_in_administration_too() {
    let mut world = world();
    let error = json!({"effect": "error", "error": "KAFKA_STORAGE_ERROR"});
    set(&mut world, json!({"when": {"topic": "orders", "partition": 1}, "what": error}));
    let topic = TopicRequest { name: "orders", partition_indexes: vec![0, 1], ..Default::default() };
    let answer = world.call(1, &DescribeProducersRequest { topics: vec![topic], ..Default::default() }, 0);
    let codes: Vec<i16> = answer.topics[0].partitions.iter().map(|partition| partition.error_code).collect();
    assert_eq!(codes, [0, 56]);
    let topic = TopicPartitions { topic: "orders", partitions: vec![0, 1], ..Default::default() };
    let answer = world.call(1, &ElectLeadersRequest { topic_partitions: Some(vec![topic]), ..Default::default() }, 1);
    let results = &answer.replica_election_results[0].partition_result;
    let codes: Vec<i16> = results.iter().map(|result| result.error_code).collect();
    assert_eq!(codes, [84, 56], "ELECTION_NOT_NEEDED, and the fault");
}

#[test]
fn a_selector_looks_at_everything_that_it_names() {
    let mut world = world();
    for (when, is_hit) in [
        (json!({"apis": ["Metadata"]}), true),
        (json!({"apis": ["Fetch", "Metadata"], "topic": "orders"}), true),
        (json!({"topic": "events"}), false),
        (json!({"topic": "orders", "partition": 0}), false),
        (json!({"nodes": [2]}), false),
        (json!({"nodes": [1, 2]}), true),
        (json!({"client_id": "test"}), true),
        (json!({"client_id": "other"}), false),
        (json!({"group": "g"}), false),
        (json!({"transactional_id": "t"}), false),
        (json!({"min_version": 9}), true),
        (json!({"min_version": 10}), false),
        (json!({"max_version": 8}), false),
    ] {
        let fault = set(&mut world, json!({"when": when}));
        world.call(1, &metadata("orders"), 9);
        assert_eq!(hits(&mut world, fault), u64::from(is_hit), "{when}");
    }
}

#[test]
fn a_topic_is_found_by_its_id_too() {
    let mut world = world();
    let topic_id = world.call(1, &metadata("orders"), 12).topics[0].topic_id;
    let fault = set(&mut world, json!({"when": {"topic": "orders"}}));
    let topic = MetadataRequestTopic { topic_id, ..Default::default() };
    world.call(1, &MetadataRequest { topics: Some(vec![topic]), ..Default::default() }, 12);
    assert_eq!(hits(&mut world, fault), 1);
}

#[test]
fn a_delayed_request_is_carried_out_later_even_if_its_sender_is_gone() {
    let mut world = world();
    set(&mut world, json!({"when": {"topic": "new"}, "what": {"effect": "delay", "ms": 50}, "count": 1}));
    let pending = world.send(1, &metadata("new"), 9);
    world.disconnect(pending.connection);
    world.advance(49);
    let exists = |world: &mut World| {
        let request = MetadataRequest { allow_auto_topic_creation: false, ..metadata("new") };
        world.call(1, &request, 9).topics[0].error_code == 0
    };
    assert!(!exists(&mut world));
    world.advance(1);
    assert!(exists(&mut world));
}

#[test]
fn a_delayed_answer_comes_later_but_its_request_does_not() {
    let mut world = world();
    let fault = json!({"when": {"topic": "new"}, "what": {"effect": "delay", "ms": 50}, "on": "answer", "count": 1});
    set(&mut world, fault);
    let pending = world.send(1, &metadata("new"), 9);
    assert!(world.waits(&pending));
    assert_eq!(world.call(1, &metadata("new"), 9).topics[0].error_code, 0);
    world.advance(50);
    // The answer is that of the time of the request, which created the topic.
    assert_eq!(world.take(&pending).unwrap().topics[0].error_code, 3);
}

#[test]
fn what_is_held_goes_on_when_it_is_released() {
    let mut world = world();
    let hold = |side: &str| json!({"when": {"apis": ["Metadata"]}, "what": {"effect": "hold"}, "on": side, "count": 1});
    for side in ["request", "answer"] {
        let fault = set(&mut world, hold(side));
        let pending = world.send(1, &metadata("orders"), 9);
        world.advance(3_600_000);
        assert!(world.waits(&pending), "{side}");
        world.control(json!({"command": "release_fault", "fault": fault}));
        assert_eq!(world.take(&pending).unwrap().topics[0].error_code, 0);
    }
    // Removing the fault releases the request, too.
    let fault = set(&mut world, hold("request"));
    let pending = world.send(1, &metadata("orders"), 9);
    assert_eq!(world.control(json!({"command": "remove_fault", "fault": fault}))["hits"], 1);
    assert!(world.take(&pending).is_some());
    assert!(world.control_error(json!({"command": "fault_hits", "fault": fault})).contains("no fault"));
}

#[test]
fn a_held_request_still_meets_the_faults_behind() {
    let mut world = world();
    let when = json!({"apis": ["FindCoordinator"]});
    let hold = set(&mut world, json!({"when": when, "what": {"effect": "hold"}}));
    set(&mut world, json!({"when": when, "what": {"effect": "error", "error": "COORDINATOR_NOT_AVAILABLE"}}));
    let pending = world.send(1, &FindCoordinatorRequest { key: "g", ..Default::default() }, 2);
    world.control(json!({"command": "release_fault", "fault": hold}));
    assert_eq!(world.take(&pending).unwrap().error_code, 15);
    assert_eq!(hits(&mut world, hold), 1);
}

#[test]
fn an_answer_is_dropped_with_its_request_or_without() {
    for (side, is_created) in [("request", false), ("answer", true)] {
        let mut world = world();
        set(&mut world, json!({"when": {"apis": ["Metadata"]}, "what": {"effect": "drop"}, "on": side, "count": 1}));
        let pending = world.send(1, &metadata("new"), 9);
        assert_eq!(world.outcome(pending.connection), Some(Outcome::Nothing));
        let request = MetadataRequest { allow_auto_topic_creation: false, ..metadata("new") };
        assert_eq!(world.call(1, &request, 9).topics[0].error_code == 0, is_created, "{side}");
    }
}

#[test]
fn a_request_is_carried_out_and_answered_with_an_error_all_the_same() {
    let mut world = world();
    let error = json!({"effect": "error", "error": "INVALID_REQUEST"});
    set(&mut world, json!({"when": {"topic": "new"}, "what": error, "on": "answer", "count": 1}));
    assert_eq!(world.call(1, &metadata("new"), 9).topics[0].error_code, 42);
    let request = MetadataRequest { allow_auto_topic_creation: false, ..metadata("new") };
    assert_eq!(world.call(1, &request, 9).topics[0].error_code, 0);
}

#[test]
fn a_connection_is_closed_reset_or_swallowed() {
    let mut world = world();
    let request = ApiVersionsRequest::default();
    for (effect, outcome) in [
        (json!({"effect": "close"}), Outcome::Closed("a fault closes it".to_owned())),
        (json!({"effect": "reset"}), Outcome::Reset),
        (json!({"effect": "black_hole", "way": "requests"}), Outcome::Deaf),
        (json!({"effect": "black_hole", "way": "both"}), Outcome::Deaf),
        (json!({"effect": "black_hole", "way": "answers"}), Outcome::Nothing),
    ] {
        let fault = set(&mut world, json!({"what": effect, "count": 1}));
        let pending = world.send(1, &request, 0);
        assert_eq!(world.outcome(pending.connection), Some(outcome), "{effect}");
        let is_black_hole = effect["effect"] == "black_hole";
        if effect["way"] == "answers" {
            world.send_on(pending.connection, &request, 0);
            assert_eq!(world.outcome(pending.connection), Some(Outcome::Nothing));
        }
        world.control(json!({"command": "remove_fault", "fault": fault}));
        let closed = matches!(world.outcome(pending.connection), Some(Outcome::Closed(_)));
        assert_eq!(closed, is_black_hole, "{effect}");
    }
}

#[test]
fn what_happens_to_bytes_is_told_to_the_connection() {
    let mut world = world();
    let plain = world.send(1, &ApiVersionsRequest::default(), 1);
    let Some(Outcome::Frame(plain)) = world.outcome(plain.connection) else { panic!("no answer") };
    let outcome = |world: &mut World, effect: Value| {
        set(world, json!({"what": effect, "count": 1}));
        let pending = world.send(1, &ApiVersionsRequest::default(), 1);
        world.outcome(pending.connection).unwrap()
    };
    let wire = |outcome| match outcome {
        Outcome::Wire(frame, wire) => (frame.len(), wire),
        other => panic!("{other:?}"),
    };
    let cut = wire(outcome(&mut world, json!({"effect": "truncate", "bytes": 7})));
    assert_eq!(cut, (plain.len(), Wire { cut_after: Some(7), ..Wire::default() }));
    let cut = wire(outcome(&mut world, json!({"effect": "fragment", "bytes": 3, "pause_ms": 2})));
    assert_eq!(cut, (plain.len(), Wire { fragment: Some((3, 2)), ..Wire::default() }));
    let Outcome::Frame(corrupt) = outcome(&mut world, json!({"effect": "corrupt", "offset": 4, "bytes": 2})) else {
        panic!()
    };
    assert_eq!((corrupt[4], corrupt[5]), (!plain[4], !plain[5]));
    assert_eq!(corrupt[6..], plain[6..]);
}

#[test]
fn a_throttled_client_is_told_so() {
    let mut world = world();
    set(&mut world, json!({"what": {"effect": "throttle", "ms": 1234}}));
    fn throttled(
        world: &mut World,
        outcome: impl FnOnce(&[u8]) -> i32,
        connection: monedula_broker::core::ConnectionId,
    ) {
        let Some(Outcome::Wire(frame, wire)) = world.outcome(connection) else { panic!("no throttled answer") };
        assert_eq!((outcome(&frame), wire.pause_ms), (1234, 1234));
    }
    let decode = |frame: &[u8], version| {
        let frame: &'static [u8] = Box::leak(frame.to_vec().into_boxed_slice());
        monedula_protocol::frame::decode_response::<MetadataRequest<'_>>(frame, version).unwrap().throttle_time_ms
    };
    for version in [3, 8, 9, 12] {
        let pending = world.send(1, &metadata("orders"), version);
        throttled(&mut world, |frame| decode(frame, version), pending.connection);
    }
    let pending = world.send(1, &ApiVersionsRequest::default(), 2);
    throttled(&mut world, |frame| i32::from_be_bytes(frame[frame.len() - 4..].try_into().unwrap()), pending.connection);
}

#[test]
fn a_probability_is_drawn_from_the_seed() {
    let hits_of = |seed| {
        let mut world = World::new(monedula_broker::settings::Settings { seed, ..Default::default() });
        set(&mut world, json!({"what": {"effect": "error", "error": "UNKNOWN_SERVER_ERROR"}, "probability": 0.3}));
        let mut is_hit = || {
            let pending = world.send(1, &FindCoordinatorRequest { key: "g", ..Default::default() }, 2);
            world.take(&pending).unwrap().error_code != 0
        };
        (0..1000).map(|_| is_hit()).collect::<Vec<_>>()
    };
    let (first, again, other) = (hits_of(1), hits_of(1), hits_of(2));
    let hits = first.iter().filter(|is_hit| **is_hit).count();
    assert!((200..400).contains(&hits), "{hits}");
    assert!(first == again && first != other);
}
