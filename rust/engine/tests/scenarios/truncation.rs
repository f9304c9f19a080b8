//! Truncated logs (KIP-320): reported once, never skipped silently, and never assumed without proof.

use monedula_engine::fetch::{Fault, Output, ResetPolicy, Start};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{Reply, World, asked, data, empty, ms, p};

/// At offset 10, read in epoch 0, with the leader moved to node 2 in epoch 1.
fn moved(reset: ResetPolicy) -> (World, u64) {
    let mut world = World::new(reset, &[1]);
    let reading_id = world.assign(0, Start::Offset(0, -1));
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.outputs();
    world.metadata(&[(2, 1)]);
    (world, reading_id)
}

#[test]
fn a_new_leader_epoch_has_the_position_checked_before_the_next_fetch() {
    let (mut world, reading_id) = moved(ResetPolicy::Earliest);
    assert_eq!(
        world.outputs(),
        vec![Output::OffsetForLeaderEpoch { partition: p(0), reading_id, leader_epoch: 1, offset_epoch: 0 }]
    );
    assert!(world.try_fetch(2).is_none());
    world.epoch_end(0, reading_id, Ok(Some(10)));
    assert_eq!(asked(&world.fetch(2), 0), Some(10));
    assert_eq!(world.outputs(), vec![]);
}

#[test]
fn a_truncated_log_is_told_once_and_read_on_from_where_it_differs() {
    let (mut world, reading_id) = moved(ResetPolicy::Latest);
    world.outputs();
    world.epoch_end(0, reading_id, Ok(Some(6)));
    let told = Output::Positioned { partition: p(0), reading_id, offset: 6, moved_from: Some(10) };
    assert_eq!(world.outputs(), vec![told]);
    assert_eq!(asked(&world.fetch(2), 0), Some(6));
    world.answer(2, vec![data(0, 6..8)]);
    assert_eq!(asked(&world.fetch(2), 0), Some(8));
    assert_eq!(world.outputs(), vec![]);
}

#[test]
fn with_no_policy_truncation_is_a_fault_and_a_seek_goes_on() {
    let (mut world, reading_id) = moved(ResetPolicy::Fail);
    world.outputs();
    world.epoch_end(0, reading_id, Ok(Some(6)));
    let fault = Fault::LogTruncated { partition: p(0), offset: 10, divergent: 6 };
    assert_eq!(world.outputs(), vec![Output::Stopped { reading_id, fault }]);
    assert!(world.try_fetch(2).is_none());
    world.seek(0, Start::Offset(6, -1));
    assert_eq!(asked(&world.fetch(2), 0), Some(6));
}

#[test]
fn an_epoch_that_the_broker_does_not_know_is_no_loss() {
    let (mut world, reading_id) = moved(ResetPolicy::Fail);
    world.outputs();
    world.epoch_end(0, reading_id, Ok(None));
    assert_eq!(world.outputs(), vec![]);
    assert_eq!(asked(&world.fetch(2), 0), Some(10));
}

#[test]
fn a_failed_check_is_repeated_after_a_backoff() {
    let (mut world, reading_id) = moved(ResetPolicy::Fail);
    world.outputs();
    for code in [ErrorCode::FencedLeaderEpoch, ErrorCode::UnknownLeaderEpoch, ErrorCode::NetworkException] {
        world.epoch_end(0, reading_id, Err(code));
        assert_eq!(world.outputs(), vec![Output::RefreshMetadata], "{code}");
        world.advance(ms(1200));
        assert!(matches!(world.outputs()[..], [Output::OffsetForLeaderEpoch { .. }]), "{code}");
    }
}

#[test]
fn a_check_answered_for_an_older_span_is_ignored() {
    let (mut world, reading_id) = moved(ResetPolicy::Fail);
    world.seek(0, Start::Offset(9, -1));
    world.outputs();
    world.epoch_end(0, reading_id, Ok(Some(2)));
    assert_eq!(world.outputs(), vec![]);
    assert_eq!(asked(&world.fetch(2), 0), Some(9));
}

#[test]
fn a_diverging_epoch_in_a_fetch_answer_is_truncation_too() {
    let (mut world, reading_id) = moved(ResetPolicy::Earliest);
    world.epoch_end(0, reading_id, Ok(Some(10)));
    world.outputs();
    let plan = world.fetch(2);
    assert_eq!(plan.partitions[0].2.offset_epoch, 0);
    world.answer(2, vec![Reply { diverging: Some((0, 4)), ..empty(0) }]);
    let told = Output::Positioned { partition: p(0), reading_id, offset: 4, moved_from: Some(10) };
    assert_eq!(world.outputs(), vec![told]);
    let plan = world.fetch(2);
    assert_eq!((asked(&plan, 0), plan.partitions[0].2.offset_epoch), (Some(4), -1));
}

#[test]
fn records_that_come_with_a_divergence_are_not_delivered() {
    let (mut world, reading_id) = moved(ResetPolicy::Fail);
    world.epoch_end(0, reading_id, Ok(Some(10)));
    world.fetch(2);
    assert_eq!(world.answer(2, vec![Reply { diverging: Some((0, 4)), ..data(0, 10..12) }]), vec![]);
    assert_eq!(world.machine.stopped(), (1, 1));
}

#[test]
fn a_start_with_a_known_epoch_is_checked_first() {
    let mut world = World::new(ResetPolicy::Fail, &[1]);
    let reading_id = world.assign(0, Start::Offset(30, 0));
    assert!(world.outputs().contains(&Output::OffsetForLeaderEpoch {
        partition: p(0),
        reading_id,
        leader_epoch: 0,
        offset_epoch: 0
    }));
    assert!(world.try_fetch(1).is_none());
}

#[test]
fn a_position_without_an_epoch_needs_no_check() {
    let mut world = World::reading(&[1]);
    world.metadata(&[(2, 1)]);
    assert_eq!(world.outputs(), vec![]);
    assert_eq!(asked(&world.fetch(2), 0), Some(0));
}
