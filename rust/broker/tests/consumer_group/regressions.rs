//! Regression tests: bugs that Kafka's coordinator had with this protocol, each by its issue, and bugs of clients.

use std::collections::BTreeMap;

use monedula_broker::settings::Settings;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use monedula_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use monedula_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use monedula_protocol::types::Uuid;
use serde_json::json;

use crate::client::{Client, GROUP, Owned, create, describe, member, settle, topic_id};
use crate::support::World;

const STALE_MEMBER_EPOCH: i16 = 113;
const UNKNOWN_TOPIC_ID: i16 = 100;

/// The member that each partition was assigned to in each epoch.
#[derive(Default)]
struct Owners(BTreeMap<(i32, Uuid, i32), String>);

impl Owners {
    fn note(&mut self, client: &Client) {
        for (topic, partition) in &client.owned {
            let owner = self.0.entry((client.epoch, *topic, *partition)).or_insert_with(|| client.id.clone());
            assert_eq!(*owner, client.id, "{partition} has two owners in epoch {}", client.epoch);
        }
    }
}

/// Commits an offset of one partition. Returns the error code.
fn commit(world: &mut World, client: &Client, topic_id: Uuid, partition: i32, epoch: i32) -> i16 {
    let partition =
        OffsetCommitRequestPartition { partition_index: partition, committed_offset: 7, ..Default::default() };
    let topic = OffsetCommitRequestTopic { topic_id, partitions: vec![partition], ..Default::default() };
    let request = OffsetCommitRequest {
        group_id: GROUP,
        member_id: &client.id,
        generation_id_or_member_epoch: epoch,
        topics: vec![topic],
        ..Default::default()
    };
    world.call(1, &request, 10).topics[0].partitions[0].error_code
}

/// The committed offset of one partition, by the name of its topic.
fn committed(world: &mut World, topic: &str, partition: i32) -> i64 {
    committed_of(world, OffsetFetchRequestTopics { name: topic, ..Default::default() }, partition, 9)
}

/// The committed offset of one partition, by the id of its topic.
fn committed_by_id(world: &mut World, topic_id: Uuid, partition: i32) -> i64 {
    committed_of(world, OffsetFetchRequestTopics { topic_id, ..Default::default() }, partition, 10)
}

fn committed_of(world: &mut World, topic: OffsetFetchRequestTopics<'_>, partition: i32, version: i16) -> i64 {
    let topic = OffsetFetchRequestTopics { partition_indexes: vec![partition], ..topic };
    let group = OffsetFetchRequestGroup { group_id: GROUP, topics: Some(vec![topic]), ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    world.call(1, &request, version).groups[0].topics[0].partitions[0].committed_offset
}

// The bug: a member that had acknowledged the revocations of one target advanced to that target's epoch, although a
// newer target revoked more. A partition that it kept then belonged to another member in the same epoch.
#[test]
fn kafka_19974_a_partition_has_one_owner_in_each_epoch() {
    let mut world = World::default();
    let topic = create(&mut world, "orders", 6);
    let mut owners = Owners::default();
    let mut one = Client::new("one", &["orders"]);
    one.join(&mut world);
    owners.note(&one);
    let mut two = Client::new("two", &["orders"]);
    two.join(&mut world);
    let answer = one.ask(&mut world, &one.short());
    one.take(&answer);
    assert_eq!((one.epoch, one.owned.len()), (2, 3), "it is to give back three");
    let mut three = Client::new("three", &["orders"]);
    three.join(&mut world);
    // The member acknowledges. The third member's target revokes more partitions, so the first one stays in its epoch.
    one.beat(&mut world);
    assert_eq!((one.epoch, one.owned.len()), (2, 2));
    for _ in 0..8 {
        for client in [&mut two, &mut three, &mut one] {
            client.beat(&mut world);
            owners.note(client);
        }
    }
    settle(&mut world, &mut [&mut one, &mut two, &mut three]);
    let all = &(&one.owned | &two.owned) | &three.owned;
    assert_eq!(all, (0..6).map(|partition| (topic, partition)).collect::<Owned>());
    assert_eq!((one.owned.len(), two.owned.len(), three.owned.len()), (2, 2, 2));
}

// The bug: Kafka 4.0 and 4.1 refused epoch 0 from a member that was still in the group.
#[test]
fn kafka_19233_who_begins_again_is_let_in_whatever_it_was_doing() {
    let mut world = World::default();
    create(&mut world, "orders", 4);
    let (mut one, mut two) = (Client::new("one", &["orders"]), Client::new("two", &["orders"]));
    one.join(&mut world);
    one.join(&mut world);
    assert_eq!(one.owned.len(), 4, "while it has its target");
    two.join(&mut world);
    two.join(&mut world);
    assert_eq!(two.owned.len(), 0, "while it waits for what another has");
    assert_eq!(one.ask(&mut world, &one.short()).error_code, 0);
    one.join(&mut world);
    assert_eq!((one.epoch, one.owned.len()), (3, 2), "while it gives back, all of which it has then");
    settle(&mut world, &mut [&mut one, &mut two]);
    assert_eq!((one.owned.len(), two.owned.len()), (2, 2));
}

// In Kafka 4.3 the target assignment of an emptied group has an older epoch than the group. A new member must not get
// that target.
#[test]
fn kafka_20442_who_joins_an_emptied_group_gets_a_target_of_its_own() {
    let mut world = World::default();
    let topic = create(&mut world, "orders", 2);
    let (mut one, mut two) = (Client::new("one", &["orders"]), Client::new("two", &["orders"]));
    one.join(&mut world);
    two.join(&mut world);
    settle(&mut world, &mut [&mut one, &mut two]);
    one.leave(&mut world, -1);
    two.leave(&mut world, -1);
    let empty = describe(&mut world, 1);
    assert_eq!((empty.group_state, empty.members.len()), ("Empty", 0));
    let mut three = Client::new("three", &["orders"]);
    three.join(&mut world);
    assert_eq!(three.owned, Owned::from([(topic, 0), (topic, 1)]));
    let group = describe(&mut world, 1);
    assert_eq!(group.group_epoch, empty.group_epoch + 1);
    assert_eq!((group.assignment_epoch, member(&group, "three").member_epoch), (group.group_epoch, group.group_epoch));
}

// The bug: a commit that was in flight when the member's epoch was bumped was refused, although the member owned the
// partition all the time.
#[test]
fn kip_1251_who_had_a_partition_all_the_time_commits_in_each_epoch_since() {
    let mut world = World::default();
    let topic = create(&mut world, "orders", 2);
    let (mut one, mut two) = (Client::new("one", &["orders"]), Client::new("two", &["orders"]));
    one.join(&mut world);
    two.join(&mut world);
    settle(&mut world, &mut [&mut one, &mut two]);
    let kept = one.owned.first().expect("it has one").1;
    let given = two.owned.first().expect("it has the other").1;
    assert_eq!((one.epoch, two.epoch), (3, 3));
    assert_eq!(commit(&mut world, &one, topic, kept, 3), 0);
    assert_eq!(commit(&mut world, &one, topic, kept, 2), 0, "it had it in epoch 2 already");
    assert_eq!(commit(&mut world, &one, topic, kept, 1), STALE_MEMBER_EPOCH);
    assert_eq!(commit(&mut world, &one, topic, kept, 4), STALE_MEMBER_EPOCH);
    assert_eq!(commit(&mut world, &one, topic, given, 2), STALE_MEMBER_EPOCH, "that one is another's by now");
    assert_eq!(commit(&mut world, &two, topic, given, 2), STALE_MEMBER_EPOCH, "it got it in epoch 3");
    assert_eq!(commit(&mut world, &two, topic, given, 3), 0);
}

// The bug: offsets of a deleted topic were returned for a recreated topic of the same name.
#[test]
fn franz_go_1426_a_topic_made_anew_has_no_offsets() {
    let mut world = World::default();
    let old = create(&mut world, "orders", 1);
    let mut one = Client::new("one", &["orders"]);
    one.join(&mut world);
    assert_eq!(commit(&mut world, &one, old, 0, one.epoch), 0);
    assert_eq!(committed(&mut world, "orders", 0), 7);
    world.control(json!({"command": "delete_topic", "topic": "orders"}));
    let new = create(&mut world, "orders", 1);
    assert_eq!((new != old, topic_id(&mut world, "orders")), (true, new));
    assert_eq!(committed(&mut world, "orders", 0), -1);
    assert_eq!(commit(&mut world, &one, old, 0, one.epoch), UNKNOWN_TOPIC_ID);
    assert_eq!(committed(&mut world, "orders", 0), -1);
    // The member's assignment changes to the recreated topic.
    settle(&mut world, &mut [&mut one]);
    assert_eq!(one.owned, Owned::from([(new, 0)]));
}

// A coordinator that was loading while a topic was deleted and recreated still has the offsets of the old topic, under
// the same name.
#[test]
fn kafka_19246_offsets_of_a_topic_of_the_same_name_are_not_given_out_by_id() {
    let mut settings = Settings { nodes: 2, coordinator_load_ms: 500, ..Settings::default() };
    settings.kafka.set("offsets.topic.num.partitions", "1").unwrap();
    let mut world = World::new(settings);
    let old = create(&mut world, "orders", 1);
    let mut alone = Client::new("", &[]);
    alone.epoch = -1;
    // The first commit creates `__consumer_offsets`, whichever node coordinates. Then node 1, which the tests ask,
    // takes over.
    commit(&mut world, &alone, old, 0, -1);
    world.control(json!({"command": "move_coordinator", "group": GROUP, "node": 1}));
    world.advance(500);
    assert_eq!(commit(&mut world, &alone, old, 0, -1), 0);
    assert_eq!((committed_by_id(&mut world, old, 0), committed(&mut world, "orders", 0)), (7, 7));
    for node in [2, 1] {
        world.control(json!({"command": "move_coordinator", "group": GROUP, "node": node}));
    }
    world.control(json!({"command": "delete_topic", "topic": "orders"}));
    let new = create(&mut world, "orders", 1);
    world.advance(500);
    assert_eq!(committed_by_id(&mut world, new, 0), -1);
    assert_eq!(committed(&mut world, "orders", 0), 7, "by its name nobody can tell");
    assert_eq!(commit(&mut world, &alone, new, 0, -1), 0);
    assert_eq!(committed_by_id(&mut world, new, 0), 7);
}

// The bug of librdkafka: after leaving while partitions were being assigned, it joins in epoch 0 without all fields.
// Kafka refuses that, too, and librdkafka takes it for a fatal error.
#[test]
fn who_begins_again_says_everything() {
    let mut world = World::default();
    create(&mut world, "orders", 2);
    let mut one = Client::new("one", &["orders"]);
    one.join(&mut world);
    one.leave(&mut world, -1);
    let (fresh, no_time, owned) = (Client::new("one", &["orders"]), -1, Some(vec![]));
    for (rebalance_timeout_ms, topic_partitions, words) in [
        (no_time, owned.clone(), "RebalanceTimeoutMs must be provided in first request."),
        (no_time, None, "RebalanceTimeoutMs must be provided in first request."),
        (60_000, None, "TopicPartitions must be empty when (re-)joining."),
    ] {
        let request =
            ConsumerGroupHeartbeatRequest { member_epoch: 0, rebalance_timeout_ms, topic_partitions, ..fresh.full() };
        let answer = one.ask(&mut world, &request);
        assert_eq!((answer.error_code, answer.error_message), (ErrorCode::InvalidRequest.code(), Some(words)));
    }
    one.join(&mut world);
    assert_eq!(one.owned.len(), 2);
}
