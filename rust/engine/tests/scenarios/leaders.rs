//! Leaders that move, and the checks before reading continues.

use monedula_engine::fetch::{Output, ResetPolicy, Start};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{Reply, World, asked, data, error, ms, p};

// req: S071
#[test]
fn a_moved_leader_is_found_through_metadata_and_asked_after_one_backoff_at_most() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![error(0, ErrorCode::NotLeaderOrFollower)]);
    assert!(world.outputs().contains(&Output::RefreshMetadata));
    assert!(world.try_fetch(1).is_none(), "the old leader is asked again at once");
    world.advance(ms(20));
    world.metadata(&[(2, 1)]);
    assert_eq!(asked(&world.fetch(2), 0), Some(0));
}

#[test]
fn without_news_the_old_leader_is_asked_again_after_the_backoff() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![error(0, ErrorCode::NotLeaderOrFollower)]);
    world.advance(ms(79));
    assert!(world.try_fetch(1).is_none());
    world.advance(ms(42));
    assert_eq!(asked(&world.fetch(1), 0), Some(0));
}

#[test]
fn a_leader_named_beside_the_error_is_taken_at_once() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![Reply { leader: Some((2, 1)), ..error(0, ErrorCode::NotLeaderOrFollower) }]);
    let hint = Output::LeaderHint { partition: p(0), leader: 2, leader_epoch: 1 };
    assert!(world.outputs().contains(&hint));
    assert!(world.cluster.hint_leader(&p(0), 2, 1));
    world.update_metadata();
    assert_eq!(asked(&world.fetch(2), 0), Some(0));
}

#[test]
fn a_hint_that_is_not_newer_is_no_hint() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![Reply { leader: Some((2, 0)), ..error(0, ErrorCode::NotLeaderOrFollower) }]);
    assert!(!world.outputs().iter().any(|output| matches!(output, Output::LeaderHint { .. })));
}

#[test]
fn the_answer_of_the_old_leader_counts_if_the_position_still_fits() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.metadata(&[(2, 1)]);
    assert_eq!(asked(&world.fetch(2), 0), Some(0));
    assert_eq!(world.answer(1, vec![data(0, 0..10)]), vec![(0, 0)]);
    // The same records from the new leader are not delivered twice.
    assert_eq!(world.answer(2, vec![data(0, 0..10)]), vec![]);
    assert_eq!(asked(&world.fetch(2), 0), Some(10));
}

#[test]
fn a_partition_without_a_leader_waits_and_asks_for_metadata() {
    let mut world = World::reading(&[1]);
    world.metadata(&[(-1, 1)]);
    assert!(world.try_fetch(1).is_none());
    assert!(world.outputs().contains(&Output::RefreshMetadata));
    world.metadata(&[(3, 2)]);
    assert_eq!(asked(&world.fetch(3), 0), Some(0));
}

#[test]
fn a_lost_request_to_a_dead_leader_ends_with_the_new_one() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.lose(1);
    assert!(world.outputs().contains(&Output::RefreshMetadata));
    world.metadata(&[(2, 1)]);
    assert_eq!(asked(&world.fetch(2), 0), Some(0));
}

#[test]
fn an_older_epoch_in_metadata_moves_nothing() {
    let mut world = World::reading(&[1]);
    world.metadata(&[(2, 3)]);
    world.metadata(&[(1, 2)]);
    assert_eq!(asked(&world.fetch(2), 0), Some(0));
    assert!(world.try_fetch(1).is_none());
}

#[test]
fn a_lookup_left_with_a_dead_leader_is_made_again_with_the_new_one() {
    let mut world = World::new(ResetPolicy::Earliest, &[1]);
    let reading_id = world.assign(0, Start::Earliest);
    world.outputs();
    world.metadata(&[(2, 1)]);
    let wanted = Output::ListOffset { partition: p(0), reading_id, start: Start::Earliest };
    assert!(world.outputs().contains(&wanted), "the lookup stays with a leader that may never answer");
    world.listed(0, reading_id, 7, None);
    assert_eq!(asked(&world.fetch(2), 0), Some(7));
}

#[test]
fn lookups_that_fail_back_off_and_are_repeated() {
    let mut world = World::new(ResetPolicy::Earliest, &[1]);
    let reading_id = world.assign(0, Start::Latest);
    world.outputs();
    for _ in 0..4 {
        world.answer_list_offsets(0, reading_id, Err(ErrorCode::NetworkException));
        assert_eq!(world.outputs(), vec![Output::RefreshMetadata]);
        world.advance(ms(1200));
        assert_eq!(world.outputs(), vec![Output::ListOffset { partition: p(0), reading_id, start: Start::Latest }]);
    }
}
