//! EndTxn: commits and aborts. The expected answers are those of a Kafka 4.3.1 to the same requests.

use monedula_protocol::error_code::ErrorCode;

use crate::producer::*;

#[test]
fn a_transaction_is_seen_when_it_is_committed() {
    for speaks in [Speaks::One, Speaks::Two] {
        let mut world = world();
        let producer = init(&mut world, "t").unwrap();
        for partition in [0, 1] {
            if speaks == Speaks::One {
                assert_eq!(add(&mut world, "t", producer, partition), ErrorCode::None);
            }
            assert_eq!(write(&mut world, "t", producer, partition, 0, "a"), ErrorCode::None);
        }
        assert_eq!(read(&mut world, 0, true), (vec![], 0));
        assert_eq!(read(&mut world, 0, false).0, ["a"]);
        let next = end(&mut world, "t", producer, true, speaks).unwrap();
        assert_eq!(next, if speaks == Speaks::Two { (0, 1) } else { (0, 0) });
        assert_eq!(state(&mut world, "t"), ("CompleteCommit".to_owned(), next));
        for partition in [0, 1] {
            assert_eq!(read(&mut world, partition, true), (vec!["a".to_owned()], 2));
        }
        // The next transaction is aborted.
        let sequence = if speaks == Speaks::Two { 0 } else { 1 };
        add(&mut world, "t", next, 0);
        assert_eq!(write(&mut world, "t", next, 0, sequence, "b"), ErrorCode::None);
        assert_eq!(read(&mut world, 0, true), (vec!["a".to_owned()], 2));
        end(&mut world, "t", next, false, speaks).unwrap();
        assert_eq!(state(&mut world, "t").0, "CompleteAbort");
        assert_eq!(read(&mut world, 0, true), (vec!["a".to_owned()], 4));
        assert_eq!(read(&mut world, 0, false).0, ["a", "b"]);
    }
}

#[test]
fn an_end_may_be_repeated_and_not_be_changed() {
    use ErrorCode::{InvalidTxnState, ProducerFenced};
    for commit in [true, false] {
        let mut world = world();
        let producer = init(&mut world, "t").unwrap();
        add(&mut world, "t", producer, 0);
        assert_eq!(end(&mut world, "t", producer, commit, Speaks::One), Ok(producer));
        assert_eq!(end(&mut world, "t", producer, commit, Speaks::One), Ok(producer));
        assert_eq!(end(&mut world, "t", producer, !commit, Speaks::One), Err(InvalidTxnState));
        add(&mut world, "t", producer, 0);
        assert_eq!(end(&mut world, "t", producer, commit, Speaks::Two), Ok((0, 1)));
        assert_eq!(end(&mut world, "t", producer, commit, Speaks::Two), Ok((0, 1)));
        assert_eq!(end(&mut world, "t", producer, !commit, Speaks::Two), Err(InvalidTxnState));
        assert_eq!(end(&mut world, "t", producer, commit, Speaks::One), Err(ProducerFenced));
        assert_eq!(end(&mut world, "t", (0, -1), commit, Speaks::Two), Err(ProducerFenced));
    }
}

#[test]
fn there_is_nothing_to_end() {
    use ErrorCode::InvalidTxnState;
    let mut world = world();
    let mut producer = init(&mut world, "t").unwrap();
    for commit in [true, false] {
        assert_eq!(end(&mut world, "t", producer, commit, Speaks::One), Err(InvalidTxnState));
    }
    assert_eq!(end(&mut world, "t", producer, true, Speaks::Two), Err(InvalidTxnState));
    // A producer of transaction version 2 does not know whether its partitions reached the coordinator, so it may
    // always abort.
    for epoch in 1..=3 {
        producer = end(&mut world, "t", producer, false, Speaks::Two).unwrap();
        assert_eq!(producer, (0, epoch));
        assert_eq!(state(&mut world, "t"), ("CompleteAbort".to_owned(), producer));
        assert_eq!(describe(&mut world, "t").transaction_start_time_ms, world.world.now_ms);
        assert_eq!(end(&mut world, "t", producer, true, Speaks::Two), Err(InvalidTxnState));
    }
    add(&mut world, "t", producer, 0);
    producer = end(&mut world, "t", producer, true, Speaks::Two).unwrap();
    assert_eq!(end(&mut world, "t", producer, true, Speaks::Two), Err(InvalidTxnState));
    assert_eq!(end(&mut world, "t", producer, false, Speaks::Two), Ok((0, 5)));
}

#[test]
fn transactions_of_others_do_not_hold_up_what_is_done() {
    let mut world = world();
    let (first, second) = (init(&mut world, "t").unwrap(), init(&mut world, "u").unwrap());
    write(&mut world, "t", first, 0, 0, "a");
    write(&mut world, "u", second, 0, 0, "b");
    end(&mut world, "u", second, true, Speaks::Two).unwrap();
    // The last stable offset does not pass an open transaction.
    assert_eq!(read(&mut world, 0, true), (vec![], 0));
    end(&mut world, "t", first, false, Speaks::Two).unwrap();
    assert_eq!(read(&mut world, 0, true), (vec!["b".to_owned()], 4));
}

#[test]
fn a_topic_that_is_deleted_keeps_no_transaction_open() {
    let mut world = world();
    let producer = init(&mut world, "t").unwrap();
    write(&mut world, "t", producer, 0, 0, "a");
    let request = monedula_protocol::messages::delete_topics::DeleteTopicsRequest {
        topic_names: vec![TOPIC],
        timeout_ms: 1000,
        ..Default::default()
    };
    assert_eq!(world.ask(1, &request, 5).responses[0].error_code, 0);
    assert_eq!(end(&mut world, "t", producer, true, Speaks::Two), Ok((0, 1)));
    assert_eq!(state(&mut world, "t").0, "CompleteCommit");
}
