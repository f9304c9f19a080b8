//! Produce in transactions: the check that a partition is part of the transaction (KIP-890).

use monedula_protocol::error_code::ErrorCode;
use serde_json::json;

use crate::producer::*;

#[test]
fn old_producers_must_have_added_the_partition() {
    let mut world = world();
    let producer = init(&mut world, "t").unwrap();
    let records = batch(producer, 0, true, "a");
    for (version, error) in
        [(3, ErrorCode::InvalidTxnState), (10, ErrorCode::InvalidTxnState), (11, ErrorCode::TransactionAbortable)]
    {
        assert_eq!(write_in(&mut world, "t", 0, &records, version).0, error, "version {version}");
    }
    let words = write_in(&mut world, "t", 0, &records, 10).1;
    assert_eq!(words.as_deref(), Some("Partition was not added to the transaction"));
    assert_eq!(add(&mut world, "t", producer, 0), ErrorCode::None);
    assert_eq!(write_in(&mut world, "t", 0, &records, 3).0, ErrorCode::None);
    // Another partition is not part of the transaction.
    assert_eq!(write_in(&mut world, "t", 1, &records, 11).0, ErrorCode::TransactionAbortable);
}

#[test]
fn new_producers_add_the_partition_by_writing() {
    for version in [12, 13] {
        let mut world = world();
        let producer = init(&mut world, "t").unwrap();
        assert_eq!(write_in(&mut world, "t", 2, &batch(producer, 0, true, "a"), version).0, ErrorCode::None);
        let found = describe(&mut world, "t");
        assert_eq!((found.transaction_state, &found.topics[0].partitions), ("Ongoing", &vec![2]));
    }
}

#[test]
fn who_was_shut_out_writes_nothing() {
    use ErrorCode::{InvalidProducerEpoch, InvalidProducerIdMapping};
    let mut world = world();
    let old = init(&mut world, "t").unwrap();
    let new = init(&mut world, "t").unwrap();
    for version in [10, 12] {
        assert_eq!(write_in(&mut world, "t", 0, &batch(old, 0, true, "a"), version).0, InvalidProducerEpoch);
        assert_eq!(write_in(&mut world, "t", 0, &batch((9, 0), 0, true, "a"), version).0, InvalidProducerIdMapping);
        assert_eq!(write_in(&mut world, "u", 0, &batch(new, 0, true, "a"), version).0, InvalidProducerIdMapping);
    }
    assert_eq!(write(&mut world, "t", new, 0, 0, "b"), ErrorCode::None);
    // A producer with an open transaction must not write non-transactional batches.
    assert_eq!(write_in(&mut world, "t", 0, &batch(new, 1, false, "c"), 12).0, ErrorCode::InvalidTxnState);
    assert_eq!(read(&mut world, 0, false).0, ["b"]);
}

#[test]
fn writes_wait_until_the_transaction_before_is_ended() {
    let mut world = Cluster::new(3, &[]);
    world.control(json!({"command": "move_coordinator", "transactional_id": "t", "node": 1}));
    let producer = init(&mut world, "t").unwrap();
    world.control(json!({"command": "move_leader", "topic": TOPIC, "partition": 0, "node": 2}));
    world.control(json!({"command": "set_isr", "topic": TOPIC, "partition": 0, "isr": [2]}));
    assert_eq!(write(&mut world, "t", producer, 0, 0, "a"), ErrorCode::None);
    // The only in-sync replica stops, so the marker has to wait.
    world.stop(2);
    let next = end(&mut world, "t", producer, true, Speaks::Two).unwrap();
    assert_eq!(state(&mut world, "t").0, "PrepareCommit");
    let records = batch(next, 0, true, "b");
    let (error, words) = write_in(&mut world, "t", 1, &records, 11);
    assert_eq!(error, ErrorCode::NotEnoughReplicas);
    assert!(words.unwrap().ends_with("Underlying error: CONCURRENT_TRANSACTIONS"));
    assert_eq!(write_in(&mut world, "t", 1, &records, 12).0, ErrorCode::ConcurrentTransactions);
    assert_eq!(add(&mut world, "t", next, 1), ErrorCode::ConcurrentTransactions);
    assert_eq!(init(&mut world, "t"), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(end(&mut world, "t", producer, true, Speaks::Two), Err(ErrorCode::ConcurrentTransactions));
    world.start(2);
    world.advance(1000);
    assert_eq!(state(&mut world, "t").0, "CompleteCommit");
    assert_eq!(read(&mut world, 0, true), (vec!["a".to_owned()], 2));
    assert_eq!(write_in(&mut world, "t", 1, &records, 12).0, ErrorCode::None);
}

#[test]
fn verification_can_be_turned_off() {
    let mut world = Cluster::new(1, &[("transaction.partition.verification.enable", "false")]);
    let producer = init(&mut world, "t").unwrap();
    assert_eq!(write_in(&mut world, "t", 0, &batch(producer, 0, true, "a"), 10).0, ErrorCode::None);
}
