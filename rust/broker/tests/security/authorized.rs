//! Answers of each API to a client without a right.

use monedula_broker::security::{Acl, Operation, PatternType, PermissionType, ResourceType};
use monedula_broker::settings::Settings;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use monedula_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use monedula_protocol::messages::describe_cluster::DescribeClusterRequest;
use monedula_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use monedula_protocol::messages::find_coordinator::FindCoordinatorRequest;
use monedula_protocol::messages::init_producer_id::InitProducerIdRequest;
use monedula_protocol::messages::join_group::JoinGroupRequest;
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use monedula_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use serde_json::json;

use crate::support::World;

/// The principal of a client that connects without logging in.
const ANONYMOUS: &str = "User:ANONYMOUS";

fn code(error: ErrorCode) -> i16 {
    error.code()
}

fn forbidden() -> i16 {
    code(ErrorCode::TopicAuthorizationFailed)
}

fn allow(operation: Operation, resource_type: ResourceType, name: &str) -> Acl {
    Acl {
        resource_type,
        name: name.to_owned(),
        pattern_type: PatternType::Literal,
        principal: ANONYMOUS.to_owned(),
        host: "*".to_owned(),
        operation,
        permission: PermissionType::Allow,
    }
}

/// A cluster with the topics `orders` and `events`, and with these rights.
fn world(acls: Vec<Acl>) -> World {
    let mut settings = Settings::default();
    settings.security.authorizer = true;
    settings.security.acls = acls;
    let mut world = World::new(settings);
    for topic in ["orders", "events"] {
        world.control(json!({ "command": "create_topic", "topic": topic, "partitions": 1 }));
    }
    world
}

fn metadata(world: &mut World, names: Option<&[&'static str]>) -> MetadataResponse<'static> {
    let topic = |name: &&'static str| MetadataRequestTopic { name: Some(name), ..Default::default() };
    let topics = names.map(|names| names.iter().map(topic).collect());
    let request = MetadataRequest {
        topics,
        allow_auto_topic_creation: true,
        include_topic_authorized_operations: true,
        ..Default::default()
    };
    world.call(1, &request, 13)
}

#[test]
fn metadata_hides_topics_and_makes_no_difference_between_unknown_and_forbidden() {
    let mut world = world(vec![allow(Operation::Read, ResourceType::Topic, "orders")]);
    let all = metadata(&mut world, None);
    let names: Vec<_> = all.topics.iter().map(|topic| topic.name.unwrap()).collect();
    assert_eq!(names, ["orders"]);
    // READ and what it implies, DESCRIBE.
    assert_eq!(all.topics[0].topic_authorized_operations, 1 << 3 | 1 << 8);
    let asked = metadata(&mut world, Some(&["orders", "events", "missing"]));
    let codes: Vec<_> = asked.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [0, forbidden(), forbidden()]);
    assert!(asked.topics[1].topic_id.is_zero() && asked.topics[1].partitions.is_empty());
}

#[test]
fn metadata_creates_no_topic_that_the_client_may_not_create() {
    let mut world = world(vec![
        allow(Operation::Describe, ResourceType::Topic, "*"),
        allow(Operation::Create, ResourceType::Topic, "mine"),
    ]);
    // The request that creates a topic does not find it yet.
    for mine in [code(ErrorCode::UnknownTopicOrPartition), 0] {
        let asked = metadata(&mut world, Some(&["theirs", "mine"]));
        let codes: Vec<_> = asked.topics.iter().map(|topic| (topic.name.unwrap(), topic.error_code)).collect();
        assert_eq!(codes, [("theirs", forbidden()), ("mine", mine)]);
    }
}

#[test]
fn a_fetch_is_refused_by_partition() {
    let mut world = world(vec![allow(Operation::Read, ResourceType::Topic, "orders")]);
    let topic = |topic| FetchTopic {
        topic,
        partitions: vec![FetchPartition { partition_max_bytes: 100, ..Default::default() }],
        ..Default::default()
    };
    let request = FetchRequest {
        max_bytes: 100,
        topics: vec![topic("orders"), topic("events"), topic("missing")],
        ..Default::default()
    };
    let fetched = world.call(1, &request, 12);
    let codes: Vec<_> = fetched.responses.iter().map(|topic| topic.partitions[0].error_code).collect();
    assert_eq!(codes, [0, forbidden(), forbidden()]);
}

#[test]
fn a_right_that_is_taken_away_ends_a_fetch_session() {
    let right = allow(Operation::Read, ResourceType::Topic, "orders");
    let mut world = world(vec![right.clone()]);
    let topic = FetchTopic {
        topic: "orders",
        partitions: vec![FetchPartition { partition_max_bytes: 100, ..Default::default() }],
        ..Default::default()
    };
    let open = FetchRequest { max_bytes: 100, session_epoch: 0, topics: vec![topic], ..Default::default() };
    let session_id = world.call(1, &open, 12).session_id;
    world.control(json!({ "command": "delete_acls", "acls": [right] }));
    let next = FetchRequest { max_bytes: 100, session_id, session_epoch: 1, ..Default::default() };
    let fetched = world.call(1, &next, 12);
    assert_eq!(fetched.responses[0].partitions[0].error_code, forbidden());
    world.control(json!({ "command": "create_acls", "acls": [right] }));
    let again = FetchRequest { session_epoch: 2, ..next };
    assert_eq!(world.call(1, &again, 12).responses[0].partitions[0].error_code, 0);
}

#[test]
fn topics_are_created_by_right_on_the_cluster_or_on_the_topic() {
    let create = |world: &mut World| {
        let topic = |name| CreatableTopic { name, num_partitions: 1, replication_factor: 1, ..Default::default() };
        let request = CreateTopicsRequest { topics: vec![topic("new.one"), topic("other")], ..Default::default() };
        let answer = world.call(1, &request, 7);
        answer.topics.iter().map(|topic| (topic.error_code, topic.topic_config_error_code)).collect::<Vec<_>>()
    };
    assert_eq!(create(&mut world(vec![])), [(forbidden(), 0), (forbidden(), 0)]);
    let prefixed = Acl { pattern_type: PatternType::Prefixed, ..allow(Operation::Create, ResourceType::Topic, "new.") };
    // The configs of the new topic are not described to who may not describe them.
    assert_eq!(create(&mut world(vec![prefixed])), [(0, forbidden()), (forbidden(), 0)]);
    let cluster = allow(Operation::Create, ResourceType::Cluster, "kafka-cluster");
    let configs = allow(Operation::AlterConfigs, ResourceType::Topic, "*");
    assert_eq!(create(&mut world(vec![cluster, configs])), [(0, 0), (0, 0)]);
}

#[test]
fn deleting_tells_of_topics_only_those_who_may_describe_them() {
    let delete = |world: &mut World, name| {
        let topics = vec![DeleteTopicState { name: Some(name), ..Default::default() }];
        let answer = world.call(1, &DeleteTopicsRequest { topics, timeout_ms: 1000, ..Default::default() }, 6);
        answer.responses[0].error_code
    };
    let mut without = world(vec![]);
    assert_eq!([delete(&mut without, "orders"), delete(&mut without, "missing")], [forbidden(), forbidden()]);
    let mut describes = world(vec![allow(Operation::Describe, ResourceType::Topic, "*")]);
    let unknown = code(ErrorCode::UnknownTopicOrPartition);
    assert_eq!([delete(&mut describes, "orders"), delete(&mut describes, "missing")], [forbidden(), unknown]);
    let mut deletes = world(vec![allow(Operation::Delete, ResourceType::Topic, "*")]);
    assert_eq!(delete(&mut deletes, "orders"), 0);
}

#[test]
fn a_group_is_joined_by_right() {
    let join = JoinGroupRequest {
        group_id: "etl",
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer",
        ..Default::default()
    };
    let mut world = world(vec![allow(Operation::Read, ResourceType::Group, "etl")]);
    assert_ne!(world.call(1, &join, 9).error_code, code(ErrorCode::GroupAuthorizationFailed));
    let other = JoinGroupRequest { group_id: "other", ..join };
    assert_eq!(world.call(1, &other, 9).error_code, code(ErrorCode::GroupAuthorizationFailed));
}

#[test]
fn committed_offsets_are_seen_by_right_on_group_and_topic() {
    let mut world = world(vec![
        allow(Operation::Describe, ResourceType::Group, "etl"),
        allow(Operation::Describe, ResourceType::Topic, "orders"),
    ]);
    let group = |group_id| OffsetFetchRequestGroup {
        group_id,
        topics: Some(
            ["orders", "events"]
                .map(|name| OffsetFetchRequestTopics { name, partition_indexes: vec![0], ..Default::default() })
                .to_vec(),
        ),
        ..Default::default()
    };
    // The right to describe the group is enough to make the coordinators.
    world.call(1, &FindCoordinatorRequest { coordinator_keys: vec!["etl"], ..Default::default() }, 4);
    let request = OffsetFetchRequest { groups: vec![group("etl"), group("other")], ..Default::default() };
    let answer = world.call(1, &request, 9);
    let codes: Vec<_> = answer.groups[0].topics.iter().map(|topic| topic.partitions[0].error_code).collect();
    assert_eq!((answer.groups[0].error_code, codes), (0, vec![0, forbidden()]));
    assert_eq!(answer.groups[1].error_code, code(ErrorCode::GroupAuthorizationFailed));
}

#[test]
fn an_idempotent_producer_needs_some_topic_or_idempotent_write() {
    let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
    let refused = code(ErrorCode::ClusterAuthorizationFailed);
    assert_eq!(world(vec![]).call(1, &request, 4).error_code, refused);
    let write = allow(Operation::Write, ResourceType::Topic, "orders");
    assert_eq!(world(vec![write]).call(1, &request, 4).error_code, 0);
    let idempotent = allow(Operation::IdempotentWrite, ResourceType::Cluster, "kafka-cluster");
    assert_eq!(world(vec![idempotent]).call(1, &request, 4).error_code, 0);
    let transactional = InitProducerIdRequest { transactional_id: Some("tx"), ..Default::default() };
    let refused = code(ErrorCode::TransactionalIdAuthorizationFailed);
    assert_eq!(world(vec![]).call(1, &transactional, 4).error_code, refused);
}

#[test]
fn authorized_operations_of_the_cluster_are_those_of_the_client() {
    let request = DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
    assert_eq!(world(vec![]).call(1, &request, 1).cluster_authorized_operations, 0);
    let alter = allow(Operation::Alter, ResourceType::Cluster, "kafka-cluster");
    assert_eq!(world(vec![alter]).call(1, &request, 1).cluster_authorized_operations, 1 << 7 | 1 << 8);
}
