use monedula_engine::assign::Protocol;
use monedula_engine::group::classic::ClassicState;
use monedula_engine::group::{GroupResponse, Target};
use monedula_protocol::error_code::ErrorCode;

use crate::pending::{APIS, again, failed, pending};
use crate::world::{BACKOFF, HEARTBEAT, SESSION, World, config, coordinator, ms, secs, synced};

// req: S001
// req: S002
#[test]
fn any_broker_is_asked_for_the_coordinator_and_only_the_one_that_it_names_gets_calls_of_the_group() {
    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe(&["t"]);
    let (id, target, _) = world.call_to("FindCoordinator");
    assert_eq!(target, Target::Any { attempt: 0 });
    // A node id that no hash of the group's name yields.
    world.answer(id, coordinator(ErrorCode::None, 4711));
    let named = Target::Coordinator { node_id: 4711 };
    let (id, target, _) = world.call_to("JoinGroup");
    assert_eq!(target, named);
    world.join(id, 1);
    let (id, target, _) = world.call_to("SyncGroup");
    assert_eq!(target, named);
    world.answer(id, synced(&[0]));
    assert_eq!(world.call_to("OffsetFetch").1, named);
    world.pass(HEARTBEAT);
    let (id, target, _) = world.call_to("Heartbeat");
    assert_eq!(target, named);
    world.commit(1, crate::world::offsets(&[(0, 5)]));
    assert_eq!(world.call_to("OffsetCommit").1, named);
    world.answer(id, GroupResponse::Heartbeat { code: ErrorCode::NotCoordinator });
    assert!(matches!(world.call_to("FindCoordinator").1, Target::Any { .. }));
}

// req: S003
#[test]
fn not_coordinator_leads_to_another_search_and_the_same_call_again_and_no_error() {
    for api in APIS.into_iter().filter(|api| *api != "FindCoordinator") {
        let (mut world, id, _) = pending(api);
        let owned = world.owned();
        world.answer(id, failed(api, ErrorCode::NotCoordinator));
        world.find(2);
        world.pass(BACKOFF);
        let (_, target, _) = world.call_to(again(api));
        assert_eq!(target, Target::Coordinator { node_id: 2 }, "{api}");
        assert_eq!((&world.raised[..], world.owned()), (&[][..], owned), "{api}");
    }
}

// req: S115
#[test]
fn a_broker_that_does_not_know_or_is_dead_is_followed_by_another_after_a_backoff() {
    let mut world = World::new(config(Protocol::Cooperative));
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
    world.find(1);
    world.call("JoinGroup");
    assert_eq!(world.raised, []);
}

// req: S056
#[test]
fn a_broker_that_names_a_coordinator_of_yesterday_is_not_asked_again_at_once() {
    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe(&["t"]);
    for attempt in 0..4 {
        let (id, target, _) = world.call_to("FindCoordinator");
        assert_eq!(target, Target::Any { attempt }, "the next broker may know better");
        world.answer(id, coordinator(ErrorCode::None, 1));
        world.pass(BACKOFF);
        let (id, _) = world.call("JoinGroup");
        world.answer(id, failed("JoinGroup", ErrorCode::NotCoordinator));
        world.pass(ms(70));
        world.no_call();
        world.pass(BACKOFF);
    }
}

#[test]
fn a_coordinator_that_worked_until_now_is_looked_for_at_once() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.beat(ErrorCode::None);
    world.beat(ErrorCode::NotCoordinator);
    world.call("FindCoordinator");
}

// req: S057
#[test]
fn a_coordinator_that_answers_no_heartbeat_for_a_session_or_whose_socket_closes_counts_as_dead() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.pass(SESSION - ms(1));
    assert_eq!(world.apis(), ["Heartbeat"], "one is under way and the session not over");
    world.pass(ms(1));
    world.call("Heartbeat");
    world.call("FindCoordinator");
    assert_eq!(world.state(), ClassicState::Stable, "that alone is no reason to join again");

    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.pass(HEARTBEAT);
    let (id, _) = world.call("Heartbeat");
    world.lose(id);
    world.call("FindCoordinator");
}

// req: S140
#[test]
fn a_lost_connection_or_a_coordinator_that_is_not_available_leads_to_a_search_until_it_succeeds() {
    for api in ["JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch", "LeaveGroup"] {
        for lost in [true, false] {
            let (mut world, id, _) = pending(api);
            match lost {
                true => world.lose(id),
                false => world.answer(id, failed(api, ErrorCode::CoordinatorNotAvailable)),
            }
            for _ in 0..5 {
                let (id, _) = world.call("FindCoordinator");
                world.lose(id);
                world.pass(BACKOFF);
            }
            world.find(2);
            world.pass(BACKOFF);
            world.call_past_heartbeats(again(api));
            assert_eq!(world.raised, [], "{api}");
        }
    }
}

// req: S086
#[test]
fn a_new_coordinator_alone_costs_a_heartbeat_and_no_join_and_no_commit() {
    let mut world = World::stable(config(Protocol::Eager), &[0, 1]);
    world.beat(ErrorCode::NotCoordinator);
    world.find(2);
    world.pass(BACKOFF);
    let (id, target, _) = world.call_to("Heartbeat");
    assert_eq!(target, Target::Coordinator { node_id: 2 });
    world.answer(id, GroupResponse::Heartbeat { code: ErrorCode::None });
    world.beating = true;
    world.pass(secs(60));
    world.no_call();
    assert_eq!((world.state(), world.owned()), (ClassicState::Stable, vec![0, 1]));
}

#[test]
fn the_last_words_of_an_old_coordinator_say_nothing_about_the_new_one() {
    let (mut world, old, _) = pending("OffsetCommit");
    world.pass(HEARTBEAT);
    let (beat, _) = world.call("Heartbeat");
    world.answer(beat, GroupResponse::Heartbeat { code: ErrorCode::NotCoordinator });
    world.find(2);
    world.lose(old);
    assert_eq!(world.member.status().coordinator, Some(2));
    world.pass(BACKOFF);
    assert!(!world.apis().contains(&"FindCoordinator"), "{:?}", world.apis());
}

#[test]
fn a_join_that_waits_at_a_former_coordinator_is_sent_to_the_new_one() {
    let (mut world, _, _) = pending("JoinGroup");
    // No answer arrives; a heartbeat for the lease notices that.
    world.pass(SESSION / 2);
    let (id, _) = world.call("Heartbeat");
    world.lose(id);
    world.find(2);
    world.pass(BACKOFF);
    assert_eq!(world.call_to("JoinGroup").1, Target::Coordinator { node_id: 2 });
}
