//! Bugs that Kafka's own consumer, librdkafka, franz-go and others had under this protocol, each test named after the
//! bug's number.

use monedula_engine::group::consumer::ConsumerState;
use monedula_engine::group::{Call, CommitError, GroupResponse, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{
    AUTO_COMMIT, BACKOFF, INTERVAL, MAX_POLL, MEMBER, World, at, by_hand, commit_codes, config, fixed, ids, is_full,
    ms, offsets, secs, t,
};

// The answer to a heartbeat from before the member left was applied after it had begun to join again.
#[test]
fn kafka_19335_joining_never_carries_the_epoch_of_leaving() {
    let mut world = World::stable(by_hand(), &[0]);
    let (beat, _) = world.next_heartbeat();
    world.put(Input::Unsubscribe);
    let (leave, call) = world.heartbeat();
    assert_eq!(call.epoch, -1);
    world.subscribe(&["t"]);
    world.ok(beat, 9, Some(&ids(&[1])));
    world.no_call();
    world.ok(leave, -1, None);
    let (join, call) = world.heartbeat();
    assert_eq!((call.epoch, call.owned, world.state()), (0, Some(ids(&[])), ConsumerState::Joining));
    // A late answer to the leaving does not end the join either.
    world.ok(leave, -1, None);
    world.refuse(beat, ErrorCode::UnknownMemberId);
    assert_eq!((world.member.status().generation, world.state()), (-1, ConsumerState::Joining));
    world.ok(join, 10, Some(&ids(&[2])));
    assert_eq!((world.member.status().generation, world.owned()), (10, vec![2]));
}

// Kafka 4.0 and 4.1 refuse epoch 0 of a member that they still have.
#[test]
fn kafka_19233_a_join_that_is_refused_leaves_first_and_joins_then() {
    let mut world = World::stable(by_hand(), &[0]);
    world.refuse_next(ErrorCode::FencedMemberEpoch);
    let (id, call) = world.heartbeat();
    assert_eq!(call.epoch, 0);
    world.refuse(id, ErrorCode::FencedMemberEpoch);
    world.pass(BACKOFF);
    let (id, call) = world.heartbeat();
    assert_eq!((call.epoch, call.member_id.as_str(), call.owned), (-1, MEMBER, None));
    world.ok(id, -1, None);
    let (id, call) = world.heartbeat();
    assert_eq!((call.epoch, call.member_id.as_str()), (0, MEMBER));
    assert!(is_full(&call));
    world.ok(id, 5, Some(&ids(&[0])));
    assert_eq!((world.state(), world.owned(), &world.raised[..]), (ConsumerState::Stable, vec![0], &[][..]));
}

// The same for static members, whose place is kept. If the answer to a join was lost, the place is the member's own.
#[test]
fn a_static_member_is_not_refused_for_its_own_lost_join() {
    let mut world = World::subscribed(fixed());
    let (id, _) = world.heartbeat();
    world.lose(id);
    world.pass(BACKOFF);
    world.find(1);
    let (id, call) = world.heartbeat();
    assert_eq!(call.epoch, 0);
    world.refuse(id, ErrorCode::UnreleasedInstanceId);
    world.pass(BACKOFF);
    let (id, call) = world.heartbeat();
    assert_eq!(call.epoch, -2);
    world.ok(id, -2, None);
    let (id, call) = world.heartbeat();
    assert_eq!(call.epoch, 0);
    // The current owner is another member.
    world.refuse(id, ErrorCode::UnreleasedInstanceId);
    assert_eq!(world.state(), ConsumerState::Fatal);

    let mut world = World::subscribed(fixed());
    let (id, _) = world.heartbeat();
    world.lose(id);
    world.pass(BACKOFF);
    world.find(1);
    let (id, _) = world.heartbeat();
    world.refuse(id, ErrorCode::UnreleasedInstanceId);
    world.pass(BACKOFF);
    let (id, _) = world.heartbeat();
    world.refuse(id, ErrorCode::FencedInstanceId);
    assert_eq!(world.state(), ConsumerState::Fatal);
    assert!(world.raised[0].0.to_string().contains("UNRELEASED_INSTANCE_ID"));
}

// Records were handed out after the snapshot of the offsets that were committed before the revocation.
#[test]
fn kafka_16460_delivery_stops_before_the_last_commit_is_put_together() {
    let mut world = World::stable(config(), &[0, 1]);
    world.busy = true;
    world.pass(AUTO_COMMIT - INTERVAL - ms(10));
    world.target(2, &ids(&[1]));
    assert_eq!(world.trace()[0], "settle t-0", "before anything else");
    // An auto-commit comes between. It does not replace the commit before the revocation.
    world.finished = offsets(&[(0, 12)]);
    world.beating = true;
    world.pass(ms(20));
    let (auto, _) = world.call("OffsetCommit");
    world.finished = offsets(&[(0, 15)]);
    world.beating = false;
    world.user_returns();
    world.answer(auto, commit_codes(&offsets(&[(0, 12)]), ErrorCode::None));
    assert_eq!(world.owned(), [0, 1]);
    assert_eq!(world.commit_answered(ErrorCode::None), offsets(&[(0, 15)]));
    assert_eq!(world.owned(), [1]);
}

// A commit that failed forced a rejoin, which failed the next commit, and so on. But if another member has the static
// id, the membership ends.
#[test]
fn franz_go_1340_a_commit_that_fails_never_makes_the_member_join_again() {
    let codes = (-1..=150).filter(|code| *code != 0).map(ErrorCode::from_code);
    for code in codes.filter(|code| *code != ErrorCode::FencedInstanceId) {
        let mut world = World::stable(by_hand(), &[0]);
        world.commit(1, offsets(&[(0, 15)]));
        world.commit_answered(code);
        if world.apis().contains(&"FindCoordinator") {
            world.find(1);
        }
        world.beating = true;
        for _ in 0..10 {
            world.pass(secs(1));
            while world.apis().contains(&"OffsetCommit") {
                world.commit_answered(code);
            }
            while world.apis().contains(&"FindCoordinator") {
                world.find(1);
            }
        }
        assert_eq!(
            (world.state(), world.owned(), world.member.status().generation),
            (ConsumerState::Stable, vec![0], 1),
            "{code}"
        );
        assert_eq!(world.raised, [], "{code}");
    }
}

// STALE_MEMBER_EPOCH was retried at once, thousands of times, until the next heartbeat.
#[test]
fn kafka_20765_a_stale_epoch_is_not_tried_before_a_heartbeat() {
    let mut world = World::stable(by_hand(), &[0]);
    world.commit(1, offsets(&[(0, 15)]));
    let mut commits = 0;
    let end = world.now + secs(30);
    while world.now < end {
        while world.apis().contains(&"OffsetCommit") {
            world.commit_answered(ErrorCode::StaleMemberEpoch);
            commits += 1;
        }
        world.settle_heartbeats(1);
        world.pass(ms(10));
    }
    assert!((5..60).contains(&commits), "{commits}");
    // Without an answer to a heartbeat, no commit is sent at all.
    while world.apis().contains(&"OffsetCommit") {
        world.commit_answered(ErrorCode::StaleMemberEpoch);
    }
    world.pass(secs(20));
    assert!(!world.apis().contains(&"OffsetCommit"));
}

// librdkafka 0148: after five STALE_MEMBER_EPOCH in a row the committed offset counts, not the reset policy.
#[test]
fn librdkafka_0148_a_lookup_that_is_stale_again_and_again_never_falls_to_the_policy() {
    let mut world = World::subscribed(by_hand());
    world.assigned(1, &ids(&[0]));
    for epoch in 2..7 {
        let (id, _) = world.call("OffsetFetch");
        world.answer(id, GroupResponse::OffsetFetch { code: ErrorCode::StaleMemberEpoch, offsets: [].into() });
        world.pass(BACKOFF);
        let (id, _) = world.heartbeat();
        world.ok(id, epoch, None);
        assert_eq!(world.starts, []);
    }
    world.look_up(10);
    assert_eq!(world.starts, [(t(0), Some(at(10)), false)]);
}

// platformatic#267, kafka-python#2629: an error of the lookup was taken for "nothing committed".
#[test]
fn kafka_python_2629_no_error_of_a_lookup_is_taken_for_nothing_committed() {
    for code in (-1..=150).filter(|code| *code != 0).map(ErrorCode::from_code) {
        for at_partition in [false, true] {
            let mut world = World::subscribed(by_hand());
            world.assigned(1, &ids(&[0]));
            let (id, _) = world.call("OffsetFetch");
            let (code_of_group, of_partition) =
                if at_partition { (ErrorCode::None, Err(code)) } else { (code, Ok(None)) };
            let offsets = [(t(0), of_partition)].into();
            world.answer(id, GroupResponse::OffsetFetch { code: code_of_group, offsets });
            assert_eq!(world.starts, [], "{code}");
        }
    }
}

// Offsets of lost partitions were committed over those of the new owner.
#[test]
fn librdkafka_5604_what_is_lost_is_never_committed() {
    let mut world = World::stable(config(), &[0]);
    world.busy = true;
    world.finished = offsets(&[(0, 15)]);
    world.refuse_next(ErrorCode::FencedMemberEpoch);
    world.commit(1, offsets(&[(0, 15)]));
    assert_eq!(world.commit_error(1), CommitError::NotOwned);
    world.user_returns();
    world.assigned(2, &ids(&[]));
    world.beating = true;
    world.pass(secs(30));
    assert!(!world.trace().contains(&"OffsetCommit".to_owned()));
}

// An acknowledgement of rows after the revocation committed an old offset again.
#[test]
fn redpanda_connect_4477_what_is_finished_after_the_revocation_is_not_committed() {
    let mut world = World::stable(by_hand(), &[0, 1]);
    world.target(2, &ids(&[1]));
    assert_eq!(world.owned(), [1]);
    world.trace();
    world.commit(1, offsets(&[(0, 15), (1, 20)]));
    let (_, call) = world.call("OffsetCommit");
    let Call::OffsetCommit { offsets: sent, .. } = call else { panic!("{call:?}") };
    assert_eq!(sent, offsets(&[(1, 20)]));
}

// librdkafka 2.15.0: the member left before it had revoked, and joined again with partitions, which the coordinator
// refused with INVALID_REQUEST.
#[test]
fn librdkafka_2_15_0_after_leaving_for_not_polling_it_joins_with_nothing() {
    let mut world = World::stable(by_hand(), &[0]);
    world.busy = true;
    world.target(2, &ids(&[]));
    world.beating = true;
    world.polling = false;
    world.pass(MAX_POLL);
    let (leave, call) = world.heartbeat();
    assert_eq!(call.epoch, -1);
    world.ok(leave, -1, None);
    world.sleep(ms(1));
    world.polling = true;
    world.user_returns();
    let (_, call) = world.heartbeat();
    assert_eq!((call.epoch, call.owned), (0, Some(ids(&[]))));
}
