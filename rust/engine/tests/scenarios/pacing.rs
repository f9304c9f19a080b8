//! Fetches are not sent in a busy loop, and large records are read.

use monedula_engine::backoff::Backoff;
use monedula_engine::fetch::{FetchConfig, ResetPolicy, Start};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{MAX_WAIT, PARTITION_BYTES, Reply, World, batch, data, empty, error, ms};

/// Requests to node 1 within ten virtual seconds, each answered at once.
fn requests(world: &mut World, mut reply: impl FnMut(usize) -> Vec<Reply>) -> usize {
    let mut requests = 0;
    let end = world.now + ms(10_000);
    while world.now < end {
        match world.try_fetch(1) {
            Some(_) => {
                let replies = reply(requests);
                requests += 1;
                world.answer(1, replies);
                world.outputs();
            }
            None => world.advance(ms(1)),
        }
    }
    requests
}

#[test]
fn a_broker_that_answers_at_once_with_nothing_is_asked_ever_more_rarely() {
    let mut world = World::reading(&[1]);
    let count = requests(&mut world, |_| vec![]);
    assert!((8..30).contains(&count), "{count}");
}

#[test]
fn one_quick_empty_answer_costs_no_wait() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![empty(0)]);
    world.fetch(1);
}

#[test]
fn an_empty_answer_that_took_its_time_costs_no_wait() {
    let mut world = World::reading(&[1]);
    for _ in 0..5 {
        world.fetch(1);
        world.advance(MAX_WAIT);
        world.answer(1, vec![empty(0)]);
    }
}

#[test]
fn data_costs_no_wait() {
    let mut world = World::reading(&[1]);
    for batch in 0..50 {
        world.fetch(1);
        world.answer(1, vec![data(0, batch * 10..batch * 10 + 10)]);
    }
}

#[test]
fn a_fetch_wait_of_zero_is_no_spin_either() {
    let config = FetchConfig {
        reset: ResetPolicy::Earliest,
        max_wait: ms(0),
        max_partition_bytes: PARTITION_BYTES,
        preferred_replica_ttl: ms(1000),
        backoff: Backoff { initial: ms(100), max: ms(1000), factor: 2 },
        propagation: ms(10_000),
    };
    let mut world = World::with(config, &[1]);
    world.assign(0, Start::Offset(0, -1));
    let count = requests(&mut world, |_| vec![]);
    // The fetch was sent for latency's sake, so the waits stay short.
    assert!((1000..3000).contains(&count), "{count}");
}

#[test]
fn errors_of_partitions_that_nobody_asked_about_are_no_progress() {
    let mut world = World::reading(&[1]);
    let count = requests(&mut world, |_| vec![error(9, ErrorCode::UnknownTopicOrPartition)]);
    assert!(count < 30, "{count}");
}

#[test]
fn a_partition_that_fails_for_ever_backs_off_to_the_longest_wait() {
    let mut world = World::reading(&[1]);
    let count = requests(&mut world, |_| vec![error(0, ErrorCode::NotLeaderOrFollower)]);
    assert!((10..18).contains(&count), "{count}");
}

#[test]
fn a_partition_that_recovers_begins_with_short_waits_again() {
    let mut world = World::reading(&[1]);
    for _ in 0..6 {
        world.fetch(1);
        world.answer(1, vec![error(0, ErrorCode::KafkaStorageError)]);
        world.advance(ms(1200));
    }
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.fetch(1);
    world.answer(1, vec![error(0, ErrorCode::KafkaStorageError)]);
    world.advance(ms(121));
    world.fetch(1);
}

#[test]
fn the_head_of_a_record_that_is_too_large_has_more_asked_for() {
    let mut world = World::reading(&[1]);
    let whole = batch(0..1, 0);
    let head = Reply { records: whole[..whole.len() - 1].to_vec(), ..empty(0) };
    assert_eq!(world.fetch(1).partitions[0].2.max_bytes, PARTITION_BYTES);
    assert_eq!(world.answer(1, vec![head.clone()]), vec![]);
    assert_eq!(world.fetch(1).partitions[0].2.max_bytes, 2 * PARTITION_BYTES);
    world.answer(1, vec![head]);
    world.advance(ms(1200));
    assert_eq!(world.fetch(1).partitions[0].2.max_bytes, 4 * PARTITION_BYTES);
    assert_eq!(world.answer(1, vec![Reply { records: whole, ..empty(0) }]), vec![(0, 0)]);
    assert_eq!(world.fetch(1).partitions[0].2.max_bytes, PARTITION_BYTES);
}

#[test]
fn a_broker_that_never_sends_more_than_a_head_is_no_spin() {
    let mut world = World::reading(&[1]);
    let whole = batch(0..1, 0);
    let count = requests(&mut world, |_| vec![Reply { records: whole[..20].to_vec(), ..empty(0) }]);
    assert!(count < 60, "{count}");
}

#[test]
fn a_cut_off_last_batch_is_asked_for_again_from_its_start() {
    let mut world = World::reading(&[1]);
    let mut records = batch(0..10, 0);
    records.extend(&batch(10..20, 0)[..40]);
    world.fetch(1);
    assert_eq!(world.answer(1, vec![Reply { records, ..empty(0) }]), vec![(0, 0)]);
    assert_eq!(crate::world::asked(&world.fetch(1), 0), Some(10));
}

#[test]
fn a_dead_broker_is_tried_ever_more_rarely() {
    let mut world = World::reading(&[1]);
    let mut requests = 0;
    let end = world.now + ms(10_000);
    while world.now < end {
        match world.try_fetch(1) {
            Some(_) => {
                requests += 1;
                world.lose(1);
            }
            None => world.advance(ms(1)),
        }
    }
    assert!((10..18).contains(&requests), "{requests}");
}

#[test]
fn the_machine_names_the_time_at_which_it_has_something_to_say() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![error(0, ErrorCode::NotLeaderOrFollower)]);
    let at = world.machine.wake_at().expect("a backoff is running");
    world.advance(at - world.now - ms(1));
    assert!(world.try_fetch(1).is_none());
    world.advance(ms(1));
    world.fetch(1);
}
