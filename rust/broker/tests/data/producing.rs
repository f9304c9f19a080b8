//! Produce: which batches are accepted, and the error codes and messages of the others.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::produce::{PartitionProduceResponse, ProduceRequest};
use monedula_protocol::records::{BatchEncoder, Batches, NewRecord};

use crate::helpers::*;
use crate::support::{Outcome, START_MS, World};

fn error(answer: &PartitionProduceResponse<'_>) -> ErrorCode {
    ErrorCode::from_code(answer.error_code)
}

// req: S095
#[test]
fn batches_are_stored_and_their_offsets_answered_in_every_version() {
    let mut world = world();
    for (count, version) in (3..=12).enumerate() {
        // `batch` makes a batch without a producer: its id, epoch and sequence number are -1.
        let answer = world.call(1, &produce_request(TOPIC, 0, &batch(&["a", "b"])), version);
        let answer = &answer.responses[0].partition_responses[0];
        assert_eq!((error(answer), answer.base_offset), (ErrorCode::None, 2 * count as i64));
        assert_eq!(answer.log_append_time_ms, -1);
    }
    let stored = fetch(&mut world, 0);
    let bytes = stored.records.unwrap();
    for (count, stored) in Batches::new(bytes).map(Result::unwrap).enumerate() {
        let sent = batch(&["a", "b"]);
        stored.verify_crc().unwrap();
        assert_eq!((stored.header.base_offset, stored.header.partition_leader_epoch), (2 * count as i64, 0));
        // The stored bytes differ from those sent only in the base offset and the leader epoch.
        assert_eq!(stored.bytes()[8..12], sent[8..12]);
        assert_eq!(stored.bytes()[16..], sent[16..]);
    }
}

// req: S170
#[test]
fn one_ack_is_answered_once_the_leader_has_the_batch() {
    let mut world = world();
    let records = batch(&["a"]);
    let request = ProduceRequest { acks: 1, ..produce_request(TOPIC, 0, &records) };
    let answer = world.call(1, &request, PRODUCE);
    assert_eq!(answer.responses[0].partition_responses[0].base_offset, 0);
    assert_eq!(values(&fetch(&mut world, 0)), ["a"]);
}

#[test]
fn no_ack_has_no_answer_and_an_error_closes() {
    let mut world = world();
    let records = batch(&["a"]);
    let connection = world.connect(1);
    world.send_on(connection, &ProduceRequest { acks: 0, ..produce_request(TOPIC, 0, &records) }, PRODUCE);
    assert_eq!(world.outcome(connection), Some(Outcome::Nothing));
    assert_eq!(values(&fetch(&mut world, 0)), ["a"]);
    world.send_on(connection, &ProduceRequest { acks: 0, ..produce_request(TOPIC, 7, &records) }, PRODUCE);
    let Some(Outcome::Closed(reason)) = world.outcome(connection) else { panic!("not closed") };
    assert!(reason.contains("partition 7: UNKNOWN_TOPIC_OR_PARTITION"), "{reason}");
}

#[test]
fn other_acks_are_refused() {
    let mut world = world();
    let records = batch(&["a"]);
    for acks in [2, -2, i16::MAX] {
        let request = ProduceRequest { acks, ..produce_request(TOPIC, 0, &records) };
        let answer = world.call(1, &request, PRODUCE);
        assert_eq!(error(&answer.responses[0].partition_responses[0]), ErrorCode::InvalidRequiredAcks);
    }
    assert_eq!(list_offset(&mut world, -1, 0), (0, 0, -1));
}

#[test]
fn producing_creates_no_topic() {
    let mut world = world();
    let records = batch(&["a"]);
    for topic in ["nothing", TOPIC] {
        let answer = world.call(1, &produce_request(topic, 5, &records), PRODUCE);
        let answer = &answer.responses[0].partition_responses[0];
        assert_eq!(error(answer), ErrorCode::UnknownTopicOrPartition);
        assert_eq!((answer.base_offset, answer.log_start_offset), (-1, -1));
    }
}

#[test]
fn topics_go_by_id_in_version_13() {
    let mut world = World::default();
    let id = create(&mut world, TOPIC);
    let records = batch(&["a"]);
    let mut request = produce_request("", 0, &records);
    request.topic_data[0].topic_id = id;
    let answer = world.call(1, &request, 13);
    assert_eq!((answer.responses[0].topic_id, answer.responses[0].partition_responses[0].base_offset), (id, 0));
    request.topic_data[0].topic_id.0[3] ^= 1;
    let answer = world.call(1, &request, 13);
    assert_eq!(error(&answer.responses[0].partition_responses[0]), ErrorCode::UnknownTopicId);
}

/// A batch with changed bytes and the right CRC.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = batch(&["a", "b"]);
    change(&mut bytes);
    let crc = monedula_protocol::records::crc_of(&bytes);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes
}

#[test]
fn what_is_no_batch_is_refused_as_kafka_does() {
    use ErrorCode::{CorruptMessage, InvalidRecord, UnsupportedCompressionType};
    let mut broken = batch(&["a"]);
    *broken.last_mut().unwrap() ^= 1;
    let cases: Vec<(&str, Vec<u8>, ErrorCode)> = vec![
        ("nothing", vec![], InvalidRecord),
        ("two batches", [batch(&["a"]), batch(&["b"])].concat(), InvalidRecord),
        ("a part of a batch", batch(&["a"])[..50].to_vec(), InvalidRecord),
        ("magic 1", changed(|bytes| bytes[16] = 1), InvalidRecord),
        ("magic 3", changed(|bytes| bytes[16] = 3), CorruptMessage),
        ("another CRC", broken, CorruptMessage),
        ("a base offset", encode(&fill(BatchEncoder::new().base_offset(3), &["a"])), InvalidRecord),
        ("fewer records than counted", changed(|bytes| bytes[60] = 3), InvalidRecord),
        ("more records than counted", changed(|bytes| (bytes[60], bytes[26]) = (1, 0)), InvalidRecord),
        ("a gap", changed(|bytes| bytes[26] = 2), InvalidRecord),
        ("no records", changed(|bytes| bytes[60] = 0), InvalidRecord),
        ("a control batch", changed(|bytes| bytes[22] = 0x20), InvalidRecord),
        ("a producer without sequence", encode(&fill(BatchEncoder::new().producer(1, 0, -1), &["a"])), InvalidRecord),
        ("an unknown codec", changed(|bytes| bytes[22] = 7), UnsupportedCompressionType),
        ("another offset delta", changed(|bytes| bytes[61 + 3] = 4), InvalidRecord),
    ];
    let mut world = world();
    for (what, records, expected) in cases {
        let answer = produce(&mut world, &records);
        assert_eq!(error(&answer), expected, "{what}");
        assert_eq!(answer.base_offset, -1, "{what}");
    }
    assert_eq!(list_offset(&mut world, -1, 0).1, 0);
    // An incomplete second batch is ignored.
    let cut = [batch(&["a"]), batch(&["b"])[..40].to_vec()].concat();
    assert_eq!(error(&produce(&mut world, &cut)), ErrorCode::None);
    assert_eq!(values(&fetch(&mut world, 0)), ["a"]);
}

#[test]
fn compressed_batches_are_looked_into() {
    use monedula_protocol::compression::Compression;
    let mut world = world();
    for codec in Compression::ALL {
        let good = encode(&fill(BatchEncoder::new().compression(codec, None), &["a", "b"]));
        assert_eq!(error(&produce(&mut world, &good)), ErrorCode::None, "{codec}");
        // The batch has one record fewer than its header says.
        let mut encoder = fill(BatchEncoder::new().compression(codec, None), &["a"]);
        encoder = encoder.last_offset_delta(1);
        let mut short = encode(&encoder);
        short[60] = 2;
        let crc = monedula_protocol::records::crc_of(&short);
        short[17..21].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(error(&produce(&mut world, &short)), ErrorCode::InvalidRecord, "{codec}");
    }
    let zstd = encode(&fill(BatchEncoder::new().compression(Compression::Zstd, None), &["a"]));
    let answer = world.call(1, &produce_request(TOPIC, 0, &zstd), 6);
    assert_eq!(error(&answer.responses[0].partition_responses[0]), ErrorCode::UnsupportedCompressionType);
}

#[test]
fn large_batches_are_refused() {
    let mut world = world_with(1, &[("message.max.bytes", "200")]);
    let value = "x".repeat(200);
    assert_eq!(error(&produce(&mut world, &batch(&[&value]))), ErrorCode::MessageTooLarge);
    assert_eq!(error(&produce(&mut world, &batch(&["x"]))), ErrorCode::None);
    let mut world = world_with(1, &[("log.segment.bytes", "200")]);
    assert_eq!(error(&produce(&mut world, &batch(&[&value]))), ErrorCode::RecordListTooLarge);
}

#[test]
fn the_broker_may_set_the_time() {
    let mut world = world_with(1, &[("log.message.timestamp.type", "LogAppendTime")]);
    world.advance(5);
    let answer = produce(&mut world, &batch(&["a"]));
    assert_eq!((error(&answer), answer.log_append_time_ms), (ErrorCode::None, START_MS + 5));
    let stored = fetch(&mut world, 0);
    let stored = Batches::new(stored.records.unwrap()).next().unwrap().unwrap();
    stored.verify_crc().unwrap();
    let record = stored.records(stored.payload()).next().unwrap().unwrap();
    assert_eq!(record.timestamp_ms, START_MS + 5);
    // A producer should not send the timestamp type LogAppendTime. It is refused only if there is no timestamp (-1).
    let mut world = world_with(1, &[]);
    let answer = produce(&mut world, &with_append_time(&batch(&["a"]), START_MS));
    assert_eq!(error(&answer), ErrorCode::None, "a time that is there is not looked at further");
    let mut encoder = BatchEncoder::new();
    encoder.append(NewRecord { timestamp_ms: -1, value: Some(b"a"), ..NewRecord::default() });
    let batch = with_append_time(&encode(&encoder), -1);
    assert_eq!(error(&produce(&mut world, &batch)), ErrorCode::InvalidTimestamp);
}

#[test]
fn records_that_spoil_a_batch_are_named() {
    let mut world = world_with(1, &[("log.cleanup.policy", "compact")]);
    let mut encoder = BatchEncoder::new();
    for key in [Some(&b"k"[..]), None, Some(b"k"), None] {
        encoder.append(NewRecord { timestamp_ms: START_MS, key, value: Some(b"v"), headers: &[] });
    }
    let answer = produce(&mut world, &encode(&encoder));
    assert_eq!((error(&answer), answer.log_start_offset), (ErrorCode::InvalidRecord, 0));
    let indexes: Vec<i32> = answer.record_errors.iter().map(|record| record.batch_index).collect();
    assert_eq!(indexes, [1, 3]);
    let message = answer.record_errors[0].batch_index_error_message.unwrap();
    assert_eq!(message, "Compacted topic cannot accept message without key in topic partition orders-0");
    assert!(answer.error_message.unwrap().contains("2 record errors in total"), "{answer:?}");
}

#[test]
fn times_far_from_now_are_refused() {
    let mut world = world_with(1, &[("log.message.timestamp.before.max.ms", "1000")]);
    for (timestamp_ms, expected) in [
        (START_MS - 1000, ErrorCode::None),
        (START_MS - 1001, ErrorCode::InvalidTimestamp),
        (START_MS + 3_600_000, ErrorCode::None),
        (START_MS + 3_600_001, ErrorCode::InvalidTimestamp),
        (-1, ErrorCode::None),
    ] {
        let mut encoder = BatchEncoder::new();
        encoder.append(NewRecord { timestamp_ms, value: Some(b"v"), ..NewRecord::default() });
        assert_eq!(error(&produce(&mut world, &encode(&encoder))), expected, "{timestamp_ms}");
    }
}

#[test]
fn a_node_that_does_not_lead_tells_who_does() {
    let mut world = World::with(2, &[]);
    create(&mut world, TOPIC);
    let records = batch(&["a"]);
    for version in [9, 12] {
        let answer = world.call(2, &produce_request(TOPIC, 0, &records), version);
        let partition = &answer.responses[0].partition_responses[0];
        assert_eq!(error(partition), ErrorCode::NotLeaderOrFollower);
        let hint = (partition.current_leader.leader_id, partition.current_leader.leader_epoch);
        let endpoints: Vec<i32> = answer.node_endpoints.iter().map(|node| node.node_id).collect();
        match version {
            9 => assert_eq!((hint, endpoints), ((-1, -1), vec![])),
            _ => assert_eq!((hint, endpoints), ((1, 0), vec![1])),
        }
    }
}
