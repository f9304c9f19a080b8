//! InitProducerId, AddPartitionsToTxn, the descriptions, timeouts and expiry: producer ids, epochs and fencing. The
//! expected answers are those of a Kafka 4.3.1 to the same requests.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::init_producer_id::InitProducerIdRequest;
use monedula_protocol::messages::list_transactions::ListTransactionsRequest;

use crate::producer::*;

#[test]
fn producers_without_a_transactional_id_get_ids_that_never_repeat() {
    let mut world = world();
    let ids: Vec<_> = (0..3).map(|_| init_as(&mut world, None, (-1, -1), -5, 5).unwrap()).collect();
    assert_eq!(ids, [(0, 0), (1, 0), (2, 0)]);
    // Without a transactional id, the producer id and epoch of the request are ignored.
    assert_eq!(init_as(&mut world, None, (77, 3), 0, 5), Ok((3, 0)));
    assert_eq!(init_as(&mut world, None, (-1, -1), 0, 0), Ok((4, 0)));
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let mut world = world();
    use ErrorCode::{InvalidRequest, InvalidTransactionTimeout};
    for timeout_ms in [0, -1, 900_001] {
        let outcome = init_as(&mut world, Some("t"), (-1, -1), timeout_ms, 5);
        assert_eq!(outcome, Err(InvalidTransactionTimeout));
    }
    for (id, expected) in [(Some("t"), (-1, 3)), (Some("t"), (5, -1)), (None, (5, -1)), (Some(""), (-1, -1))] {
        let request = InitProducerIdRequest {
            transactional_id: id,
            transaction_timeout_ms: TIMEOUT_MS,
            producer_id: expected.0,
            producer_epoch: expected.1,
            ..Default::default()
        };
        let answer = world.ask(1, &request, 5);
        assert_eq!(answer.error_code, InvalidRequest.code(), "{id:?} {expected:?}");
        assert_eq!((answer.producer_id, answer.producer_epoch), (-1, -1));
    }
}

#[test]
fn a_node_that_does_not_coordinate_says_so() {
    let mut world = Cluster::new(2, &[]);
    let other = 3 - world.coordinator(1, "t").unwrap();
    let request =
        InitProducerIdRequest { transactional_id: Some("t"), transaction_timeout_ms: TIMEOUT_MS, ..Default::default() };
    assert_eq!(world.ask(other, &request, 5).error_code, ErrorCode::NotCoordinator.code());
}

#[test]
fn each_producer_that_begins_shuts_out_the_one_before() {
    let mut world = world();
    let first = init(&mut world, "t").unwrap();
    let second = init(&mut world, "t").unwrap();
    assert_eq!((first, second), ((0, 0), (0, 1)));
    assert_eq!(add(&mut world, "t", first, 0), ErrorCode::ProducerFenced);
    assert_eq!(add_to(&mut world, "t", first, TOPIC, &[0], 1), [ErrorCode::InvalidProducerEpoch]);
    assert_eq!(end(&mut world, "t", first, true, Speaks::One), Err(ErrorCode::ProducerFenced));
    assert_eq!(end_in(&mut world, "t", first, true, 1), Err(ErrorCode::InvalidProducerEpoch));
    assert_eq!(add_offsets(&mut world, "t", first, "g", 4), ErrorCode::ProducerFenced);
    assert_eq!(add_offsets(&mut world, "t", first, "g", 1), ErrorCode::InvalidProducerEpoch);
    assert_eq!(init_again(&mut world, "t", first), Err(ErrorCode::ProducerFenced));
    assert_eq!(init_as(&mut world, Some("t"), first, TIMEOUT_MS, 3), Err(ErrorCode::InvalidProducerEpoch));
    assert_eq!(init_again(&mut world, "t", (77, 1)), Err(ErrorCode::ProducerFenced));
    let stranger = (77, 1);
    assert_eq!(add(&mut world, "t", stranger, 0), ErrorCode::InvalidProducerIdMapping);
    assert_eq!(end(&mut world, "t", stranger, true, Speaks::One), Err(ErrorCode::InvalidProducerIdMapping));
    assert_eq!(add(&mut world, "u", second, 0), ErrorCode::InvalidProducerIdMapping);
    assert_eq!(add(&mut world, "", second, 0), ErrorCode::InvalidRequest);
}

#[test]
fn a_producer_goes_on_with_its_id_after_an_error() {
    let mut world = world();
    let producer = init(&mut world, "t").unwrap();
    assert_eq!(init_again(&mut world, "t", producer), Ok((0, 1)));
    // A repetition gets the same answer, because the first one may have been lost.
    assert_eq!(init_again(&mut world, "t", producer), Ok((0, 1)));
    assert_eq!(init_again(&mut world, "t", (0, 1)), Ok((0, 2)));
    assert_eq!(init_again(&mut world, "t", producer), Err(ErrorCode::ProducerFenced));
    // A new transactional id accepts any producer id and epoch.
    assert_eq!(init_again(&mut world, "u", (77, 5)), Ok((1, 0)));
}

#[test]
fn a_producer_that_begins_aborts_what_was_going_on() {
    for goes_on in [false, true] {
        let mut world = world();
        let old = init(&mut world, "t").unwrap();
        assert_eq!(write(&mut world, "t", old, 0, 0, "lost"), ErrorCode::None);
        let expected = if goes_on { old } else { (-1, -1) };
        assert_eq!(init_again(&mut world, "t", expected), Err(ErrorCode::ConcurrentTransactions));
        assert_eq!(state(&mut world, "t"), ("CompleteAbort".to_owned(), (0, 1)));
        // A producer that recovers gets the epoch that the abort has raised already; a new producer gets the one after
        // it.
        let new = init_again(&mut world, "t", expected).unwrap();
        assert_eq!(new, if goes_on { (0, 1) } else { (0, 2) });
        assert_eq!(write(&mut world, "t", old, 0, 1, "late"), ErrorCode::InvalidProducerEpoch);
        assert_eq!(read(&mut world, 0, true), (vec![], 2));
        assert_eq!(read(&mut world, 0, false).0, ["lost"]);
    }
}

#[test]
fn the_last_epoch_is_followed_by_another_id() {
    let mut world = world();
    let producer = init(&mut world, "t").unwrap();
    let mut last = producer;
    for _ in 0..i32::from(i16::MAX) {
        let next = init(&mut world, "t").unwrap();
        if next.0 != producer.0 {
            assert_eq!((last, next), ((0, i16::MAX - 1), (1, 0)));
            // A repetition of the request that changed the id cannot be distinguished from a request of a fenced
            // producer.
            assert_eq!(init_again(&mut world, "t", last), Err(ErrorCode::ProducerFenced));
            return;
        }
        last = next;
    }
    panic!("the epochs never end");
}

#[test]
fn a_transaction_in_the_last_epoch_ends_with_another_id() {
    let mut world = world();
    let mut producer = init(&mut world, "t").unwrap();
    while producer.1 < i16::MAX - 1 {
        producer = init(&mut world, "t").unwrap();
    }
    assert_eq!(write(&mut world, "t", producer, 0, 0, "a"), ErrorCode::None);
    let next = end(&mut world, "t", producer, true, Speaks::Two).unwrap();
    assert_eq!(next, (1, 0));
    // A repetition, because the answer may have been lost.
    assert_eq!(end(&mut world, "t", producer, true, Speaks::Two), Ok(next));
    assert_eq!(write(&mut world, "t", next, 0, 0, "b"), ErrorCode::None);
    assert_eq!(end(&mut world, "t", next, true, Speaks::Two), Ok((1, 1)));
    assert_eq!(read(&mut world, 0, true).0, ["a", "b"]);
}

#[test]
fn partitions_are_added_all_or_none() {
    use ErrorCode::{None, OperationNotAttempted, TopicAuthorizationFailed, UnknownTopicOrPartition};
    let mut world = world();
    let producer = init(&mut world, "t").unwrap();
    assert_eq!(add_to(&mut world, "t", producer, TOPIC, &[0, 2], 3), [None, None]);
    assert_eq!(add_to(&mut world, "t", producer, TOPIC, &[1, 99], 3), [OperationNotAttempted, UnknownTopicOrPartition]);
    assert_eq!(add_to(&mut world, "t", producer, "nothing", &[0], 3), [UnknownTopicOrPartition]);
    // Clients must not write to this topic themselves.
    assert_eq!(add_to(&mut world, "t", producer, "__consumer_offsets", &[0], 3), [TopicAuthorizationFailed]);
    assert_eq!(add_offsets(&mut world, "t", producer, "g", 4), None);
    let found = describe(&mut world, "t");
    assert_eq!(found.transaction_state, "Ongoing");
    assert_eq!(found.transaction_start_time_ms, world.world.now_ms);
    let topics: Vec<_> = found.topics.iter().map(|topic| (topic.topic, topic.partitions.clone())).collect();
    assert_eq!((topics.len(), &topics[1]), (2, &(TOPIC, vec![0, 2])));
    assert_eq!(topics[0].0, "__consumer_offsets");
}

#[test]
fn brokers_verify_and_add_partitions() {
    use ErrorCode::{InvalidProducerIdMapping, ProducerFenced, TransactionAbortable};
    let mut world = world();
    let producer = init(&mut world, "t").unwrap();
    assert_eq!(as_broker(&mut world, "t", producer, 0, true), TransactionAbortable);
    assert_eq!(as_broker(&mut world, "t", producer, 0, false), ErrorCode::None);
    assert_eq!(as_broker(&mut world, "t", producer, 0, true), ErrorCode::None);
    assert_eq!(as_broker(&mut world, "t", producer, 1, true), TransactionAbortable);
    for verify_only in [false, true] {
        assert_eq!(as_broker(&mut world, "t", (0, 1), 0, verify_only), ProducerFenced);
        assert_eq!(as_broker(&mut world, "t", (1, 0), 0, verify_only), InvalidProducerIdMapping);
        assert_eq!(as_broker(&mut world, "u", producer, 0, verify_only), InvalidProducerIdMapping);
    }
}

#[test]
fn transactions_are_described_and_listed() {
    let mut world = world();
    let producer = init(&mut world, "t").unwrap();
    let other = init(&mut world, "tea").unwrap();
    add(&mut world, "tea", other, 1);
    assert_eq!(state(&mut world, "t"), ("Empty".to_owned(), producer));
    assert_eq!(describe(&mut world, "t").transaction_start_time_ms, -1);
    assert_eq!(describe(&mut world, "nobody").error_code, ErrorCode::TransactionalIdNotFound.code());
    world.advance(1000);
    let mut list = |states: &[&'static str], ids: &[i64], duration_filter: i64, pattern: Option<&'static str>| {
        let request = ListTransactionsRequest {
            state_filters: states.to_vec(),
            producer_id_filters: ids.to_vec(),
            duration_filter,
            transactional_id_pattern: pattern,
            ..Default::default()
        };
        let answer = world.ask(1, &request, 2);
        ErrorCode::check(answer.error_code)?;
        let mut found: Vec<_> = answer.transaction_states.iter().map(|found| found.transactional_id).collect();
        found.sort_unstable();
        Ok::<_, ErrorCode>((found, answer.unknown_state_filters))
    };
    assert_eq!(list(&[], &[], -1, None), Ok((vec!["t", "tea"], vec![])));
    assert_eq!(list(&["Ongoing", "ongoing", "Dead"], &[], -1, None), Ok((vec!["tea"], vec!["ongoing"])));
    assert_eq!(list(&[], &[producer.0], -1, Some("")), Ok((vec!["t"], vec![])));
    assert_eq!(list(&["Ongoing"], &[], 999, None), Ok((vec!["tea"], vec![])));
    assert_eq!(list(&["Ongoing"], &[], 1000, None), Ok((vec![], vec![])));
    // The pattern must match the whole transactional id.
    assert_eq!(list(&[], &[], -1, Some("t")), Ok((vec!["t"], vec![])));
    assert_eq!(list(&[], &[], -1, Some("t.*")), Ok((vec!["t", "tea"], vec![])));
    assert_eq!(list(&[], &[], -1, Some("[")), Err(ErrorCode::InvalidRegularExpression));
}

#[test]
fn a_transaction_that_is_open_too_long_is_aborted_and_its_producer_shut_out() {
    let mut world = world();
    let producer = init_as(&mut world, Some("t"), (-1, -1), 1000, 5).unwrap();
    assert_eq!(write(&mut world, "t", producer, 0, 0, "lost"), ErrorCode::None);
    world.advance(900);
    assert_eq!(state(&mut world, "t").0, "Ongoing");
    // Timed-out transactions are looked for every ten seconds.
    world.advance(11_000);
    assert_eq!(state(&mut world, "t"), ("CompleteAbort".to_owned(), (0, 1)));
    assert_eq!(read(&mut world, 0, true), (vec![], 2));
    assert_eq!(add(&mut world, "t", producer, 0), ErrorCode::ProducerFenced);
    assert_eq!(end(&mut world, "t", producer, true, Speaks::One), Err(ErrorCode::ProducerFenced));
    // For a producer of transaction version 2, whose ends raise the epoch, the request repeats its own abort.
    assert_eq!(end(&mut world, "t", producer, true, Speaks::Two), Err(ErrorCode::InvalidTxnState));
    assert_eq!(end(&mut world, "t", producer, false, Speaks::Two), Ok((0, 1)));
    assert_eq!(init_again(&mut world, "t", producer), Ok((0, 1)));
    assert_eq!(init(&mut world, "t"), Ok((0, 2)));
}

#[test]
fn a_transactional_id_that_is_silent_is_forgotten() {
    let mut world = Cluster::new(1, &[("transactional.id.expiration.ms", "1000")]);
    let producer = init(&mut world, "t").unwrap();
    let busy = init_as(&mut world, Some("busy"), (-1, -1), 900_000, 5).unwrap();
    // Expired ids are looked for once an hour. This time includes such a check.
    world.advance(2_000_000);
    assert_eq!(add(&mut world, "busy", busy, 0), ErrorCode::None);
    world.advance(850_000);
    assert_eq!(describe(&mut world, "t").error_code, ErrorCode::TransactionalIdNotFound.code());
    assert_eq!(add(&mut world, "t", producer, 0), ErrorCode::InvalidProducerIdMapping);
    assert_eq!(state(&mut world, "busy").0, "Ongoing");
    // An expired id is not read back by the next coordinator.
    world.control(serde_json::json!({"command": "move_coordinator", "transactional_id": "t", "node": 1}));
    assert_eq!(describe(&mut world, "t").error_code, ErrorCode::TransactionalIdNotFound.code());
    assert_eq!(init(&mut world, "t").unwrap().1, 0);
}
