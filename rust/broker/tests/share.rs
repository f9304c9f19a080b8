//! Share groups (KIP-932), as members see them, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use monedula_broker::core::ConnectionId;
use monedula_broker::settings::Settings;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_share_group_offsets::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup,
};
use monedula_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use monedula_protocol::messages::share_acknowledge::{self, ShareAcknowledgeRequest};
use monedula_protocol::messages::share_fetch::{
    AcknowledgementBatch, FetchPartition, FetchTopic, PartitionData, ShareFetchRequest, ShareFetchResponse,
};
use monedula_protocol::messages::share_group_heartbeat::ShareGroupHeartbeatRequest;
use monedula_protocol::types::Uuid;
use serde_json::{Value, json};
use support::{Pending, World, make_coordinators, topic};

const GROUP: &str = "jobs";
const GROUP_CONFIG: i8 = 32;
const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;

/// Offset and delivery count of each record that was acquired.
type Acquired = Vec<(i64, i16)>;

/// A member with a session on a node.
struct Member {
    id: &'static str,
    topic: Uuid,
    node: i32,
    connection: ConnectionId,
    session: i32,
}

impl Member {
    fn new(world: &mut World, id: &'static str, node: i32) -> Self {
        let topic = topic(world, 1, "jobs-topic").topic_id;
        Self { id, topic, node, connection: world.connect(node), session: 0 }
    }

    /// Joins the group, on the node that coordinates it.
    fn join(&self, world: &mut World) -> i32 {
        let coordinator = world.control(json!({"command": "group", "group": GROUP}))["coordinator"].as_i64();
        let request = ShareGroupHeartbeatRequest {
            group_id: GROUP,
            member_id: self.id,
            subscribed_topic_names: Some(vec!["jobs-topic"]),
            ..Default::default()
        };
        let answer = world.call(coordinator.unwrap() as i32, &request, 1);
        assert_eq!((answer.error_code, answer.error_message), (0, None));
        assert_eq!(answer.assignment.unwrap().topic_partitions.len(), 1);
        answer.member_epoch
    }

    /// Sends a fetch, which is answered at once or later.
    fn ask(&mut self, world: &mut World, wait_ms: i32) -> Pending<ShareFetchRequest<'static>> {
        let partitions = vec![FetchPartition { partition_index: 0, ..Default::default() }];
        let topics = vec![FetchTopic { topic_id: self.topic, partitions, ..Default::default() }];
        let request = ShareFetchRequest {
            group_id: Some(GROUP),
            member_id: Some(self.id),
            share_session_epoch: self.session,
            max_wait_ms: wait_ms,
            min_bytes: 1,
            max_records: 100,
            batch_size: 100,
            topics,
            ..Default::default()
        };
        self.session += 1;
        world.send_on(self.connection, &request, 2)
    }

    /// Fetches without a wait.
    fn fetch(&mut self, world: &mut World) -> Acquired {
        let pending = self.ask(world, 0);
        acquired(&world.take(&pending).unwrap())
    }

    /// Acknowledges offsets of partition 0 with one type. Returns the error.
    fn acknowledge(&mut self, world: &mut World, (first_offset, last_offset): (i64, i64), kind: i8) -> ErrorCode {
        let batch = share_acknowledge::AcknowledgementBatch {
            first_offset,
            last_offset,
            acknowledge_types: vec![kind],
            ..Default::default()
        };
        let partition =
            share_acknowledge::AcknowledgePartition { acknowledgement_batches: vec![batch], ..Default::default() };
        let topic = share_acknowledge::AcknowledgeTopic {
            topic_id: self.topic,
            partitions: vec![partition],
            ..Default::default()
        };
        let request = ShareAcknowledgeRequest {
            group_id: Some(GROUP),
            member_id: Some(self.id),
            share_session_epoch: self.session,
            topics: vec![topic],
            ..Default::default()
        };
        let answer = world.call_on(self.connection, &request, 2);
        assert_eq!(answer.error_code, 0);
        self.session += 1;
        ErrorCode::from_code(answer.responses[0].partitions[0].error_code)
    }

    /// Fetches with acknowledgements of the first offsets, one for each.
    fn fetch_acknowledging(&self, world: &mut World, epoch: i32, types: Vec<i8>) -> ShareFetchResponse<'static> {
        let last_offset = types.len() as i64 - 1;
        let batch = AcknowledgementBatch { last_offset, acknowledge_types: types, ..Default::default() };
        let partition = FetchPartition { acknowledgement_batches: vec![batch], ..Default::default() };
        let topic = FetchTopic { topic_id: self.topic, partitions: vec![partition], ..Default::default() };
        let request = ShareFetchRequest {
            group_id: Some(GROUP),
            member_id: Some(self.id),
            share_session_epoch: epoch,
            max_records: 10,
            batch_size: 10,
            topics: vec![topic],
            ..Default::default()
        };
        world.call_on(self.connection, &request, 2)
    }

    /// Begins again with a session on another node.
    fn move_to(&mut self, world: &mut World, node: i32) {
        (self.node, self.session) = (node, 0);
        self.connection = world.connect(node);
    }
}

fn only<'a>(answer: &'a ShareFetchResponse<'static>) -> &'a PartitionData<'static> {
    &answer.responses[0].partitions[0]
}

fn acquired(answer: &ShareFetchResponse<'_>) -> Acquired {
    assert_eq!(answer.error_code, 0, "{answer:?}");
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    let ranges = partitions.flat_map(|partition| &partition.acquired_records);
    ranges.flat_map(|one| (one.first_offset..=one.last_offset).map(|offset| (offset, one.delivery_count))).collect()
}

/// A cluster with a topic of one partition with some records, and a group that begins with the first of them.
fn world(settings: Settings, records: usize) -> World {
    let mut world = World::new(settings);
    make_coordinators(&mut world);
    world.control(json!({"command": "create_topic", "topic": "jobs-topic", "partitions": 1}));
    configure(&mut world, "share.auto.offset.reset", "earliest");
    if records > 0 {
        append(&mut world, records);
    }
    world
}

fn configure(world: &mut World, name: &str, value: &str) {
    let config = AlterableConfig { name, config_operation: 0, value: Some(value), ..Default::default() };
    let resource = AlterConfigsResource {
        resource_type: GROUP_CONFIG,
        resource_name: GROUP,
        configs: vec![config],
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    assert_eq!(world.call(1, &request, 1).responses[0].error_code, 0);
}

fn append(world: &mut World, records: usize) {
    let records: Vec<Value> = (0..records).map(|number| json!({"value": number.to_string()})).collect();
    world.control(json!({"command": "append", "topic": "jobs-topic", "records": records}));
}

fn counted(offsets: std::ops::Range<i64>, delivery_count: i16) -> Acquired {
    offsets.map(|offset| (offset, delivery_count)).collect()
}

// A fetch of a megabyte was answered with a batch of each partition: 180 MB of 60 with 3 MB.
#[test]
fn only_the_first_partition_with_records_exceeds_the_bytes_of_a_fetch() {
    let mut world = world(Settings::default(), 2);
    world.control(json!({"command": "add_partitions", "topic": "jobs-topic", "partitions": 3}));
    for partition in [1, 2] {
        let append = json!({"command": "append", "topic": "jobs-topic", "partition": partition, "records": [{}, {}]});
        world.control(append);
    }
    let mut member = Member::new(&mut world, "a", 1);
    member.join(&mut world);
    for (max_bytes, records) in [(60, 2), (1 << 20, 4)] {
        let partitions = (0..3).map(|partition_index| FetchPartition { partition_index, ..Default::default() });
        let topic = FetchTopic { topic_id: member.topic, partitions: partitions.collect(), ..Default::default() };
        let request = ShareFetchRequest {
            group_id: Some(GROUP),
            member_id: Some(member.id),
            share_session_epoch: member.session,
            max_bytes,
            max_records: 100,
            batch_size: 100,
            topics: vec![topic],
            ..Default::default()
        };
        member.session += 1;
        assert_eq!(acquired(&world.call_on(member.connection, &request, 2)).len(), records, "{max_bytes} bytes");
    }
}

#[test]
fn a_fetch_waits_for_records() {
    let mut world = world(Settings::default(), 0);
    let mut member = Member::new(&mut world, "a", 1);
    member.join(&mut world);
    let pending = member.ask(&mut world, 500);
    assert!(world.waits(&pending));
    append(&mut world, 3);
    assert_eq!(acquired(&world.take(&pending).unwrap()), counted(0..3, 1));
    let pending = member.ask(&mut world, 500);
    world.advance(499);
    assert!(world.waits(&pending));
    world.advance(1);
    assert_eq!(acquired(&world.take(&pending).unwrap()), []);
}

#[test]
fn a_fetch_waits_for_records_that_others_have() {
    let mut world = world(Settings::default(), 3);
    let (mut a, mut b) = (Member::new(&mut world, "a", 1), Member::new(&mut world, "b", 1));
    a.join(&mut world);
    assert_eq!(a.fetch(&mut world), counted(0..3, 1));
    let pending = b.ask(&mut world, 60_000);
    assert_eq!(a.acknowledge(&mut world, (1, 1), RELEASE), ErrorCode::None);
    assert_eq!(acquired(&world.take(&pending).unwrap()), counted(1..2, 2));
    let pending = b.ask(&mut world, 60_000);
    world.advance(29_999);
    assert!(world.waits(&pending));
    world.advance(1);
    assert_eq!(acquired(&world.take(&pending).unwrap()), [(0, 2), (1, 3), (2, 2)]);
    assert_eq!(a.acknowledge(&mut world, (0, 0), ACCEPT), ErrorCode::InvalidRecordState);
}

#[test]
fn of_two_that_wait_one_gets_a_record_and_the_other_waits_on() {
    let mut world = world(Settings::default(), 0);
    let (mut a, mut b) = (Member::new(&mut world, "a", 1), Member::new(&mut world, "b", 1));
    a.join(&mut world);
    let (first, second) = (a.ask(&mut world, 500), b.ask(&mut world, 500));
    append(&mut world, 1);
    assert_eq!(acquired(&world.take(&first).unwrap()), counted(0..1, 1));
    assert!(world.waits(&second));
    append(&mut world, 1);
    assert_eq!(acquired(&world.take(&second).unwrap()), counted(1..2, 1));
}

#[test]
fn a_client_that_is_killed_has_its_records_released() {
    let mut world = world(Settings::default(), 2);
    let (mut a, mut b) = (Member::new(&mut world, "a", 1), Member::new(&mut world, "b", 1));
    a.join(&mut world);
    assert_eq!(a.fetch(&mut world), counted(0..2, 1));
    let pending = b.ask(&mut world, 500);
    world.disconnect(a.connection);
    assert_eq!(acquired(&world.take(&pending).unwrap()), counted(0..2, 2));
}

#[test]
fn a_new_leader_goes_on_from_what_was_acknowledged() {
    let mut world = world(Settings { nodes: 2, ..Settings::default() }, 4);
    let mut member = Member::new(&mut world, "a", 1);
    member.join(&mut world);
    assert_eq!(member.fetch(&mut world), counted(0..4, 1));
    assert_eq!(member.acknowledge(&mut world, (1, 2), ACCEPT), ErrorCode::None);
    assert_eq!(member.acknowledge(&mut world, (3, 3), RELEASE), ErrorCode::None);
    world.control(json!({"command": "move_leader", "topic": "jobs-topic", "partition": 0, "node": 2}));
    let pending = member.ask(&mut world, 0);
    let answer = world.take(&pending).unwrap();
    assert_eq!(only(&answer).error_code, ErrorCode::NotLeaderOrFollower.code());
    assert_eq!((only(&answer).current_leader.leader_id, answer.node_endpoints[0].node_id), (2, 2));
    member.move_to(&mut world, 2);
    assert_eq!(member.fetch(&mut world), [(0, 1), (3, 2)]);
    // The share coordinator moves too: nothing of the state is lost.
    for partition in 0..50 {
        world.control(
            json!({"command": "move_leader", "topic": "__share_group_state", "partition": partition, "node": 2}),
        );
    }
    assert_eq!(member.acknowledge(&mut world, (0, 0), ACCEPT), ErrorCode::None);
    world.control(json!({"command": "move_leader", "topic": "jobs-topic", "partition": 0, "node": 1}));
    member.move_to(&mut world, 1);
    assert_eq!(member.fetch(&mut world), [(3, 2)]);
}

#[test]
fn nothing_is_acknowledged_that_cannot_be_stored() {
    let mut world = world(Settings { nodes: 2, ..Settings::default() }, 2);
    let mut member = Member::new(&mut world, "a", 1);
    member.join(&mut world);
    assert_eq!(member.fetch(&mut world), counted(0..2, 1));
    // The partitions of __share_group_state have one replica each on another node, which stops.
    for partition in 0..50 {
        world.control(
            json!({"command": "move_leader", "topic": "__share_group_state", "partition": partition, "node": 2}),
        );
        world
            .control(json!({"command": "set_isr", "topic": "__share_group_state", "partition": partition, "isr": [2]}));
    }
    world.control(json!({"command": "stop_node", "node": 2}));
    assert_eq!(member.acknowledge(&mut world, (0, 1), ACCEPT), ErrorCode::CoordinatorNotAvailable);
    // Locks end all the same.
    world.advance(30_000);
    assert_eq!(member.fetch(&mut world), counted(0..2, 2));
    world.control(json!({"command": "start_node", "node": 2}));
    assert_eq!(member.acknowledge(&mut world, (0, 1), ACCEPT), ErrorCode::None);
}

#[test]
fn groups_and_what_they_acknowledged_survive_a_restart() {
    let directory = std::env::temp_dir().join(format!("monedula-share-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let settings = || Settings { data_dir: Some(directory.clone()), ..Settings::default() };
    let mut first = world(settings(), 3);
    let mut member = Member::new(&mut first, "a", 1);
    member.join(&mut first);
    assert_eq!(member.fetch(&mut first), counted(0..3, 1));
    assert_eq!(member.acknowledge(&mut first, (0, 0), ACCEPT), ErrorCode::None);
    drop(first);
    let mut second = World::new(settings());
    let group = second.control(json!({"command": "group", "group": GROUP}));
    assert_eq!((&group["type"], &group["state"]), (&json!("share"), &json!("Stable")));
    let mut member = Member::new(&mut second, "a", 1);
    assert_eq!(member.fetch(&mut second), counted(1..3, 1));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_member_that_is_silent_is_removed() {
    let mut world = world(Settings::default(), 0);
    let member = Member::new(&mut world, "a", 1);
    let epoch = member.join(&mut world);
    let state = |world: &mut World| world.control(json!({"command": "group", "group": GROUP}))["state"].clone();
    world.advance(44_999);
    assert_eq!(state(&mut world), "Stable");
    world.advance(1);
    assert_eq!(state(&mut world), "Empty");
    let request =
        ShareGroupHeartbeatRequest { group_id: GROUP, member_id: "a", member_epoch: epoch, ..Default::default() };
    assert_eq!(world.call(1, &request, 1).error_code, ErrorCode::UnknownMemberId.code());
}

#[test]
fn a_lock_lasts_as_long_as_the_broker_or_the_group_says() {
    let mut settings = Settings::default();
    for which in ["", "min."] {
        settings.set(&format!("group.share.{which}record.lock.duration.ms"), "1000").unwrap();
    }
    let mut world = world(settings, 3);
    let mut member = Member::new(&mut world, "a", 1);
    member.join(&mut world);
    assert_eq!(member.fetch(&mut world), counted(0..3, 1));
    world.advance(999);
    assert_eq!(member.fetch(&mut world), []);
    world.advance(1);
    configure(&mut world, "share.record.lock.duration.ms", "2000");
    assert_eq!(member.fetch(&mut world), counted(0..3, 2));
    world.advance(1999);
    assert_eq!(member.fetch(&mut world), []);
    world.advance(1);
    assert_eq!(member.fetch(&mut world), counted(0..3, 3));
}

#[test]
fn a_node_keeps_so_many_sessions() {
    let mut world = World::with(1, &[("group.share.max.share.sessions", "1")]);
    make_coordinators(&mut world);
    world.control(json!({"command": "create_topic", "topic": "jobs-topic", "partitions": 1}));
    let (mut a, mut b) = (Member::new(&mut world, "a", 1), Member::new(&mut world, "b", 1));
    a.join(&mut world);
    assert_eq!(a.fetch(&mut world), []);
    let pending = b.ask(&mut world, 0);
    assert_eq!(world.take(&pending).unwrap().error_code, ErrorCode::ShareSessionLimitReached.code());
    world.disconnect(a.connection);
    b.session = 0;
    assert_eq!(b.fetch(&mut world), []);
}

#[test]
fn a_command_ends_all_locks_of_a_group() {
    let mut world = world(Settings::default(), 3);
    let mut member = Member::new(&mut world, "a", 1);
    member.join(&mut world);
    assert_eq!(member.fetch(&mut world), counted(0..3, 1));
    assert_eq!(world.control(json!({"command": "expire_locks", "group": "others"})), json!({"released": 0}));
    assert_eq!(world.control(json!({"command": "expire_locks", "group": GROUP})), json!({"released": 3}));
    assert_eq!(member.acknowledge(&mut world, (0, 2), ACCEPT), ErrorCode::InvalidRecordState);
    assert_eq!(member.fetch(&mut world), counted(0..3, 2));
}

#[test]
fn a_fault_refuses_fetches_and_acknowledgements_of_a_topic() {
    let mut world = world(Settings::default(), 1);
    let mut member = Member::new(&mut world, "a", 1);
    member.join(&mut world);
    for api in ["ShareFetch", "ShareAcknowledge"] {
        let what = json!({"effect": "error", "error": "NOT_LEADER_OR_FOLLOWER"});
        let fault = json!({"when": {"apis": [api], "topic": "jobs-topic"}, "what": what});
        world.control(json!({"command": "fault", "fault": fault}));
    }
    let pending = member.ask(&mut world, 500);
    assert_eq!(only(&world.take(&pending).unwrap()).error_code, ErrorCode::NotLeaderOrFollower.code());
    assert_eq!(member.acknowledge(&mut world, (0, 0), ACCEPT), ErrorCode::NotLeaderOrFollower);
    world.control(json!({"command": "remove_faults"}));
    assert_eq!(member.fetch(&mut world), counted(0..1, 1));
}

#[test]
fn acknowledgements_ride_on_a_fetch() {
    let mut world = world(Settings::default(), 2);
    let mut member = Member::new(&mut world, "a", 1);
    member.join(&mut world);
    assert_eq!(member.fetch(&mut world), counted(0..2, 1));
    let answer = member.fetch_acknowledging(&mut world, 1, vec![ACCEPT, RELEASE]);
    assert_eq!((only(&answer).acknowledge_error_code, acquired(&answer)), (0, vec![(1, 2)]));
    assert_eq!(answer.acquisition_lock_timeout_ms, 30_000);
}

// librdkafka#5393: the session was dropped before acknowledgements with epoch 0 were refused. kafka#16955: the last epoch
// released nothing.
#[test]
fn the_last_epoch_releases_records_and_the_first_does_not() {
    let mut world = world(Settings::default(), 3);
    let (mut a, mut b) = (Member::new(&mut world, "a", 1), Member::new(&mut world, "b", 1));
    a.join(&mut world);
    assert_eq!(a.fetch(&mut world), counted(0..3, 1));
    let answer = a.fetch_acknowledging(&mut world, 0, vec![ACCEPT]);
    assert_eq!(answer.error_code, ErrorCode::InvalidRequest.code());
    assert_eq!(a.acknowledge(&mut world, (0, 0), ACCEPT), ErrorCode::None);
    a.session = 0;
    assert_eq!(a.fetch(&mut world), []);
    assert_eq!(b.fetch(&mut world), []);
    let answer = a.fetch_acknowledging(&mut world, -1, vec![ACCEPT, ACCEPT]);
    assert_eq!((only(&answer).acknowledge_error_code, acquired(&answer)), (0, vec![]));
    assert_eq!(b.fetch(&mut world), counted(2..3, 2));
}

#[test]
fn a_deleted_topic_is_gone_from_the_group() {
    let mut world = world(Settings::default(), 1);
    let mut member = Member::new(&mut world, "a", 1);
    member.join(&mut world);
    assert_eq!(member.fetch(&mut world), counted(0..1, 1));
    let described = |world: &mut World| {
        let group = DescribeShareGroupOffsetsRequestGroup { group_id: GROUP, topics: None, ..Default::default() };
        let request = DescribeShareGroupOffsetsRequest { groups: vec![group], ..Default::default() };
        world.call(1, &request, 1).groups[0].topics.len()
    };
    assert_eq!(described(&mut world), 1);
    world.control(json!({"command": "delete_topic", "topic": "jobs-topic"}));
    assert_eq!(described(&mut world), 0);
    let pending = member.ask(&mut world, 500);
    assert_eq!(only(&world.take(&pending).unwrap()).error_code, ErrorCode::UnknownTopicId.code());
}
