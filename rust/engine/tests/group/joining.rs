use std::sync::Arc;
use std::time::Duration;

use monedula_engine::assign::{AssignError, Protocol};
use monedula_engine::group::classic::ClassicState;
use monedula_engine::group::{Call, GroupError, GroupResponse, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::pending::pending;
use crate::world::{
    BACKOFF, HEARTBEAT, Named, SESSION, World, assignment, config, identity, join_error, ms, offsets, secs,
    subscription, sync_error, synced, t,
};

// req: S017
#[test]
fn the_first_join_has_no_id_and_the_one_given_is_kept_until_it_is_unknown() {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    let (id, call) = world.call("JoinGroup");
    assert_eq!(identity(&call).0, "");
    world.answer(id, join_error(ErrorCode::MemberIdRequired, "m"));
    let (id, call) = world.call("JoinGroup");
    assert_eq!(identity(&call).0, "m", "at once, with the id");
    world.join(id, 1);
    let (id, call) = world.call("SyncGroup");
    assert_eq!(identity(&call), ("m", 1));
    world.answer(id, synced(&[0]));
    world.look_up(10);
    world.beat(ErrorCode::IllegalGeneration);
    let (id, call) = world.call("JoinGroup");
    assert_eq!(identity(&call).0, "m");
    world.join(id, 5);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, synced(&[0]));
    world.look_up(10);
    world.beat(ErrorCode::UnknownMemberId);
    assert_eq!(identity(&world.call("JoinGroup").1).0, "");
}

#[test]
fn an_assignment_that_comes_later_than_the_session_ends_is_asked_for_anew() {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    let (id, _) = world.call("JoinGroup");
    world.join(id, 1);
    let (id, _) = world.call("SyncGroup");
    // The process was stopped: the member was removed, and others read its partitions.
    world.sleep(SESSION);
    world.trace();
    world.answer(id, synced(&[0]));
    assert_eq!(world.owned(), [0; 0]);
    assert!(!world.trace().iter().any(|it| it.starts_with("Assigned")), "there is nothing to report");
    world.pass(BACKOFF);
    let (id, _) = world.call_past_heartbeats("JoinGroup");
    world.answer(id, join_error(ErrorCode::UnknownMemberId, ""));
    assert!(!world.trace().iter().any(|it| it.contains("t-0")), "neither assigned nor lost");
}

#[test]
fn an_assignment_that_the_leader_took_long_for_is_taken() {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    let (id, _) = world.call("JoinGroup");
    world.join(id, 1);
    let (id, _) = world.call("SyncGroup");
    world.beating = true;
    world.pass(SESSION * 3);
    world.beating = false;
    world.answer(id, synced(&[0]));
    assert_eq!(world.owned(), [0]);
}

#[test]
fn a_coordinator_that_hands_out_one_id_after_the_other_is_not_asked_without_end() {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    for attempt in 0..5 {
        let (id, _) = world.call("JoinGroup");
        world.answer(id, join_error(ErrorCode::MemberIdRequired, &format!("m{attempt}")));
        if attempt > 0 {
            world.no_call();
            world.pass(BACKOFF);
        }
    }
}

// req: S018
#[test]
fn every_call_carries_the_generation_and_the_id_of_now() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    for generation in 2..5 {
        world.beat(ErrorCode::RebalanceInProgress);
        let (id, _) = world.call("JoinGroup");
        world.join(id, generation);
        let (id, call) = world.call("SyncGroup");
        assert_eq!(identity(&call), ("m", generation));
        world.answer(id, synced(&[0]));
        world.commit(generation as u64, offsets(&[(0, 10)]));
        let (id, call) = world.call("OffsetCommit");
        assert_eq!(identity(&call), ("m", generation));
        world.answer(id, crate::world::commit_codes(&offsets(&[(0, 10)]), ErrorCode::None));
        world.pass(HEARTBEAT);
        let (id, call) = world.call("Heartbeat");
        assert_eq!(identity(&call), ("m", generation));
        world.answer(id, GroupResponse::Heartbeat { code: ErrorCode::None });
    }
}

// A SyncGroup that the coordinator never answers held up the group for as long as a rebalance may take.
#[test]
fn only_a_follower_gives_sync_group_the_time_in_which_a_leader_is_missed() {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    let (id, _) = world.call("JoinGroup");
    let answer = world.joined(1, "m", vec![("m".into(), None, vec![1])]);
    world.answer(id, answer);
    let ticket = world.assigning.expect("the leader is asked to assign");
    let outcome = Ok((vec![("m".to_owned(), assignment(&[t(0)]))], [("t".into(), 1)].into()));
    world.put(Input::AssignmentComputed { ticket, outcome });
    assert_eq!(world.call("SyncGroup").1.extra_timeout(), Duration::ZERO);
    let (_, _, follower) = pending("SyncGroup");
    assert_eq!(follower.extra_timeout(), config(Protocol::Cooperative).member.session_timeout);
}

// req: S019
#[test]
fn the_leader_brings_the_assignments_and_a_follower_an_empty_list() {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    let (id, _) = world.call("JoinGroup");
    let members = vec![("m".into(), None, vec![1]), ("n".into(), None, vec![2])];
    let answer = world.joined(1, "m", members);
    world.answer(id, answer);
    world.no_call();
    let brought = vec![("m".to_owned(), assignment(&[t(0)])), ("n".to_owned(), assignment(&[t(1)]))];
    let ticket = world.assigning.expect("the leader is asked to assign");
    let counts = [("t".into(), 2)].into();
    world.put(Input::AssignmentComputed { ticket, outcome: Ok((brought.clone(), counts)) });
    let (id, call) = world.call("SyncGroup");
    assert!(matches!(call, Call::SyncGroup { assignments, .. } if assignments == brought));
    world.answer(id, synced(&[0]));
    assert_eq!(world.owned(), [0]);

    let (_, _, call) = pending("SyncGroup");
    assert!(matches!(call, Call::SyncGroup { assignments, .. } if assignments.is_empty()));

    // A group of another type, if the broker names the type (KIP-559), is refused.
    for wrong in [Some("connect"), None] {
        let (mut world, id, _) = pending("JoinGroup");
        let GroupResponse::JoinGroup {
            generation, member_id, leader, protocol, skip_assignment, members, code, ..
        } = world.joined(2, "other", Vec::new())
        else {
            unreachable!()
        };
        let protocol_type = wrong.map(str::to_owned);
        let protocol = if wrong.is_none() { Some("another".into()) } else { protocol };
        world.answer(
            id,
            GroupResponse::JoinGroup {
                code,
                generation,
                member_id,
                leader,
                protocol_type,
                protocol,
                skip_assignment,
                members,
            },
        );
        assert!(matches!(world.raised[..], [(GroupError::InconsistentProtocol { .. }, true)]), "{:?}", world.raised);
    }
}

// req: S016
#[test]
fn heartbeats_stop_while_a_join_is_out_and_go_on_with_the_new_generation() {
    let mut world = World::stable(config(Protocol::Eager), &[0]);
    world.beat(ErrorCode::RebalanceInProgress);
    let (id, _) = world.call("JoinGroup");
    world.pass(secs(200));
    world.no_call();
    world.join(id, 2);
    let (id, _) = world.call("SyncGroup");
    world.pass(HEARTBEAT);
    let (beat, call) = world.call("Heartbeat");
    assert_eq!(identity(&call), ("m", 2));
    world.answer(beat, GroupResponse::Heartbeat { code: ErrorCode::None });
    world.answer(id, synced(&[]));
    world.pass(HEARTBEAT);
    assert_eq!(identity(&world.call("Heartbeat").1), ("m", 2));
}

// req: S015
#[test]
fn nothing_is_committed_before_the_first_join() {
    for protocol in [Protocol::Eager, Protocol::Cooperative] {
        let mut world = World::new(config(protocol));
        world.subscribe(&["t"]);
        world.finished = offsets(&[(0, 5)]);
        world.find(1);
        assert_eq!(world.trace(), ["FindCoordinator", "JoinGroup"]);
    }
}

// req: S114
#[test]
fn one_eager_rebalance_with_auto_commit_is_five_calls() {
    let mut world = World::stable(config(Protocol::Eager), &[0, 1]);
    world.finished = offsets(&[(0, 12), (1, 15)]);
    world.beat(ErrorCode::RebalanceInProgress);
    world.commit_answered(ErrorCode::None);
    world.rebalance(2, &[0]);
    world.look_up(12);
    let calls: Vec<String> = world.trace().into_iter().filter(|line| !line.contains(' ')).collect();
    assert_eq!(calls, ["Heartbeat", "OffsetCommit", "JoinGroup", "SyncGroup", "OffsetFetch"]);
}

// req: S020
// req: S062
#[test]
fn what_the_coordinator_refuses_for_good_is_told_with_what_to_do() {
    let refused = |code| {
        let mut world = World::subscribed(config(Protocol::Eager));
        let (id, _) = world.call("JoinGroup");
        world.answer(id, join_error(code, ""));
        world.pass(secs(600));
        world.no_call();
        assert_eq!(world.state(), ClassicState::Fatal);
        let [(error, true)] = &world.raised[..] else { panic!("{:?}", world.raised) };
        error.clone()
    };
    let error = refused(ErrorCode::InconsistentGroupProtocol);
    assert!(matches!(&error, GroupError::InconsistentProtocol { assignors, .. } if assignors == "range"));
    assert!(error.to_string().contains("partition.assignment.strategy"));
    let error = refused(ErrorCode::InvalidSessionTimeout);
    assert_eq!(error, GroupError::InvalidSessionTimeout { session_timeout: SESSION });
    assert!(error.to_string().contains("session.timeout.ms=45000"));
    assert!(matches!(refused(ErrorCode::GroupAuthorizationFailed), GroupError::Denied { .. }));
    assert!(matches!(
        refused(ErrorCode::GroupMaxSizeReached),
        GroupError::Broker { code: ErrorCode::GroupMaxSizeReached, api: "JoinGroup", .. }
    ));
}

// req: S072
#[test]
fn a_join_without_an_answer_is_sent_again_after_another_search() {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    let (id, _) = world.call("JoinGroup");
    world.pass(secs(305));
    world.lose(id);
    world.pass(BACKOFF);
    world.find(2);
    world.pass(BACKOFF);
    world.rebalance(1, &[0]);
    assert_eq!(world.owned(), [0]);
}

// req: S087
#[test]
fn a_member_that_is_not_known_any_more_joins_by_itself() {
    for code in [ErrorCode::UnknownMemberId, ErrorCode::IllegalGeneration] {
        // After a long pause, nothing is handed out until the member knows whether it is still in the group.
        let mut world = World::stable(config(Protocol::Eager), &[0, 1]);
        world.finished = offsets(&[(0, 30)]);
        world.sleep(secs(200));
        assert!(world.lease.is_some_and(|until| until < world.now));
        world.put(Input::Tick);
        world.find(1);
        let (id, _) = world.call("Heartbeat");
        world.trace();
        world.answer(id, GroupResponse::Heartbeat { code });
        assert_eq!(world.trace(), ["dropped t-0 t-1", "Lost t-0 t-1", "JoinGroup"]);
        // The call reaches a new coordinator too late.
        let mut world = World::stable(config(Protocol::Eager), &[0, 1]);
        world.beat(ErrorCode::NotCoordinator);
        world.find(2);
        world.trace();
        world.beat(code);
        assert_eq!(world.trace(), ["Heartbeat", "dropped t-0 t-1", "Lost t-0 t-1", "JoinGroup"]);
        world.rebalance(7, &[1]);
        assert_eq!(world.owned(), [1]);
    }
}

// req: S145
#[test]
fn after_a_failover_in_the_middle_of_a_rebalance_each_goes_on_from_what_it_knows() {
    // The new coordinator has the same generation: the answer to a heartbeat shows it.
    let mut world = World::stable(config(Protocol::Eager), &[0]);
    world.beat(ErrorCode::NotCoordinator);
    world.find(2);
    world.beat(ErrorCode::None);
    assert_eq!(world.state(), ClassicState::Stable);
    // The new coordinator has another generation.
    world.beat(ErrorCode::IllegalGeneration);
    assert_eq!(identity(&world.call("JoinGroup").1).0, "m");
    // The new coordinator has not answered yet.
    let (mut world, id, _) = pending("JoinGroup");
    world.lose(id);
    world.find(2);
    world.pass(BACKOFF);
    world.call("JoinGroup");
    let (mut world, id, _) = pending("SyncGroup");
    world.lose(id);
    world.find(2);
    world.pass(BACKOFF);
    world.rebalance(3, &[0, 1]);
    assert_eq!((world.state(), world.owned()), (ClassicState::Stable, vec![0, 1]));
}

#[test]
fn an_assignor_that_fails_is_the_users_error_and_the_others_need_not_wait() {
    let mut world = World::subscribed(config(Protocol::Eager));
    let (id, _) = world.call("JoinGroup");
    let answer = world.joined(1, "m", Vec::new());
    world.answer(id, answer);
    let ticket = world.assigning.expect("asked");
    let error = AssignError::Failed { assignor: "range".into(), reason: "ran out of luck".into() };
    world.put(Input::AssignmentComputed { ticket, outcome: Err(error.clone()) });
    world.call("LeaveGroup");
    assert_eq!(world.raised, [(GroupError::Assign { group: "g".into(), error }, true)]);
}

#[test]
fn an_assignment_that_is_late_or_brought_twice_changes_nothing() {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    let (id, _) = world.call("JoinGroup");
    let answer = world.joined(1, "m", Vec::new());
    world.answer(id, answer);
    let ticket = world.assigning.expect("asked");
    world.put(Input::AssignmentComputed { ticket: ticket + 1000, outcome: Ok((Vec::new(), [].into())) });
    world.no_call();
    world.put(Input::AssignmentComputed { ticket, outcome: Ok((Vec::new(), [].into())) });
    let (id, _) = world.call("SyncGroup");
    world.put(Input::AssignmentComputed { ticket, outcome: Ok((Vec::new(), [].into())) });
    world.no_call();
    world.answer(id, synced(&[0]));
    world.answer(id, synced(&[0, 1]));
    assert_eq!(world.owned(), [0]);
}

#[test]
fn bytes_that_are_no_assignment_end_the_membership_with_a_reason() {
    let (mut world, id, _) = pending("SyncGroup");
    let assignment = vec![0, 0, 0, 0, 0, 9];
    world.answer(
        id,
        GroupResponse::SyncGroup { code: ErrorCode::None, protocol_type: None, protocol: None, assignment },
    );
    let [(error, true)] = &world.raised[..] else { panic!("{:?}", world.raised) };
    assert!(error.to_string().contains("cannot be read"), "{error}");
}

// KIP-814: a static leader that returns gets skip_assignment, and leaves the assignment as it is.
#[test]
fn a_leader_that_is_to_skip_the_assignment_brings_none_and_still_watches_the_topics() {
    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe(&["t"]);
    world.topics(&[("t", 2)]);
    world.find(1);
    let (id, _) = world.call("JoinGroup");
    let mut answer = world.joined(4, "m", vec![("m".into(), None, vec![1])]);
    if let GroupResponse::JoinGroup { skip_assignment, .. } = &mut answer {
        *skip_assignment = true;
    }
    world.answer(id, answer);
    assert_eq!(world.assigning, None);
    let (id, call) = world.call("SyncGroup");
    assert!(matches!(call, Call::SyncGroup { assignments, .. } if assignments.is_empty()));
    world.answer(id, synced(&[0, 1]));
    world.look_up(10);
    world.topics(&[("t", 2)]);
    world.no_call();
    world.topics(&[("t", 3)]);
    world.call("JoinGroup");
}

#[test]
fn a_leader_that_comes_back_alone_joins_again_for_partitions_that_came_meanwhile() {
    for (members, rejoins) in [(1, true), (2, false)] {
        let mut world = World::new(config(Protocol::Cooperative));
        world.subscribe(&["t"]);
        world.topics(&[("t", 2)]);
        world.find(1);
        let (id, _) = world.call("JoinGroup");
        let members = ["m", "other"][..members].iter().map(|member| ((*member).into(), None, vec![1])).collect();
        let mut answer = world.joined(4, "m", members);
        if let GroupResponse::JoinGroup { skip_assignment, .. } = &mut answer {
            *skip_assignment = true;
        }
        world.answer(id, answer);
        let (id, _) = world.call("SyncGroup");
        world.answer(id, synced(&[0]));
        world.look_up(10);
        match rejoins {
            true => drop(world.call("JoinGroup")),
            false => world.no_call(),
        }
    }
}

// req: S045
#[test]
fn a_rebalance_can_be_had_at_once_or_at_a_time() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.beating = true;
    let at = world.now + secs(100);
    world.put(Input::Rejoin { at, reason: "later".into() });
    let now = world.now;
    world.put(Input::Rejoin { at: now, reason: "at once".into() });
    let (id, call) = world.call("JoinGroup");
    assert!(matches!(call, Call::JoinGroup { reason, .. } if reason == "at once"));
    world.join(id, 2);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, synced(&[0]));
    world.pass(secs(100) - ms(1));
    world.no_call();
    world.pass(ms(1));
    let (_, call) = world.call("JoinGroup");
    assert!(matches!(call, Call::JoinGroup { reason, .. } if reason == "later"));
}

#[test]
fn settings_choose_eager_or_cooperative_and_one_eager_assignor_makes_all_of_it_eager() {
    let mut mixed = config(Protocol::Cooperative);
    mixed.assignors.push(Arc::new(Named("range", Protocol::Eager)));
    for (config, eager) in [(mixed, true), (config(Protocol::Cooperative), false), (config(Protocol::Eager), true)] {
        let names = config.assignors.len();
        let mut world = World::stable(config, &[0, 1]);
        world.beat(ErrorCode::RebalanceInProgress);
        let revoked = world.trace().contains(&"Revoked t-0 t-1".to_owned());
        let (_, call) = world.call("JoinGroup");
        assert_eq!((revoked, subscription(&call).owned.is_empty()), (eager, eager));
        assert!(matches!(call, Call::JoinGroup { protocols, .. } if protocols.len() == names));
    }
}

#[test]
fn a_sync_that_is_told_of_another_rebalance_joins_at_once_and_keeps_what_it_owns() {
    let (mut world, id, _) = pending("SyncGroup");
    world.answer(id, sync_error(ErrorCode::RebalanceInProgress));
    let (_, call) = world.call("JoinGroup");
    assert_eq!(identity(&call).0, "m");
    assert_eq!(subscription(&call).owned, [t(0), t(1)]);
}

#[test]
fn a_second_sync_in_a_row_that_is_refused_is_followed_by_a_pause() {
    for code in [ErrorCode::RebalanceInProgress, ErrorCode::IllegalGeneration, ErrorCode::UnknownMemberId] {
        let (mut world, id, _) = pending("SyncGroup");
        world.answer(id, sync_error(code));
        let (id, _) = world.call("JoinGroup");
        world.join(id, 3);
        let (id, _) = world.call("SyncGroup");
        world.answer(id, sync_error(code));
        world.no_call();
        world.pass(BACKOFF);
        world.call_past_heartbeats("JoinGroup");
    }
}

// The group was upgraded or downgraded in between, and the coordinator counts another assignor as the chosen one. If
// the members have no assignor in common, JoinGroup fails.
#[test]
fn a_sync_whose_assignor_is_not_taken_joins_again_after_a_pause_and_keeps_what_it_owns() {
    let (mut world, id, _) = pending("SyncGroup");
    world.answer(id, sync_error(ErrorCode::InconsistentGroupProtocol));
    assert!(world.raised.is_empty());
    world.pass(BACKOFF);
    let (_, call) = world.call_past_heartbeats("JoinGroup");
    assert_eq!(identity(&call).0, "m");
    assert_eq!(subscription(&call).owned, [t(0), t(1)]);
}
