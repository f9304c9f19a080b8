//! Fetch sessions (KIP-227) from a broker's view.

use std::collections::BTreeSet;

use monedula_engine::fetch::{FetchPlan, Input, Output, Start};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{Reply, SESSION, World, asked, data, empty, ms, named, p};

fn head(plan: &FetchPlan) -> (i32, i32) {
    (plan.session_id, plan.session_epoch)
}

fn held(world: &World, node: i32) -> Vec<i32> {
    world.held(node).into_iter().map(|(_, partition)| partition).collect()
}

#[test]
fn a_session_is_opened_by_a_full_request_and_goes_on_with_changes() {
    let mut world = World::reading(&[1, 1, 1]);
    let first = world.fetch(1);
    assert_eq!((head(&first), named(&first)), ((0, 0), vec![0, 1, 2]));
    world.answer(1, vec![data(1, 0..10)]);
    let second = world.fetch(1);
    assert_eq!((head(&second), named(&second), second.forget.len()), ((SESSION, 1), vec![1], 0));
}

#[test]
fn of_ten_thousand_partitions_the_second_fetch_names_only_what_changed() {
    let mut world = World::reading(&vec![1; 10_000]);
    assert_eq!(world.fetch(1).partitions.len(), 10_000);
    world.answer(1, vec![data(17, 0..10), data(9_000, 0..10)]);
    assert_eq!(named(&world.fetch(1)), vec![17, 9_000]);
    assert_eq!(world.answer(1, vec![]), vec![]);
    assert_eq!(world.held(1).len(), 10_000);
}

#[test]
fn an_evicted_session_is_opened_anew_at_once() {
    let mut world = World::reading(&[1, 1]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.fetch(1);
    world.refuse(1, ErrorCode::FetchSessionIdNotFound);
    let plan = world.fetch(1);
    assert_eq!((head(&plan), asked(&plan, 0), asked(&plan, 1)), ((0, 0), Some(10), Some(0)));
}

#[test]
fn a_session_lost_after_a_quick_empty_answer_is_opened_anew_and_keeps_its_replica() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![Reply { preferred: Some(2), ..empty(0) }]);
    world.fetch(2);
    world.answer(2, vec![]);
    world.fetch(2);
    world.refuse(2, ErrorCode::FetchSessionIdNotFound);
    world.advance(ms(130));
    let plan = world.fetch(2);
    assert_eq!((head(&plan), asked(&plan, 0)), ((0, 0), Some(0)));
}

#[test]
fn a_wrong_epoch_or_mixed_topic_ids_open_the_session_anew() {
    for code in [ErrorCode::InvalidFetchSessionEpoch, ErrorCode::FetchSessionTopicIdError] {
        let mut world = World::reading(&[1, 1]);
        world.fetch(1);
        world.answer(1, vec![data(0, 0..10)]);
        world.fetch(1);
        world.refuse(1, code);
        let plan = world.fetch(1);
        assert_eq!((plan.session_epoch, asked(&plan, 0), asked(&plan, 1)), (0, Some(10), Some(0)), "{code}");
    }
}

#[test]
fn sessions_refused_again_and_again_are_not_asked_for_in_a_spin() {
    let mut world = World::reading(&[1]);
    let mut requests = 0;
    let end = world.now + ms(10_000);
    while world.now < end {
        match world.try_fetch(1) {
            Some(_) => {
                requests += 1;
                world.refuse(1, ErrorCode::FetchSessionIdNotFound);
            }
            None => world.advance(ms(1)),
        }
    }
    assert!((5..30).contains(&requests), "{requests} requests in 10 s");
}

#[test]
fn a_broker_without_room_for_sessions_gets_full_requests() {
    let mut world = World::reading(&[1, 1]);
    world.session_id = 0;
    for _ in 0..3 {
        let plan = world.fetch(1);
        let partitions: BTreeSet<i32> = named(&plan).into_iter().collect();
        assert_eq!((head(&plan), partitions), ((0, 0), BTreeSet::from([0, 1])));
        let offset = asked(&plan, 0).expect("asked");
        world.answer(1, vec![data(0, offset..offset + 10)]);
    }
}

#[test]
fn without_a_session_a_partition_that_brought_data_is_asked_for_last() {
    // The broker fills its answer in the order of the request; a busy partition at the front would starve those behind
    // it.
    let mut world = World::reading(&[1, 1, 1]);
    world.session_id = 0;
    assert_eq!(named(&world.fetch(1)), vec![0, 1, 2]);
    world.answer(1, vec![data(0, 0..10), empty(1), empty(2)]);
    assert_eq!(named(&world.fetch(1)), vec![1, 2, 0]);
    world.answer(1, vec![data(1, 0..10), data(2, 0..10), empty(0)]);
    assert_eq!(named(&world.fetch(1)), vec![0, 1, 2]);
}

#[test]
fn a_lost_request_opens_the_session_anew_after_a_backoff_and_asks_for_everything() {
    let mut world = World::reading(&[1, 1]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.fetch(1);
    world.lose(1);
    assert!(world.try_fetch(1).is_none());
    world.advance(ms(130));
    let plan = world.fetch(1);
    assert_eq!((plan.session_epoch, asked(&plan, 0), asked(&plan, 1)), (0, Some(10), Some(0)));
}

#[test]
fn a_partition_that_left_is_forgotten_by_its_name() {
    let mut world = World::reading(&[1, 1]);
    world.fetch(1);
    world.answer(1, vec![data(1, 0..10)]);
    world.unassign(0);
    let plan = world.fetch(1);
    assert_eq!(plan.forget, vec![(p(0), world.topic_id)]);
    world.answer(1, vec![]);
    assert_eq!(held(&world, 1), vec![1]);
}

#[test]
fn assigning_the_same_partitions_again_leaves_all_of_them_in_the_session() {
    let mut world = World::reading(&[1, 1]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10), data(1, 0..10)]);
    for partition in [0, 1] {
        world.assign(partition, Start::Offset(0, -1));
    }
    world.fetch(1);
    world.answer(1, vec![]);
    assert_eq!(held(&world, 1), vec![0, 1]);
    assert_eq!(world.held_state(1, 1).map(|sent| sent.offset), Some(0));
}

#[test]
fn a_moved_partition_leaves_one_session_and_joins_the_other() {
    let mut world = World::reading(&[1, 1, 2]);
    for node in [1, 2] {
        world.fetch(node);
        world.answer(node, vec![]);
    }
    world.metadata(&[(2, 1), (1, 0), (2, 0)]);
    world.advance(ms(1200));
    world.fetch(1);
    world.answer(1, vec![]);
    let plan = world.fetch(2);
    assert_eq!(named(&plan), vec![0]);
    world.answer(2, vec![]);
    assert_eq!((held(&world, 1), held(&world, 2)), (vec![1], vec![0, 2]));
}

#[test]
fn a_session_whose_partitions_all_left_is_begun_anew_when_one_comes_back() {
    let mut world = World::reading(&[1, 1]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    world.unassign(0);
    world.unassign(1);
    assert!(world.try_fetch(1).is_none());
    world.assign(1, Start::Offset(5, -1));
    let plan = world.fetch(1);
    assert_eq!((plan.session_epoch, named(&plan)), (0, vec![1]));
    world.answer(1, vec![]);
    assert_eq!(held(&world, 1), vec![1]);
}

#[test]
fn an_answer_that_nobody_waits_for_changes_nothing() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    let response = monedula_protocol::messages::fetch::FetchResponse { session_id: 99, ..Default::default() };
    world.handle(Input::FetchAnswer { node: 1, answer: &response });
    assert_eq!(head(&world.fetch(1)), (SESSION, 1));
    assert!(!world.outputs().contains(&Output::RefreshMetadata));
}
