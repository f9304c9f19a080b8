//! Subscriptions by name and by pattern, the choice of the assignor, invalid heartbeats, and the group's own configs.

use monedula_protocol::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use monedula_protocol::messages::create_partitions::{CreatePartitionsRequest, CreatePartitionsTopic};
use monedula_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use monedula_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use serde_json::json;

use crate::client::{Client, GROUP, Owned, create, describe, member, settle, topic_id};
use crate::support::{World, make_coordinators};

const INVALID_REQUEST: i16 = 42;
const GROUP_MAX_SIZE_REACHED: i16 = 81;
const UNSUPPORTED_ASSIGNOR: i16 = 112;
const INVALID_REGULAR_EXPRESSION: i16 = 128;

#[test]
fn partitions_that_are_added_and_topics_that_are_created_come_to_the_members() {
    let mut world = World::default();
    let orders = create(&mut world, "orders", 2);
    let mut one = Client::new("one", &["orders", "later"]);
    let mut two = Client::new("two", &["orders", "later"]);
    one.join(&mut world);
    two.join(&mut world);
    settle(&mut world, &mut [&mut one, &mut two]);
    let epoch = one.epoch;
    let topic = CreatePartitionsTopic { name: "orders", count: 4, assignments: None, ..Default::default() };
    let request = CreatePartitionsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() };
    assert_eq!(world.call(1, &request, 3).results[0].error_code, 0);
    settle(&mut world, &mut [&mut one, &mut two]);
    assert_eq!(&one.owned | &two.owned, (0..4).map(|partition| (orders, partition)).collect::<Owned>());
    assert_eq!((one.epoch, two.epoch), (epoch + 1, epoch + 1));
    let later = create(&mut world, "later", 1);
    settle(&mut world, &mut [&mut one, &mut two]);
    assert!(one.owned.contains(&(later, 0)) || two.owned.contains(&(later, 0)));
    assert_eq!(one.epoch, epoch + 2);
    // A topic that no member subscribes to does not bump the epoch.
    create(&mut world, "other", 1);
    settle(&mut world, &mut [&mut one, &mut two]);
    assert_eq!(one.epoch, epoch + 2);
}

#[test]
fn a_topic_that_is_created_again_is_another() {
    let mut world = World::default();
    let before = create(&mut world, "orders", 2);
    let mut one = Client::new("one", &["orders"]);
    one.join(&mut world);
    let gone = DeleteTopicsRequest {
        topics: vec![DeleteTopicState { name: Some("orders"), ..Default::default() }],
        timeout_ms: 1000,
        ..Default::default()
    };
    assert_eq!(world.call(1, &gone, 6).responses[0].error_code, 0);
    settle(&mut world, &mut [&mut one]);
    assert!(one.owned.is_empty());
    let after = create(&mut world, "orders", 1);
    settle(&mut world, &mut [&mut one]);
    assert_ne!(before, after);
    assert_eq!(one.owned, Owned::from([(after, 0)]));
}

#[test]
fn a_pattern_matches_whole_names_of_topics_that_come_and_go() {
    let mut world = World::default();
    let (first, _) = (create(&mut world, "orders-1", 1), create(&mut world, "all-orders-1", 1));
    let mut one = Client::matching("one", "orders-[0-9]+");
    // The pattern is resolved after the answer.
    one.join(&mut world);
    assert_eq!((one.epoch, one.owned.len()), (1, 0));
    settle(&mut world, &mut [&mut one]);
    assert_eq!((one.epoch, &one.owned), (2, &Owned::from([(first, 0)])));
    let group = describe(&mut world, 1);
    assert_eq!(member(&group, "one").subscribed_topic_regex, Some("orders-[0-9]+"));
    let second = create(&mut world, "orders-2", 1);
    settle(&mut world, &mut [&mut one]);
    assert_eq!(one.owned, Owned::from([(first, 0), (second, 0)]));
    // A member can subscribe by name and by pattern. An empty pattern removes the pattern.
    let named = create(&mut world, "named", 1);
    one.names = Some(vec!["named"]);
    let answer = one.ask(&mut world, &one.full());
    one.take(&answer);
    settle(&mut world, &mut [&mut one]);
    assert_eq!(one.owned, Owned::from([(first, 0), (second, 0), (named, 0)]));
    one.regex = Some("");
    let answer = one.ask(&mut world, &one.full());
    one.take(&answer);
    settle(&mut world, &mut [&mut one]);
    assert_eq!(one.owned, Owned::from([(named, 0)]));
    // As in Kafka, patterns match internal topics, too.
    let offsets = topic_id(&mut world, "__consumer_offsets");
    let mut two = Client::matching("two", "__.*");
    two.join(&mut world);
    settle(&mut world, &mut [&mut one, &mut two]);
    assert!(two.owned.contains(&(offsets, 0)));
}

#[test]
fn a_pattern_that_is_none_is_told() {
    let mut world = World::default();
    make_coordinators(&mut world);
    for regex in ["(", "a)(b", "[z-a]", "(?=x)"] {
        let client = Client::matching("one", regex);
        let answer = client.ask(&mut world, &client.full());
        assert_eq!(answer.error_code, INVALID_REGULAR_EXPRESSION, "{regex}");
        let start = format!("SubscribedTopicRegex `{regex}` is not a valid regular expression: ");
        assert!(answer.error_message.unwrap().starts_with(&start), "{:?}", answer.error_message);
    }
}

#[test]
fn the_strategy_that_members_name_assigns() {
    let mut world = World::default();
    let topic = create(&mut world, "orders", 4);
    let mut one = Client { assignor: Some("range"), ..Client::new("one", &["orders"]) };
    let mut two = Client { assignor: Some("range"), ..Client::new("two", &["orders"]) };
    one.join(&mut world);
    two.join(&mut world);
    settle(&mut world, &mut [&mut one, &mut two]);
    assert_eq!(describe(&mut world, 1).assignor_name, "range");
    assert_eq!(one.owned, Owned::from([(topic, 0), (topic, 1)]));
    assert_eq!(two.owned, Owned::from([(topic, 2), (topic, 3)]));
    // The default is the first assignor of the broker's setting.
    let mut world = World::with(1, &[("group.consumer.assignors", "range,uniform")]);
    create(&mut world, "orders", 4);
    Client::new("one", &["orders"]).join(&mut world);
    assert_eq!(describe(&mut world, 1).assignor_name, "range");
}

#[test]
fn an_unknown_strategy_is_refused() {
    let mut world = World::with(1, &[("group.consumer.assignors", "uniform")]);
    create(&mut world, "orders", 1);
    for name in ["sticky", "range", ""] {
        let client = Client { assignor: Some(name), ..Client::new("one", &["orders"]) };
        let answer = client.ask(&mut world, &client.full());
        assert_eq!(answer.error_code, UNSUPPORTED_ASSIGNOR);
        let message = format!("ServerAssignor {name} is not supported. Supported assignors: uniform.");
        assert_eq!(answer.error_message, Some(message.as_str()));
    }
}

#[test]
fn requests_that_say_too_little_are_refused() {
    let mut world = World::default();
    make_coordinators(&mut world);
    let good = Client::new("one", &["orders"]);
    let full = good.full();
    type Request = ConsumerGroupHeartbeatRequest<'static>;
    type Spoiled = (fn(&mut Request), &'static str);
    let bad: [Spoiled; 9] = [
        (|request| request.group_id = " ", "GroupId can't be empty."),
        (|request| request.member_id = "", "MemberId can't be empty."),
        (|request| request.instance_id = Some(""), "InstanceId can't be empty."),
        (|request| request.rack_id = Some(" "), "RackId can't be empty."),
        (|request| request.rebalance_timeout_ms = -1, "RebalanceTimeoutMs must be provided in first request."),
        (|request| request.topic_partitions = None, "TopicPartitions must be empty when (re-)joining."),
        (
            |request| request.subscribed_topic_names = None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (|request| request.member_epoch = -3, "MemberEpoch is invalid."),
        (|request| request.member_epoch = -2, "InstanceId can't be null."),
    ];
    for (spoil, message) in bad {
        let mut request: Request = ConsumerGroupHeartbeatRequest {
            group_id: GROUP,
            member_id: "one",
            rebalance_timeout_ms: full.rebalance_timeout_ms,
            subscribed_topic_names: Some(vec!["orders"]),
            topic_partitions: Some(Vec::new()),
            ..Default::default()
        };
        spoil(&mut request);
        let answer = good.ask(&mut world, &request);
        assert_eq!((answer.error_code, answer.error_message), (INVALID_REQUEST, Some(message)));
    }
    // In version 0 the broker assigns the member id.
    let request = ConsumerGroupHeartbeatRequest { member_id: "", ..full };
    let answer = world.call(1, &request, 0);
    assert_eq!((answer.error_code, answer.member_id.map(str::len)), (0, Some(22)));
}

#[test]
fn a_full_group_takes_nobody() {
    let mut world = World::with(1, &[("group.consumer.max.size", "1")]);
    create(&mut world, "orders", 1);
    let mut one = Client::new("one", &["orders"]);
    one.join(&mut world);
    let two = Client::new("two", &["orders"]);
    let answer = two.ask(&mut world, &two.full());
    assert_eq!(answer.error_code, GROUP_MAX_SIZE_REACHED);
    one.beat(&mut world);
}

#[test]
fn the_intervals_are_those_that_are_set_for_the_group() {
    let mut world = World::with(1, &[("group.consumer.heartbeat.interval.ms", "700")]);
    create(&mut world, "orders", 1);
    let mut one = Client::new("one", &["orders"]);
    assert_eq!(one.ask(&mut world, &one.full()).heartbeat_interval_ms, 700);
    // The group's own configs override the broker's, from the next heartbeat on.
    one.join(&mut world);
    let set = |name, value| AlterableConfig { name, config_operation: 0, value: Some(value), ..Default::default() };
    let configs = vec![set("consumer.heartbeat.interval.ms", "6000"), set("consumer.session.timeout.ms", "50000")];
    let resource = AlterConfigsResource { resource_type: 32, resource_name: GROUP, configs, ..Default::default() };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    assert_eq!(world.call(1, &request, 1).responses[0].error_code, 0);
    assert_eq!(one.ask(&mut world, &one.short()).heartbeat_interval_ms, 6000);
    world.advance(49_999);
    assert_eq!(one.ask(&mut world, &one.short()).error_code, 0);
}

#[test]
fn changes_that_follow_each_other_are_assigned_together() {
    let mut world = World::with(1, &[("group.consumer.assignment.interval.ms", "1000")]);
    create(&mut world, "orders", 2);
    let (mut one, mut two) = (Client::new("one", &["orders"]), Client::new("two", &["orders"]));
    one.join(&mut world);
    two.join(&mut world);
    let group = describe(&mut world, 1);
    assert_eq!((group.group_state, group.group_epoch, group.assignment_epoch), ("Assigning", 3, 2));
    world.advance(1000);
    settle(&mut world, &mut [&mut one, &mut two]);
    assert_eq!((one.owned.len(), two.owned.len()), (1, 1));
}

#[test]
fn a_group_goes_on_when_it_is_read_back_with_its_patterns() {
    let mut world = World::with(2, &[("offsets.topic.num.partitions", "1")]);
    let orders = create(&mut world, "orders", 1);
    let mut one = Client { instance_id: Some("first".to_owned()), ..Client::matching("one", "orders") };
    one.join(&mut world);
    settle(&mut world, &mut [&mut one]);
    let before = describe(&mut world, 1);
    world.control(json!({"command": "move_leader", "topic": "__consumer_offsets", "partition": 0, "node": 2}));
    assert_eq!(describe(&mut world, 2), before);
    one.node = 2;
    settle(&mut world, &mut [&mut one]);
    assert_eq!(one.owned, Owned::from([(orders, 0)]));
    assert_eq!(describe(&mut world, 2).group_epoch, before.group_epoch);
}
