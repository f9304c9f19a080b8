use std::sync::Arc;

use monedula_engine::assign::Protocol;
use monedula_engine::group::classic::ClassicState;
use monedula_engine::group::{GroupEvent, GroupResponse, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::pending::pending;
use crate::world::{
    BACKOFF, HEARTBEAT, Named, Owed, SESSION, World, commit_codes, config, ms, offsets, secs, subscription, t,
};

// req: S033
#[test]
fn a_join_lists_what_is_owned_and_a_new_member_nothing() {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    let (id, call) = world.call("JoinGroup");
    assert_eq!((subscription(&call).owned, subscription(&call).generation), (vec![], -1));
    world.join(id, 1);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, crate::world::synced(&[0, 2]));
    world.look_up(10);
    world.beat(ErrorCode::RebalanceInProgress);
    let (_, call) = world.call("JoinGroup");
    assert_eq!((subscription(&call).owned, subscription(&call).generation), (vec![t(0), t(2)], 1));
}

// req: S034
#[test]
fn everything_is_kept_and_flows_while_the_member_joins() {
    let (mut world, id, _) = pending("JoinGroup");
    world.commit(1, offsets(&[(0, 30)]));
    world.commit_answered(ErrorCode::None);
    world.join(id, 2);
    let (id, _) = world.call("SyncGroup");
    assert_eq!(world.owned(), [0, 1]);
    world.answer(id, crate::world::synced(&[0, 1]));
    let trace = world.trace();
    assert_eq!(trace, ["OffsetCommit", "SyncGroup"], "nothing was settled, dropped, assigned or looked up");
    assert_eq!(world.owned(), [0, 1]);
}

// req: S035
#[test]
fn what_the_assignment_lacks_is_stopped_committed_and_given_up_and_nothing_else() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0, 1, 2]);
    world.beat(ErrorCode::RebalanceInProgress);
    let (id, _) = world.call("JoinGroup");
    world.join(id, 2);
    let (id, _) = world.call("SyncGroup");
    world.finished = offsets(&[(0, 30), (1, 40), (2, 50)]);
    world.trace();
    world.answer(id, crate::world::synced(&[0, 2]));
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(1, 40)]));
    assert_eq!(world.trace(), ["settle t-1", "OffsetCommit", "Revoked t-1", "dropped t-1", "JoinGroup"]);
    let (_, call) = world.call("JoinGroup");
    assert_eq!((subscription(&call).owned, subscription(&call).generation), (vec![t(0), t(2)], 2));
}

// req: S042
// req: S118
#[test]
fn callbacks_and_lookups_are_about_what_changed() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0, 1]);
    world.beat(ErrorCode::RebalanceInProgress);
    world.trace();
    world.rebalance(2, &[1, 2]);
    assert_eq!(
        world.trace(),
        [
            "SyncGroup",
            "assigned t-2",
            "Assigned t-2",
            "settle t-0",
            "OffsetFetch",
            "Revoked t-0",
            "dropped t-0",
            "JoinGroup"
        ]
    );
    let (_, call) = world.call("OffsetFetch");
    assert!(matches!(call, monedula_engine::group::Call::OffsetFetch { partitions, .. } if partitions == [t(2)]));
}

// req: S044
#[test]
fn a_join_of_minutes_is_behind_the_scenes_and_the_lease_is_kept_alive() {
    let (mut world, id, _) = pending("JoinGroup");
    world.beating = true;
    let until = world.now + secs(240);
    while world.now < until {
        world.pass(secs(1));
        assert!(world.lease.is_some_and(|until| until > world.now), "handed out all the time");
    }
    // Heartbeats only for the lease: no more of them than that takes (req S016).
    assert!(world.beats.len() <= 12, "{}", world.beats.len());
    assert_eq!(world.trace(), [""; 0]);
    world.join(id, 2);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, crate::world::synced(&[0, 1]));
    assert_eq!((world.state(), world.owned()), (ClassicState::Stable, vec![0, 1]));
    world.beating = true;
    world.pass(secs(60));
    assert!(
        !world
            .events
            .iter()
            .any(|event| matches!(event, GroupEvent::LeaseExpired | GroupEvent::CoordinatorLost { .. }))
    );
}

// 12. downgrade_to_eager_revokes_all_first
#[test]
fn downgrade_to_eager_revokes_all_first() {
    let mut setup = config(Protocol::Cooperative);
    setup.assignors.push(Arc::new(Named("range", Protocol::Eager)));
    let mut world = World::stable(setup, &[0, 1]);
    world.beat(ErrorCode::RebalanceInProgress);
    assert_eq!(world.trace(), ["Heartbeat", "settle t-0 t-1", "Revoked t-0 t-1", "dropped t-0 t-1", "JoinGroup"]);
}

// The coordinator may have carried out a JoinGroup whose answer was lost. Then this member's claims are of an old
// generation for the others.
#[test]
fn a_lost_join_puts_what_is_owned_in_doubt_until_the_next_assignment() {
    let (mut world, id, _) = pending("JoinGroup");
    world.commit(1, offsets(&[(0, 30)]));
    let (commit, _) = world.call("OffsetCommit");
    world.lose(id);
    assert_eq!(world.lease, Some(secs(0)), "nothing is handed out");
    world.answer(commit, commit_codes(&offsets(&[(0, 30)]), ErrorCode::CoordinatorLoadInProgress));
    world.find(1);
    world.pass(BACKOFF);
    let (id, call) = world.call("JoinGroup");
    assert_eq!(subscription(&call).generation, 1);
    world.no_call();
    world.join(id, 3);
    // The claim keeps its generation, whichever the member has joined since.
    let (id, _) = world.call("SyncGroup");
    world.answer(id, crate::world::sync_error(ErrorCode::RebalanceInProgress));
    let (id, call) = world.call("JoinGroup");
    assert_eq!(subscription(&call).generation, 1);
    world.join(id, 4);
    let (id, _) = world.call("SyncGroup");
    world.finished = offsets(&[(1, 99)]);
    world.trace();
    world.answer(id, crate::world::synced(&[0]));
    // Another member may own t-1 already: it is lost, not revoked, and nothing of it is committed.
    world.call("JoinGroup");
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 30)]), "it waited for certainty");
    assert_eq!(world.trace(), ["dropped t-1", "Lost t-1", "JoinGroup", "OffsetCommit"]);
    assert!(world.lease.is_some_and(|until| until > world.now));
}

// A JoinGroup that waits for a connection to a coordinator that has died was not processed by it.
#[test]
fn a_join_that_was_never_sent_leaves_nothing_in_doubt() {
    for is_cancelled in [true, false] {
        // In generation 2, whose assignment takes t-1 from this member, and which it does not hear of.
        let (mut world, sync, _) = pending("SyncGroup");
        world.lose(sync);
        world.find(1);
        world.pass(BACKOFF);
        let (join, _) = world.call_past_heartbeats("JoinGroup");
        if is_cancelled {
            world.connecting = true;
            world.pass(SESSION / 2);
            let (beat, _) = world.call("Heartbeat");
            world.refuse(beat);
        } else {
            world.refuse(join);
        }
        world.pass(BACKOFF);
        world.find(2);
        world.pass(BACKOFF);
        let (join, call) = world.call_past_heartbeats("JoinGroup");
        assert_eq!(subscription(&call).generation, 2, "cancelled: {is_cancelled}");
        assert!(world.lease.is_some_and(|until| until > world.now), "its records are handed out");
        world.join(join, 3);
        let (sync, _) = world.call_past_heartbeats("SyncGroup");
        world.trace();
        world.answer(sync, crate::world::synced(&[0]));
        let trace = world.trace();
        assert!(trace.contains(&"Revoked t-1".to_owned()), "{trace:?}");
    }
}

#[test]
fn a_join_that_was_refused_leaves_nothing_in_doubt() {
    let (mut world, id, _) = pending("JoinGroup");
    world.answer(id, crate::pending::failed("JoinGroup", ErrorCode::NotCoordinator));
    assert!(world.lease.is_some_and(|until| until > world.now));
}

#[test]
fn kept_partitions_are_committed_before_the_join_without_being_stopped() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0, 1]);
    world.finished = offsets(&[(0, 30)]);
    world.beat(ErrorCode::RebalanceInProgress);
    assert_eq!(world.trace(), ["Heartbeat", "OffsetCommit"]);
    world.commit_answered(ErrorCode::None);
    assert_eq!(world.trace(), ["JoinGroup"]);
}

#[test]
fn commits_wait_for_the_assignment_and_go_out_with_the_new_generation() {
    let (mut world, id, _) = pending("JoinGroup");
    world.join(id, 2);
    let (id, _) = world.call("SyncGroup");
    world.commit(1, offsets(&[(0, 30)]));
    world.commit(2, offsets(&[(1, 31)]));
    world.no_call();
    world.answer(id, crate::world::synced(&[0]));
    // t-1 is being revoked: this member may still commit its offset.
    let (id, call) = world.call("OffsetCommit");
    assert_eq!(crate::world::identity(&call), ("m", 2));
    world.answer(id, commit_codes(&offsets(&[(0, 30)]), ErrorCode::None));
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(1, 31)]));
    assert_eq!(world.trace().last().map(String::as_str), Some("JoinGroup"));
}

#[test]
fn a_second_notice_while_partitions_are_given_up_does_not_make_them_be_given_up_twice() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0, 1]);
    world.beat(ErrorCode::RebalanceInProgress);
    world.busy = true;
    world.rebalance(2, &[0]);
    world.trace();
    for _ in 0..3 {
        world.beat(ErrorCode::RebalanceInProgress);
    }
    assert_eq!(world.trace(), ["Heartbeat"; 3]);
    assert_eq!(world.owed.len(), 1);
    world.user_returns();
    assert_eq!(world.trace(), ["Revoked t-1", "dropped t-1", "JoinGroup"]);
    world.rebalance(3, &[0]);
    world.pass(HEARTBEAT - ms(1));
    world.no_call();
}

// req: S067
#[test]
fn a_change_of_the_subscription_leads_to_a_join_and_no_topic_is_had_that_is_not_subscribed_to() {
    for protocol in [Protocol::Cooperative, Protocol::Eager] {
        let mut world = World::stable(config(protocol), &[0]);
        world.subscribe(&["t", "u"]);
        let (id, call) = world.call("JoinGroup");
        let topics: Vec<String> = subscription(&call).topics.iter().map(ToString::to_string).collect();
        assert_eq!(topics, ["t", "u"]);
        // The same while JoinGroup is in flight.
        world.subscribe(&["u"]);
        world.trace();
        world.join(id, 2);
        let (id, _) = world.call("SyncGroup");
        world.answer(id, crate::world::synced(&[0]));
        assert_eq!(world.owned(), [0; 0], "{protocol:?}");
        assert!(!world.trace().contains(&"assigned t-0".to_owned()));
        let (_, call) = world.call("JoinGroup");
        assert_eq!(subscription(&call).topics, [Arc::from("u")]);
    }
}

#[test]
fn a_topic_that_is_unsubscribed_after_everything_was_prepared_is_given_up_before_the_join() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.pass(HEARTBEAT);
    let (id, _) = world.call("Heartbeat");
    world.lose(id);
    let now = world.now;
    world.put(Input::Rejoin { at: now, reason: "test".into() });
    world.subscribe(&["u"]);
    world.find(1);
    let (_, call) = world.call("JoinGroup");
    assert_eq!(subscription(&call).owned, []);
    assert!(world.trace().contains(&"Revoked t-0".to_owned()));
}

#[test]
fn answers_that_are_doubled_or_late_or_of_another_kind_change_nothing() {
    let (mut world, id, _) = pending("JoinGroup");
    world.join(id, 2);
    let (sync, _) = world.call("SyncGroup");
    world.join(id, 9);
    world.answer(id + 1000, crate::world::synced(&[5]));
    assert_eq!(world.member.status().generation, 2);
    world.answer(sync, GroupResponse::Heartbeat { code: ErrorCode::None });
    world.pass(BACKOFF);
    world.rebalance(3, &[0, 1]);
    world.answer(sync, crate::world::synced(&[]));
    assert_eq!((world.state(), world.owned()), (ClassicState::Stable, vec![0, 1]));
}

#[test]
fn busy_users_keep_what_stays_while_they_are_waited_for() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0, 1]);
    world.beat(ErrorCode::RebalanceInProgress);
    world.busy = true;
    world.rebalance(2, &[0]);
    world.beating = true;
    world.pass(secs(120));
    assert!(matches!(world.owed.front(), Some(Owed::Settle(_, partitions)) if partitions.len() == 1));
    assert_eq!((world.state(), world.owned()), (ClassicState::Revoking, vec![0, 1]));
    assert!(world.lease.is_some_and(|until| until > world.now));
}

#[test]
fn epochs_that_skip_numbers_lose_nothing_where_the_coordinator_assigns() {
    // In a group with a leader, this member had no part in a generation that it skipped. In a group with members of
    // both protocols (KIP-848) there is no leader.
    for (leader, loses) in [("", false), ("other", true)] {
        let mut world = World::stable(config(Protocol::Cooperative), &[0, 1]);
        world.beat(ErrorCode::RebalanceInProgress);
        let (id, _) = world.call("JoinGroup");
        let joined = world.joined(7, leader, Vec::new());
        world.answer(id, joined);
        assert_eq!(world.trace().iter().any(|line| line.starts_with("Lost")), loses, "{leader:?}");
    }
}

// Found by the simulation: a process that was stopped for longer than its session kept partitions that others owned by
// then.
#[test]
fn who_may_have_been_thrown_out_keeps_nothing_where_the_coordinator_assigns() {
    // A group with a leader does not know the id of a removed member any more, and answers so.
    for (leader, loses) in [("", true), ("other", false)] {
        let mut world = World::stable(config(Protocol::Cooperative), &[0, 1]);
        world.beat(ErrorCode::RebalanceInProgress);
        let (id, _) = world.call("JoinGroup");
        world.sleep(SESSION);
        let joined = world.joined(2, leader, Vec::new());
        world.answer(id, joined);
        assert_eq!(world.trace().contains(&"Lost t-0 t-1".to_owned()), loses, "{leader:?}");
        assert_eq!(world.owned().is_empty(), loses, "{leader:?}");
    }
}
