use monedula_engine::assign::Protocol;
use monedula_engine::group::classic::ClassicState;
use monedula_engine::group::{CommitError, GroupResponse, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::pending::{TICKET, failed, pending};
use crate::world::{BACKOFF, HEARTBEAT, SESSION, World, commit_codes, config, identity, ms, offsets, secs, t};

fn manual(protocol: Protocol, partitions: &[i32]) -> World {
    let mut setup = config(protocol);
    setup.member.auto_commit_interval = None;
    World::stable(setup, partitions)
}

// req: S155
#[test]
fn a_chosen_offset_is_committed_as_it_is_even_a_lower_one() {
    let mut world = manual(Protocol::Cooperative, &[0]);
    for offset in [50, 20] {
        world.commit(offset as u64, offsets(&[(0, offset)]));
        assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, offset)]));
        assert!(world.outcome(offset as u64).is_some_and(|outcomes| outcomes[&t(0)].1.is_ok()));
    }
    // The next owner starts at the committed offset.
    let mut next = World::subscribed(config(Protocol::Cooperative));
    next.rebalance(1, &[0]);
    next.look_up(20);
    assert_eq!(next.starts, [(t(0), Some(crate::world::at(20)), false)]);
}

// 3. commits_never_reorder_across_reconnect
#[test]
fn commits_never_reorder_across_reconnect() {
    let mut world = manual(Protocol::Cooperative, &[0]);
    for offset in 1..=3 {
        world.commit(offset, offsets(&[(0, offset as i64)]));
    }
    let (first, _) = world.call("OffsetCommit");
    world.no_call();
    world.lose(first);
    world.find(1);
    world.pass(BACKOFF);
    for offset in 1..=3 {
        world.no_call_but("OffsetCommit");
        assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, offset)]));
    }
}

#[test]
fn the_next_commit_does_not_overtake_one_that_timed_out_and_is_still_under_way() {
    let mut world = manual(Protocol::Cooperative, &[0]);
    world.beating = true;
    let deadline = world.now + secs(5);
    world.put(Input::Commit { ticket: 1, offsets: offsets(&[(0, 10)]), deadline });
    let (first, _) = world.call("OffsetCommit");
    world.pass(secs(6));
    assert!(matches!(world.commit_error(1), CommitError::TimedOut { .. }));
    world.commit(2, offsets(&[(0, 20)]));
    world.no_call();
    // A late answer to the first commit does not count for the second.
    world.answer(first, commit_codes(&offsets(&[(0, 10)]), ErrorCode::None));
    assert_eq!(world.outcome(2), None, "nothing was sent for it yet");
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 20)]));
    assert!(world.outcome(2).is_some_and(|outcomes| outcomes[&t(0)].1.is_ok()));
}

// 4. autocommit_waits_for_overlapping_manual_commits
#[test]
fn autocommit_waits_for_overlapping_manual_commits() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.beating = true;
    world.commit(1, offsets(&[(0, 10)]));
    let (id, _) = world.call("OffsetCommit");
    world.finished = offsets(&[(0, 20)]);
    world.pass(secs(6));
    world.no_call();
    world.answer(id, commit_codes(&offsets(&[(0, 10)]), ErrorCode::None));
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 20)]));
}

// 5. late_commit_for_revoked_partition_is_refused_locally
#[test]
fn late_commit_for_revoked_partition_is_refused_locally() {
    let mut world = manual(Protocol::Cooperative, &[0, 1]);
    world.beat(ErrorCode::RebalanceInProgress);
    world.rebalance(2, &[0]);
    world.rebalance(3, &[0]);
    world.commit(1, offsets(&[(0, 10), (1, 20)]));
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 10)]), "the rest goes on");
    let outcomes = world.outcome(1).expect("answered");
    assert_eq!((&outcomes[&t(0)].1, &outcomes[&t(1)].1), (&Ok(()), &Err(CommitError::NotOwned)));
}

// req: S141
// 13. commit_fatal_member_error_rejoins_at_once (classic)
#[test]
fn commit_fatal_member_error_rejoins_at_once() {
    for (code, id) in [(ErrorCode::UnknownMemberId, ""), (ErrorCode::IllegalGeneration, "m")] {
        let (mut world, call, _) = pending("OffsetCommit");
        world.answer(call, failed("OffsetCommit", code));
        assert_eq!(world.trace(), ["dropped t-0 t-1", "Lost t-0 t-1", "JoinGroup"]);
        assert_eq!(identity(&world.call("JoinGroup").1).0, id);
        assert_eq!(world.commit_error(TICKET), CommitError::MemberGone { code });
    }
    let retried = [ErrorCode::CoordinatorLoadInProgress, ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId];
    for code in retried {
        let (mut world, call, _) = pending("OffsetCommit");
        world.answer(call, failed("OffsetCommit", code));
        world.no_call();
        world.pass(BACKOFF);
        assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 20)]));
        assert!(world.outcome(TICKET).is_some());
    }
    // The same in the answer to a join or a heartbeat.
    for api in ["JoinGroup", "Heartbeat"] {
        let (mut world, call, _) = pending(api);
        world.answer(call, failed(api, ErrorCode::UnknownMemberId));
        assert_eq!(identity(&world.call("JoinGroup").1).0, "", "{api}");
    }
}

// contract 3
#[test]
fn a_rebalance_in_progress_leads_to_a_join_and_the_commit_goes_out_with_the_next_generation() {
    let (mut world, id, _) = pending("OffsetCommit");
    world.answer(id, failed("OffsetCommit", ErrorCode::RebalanceInProgress));
    world.rebalance(2, &[0, 1]);
    world.pass(BACKOFF);
    let (id, call) = world.call("OffsetCommit");
    assert_eq!(identity(&call), ("m", 2));
    world.answer(id, commit_codes(&offsets(&[(0, 20)]), ErrorCode::None));
    assert!(world.outcome(TICKET).is_some_and(|outcomes| outcomes[&t(0)].1.is_ok()));
}

#[test]
fn an_answer_to_the_commit_of_an_older_generation_does_not_end_the_membership() {
    for code in [ErrorCode::IllegalGeneration, ErrorCode::UnknownMemberId, ErrorCode::FencedInstanceId] {
        let (mut world, late, _) = pending("OffsetCommit");
        let now = world.now;
        world.put(Input::Rejoin { at: now, reason: "test".into() });
        world.rebalance(2, &[0, 1]);
        world.answer(late, failed("OffsetCommit", code));
        assert_eq!((world.state(), world.owned()), (ClassicState::Stable, vec![0, 1]), "{code}");
        world.pass(BACKOFF);
        assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 20)]));
    }
}

#[test]
fn each_partition_of_a_commit_has_its_own_outcome_and_one_that_is_left_out_is_sent_again() {
    let mut world = manual(Protocol::Cooperative, &[0, 1, 2]);
    world.commit(1, offsets(&[(0, 10), (1, 20), (2, 30)]));
    let (id, _) = world.call("OffsetCommit");
    // An answer about a partition that was not in the request is ignored.
    let codes =
        [(t(0), ErrorCode::None), (t(1), ErrorCode::OffsetMetadataTooLarge), (t(9), ErrorCode::UnknownMemberId)];
    world.answer(id, GroupResponse::OffsetCommit { codes: codes.into() });
    world.pass(BACKOFF);
    if world.apis() == ["FindCoordinator"] {
        world.find(1);
    }
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(2, 30)]));
    let outcomes = world.outcome(1).expect("answered");
    assert_eq!(outcomes[&t(0)].1, Ok(()));
    assert_eq!(outcomes[&t(1)].1, Err(CommitError::Refused { code: ErrorCode::OffsetMetadataTooLarge }));
    assert_eq!((&outcomes[&t(2)].1, outcomes.len()), (&Ok(()), 3));
}

#[test]
fn of_several_errors_the_one_about_the_membership_counts() {
    for codes in [
        [(0, ErrorCode::UnknownMemberId), (1, ErrorCode::UnknownTopicOrPartition)],
        [(0, ErrorCode::UnknownTopicOrPartition), (1, ErrorCode::UnknownMemberId)],
    ] {
        let mut world = manual(Protocol::Cooperative, &[0, 1]);
        world.commit(1, offsets(&[(0, 10), (1, 20)]));
        let (id, _) = world.call("OffsetCommit");
        let codes = codes.into_iter().map(|(partition, code)| (t(partition), code)).collect();
        world.answer(id, GroupResponse::OffsetCommit { codes });
        assert_eq!(identity(&world.call("JoinGroup").1).0, "");
    }
}

#[test]
fn every_commit_ends_at_its_deadline_and_says_what_it_waited_for() {
    let mut world = manual(Protocol::Cooperative, &[0]);
    world.pass(HEARTBEAT);
    let (id, _) = world.call("Heartbeat");
    world.lose(id);
    world.commit(1, offsets(&[(0, 10)]));
    world.pass(secs(60) - ms(1));
    assert_eq!(world.outcome(1), None);
    world.pass(ms(1));
    let CommitError::TimedOut { last } = world.commit_error(1) else { panic!() };
    assert!(last.contains("coordinator not known"), "{last}");
    // A commit whose deadline is over already is answered too.
    let deadline = world.now - secs(1);
    world.put(Input::Commit { ticket: 2, offsets: offsets(&[(0, 10)]), deadline });
    world.pass(ms(0));
    assert!(matches!(world.commit_error(2), CommitError::TimedOut { .. }));
}

#[test]
fn a_commit_that_is_under_way_at_its_deadline_does_not_say_that_none_was_made() {
    let mut world = manual(Protocol::Cooperative, &[0]);
    let deadline = world.now + secs(1);
    world.put(Input::Commit { ticket: 1, offsets: offsets(&[(0, 10)]), deadline });
    world.call("OffsetCommit");
    world.pass(secs(1));
    let CommitError::TimedOut { last } = world.commit_error(1) else { panic!() };
    assert!(last.contains("no answer"), "{last}");
}

// contract 7
#[test]
fn nothing_is_committed_past_the_lease_until_a_heartbeat_succeeds() {
    let mut world = manual(Protocol::Cooperative, &[0]);
    world.sleep(SESSION);
    world.commit(1, offsets(&[(0, 10)]));
    if world.apis().contains(&"FindCoordinator") {
        world.find(1);
    }
    let (id, _) = world.call("Heartbeat");
    world.no_call();
    world.answer(id, GroupResponse::Heartbeat { code: ErrorCode::None });
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 10)]));
}

#[test]
fn commits_without_a_membership_are_refused_at_once() {
    let mut world = World::new(config(Protocol::Cooperative));
    world.commit(1, offsets(&[(0, 10)]));
    assert_eq!(world.commit_error(1), CommitError::NotOwned);
    world.close();
    world.commit(2, offsets(&[(0, 10)]));
    assert_eq!(world.commit_error(2), CommitError::NotOwned);
    world.commit(3, offsets(&[]));
    assert_eq!(world.outcome(3).map(|outcomes| outcomes.len()), Some(0));
}
