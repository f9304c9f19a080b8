//! Idempotent producers: duplicate and out-of-order batches, old epochs; and transactional batches.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_producers::{DescribeProducersRequest, TopicRequest};
use monedula_protocol::messages::produce::PartitionProduceResponse;
use monedula_protocol::records::BatchEncoder;

use crate::helpers::*;
use crate::support::World;

fn send(world: &mut World, id: i64, epoch: i16, sequence: i32, values: &[&str]) -> (ErrorCode, i64) {
    let records = encode(&fill(BatchEncoder::new().producer(id, epoch, sequence), values));
    let PartitionProduceResponse { error_code, base_offset, .. } = produce(world, &records);
    (ErrorCode::from_code(error_code), base_offset)
}

#[test]
fn a_batch_that_comes_again_keeps_its_offset() {
    let mut world = world();
    for count in 0..7 {
        assert_eq!(send(&mut world, 5, 0, 2 * count, &["a", "b"]), (ErrorCode::None, 2 * i64::from(count)));
    }
    // The last five batches are known.
    for count in 2..7 {
        assert_eq!(send(&mut world, 5, 0, 2 * count, &["a", "b"]), (ErrorCode::None, 2 * i64::from(count)));
    }
    assert_eq!(send(&mut world, 5, 0, 2, &["a", "b"]), (ErrorCode::OutOfOrderSequenceNumber, -1));
    assert_eq!(list_offset(&mut world, -1, 0).1, 14);
}

#[test]
fn sequence_numbers_and_epochs_go_on() {
    let mut world = world();
    // The producer is unknown, so any sequence number is accepted.
    assert_eq!(send(&mut world, 5, 3, 7, &["a"]), (ErrorCode::None, 0));
    assert_eq!(send(&mut world, 5, 3, 9, &["a"]).0, ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(send(&mut world, 5, 3, 6, &["a"]).0, ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(send(&mut world, 5, 3, 8, &["a"]), (ErrorCode::None, 1));
    assert_eq!(send(&mut world, 5, 2, 9, &["a"]).0, ErrorCode::InvalidProducerEpoch);
    // A new epoch begins with sequence number 0.
    assert_eq!(send(&mut world, 5, 4, 1, &["a"]).0, ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(send(&mut world, 5, 4, 0, &["a"]), (ErrorCode::None, 2));
    // Another producer has its own sequence.
    assert_eq!(send(&mut world, 6, 0, 0, &["a"]), (ErrorCode::None, 3));
    // Sequence numbers wrap around to 0.
    assert_eq!(send(&mut world, 7, 0, i32::MAX - 1, &["a", "b"]), (ErrorCode::None, 4));
    assert_eq!(send(&mut world, 7, 0, 0, &["a"]), (ErrorCode::None, 6));
    assert_eq!(send(&mut world, 8, 0, i32::MAX, &["a", "b"]), (ErrorCode::None, 7));
    assert_eq!(send(&mut world, 8, 0, 1, &["a"]), (ErrorCode::None, 9));
}

#[test]
fn a_producer_that_is_silent_for_long_is_forgotten() {
    let mut world = world_with(1, &[("producer.id.expiration.ms", "1000000")]);
    send(&mut world, 5, 0, 0, &["a"]);
    world.advance(600_000);
    assert_eq!(send(&mut world, 5, 0, 5, &["a"]).0, ErrorCode::OutOfOrderSequenceNumber);
    world.advance(600_000);
    assert_eq!(send(&mut world, 5, 0, 5, &["a"]).0, ErrorCode::None);
}

#[test]
fn producers_are_described() {
    let mut world = world();
    send(&mut world, 5, 2, 0, &["a", "b"]);
    let topics = vec![TopicRequest { name: TOPIC, partition_indexes: vec![0, 1], ..Default::default() }];
    let answer = world.call(1, &DescribeProducersRequest { topics, ..Default::default() }, 0);
    let [known, unknown] = &answer.topics[0].partitions[..] else { panic!("{answer:?}") };
    let producer = &known.active_producers[0];
    assert_eq!((producer.producer_id, producer.producer_epoch, producer.last_sequence), (5, 2, 1));
    assert_eq!((producer.current_txn_start_offset, producer.coordinator_epoch), (-1, -1));
    assert_eq!(unknown.error_code, ErrorCode::UnknownTopicOrPartition.code());
}

#[test]
fn transactional_records_need_a_transactional_id() {
    let mut world = world();
    let records = encode(&fill(BatchEncoder::new().producer(5, 0, 0).transactional(), &["a"]));
    let answer = produce(&mut world, &records);
    assert_eq!(answer.error_code, ErrorCode::TransactionalIdAuthorizationFailed.code());
}
