//! Sequence numbers after a batch was given up, refused, or forgotten by the broker (KIP-98, KIP-360).

use monedula_engine::produce::{Input, ProducerIdentity, SendFault};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, DELIVERY_TIMEOUT, FIRST, World, idempotent, ms, p};

const SECOND: ProducerIdentity = ProducerIdentity { epoch: 1, ..FIRST };

/// A world in which the leader of partition 0 has taken one batch.
fn known() -> (World, u64) {
    let mut world = World::new(idempotent(), &[1]);
    let batch = world.fill(0);
    world.answer(1);
    (world, batch)
}

fn sequences(world: &World) -> Vec<(ProducerIdentity, i32)> {
    world.requests.iter().map(|sent| sent.batches[0].sequence.unwrap()).collect()
}

#[test]
fn numbers_count_records() {
    let (mut world, _) = known();
    for records in [3, 1, 20] {
        world.fill_sized(0, records, 10);
    }
    assert_eq!(sequences(&world), [(FIRST, 1), (FIRST, 4), (FIRST, 5)]);
}

#[test]
fn numbers_go_on_at_0_behind_the_largest() {
    let mut world = World::new(idempotent(), &[1]);
    for records in [i32::MAX as u32, 3, 1] {
        world.fill_sized(0, records, 10);
        world.answer(1);
    }
    world.fill(0);
    assert_eq!(sequences(&world), [(FIRST, 3)]);
    assert_eq!(world.log(0).len(), 3);
}

#[test]
fn what_was_refused_for_good_leaves_its_numbers_to_those_behind_it() {
    let (mut world, first) = known();
    let batches: Vec<_> = (0..3).map(|_| world.fill(0)).collect();
    world.refuse(1, ErrorCode::InvalidRecord);
    world.answer(1);
    world.answer(1);
    assert_eq!(sequences(&world), [(FIRST, 1), (FIRST, 2)]);
    world.answer_all();
    assert_eq!(world.log(0), [first, batches[1], batches[2]]);
}

#[test]
fn numbers_of_a_refused_batch_are_not_used_again_while_a_request_may_be_on_its_way() {
    for expires in [false, true] {
        let (mut world, first) = known();
        let batches = [world.fill(0), world.fill(0)];
        world.refuse(1, ErrorCode::InvalidRecord);
        world.break_off(1, 0);
        if expires {
            world.move_leader(0, None);
            world.metadata();
            world.pass(DELIVERY_TIMEOUT);
            world.move_leader(0, Some(1));
            world.metadata();
        } else {
            world.pass(BACKOFF);
            world.answer(1);
            world.pass(BACKOFF);
        }
        let last = world.fill(0);
        assert_eq!(sequences(&world)[0], (SECOND, 0));
        world.answer_all();
        let logged = if expires { vec![first, last] } else { vec![first, batches[1], last] };
        assert_eq!(world.log(0), logged);
    }
}

#[test]
fn a_topic_made_anew_is_sent_one_batch_first() {
    let (mut world, _) = known();
    world.logs.get_mut(&p(0)).unwrap().forget_producers();
    let mut cluster = monedula_engine::cluster::Cluster::clone(&world.cluster);
    cluster.topics.values_mut().for_each(|topic| topic.id = monedula_protocol::types::Uuid([9; 16]));
    world.take(cluster);
    let [batch, _] = [world.fill(0), world.fill(0)];
    assert_eq!(world.at(1), [[batch]]);
}

#[test]
fn behind_a_batch_given_up_in_doubt_numbers_begin_anew() {
    let (mut world, first) = known();
    let lost = world.fill(0);
    world.break_off(1, 0);
    world.move_leader(0, None);
    world.metadata();
    world.pass(DELIVERY_TIMEOUT);
    assert!(matches!(world.done[&lost], Err(SendFault::TimedOut { outcome_unknown: true, .. })));
    let next = world.fill(0);
    world.move_leader(0, Some(1));
    world.metadata();
    assert_eq!(sequences(&world), [(SECOND, 0)]);
    world.answer_all();
    assert_eq!(world.log(0), [first, next]);
}

#[test]
fn a_batch_that_expires_in_flight_is_waited_for_before_numbers_begin_anew() {
    let (mut world, first) = known();
    let slow = world.fill(0);
    world.pass(DELIVERY_TIMEOUT);
    assert!(matches!(world.done[&slow], Err(SendFault::TimedOut { outcome_unknown: true, attempts: 1, .. })));
    let next = world.fill(0);
    // Its answer shows that it was written, so no outcome is unknown any more.
    assert_eq!(sequences(&world), [(FIRST, 1), (FIRST, 2)]);
    world.answer_all();
    assert_eq!(world.log(0), [first, slow, next]);
    let last = world.fill(0);
    assert_eq!(sequences(&world), [(FIRST, 3)]);
    world.answer_all();
    assert!(world.done[&last].is_ok());
}

#[test]
fn those_in_flight_behind_one_in_doubt_settle_it() {
    for written in [false, true] {
        let (mut world, first) = known();
        let doubtful = world.fill(0);
        world.pass(DELIVERY_TIMEOUT - ms(10));
        let behind = world.fill(0);
        world.break_off(1, if written { 2 } else { 0 });
        world.pass(BACKOFF);
        assert!(world.done[&doubtful].is_err());
        world.answer_all();
        world.pass(BACKOFF);
        world.answer_all();
        assert!(world.done[&behind].is_ok());
        let logged = if written { vec![first, doubtful, behind] } else { vec![first, behind] };
        assert_eq!(world.log(0), logged);
        world.fill(0);
        assert_eq!(sequences(&world), [if written { (FIRST, 3) } else { (SECOND, 1) }]);
    }
}

#[test]
fn a_broker_that_lost_records_gets_what_follows_under_a_new_epoch() {
    let (mut world, _) = known();
    let batches: Vec<_> = (0..3).map(|_| world.fill(0)).collect();
    // The leader's log was truncated, so it expects an earlier sequence number.
    let sent = world.requests.clone();
    for _ in &sent {
        world.refuse(1, ErrorCode::OutOfOrderSequenceNumber);
    }
    world.pass(BACKOFF);
    assert_eq!(sequences(&world)[0], (SECOND, 0));
    world.answer_all();
    assert_eq!(world.log(0)[1..], batches);
}

#[test]
fn after_a_restart_the_last_batch_speaks_for_those_before_it() {
    let (mut world, first) = known();
    let batches: Vec<_> = (0..5).map(|_| world.fill(0)).collect();
    world.break_off(1, 5);
    // A producer snapshot has only the last batch, so the others seem out of order.
    world.logs.get_mut(&p(0)).unwrap().restart();
    for _ in 0..10 {
        world.pass(BACKOFF);
        world.answer_all();
    }
    assert_eq!(world.log(0)[1..], batches);
    assert_eq!(world.log(0)[0], first);
    assert!(batches.iter().all(|batch| world.done[batch].is_ok()));
    assert_eq!(world.done[&batches[0]].as_ref().unwrap().base_offset, None);
    assert_eq!(world.done[&batches[4]].as_ref().unwrap().base_offset, Some(5));
    world.fill(0);
    assert_eq!(sequences(&world), [(FIRST, 6)]);
}

#[test]
fn a_leader_that_knows_nothing_of_the_producer_gets_what_another_refused_from_the_first_on() {
    let (mut world, first) = known();
    let batches: Vec<_> = (0..3).map(|_| world.fill(0)).collect();
    // The first batch is refused as out of order. Before the next is refused, a leader without any producer state takes
    // over.
    world.refuse(1, ErrorCode::OutOfOrderSequenceNumber);
    world.logs.get_mut(&p(0)).unwrap().forget_producers();
    world.move_leader(0, Some(2));
    world.metadata();
    world.refuse(1, ErrorCode::NotLeaderOrFollower);
    world.refuse(1, ErrorCode::NotLeaderOrFollower);
    for _ in 0..5 {
        world.pass(BACKOFF);
        world.answer_all();
    }
    assert_eq!(world.log(0), [first, batches[0], batches[1], batches[2]]);
}

#[test]
fn an_old_leader_proves_nothing_of_the_new_one() {
    let (mut world, _) = known();
    let batches: Vec<_> = (0..3).map(|_| world.fill(0)).collect();
    world.answer(1);
    world.move_leader(0, Some(2));
    world.metadata();
    world.fill(0);
    let late = world.take_request(1);
    let answers = vec![crate::world::refusal(&late.batches[0], ErrorCode::None)];
    world.input(Input::Answer { request: late.id, outcome: Ok(answers) });
    assert_eq!(world.at(2).len(), 0, "a batch is still at the old leader");
    world.answer(1);
    assert_eq!(world.at(2).len(), 0);
    world.pass(BACKOFF);
    assert_eq!(world.at(2), [[batches[2]]]);
}

#[test]
fn those_behind_a_refused_batch_are_not_blamed() {
    let (mut world, first) = known();
    let batches: Vec<_> = (0..3).map(|_| world.fill(0)).collect();
    world.refuse(1, ErrorCode::NotEnoughReplicas);
    world.answer_all();
    world.pass(BACKOFF);
    assert_eq!(sequences(&world), [(FIRST, 1), (FIRST, 2), (FIRST, 3)]);
    world.answer_all();
    assert_eq!(world.log(0), [first, batches[0], batches[1], batches[2]]);
}

#[test]
fn a_partition_in_doubt_keeps_no_other_from_sending() {
    let mut world = World::new(idempotent(), &[1, 1]);
    world.fill(0);
    world.fill(1);
    world.answer_all();
    world.prompt = false;
    let broken = world.fill(0);
    world.refuse(1, ErrorCode::OutOfOrderSequenceNumber);
    world.pass(BACKOFF);
    assert_eq!((&world.asked[..], world.at(1).len()), (&[Some(FIRST)][..], 0));
    let other = world.fill(1);
    assert_eq!(world.at(1), [[other]]);
    assert_eq!(sequences(&world), [(FIRST, 1)]);
    world.give_identity();
    world.pass(BACKOFF);
    world.answer_all();
    assert!(world.done[&broken].is_ok());
    // The other partition takes the new epoch once it has no batch in flight.
    world.fill(1);
    assert_eq!(sequences(&world), [(SECOND, 0)]);
}

/// Its first attempt is still in flight, and is accepted once the batches before it are.
#[test]
fn a_batch_that_waits_for_another_number_may_be_written_under_the_old_one() {
    let (mut world, _) = known();
    let given_up = world.fill(0);
    world.pass(ms(300));
    let [before, batch] = [world.fill(0), world.fill(0)];
    world.break_off(1, 0);
    world.move_leader(0, None);
    world.metadata();
    world.pass(DELIVERY_TIMEOUT - ms(300));
    assert!(matches!(world.done[&given_up], Err(SendFault::TimedOut { outcome_unknown: true, .. })));
    world.move_leader(0, Some(1));
    world.metadata();
    world.answer(1);
    world.answer(1);
    // Both are out of order, and get sequence numbers of the next epoch. The first of them is sent alone.
    assert_eq!((world.at(1), sequences(&world)), (vec![vec![before]], vec![(SECOND, 0)]));
    world.pass(ms(300));
    let done = &world.done[&batch];
    assert!(matches!(done, Err(SendFault::TimedOut { outcome_unknown: true, .. })), "{done:?}");
}
