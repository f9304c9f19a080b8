//! Leaving with epoch -1, or -2 for static members, after all partitions were revoked.

use monedula_engine::group::consumer::ConsumerState;
use monedula_engine::group::{GroupEvent, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{
    BACKOFF, INTERVAL, MAX_POLL, SESSION, World, by_hand, commit_codes, config, fixed, ids, offsets, secs,
};

#[test]
fn all_is_given_up_in_order_then_the_group_is_left() {
    let mut world = World::stable(config(), &[0, 1]);
    world.finished = offsets(&[(0, 15)]);
    world.close();
    assert_eq!(world.trace(), ["settle t-0 t-1", "OffsetCommit"]);
    assert_eq!(world.state(), ConsumerState::PrepareLeaving);
    world.commit_answered(ErrorCode::None);
    assert_eq!(world.trace(), ["Revoked t-0 t-1", "dropped t-0 t-1", "ConsumerGroupHeartbeat"]);
    let (id, call) = world.heartbeat();
    assert_eq!((call.epoch, call.owned, call.topics), (-1, None, None));
    assert_eq!(world.state(), ConsumerState::Leaving);
    world.ok(id, -1, None);
    assert_eq!(world.trace(), ["closed"]);
    assert_eq!((world.state(), world.member.wake_at()), (ConsumerState::Unsubscribed, None));
    assert!(matches!(world.events.last(), Some(GroupEvent::Left { .. })));
}

#[test]
fn heartbeats_go_on_while_it_gives_up_and_what_they_bring_is_not_taken() {
    let mut world = World::stable(by_hand(), &[0]);
    world.busy = true;
    world.put(Input::Unsubscribe);
    let (id, call) = world.next_heartbeat();
    assert_eq!((call.epoch, call.topics, call.owned), (1, None, None), "the subscription does not change by leaving");
    world.trace();
    world.ok(id, 2, Some(&ids(&[0, 1])));
    assert_eq!(world.trace(), [""; 0]);
    let (id, _) = world.next_heartbeat();
    world.lose(id);
    world.find(1);
    world.pass(BACKOFF);
    let (_, call) = world.heartbeat();
    assert_eq!(
        (call.epoch, call.owned),
        (2, Some(ids(&[0]))),
        "by which a coordinator knows one that missed an answer"
    );
}

#[test]
fn a_static_member_says_that_it_will_be_back_however_it_closes() {
    for leave in [true, false] {
        let mut world = World::stable(fixed(), &[0]);
        world.finished.clear();
        let deadline = world.now + secs(30);
        world.put(Input::Close { deadline, leave });
        let (id, call) = world.heartbeat();
        assert_eq!((call.epoch, call.instance_id.as_deref()), (-2, Some("i")));
        world.ok(id, -2, None);
        assert!(world.trace().contains(&"closed".to_owned()));
    }
}

#[test]
fn closed_without_leaving_it_says_nothing() {
    let mut world = World::stable(by_hand(), &[0]);
    let deadline = world.now + secs(30);
    world.put(Input::Close { deadline, leave: false });
    world.no_call();
    assert_eq!(world.trace(), ["settle t-0", "Revoked t-0", "dropped t-0", "closed"]);
}

#[test]
fn one_that_never_joined_has_nothing_to_leave() {
    let mut world = World::new(config());
    world.subscribe(&["t"]);
    world.trace();
    world.close();
    assert_eq!(world.trace(), ["closed"]);
    assert_eq!(world.state(), ConsumerState::Unsubscribed);
}

#[test]
fn a_join_that_is_under_way_is_left_at_once() {
    let mut world = World::subscribed(config());
    let (join, _) = world.heartbeat();
    world.close();
    let (id, call) = world.heartbeat();
    assert_eq!(call.epoch, -1, "the id is known before the answer: nobody stays behind (KIP-1082)");
    world.ok(join, 5, Some(&ids(&[0])));
    assert_eq!((world.state(), world.owned()), (ConsumerState::Leaving, vec![]));
    world.ok(id, -1, None);
    assert_eq!(world.state(), ConsumerState::Unsubscribed);
}

#[test]
fn leaving_follows_a_coordinator_that_moved_and_ends_at_its_deadline() {
    let mut world = World::stable(by_hand(), &[0]);
    world.put(Input::Unsubscribe);
    let (id, _) = world.heartbeat();
    world.refuse(id, ErrorCode::NotCoordinator);
    world.find(2);
    world.pass(BACKOFF);
    let (id, call) = world.heartbeat();
    assert_eq!(call.epoch, -1);
    world.lose(id);
    world.pass(SESSION);
    assert_eq!(world.state(), ConsumerState::Unsubscribed);
    world.pass(MAX_POLL);
    assert_eq!(world.member.wake_at(), None);
}

#[test]
fn what_refuses_it_says_that_there_is_nothing_to_leave() {
    for code in [
        ErrorCode::UnknownMemberId,
        ErrorCode::GroupIdNotFound,
        ErrorCode::FencedMemberEpoch,
        ErrorCode::GroupAuthorizationFailed,
        ErrorCode::UnknownServerError,
    ] {
        let mut world = World::stable(by_hand(), &[0]);
        world.put(Input::Unsubscribe);
        let (id, _) = world.heartbeat();
        world.refuse(id, code);
        assert_eq!((world.state(), &world.raised[..]), (ConsumerState::Unsubscribed, &[][..]), "{code}");
    }
}

#[test]
fn fenced_while_it_gives_up_it_is_out_and_does_not_join_again() {
    let mut world = World::stable(by_hand(), &[0]);
    world.busy = true;
    world.close();
    world.refuse_next(ErrorCode::FencedMemberEpoch);
    let trace = world.trace();
    assert_eq!(trace[trace.len() - 3..], ["dropped t-0", "Lost t-0", "closed"]);
    assert_eq!(world.state(), ConsumerState::Unsubscribed);
}

#[test]
fn subscribed_again_while_it_leaves_it_joins_after_that() {
    let mut world = World::stable(by_hand(), &[0]);
    world.put(Input::Unsubscribe);
    let (id, _) = world.heartbeat();
    world.subscribe(&["t"]);
    world.no_call();
    world.ok(id, -1, None);
    let (_, call) = world.heartbeat();
    assert_eq!((call.epoch, world.state()), (0, ConsumerState::Joining));
}

#[test]
fn closing_is_bounded_whatever_the_user_and_the_coordinator_do() {
    let mut world = World::stable(config(), &[0]);
    world.busy = true;
    world.finished = offsets(&[(0, 15)]);
    world.commit(1, offsets(&[(0, 14)]));
    let (commit, _) = world.call("OffsetCommit");
    world.close();
    world.beating = true;
    world.pass(secs(30));
    assert_eq!(world.trace().last().map(String::as_str), Some("closed"));
    assert!(world.outcome(1).is_some());
    world.answer(commit, commit_codes(&offsets(&[(0, 14)]), ErrorCode::None));
    world.pass(INTERVAL);
    assert_eq!(world.beats.last().map(|at| *at < world.now - INTERVAL), Some(true));
}

// A request that leaves may be on its way for long, on a connection that its sender has given up.
#[test]
fn a_leave_without_an_answer_cannot_end_the_next_membership() {
    for is_lost in [false, true] {
        let mut world = World::stable(by_hand(), &[0]);
        world.put(Input::Unsubscribe);
        let (mut id, left) = world.heartbeat();
        if is_lost {
            world.lose(id);
            world.find(1);
            world.pass(BACKOFF);
            let (again, call) = world.heartbeat();
            assert_eq!((call.epoch, &call.member_id), (-1, &left.member_id));
            id = again;
        }
        world.refuse(id, ErrorCode::UnknownMemberId);
        world.subscribe(&["t"]);
        let (_, call) = world.next_heartbeat();
        assert_eq!((call.epoch, call.member_id != left.member_id), (0, is_lost));
    }
}
