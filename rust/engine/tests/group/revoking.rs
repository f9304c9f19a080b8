use monedula_engine::assign::Protocol;
use monedula_engine::group::classic::ClassicState;
use monedula_engine::group::{Call, CallbackKind, CommitError, GroupEvent, GroupResponse, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{AUTO_COMMIT, BACKOFF, Offsets, Owed, World, config, identity, ms, offsets, secs, t};

fn noticed(world: &mut World) {
    world.beat(ErrorCode::RebalanceInProgress);
    world.trace();
}

// req: S011
// req: S013
// contract 2
#[test]
fn delivery_stops_then_the_user_finishes_then_it_is_committed_then_told_then_joined() {
    let mut world = World::stable(config(Protocol::Eager), &[0, 1]);
    world.busy = true;
    world.finished = offsets(&[(0, 12)]);
    world.beat(ErrorCode::RebalanceInProgress);
    assert_eq!(world.trace(), ["Heartbeat", "settle t-0 t-1"], "and no join before the user has finished");
    world.no_call();
    assert!(matches!(world.events.last(), Some(GroupEvent::RebalanceWanted { partitions }) if partitions.len() == 2));
    // Rows that are finished meanwhile count; the snapshot is taken when the user holds none any more.
    world.finished = offsets(&[(0, 15), (1, 20)]);
    world.user_returns();
    assert_eq!(world.trace(), ["OffsetCommit"]);
    let (id, call) = world.call("OffsetCommit");
    assert_eq!(identity(&call), ("m", 1));
    world.no_call();
    world.answer(id, crate::world::commit_codes(&offsets(&[(0, 15), (1, 20)]), ErrorCode::None));
    assert_eq!(world.trace(), ["Revoked t-0 t-1", "dropped t-0 t-1", "JoinGroup"]);
    assert_eq!(world.committed.last().map(|(_, outcomes)| outcomes.len()), Some(2));
}

#[test]
fn a_deleted_topic_does_not_hold_up_a_revocation() {
    for code in [ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId] {
        let mut world = World::stable(config(Protocol::Eager), &[0]);
        world.finished = offsets(&[(0, 15)]);
        noticed(&mut world);
        world.beating = true;
        for _ in 1..5 {
            world.commit_answered(code);
            world.pass(BACKOFF);
        }
        world.trace();
        world.commit_answered(code);
        let trace = world.trace();
        let told: Vec<&str> = trace.iter().map(String::as_str).filter(|line| *line != "refresh").collect();
        assert_eq!(told, ["Revoked t-0", "dropped t-0", "JoinGroup"], "{code}");
    }
}

// Whichever commit names the deleted topic: the user's is in the queue before that of the revocation.
#[test]
fn a_commit_of_the_users_that_names_a_deleted_topic_does_not_hold_up_a_revocation() {
    for deleted in [0, 1] {
        let mut world = World::stable(config(Protocol::Eager), &[0, 1]);
        world.beating = true;
        world.commit(1, offsets(&[(0, 20), (1, 20)]));
        world.finished = offsets(&[(1 - deleted, 25)]);
        let codes = |offsets: Offsets| {
            let code = |partition: i32| match partition == deleted {
                true => ErrorCode::UnknownTopicOrPartition,
                false => ErrorCode::None,
            };
            offsets.into_keys().map(|partition| (partition.clone(), code(partition.partition))).collect()
        };
        for attempt in 0..5 {
            let (id, call) = world.call("OffsetCommit");
            let Call::OffsetCommit { offsets, .. } = call else { panic!("{call:?}") };
            assert_eq!(offsets.len(), if attempt == 0 { 2 } else { 1 }, "what was committed is not sent again");
            world.answer(id, GroupResponse::OffsetCommit { codes: codes(offsets) });
            if attempt == 0 {
                world.rejoin();
            }
            world.pass(BACKOFF);
        }
        let refused = CommitError::Refused { code: ErrorCode::UnknownTopicOrPartition };
        assert_eq!(world.commit_error(1), refused, "the user gets the reason");
        world.trace();
        assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(1 - deleted, 25)]));
        assert_eq!(world.trace(), ["Revoked t-0 t-1", "dropped t-0 t-1", "JoinGroup"]);
    }
}

// req: S014
#[test]
fn without_auto_commit_the_callback_is_where_the_user_commits() {
    let mut setup = config(Protocol::Eager);
    setup.member.auto_commit_interval = None;
    let mut world = World::stable(setup, &[0]);
    world.busy = true;
    world.finished = offsets(&[(0, 15)]);
    noticed(&mut world);
    let Some(Owed::Settle(ticket, _)) = world.owed.pop_front() else { panic!() };
    world.put(Input::Finished { ticket, offsets: offsets(&[(0, 15)]) });
    assert_eq!(world.trace(), ["Revoked t-0"], "nothing is committed by itself");
    world.commit(1, offsets(&[(0, 14)]));
    world.commit_answered(ErrorCode::None);
    assert!(world.outcome(1).is_some());
    world.no_call();
    world.user_returns();
    world.call("JoinGroup");
}

// req: S150
#[test]
fn what_the_user_commits_without_waiting_is_complete_before_the_join_leaves() {
    let mut world = World::stable(config(Protocol::Eager), &[0]);
    // Synchronous and asynchronous commits are the same to the machine: the ticket is answered once.
    world.commit(1, offsets(&[(0, 15)]));
    let (id, _) = world.call("OffsetCommit");
    world.commit(2, offsets(&[(0, 16)]));
    noticed(&mut world);
    world.no_call();
    world.answer(id, crate::world::commit_codes(&offsets(&[(0, 15)]), ErrorCode::None));
    assert_eq!(world.owned(), [0]);
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 16)]));
    assert!(world.outcome(1).is_some() && world.outcome(2).is_some());
    world.call("JoinGroup");
}

#[test]
fn a_commit_of_the_user_that_comes_to_nothing_does_not_hold_the_join_for_ever() {
    let mut world = World::stable(config(Protocol::Eager), &[0]);
    let deadline = world.now + secs(3600);
    world.put(Input::Commit { ticket: 1, offsets: offsets(&[(0, 15)]), deadline });
    world.call("OffsetCommit");
    noticed(&mut world);
    world.beating = true;
    world.pass(secs(31));
    world.call("JoinGroup");
    assert_eq!(world.commit_error(1), CommitError::NotOwned);
}

#[test]
fn a_coordinator_that_does_not_commit_holds_the_join_for_a_bounded_time() {
    let mut world = World::stable(config(Protocol::Eager), &[0]);
    world.finished = offsets(&[(0, 15)]);
    noticed(&mut world);
    world.call("OffsetCommit");
    world.beating = true;
    world.pass(secs(30) - ms(1));
    assert_eq!(world.trace(), [""; 0]);
    world.pass(ms(1));
    assert_eq!(world.trace(), ["Revoked t-0", "dropped t-0", "JoinGroup"]);
    assert!(matches!(&world.committed[..], [(None, outcomes)] if outcomes[&t(0)].1.is_err()));
}

#[test]
fn the_waits_for_commits_leave_time_to_join_in() {
    let mut setup = config(Protocol::Eager);
    setup.member.max_poll_interval = secs(12);
    let mut world = World::stable(setup, &[0]);
    world.finished = offsets(&[(0, 15)]);
    noticed(&mut world);
    world.call("OffsetCommit");
    world.beating = true;
    // The user's own commit is waited for after the machine's.
    let deadline = world.now + secs(3600);
    world.put(Input::Commit { ticket: 1, offsets: offsets(&[(0, 15)]), deadline });
    world.pass(secs(8));
    assert_eq!(world.trace(), ["Revoked t-0", "dropped t-0", "JoinGroup"]);
}

// contract 2: partitions that are lost take another path.
#[test]
fn what_is_lost_is_dropped_and_never_committed() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0, 1]);
    world.finished = offsets(&[(0, 15)]);
    world.beat(ErrorCode::UnknownMemberId);
    assert_eq!(world.trace(), ["Heartbeat", "dropped t-0 t-1", "Lost t-0 t-1", "JoinGroup"]);
    world.commit(1, offsets(&[(0, 15)]));
    assert_eq!(world.commit_error(1), CommitError::NotOwned);
}

#[test]
fn a_partition_is_told_of_once_when_it_is_lost_while_it_is_revoked() {
    for calling_back in [true, false] {
        let mut world = World::stable(config(Protocol::Eager), &[0]);
        world.busy = true;
        world.pass(secs(1));
        world.rejoin();
        let Some(Owed::Settle(ticket, _)) = world.owed.pop_front() else { panic!() };
        if calling_back {
            world.put(Input::Finished { ticket, offsets: offsets(&[]) });
            assert_eq!(
                world.owed.front().map(|owed| matches!(owed, Owed::Callback(_, CallbackKind::Revoked))),
                Some(true)
            );
        }
        world.trace();
        world.beat(ErrorCode::UnknownMemberId);
        let told = if calling_back {
            vec!["Heartbeat", "dropped t-0", "JoinGroup"]
        } else {
            vec!["Heartbeat", "dropped t-0", "Lost t-0", "JoinGroup"]
        };
        assert_eq!(world.trace(), told);
        // The end of that callback and the collected offsets arrive too late, and change nothing.
        world.put(Input::Finished { ticket, offsets: offsets(&[(0, 15)]) });
        world.user_returns();
        assert_eq!(world.apis(), ["JoinGroup"]);
    }
}

#[test]
fn what_was_brought_for_something_that_is_over_is_to_be_brought_again() {
    let mut world = World::stable(config(Protocol::Eager), &[0]);
    world.put(Input::Finished { ticket: 999, offsets: offsets(&[(0, 15)]) });
    world.no_call();
    assert!(matches!(&world.committed[..], [(None, outcomes)] if outcomes[&t(0)].1.is_err()));
}

// req: S085
#[test]
fn callbacks_tell_each_gain_and_each_loss_once_and_leaving_frees_at_once() {
    let mut world = World::subscribed(config(Protocol::Eager));
    world.rebalance(1, &[0, 1]);
    world.look_up(10);
    world.beat(ErrorCode::RebalanceInProgress);
    world.rebalance(2, &[1]);
    world.look_up(10);
    world.beat(ErrorCode::UnknownMemberId);
    world.rebalance(3, &[2]);
    world.look_up(10);
    world.put(Input::Unsubscribe);
    world.call("LeaveGroup");
    let told: Vec<String> =
        world.trace().into_iter().filter(|line| line.starts_with(char::is_uppercase) && line.contains(' ')).collect();
    assert_eq!(
        told,
        ["Assigned t-0 t-1", "Revoked t-0 t-1", "Assigned t-1", "Lost t-1", "Assigned t-2", "Revoked t-2"]
    );
}

// req: S028
#[test]
fn what_is_newly_finished_is_committed_every_interval() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0, 1]);
    world.beating = true;
    for round in 1..5 {
        world.finished = offsets(&[(0, 10 + round), (1, 20 + round)]);
        world.pass(AUTO_COMMIT - ms(1));
        world.no_call();
        world.pass(ms(1));
        assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 10 + round), (1, 20 + round)]));
    }
    // Nothing has changed, so no commit is sent.
    world.pass(secs(30));
    world.no_call();
}

#[test]
fn a_coordinator_that_is_gone_does_not_make_auto_commits_pile_up() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.beating = true;
    world.finished = offsets(&[(0, 11)]);
    world.pass(AUTO_COMMIT);
    let (id, _) = world.call("OffsetCommit");
    for offset in 12..20 {
        world.finished = offsets(&[(0, offset)]);
        world.pass(AUTO_COMMIT);
    }
    assert_eq!(world.member.status().pending_commits, 1);
    world.answer(id, crate::world::commit_codes(&offsets(&[(0, 11)]), ErrorCode::None));
    world.pass(AUTO_COMMIT);
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 19)]));
}

// req: S025
#[test]
fn the_assigned_callback_comes_right_after_the_sync_and_before_any_start() {
    let mut world = World::subscribed(config(Protocol::Eager));
    world.busy = true;
    world.rebalance(1, &[0, 1]);
    world.look_up(10);
    let trace = world.trace();
    let after: Vec<&str> = trace.iter().map(String::as_str).skip_while(|line| *line != "SyncGroup").collect();
    assert_eq!(after, ["SyncGroup", "assigned t-0 t-1", "Assigned t-0 t-1", "OffsetFetch", "start t-0 t-1"]);
}

#[test]
fn a_subscription_or_an_unsubscription_in_the_middle_of_giving_up_is_minded_afterwards() {
    let mut world = World::stable(config(Protocol::Eager), &[0]);
    world.busy = true;
    noticed(&mut world);
    world.subscribe(&["t", "u"]);
    world.user_returns();
    world.rebalance(2, &[0]);
    assert_eq!(world.state(), ClassicState::Stable);
    world.look_up(10);

    // Closing during the commit neither cancels nor repeats it.
    world.finished = offsets(&[(0, 30)]);
    world.trace();
    world.rejoin();
    world.trace();
    let (id, _) = world.call("OffsetCommit");
    world.close();
    world.no_call();
    world.answer(id, crate::pending::failed("OffsetCommit", ErrorCode::CoordinatorLoadInProgress));
    world.pass(BACKOFF);
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 30)]));
    let (id, _) = world.call("LeaveGroup");
    world.answer(id, GroupResponse::LeaveGroup { code: ErrorCode::None });
    assert_eq!(world.trace(), ["OffsetCommit", "Revoked t-0", "dropped t-0", "LeaveGroup", "closed"]);
}

#[test]
fn closing_while_the_user_finishes_commits_what_was_brought_for_the_rebalance() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0, 1]);
    world.busy = true;
    world.subscribe(&["u"]);
    let Some(Owed::Settle(first, _)) = world.owed.pop_front() else { panic!() };
    world.close();
    let Some(Owed::Settle(second, all)) = world.owed.pop_front() else { panic!() };
    assert_eq!((all.len(), first == second), (2, false));
    // The driver had answered the first request already when it got the second.
    world.put(Input::Finished { ticket: first, offsets: offsets(&[(0, 30)]) });
    world.put(Input::Finished { ticket: second, offsets: offsets(&[(1, 40)]) });
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 30), (1, 40)]));
}
