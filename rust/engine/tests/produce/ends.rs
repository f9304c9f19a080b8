//! Batches that fail, batches that are split, and batches of a transaction.

use std::time::Duration;

use monedula_engine::cluster::Cluster;
use monedula_engine::produce::{Acks, Input, Output, ProduceConfig, SendFault};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::metadata::{MetadataResponse, MetadataResponseTopic};

use crate::world::{
    BACKOFF, DELIVERY_TIMEOUT, FIRST, LINGER, PROPAGATION, World, idempotent, ms, p, plain, transactional,
};

// req: S165
#[test]
fn a_batch_past_its_time_fails_alone() {
    let mut world = World::new(idempotent(), &[1, 1]);
    world.move_leader(0, None);
    world.metadata();
    let stuck = world.open(0);
    world.pass(ms(10));
    let later = world.open(0);
    world.pass(DELIVERY_TIMEOUT - ms(10));
    let Err(SendFault::TimedOut { partition, attempts: 0, outcome_unknown: false, last_error, .. }) =
        &world.done[&stuck]
    else {
        panic!("{:?}", world.done[&stuck])
    };
    assert_eq!((partition, last_error.as_deref()), (&p(0), Some("the partition has no leader")));
    assert!(!world.done.contains_key(&later));
    let other = world.fill(1);
    world.answer_all();
    assert!(world.done[&other].is_ok());
    world.pass(ms(10));
    assert!(world.done[&later].is_err());
}

#[test]
fn what_holds_a_batch_back_is_known_before_it_fails() {
    let mut world = World::new(idempotent(), &[1]);
    world.move_leader(0, None);
    world.metadata();
    let batch = world.fill(0);
    assert_eq!(world.machine.obstacle(batch).as_deref(), Some("the partition has no leader"));
    world.move_leader(0, Some(1));
    world.metadata();
    assert_eq!(world.machine.obstacle(batch), None);
    world.refuse(1, ErrorCode::NotEnoughReplicas);
    let obstacle = world.machine.obstacle(batch).unwrap_or_default();
    assert!(obstacle.contains("NOT_ENOUGH_REPLICAS"), "{obstacle}");
}

#[test]
fn a_batchs_time_counts_from_when_its_first_record_was_sent() {
    let mut world = World::new(idempotent(), &[1]);
    world.move_leader(0, None);
    world.metadata();
    world.pass(ms(100));
    let waited = world.open_since(0, (1, 100), ms(40));
    world.pass(DELIVERY_TIMEOUT - ms(61));
    assert!(!world.done.contains_key(&waited));
    world.pass(ms(1));
    assert!(matches!(world.done[&waited], Err(SendFault::TimedOut { .. })));
}

#[test]
fn a_topic_that_is_gone_fails_what_waits_for_it() {
    let mut world = World::new(idempotent(), &[1]);
    world.move_leader(0, None);
    world.metadata();
    let batch = world.fill(0);
    let mut cluster = Cluster::clone(&world.cluster);
    let mut unknown = |world: &mut World| {
        let error_code = ErrorCode::UnknownTopicOrPartition.code();
        let topic = MetadataResponseTopic { name: Some("t"), error_code, ..Default::default() };
        cluster.update(&MetadataResponse { topics: vec![topic], ..Default::default() }, world.now);
        world.take(cluster.clone());
    };
    for _ in 0..100 {
        unknown(&mut world);
    }
    world.pass(PROPAGATION - ms(1));
    unknown(&mut world);
    assert!(!world.done.contains_key(&batch), "a hundred answers in less than the time");
    world.pass(ms(1));
    unknown(&mut world);
    assert_eq!(world.done[&batch], Err(SendFault::UnknownTopicOrPartition { partition: p(0) }));
}

#[test]
fn without_acks_a_batch_is_done_when_it_is_written_to_the_connection() {
    let mut world = World::new(ProduceConfig { acks: Acks::None, ..plain(5) }, &[1]);
    let batch = world.fill(0);
    let sent = world.take_request(1);
    world.input(Input::Answer { request: sent.id, outcome: Ok(Vec::new()) });
    assert_eq!(world.done[&batch].as_ref().unwrap().base_offset, None);
}

#[test]
fn parts_take_the_place_and_the_numbers_of_a_batch_that_was_too_large() {
    let mut world = World::new(idempotent(), &[1]);
    let first = world.fill(0);
    world.answer(1);
    world.largest = 150;
    let (whole, behind) = (world.fill_sized(0, 5, 300), world.fill(0));
    world.input(Input::Flush { ticket: 1 });
    world.answer_all();
    assert_eq!(world.splits, [whole]);
    let parts = vec![world.part(2, 120), world.part(3, 140)];
    let ids: Vec<u64> = parts.iter().map(|part| part.id).collect();
    world.input(Input::SplitInto { batch: whole, parts });
    assert_eq!(world.requests[0].batches[0].sequence, Some((FIRST, 1)));
    world.answer(1);
    assert!(world.flushed.is_empty());
    world.pass(BACKOFF);
    world.answer_all();
    assert_eq!(world.log(0), [first, ids[0], ids[1], behind]);
    assert_eq!((world.done.contains_key(&whole), &world.flushed[..]), (false, &[1][..]));
}

#[test]
fn parts_that_come_too_late_have_the_end_of_the_whole() {
    let mut world = World::new(idempotent(), &[1]);
    world.largest = 150;
    let whole = world.fill_sized(0, 2, 300);
    world.answer(1);
    world.pass(DELIVERY_TIMEOUT);
    let part = world.part(1, 150);
    world.input(Input::SplitInto { batch: whole, parts: vec![part] });
    assert!(matches!(world.done[&whole], Err(SendFault::TimedOut { outcome_unknown: false, .. })));
    assert_eq!(world.done[&part.id], world.done[&whole]);
    assert_eq!(world.machine.unfinished(), 0);
}

#[test]
fn what_cannot_be_divided_fails() {
    let mut world = World::new(idempotent(), &[1]);
    let single = world.fill(0);
    world.refuse(1, ErrorCode::MessageTooLarge);
    assert!(matches!(world.done[&single], Err(SendFault::Refused { code: ErrorCode::MessageTooLarge, .. })));
    let whole = world.fill_sized(0, 2, 100);
    world.refuse(1, ErrorCode::MessageTooLarge);
    world.input(Input::SplitInto { batch: whole, parts: Vec::new() });
    assert!(matches!(world.done[&whole], Err(SendFault::Refused { code: ErrorCode::MessageTooLarge, .. })));
    let next = world.fill(0);
    world.answer_all();
    assert!(world.done[&next].is_ok());
}

#[test]
fn a_closed_producer_fails_everything_and_hears_late_answers_in_peace() {
    let mut world = World::new(idempotent(), &[1]);
    let flying = world.fill(0);
    let waiting = [world.fill(0), world.open(0)];
    let closed = SendFault::Closed { last_error: None };
    world.input(Input::FailAll(closed.clone()));
    for batch in [flying, waiting[0], waiting[1]] {
        assert_eq!(world.done[&batch], Err(closed.clone()));
    }
    let late = world.open(0);
    assert_eq!(world.done[&late], Err(closed));
    world.pack(waiting[1]);
    world.answer_all();
    world.pass(BACKOFF);
    assert_eq!((world.machine.unfinished(), world.requests.len()), (0, 0));
}

#[test]
fn a_leader_that_is_named_is_told_of() {
    let mut world = World::new(idempotent(), &[1]);
    let batch = world.fill(0);
    let sent = world.take_request(1);
    let mut answer = crate::world::refusal(&sent.batches[0], ErrorCode::NotLeaderOrFollower);
    answer.leader = Some((2, 8));
    world.input(Input::Answer { request: sent.id, outcome: Ok(vec![answer]) });
    assert_eq!(world.hints, [(p(0), 2, 8)]);
    // The machine does not wait for another leader.
    world.move_leader(0, Some(2));
    world.metadata();
    assert_eq!(world.at(2), [[batch]]);
}

#[test]
fn a_partition_is_taken_into_each_transaction_before_its_first_batch() {
    let mut world = World::new(transactional(), &[1, 1]);
    world.prompt = false;
    world.give_identity();
    let batch = world.fill(0);
    assert_eq!((&world.joins[..], world.at(1).len()), (&[p(0)][..], 0));
    world.input(Input::AddedToTransaction(p(0)));
    assert_eq!(world.at(1), [[batch]]);
    world.answer_all();
    world.fill(0);
    world.answer_all();
    assert_eq!(world.joins.len(), 1);
    world.input(Input::TransactionEnded);
    world.fill(0);
    assert_eq!(world.joins.len(), 2);
}

#[test]
fn when_a_transaction_is_aborted_what_was_not_sent_fails_and_the_rest_is_waited_for() {
    let mut world = World::new(transactional(), &[1, 1]);
    let first = world.fill(0);
    let [waiting, open] = [world.fill(0), world.open(1)];
    world.input(Input::FailUnsent(SendFault::Aborted));
    assert_eq!(world.done[&waiting], Err(SendFault::Aborted));
    assert_eq!(world.done[&open], Err(SendFault::Aborted));
    assert!(world.failed.is_empty(), "the user wanted it so");
    world.input(Input::Flush { ticket: 1 });
    assert!(world.flushed.is_empty());
    world.answer_all();
    assert!(world.done[&first].is_ok());
    assert_eq!(world.flushed, [1]);
    world.input(Input::TransactionEnded);
    let next = world.open(1);
    world.pass(LINGER);
    world.answer_all();
    assert!(world.done[&next].is_ok());
}

/// Records whose topic has just become known: their batches are opened after the transaction has failed because of
/// another batch.
#[test]
fn what_is_opened_in_a_transaction_that_failed_elsewhere_fails_at_once() {
    let mut world = World::new(transactional(), &[1, 1]);
    let unsent = world.open(0);
    let fault = SendFault::TransactionFailed { reason: "a topic is missing".into() };
    world.input(Input::TransactionFailed(fault.clone()));
    assert_eq!(world.done[&unsent], Err(fault));
    let late = world.open(1);
    assert_eq!(world.done[&late], Err(SendFault::Aborted));
    assert!(world.failed.is_empty(), "who said so knows it");
    world.input(Input::Flush { ticket: 1 });
    assert_eq!(world.flushed, [1]);
    world.input(Input::TransactionEnded);
    let next = world.open(1);
    world.pass(LINGER);
    world.answer_all();
    assert!(world.done[&next].is_ok());
}

/// Otherwise a commit that waits for the flush would be sent before anybody knows that records are missing.
#[test]
fn a_flush_is_over_only_after_its_transaction_is_told_of_what_was_given_up() {
    let mut world = World::new(transactional(), &[1]);
    let batch = world.fill(0);
    world.input(Input::Flush { ticket: 1 });
    world.machine.handle(world.now + DELIVERY_TIMEOUT, Input::Tick);
    let outputs: Vec<Output> = std::iter::from_fn(|| world.machine.poll()).collect();
    let [
        Output::TransactionFailed(_),
        Output::Done { batch: done, outcome: Err(_) },
        Output::Flushed { ticket: 1 },
        ..,
    ] = &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!(*done, batch);
}

#[test]
fn after_a_failed_transaction_the_next_one_is_sound() {
    let mut world = World::new(transactional(), &[1, 1]);
    let done = world.fill(0);
    world.answer_all();
    let lost = world.fill(0);
    world.break_off(1, 0);
    world.move_leader(0, None);
    world.metadata();
    world.prompt = false;
    world.pass(DELIVERY_TIMEOUT + Duration::from_secs(1));
    assert!(matches!(world.failed[..], [SendFault::TimedOut { .. }]));
    assert_eq!(world.asked, [Some(FIRST)]);
    let unwanted = world.open(1);
    assert_eq!(world.done[&unwanted], Err(SendFault::Aborted));
    world.input(Input::TransactionEnded);
    world.give_identity();
    world.prompt = true;
    world.move_leader(0, Some(1));
    world.metadata();
    let next = world.fill(0);
    world.answer_all();
    assert_eq!(world.log(0), [done, next]);
    assert!(world.done[&lost].is_err());
}
