//! Committed offsets: the checks of a commit, OffsetFetch, expiry and deletion.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use monedula_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use monedula_protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use monedula_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use monedula_protocol::types::Uuid;

use crate::member::{Member, coordinator, fetch, finish, join_all, make_topic, settle, state};
use crate::support::World;

const DAY_MS: i64 = 24 * 3600 * 1000;

/// A commit without membership, as administrators send it.
fn commit_alone(world: &mut World, group: &'static str, topic: &'static str, offset: i64) -> ErrorCode {
    let partition = OffsetCommitRequestPartition { committed_offset: offset, ..Default::default() };
    let topic = OffsetCommitRequestTopic { name: topic, partitions: vec![partition], ..Default::default() };
    let request = OffsetCommitRequest { group_id: group, topics: vec![topic], ..Default::default() };
    let node = coordinator(world, group);
    ErrorCode::from_code(world.call(node, &request, 9).topics[0].partitions[0].error_code)
}

fn topic_id(world: &mut World, name: &'static str) -> Uuid {
    let topic = MetadataRequestTopic { name: Some(name), ..Default::default() };
    world.call(1, &MetadataRequest { topics: Some(vec![topic]), ..Default::default() }, 12).topics[0].topic_id
}

fn delete_offset(world: &mut World, group: &'static str, topic: &'static str) -> Result<ErrorCode, ErrorCode> {
    let partitions = vec![OffsetDeleteRequestPartition::default()];
    let topic = OffsetDeleteRequestTopic { name: topic, partitions, ..Default::default() };
    let node = coordinator(world, group);
    let answer =
        world.call(node, &OffsetDeleteRequest { group_id: group, topics: vec![topic], ..Default::default() }, 0);
    match ErrorCode::from_code(answer.error_code) {
        ErrorCode::None => Ok(ErrorCode::from_code(answer.topics[0].partitions[0].error_code)),
        error => Err(error),
    }
}

// req: S061
#[test]
fn a_commit_of_another_generation_stores_nothing() {
    let mut world = World::default();
    make_topic(&mut world, "orders");
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    settle(&mut world, &mut [&mut member]);
    assert_eq!(member.commit(&mut world, 0, 5), ErrorCode::None);
    for generation in [1, 3, i32::MAX] {
        let wrong = Member { generation, ..member.clone() };
        assert_eq!(wrong.commit(&mut world, 0, 9), ErrorCode::IllegalGeneration);
    }
    let stranger = Member { id: "stranger".to_owned(), ..member.clone() };
    assert_eq!(stranger.commit(&mut world, 0, 9), ErrorCode::UnknownMemberId);
    assert_eq!(commit_alone(&mut world, "g", "orders", 9), ErrorCode::UnknownMemberId);
    assert_eq!(fetch(&mut world, "g", 0).committed_offset, 5);
}

// req: S116
#[test]
fn commits_are_taken_while_a_rebalance_is_prepared_and_not_while_the_leader_assigns() {
    let mut world = World::default();
    make_topic(&mut world, "orders");
    let (mut a, mut b) = (Member::new(&mut world, "g"), Member::new(&mut world, "g"));
    settle(&mut world, &mut [&mut a]);
    let joining = b.join(&mut world);
    assert_eq!(state(&mut world, "g"), "PreparingRebalance");
    assert_eq!(a.commit(&mut world, 0, 5), ErrorCode::None);
    let again = a.join(&mut world);
    a.joined(&mut world, &again);
    b.joined(&mut world, &joining);
    assert_eq!(a.commit(&mut world, 0, 6), ErrorCode::RebalanceInProgress);
    assert_eq!(fetch(&mut world, "g", 0).committed_offset, 5);
}

// req: S149
#[test]
fn what_is_committed_with_an_offset_comes_back_in_every_version() {
    let mut world = World::default();
    make_topic(&mut world, "orders");
    let id = topic_id(&mut world, "orders");
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    for version in 2..=10 {
        let epoch = if version >= 6 { i32::from(version) } else { -1 };
        let note: &'static str = Box::leak(format!("v{version} \u{1f426}").into_boxed_str());
        let partition = OffsetCommitRequestPartition {
            committed_offset: i64::from(version) * 10,
            committed_leader_epoch: epoch,
            committed_metadata: Some(note),
            ..Default::default()
        };
        let topic = OffsetCommitRequestTopic {
            name: if version < 10 { "orders" } else { "" },
            topic_id: if version < 10 { Uuid::default() } else { id },
            partitions: vec![partition],
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: "g",
            generation_id_or_member_epoch: member.generation,
            member_id: crate::member::leak(&member.id),
            topics: vec![topic],
            ..Default::default()
        };
        let answer = world.call(member.node, &request, version);
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        assert_eq!(answer.topics[0].topic_id, if version < 10 { Uuid::default() } else { id });
        let found = fetch(&mut world, "g", 0);
        let wanted = (i64::from(version) * 10, epoch, Some(note));
        assert_eq!((found.committed_offset, found.committed_leader_epoch, found.metadata), wanted);
    }
    for version in 1..=7 {
        let topic = OffsetFetchRequestTopic { name: "orders", partition_indexes: vec![0, 1], ..Default::default() };
        let request = OffsetFetchRequest { group_id: "g", topics: Some(vec![topic]), ..Default::default() };
        let answer = world.call(member.node, &request, version);
        let [found, missing] = &answer.topics[0].partitions[..] else { panic!("{answer:?}") };
        assert_eq!((found.committed_offset, found.metadata), (100, Some("v10 \u{1f426}")));
        assert_eq!((missing.committed_offset, missing.metadata, missing.error_code), (-1, Some(""), 0));
    }
    for version in 8..=10 {
        // Without topics the answer has all offsets, otherwise those of the topics, known or not.
        let all = OffsetFetchRequestGroup { group_id: "g", topics: None, ..Default::default() };
        let unknown = OffsetFetchRequestTopics {
            name: if version < 10 { "nothing" } else { "" },
            topic_id: if version < 10 { Uuid::default() } else { Uuid([7; 16]) },
            partition_indexes: vec![0],
            ..Default::default()
        };
        let some = OffsetFetchRequestGroup { group_id: "g", topics: Some(vec![unknown]), ..Default::default() };
        let nobody = OffsetFetchRequestGroup { group_id: "nobody", topics: None, ..Default::default() };
        let request = OffsetFetchRequest { groups: vec![all, some, nobody], ..Default::default() };
        let answer = world.call(member.node, &request, version);
        let topic = &answer.groups[0].topics[0];
        assert_eq!((topic.name, topic.topic_id), if version < 10 { ("orders", Uuid::default()) } else { ("", id) });
        assert_eq!(topic.partitions[0].committed_offset, 100);
        let error = if version < 10 { ErrorCode::None } else { ErrorCode::UnknownTopicId };
        let refused = &answer.groups[1].topics[0].partitions[0];
        assert_eq!((ErrorCode::from_code(refused.error_code), refused.committed_offset), (error, -1));
        assert_eq!((answer.groups[2].error_code, answer.groups[2].topics.len()), (0, 0));
    }
}

#[test]
fn what_cannot_be_committed_is_told_for_each_partition() {
    let mut world = World::with(1, &[("offset.metadata.max.bytes", "3")]);
    make_topic(&mut world, "orders");
    let partition = |index: i32, note: Option<&'static str>| OffsetCommitRequestPartition {
        partition_index: index,
        committed_offset: 1,
        committed_metadata: note,
        ..Default::default()
    };
    let topics = vec![
        OffsetCommitRequestTopic {
            name: "orders",
            partitions: vec![partition(0, Some("long")), partition(7, None)],
            ..Default::default()
        },
        OffsetCommitRequestTopic { name: "nothing", partitions: vec![partition(0, None)], ..Default::default() },
    ];
    let request = OffsetCommitRequest { group_id: "g", topics, ..Default::default() };
    let node = coordinator(&mut world, "g");
    let answer = world.call(node, &request, 9);
    let told: Vec<_> = answer
        .topics
        .iter()
        .flat_map(|topic| {
            let name = topic.name;
            topic
                .partitions
                .iter()
                .map(move |found| (name, found.partition_index, ErrorCode::from_code(found.error_code)))
        })
        .collect();
    let wanted = [
        ("orders", 7, ErrorCode::UnknownTopicOrPartition),
        ("orders", 0, ErrorCode::OffsetMetadataTooLarge),
        ("nothing", 0, ErrorCode::UnknownTopicOrPartition),
    ];
    assert_eq!(told, wanted);
    // Three characters: the limit counts these, not their nine bytes.
    let mut member = Member::new(&mut world, "h");
    settle(&mut world, &mut [&mut member]);
    assert_eq!(member.commit_with(&mut world, 0, 1, Some("\u{20ac}\u{20ac}\u{20ac}")), ErrorCode::None);
}

#[test]
fn an_unknown_group_is_told_as_each_version_knows_it() {
    let mut world = World::default();
    make_topic(&mut world, "orders");
    let node = coordinator(&mut world, "nobody");
    for (version, wanted) in [(8, ErrorCode::IllegalGeneration), (9, ErrorCode::GroupIdNotFound)] {
        let partition = OffsetCommitRequestPartition { committed_offset: 1, ..Default::default() };
        let topic = OffsetCommitRequestTopic { name: "orders", partitions: vec![partition], ..Default::default() };
        let request = OffsetCommitRequest {
            group_id: "nobody",
            generation_id_or_member_epoch: 1,
            member_id: "m",
            topics: vec![topic],
            ..Default::default()
        };
        let answer = world.call(node, &request, version);
        assert_eq!(ErrorCode::from_code(answer.topics[0].partitions[0].error_code), wanted);
    }
}

#[test]
fn an_empty_groups_offsets_can_be_set_from_outside() {
    let mut world = World::default();
    make_topic(&mut world, "orders");
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    assert_eq!(member.commit(&mut world, 0, 50), ErrorCode::None);
    assert_eq!(commit_alone(&mut world, "g", "orders", 1), ErrorCode::UnknownMemberId);
    assert_eq!(member.heartbeat(&mut world), ErrorCode::None);
    assert_eq!(member.leave(&mut world), ErrorCode::None);
    assert_eq!(commit_alone(&mut world, "g", "orders", 1), ErrorCode::None);
    assert_eq!(fetch(&mut world, "g", 0).committed_offset, 1);
}

#[test]
fn single_offsets_are_deleted_where_nobody_reads() {
    let mut world = World::default();
    make_topic(&mut world, "orders");
    make_topic(&mut world, "old");
    assert_eq!(delete_offset(&mut world, "g", "orders"), Err(ErrorCode::GroupIdNotFound));
    for topic in ["orders", "old"] {
        assert_eq!(commit_alone(&mut world, "g", topic, 5), ErrorCode::None);
    }
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    assert_eq!(delete_offset(&mut world, "g", "orders"), Ok(ErrorCode::GroupSubscribedToTopic));
    assert_eq!(delete_offset(&mut world, "g", "old"), Ok(ErrorCode::None));
    assert_eq!(delete_offset(&mut world, "g", "nothing"), Ok(ErrorCode::UnknownTopicOrPartition));
    assert_eq!(fetch(&mut world, "g", 0).committed_offset, 5);
    assert_eq!(member.leave(&mut world), ErrorCode::None);
    assert_eq!(delete_offset(&mut world, "g", "orders"), Ok(ErrorCode::None));
    assert_eq!(fetch(&mut world, "g", 0).committed_offset, -1);
    let mut worker = Member { protocol_type: "connect", ..Member::new(&mut world, "workers") };
    settle(&mut world, &mut [&mut worker]);
    assert_eq!(delete_offset(&mut world, "workers", "orders"), Err(ErrorCode::NonEmptyGroup));
}

#[test]
fn offsets_expire_when_the_group_has_been_empty_for_the_retention() {
    let mut world = World::default();
    make_topic(&mut world, "orders");
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    assert_eq!(member.commit(&mut world, 0, 5), ErrorCode::None);
    // The group is in use for eight days, then empty for almost a week.
    member.keep_alive(&mut world, 8 * DAY_MS / 1000);
    assert_eq!(member.leave(&mut world), ErrorCode::None);
    world.advance(7 * DAY_MS - 1);
    assert_eq!(fetch(&mut world, "g", 0).committed_offset, 5);
    world.advance(600_001);
    assert_eq!(fetch(&mut world, "g", 0).committed_offset, -1);
    assert_eq!(state(&mut world, "g"), "Dead");
}

#[test]
fn offsets_of_topics_that_are_read_do_not_expire_and_others_do() {
    let mut world =
        World::with(1, &[("offsets.retention.minutes", "60"), ("group.max.session.timeout.ms", "100000000")]);
    make_topic(&mut world, "orders");
    make_topic(&mut world, "old");
    for topic in ["orders", "old"] {
        assert_eq!(commit_alone(&mut world, "g", topic, 5), ErrorCode::None);
    }
    let mut member = Member { session_ms: 100_000_000, ..Member::new(&mut world, "g") };
    settle(&mut world, &mut [&mut member]);
    world.advance(70 * 60_000);
    assert_eq!(fetch(&mut world, "g", 0).committed_offset, 5);
    let all = OffsetFetchRequestGroup { group_id: "g", topics: None, ..Default::default() };
    let answer = world.call(1, &OffsetFetchRequest { groups: vec![all], ..Default::default() }, 8);
    let topics: Vec<_> = answer.groups[0].topics.iter().map(|topic| topic.name).collect();
    assert_eq!(topics, ["orders"]);
}

#[test]
fn a_retention_that_the_client_asked_for_counts_instead() {
    let mut world = World::default();
    make_topic(&mut world, "orders");
    let partition = OffsetCommitRequestPartition { committed_offset: 5, ..Default::default() };
    let topic = OffsetCommitRequestTopic { name: "orders", partitions: vec![partition], ..Default::default() };
    let request =
        OffsetCommitRequest { group_id: "g", retention_time_ms: 1000, topics: vec![topic], ..Default::default() };
    let node = coordinator(&mut world, "g");
    assert_eq!(world.call(node, &request, 4).topics[0].partitions[0].error_code, 0);
    world.advance(600_000);
    assert_eq!(fetch(&mut world, "g", 0).committed_offset, -1);
}

#[test]
fn a_topics_offsets_go_with_it() {
    let mut world = World::default();
    make_topic(&mut world, "orders");
    assert_eq!(commit_alone(&mut world, "g", "orders", 5), ErrorCode::None);
    let topic = DeleteTopicState { name: Some("orders"), ..Default::default() };
    world.call(1, &DeleteTopicsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() }, 6);
    make_topic(&mut world, "orders");
    assert_eq!(fetch(&mut world, "g", 0).committed_offset, -1);
}

// req: S157
#[test]
fn a_group_is_there_from_its_first_join_and_until_it_has_neither_members_nor_offsets() {
    let mut world = World::default();
    make_topic(&mut world, "orders");
    let (mut a, mut b) = (Member::new(&mut world, "with"), Member::new(&mut world, "without"));
    assert_eq!(state(&mut world, "with"), "Dead");
    settle(&mut world, &mut [&mut a]);
    settle(&mut world, &mut [&mut b]);
    assert_eq!(a.commit(&mut world, 0, 5), ErrorCode::None);
    assert_eq!((a.leave(&mut world), b.leave(&mut world)), (ErrorCode::None, ErrorCode::None));
    world.advance(600_000);
    assert_eq!((state(&mut world, "with"), state(&mut world, "without")), ("Empty", "Dead"));
    assert_eq!(delete_offset(&mut world, "with", "orders"), Ok(ErrorCode::None));
    world.advance(600_000);
    assert_eq!(state(&mut world, "with"), "Dead");
}

#[test]
fn more_partitions_bring_a_rebalance_when_the_leader_joins_again() {
    let mut world = World::default();
    let (mut a, mut b) = (Member::new(&mut world, "g"), Member::new(&mut world, "g"));
    let joins = join_all(&mut world, &mut [&mut a, &mut b]);
    finish(&mut world, &mut [&mut a, &mut b], &joins);
    // A follower that rejoins with the same subscription gets the present generation; a leader begins a rebalance.
    let follower = b.join(&mut world);
    assert_eq!(b.joined(&mut world, &follower).generation_id, 2);
    let leader = a.join(&mut world);
    assert!(world.waits(&leader));
    assert_eq!(b.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    // So does a follower whose subscription changed.
    let rejoined = b.join(&mut world);
    finish(&mut world, &mut [&mut a, &mut b], &[leader, rejoined]);
    b.protocols = vec![("range", crate::member::subscription(&["orders", "new"]))];
    let changed = b.join(&mut world);
    assert!(world.waits(&changed));
    assert_eq!(a.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
}
