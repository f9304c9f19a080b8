//! Members that join and leave: epochs, the reconciliation of partitions, and refused requests.

use monedula_protocol::messages::consumer_group_describe::ConsumerGroupDescribeRequest;
use serde_json::json;

use crate::client::{Client, GROUP, Owned, create, describe, member, settle};
use crate::support::{World, make_coordinators};

const NOT_COORDINATOR: i16 = 16;
const INVALID_GROUP_ID: i16 = 24;
const UNKNOWN_MEMBER_ID: i16 = 25;
const GROUP_ID_NOT_FOUND: i16 = 69;
const FENCED_MEMBER_EPOCH: i16 = 110;

#[test]
fn the_first_member_gets_all_partitions_at_once() {
    let mut world = World::default();
    let topic = create(&mut world, "orders", 3);
    let mut one = Client::new("one", &["orders"]);
    let answer = one.ask(&mut world, &one.full());
    // A group begins in epoch 1, and the join bumps it.
    assert_eq!((answer.error_code, answer.member_id, answer.member_epoch), (0, Some("one"), 2));
    assert_eq!(answer.heartbeat_interval_ms, 5000);
    one.take(&answer);
    assert_eq!(one.owned, Owned::from([(topic, 0), (topic, 1), (topic, 2)]));
    // Without a change, only the answer to a full heartbeat has the assignment.
    assert_eq!(one.ask(&mut world, &one.short()).assignment, None);
    assert!(one.ask(&mut world, &one.full()).assignment.is_some());
    let group = describe(&mut world, 1);
    assert_eq!((group.error_code, group.group_state, group.assignor_name), (0, "Stable", "uniform"));
    assert_eq!((group.group_epoch, group.assignment_epoch), (2, 2));
    let described = member(&group, "one");
    assert_eq!((described.client_id, described.client_host, described.member_type), ("test", "/127.0.0.1", 1));
    assert_eq!(described.assignment.topic_partitions[0].topic_name, "orders");
    assert_eq!(described.assignment, described.target_assignment);
}

#[test]
fn a_partition_changes_hands_only_when_it_is_reported_given_back() {
    let mut world = World::default();
    let topic = create(&mut world, "orders", 2);
    let mut one = Client::new("one", &["orders"]);
    one.join(&mut world);
    let mut two = Client::new("two", &["orders"]);
    two.join(&mut world);
    assert_eq!((two.epoch, two.owned.len()), (3, 0));
    assert_eq!(describe(&mut world, 1).group_state, "Reconciling");

    // The first member must revoke one partition, and stays in its epoch.
    let had = one.owned.clone();
    let answer = one.ask(&mut world, &one.short());
    assert_eq!(answer.member_epoch, 2);
    one.take(&answer);
    assert_eq!(one.owned.len(), 1);
    let given: Owned = had.difference(&one.owned).copied().collect();
    // A heartbeat without owned partitions does not acknowledge the revocation, nor does one that still owns the
    // partition.
    assert_eq!(one.ask(&mut world, &one.short()).member_epoch, 2);
    let still = Client { owned: had, ..one.clone() };
    assert_eq!(still.ask(&mut world, &still.full()).member_epoch, 2);
    two.beat(&mut world);
    assert!(two.owned.is_empty());

    one.beat(&mut world);
    assert_eq!(one.epoch, 3);
    two.beat(&mut world);
    assert_eq!((two.epoch, &two.owned), (3, &given));
    settle(&mut world, &mut [&mut one, &mut two]);
    assert_eq!(&one.owned | &two.owned, Owned::from([(topic, 0), (topic, 1)]));
    assert_eq!(describe(&mut world, 1).group_state, "Stable");
}

#[test]
fn who_leaves_gives_its_partitions_to_the_others() {
    let mut world = World::default();
    create(&mut world, "orders", 4);
    let (mut one, mut two) = (Client::new("one", &["orders"]), Client::new("two", &["orders"]));
    one.join(&mut world);
    two.join(&mut world);
    settle(&mut world, &mut [&mut one, &mut two]);
    let answer = two.leave(&mut world, -1);
    assert_eq!((answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms), (0, -1, 0));
    assert_eq!(two.leave(&mut world, -1).error_code, UNKNOWN_MEMBER_ID);
    settle(&mut world, &mut [&mut one]);
    assert_eq!(one.owned.len(), 4);
    one.leave(&mut world, -1);
    let group = describe(&mut world, 1);
    assert_eq!((group.group_state, group.members.len()), ("Empty", 0));
}

#[test]
fn a_silent_member_is_removed_when_its_session_ends() {
    let mut world = World::with(1, &[("group.consumer.session.timeout.ms", "1000")]);
    create(&mut world, "orders", 2);
    let (mut one, mut two) = (Client::new("one", &["orders"]), Client::new("two", &["orders"]));
    one.join(&mut world);
    two.join(&mut world);
    settle(&mut world, &mut [&mut one, &mut two]);
    world.advance(999);
    one.beat(&mut world);
    assert_eq!(describe(&mut world, 1).members.len(), 2);
    world.advance(1);
    assert_eq!(describe(&mut world, 1).members.len(), 1);
    assert_eq!(two.ask(&mut world, &two.short()).error_code, UNKNOWN_MEMBER_ID);
    settle(&mut world, &mut [&mut one]);
    assert_eq!(one.owned.len(), 2);
}

#[test]
fn a_member_that_keeps_what_it_is_to_give_back_is_removed() {
    let mut world = World::default();
    create(&mut world, "orders", 2);
    let mut one = Client { rebalance_timeout_ms: 3000, ..Client::new("one", &["orders"]) };
    one.join(&mut world);
    let mut two = Client::new("two", &["orders"]);
    two.join(&mut world);
    // The member sends heartbeats, but does not revoke.
    assert_eq!(one.ask(&mut world, &one.short()).error_code, 0);
    world.advance(2999);
    assert_eq!(one.ask(&mut world, &one.short()).error_code, 0);
    world.advance(1);
    assert_eq!(one.ask(&mut world, &one.short()).error_code, UNKNOWN_MEMBER_ID);
    settle(&mut world, &mut [&mut two]);
    assert_eq!(two.owned.len(), 2);
}

#[test]
fn a_lost_answer_is_forgiven_if_the_member_has_no_more_than_it_may() {
    let mut world = World::default();
    create(&mut world, "orders", 2);
    let mut one = Client::new("one", &["orders"]);
    one.join(&mut world);
    let mut two = Client::new("two", &["orders"]);
    two.join(&mut world);
    // The answer to its acknowledgement is lost: it repeats the heartbeat with the previous epoch.
    let answer = one.ask(&mut world, &one.short());
    one.take(&answer);
    let answer = one.ask(&mut world, &one.full());
    assert_eq!(answer.member_epoch, 3);
    assert_eq!(one.epoch, 2);
    assert_eq!(one.ask(&mut world, &one.short()).error_code, FENCED_MEMBER_EPOCH);
    let greedy = Client { owned: &one.owned | &two.owned, ..one.clone() };
    assert_eq!(greedy.ask(&mut world, &greedy.full()).error_code, 0);
    let answer = one.ask(&mut world, &one.full());
    assert_eq!((answer.error_code, answer.member_epoch), (0, 3));
    // Older epochs, and epochs in the future, are fenced.
    for epoch in [1, 4] {
        let wrong = Client { epoch, ..one.clone() };
        assert_eq!(wrong.ask(&mut world, &wrong.full()).error_code, FENCED_MEMBER_EPOCH, "{epoch}");
    }
    // A member may always rejoin in epoch 0.
    one.join(&mut world);
    assert_eq!(one.epoch, 3);
}

#[test]
fn a_group_goes_on_under_another_coordinator_without_a_rebalance() {
    let mut world = World::with(2, &[("offsets.topic.num.partitions", "1")]);
    create(&mut world, "orders", 3);
    world.call(1, &ConsumerGroupDescribeRequest { group_ids: vec![GROUP], ..Default::default() }, 0);
    let (mut one, mut two) = (Client::new("one", &["orders"]), Client::new("two", &["orders"]));
    one.join(&mut world);
    two.join(&mut world);
    let answer = one.ask(&mut world, &one.short());
    one.take(&answer);
    // The coordinator fails while a partition is pending revocation.
    let before = describe(&mut world, 1);
    world.control(json!({"command": "move_leader", "topic": "__consumer_offsets", "partition": 0, "node": 2}));
    assert_eq!(describe(&mut world, 1).error_code, NOT_COORDINATOR);
    assert_eq!(one.ask(&mut world, &one.short()).error_code, NOT_COORDINATOR);
    assert_eq!(describe(&mut world, 2), before);
    (one.node, two.node) = (2, 2);
    two.beat(&mut world);
    assert!(two.owned.is_empty(), "given before it was given back");
    settle(&mut world, &mut [&mut one, &mut two]);
    assert_eq!((one.epoch, two.epoch), (3, 3));
    assert_eq!((one.owned.len() + two.owned.len(), one.owned.is_disjoint(&two.owned)), (3, true));
    // The new coordinator times sessions, too.
    world.advance(45_000);
    assert_eq!(describe(&mut world, 2).group_state, "Empty");
}

#[test]
fn a_group_that_is_not_there_is_told() {
    let mut world = World::default();
    make_coordinators(&mut world);
    let answer = describe(&mut world, 1);
    assert_eq!((answer.error_code, answer.error_message), (GROUP_ID_NOT_FOUND, Some("Group readers not found.")));
    let request = ConsumerGroupDescribeRequest { group_ids: vec![""], ..Default::default() };
    assert_eq!(world.call(1, &request, 0).groups[0].error_code, INVALID_GROUP_ID);
    for epoch in [5, -1, -2] {
        let client = Client { epoch, ..Client::named("one", "i", &["orders"]) };
        assert_eq!(client.ask(&mut world, &client.short()).error_code, GROUP_ID_NOT_FOUND, "{epoch}");
    }
    // A refused join creates no group.
    let client = Client::matching("one", "(");
    assert_eq!(client.ask(&mut world, &client.full()).error_code, 128);
    assert_eq!(describe(&mut world, 1).error_code, GROUP_ID_NOT_FOUND);
}
