//! Topics that are missing, deleted, recreated, or not authorized.

use monedula_engine::fetch::{Fault, Output, ResetPolicy, Start};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{PROPAGATION, World, asked, data, error, ms, p};

fn stopped(world: &mut World) -> Vec<Fault> {
    let faults = world.outputs().into_iter().filter_map(|output| match output {
        Output::Stopped { fault, .. } => Some(fault),
        _ => None,
    });
    faults.collect()
}

fn unknown_topic() -> Fault {
    Fault::UnknownTopicOrPartition { partition: p(0), what: "topic" }
}

#[test]
fn a_deleted_topic_is_a_fault_once_answers_have_said_so_for_a_while() {
    let mut world = World::reading(&[1]);
    world.metadata_for(PROPAGATION - ms(1), ErrorCode::UnknownTopicOrPartition, &[]);
    assert_eq!(stopped(&mut world), vec![], "however many answers");
    world.metadata_for(ms(1), ErrorCode::UnknownTopicOrPartition, &[]);
    assert_eq!(stopped(&mut world), vec![unknown_topic()]);
}

// The group takes the partition away at its next rebalance, so the user gets no error.
#[test]
fn a_member_waits_for_a_deleted_topic_and_for_a_partition_that_is_missing() {
    let mut world = World::reading_as_a_member(&[1]);
    world.metadata_for(PROPAGATION * 2, ErrorCode::UnknownTopicOrPartition, &[]);
    world.metadata_for(PROPAGATION * 2, ErrorCode::None, &[]);
    assert_eq!(stopped(&mut world), vec![]);
    // Only this broker did not know the topic yet.
    world.metadata(&[(1, 0)]);
    assert_eq!(asked(&world.fetch(1), 0), Some(0));
}

#[test]
fn an_unknown_topic_id_backs_off_and_asks_for_metadata() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![error(0, ErrorCode::UnknownTopicId)]);
    assert_eq!(world.outputs(), vec![Output::RefreshMetadata]);
    assert!(world.try_fetch(1).is_none());
    world.advance(ms(130));
    assert_eq!(asked(&world.fetch(1), 0), Some(0));
}

#[test]
fn a_recreated_topic_is_a_fault_and_never_a_silent_jump() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.recreate(&[(1, 0)]);
    assert_eq!(stopped(&mut world), vec![Fault::TopicRecreated { partition: p(0) }]);
    assert!(world.try_fetch(1).is_none());
}

// The group takes the partition away, and assigns it anew: the user gets no error, and nothing is read until then.
#[test]
fn a_member_hears_nothing_of_a_recreated_topic_and_reads_nothing_of_it() {
    let mut world = World::reading_as_a_member(&[1]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.recreate(&[(1, 0)]);
    assert_eq!(stopped(&mut world), vec![]);
    assert!(world.try_fetch(1).is_none());
    world.assign(0, Start::Earliest);
    assert_eq!(world.machine.stopped().0, 0, "it is another one now");
}

#[test]
fn a_seek_goes_on_in_the_recreated_topic() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.recreate(&[(1, 0)]);
    world.seek(0, Start::Offset(0, -1));
    let plan = world.fetch(1);
    assert_eq!((asked(&plan, 0), plan.partitions[0].1), (Some(0), world.topic_id));
    assert_eq!(world.answer(1, vec![data(0, 0..3)]), vec![(0, 0)]);
}

#[test]
fn a_seek_in_a_recreated_topic_leaves_nothing_of_the_old_one_in_the_session() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.fetch(1);
    world.answer(1, vec![]);
    world.recreate(&[(1, 0)]);
    // The same offset as the session has for the old topic: the request still has to name the new id.
    world.seek(0, Start::Offset(10, -1));
    world.advance(ms(1200));
    world.fetch(1);
    world.answer(1, vec![]);
    assert_eq!(world.held(1).into_iter().collect::<Vec<_>>(), vec![(world.topic_id, 0)]);
}

#[test]
fn the_old_topics_last_answer_is_not_taken_for_the_new_topics() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    let old = world.topic_id;
    world.recreate(&[(1, 0)]);
    world.seek(0, Start::Offset(0, -1));
    let new = std::mem::replace(&mut world.topic_id, old);
    assert_eq!(world.answer(1, vec![data(0, 0..10)]), vec![]);
    world.topic_id = new;
    assert_eq!(asked(&world.fetch(1), 0), Some(0));
}

#[test]
fn after_a_deletion_a_seek_waits_for_fresh_metadata() {
    let mut world = World::reading(&[1]);
    world.metadata_for(PROPAGATION, ErrorCode::UnknownTopicOrPartition, &[]);
    assert_eq!(stopped(&mut world), vec![unknown_topic()]);
    world.seek(0, Start::Offset(0, -1));
    let told = world.outputs();
    assert!(told.contains(&Output::RefreshMetadata), "{told:?}");
    assert!(!told.iter().any(|output| matches!(output, Output::Stopped { .. })), "{told:?}");
    world.recreate(&[(1, 0)]);
    assert_eq!(asked(&world.fetch(1), 0), Some(0));
}

#[test]
fn after_a_deletion_a_seek_that_finds_no_topic_either_is_told_so() {
    let mut world = World::reading(&[1]);
    world.metadata_for(PROPAGATION, ErrorCode::UnknownTopicOrPartition, &[]);
    world.seek(0, Start::Offset(0, -1));
    world.outputs();
    world.metadata_for(PROPAGATION - ms(1), ErrorCode::UnknownTopicOrPartition, &[]);
    assert_eq!(stopped(&mut world), vec![], "however many answers");
    world.metadata_for(ms(1), ErrorCode::UnknownTopicOrPartition, &[]);
    assert_eq!(stopped(&mut world), vec![unknown_topic()]);
}

#[test]
fn a_partition_that_the_topic_lacks_for_a_while_is_a_fault() {
    let mut world = World::new(ResetPolicy::Earliest, &[1]);
    world.assign(4, Start::Offset(0, -1));
    world.metadata_for(PROPAGATION - ms(1), ErrorCode::None, &[(1, 0)]);
    assert_eq!(stopped(&mut world), vec![], "however many answers");
    world.metadata_for(ms(1), ErrorCode::None, &[(1, 0)]);
    let fault = Fault::UnknownTopicOrPartition { partition: p(4), what: "partition" };
    assert_eq!(stopped(&mut world), vec![fault]);
}

#[test]
fn a_denied_topic_is_a_fault_by_metadata_and_by_fetch() {
    let denied = vec![Fault::TopicDenied { partition: p(0) }];
    let mut world = World::reading(&[1]);
    world.metadata_of(ErrorCode::TopicAuthorizationFailed, &[]);
    assert_eq!(stopped(&mut world), denied);
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![error(0, ErrorCode::TopicAuthorizationFailed)]);
    assert_eq!(stopped(&mut world), denied);
}

#[test]
fn a_topic_unknown_for_a_moment_loses_nothing() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.metadata_of(ErrorCode::UnknownTopicOrPartition, &[]);
    world.metadata(&[(1, 0)]);
    assert_eq!(stopped(&mut world), vec![]);
    assert_eq!(asked(&world.fetch(1), 0), Some(10));
}

#[test]
fn a_broker_that_knows_no_topic_ids_recreates_nothing() {
    let mut world = World::reading(&[1]);
    let id = std::mem::replace(&mut world.topic_id, monedula_protocol::types::Uuid::ZERO);
    world.metadata(&[(1, 0)]);
    assert_eq!(stopped(&mut world), vec![]);
    world.topic_id = id;
    assert_eq!(asked(&world.fetch(1), 0), Some(0));
}
