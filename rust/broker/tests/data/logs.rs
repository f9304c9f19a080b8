//! Logs: DeleteRecords, retention, compaction, truncation, and reopening.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};
use monedula_protocol::messages::fetch::FetchPartition;
use monedula_protocol::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use monedula_protocol::records::{BatchEncoder, NewRecord};
use serde_json::json;

use crate::helpers::*;
use crate::support::{START_MS, World};

fn delete_records(world: &mut World, before: i64) -> (ErrorCode, i64) {
    let partitions = vec![DeleteRecordsPartition { offset: before, ..Default::default() }];
    let topics = vec![DeleteRecordsTopic { name: TOPIC, partitions, ..Default::default() }];
    let answer = world.call(1, &DeleteRecordsRequest { topics, ..Default::default() }, 2);
    let partition = &answer.topics[0].partitions[0];
    (ErrorCode::from_code(partition.error_code), partition.low_watermark)
}

fn epoch_end(world: &mut World, epoch: i32) -> (i32, i64) {
    let partitions = vec![OffsetForLeaderPartition { leader_epoch: epoch, ..Default::default() }];
    let topics = vec![OffsetForLeaderTopic { topic: TOPIC, partitions, ..Default::default() }];
    let answer = world.call(1, &OffsetForLeaderEpochRequest { topics, ..Default::default() }, 4);
    let partition = &answer.topics[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    (partition.leader_epoch, partition.end_offset)
}

/// Produces one record.
fn put(world: &mut World, key: &str, value: Option<&str>) {
    let mut encoder = BatchEncoder::new();
    let value = value.map(str::as_bytes);
    encoder.append(NewRecord { timestamp_ms: world.now_ms, key: Some(key.as_bytes()), value, headers: &[] });
    assert_eq!(produce(world, &encode(&encoder)).error_code, 0);
}

#[test]
fn records_are_deleted_up_to_an_offset() {
    let mut world = world();
    produce_values(&mut world, &["a", "b", "c"]);
    assert_eq!(delete_records(&mut world, 4), (ErrorCode::OffsetOutOfRange, -1));
    assert_eq!(delete_records(&mut world, -2), (ErrorCode::OffsetOutOfRange, -1));
    assert_eq!(delete_records(&mut world, 2), (ErrorCode::None, 2));
    assert_eq!(list_offset(&mut world, -2, 0).1, 2);
    assert_eq!(fetch(&mut world, 1).error_code, ErrorCode::OffsetOutOfRange.code());
    let rest = fetch(&mut world, 2);
    assert_eq!((records(&rest).last().unwrap().1.as_str(), rest.log_start_offset), ("c", 2));
    // An offset before the log start offset has no effect, and is not an error.
    assert_eq!(delete_records(&mut world, 1), (ErrorCode::None, 2));
    assert_eq!(delete_records(&mut world, -1), (ErrorCode::None, 3));
    let mut world = world_with(1, &[("log.cleanup.policy", "compact")]);
    assert_eq!(delete_records(&mut world, 0), (ErrorCode::PolicyViolation, -1));
}

#[test]
fn old_segments_go_by_time() {
    let size = batch(&["x"]).len().to_string();
    let mut world = world_with(1, &[("log.retention.ms", "1000"), ("log.segment.bytes", &size)]);
    for _ in 0..3 {
        put(&mut world, "k", Some("x"));
        world.advance(400);
    }
    world.control(json!({"command": "run_retention"}));
    assert_eq!(list_offset(&mut world, -2, 0).1, 1);
    assert_eq!(list_offset(&mut world, -1, 0).1, 3);
    // The periodic check deletes records, too, here all of them.
    world.advance(300_000);
    assert_eq!((list_offset(&mut world, -2, 0).1, list_offset(&mut world, -1, 0).1), (3, 3));
    put(&mut world, "k", Some("y"));
    assert_eq!(records(&fetch(&mut world, 3)), [(3, "y".to_owned())]);
}

#[test]
fn old_segments_go_by_size() {
    let size = batch(&["x"]).len();
    let kept = (3 * size).to_string();
    let mut world = world_with(1, &[("log.retention.bytes", &kept), ("log.segment.bytes", &size.to_string())]);
    (0..5).for_each(|_| put(&mut world, "k", Some("x")));
    world.control(json!({"command": "run_retention"}));
    assert_eq!(list_offset(&mut world, -2, 0).1, 2);
}

#[test]
fn a_waiting_fetch_hears_that_its_offset_is_gone() {
    let mut world = world();
    produce_values(&mut world, &["a"]);
    let mut request = fetch_request(TOPIC, vec![fetch_partition(0, 1)]);
    (request.max_wait_ms, request.min_bytes) = (500, 1 << 20);
    let pending = world.send(1, &request, FETCH);
    produce_values(&mut world, &["b"]);
    assert!(world.waits(&pending));
    world.control(json!({"command": "truncate", "topic": TOPIC, "partition": 0, "offset": 0}));
    assert_eq!(only(world.take(&pending).unwrap()).error_code, ErrorCode::OffsetOutOfRange.code());
}

#[test]
fn compaction_keeps_the_latest_of_each_key_at_its_offset() {
    let mut world = world_with(1, &[("log.cleanup.policy", "compact"), ("log.cleaner.delete.retention.ms", "1000")]);
    let entries =
        [("a", Some("1")), ("b", Some("2")), ("a", Some("3")), ("c", Some("4")), ("c", None), ("b", Some("5"))];
    let mut encoder = BatchEncoder::new();
    for (key, value) in entries {
        let value = value.map(str::as_bytes);
        encoder.append(NewRecord { timestamp_ms: START_MS, key: Some(key.as_bytes()), value, headers: &[] });
    }
    assert_eq!(produce(&mut world, &encode(&encoder)).error_code, 0);
    put(&mut world, "d", Some("6"));
    world.control(json!({"command": "compact", "topic": TOPIC}));
    let left = |world: &mut World| -> Vec<(i64, String)> { records(&fetch(world, 0)) };
    let expected =
        |all: &[(i64, &str)]| all.iter().map(|&(offset, value)| (offset, value.to_owned())).collect::<Vec<_>>();
    // The tombstone stays for `delete.retention.ms`.
    assert_eq!(left(&mut world), expected(&[(2, "3"), (4, ""), (5, "5"), (6, "6")]));
    world.advance(999);
    world.control(json!({"command": "compact", "topic": TOPIC, "partition": 0}));
    assert_eq!(left(&mut world).len(), 4);
    world.advance(1);
    world.control(json!({"command": "compact", "topic": TOPIC}));
    assert_eq!(left(&mut world), expected(&[(2, "3"), (5, "5"), (6, "6")]));
    assert_eq!((list_offset(&mut world, -2, 0).1, list_offset(&mut world, -1, 0).1), (0, 7));
    // The records keep their timestamps.
    assert_eq!(list_offset(&mut world, START_MS, 0), (0, 2, START_MS));
    // The log can be appended to and compacted again.
    put(&mut world, "a", Some("7"));
    world.control(json!({"command": "compact", "topic": TOPIC}));
    assert_eq!(left(&mut world), expected(&[(5, "5"), (6, "6"), (7, "7")]));
}

#[test]
fn compaction_leaves_a_producers_sequence_numbers() {
    let mut world = world_with(1, &[("log.cleanup.policy", "compact")]);
    for sequence in 0..3 {
        let records = encode(&fill(BatchEncoder::new().producer(5, 0, sequence), &["x"]));
        assert_eq!(produce(&mut world, &records).error_code, 0);
    }
    put(&mut world, "k", Some("y"));
    world.control(json!({"command": "compact", "topic": TOPIC}));
    assert_eq!(values(&fetch(&mut world, 0)), ["y"]);
    let again = encode(&fill(BatchEncoder::new().producer(5, 0, 2), &["x"]));
    assert_eq!(produce(&mut world, &again).base_offset, 2);
    let next = encode(&fill(BatchEncoder::new().producer(5, 0, 3), &["z"]));
    assert_eq!(produce(&mut world, &next).base_offset, 4);
}

#[test]
fn truncation_begins_an_epoch_and_clients_see_where_they_part() {
    let mut world = world();
    produce_values(&mut world, &["a", "b", "c"]);
    produce_values(&mut world, &["d"]);
    let answer = world.control(json!({"command": "truncate", "topic": TOPIC, "partition": 0, "offset": 2}));
    assert_eq!(answer, json!({"leader_epoch": 1}));
    assert_eq!(list_offset(&mut world, -1, 0).1, 2);
    assert_eq!(values(&fetch(&mut world, 0)), ["a", "b"]);
    assert_eq!(produce_values(&mut world, &["e"]), 2);
    assert_eq!(values(&fetch(&mut world, 0)), ["a", "b", "e"]);
    assert_eq!(
        (epoch_end(&mut world, 0), epoch_end(&mut world, 1), epoch_end(&mut world, 2)),
        ((0, 2), (1, 3), (-1, -1))
    );
    let diverging = |world: &mut World, fetch_offset, last_fetched_epoch| {
        let partition = FetchPartition { last_fetched_epoch, ..fetch_partition(0, fetch_offset) };
        let data = only(world.call(1, &fetch_request(TOPIC, vec![partition]), FETCH));
        (data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
    };
    assert_eq!(diverging(&mut world, 3, 0), (0, 2));
    assert_eq!(diverging(&mut world, 2, 0), (-1, -1));
    assert_eq!(diverging(&mut world, 3, 1), (-1, -1));
    let error = world.control_error(json!({"command": "truncate", "topic": TOPIC, "partition": 0, "offset": 9}));
    assert!(error.starts_with("orders-0: OFFSET_OUT_OF_RANGE"), "{error}");
}

#[test]
fn leader_epochs_are_checked() {
    let mut world = world();
    world.control(json!({"command": "truncate", "topic": TOPIC, "partition": 0, "offset": 0}));
    for (epoch, expected) in [(-1, 0), (0, 74), (1, 0), (2, 75)] {
        let partition = FetchPartition { current_leader_epoch: epoch, ..fetch_partition(0, 0) };
        let data = only(world.call(1, &fetch_request(TOPIC, vec![partition]), FETCH));
        assert_eq!(data.error_code, expected, "{epoch}");
    }
}
