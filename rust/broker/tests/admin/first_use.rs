//! First use: topics that Metadata or a client creates, and the first coordinators.

use monedula_broker::FirstUse;
use monedula_broker::settings::Settings;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::create_partitions::{CreatePartitionsRequest, CreatePartitionsTopic};
use monedula_protocol::messages::create_topics::CreateTopicsRequest;
use monedula_protocol::messages::delete_topics::DeleteTopicsRequest;
use monedula_protocol::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use monedula_protocol::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use monedula_protocol::messages::heartbeat::HeartbeatRequest;
use monedula_protocol::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};

use crate::helpers::{create, topic};
use crate::support::World;

const UNKNOWN: i16 = 3;
const NOT_AVAILABLE: i16 = 15;

/// Metadata that creates topics.
fn metadata(world: &mut World, node: i32, names: &[&'static str], version: i16) -> MetadataResponse<'static> {
    let topic = |name: &&'static str| MetadataRequestTopic { name: Some(name), ..Default::default() };
    let topics = Some(names.iter().map(topic).collect());
    let request = MetadataRequest { topics, allow_auto_topic_creation: true, ..Default::default() };
    world.call(node, &request, version)
}

fn codes(answer: &MetadataResponse<'_>) -> Vec<(i16, usize)> {
    answer.topics.iter().map(|topic| (topic.error_code, topic.partitions.len())).collect()
}

fn find(world: &mut World, node: i32, key_type: i8, keys: &[&'static str]) -> FindCoordinatorResponse<'static> {
    let request = FindCoordinatorRequest { key_type, coordinator_keys: keys.to_vec(), ..Default::default() };
    world.call(node, &request, 4)
}

fn found(answer: &FindCoordinatorResponse<'_>) -> Vec<i16> {
    answer.coordinators.iter().map(|coordinator| coordinator.error_code).collect()
}

fn as_in_kafka(nodes: u16, seed: u64) -> World {
    World::new(Settings { nodes, seed, first_use: FirstUse::Kafka, ..Settings::default() })
}

#[test]
fn the_metadata_that_creates_a_topic_does_not_know_it() {
    for version in 0..=13 {
        let mut world = World::default();
        create(&mut world, vec![topic("there", 2, 1)]);
        let answer = metadata(&mut world, 1, &["new", "there", "other", "new"], version);
        assert_eq!(codes(&answer), [(UNKNOWN, 0), (0, 2), (UNKNOWN, 0)], "v{version}");
        assert!(answer.topics[0].topic_id.is_zero());
        let answer = metadata(&mut world, 1, &["new", "other"], version);
        assert_eq!(codes(&answer), [(0, 1), (0, 1)], "v{version}");
    }
}

#[test]
fn every_node_knows_the_topic_then() {
    let mut world = World::with(3, &[]);
    assert_eq!(codes(&metadata(&mut world, 2, &["new"], 12)), [(UNKNOWN, 0)]);
    assert_eq!(codes(&metadata(&mut world, 3, &["new"], 12)), [(0, 1)]);
}

#[test]
fn the_first_request_for_a_coordinator_finds_none() {
    for kind in [0, 1] {
        let mut world = World::with(2, &[]);
        assert_eq!(found(&find(&mut world, 1, kind, &["a", "b"])), [NOT_AVAILABLE; 2]);
        assert_eq!(found(&find(&mut world, 2, kind, &["a", "b"])), [0, 0]);
        // The coordinators of the other kind are still to be made.
        assert_eq!(found(&find(&mut world, 2, 1 - kind, &["a"])), [NOT_AVAILABLE]);
    }
}

#[test]
fn an_old_client_is_told_the_same() {
    let mut world = World::default();
    let request = FindCoordinatorRequest { key: "g", ..Default::default() };
    let answer = world.call(1, &request, 2);
    assert_eq!((answer.error_code, answer.node_id, answer.port), (NOT_AVAILABLE, -1, -1));
    assert_eq!(world.call(1, &request, 2).error_code, 0);
}

#[test]
fn nobody_coordinates_before_somebody_asked_for_a_coordinator() {
    let mut world = World::default();
    let request = HeartbeatRequest { group_id: "g", member_id: "m", ..Default::default() };
    assert_eq!(world.call(1, &request, 4).error_code, ErrorCode::NotCoordinator.code());
    find(&mut world, 1, 0, &["g"]);
    assert_eq!(world.call(1, &request, 4).error_code, ErrorCode::UnknownMemberId.code());
}

#[test]
fn as_in_kafka_each_node_learns_of_a_topic_in_its_own_time() {
    let (mut unknown, mut known) = (0, 0);
    for seed in 0..20 {
        let mut world = as_in_kafka(3, seed);
        create(&mut world, vec![topic("new", 3, 1)]);
        for node in 1..=3 {
            // Without creating it: it exists.
            match codes(&metadata(&mut world, node, &["new"], 12))[..] {
                [(UNKNOWN, 0)] => unknown += 1,
                [(0, 3)] => known += 1,
                ref other => panic!("{other:?}"),
            }
        }
        world.advance(17);
        for node in 1..=3 {
            assert_eq!(codes(&metadata(&mut world, node, &["new"], 12)), [(0, 3)], "seed {seed}, node {node}");
        }
    }
    assert!(unknown > known && known > 0, "{unknown} unknown, {known} known");
}

#[test]
fn as_in_kafka_a_node_that_does_not_know_a_topic_leads_none_of_it() {
    let mut world = as_in_kafka(1, 1);
    create(&mut world, vec![topic("new", 1, 1)]);
    let offset = |world: &mut World| {
        let partition = ListOffsetsPartition { timestamp: -1, ..Default::default() };
        let topic = ListOffsetsTopic { name: "new", partitions: vec![partition], ..Default::default() };
        let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
        world.call(1, &request, 7).topics[0].partitions[0].error_code
    };
    assert_eq!(offset(&mut world), UNKNOWN);
    let everything = MetadataRequest { topics: None, ..Default::default() };
    assert!(world.call(1, &everything, 12).topics.is_empty());
    world.advance(17);
    assert_eq!(offset(&mut world), 0);
    assert_eq!(world.call(1, &everything, 12).topics.len(), 1);
}

#[test]
fn as_in_kafka_the_first_coordinators_take_their_time() {
    for seed in 0..10 {
        let mut world = as_in_kafka(2, seed);
        assert_eq!(found(&find(&mut world, 1, 0, &["g"])), [NOT_AVAILABLE]);
        world.advance(99);
        for node in [1, 2] {
            assert_eq!(found(&find(&mut world, node, 0, &["g"])), [NOT_AVAILABLE]);
            let request = HeartbeatRequest { group_id: "g", member_id: "m", ..Default::default() };
            assert_eq!(world.call(node, &request, 4).error_code, ErrorCode::NotCoordinator.code());
        }
        world.advance(1601);
        assert_eq!(found(&find(&mut world, 1, 0, &["g"])), [0]);
    }
}

#[test]
fn as_in_kafka_what_a_test_creates_is_there_at_once() {
    let mut world = as_in_kafka(1, 1);
    world.control(serde_json::json!({"command": "create_topic", "topic": "given", "partitions": 2}));
    assert_eq!(codes(&metadata(&mut world, 1, &["given"], 12)), [(0, 2)]);
}

#[test]
fn a_request_to_the_controller_that_has_no_time_is_given_up_and_changes_nothing() {
    const TIMED_OUT: i16 = 7;
    let mut world = World::default();
    create(&mut world, vec![topic("a", 1, 1)]);
    for timeout_ms in [0, -1] {
        let topics = vec![topic("b", 1, 1), topic("not a name", 1, 1)];
        let request = CreateTopicsRequest { topics, timeout_ms, ..Default::default() };
        let codes: Vec<i16> = world.call(1, &request, 7).topics.iter().map(|topic| topic.error_code).collect();
        assert_eq!(codes, [TIMED_OUT; 2]);
        let topics = vec![CreatePartitionsTopic { name: "a", count: 2, ..Default::default() }];
        let request = CreatePartitionsRequest { topics, timeout_ms, ..Default::default() };
        assert_eq!(world.call(1, &request, 3).results[0].error_code, TIMED_OUT);
        let request = DeleteTopicsRequest { topic_names: vec!["a"], timeout_ms, ..Default::default() };
        assert_eq!(world.call(1, &request, 5).responses[0].error_code, TIMED_OUT);
        let topic = TopicPartitions { topic: "a", partitions: vec![0], ..Default::default() };
        let request = ElectLeadersRequest { topic_partitions: Some(vec![topic]), timeout_ms, ..Default::default() };
        assert_eq!(world.call(1, &request, 2).error_code, TIMED_OUT);
    }
    assert_eq!(crate::support::topic(&mut world, 1, "a").partitions.len(), 1);
    assert_eq!(crate::support::topic(&mut world, 1, "b").error_code, UNKNOWN);
}
