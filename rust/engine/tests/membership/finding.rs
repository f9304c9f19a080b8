//! The coordinator is found, moves, loads, and is lost.

use monedula_engine::group::consumer::ConsumerState;
use monedula_engine::group::{Input, Target};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, SESSION, World, by_hand, commit_codes, config, coordinator, ids, is_full, ms, offsets};

#[test]
fn any_broker_is_asked_and_each_attempt_another_after_a_backoff() {
    let mut world = World::new(config());
    world.subscribe(&["t"]);
    for attempt in 0..6 {
        let (id, target, _) = world.call_to("FindCoordinator");
        assert_eq!(target, Target::Any { attempt });
        match attempt % 2 {
            0 => world.lose(id),
            _ => world.answer(id, coordinator(ErrorCode::CoordinatorNotAvailable, -1)),
        }
        world.pass(ms(70));
        world.no_call();
        world.pass(BACKOFF);
    }
    world.find(4711);
    assert_eq!(world.call_to("ConsumerGroupHeartbeat").1, Target::Coordinator { node_id: 4711 });
    assert_eq!(world.raised, []);
}

#[test]
fn a_coordinator_that_moved_gets_everything_as_soon_as_it_is_found_and_nothing_is_lost() {
    for code in [ErrorCode::NotCoordinator, ErrorCode::CoordinatorNotAvailable] {
        let mut world = World::stable(config(), &[0, 1]);
        world.refuse_next(code);
        world.find(2);
        let (id, target, call) = world.call_to("ConsumerGroupHeartbeat");
        assert_eq!(target, Target::Coordinator { node_id: 2 });
        let monedula_engine::group::Call::ConsumerGroupHeartbeat(call) = call else { panic!() };
        assert!(is_full(&call));
        assert_eq!((call.epoch, call.owned), (1, Some(ids(&[0, 1]))));
        world.ok(id, 1, None);
        assert_eq!((world.state(), world.owned()), (ConsumerState::Stable, vec![0, 1]));
    }
}

#[test]
fn one_that_loads_is_asked_again_after_growing_backoffs() {
    let mut world = World::stable(config(), &[0]);
    world.refuse_next(ErrorCode::CoordinatorLoadInProgress);
    let mut waits = Vec::new();
    for _ in 0..5 {
        let before = world.now;
        while world.apis().is_empty() {
            world.pass(ms(1));
        }
        waits.push(world.now - before);
        let (id, _) = world.heartbeat();
        world.refuse(id, ErrorCode::CoordinatorLoadInProgress);
    }
    assert!(waits[0] >= ms(80) && waits[0] <= ms(121), "{waits:?}");
    assert!(waits[4] >= ms(800) && waits[4] <= ms(1201), "{waits:?}");
}

// req: S056
#[test]
fn a_broker_that_names_a_coordinator_of_yesterday_is_not_asked_again_at_once() {
    let mut world = World::new(config());
    world.subscribe(&["t"]);
    for attempt in 0..4 {
        let (id, target, _) = world.call_to("FindCoordinator");
        assert_eq!(target, Target::Any { attempt }, "the next broker may know better");
        world.answer(id, coordinator(ErrorCode::None, 1));
        let (id, _) = world.heartbeat();
        world.refuse(id, ErrorCode::NotCoordinator);
        world.pass(ms(70));
        world.no_call();
        world.pass(BACKOFF);
    }
}

#[test]
fn a_lost_commit_has_the_coordinator_looked_for_and_the_heartbeat_under_way_given_up() {
    let mut world = World::stable(by_hand(), &[0]);
    let (heartbeat, _) = world.next_heartbeat();
    world.commit(1, offsets(&[(0, 15)]));
    let (commit, _) = world.call("OffsetCommit");
    world.lose(commit);
    world.find(2);
    let (id, call) = world.heartbeat();
    assert!(is_full(&call), "the other one may not have arrived");
    // A late answer of the old coordinator does not count.
    world.ok(heartbeat, 77, Some(&ids(&[3])));
    assert_eq!((world.member.status().generation, world.owned()), (1, vec![0]));
    world.ok(id, 2, None);
    world.pass(BACKOFF);
    let (id, call) = world.call("OffsetCommit");
    assert!(matches!(call, monedula_engine::group::Call::OffsetCommit { generation_or_epoch: 2, .. }), "{call:?}");
    world.answer(id, commit_codes(&offsets(&[(0, 15)]), ErrorCode::None));
    assert!(world.outcome(1).is_some_and(|outcomes| outcomes.values().all(|(_, outcome)| outcome.is_ok())));
}

// req: S057
#[test]
fn a_coordinator_that_is_silent_for_a_session_counts_as_dead() {
    let mut world = World::stable(config(), &[0]);
    world.next_heartbeat();
    world.pass(SESSION);
    world.find(2);
    let (_, call) = world.heartbeat();
    assert!(is_full(&call));
    assert_eq!((call.epoch, world.state()), (1, ConsumerState::Stable));
}

#[test]
fn a_coordinator_that_could_never_be_asked_for_is_asked_for_again_after_a_new_subscription() {
    let mut world = World::new(config());
    world.subscribe(&["t"]);
    let (id, _) = world.call("FindCoordinator");
    world.never(id);
    assert_eq!(world.state(), ConsumerState::Fatal);
    world.put(Input::Unsubscribe);
    assert_eq!(world.state(), ConsumerState::Unsubscribed);
    world.subscribe(&["t"]);
    world.pass(BACKOFF);
    world.find(1);
    assert_eq!(world.apis(), ["ConsumerGroupHeartbeat"]);
}
