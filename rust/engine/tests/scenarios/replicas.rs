//! Fetching from the closest replica (KIP-392).

use monedula_engine::fetch::Output;
use monedula_protocol::error_code::ErrorCode;

use crate::world::{Reply, World, asked, data, empty, error, ms};

/// The leader is node 1; it named node 2 as the closest replica.
fn sent_to_follower() -> World {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![Reply { preferred: Some(2), ..empty(0) }]);
    world.outputs();
    world
}

#[test]
fn the_replica_that_the_leader_names_is_fetched_from() {
    let mut world = sent_to_follower();
    assert!(world.try_fetch(1).is_none());
    assert_eq!(asked(&world.fetch(2), 0), Some(0));
    assert_eq!(world.answer(2, vec![data(0, 0..10)]), vec![(0, 0)]);
    assert_eq!(asked(&world.fetch(2), 0), Some(10));
}

#[test]
fn after_its_time_the_leader_is_asked_again() {
    let mut world = sent_to_follower();
    world.fetch(2);
    world.answer(2, vec![data(0, 0..10)]);
    world.advance(ms(299_000));
    assert!(world.try_fetch(1).is_none());
    world.advance(ms(1001));
    assert_eq!(asked(&world.fetch(1), 0), Some(10));
}

#[test]
fn an_unknown_replica_strands_nothing() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![Reply { preferred: Some(9), ..empty(0) }]);
    assert_eq!(world.outputs(), vec![Output::RefreshMetadata]);
    assert_eq!(asked(&world.fetch(1), 0), Some(0));
}

#[test]
fn a_replica_that_fails_is_given_up_for_the_leader() {
    let mut world = sent_to_follower();
    world.fetch(2);
    world.lose(2);
    assert_eq!(asked(&world.fetch(1), 0), Some(0));
}

#[test]
fn a_replica_with_an_error_is_given_up_for_the_leader() {
    for code in [ErrorCode::NotLeaderOrFollower, ErrorCode::ReplicaNotAvailable, ErrorCode::KafkaStorageError] {
        let mut world = sent_to_follower();
        world.fetch(2);
        world.answer(2, vec![error(0, code)]);
        world.advance(ms(130));
        assert_eq!(asked(&world.fetch(1), 0), Some(0), "{code}");
    }
}

#[test]
fn a_new_leader_is_asked_itself_first() {
    let mut world = sent_to_follower();
    world.metadata(&[(3, 1)]);
    assert_eq!(asked(&world.fetch(3), 0), Some(0));
    assert!(world.try_fetch(2).is_none());
}

#[test]
fn a_leader_that_names_itself_changes_nothing() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![Reply { preferred: Some(1), ..data(0, 0..10) }]);
    assert_eq!(asked(&world.fetch(1), 0), Some(10));
}

#[test]
fn leader_and_replica_that_point_at_each_other_are_no_spin() {
    let mut world = World::reading(&[1]);
    let mut requests = 0;
    let end = world.now + ms(10_000);
    while world.now < end {
        if world.try_fetch(1).is_some() {
            world.answer(1, vec![Reply { preferred: Some(2), ..empty(0) }]);
        } else if world.try_fetch(2).is_some() {
            world.answer(2, vec![error(0, ErrorCode::OffsetOutOfRange)]);
        } else {
            world.advance(ms(1));
            continue;
        }
        requests += 1;
    }
    assert!(requests < 60, "{requests}");
}
