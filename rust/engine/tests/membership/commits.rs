//! Commits carry the member's epoch. No error of a commit makes the member join again.

use monedula_engine::group::consumer::ConsumerState;
use monedula_engine::group::{Call, CommitError, GroupError, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{
    AUTO_COMMIT, BACKOFF, INTERVAL, MEMBER, World, at, by_hand, commit_codes, config, fixed, id, ids, ms, offsets,
    secs, t,
};

#[test]
fn a_commit_names_the_member_its_static_id_and_its_epoch() {
    let mut world = World::stable(fixed(), &[0]);
    world.commit(1, offsets(&[(0, 15)]));
    let (_, call) = world.call("OffsetCommit");
    let Call::OffsetCommit {
        group_id,
        member_id,
        instance_id,
        generation_or_epoch: epoch,
        offsets: sent,
        topic_ids,
        ..
    } = call
    else {
        panic!("{call:?}")
    };
    assert_eq!(topic_ids, [("t".into(), id("t"))].into());
    assert_eq!((group_id.as_str(), member_id.as_str(), instance_id.as_deref(), epoch), ("g", MEMBER, Some("i"), 1));
    assert_eq!(sent, offsets(&[(0, 15)]));
}

#[test]
fn a_stale_epoch_waits_for_the_heartbeat_that_brings_the_new_one() {
    let mut world = World::stable(by_hand(), &[0]);
    let (heartbeat, _) = world.next_heartbeat();
    world.commit(1, offsets(&[(0, 15)]));
    world.commit_answered(ErrorCode::StaleMemberEpoch);
    world.pass(BACKOFF);
    world.no_call();
    world.ok(heartbeat, 2, None);
    let (id, call) = world.call("OffsetCommit");
    assert!(matches!(call, Call::OffsetCommit { generation_or_epoch: 2, .. }), "{call:?}");
    world.answer(id, commit_codes(&offsets(&[(0, 15)]), ErrorCode::None));
    assert!(world.outcome(1).is_some_and(|outcomes| outcomes[&t(0)].1.is_ok()));
    assert_eq!(world.state(), ConsumerState::Stable);
}

#[test]
fn the_heartbeat_that_a_commit_waits_for_comes_after_a_backoff_not_only_at_its_interval() {
    let mut world = World::stable(by_hand(), &[0]);
    world.commit(1, offsets(&[(0, 15)]));
    world.commit_answered(ErrorCode::StaleMemberEpoch);
    world.no_call();
    world.pass(ms(121));
    let (id, call) = world.heartbeat();
    assert_eq!((call.epoch, call.owned), (1, None));
    world.ok(id, 3, None);
    assert!(matches!(world.call("OffsetCommit").1, Call::OffsetCommit { generation_or_epoch: 3, .. }));
}

#[test]
fn an_epoch_that_came_while_the_commit_was_under_way_is_used_at_once() {
    let mut world = World::stable(by_hand(), &[0]);
    world.commit(1, offsets(&[(0, 15)]));
    let (commit, _) = world.call("OffsetCommit");
    let (heartbeat, _) = world.next_heartbeat();
    world.ok(heartbeat, 2, None);
    world.answer(commit, commit_codes(&offsets(&[(0, 15)]), ErrorCode::StaleMemberEpoch));
    world.pass(ms(121));
    assert!(matches!(world.call("OffsetCommit").1, Call::OffsetCommit { generation_or_epoch: 2, .. }));
}

#[test]
fn a_commit_of_a_member_that_is_gone_fails_and_only_a_heartbeat_says_what_that_means() {
    for code in [ErrorCode::UnknownMemberId, ErrorCode::GroupIdNotFound] {
        let mut world = World::stable(by_hand(), &[0]);
        world.commit(1, offsets(&[(0, 15)]));
        world.commit_answered(code);
        assert_eq!(world.commit_error(1), CommitError::MemberGone { code });
        assert_eq!((world.state(), world.owned()), (ConsumerState::Stable, vec![0]));
        let (id, _) = world.heartbeat();
        world.ok(id, 1, None);
        world.no_call();
        assert_eq!(world.state(), ConsumerState::Stable);
    }
}

#[test]
fn what_the_broker_refuses_of_a_partition_is_told_and_the_rest_is_committed() {
    let mut world = World::stable(by_hand(), &[0, 1]);
    world.commit(1, offsets(&[(0, 15), (1, 20)]));
    let (id, _) = world.call("OffsetCommit");
    let codes = [(t(0), ErrorCode::OffsetMetadataTooLarge), (t(1), ErrorCode::None)].into();
    world.answer(id, monedula_engine::group::GroupResponse::OffsetCommit { codes });
    let outcomes = world.outcome(1).expect("answered");
    assert_eq!(outcomes[&t(0)].1, Err(CommitError::Refused { code: ErrorCode::OffsetMetadataTooLarge }));
    assert_eq!(outcomes[&t(1)], (at(20), Ok(())));
}

#[test]
fn commits_never_reorder_and_the_next_waits_for_the_answer_to_one_that_timed_out() {
    let mut world = World::stable(by_hand(), &[0]);
    world.beating = true;
    let deadline = world.now + secs(5);
    world.put(Input::Commit { ticket: 1, offsets: offsets(&[(0, 10)]), deadline });
    let (first, _) = world.call("OffsetCommit");
    world.pass(secs(6));
    assert!(matches!(world.commit_error(1), CommitError::TimedOut { .. }));
    world.commit(2, offsets(&[(0, 20)]));
    world.no_call();
    world.answer(first, commit_codes(&offsets(&[(0, 10)]), ErrorCode::None));
    assert_eq!(world.outcome(2), None, "nothing was sent for it yet");
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 20)]));
    assert!(world.outcome(2).is_some_and(|outcomes| outcomes[&t(0)].1.is_ok()));
}

// Found by the simulation: the commit arrived after the member had returned in the same epoch, and overwrote its later
// commits.
#[test]
fn a_static_member_joins_again_only_after_the_answer_to_a_commit_of_before() {
    for lost in [false, true] {
        let mut world = World::stable(fixed(), &[0]);
        world.commit(1, offsets(&[(0, 15)]));
        let (commit, _) = world.call("OffsetCommit");
        let (heartbeat, _) = world.next_heartbeat();
        world.refuse(heartbeat, ErrorCode::GroupIdNotFound);
        assert_eq!(world.commit_error(1), CommitError::MemberGone { code: ErrorCode::GroupIdNotFound });
        world.pass(secs(5));
        assert_eq!((world.state(), world.apis()), (ConsumerState::Joining, vec![]));
        match lost {
            true => world.lose(commit),
            false => world.answer(commit, commit_codes(&offsets(&[(0, 15)]), ErrorCode::None)),
        }
        if lost {
            world.find(1);
        }
        assert_eq!(world.heartbeat().1.epoch, 0);
    }
}

#[test]
fn what_is_not_owned_is_refused_without_a_request() {
    let mut world = World::stable(by_hand(), &[0]);
    world.commit(1, offsets(&[(3, 15)]));
    world.no_call();
    assert_eq!(world.commit_error(1), CommitError::NotOwned);
}

// req: S028
#[test]
fn what_is_newly_finished_is_committed_every_interval() {
    let mut world = World::stable(config(), &[0, 1]);
    world.beating = true;
    for round in 1..5 {
        world.finished = offsets(&[(0, 10 + round), (1, 20 + round)]);
        world.pass(AUTO_COMMIT - ms(1));
        world.no_call();
        world.pass(ms(1));
        assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 10 + round), (1, 20 + round)]));
    }
    world.pass(secs(30));
    world.no_call();
}

#[test]
fn a_coordinator_that_is_gone_does_not_make_auto_commits_pile_up() {
    let mut world = World::stable(config(), &[0]);
    world.beating = true;
    world.finished = offsets(&[(0, 11)]);
    world.pass(AUTO_COMMIT);
    let (id, _) = world.call("OffsetCommit");
    for offset in 12..20 {
        world.finished = offsets(&[(0, offset)]);
        world.pass(AUTO_COMMIT);
    }
    assert_eq!(world.member.status().pending_commits, 1);
    world.answer(id, commit_codes(&offsets(&[(0, 11)]), ErrorCode::None));
    world.pass(AUTO_COMMIT);
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 19)]));
}

#[test]
fn a_deleted_topic_does_not_hold_up_a_revocation() {
    let mut world = World::stable(config(), &[0]);
    world.finished = offsets(&[(0, 15)]);
    world.target(2, &ids(&[]));
    world.commit_answered(ErrorCode::UnknownTopicOrPartition);
    assert_eq!(world.heartbeat().1.owned, Some(ids(&[])));
    world.pass(INTERVAL);
}

#[test]
fn a_commit_hears_that_another_took_the_static_id() {
    let mut setup = fixed();
    setup.member.auto_commit_interval = None;
    let mut world = World::stable(setup, &[0]);
    world.commit(1, offsets(&[(0, 15)]));
    world.commit_answered(ErrorCode::FencedInstanceId);
    assert_eq!(world.commit_error(1), CommitError::MemberGone { code: ErrorCode::FencedInstanceId });
    let fenced = GroupError::FencedInstance { group: "g".into(), instance: "i".into() };
    assert_eq!(world.raised, [(fenced, true)]);
    assert_eq!((world.state(), world.owned()), (ConsumerState::Fatal, vec![]));
    world.pass(secs(600));
    world.no_call();
}

// The commit carries an epoch that is still valid: it would overwrite what the next owner has committed meanwhile.
#[test]
fn a_commit_that_timed_out_is_no_more_on_its_way_when_its_partition_is_given_back() {
    for answered in [true, false] {
        let mut world = World::stable(by_hand(), &[0, 1]);
        let deadline = world.now + secs(1);
        world.put(Input::Commit { ticket: 1, offsets: offsets(&[(0, 15)]), deadline });
        let (commit, _) = world.call("OffsetCommit");
        world.target(2, &ids(&[1]));
        world.beating = true;
        world.pass(secs(2));
        assert!(matches!(world.commit_error(1), CommitError::TimedOut { .. }));
        assert_eq!(world.owned(), [0, 1], "another would read from before it, and commit");
        match answered {
            true => world.answer(commit, commit_codes(&offsets(&[(0, 15)]), ErrorCode::None)),
            // The member does not wait for it until it is removed from the group.
            false => world.pass(secs(30)),
        }
        assert_eq!(world.owned(), [1]);
    }
}
