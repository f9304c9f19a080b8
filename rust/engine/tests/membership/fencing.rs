//! Fencing: all partitions are lost, and the member joins again with epoch 0 and the same id.

use monedula_engine::assign::builtin;
use monedula_engine::group::classic::ClassicConfig;
use monedula_engine::group::consumer::{ConsumerProtocolConfig, ConsumerState};
use monedula_engine::group::{CallError, CallbackKind, CommitError, GroupError, Input, Member, Output, Subscription};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, MEMBER, Owed, World, by_hand, config, fixed, ids, is_full, offsets, secs};

const FENCING: [ErrorCode; 2] = [ErrorCode::FencedMemberEpoch, ErrorCode::UnknownMemberId];

// contract 2: partitions that are lost take another path.
#[test]
fn what_is_lost_is_dropped_never_committed_and_told() {
    for code in FENCING {
        let mut world = World::stable(config(), &[0, 1]);
        world.finished = offsets(&[(0, 15)]);
        world.refuse_next(code);
        assert_eq!(
            world.trace(),
            ["ConsumerGroupHeartbeat", "dropped t-0 t-1", "Lost t-0 t-1", "ConsumerGroupHeartbeat"]
        );
        let (_, call) = world.heartbeat();
        assert_eq!((call.member_id.as_str(), call.epoch), (MEMBER, 0));
        assert!(is_full(&call));
        assert_eq!(call.owned, Some(ids(&[])));
        world.commit(1, offsets(&[(0, 15)]));
        assert_eq!(world.commit_error(1), CommitError::NotOwned);
    }
}

#[test]
fn no_heartbeat_goes_before_the_user_knows() {
    let mut world = World::stable(by_hand(), &[0]);
    world.busy = true;
    world.refuse_next(ErrorCode::FencedMemberEpoch);
    assert_eq!(world.state(), ConsumerState::Fenced);
    world.pass(secs(60));
    world.no_call();
    world.user_returns();
    assert_eq!(world.state(), ConsumerState::Joining);
    assert_eq!(world.heartbeat().1.epoch, 0);
}

#[test]
fn a_commit_that_waits_when_it_is_fenced_fails() {
    let mut world = World::stable(by_hand(), &[0]);
    world.commit(1, offsets(&[(0, 15)]));
    let (commit, _) = world.call("OffsetCommit");
    world.refuse_next(ErrorCode::FencedMemberEpoch);
    assert_eq!(world.commit_error(1), CommitError::MemberGone { code: ErrorCode::FencedMemberEpoch });
    // Its answer arrives late.
    world.answer(commit, crate::world::commit_codes(&offsets(&[(0, 15)]), ErrorCode::None));
    assert!(world.outcome(1).is_some());
}

#[test]
fn a_partition_is_told_of_once_when_it_is_lost_while_it_is_revoked() {
    for calling_back in [true, false] {
        let mut world = World::stable(by_hand(), &[0]);
        world.busy = true;
        world.target(2, &ids(&[]));
        if calling_back {
            world.pay_one();
            assert!(matches!(world.owed.front(), Some(Owed::Callback(_, CallbackKind::Revoked))));
        }
        world.trace();
        world.refuse_next(ErrorCode::UnknownMemberId);
        let told = world.trace();
        assert_eq!(told.contains(&"Lost t-0".to_owned()), !calling_back, "{told:?}");
        assert!(told.contains(&"dropped t-0".to_owned()));
        world.user_returns();
        assert_eq!(world.state(), ConsumerState::Joining);
    }
}

#[test]
fn fenced_right_after_each_join_it_does_not_storm_the_coordinator() {
    let mut world = World::stable(by_hand(), &[]);
    world.refuse_next(ErrorCode::FencedMemberEpoch);
    let mut joins = 0;
    let end = world.now + secs(10);
    while world.now < end {
        while joins < 25 && world.apis().first() == Some(&"ConsumerGroupHeartbeat") {
            let (id, call) = world.heartbeat();
            joins += u32::from(call.epoch == 0);
            match call.epoch {
                0 => world.ok(id, 5, Some(&ids(&[]))),
                _ => world.refuse(id, ErrorCode::FencedMemberEpoch),
            }
        }
        world.pass(crate::world::ms(50));
    }
    assert!((3..25).contains(&joins), "{joins}");
}

// Kafka 4.3's coordinator answers UNKNOWN_SERVER_ERROR while the classic group that it has to upgrade has no generation
// yet. In a rolling upgrade that ends soon. Members that are in the group already are not refused.
#[test]
fn a_join_that_the_coordinator_failed_at_is_tried_again_and_not_for_ever() {
    let mut world = World::subscribed(config());
    for _ in 0..5 {
        let (id, call) = world.heartbeat();
        assert!(call.epoch == 0 && is_full(&call));
        world.refuse(id, ErrorCode::UnknownServerError);
        world.no_call();
        world.pass(secs(2));
    }
    world.assigned(1, &ids(&[0]));
    assert_eq!((world.state(), &world.raised[..]), (ConsumerState::Stable, &[][..]));

    let mut world = World::subscribed(config());
    let since = world.now;
    while world.state() == ConsumerState::Joining {
        let (id, _) = world.heartbeat();
        world.refuse(id, ErrorCode::UnknownServerError);
        world.pass(secs(2));
        assert!(world.now < since + secs(100));
    }
    assert!(matches!(world.raised[..], [(_, true)]), "{:?}", world.raised);
}

#[test]
fn what_no_repetition_mends_is_raised_and_ends_it() {
    let codes = [
        ErrorCode::UnreleasedInstanceId,
        ErrorCode::FencedInstanceId,
        ErrorCode::GroupAuthorizationFailed,
        ErrorCode::InvalidRequest,
        ErrorCode::UnsupportedAssignor,
        ErrorCode::GroupMaxSizeReached,
        ErrorCode::InvalidRegularExpression,
        ErrorCode::UnknownServerError,
        ErrorCode::Unknown(999),
    ];
    for code in codes {
        let mut world = World::stable(fixed(), &[0]);
        world.refuse_next(code);
        assert_eq!(world.state(), ConsumerState::Fatal, "{code}");
        assert_eq!(world.trace(), ["ConsumerGroupHeartbeat", "dropped t-0", "Lost t-0", "fatal"], "{code}");
        assert!(matches!(world.raised[..], [(_, true)]));
        assert_eq!(world.member.status().fatal, Some(world.raised[0].0.clone()));
        world.pass(secs(600));
        world.no_call();
        world.subscribe(&["t"]);
        world.no_call();
        world.put(Input::Unsubscribe);
        assert_eq!(world.state(), ConsumerState::Unsubscribed);
        world.subscribe(&["t"]);
        assert_eq!(world.state(), ConsumerState::Joining, "a new subscription begins anew");
    }
}

#[test]
fn errors_say_what_is_wrong_and_what_to_do() {
    let setup = ConsumerProtocolConfig { assignor: Some("mine".into()), ..fixed() };
    let said = |code: ErrorCode, words: &[&str]| {
        let mut world = World::new(setup.clone());
        world.subscribe_regex("t[");
        world.find(1);
        let (id, _) = world.heartbeat();
        world.refuse(id, code);
        let text = world.raised[0].0.to_string();
        for word in words {
            assert!(text.contains(word), "{text}");
        }
    };
    said(ErrorCode::UnsupportedAssignor, &["group.remote.assignor=mine", "UNSUPPORTED_ASSIGNOR", "broker's words"]);
    said(ErrorCode::InvalidRegularExpression, &["\"t[\"", "RE2", "broker's words"]);
    said(ErrorCode::GroupMaxSizeReached, &["GROUP_MAX_SIZE_REACHED", "group.consumer.max.size"]);
    said(ErrorCode::UnreleasedInstanceId, &["group.instance.id=i", "UNRELEASED_INSTANCE_ID"]);
    said(ErrorCode::FencedInstanceId, &["group.instance.id=i", "FENCED_INSTANCE_ID"]);
    said(ErrorCode::GroupAuthorizationFailed, &["g", "GROUP_AUTHORIZATION_FAILED", "READ"]);
    said(ErrorCode::UnsupportedVersion, &["KIP-848", "group.protocol=classic", "group.protocol=auto"]);
    said(ErrorCode::InvalidRequest, &["ConsumerGroupHeartbeat", "INVALID_REQUEST", "broker's words"]);
}

#[test]
fn a_topic_that_is_denied_is_told_once_and_tried_again() {
    let mut world = World::subscribed(config());
    for _ in 0..3 {
        let (id, _) = world.heartbeat();
        world.refuse(id, ErrorCode::TopicAuthorizationFailed);
        world.pass(BACKOFF);
    }
    assert!(matches!(&world.raised[..], [(GroupError::TopicDenied { .. }, false)]), "{:?}", world.raised);
    let (id, _) = world.heartbeat();
    world.ok(id, 1, Some(&ids(&[0])));
    assert_eq!(world.owned(), [0]);
}

#[test]
fn without_the_protocol_auto_falls_back_and_consumer_says_so() {
    type Refuse = fn(&mut World, u64);
    let refusals: [Refuse; 3] = [
        |world, id| world.refuse(id, ErrorCode::UnsupportedVersion),
        |world, id| world.refuse(id, ErrorCode::GroupIdNotFound),
        |world, id| world.never(id),
    ];
    for refuse in refusals {
        let mut world = World::subscribed(ConsumerProtocolConfig { falls_back: true, ..config() });
        let (id, _) = world.heartbeat();
        world.trace();
        refuse(&mut world, id);
        assert_eq!(world.trace(), ["fall back"]);
        assert_eq!(
            (world.state(), world.member.wake_at()),
            (ConsumerState::Unsubscribed, None),
            "it has nothing more to say"
        );

        let mut world = World::subscribed(config());
        let (id, _) = world.heartbeat();
        refuse(&mut world, id);
        assert!(matches!(&world.raised[..], [(GroupError::Unsupported { .. }, true)]), "{:?}", world.raised);
    }
}

#[test]
fn a_broker_that_loses_the_protocol_later_costs_what_is_owned_before_it_falls_back() {
    let mut world = World::stable(ConsumerProtocolConfig { falls_back: true, ..by_hand() }, &[0]);
    world.refuse_next(ErrorCode::UnsupportedVersion);
    assert_eq!(world.trace(), ["ConsumerGroupHeartbeat", "dropped t-0", "Lost t-0", "ConsumerGroupHeartbeat"]);
    let (id, _) = world.heartbeat();
    world.refuse(id, ErrorCode::UnsupportedVersion);
    assert_eq!(world.trace(), ["fall back"]);
}

// The late answer to an OffsetFetch was taken for the answer to the new member's SyncGroup.
#[test]
fn after_a_fall_back_no_id_of_a_call_is_used_again() {
    let call_ids = |member: &mut Member| -> Vec<u64> {
        let outputs = std::iter::from_fn(|| member.poll());
        outputs.filter_map(|output| if let Output::Call { id, .. } = output { Some(id) } else { None }).collect()
    };
    let topics = || Input::Subscribe(Subscription::Topics(crate::world::names(&["t"])));
    let mut member = Member::consumer(config(), MEMBER.into(), 7);
    member.handle(secs(1), topics());
    let before = call_ids(&mut member);
    let classic = ClassicConfig {
        member: by_hand().member,
        assignors: vec![builtin("range").expect("it is there")],
        heartbeat_interval: crate::world::INTERVAL,
    };
    member.fall_back(classic, 7);
    member.handle(secs(1), topics());
    let after = call_ids(&mut member);
    assert!(before.iter().max() < after.iter().min(), "{before:?} {after:?}");
    // A late answer to the old call changes nothing.
    for id in before {
        let outcome = Err(CallError::Never("no version in common".into()));
        member.handle(secs(2), Input::Answer { id, outcome });
    }
    assert_eq!(member.status().fatal, None);
}

#[test]
fn who_does_not_poll_leaves_and_joins_again_with_the_next_poll() {
    let mut world = World::stable(by_hand(), &[0]);
    world.beating = true;
    world.finished = offsets(&[(0, 15)]);
    world.polling = false;
    world.busy = true;
    world.pass(crate::world::MAX_POLL - crate::world::ms(1));
    assert_eq!(world.trace(), [""; 0]);
    world.pass(crate::world::ms(1));
    assert_eq!(world.trace(), ["raise", "dropped t-0", "Lost t-0", "ConsumerGroupHeartbeat"]);
    assert!(matches!(&world.raised[..], [(GroupError::MaxPollExceeded { .. }, false)]));
    let (id, call) = world.heartbeat();
    assert_eq!((call.epoch, call.owned, world.state()), (-1, None, ConsumerState::Leaving));
    world.ok(id, -1, None);
    assert_eq!(world.state(), ConsumerState::Stale);
    world.pass(secs(600));
    world.no_call();
    world.polling = true;
    world.put(Input::Tick);
    assert_eq!(world.state(), ConsumerState::Stale, "the user is to hear of what is lost first");
    world.user_returns();
    let (_, call) = world.heartbeat();
    assert_eq!((call.epoch, call.member_id.as_str()), (0, MEMBER));
    assert_eq!(call.owned, Some(ids(&[])));
}

#[test]
fn a_static_member_that_is_stale_leaves_for_a_while() {
    let mut world = World::stable(fixed(), &[0]);
    world.beating = true;
    world.polling = false;
    world.pass(crate::world::MAX_POLL);
    assert_eq!(world.heartbeat().1.epoch, -2);
}

// It leaves once, without waiting for the answer. The request could arrive after the next join, and end that membership.
#[test]
fn one_that_is_stale_and_left_without_an_answer_leaves_again_and_joins_under_another_id() {
    for is_static in [false, true] {
        let mut world = World::stable(if is_static { fixed() } else { by_hand() }, &[0]);
        world.beating = true;
        world.polling = false;
        world.pass(crate::world::MAX_POLL);
        let (id, left) = world.heartbeat();
        world.lose(id);
        assert_eq!(world.state(), ConsumerState::Stale);
        world.sleep(crate::world::ms(1));
        world.polling = true;
        world.put(Input::Tick);
        world.find(1);
        let (again, call) = world.next_heartbeat();
        assert_eq!((call.epoch, &call.member_id), (left.epoch, &left.member_id));
        world.refuse(again, ErrorCode::UnknownMemberId);
        let (_, call) = world.next_heartbeat();
        assert_eq!((call.epoch, call.member_id != left.member_id), (0, true));
    }
}

#[test]
fn stale_without_a_coordinator_it_does_not_wait_for_one() {
    let mut world = World::stable(by_hand(), &[0]);
    world.refuse_next(ErrorCode::NotCoordinator);
    world.polling = false;
    world.pass(crate::world::MAX_POLL);
    assert_eq!(world.state(), ConsumerState::Stale);
    world.sleep(crate::world::ms(1));
    world.polling = true;
    world.put(Input::Tick);
    assert_eq!(world.state(), ConsumerState::Joining);
}
