//! Order within a partition, and each batch written once, whatever answers are lost.

use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, FIRST, World, idempotent, p, plain};

/// A world in which the leader of partition 0 has taken one batch, with five more in flight.
fn pipelined() -> (World, Vec<u64>) {
    let mut world = World::new(idempotent(), &[1]);
    let mut batches = vec![world.fill(0)];
    world.answer(1);
    batches.extend((0..5).map(|_| world.fill(0)));
    assert_eq!(world.at(1).len(), 5);
    (world, batches)
}

fn all_done(world: &World, batches: &[u64]) {
    for batch in batches {
        assert!(world.done[batch].is_ok(), "{batch}: {:?}", world.done[batch]);
    }
}

#[test]
fn a_new_producer_sends_one_batch_until_the_leader_knows_it() {
    let mut world = World::new(idempotent(), &[1]);
    let batches: Vec<_> = (0..4).map(|_| world.fill(0)).collect();
    assert_eq!(world.at(1), [[batches[0]]]);
    assert_eq!(world.requests[0].batches[0].sequence, Some((FIRST, 0)));
    world.answer(1);
    assert_eq!(world.at(1).len(), 3);
    world.answer_all();
    assert_eq!(world.log(0), batches);
}

// req: S078
#[test]
fn a_refused_batch_and_those_behind_it_go_out_again_in_order() {
    let (mut world, batches) = pipelined();
    world.refuse(1, ErrorCode::NotEnoughReplicas);
    world.answer_all();
    assert_eq!(world.log(0), &batches[..1]);
    world.pass(BACKOFF);
    world.answer_all();
    assert_eq!(world.log(0), batches);
    all_done(&world, &batches);
}

#[test]
fn lost_answers_lose_nothing_and_duplicate_nothing() {
    for carried_out in 0..=5 {
        let (mut world, batches) = pipelined();
        world.break_off(1, carried_out);
        world.pass(BACKOFF);
        for _ in 0..6 {
            world.answer_all();
            world.pass(BACKOFF);
        }
        assert_eq!(world.log(0), batches, "{carried_out} carried out");
        all_done(&world, &batches);
        assert_eq!(world.logs[&p(0)].end, 6);
    }
}

// req: S164
#[test]
fn a_new_leader_gets_what_was_queued_in_order() {
    let (mut world, mut batches) = pipelined();
    batches.extend((0..3).map(|_| world.fill(0)));
    world.move_leader(0, Some(2));
    world.metadata();
    assert_eq!(world.at(2).len(), 0, "two brokers may see them in any order");
    world.answer_all();
    while world.done.len() < batches.len() {
        world.pass(BACKOFF);
        world.answer_all();
    }
    assert_eq!(world.log(0), batches);
    all_done(&world, &batches);
}

#[test]
fn with_one_in_flight_the_order_holds_without_sequence_numbers() {
    let mut world = World::new(plain(1), &[1]);
    let batches: Vec<_> = (0..4).map(|_| world.fill(0)).collect();
    world.refuse(1, ErrorCode::NotLeaderOrFollower);
    world.move_leader(0, Some(2));
    world.metadata();
    world.answer_all();
    assert_eq!(world.log(0), batches);
}
