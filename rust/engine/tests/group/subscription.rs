use monedula_engine::assign::{AssignError, Protocol};
use monedula_engine::group::classic::ClassicState;
use monedula_engine::group::{Call, GroupResponse, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::pending::pending;
use crate::world::{BACKOFF, World, config, secs, subscription, t};

/// A leader of generation 1 that subscribes to `t` with these partitions.
fn leader(partitions: usize) -> World {
    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe(&["t"]);
    world.topics(&[("t", partitions)]);
    world.find(1);
    lead(&mut world, 1, &[("t", partitions)], &[0]);
    world.look_up(10);
    world.starts.clear();
    world
}

fn lead(world: &mut World, generation: i32, counts: &[(&str, usize)], gets: &[i32]) {
    let (id, _) = world.call("JoinGroup");
    let answer = world.joined(generation, "m", Vec::new());
    world.answer(id, answer);
    let ticket = world.assigning.expect("asked to assign");
    let counts = counts.iter().map(|&(topic, count)| (topic.into(), count)).collect();
    world.put(Input::AssignmentComputed { ticket, outcome: Ok((Vec::new(), counts)) });
    let (id, _) = world.call("SyncGroup");
    world.answer(id, crate::world::synced(gets));
}

#[test]
fn partitions_that_are_added_make_the_leader_join_once() {
    let mut world = leader(2);
    world.topics(&[("t", 2)]);
    world.no_call();
    world.topics(&[("t", 3)]);
    world.topics(&[("t", 3)]);
    lead(&mut world, 2, &[("t", 3)], &[0, 2]);
    world.topics(&[("t", 3)]);
    assert_eq!(world.apis(), ["OffsetFetch"]);
}

/// Answers JoinGroup as for the leader, which then assigns.
fn begin_to_lead(world: &mut World, generation: i32) -> u64 {
    let (id, _) = world.call("JoinGroup");
    let answer = world.joined(generation, "m", Vec::new());
    world.answer(id, answer);
    world.assigning.take().expect("asked to assign")
}

// If brokers do not answer in time, another leader would get no answer either.
#[test]
fn a_leader_that_gets_no_metadata_joins_again_and_goes_on_with_what_it_has() {
    let mut world = leader(2);
    world.beating = true;
    world.rejoin();
    world.trace();
    for generation in 2..12 {
        let ticket = begin_to_lead(&mut world, generation);
        let outcome = Err(AssignError::NoMetadata { reason: "no answer".into() });
        world.put(Input::AssignmentComputed { ticket, outcome });
        assert_eq!((world.state(), world.owned()), (ClassicState::Stable, vec![0]), "what it had flows on");
        world.no_call();
        world.pass(BACKOFF);
    }
    assert_eq!(world.raised, []);
    lead(&mut world, 12, &[("t", 2)], &[0, 1]);
    assert_eq!((world.state(), world.owned()), (ClassicState::Stable, vec![0, 1]));
    assert!(!world.trace().iter().any(|line| line.starts_with("Lost") || line == "LeaveGroup"));
}

#[test]
fn a_new_leader_that_gets_no_metadata_joins_again_too() {
    let mut world = World::subscribed(config(Protocol::Eager));
    let ticket = begin_to_lead(&mut world, 1);
    world.put(Input::AssignmentComputed {
        ticket,
        outcome: Err(AssignError::NoMetadata { reason: "no answer".into() }),
    });
    world.pass(BACKOFF);
    lead(&mut world, 2, &[("t", 1)], &[0]);
    assert_eq!((world.state(), world.raised.len()), (ClassicState::Stable, 0));
}

// It lacks threads now, and may have some again before the others have another leader.
#[test]
fn a_leader_without_a_thread_to_assign_on_joins_again_and_keeps_its_membership() {
    let mut world = leader(2);
    world.rejoin();
    let ticket = begin_to_lead(&mut world, 2);
    let outcome = Err(AssignError::NoThread { assignor: "range".into(), reason: "none is left".into() });
    world.put(Input::AssignmentComputed { ticket, outcome });
    assert_eq!((world.state(), world.owned(), world.raised.len()), (ClassicState::Stable, vec![0], 0));
    world.pass(BACKOFF);
    lead(&mut world, 3, &[("t", 2)], &[0, 1]);
    assert_eq!((world.state(), world.owned(), world.raised.len()), (ClassicState::Stable, vec![0, 1], 0));
}

#[test]
fn a_leader_that_leaves_meanwhile_leaves() {
    let mut world = leader(2);
    world.rejoin();
    let ticket = begin_to_lead(&mut world, 2);
    world.busy = true;
    world.put(Input::Unsubscribe);
    world.put(Input::AssignmentComputed {
        ticket,
        outcome: Err(AssignError::NoMetadata { reason: "no answer".into() }),
    });
    world.user_returns();
    while world.apis().first() != Some(&"LeaveGroup") {
        world.pass(BACKOFF);
    }
    let (id, _) = world.call("LeaveGroup");
    world.answer(id, GroupResponse::LeaveGroup { code: ErrorCode::None });
    assert_eq!((world.state(), world.raised.len()), (ClassicState::Unsubscribed, 0));
}

#[test]
fn a_follower_leaves_that_to_the_leader() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.topics(&[("t", 2)]);
    world.topics(&[("t", 3)]);
    world.no_call();
}

// req: S144
// (with the broker's half in rust/broker/tests/classic/failover.rs)
#[test]
fn what_changed_while_the_coordinator_was_away_leads_to_a_join_afterwards() {
    let mut world = leader(2);
    world.beat(ErrorCode::NotCoordinator);
    world.topics(&[("t", 3)]);
    world.no_call_but("FindCoordinator");
    world.find(2);
    world.call("JoinGroup");
}

// Seed 003: partitions that are added start at their smallest offset, whatever the policy.
#[test]
fn partitions_added_while_the_member_knew_the_topic_are_new_and_others_are_not() {
    let mut world = leader(2);
    world.topics(&[("t", 4)]);
    lead(&mut world, 2, &[("t", 4)], &[0, 1, 3]);
    let (id, call) = world.call("OffsetFetch");
    let Call::OffsetFetch { partitions, .. } = call else { panic!() };
    assert_eq!(partitions, [t(1), t(3)]);
    let found = partitions.into_iter().map(|partition| (partition, Ok(None))).collect();
    world.answer(id, GroupResponse::OffsetFetch { code: ErrorCode::None, offsets: found });
    assert_eq!(world.starts, [(t(1), None, false), (t(3), None, true)]);
}

/// Whether t-0 counts as new when it is assigned now.
fn is_new(world: &mut World, generation: i32) -> bool {
    world.rebalance(generation, &[0]);
    let (id, _) = world.call("OffsetFetch");
    world.answer(id, GroupResponse::OffsetFetch { code: ErrorCode::None, offsets: [(t(0), Ok(None))].into() });
    world.starts[0].2
}

#[test]
fn a_topic_that_is_created_after_it_was_subscribed_to_is_new_and_one_that_was_there_is_not() {
    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe(&["t"]);
    world.topics(&[]);
    world.find(1);
    world.topics(&[("t", 1)]);
    assert!(is_new(&mut world, 1), "created since");

    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe(&["u"]);
    world.topics(&[("u", 1)]);
    world.find(1);
    world.rebalance(1, &[]);
    world.subscribe(&["t", "u"]);
    world.topics(&[("t", 1), ("u", 1)]);
    assert!(!is_new(&mut world, 2), "it was there before it was subscribed to");

    let mut world = World::new(config(Protocol::Cooperative));
    world.match_topics(&[]);
    world.topics(&[]);
    world.find(1);
    world.rebalance(1, &[]);
    world.match_topics(&["t"]);
    world.topics(&[("t", 1)]);
    assert!(is_new(&mut world, 2), "a pattern matches what it did not match before");

    // After leaving and subscribing again, partitions that were added meanwhile count as old like the rest.
    let mut world = leader(0);
    world.put(Input::Unsubscribe);
    let (id, _) = world.call("LeaveGroup");
    world.answer(id, GroupResponse::LeaveGroup { code: ErrorCode::None });
    world.subscribe(&["t"]);
    world.topics(&[("t", 1)]);
    assert!(!is_new(&mut world, 5));
}

#[test]
fn a_pattern_that_matches_nothing_any_more_gives_up_what_it_matched() {
    let mut world = World::new(config(Protocol::Cooperative));
    world.match_topics(&["t"]);
    world.find(1);
    world.rebalance(1, &[0]);
    world.look_up(10);
    world.trace();
    world.match_topics(&[]);
    assert_eq!(world.trace(), ["settle t-0", "Revoked t-0", "dropped t-0", "JoinGroup"]);
    let (_, call) = world.call("JoinGroup");
    assert_eq!((subscription(&call).topics.len(), subscription(&call).owned.len()), (0, 0));
}

#[test]
fn a_subscription_that_changes_in_any_state_is_joined_with_in_the_end() {
    for api in ["FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch"] {
        let (mut world, id, _) = pending(api);
        world.beating = true;
        world.subscribe(&["u"]);
        if world.apis().is_empty() {
            world.lose(id);
        }
        let mut generation = 10;
        for _ in 0..12 {
            match world.apis().first() {
                Some(&"FindCoordinator") => world.find(1),
                Some(&"JoinGroup") => {
                    let (id, _) = world.call("JoinGroup");
                    generation += 1;
                    world.join(id, generation);
                }
                Some(&"SyncGroup") => {
                    let (id, _) = world.call("SyncGroup");
                    world.answer(id, crate::world::synced(&[]));
                }
                Some(&"OffsetCommit") => {
                    world.commit_answered(ErrorCode::None);
                }
                Some(api) => {
                    let id = world.call(api).0;
                    world.lose(id);
                }
                None => {}
            }
            world.pass(secs(2));
        }
        assert_eq!((world.state(), world.owned().len()), (ClassicState::Stable, 0), "{api}");
        assert_eq!(world.member.status().topics(), ["u".into()].into(), "{api}");
        assert!(generation > 10, "{api}: joined");
    }
}
