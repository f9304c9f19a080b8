use monedula_engine::assign::Protocol;
use monedula_engine::group::{Call, Committed, GroupResponse};
use monedula_protocol::error_code::ErrorCode;

use crate::pending::{failed, pending};
use crate::world::{BACKOFF, World, at, config, identity, ms, secs, t};

fn found(partitions: &[(i32, Result<Committed, ErrorCode>)]) -> GroupResponse {
    let offsets = partitions.iter().map(|(partition, found)| (t(*partition), found.clone())).collect();
    GroupResponse::OffsetFetch { code: ErrorCode::None, offsets }
}

// contract 4
#[test]
fn only_a_lookup_that_found_nothing_leaves_the_start_to_the_policy() {
    for code in [
        ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::NotCoordinator,
        ErrorCode::UnstableOffsetCommit,
        ErrorCode::NetworkException,
    ] {
        let (mut world, id, _) = pending("OffsetFetch");
        world.answer(id, failed("OffsetFetch", code));
        assert_eq!(world.starts, [], "{code}");
        world.pass(BACKOFF);
        if world.apis() == ["FindCoordinator"] {
            world.find(1);
        }
        let (id, _) = world.call("OffsetFetch");
        world.answer(id, found(&[(0, Ok(None)), (1, Ok(Some(at(7))))]));
        assert_eq!(world.starts, [(t(0), None, false), (t(1), Some(at(7)), false)]);
    }
}

// 26. unstable_offset_commit_waits_without_error
#[test]
fn unstable_offset_commit_waits_without_error() {
    let (mut world, mut id, _) = pending("OffsetFetch");
    world.beating = true;
    world.answer(id, found(&[(0, Ok(Some(at(5)))), (1, Err(ErrorCode::UnstableOffsetCommit))]));
    assert_eq!(world.starts.len(), 1, "the other one starts");
    for _ in 0..20 {
        world.pass(BACKOFF);
        let call;
        (id, call) = world.call("OffsetFetch");
        assert!(matches!(call, Call::OffsetFetch { partitions, .. } if partitions == [t(1)]));
        world.answer(id, found(&[(1, Err(ErrorCode::UnstableOffsetCommit))]));
    }
    world.pass(BACKOFF);
    let (id, _) = world.call("OffsetFetch");
    world.answer(id, found(&[(1, Ok(Some(at(6))))]));
    assert_eq!(world.starts[1], (t(1), Some(at(6)), false));
    assert_eq!(world.raised, []);
}

// 9. offset_fetch_interrupted_by_rebalance_resumes_once
#[test]
fn offset_fetch_interrupted_by_rebalance_resumes_once() {
    // The partition is kept, so the answer still counts.
    let mut world = World::subscribed(config(Protocol::Cooperative));
    world.rebalance(1, &[0, 1]);
    let (id, _) = world.call("OffsetFetch");
    world.beat(ErrorCode::RebalanceInProgress);
    world.rebalance(2, &[0, 1]);
    world.no_call();
    world.answer(id, found(&[(0, Ok(Some(at(1)))), (1, Ok(Some(at(2))))]));
    assert_eq!(world.starts.len(), 2);
    world.pass(ms(2000));
    world.no_call();

    // The partition is assigned anew: it is looked up again, and a late answer to the old lookup is ignored.
    let mut world = World::subscribed(config(Protocol::Eager));
    world.rebalance(1, &[0]);
    let (old, _) = world.call("OffsetFetch");
    world.beat(ErrorCode::RebalanceInProgress);
    world.rebalance(2, &[0]);
    world.answer(old, found(&[(0, Ok(Some(at(1))))]));
    assert_eq!(world.starts, [], "another may have committed since");
    world.look_up(50);
    assert_eq!(world.starts, [(t(0), Some(at(50)), false)]);
    world.pass(ms(2000));
    world.no_call();

    // The same after the partition was lost.
    let mut world = World::subscribed(config(Protocol::Cooperative));
    world.rebalance(1, &[0]);
    let (old, _) = world.call("OffsetFetch");
    world.beat(ErrorCode::UnknownMemberId);
    let (id, call) = world.call("JoinGroup");
    assert_eq!(identity(&call).0, "");
    world.join(id, 4);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, crate::world::synced(&[0]));
    world.answer(old, found(&[(0, Ok(Some(at(1))))]));
    assert_eq!(world.starts, []);
    world.look_up(50);
    assert_eq!(world.starts, [(t(0), Some(at(50)), false)]);
}

// 10. on_assigned_once_per_gained_partition
#[test]
fn on_assigned_once_per_gained_partition() {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    world.rebalance(1, &[0]);
    let (id, _) = world.call("OffsetFetch");
    for generation in 2..5 {
        world.beat(ErrorCode::RebalanceInProgress);
        world.rebalance(generation, &[0]);
    }
    world.lose(id);
    world.find(1);
    world.pass(BACKOFF);
    world.look_up(10);
    assert_eq!(world.starts.len(), 1);
    let told = world.trace().into_iter().filter(|line| line == "Assigned t-0").count();
    assert_eq!(told, 1);
}

// 25. offset_fetch_omitted_duplicate_extra_partitions_handled (doubled ones are the decoder's)
#[test]
fn offset_fetch_omitted_extra_partitions_handled() {
    let (mut world, id, _) = pending("OffsetFetch");
    world.answer(id, found(&[(0, Ok(Some(at(5)))), (8, Ok(Some(at(9))))]));
    assert_eq!(world.starts, [(t(0), Some(at(5)), false)]);
    world.no_call();
    world.pass(BACKOFF);
    world.look_up(6);
    assert_eq!(world.starts[1..], [(t(1), Some(at(6)), false)]);
    world.answer(id, found(&[(0, Ok(None)), (1, Ok(None))]));
    assert_eq!(world.starts.len(), 2);
}

#[test]
fn partitions_gained_while_a_lookup_is_out_are_looked_up_right_after_it() {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    world.rebalance(1, &[0]);
    let (id, _) = world.call("OffsetFetch");
    world.beat(ErrorCode::RebalanceInProgress);
    world.rebalance(2, &[0, 1]);
    world.no_call();
    world.answer(id, found(&[(0, Ok(Some(at(5))))]));
    world.look_up(6);
    assert_eq!(world.starts.len(), 2);
}

#[test]
fn what_a_group_level_error_says_is_told_of_the_partitions_that_were_asked_for() {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    world.rebalance(1, &[0]);
    let (id, _) = world.call("OffsetFetch");
    world.beat(ErrorCode::RebalanceInProgress);
    world.rebalance(2, &[0, 1]);
    world.trace();
    world.answer(id, failed("OffsetFetch", ErrorCode::TopicAuthorizationFailed));
    assert!(world.trace()[0].starts_with("start of t-0 failed: TOPIC_AUTHORIZATION_FAILED"));
    world.look_up(6);
    assert_eq!(world.starts, [(t(1), Some(at(6)), false)]);
}

// An ACL may be added, and a topic may be created: the membership continues, and the lookup is repeated.
#[test]
fn a_committed_offset_that_is_refused_is_told_once_and_asked_for_again() {
    for code in [ErrorCode::TopicAuthorizationFailed, ErrorCode::UnknownTopicOrPartition] {
        for of_the_request in [true, false] {
            let (mut world, mut id, _) = pending("OffsetFetch");
            world.beating = true;
            let refused = |of: &[i32]| match of_the_request {
                true => failed("OffsetFetch", code),
                false => found(&of.iter().map(|&partition| (partition, Err(code))).collect::<Vec<_>>()),
            };
            world.answer(id, refused(&[0, 1]));
            let told = [format!("start of t-0 failed: {code}"), format!("start of t-1 failed: {code}")];
            assert_eq!(world.trace(), told);
            for _ in 0..20 {
                world.no_call();
                world.pass(BACKOFF);
                id = world.call("OffsetFetch").0;
                world.answer(id, refused(&[0, 1]));
            }
            assert_eq!(world.trace(), ["OffsetFetch"; 20], "reported once");
            world.pass(BACKOFF);
            let (id, _) = world.call("OffsetFetch");
            world.answer(id, found(&[(0, Ok(Some(at(7)))), (1, Err(ErrorCode::TopicAuthorizationFailed))]));
            assert_eq!(world.starts, [(t(0), Some(at(7)), false)]);
            world.pass(BACKOFF);
            let (id, call) = world.call("OffsetFetch");
            assert!(matches!(call, Call::OffsetFetch { partitions, .. } if partitions == [t(1)]));
            world.answer(id, found(&[(1, Ok(None))]));
            assert_eq!(world.starts[1..], [(t(1), None, false)]);
            world.pass(secs(60));
            world.no_call();
        }
    }
}

#[test]
fn what_is_gained_meanwhile_does_not_wait_for_an_offset_that_is_refused() {
    let mut world = World::subscribed(config(Protocol::Cooperative));
    world.rebalance(1, &[0]);
    let (id, _) = world.call("OffsetFetch");
    world.answer(id, found(&[(0, Err(ErrorCode::TopicAuthorizationFailed))]));
    world.rejoin();
    world.rebalance(2, &[0, 1]);
    let (id, call) = world.call("OffsetFetch");
    assert!(matches!(call, Call::OffsetFetch { partitions, .. } if partitions == [t(1)]), "at once, and alone");
    world.answer(id, found(&[(1, Ok(Some(at(6))))]));
    assert_eq!(world.starts, [(t(1), Some(at(6)), false)]);
    // A released partition is not looked up any more; one that is assigned again is.
    world.trace();
    world.rejoin();
    world.rebalance(3, &[1]);
    world.rebalance(4, &[1]);
    world.beating = true;
    world.pass(secs(30));
    world.no_call();
    world.rejoin();
    world.rebalance(5, &[0, 1]);
    world.trace();
    let (id, _) = world.call("OffsetFetch");
    world.answer(id, found(&[(0, Err(ErrorCode::TopicAuthorizationFailed))]));
    assert_eq!(world.trace(), [format!("start of t-0 failed: {}", ErrorCode::TopicAuthorizationFailed)]);
}

// 24. offset_fetch_transient_failure_outlasting_retries_recovers
#[test]
fn offset_fetch_transient_failure_outlasting_retries_recovers() {
    let (mut world, mut id, _) = pending("OffsetFetch");
    world.beating = true;
    for _ in 0..60 {
        world.answer(id, failed("OffsetFetch", ErrorCode::CoordinatorLoadInProgress));
        world.pass(secs(2));
        id = world.call("OffsetFetch").0;
    }
    world.answer(id, found(&[(0, Ok(Some(at(5)))), (1, Ok(Some(at(6))))]));
    assert_eq!(world.starts.len(), 2);
}
