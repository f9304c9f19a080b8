use monedula_engine::assign::Protocol;
use monedula_engine::group::classic::ClassicState;
use monedula_engine::group::{Call, CallError, CallId, CommitError, GroupError, GroupEvent, GroupResponse, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::pending::{APIS, failed, pending};
use crate::world::{
    BACKOFF, HEARTBEAT, MAX_POLL, Owed, SESSION, World, commit_codes, config, coordinator, identity, offsets, secs,
    synced,
};

#[test]
fn closing_commits_calls_back_and_leaves() {
    for protocol in [Protocol::Eager, Protocol::Cooperative] {
        let mut world = World::stable(config(protocol), &[0, 1]);
        world.finished = offsets(&[(0, 30)]);
        world.close();
        assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 30)]));
        let (id, call) = world.call("LeaveGroup");
        assert_eq!(identity(&call).0, "m");
        world.answer(id, GroupResponse::LeaveGroup { code: ErrorCode::None });
        let order = ["settle t-0 t-1", "OffsetCommit", "Revoked t-0 t-1", "dropped t-0 t-1", "LeaveGroup", "closed"];
        assert_eq!(world.trace(), order);
        world.pass(secs(600));
        world.no_call();
        assert_eq!(world.member.wake_at(), None);
    }
}

#[test]
fn that_it_left_is_told_even_if_a_heartbeat_hears_of_it_first() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.pass(HEARTBEAT);
    let (heartbeat, _) = world.call("Heartbeat");
    world.close();
    let (leave, _) = world.call("LeaveGroup");
    world.answer(heartbeat, GroupResponse::Heartbeat { code: ErrorCode::UnknownMemberId });
    world.answer(leave, GroupResponse::LeaveGroup { code: ErrorCode::None });
    assert_eq!(world.trace().last().map(String::as_str), Some("closed"));
    assert!(world.events.iter().any(|event| matches!(event, GroupEvent::Left { .. })), "{:?}", world.events);
}

#[test]
fn what_was_brought_for_one_way_out_goes_with_the_next() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0, 1]);
    world.busy = true;
    world.finished = offsets(&[(0, 30)]);
    world.put(Input::Unsubscribe);
    world.close();
    // The first leaving is over. A late answer to it does not count for the second, and closing again ends that too.
    world.pay_one();
    world.close();
    world.user_returns();
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 30)]));
    let (id, _) = world.call("LeaveGroup");
    world.answer(id, GroupResponse::LeaveGroup { code: ErrorCode::None });
    assert_eq!(world.trace().last().map(String::as_str), Some("closed"));
}

// 17. close_sends_leave_retrying_not_coordinator; lost-response UNKNOWN_MEMBER = success
#[test]
fn close_sends_leave_retrying_not_coordinator() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.close();
    let (id, _) = world.call("LeaveGroup");
    world.answer(id, GroupResponse::LeaveGroup { code: ErrorCode::NotCoordinator });
    world.find(2);
    world.pass(BACKOFF);
    let (id, _) = world.call("LeaveGroup");
    world.lose(id);
    world.pass(BACKOFF);
    world.find(2);
    world.pass(BACKOFF);
    let (id, _) = world.call("LeaveGroup");
    world.answer(id, GroupResponse::LeaveGroup { code: ErrorCode::UnknownMemberId });
    assert_eq!(world.trace().last().map(String::as_str), Some("closed"));
    assert_eq!(world.raised, []);
}

/// Members with one call of each kind in flight, and members in each other state.
fn everywhere() -> Vec<(String, World)> {
    let mut worlds: Vec<(String, World)> = APIS.iter().map(|api| ((*api).to_owned(), pending(api).0)).collect();
    worlds.push(("Unsubscribed".into(), World::new(config(Protocol::Cooperative))));
    for (step, settled) in [("settling", false), ("calling back", true)] {
        let mut world = World::stable(config(Protocol::Eager), &[0, 1]);
        world.busy = true;
        world.beat(ErrorCode::RebalanceInProgress);
        if settled {
            let Some(Owed::Settle(ticket, _)) = world.owed.pop_front() else { panic!() };
            world.put(Input::Finished { ticket, offsets: offsets(&[]) });
        }
        worlds.push((step.into(), world));
    }
    let mut world = World::stable(config(Protocol::Eager), &[0, 1]);
    world.finished = offsets(&[(0, 15)]);
    world.beat(ErrorCode::RebalanceInProgress);
    worlds.push(("committing".into(), world));
    let mut world = World::subscribed(config(Protocol::Eager));
    let (id, _) = world.call("JoinGroup");
    let answer = world.joined(1, "m", Vec::new());
    world.answer(id, answer);
    worlds.push(("assigning".into(), world));
    let (mut world, id, _) = pending("JoinGroup");
    world.lose(id);
    worlds.push(("in doubt".into(), world));
    let (mut world, id, _) = pending("Heartbeat");
    world.answer(id, failed("Heartbeat", ErrorCode::GroupAuthorizationFailed));
    worlds.push(("fatal".into(), world));
    let mut world = World::stable(config(Protocol::Eager), &[0, 1]);
    (world.polling, world.beating) = (false, true);
    world.pass(MAX_POLL);
    assert_eq!(world.state(), ClassicState::Stale);
    worlds.push(("stale".into(), world));
    worlds
}

#[test]
fn closing_ends_in_time_in_every_state_whoever_does_not_answer() {
    for (name, mut world) in everywhere() {
        world.trace();
        world.busy = true;
        world.commit(500, offsets(&[(0, 99)]));
        world.close();
        world.pass(secs(30));
        let trace = world.trace();
        assert_eq!(trace.iter().filter(|line| *line == "closed").count(), 1, "{name}: {trace:?}");
        assert_eq!(trace.last().map(String::as_str), Some("closed"), "{name}: nothing follows");
        assert_eq!((world.state(), world.owned().len()), (ClassicState::Unsubscribed, 0), "{name}");
        assert!(world.outcome(500).is_some(), "{name}: every commit is answered before");
        assert_eq!(world.member.wake_at(), None, "{name}");
        world.pass(secs(600));
        assert_eq!(world.trace(), [""; 0], "{name}");
    }
}

#[test]
fn unsubscribing_ends_in_time_in_every_state_and_one_may_subscribe_again() {
    for (name, mut world) in everywhere() {
        world.put(Input::Unsubscribe);
        world.pass(MAX_POLL + SESSION);
        assert_eq!((world.state(), world.owned().len()), (ClassicState::Unsubscribed, 0), "{name}");
        world.trace();
        (world.busy, world.beating, world.polling) = (false, true, true);
        world.owed.clear();
        world.lose_all();
        world.subscribe(&["t"]);
        world.pass(BACKOFF);
        if world.apis() == ["FindCoordinator"] {
            world.find(1);
        }
        world.rebalance(8, &[3]);
        assert_eq!(world.owned(), [3], "{name}");
        assert_eq!(world.member.status().fatal, None, "{name}");
    }
}

#[test]
fn a_fatal_error_in_every_state_is_raised_once_and_ends_it() {
    for api in APIS.into_iter().filter(|api| *api != "LeaveGroup") {
        let (mut world, id, _) = pending(api);
        let owned = world.owned();
        let never = format!("the broker has no version of {api}");
        world.put(Input::Answer { id, outcome: Err(CallError::Never(never.clone())) });
        assert_eq!(world.raised, [(GroupError::Call { group: "g".into(), reason: never }, true)], "{api}");
        assert_eq!((world.state(), world.owned().len()), (ClassicState::Fatal, 0), "{api}");
        let lost = world.trace().iter().any(|line| line.starts_with("Lost"));
        assert_eq!(lost, !owned.is_empty(), "{api}");
        world.subscribe(&["u"]);
        world.pass(secs(600));
        world.no_call();
        assert_eq!(world.raised.len(), 1, "{api}");
    }
    let (mut world, id, _) = pending("LeaveGroup");
    world.put(Input::Answer { id, outcome: Err(CallError::Never("no version".into())) });
    assert_eq!(
        (world.state(), world.raised.len()),
        (ClassicState::Unsubscribed, 0),
        "there is nothing to end any more"
    );
}

#[test]
fn a_group_that_may_not_be_used_is_left_without_asking_again_and_again() {
    let (mut world, id, _) = pending("Heartbeat");
    world.answer(id, GroupResponse::Heartbeat { code: ErrorCode::NotCoordinator });
    let (id, _) = world.call("FindCoordinator");
    world.answer(id, coordinator(ErrorCode::GroupAuthorizationFailed, -1));
    assert_eq!(world.state(), ClassicState::Fatal);
    world.close();
    let (id, _) = world.call("FindCoordinator");
    world.answer(id, coordinator(ErrorCode::GroupAuthorizationFailed, -1));
    assert_eq!(world.trace().last().map(String::as_str), Some("closed"));
    assert_eq!(world.raised.len(), 1);
}

#[test]
fn a_heartbeat_of_before_that_is_answered_while_leaving_does_no_harm() {
    for code in [ErrorCode::UnknownMemberId, ErrorCode::IllegalGeneration, ErrorCode::FencedInstanceId] {
        let mut world = World::stable(config(Protocol::Cooperative), &[0]);
        world.pass(HEARTBEAT);
        let (beat, _) = world.call("Heartbeat");
        world.close();
        let (leave, _) = world.call("LeaveGroup");
        world.answer(beat, GroupResponse::Heartbeat { code });
        world.answer(leave, GroupResponse::LeaveGroup { code: ErrorCode::NotCoordinator });
        if world.state() == ClassicState::Leaving {
            world.find(2);
            world.pass(BACKOFF);
        }
        if world.state() == ClassicState::Leaving {
            let (leave, _) = world.call("LeaveGroup");
            world.answer(leave, GroupResponse::LeaveGroup { code: ErrorCode::None });
        }
        assert_eq!(world.trace().last().map(String::as_str), Some("closed"), "{code}");
        assert_eq!(world.raised, [], "{code}");
    }
}

#[test]
fn a_member_that_leaves_gives_up_at_once_what_is_another_members_by_the_answer_to_a_join() {
    for api in ["JoinGroup", "SyncGroup"] {
        let (mut world, id, _) = pending(api);
        world.busy = true;
        world.close();
        assert_eq!(world.trace(), ["settle t-0 t-1"], "{api}");
        world.answer(id, failed(api, ErrorCode::UnknownMemberId));
        assert_eq!(world.trace(), ["dropped t-0 t-1", "Lost t-0 t-1", "closed"], "{api}");
    }
    // Another process has the member's static id.
    let mut world = World::stable(crate::static_members::fixed(), &[0]);
    world.beat(ErrorCode::RebalanceInProgress);
    let (id, _) = world.call("JoinGroup");
    world.busy = true;
    world.close();
    world.trace();
    world.answer(id, failed("JoinGroup", ErrorCode::FencedInstanceId));
    assert_eq!(world.trace(), ["dropped t-0", "Lost t-0", "fatal", "closed"]);
    // Its other answers are about a generation that the member is not in any more.
    let (mut world, id, _) = pending("SyncGroup");
    world.busy = true;
    world.close();
    world.answer(id, failed("SyncGroup", ErrorCode::RebalanceInProgress));
    assert_eq!(world.owned(), [0, 1]);
}

/// A member in generation 1 whose JoinGroup for the next generation is in flight.
fn joining(partitions: &[i32]) -> (World, CallId) {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    world.rebalance(1, partitions);
    if !partitions.is_empty() {
        world.look_up(10);
    }
    world.beat(ErrorCode::RebalanceInProgress);
    let (join, _) = world.call("JoinGroup");
    world.trace();
    (world, join)
}

/// Expects a commit in this generation, and answers it.
#[track_caller]
fn commits(world: &mut World, generation: i32, code: ErrorCode) {
    let (id, call) = world.call_past_heartbeats("OffsetCommit");
    assert_eq!(identity(&call), ("m", generation));
    world.answer(id, commit_codes(&offsets(&[(0, 30)]), code));
}

#[test]
fn what_was_finished_is_committed_though_the_group_moves_on_while_the_member_leaves() {
    // Either the coordinator gets the commit of the old generation first, or the member learns of the new one first.
    for refused_first in [true, false] {
        let (mut world, join) = joining(&[0, 1]);
        world.finished = offsets(&[(0, 30)]);
        world.close();
        if refused_first {
            commits(&mut world, 1, ErrorCode::IllegalGeneration);
            world.join(join, 2);
        } else {
            world.join(join, 2);
            commits(&mut world, 1, ErrorCode::IllegalGeneration);
        }
        let (sync, call) = world.call_past_heartbeats("SyncGroup");
        assert_eq!(identity(&call), ("m", 2));
        world.pass(BACKOFF);
        commits(&mut world, 2, ErrorCode::RebalanceInProgress);
        world.answer(sync, synced(&[0, 1]));
        world.pass(BACKOFF * 2);
        commits(&mut world, 2, ErrorCode::None);
        assert!(!world.events.iter().any(|event| matches!(event, GroupEvent::Lost { .. })), "{:?}", world.events);
        let (leave, _) = world.call_past_heartbeats("LeaveGroup");
        world.answer(leave, GroupResponse::LeaveGroup { code: ErrorCode::None });
        let trace = world.trace();
        assert!(trace.contains(&"Revoked t-0 t-1".to_owned()), "{trace:?}");
        assert_eq!(trace.last().map(String::as_str), Some("closed"));
    }
}

#[test]
fn a_leader_that_leaves_assigns_while_it_has_something_to_commit() {
    let (mut world, join) = joining(&[0]);
    world.busy = true;
    world.finished = offsets(&[(0, 30)]);
    world.close();
    let answer = world.joined(2, "m", vec![("m".into(), None, vec![1]), ("n".into(), None, vec![2])]);
    world.answer(join, answer);
    let ticket = world.assigning.take().expect("nobody else does");
    let assignments = vec![("n".to_owned(), vec![7])];
    world.put(Input::AssignmentComputed { ticket, outcome: Ok((assignments.clone(), [].into())) });
    let (_, call) = world.call("SyncGroup");
    let Call::SyncGroup { assignments: sent, .. } = call else { panic!("{call:?}") };
    assert_eq!(sent, assignments);
    // The member does not wait for commits of other partitions.
    world.user_returns();
    commits(&mut world, 2, ErrorCode::None);
    world.call_past_heartbeats("LeaveGroup");
}

#[test]
fn who_leaves_without_anything_to_give_up_does_not_wait_for_the_rebalance() {
    let (mut world, join) = joining(&[]);
    world.close();
    let (leave, _) = world.call("LeaveGroup");
    world.join(join, 2);
    world.no_call();
    world.answer(leave, GroupResponse::LeaveGroup { code: ErrorCode::None });
    assert_eq!(world.trace().last().map(String::as_str), Some("closed"));
}

#[test]
fn a_subscription_while_the_group_is_left_waits_until_it_is_left() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.put(Input::Unsubscribe);
    let (id, _) = world.call("LeaveGroup");
    world.subscribe(&["u"]);
    world.no_call();
    world.answer(id, GroupResponse::LeaveGroup { code: ErrorCode::None });
    let (_, call) = world.call("JoinGroup");
    assert_eq!(identity(&call).0, "");
}

#[test]
fn commits_that_wait_when_the_time_is_over_say_that_it_was_closed() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.commit(1, offsets(&[(0, 30)]));
    world.call("OffsetCommit");
    world.close();
    world.beating = true;
    world.pass(secs(30));
    assert_eq!(world.commit_error(1), CommitError::Closed);
}

#[test]
fn a_member_may_be_closed_without_a_word() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.finished = offsets(&[(0, 30)]);
    let deadline = world.now + secs(30);
    world.put(Input::Close { deadline, leave: false });
    world.commit_answered(ErrorCode::None);
    assert_eq!(world.trace().last().map(String::as_str), Some("closed"));
    world.no_call();
}

#[test]
fn what_is_asked_to_leave_is_one_member_and_says_why() {
    let (_, _, call) = pending("LeaveGroup");
    let Call::LeaveGroup { member_id, instance_id, reason, .. } = call else { panic!() };
    assert_eq!((member_id.as_str(), instance_id), ("m", None));
    assert!(reason.contains("unsubscribed"), "{reason}");
}
