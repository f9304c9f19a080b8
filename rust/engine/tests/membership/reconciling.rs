//! Reconciliation: one target at a time, and the order of a revocation (contract 2).

use monedula_engine::group::consumer::ConsumerState;
use monedula_engine::group::{CallbackKind, CommitError, GroupEvent, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{
    BACKOFF, INTERVAL, MEMBER, Owed, World, by_hand, commit_codes, config, ids, ms, of, offsets, secs, t,
};

#[test]
fn delivery_stops_then_the_user_finishes_then_it_is_committed_then_told_then_acknowledged() {
    let mut world = World::stable(config(), &[0, 1]);
    world.busy = true;
    world.target(2, &ids(&[1]));
    assert_eq!(world.trace(), ["settle t-0"]);
    assert!(
        world
            .events
            .iter()
            .any(|event| matches!(event, GroupEvent::RebalanceWanted { partitions } if *partitions == [t(0)].into()))
    );
    world.beating = true;
    world.pass(INTERVAL * 2);
    assert_eq!(world.trace(), [""; 0], "heartbeats go on, and acknowledge nothing");
    world.beating = false;
    // Rows that are finished meanwhile count.
    world.finished = offsets(&[(0, 15)]);
    world.pay_one();
    assert_eq!(world.trace(), ["OffsetCommit"]);
    let (commit, _) = world.call("OffsetCommit");
    world.no_call();
    world.answer(commit, commit_codes(&offsets(&[(0, 15)]), ErrorCode::None));
    assert_eq!(world.trace(), ["Revoked t-0"], "the user gets the callback, and still owns it");
    assert_eq!(world.owned(), [0, 1]);
    world.no_call();
    world.pay_one();
    assert_eq!(world.trace(), ["dropped t-0", "ConsumerGroupHeartbeat"]);
    let (_, call) = world.heartbeat();
    assert_eq!((call.owned, call.epoch), (Some(ids(&[1])), 2));
}

#[test]
fn heartbeats_while_it_revokes_never_say_that_it_has() {
    let mut world = World::stable(by_hand(), &[0, 1]);
    world.busy = true;
    world.target(2, &ids(&[1]));
    let (id, call) = world.next_heartbeat();
    assert_eq!(call.owned, None);
    world.lose(id);
    world.find(1);
    world.pass(BACKOFF);
    let (_, call) = world.heartbeat();
    assert_eq!(call.owned, Some(ids(&[0, 1])), "the full state names what is not given up yet");
}

#[test]
fn a_newer_target_waits_until_the_one_at_hand_is_acknowledged() {
    let mut world = World::stable(by_hand(), &[0, 1]);
    world.busy = true;
    world.target(2, &ids(&[1]));
    let (id, _) = world.next_heartbeat();
    world.trace();
    world.ok(id, 3, Some(&ids(&[])));
    assert_eq!(world.trace(), [""; 0], "t-1 goes on until t-0 is through");
    world.busy = false;
    world.user_returns();
    assert_eq!(
        world.trace(),
        ["Revoked t-0", "dropped t-0", "ConsumerGroupHeartbeat", "settle t-1", "Revoked t-1", "dropped t-1"]
    );
    let (id, call) = world.heartbeat();
    assert_eq!(call.owned, Some(ids(&[1])), "each target has its own acknowledgement");
    world.ok(id, 3, None);
    let (_, call) = world.heartbeat();
    assert_eq!((call.owned, call.epoch), (Some(ids(&[])), 3));
    assert_eq!(world.state(), ConsumerState::Stable);
}

// Found by the simulation: an acknowledgement without t-1 is in flight when the topic's name arrives and t-1 is
// assigned. The coordinator, whose newer target leaves t-1 out, takes the acknowledgement for the revocation of t-1,
// and assigns it to another member.
#[test]
fn nothing_is_gained_while_a_heartbeat_is_out_that_says_that_it_is_not_owned() {
    let mut world = World::stable(by_hand(), &[0]);
    let both = ids(&[0]).union(&of("u", &[1])).copied().collect();
    world.subscribe(&["t", "u"]);
    let (heartbeat, _) = world.heartbeat();
    world.ok(heartbeat, 2, Some(&both));
    let (acknowledgement, call) = world.heartbeat();
    assert_eq!(call.owned, Some(ids(&[0])));
    world.trace();
    world.topic("u", 2);
    assert_eq!(world.trace(), [""; 0]);
    world.ok(acknowledgement, 3, Some(&ids(&[0])));
    assert!(!world.trace().iter().any(|line| line.starts_with("assigned")));

    // If the coordinator's answer leaves it in the target, it is assigned then; if the answer was lost, after the next
    // answer.
    let mut world = World::stable(by_hand(), &[0]);
    world.subscribe(&["t", "u"]);
    let (heartbeat, _) = world.heartbeat();
    world.ok(heartbeat, 2, Some(&both));
    let (acknowledgement, _) = world.heartbeat();
    world.topic("u", 2);
    world.lose(acknowledgement);
    world.find(1);
    world.pass(BACKOFF);
    let (again, call) = world.heartbeat();
    assert_eq!(call.owned, Some(ids(&[0])));
    world.trace();
    world.ok(again, 2, Some(&both));
    assert_eq!(world.trace()[..2], ["assigned u-1", "Assigned u-1"]);
}

#[test]
fn what_a_newer_target_takes_back_is_not_gained_any_more() {
    let mut world = World::stable(by_hand(), &[0]);
    world.busy = true;
    world.target(2, &ids(&[1]));
    let (id, _) = world.next_heartbeat();
    // Before t-0 is revoked, the coordinator assigns t-1 to another member.
    world.ok(id, 3, Some(&ids(&[2])));
    world.trace();
    world.user_returns();
    let (id, _) = world.heartbeat();
    world.ok(id, 3, None);
    let trace = world.trace();
    assert!(!trace.iter().any(|line| line == "assigned t-1"), "{trace:?}");
    assert!(trace.iter().any(|line| line == "assigned t-2"), "{trace:?}");
}

#[test]
fn a_target_that_is_owned_already_is_only_acknowledged() {
    let mut world = World::stable(by_hand(), &[0, 1]);
    world.busy = true;
    world.target(2, &ids(&[1]));
    let (id, _) = world.next_heartbeat();
    // The coordinator changes the target, but the revocation of t-0 has begun already.
    world.ok(id, 3, Some(&ids(&[0, 1])));
    world.user_returns();
    let (id, call) = world.heartbeat();
    assert_eq!(call.owned, Some(ids(&[1])));
    world.trace();
    world.ok(id, 3, None);
    world.user_returns();
    world.settle_heartbeats(3);
    assert_eq!((world.owned(), world.state()), (vec![0, 1], ConsumerState::Stable));

    let mut world = World::stable(by_hand(), &[0]);
    let (id, _) = world.next_heartbeat();
    let unknown = ids(&[0]).union(&of("x", &[0])).copied().collect();
    world.ok(id, 2, Some(&unknown));
    let (id, _) = world.heartbeat();
    world.trace();
    world.ok(id, 3, Some(&ids(&[0])));
    assert_eq!(world.trace(), ["ConsumerGroupHeartbeat"], "no callback");
    assert_eq!(world.heartbeat().1.owned, Some(ids(&[0])));
}

#[test]
fn a_target_that_is_told_again_is_no_news() {
    let mut world = World::stable(by_hand(), &[0]);
    let (id, _) = world.next_heartbeat();
    world.trace();
    world.ok(id, 1, Some(&ids(&[0])));
    assert_eq!(world.trace(), [""; 0]);
    assert_eq!(world.state(), ConsumerState::Stable);
}

// req: S150
#[test]
fn what_the_user_commits_in_the_callback_is_through_before_the_acknowledgement() {
    let mut world = World::stable(by_hand(), &[0]);
    world.busy = true;
    world.target(2, &ids(&[]));
    world.pay_one();
    let Some(Owed::Callback(_, CallbackKind::Revoked)) = world.owed.front() else { panic!("{:?}", world.owed) };
    world.commit(1, offsets(&[(0, 14)]));
    world.pay_one();
    let (id, _) = world.call("OffsetCommit");
    world.no_call();
    world.answer(id, commit_codes(&offsets(&[(0, 14)]), ErrorCode::None));
    assert!(world.outcome(1).is_some());
    assert_eq!(world.heartbeat().1.owned, Some(ids(&[])));
}

#[test]
fn a_coordinator_that_does_not_commit_holds_the_acknowledgement_for_a_bounded_time() {
    let mut world = World::stable(config(), &[0]);
    world.finished = offsets(&[(0, 15)]);
    world.target(2, &ids(&[]));
    world.call("OffsetCommit");
    world.trace();
    world.beating = true;
    world.pass(secs(30) - ms(1));
    assert_eq!(world.trace(), [""; 0]);
    world.pass(ms(1));
    assert_eq!(world.trace(), ["Revoked t-0"]);
    assert!(matches!(&world.committed[..], [(None, outcomes)] if outcomes[&t(0)].1.is_err()));
    // The commit may still arrive, with an epoch that is valid.
    world.pass(secs(30) - ms(1));
    assert_eq!(world.trace(), [""; 0]);
    world.pass(ms(1));
    assert_eq!(world.trace(), ["dropped t-0"]);
}

#[test]
fn a_commit_without_an_answer_is_waited_for_as_long_as_the_coordinator_waits_for_the_acknowledgement() {
    let mut setup = config();
    setup.member.max_poll_interval = secs(12);
    let mut world = World::stable(setup, &[0]);
    world.finished = offsets(&[(0, 15)]);
    world.target(2, &ids(&[]));
    world.call("OffsetCommit");
    world.trace();
    world.beating = true;
    world.pass(secs(12) - ms(1));
    assert_eq!(world.trace(), ["Revoked t-0"], "it might put back what the next owner commits");
    world.pass(ms(1));
    assert_eq!(world.trace(), ["dropped t-0"]);
}

#[test]
fn a_commit_of_the_user_that_comes_to_nothing_does_not_hold_it_for_ever() {
    let mut world = World::stable(by_hand(), &[0]);
    let deadline = world.now + secs(3600);
    world.put(Input::Commit { ticket: 1, offsets: offsets(&[(0, 15)]), deadline });
    world.call("OffsetCommit");
    world.target(2, &ids(&[]));
    world.beating = true;
    world.pass(secs(31));
    assert_eq!(world.owned(), [0; 0]);
    assert_eq!(world.commit_error(1), CommitError::NotOwned);
}

#[test]
fn what_was_brought_for_something_that_is_over_is_to_be_brought_again() {
    let mut world = World::stable(config(), &[0]);
    world.put(Input::Finished { ticket: 999, offsets: offsets(&[(0, 15)]) });
    world.no_call();
    assert!(matches!(&world.committed[..], [(None, outcomes)] if outcomes[&t(0)].1.is_err()));
}

#[test]
fn the_end_of_a_rebalance_is_told() {
    let mut world = World::stable(by_hand(), &[0, 1]);
    world.events.clear();
    world.target(7, &ids(&[1, 2]));
    let synced = world.events.iter().find_map(|event| match event {
        GroupEvent::Synced { generation, owned, assigned, revoked, .. } => {
            Some((*generation, *owned, *assigned, *revoked))
        }
        _ => None,
    });
    assert_eq!(synced, Some((7, 2, 1, 1)));
    assert_eq!(world.member.status().last_rebalance, Some(world.now));
    assert_eq!(world.member.status().member_id, MEMBER);
}
