//! Which offsets are fetched in which order, and what happens to late answers.

use monedula_engine::fetch::{Output, ResetPolicy, Start};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{World, asked, data, empty, error, ms, named, p};

#[test]
fn each_fetch_asks_for_the_offset_after_the_last_record() {
    let mut world = World::reading(&[1]);
    assert_eq!(asked(&world.fetch(1), 0), Some(0));
    assert_eq!(world.answer(1, vec![data(0, 0..10)]), vec![(0, 0)]);
    assert_eq!(asked(&world.fetch(1), 0), Some(10));
    assert_eq!(world.answer(1, vec![data(0, 10..11)]), vec![(0, 10)]);
    assert_eq!(asked(&world.fetch(1), 0), Some(11));
}

// req: S159
#[test]
fn all_leaders_are_asked_at_the_same_time_and_each_for_its_own() {
    let mut world = World::reading(&[1, 2, 3, 1]);
    assert_eq!(named(&world.fetch(1)), vec![0, 3]);
    assert_eq!(named(&world.fetch(2)), vec![1]);
    assert_eq!(named(&world.fetch(3)), vec![2]);
}

#[test]
fn one_request_is_in_flight_to_a_node_at_a_time() {
    let mut world = World::reading(&[1, 1]);
    world.fetch(1);
    assert!(world.try_fetch(1).is_none());
}

#[test]
fn a_batch_that_begins_before_the_position_counts_from_its_end() {
    let mut world = World::reading(&[1]);
    world.seek(0, Start::Offset(5, -1));
    world.fetch(1);
    assert_eq!(world.answer(1, vec![data(0, 0..10)]), vec![(0, 0)]);
    assert_eq!(asked(&world.fetch(1), 0), Some(10));
}

#[test]
fn a_seek_during_a_fetch_drops_its_answer() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.seek(0, Start::Offset(500, -1));
    assert_eq!(world.answer(1, vec![data(0, 0..10)]), vec![]);
    assert_eq!(asked(&world.fetch(1), 0), Some(500));
}

#[test]
fn a_seek_to_the_same_offset_still_drops_the_answer_of_before() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.seek(0, Start::Offset(0, -1));
    assert_eq!(world.answer(1, vec![data(0, 0..10)]), vec![]);
    world.fetch(1);
    assert_eq!(world.answer(1, vec![data(0, 0..10)]), vec![(0, 0)]);
}

#[test]
fn an_answer_for_a_partition_given_up_meanwhile_is_dropped() {
    let mut world = World::reading(&[1, 1]);
    world.fetch(1);
    world.unassign(0);
    assert_eq!(world.answer(1, vec![data(0, 0..10), data(1, 0..10)]), vec![(1, 0)]);
}

#[test]
fn a_partition_given_up_and_assigned_again_during_a_fetch_is_fetched_anew() {
    let mut world = World::reading(&[1, 1]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.fetch(1);
    world.unassign(0);
    world.assign(0, Start::Offset(3, -1));
    assert_eq!(world.answer(1, vec![data(0, 10..20)]), vec![]);
    world.fetch(1);
    assert_eq!(world.answer(1, vec![data(0, 0..10)]), vec![(0, 0)]);
    assert_eq!(world.held_state(1, 0).map(|sent| sent.offset), Some(3));
}

#[test]
fn an_error_of_one_partition_stops_no_other() {
    let mut world = World::reading(&[1, 1]);
    world.fetch(1);
    let replies = vec![error(0, ErrorCode::TopicAuthorizationFailed), data(1, 0..10)];
    assert_eq!(world.answer(1, replies), vec![(1, 0)]);
    let plan = world.fetch(1);
    assert_eq!((asked(&plan, 0), asked(&plan, 1)), (None, Some(10)));
    assert_eq!(world.machine.stopped(), (1, 2));
}

#[test]
fn a_paused_partition_leaves_the_session_and_comes_back_where_it_was() {
    let mut world = World::reading(&[1, 1]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10), empty(1)]);
    world.pause(0, true);
    let plan = world.fetch(1);
    assert_eq!(plan.forget.iter().map(|(partition, _)| partition.partition).collect::<Vec<_>>(), vec![0]);
    world.answer(1, vec![data(1, 0..10)]);
    world.pause(0, false);
    assert_eq!(asked(&world.fetch(1), 0), Some(10));
}

#[test]
fn what_was_fetched_before_a_pause_is_kept() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.pause(0, true);
    assert_eq!(world.answer(1, vec![data(0, 0..10)]), vec![(0, 0)]);
}

#[test]
fn a_rewound_partition_is_asked_for_again_from_there() {
    let mut world = World::new(ResetPolicy::Earliest, &[1]);
    let reading_id = world.assign(0, Start::Offset(0, -1));
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.rewind(0, reading_id, 4);
    assert_eq!(asked(&world.fetch(1), 0), Some(4));
}

#[test]
fn the_first_fetch_waits_a_moment_for_lookups_of_the_same_node() {
    let mut world = World::new(ResetPolicy::Earliest, &[1, 1]);
    world.assign(0, Start::Offset(0, -1));
    let reading_id = world.assign(1, Start::Earliest);
    assert!(world.try_fetch(1).is_none());
    world.listed(1, reading_id, 42, None);
    assert_eq!(asked(&world.fetch(1), 1), Some(42));
}

#[test]
fn a_lookup_that_takes_long_holds_no_fetch_up() {
    let mut world = World::new(ResetPolicy::Earliest, &[1, 1]);
    world.assign(0, Start::Offset(0, -1));
    world.assign(1, Start::Earliest);
    world.advance(ms(250));
    assert_eq!(named(&world.fetch(1)), vec![0]);
}

#[test]
fn a_timestamp_beyond_the_log_starts_at_the_end() {
    let mut world = World::new(ResetPolicy::Earliest, &[1]);
    let reading_id = world.assign(0, Start::Timestamp(1_700_000_000_000));
    world.answer_list_offsets(0, reading_id, Ok(None));
    let wanted = Output::ListOffset { partition: p(0), reading_id, start: Start::Latest };
    assert!(world.outputs().contains(&wanted));
}

#[test]
fn a_batch_that_ends_before_the_position_is_corrupt_and_not_asked_for_for_ever() {
    let mut world = World::reading(&[1]);
    world.seek(0, Start::Offset(50, -1));
    world.fetch(1);
    assert_eq!(world.answer(1, vec![data(0, 0..10)]), vec![]);
    assert_eq!(world.machine.stopped(), (1, 1));
    assert!(world.try_fetch(1).is_none());
}

#[test]
fn nothing_beyond_the_end_of_a_bounded_read_is_asked_for() {
    let mut world = World::reading_until(&[1, 1], |_| Some(5));
    world.fetch(1);
    world.answer(1, vec![data(0, 0..7), data(1, 0..3)]);
    assert!(!world.is_complete());
    assert_eq!(world.fetch(1).partitions.iter().map(|(at, ..)| at.partition).collect::<Vec<_>>(), vec![1]);
    world.answer(1, vec![data(1, 3..5)]);
    assert!(world.is_complete());
    assert!(world.try_fetch(1).is_none());
}

#[test]
fn a_partition_that_stopped_is_asked_for_again_once_what_came_before_is_dropped() {
    let mut world = World::new(ResetPolicy::Earliest, &[1]);
    let reading_id = world.assign(0, Start::Offset(0, -1));
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.fetch(1);
    world.answer(1, vec![error(0, ErrorCode::CorruptMessage)]);
    assert_eq!(world.machine.stopped(), (1, 1));
    world.outputs();
    // The error came after the records that were dropped, so it was not reported.
    world.rewind(0, reading_id, 4);
    assert!(world.outputs().contains(&Output::RefreshMetadata));
    assert_eq!(asked(&world.fetch(1), 0), Some(4));
    world.answer(1, vec![data(0, 4..10)]);
    world.fetch(1);
    world.answer(1, vec![error(0, ErrorCode::CorruptMessage)]);
    assert!(matches!(world.outputs()[..], [Output::Stopped { .. }]), "it comes up again");
}

#[test]
fn a_partition_of_a_recreated_topic_stops_again_where_it_is_sent_back() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.recreate(&[(1, 0)]);
    world.outputs();
    assert_eq!(world.machine.stopped(), (1, 1));
    world.rewind(0, 1, 4);
    world.metadata(&[(1, 0)]);
    assert!(world.outputs().iter().any(|output| matches!(output, Output::Stopped { .. })));
    assert_eq!(world.machine.stopped(), (1, 1));
}
