//! Offsets that are committed in transactions (TxnOffsetCommit).

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use monedula_protocol::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};

use crate::producer::*;

fn commit(world: &mut Cluster, id: &str, producer: Producer, offset: i64, version: i16) -> ErrorCode {
    commit_to(world, id, producer, (TOPIC, 0), offset, version)
}

fn commit_to(
    world: &mut Cluster,
    id: &str,
    producer: Producer,
    (topic, partition): (&str, i32),
    offset: i64,
    version: i16,
) -> ErrorCode {
    let node = world.coordinator(0, "g").unwrap();
    let partition = TxnOffsetCommitRequestPartition {
        partition_index: partition,
        committed_offset: offset,
        committed_metadata: Some(""),
        ..Default::default()
    };
    // From version 6 on, the request has the topic's id instead of its name.
    let topic_id = if topic == TOPIC { world.leader(0).1 } else { Default::default() };
    let topic =
        TxnOffsetCommitRequestTopic { name: topic, topic_id, partitions: vec![partition], ..Default::default() };
    let request = TxnOffsetCommitRequest {
        transactional_id: id,
        group_id: "g",
        producer_id: producer.0,
        producer_epoch: producer.1,
        topics: vec![topic],
        ..Default::default()
    };
    ErrorCode::from_code(world.ask(node, &request, version).topics[0].partitions[0].error_code)
}

/// The committed offset, or the error of the OffsetFetch.
fn committed(world: &mut Cluster, require_stable: bool) -> Result<i64, ErrorCode> {
    let node = world.coordinator(0, "g").unwrap();
    let topic = OffsetFetchRequestTopics { name: TOPIC, partition_indexes: vec![0], ..Default::default() };
    let group = OffsetFetchRequestGroup { group_id: "g", topics: Some(vec![topic]), ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![group], require_stable, ..Default::default() };
    let answer = world.ask(node, &request, 8);
    let partition = &answer.groups[0].topics[0].partitions[0];
    ErrorCode::check(partition.error_code).map(|()| partition.committed_offset)
}

#[test]
fn offsets_count_when_the_transaction_commits() {
    for speaks in [Speaks::One, Speaks::Two] {
        let mut world = world();
        let mut producer = init(&mut world, "t").unwrap();
        for (commits, offset, expected) in [(true, 5, 5), (false, 9, 5), (true, 7, 7)] {
            if speaks == Speaks::One {
                assert_eq!(add_offsets(&mut world, "t", producer, "g", 4), ErrorCode::None);
            }
            let version = if speaks == Speaks::One { 3 } else { 6 };
            let before = committed(&mut world, false);
            assert_eq!(commit(&mut world, "t", producer, offset, version), ErrorCode::None);
            assert_eq!(committed(&mut world, false), before);
            assert_eq!(committed(&mut world, true), Err(ErrorCode::UnstableOffsetCommit));
            producer = end(&mut world, "t", producer, commits, speaks).unwrap();
            assert_eq!(committed(&mut world, true), Ok(expected));
        }
    }
}

#[test]
fn old_producers_must_have_added_the_group() {
    let mut world = world();
    let producer = init(&mut world, "t").unwrap();
    assert_eq!(commit(&mut world, "t", producer, 5, 3), ErrorCode::InvalidTxnState);
    assert_eq!(commit(&mut world, "t", producer, 5, 4), ErrorCode::TransactionAbortable);
    assert_eq!(commit(&mut world, "t", producer, 5, 5), ErrorCode::None);
    assert_eq!(commit(&mut world, "t", producer, 6, 3), ErrorCode::None);
}

#[test]
fn who_was_shut_out_commits_nothing() {
    let mut world = world();
    let old = init(&mut world, "t").unwrap();
    let new = init(&mut world, "t").unwrap();
    for version in [0, 3, 5, 6] {
        assert_eq!(commit(&mut world, "t", old, 5, version), ErrorCode::InvalidProducerEpoch);
        assert_eq!(commit(&mut world, "t", (77, 0), 5, version), ErrorCode::InvalidProducerIdMapping);
        assert_eq!(commit(&mut world, "u", new, 5, version), ErrorCode::InvalidProducerIdMapping);
    }
    assert_eq!(commit_to(&mut world, "t", new, ("nothing", 0), 5, 5), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(commit_to(&mut world, "t", new, ("nothing", 0), 5, 6), ErrorCode::UnknownTopicId);
    assert_eq!(commit_to(&mut world, "t", new, (TOPIC, 99), 5, 6), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(committed(&mut world, true), Ok(-1));
}

#[test]
fn offsets_of_an_open_transaction_survive_their_coordinators() {
    for commits in [true, false] {
        let mut world = Cluster::new(3, &[]);
        let producer = init(&mut world, "t").unwrap();
        assert_eq!(commit(&mut world, "t", producer, 5, 5), ErrorCode::None);
        for kind in [0, 1] {
            let node = world.coordinator(kind, if kind == 0 { "g" } else { "t" }).unwrap();
            world.stop(node);
            world.start(node);
        }
        assert_eq!(committed(&mut world, true), Err(ErrorCode::UnstableOffsetCommit));
        end(&mut world, "t", producer, commits, Speaks::Two).unwrap();
        assert_eq!(committed(&mut world, true), Ok(if commits { 5 } else { -1 }));
    }
}
