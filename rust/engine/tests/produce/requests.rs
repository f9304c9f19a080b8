//! When batches are closed, and in which requests they are sent.

use monedula_engine::produce::{Input, ProduceConfig};

use crate::world::{BACKOFF, LINGER, World, idempotent, ms, plain};

#[test]
fn a_batch_leaves_when_its_linger_is_over() {
    let mut world = World::new(plain(5), &[1]);
    let batch = world.open(0);
    world.pass(LINGER - ms(1));
    assert!(world.closed.is_empty());
    world.pass(ms(1));
    assert_eq!((&world.closed[..], world.at(1)), (&[batch][..], vec![vec![batch]]));
    world.answer(1);
    assert_eq!(world.done[&batch].as_ref().unwrap().base_offset, Some(0));
}

#[test]
fn without_linger_it_leaves_at_once_and_when_full_before_the_linger_is_over() {
    let mut world = World::new(ProduceConfig { linger: ms(0), ..plain(5) }, &[1]);
    let batch = world.open(0);
    assert_eq!(world.at(1), [[batch]]);
    let mut world = World::new(plain(5), &[1]);
    let batch = world.fill(0);
    assert_eq!(world.at(1), [[batch]]);
}

#[test]
fn a_batch_stays_open_and_grows_while_its_broker_is_busy() {
    let mut world = World::new(plain(2), &[1, 1]);
    let first = [world.fill(0), world.fill(1)];
    let open = world.open(0);
    world.pass(10 * LINGER);
    assert!(world.closed.is_empty());
    world.answer(1);
    assert_eq!(world.closed, [open]);
    assert_eq!(world.at(1), [[first[1]], [open]]);
}

#[test]
fn a_flush_ends_the_linger_and_is_answered_when_all_before_it_is_done() {
    let mut world = World::new(plain(5), &[1, 2]);
    let [first, other] = [world.open(0), world.open(1)];
    world.input(Input::Flush { ticket: 9 });
    assert_eq!((world.at(1), world.at(2)), (vec![vec![first]], vec![vec![other]]));
    world.fill(0);
    world.answer(1);
    assert!(world.flushed.is_empty());
    world.answer(2);
    assert_eq!(world.flushed, [9]);
    world.answer_all();
    world.input(Input::Flush { ticket: 10 });
    assert_eq!(world.flushed, [9, 10]);
}

// req: S163
#[test]
fn one_request_carries_the_batches_of_several_partitions_of_a_broker() {
    let mut world = World::new(plain(1), &[1, 1, 1, 2]);
    let first = world.fill(0);
    let waiting: Vec<_> = [0, 1, 2, 3].map(|index| world.fill(index)).to_vec();
    assert_eq!(world.at(2), [[waiting[3]]]);
    world.answer(1);
    // The partition that had its turn comes last, and each has one batch in the request.
    assert_eq!(world.at(1), [[waiting[1], waiting[2], waiting[0]]]);
    world.answer_all();
    assert_eq!(world.log(0), [first, waiting[0]]);
}

#[test]
fn a_request_is_filled_up_to_its_limit_in_turns() {
    let mut world = World::new(plain(1), &[1, 1, 1]);
    world.fill(0);
    let large: Vec<_> = [1, 2, 0, 1, 2].map(|index| world.fill_sized(index, 1, 600)).to_vec();
    for batch in large {
        world.answer(1);
        assert_eq!(world.at(1), [[batch]]);
    }
    world.answer(1);
    let huge = world.fill_sized(0, 1, 5000);
    assert_eq!(world.at(1), [[huge]]);
}

// req: S079
#[test]
fn a_partition_without_a_leader_or_with_a_slow_one_blocks_no_other() {
    let mut world = World::new(plain(2), &[1, 1, 2]);
    world.move_leader(0, None);
    world.metadata();
    let stuck = world.fill(0);
    let hot: Vec<_> = (0..20).map(|_| world.fill(1)).collect();
    for _ in 0..10 {
        let batch = world.fill(2);
        world.answer(2);
        assert!(world.done[&batch].is_ok());
    }
    assert!(!world.done.contains_key(&stuck) && !world.done.contains_key(&hot[0]));
    // A busy partition does not keep out others of the same broker.
    world.move_leader(0, Some(1));
    world.metadata();
    world.answer(1);
    assert!(world.at(1).iter().flatten().any(|&batch| batch == stuck));
}

#[test]
fn leaders_are_asked_for_as_long_as_somebody_waits_for_one() {
    let mut world = World::new(plain(2), &[1]);
    world.move_leader(0, None);
    world.metadata();
    let stuck = world.fill(0);
    world.pass(10 * BACKOFF);
    let asked = world.refreshes;
    assert!((8..20).contains(&asked), "{asked}");
    world.move_leader(0, Some(3));
    world.metadata();
    assert_eq!(world.at(3), [[stuck]]);
    world.answer(3);
    world.pass(10 * BACKOFF);
    assert!(world.refreshes <= asked + 1);
}

#[test]
fn a_broker_that_cannot_be_reached_is_tried_after_a_backoff_and_batches_grow_meanwhile() {
    let mut world = World::new(plain(5), &[1, 1]);
    let first = world.fill(0);
    world.break_off(1, 0);
    let open = world.open(1);
    world.pass(ms(50));
    assert_eq!((world.at(1).len(), world.closed.len(), world.refreshes), (0, 0, 1));
    world.pass(BACKOFF);
    world.answer_all();
    assert_eq!((world.log(0), world.log(1)), (&[first][..], &[open][..]));
}

#[test]
fn a_producer_without_a_producer_id_waits_for_it() {
    let mut world = World::new(idempotent(), &[1]);
    world.prompt = false;
    let batch = world.fill(0);
    assert_eq!((world.at(1).len(), &world.asked[..]), (0, &[None][..]));
    world.give_identity();
    assert_eq!(world.at(1), [[batch]]);
}
