//! Committed offsets are looked up with the member's epoch (KIP-848). The reset policy decides only if there is none.

use monedula_engine::group::{Call, Committed, GroupResponse, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, MEMBER, World, at, config, ids, of, t};

fn looking(epoch: i32) -> (World, u64) {
    let mut world = World::subscribed(config());
    world.assigned(epoch, &ids(&[0]));
    let (id, call) = world.call("OffsetFetch");
    let Call::OffsetFetch { member, partitions, .. } = call else { panic!("{call:?}") };
    assert_eq!((member, partitions), (Some((MEMBER.into(), epoch)), vec![t(0)]));
    (world, id)
}

fn found(committed: Committed) -> GroupResponse {
    GroupResponse::OffsetFetch { code: ErrorCode::None, offsets: [(t(0), Ok(committed))].into() }
}

#[test]
fn only_a_lookup_that_found_nothing_leaves_it_to_the_policy() {
    for committed in [Some(at(10)), None] {
        let (mut world, id) = looking(3);
        world.answer(id, found(committed.clone()));
        assert_eq!(world.starts, [(t(0), committed, false)]);
    }
    for code in [ErrorCode::CoordinatorLoadInProgress, ErrorCode::UnstableOffsetCommit, ErrorCode::NetworkException] {
        let (mut world, id) = looking(3);
        world.answer(id, GroupResponse::OffsetFetch { code, offsets: [].into() });
        assert_eq!(world.starts, [], "{code}");
        world.pass(BACKOFF);
        world.look_up(10);
        assert_eq!(world.starts, [(t(0), Some(at(10)), false)]);
    }
}

#[test]
fn a_stale_epoch_waits_for_the_heartbeat_that_brings_the_new_one() {
    for code in [ErrorCode::StaleMemberEpoch, ErrorCode::UnknownMemberId] {
        let (mut world, id) = looking(3);
        world.answer(id, GroupResponse::OffsetFetch { code, offsets: [].into() });
        world.pass(BACKOFF);
        let (heartbeat, _) = world.heartbeat();
        world.no_call();
        assert_eq!(world.starts, []);
        world.ok(heartbeat, 5, None);
        let (id, call) = world.call("OffsetFetch");
        assert!(matches!(&call, Call::OffsetFetch { member: Some((_, 5)), .. }), "{call:?}");
        world.answer(id, found(Some(at(10))));
        assert_eq!(world.starts, [(t(0), Some(at(10)), false)]);
    }
}

#[test]
fn a_lookup_of_before_a_loss_says_nothing_of_a_partition_gained_again() {
    let (mut world, id) = looking(3);
    world.refuse_next(ErrorCode::FencedMemberEpoch);
    world.assigned(5, &ids(&[0]));
    world.answer(id, found(Some(at(10))));
    assert_eq!(world.starts, []);
    world.look_up(20);
    assert_eq!(world.starts, [(t(0), Some(at(20)), false)]);
}

#[test]
fn a_partition_that_was_added_later_is_new() {
    let mut world = World::subscribed(config());
    world.assigned(1, &ids(&[0]));
    world.look_up(10);
    world.topic("t", 6);
    world.target(2, &ids(&[0, 4]));
    let (id, _) = world.call("OffsetFetch");
    let answer = GroupResponse::OffsetFetch { code: ErrorCode::None, offsets: [(t(4), Ok(None))].into() };
    world.answer(id, answer);
    assert_eq!(world.starts.last(), Some(&(t(4), None, true)));
}

// req: S084
#[test]
fn a_topic_that_a_pattern_matches_later_is_new_and_one_that_was_there_is_not() {
    let mut world = World::new(config());
    world.match_topics(&["t"]);
    world.learn();
    world.find(1);
    world.assigned(1, &ids(&[0]));
    world.call("OffsetFetch");
    world.match_topics(&["t", "u"]);
    world.topic("u", 2);
    world.settle_heartbeats(1);
    let both = ids(&[0]).union(&of("u", &[1])).copied().collect();
    world.target(2, &both);
    let u = monedula_engine::TopicPartition::new("u", 1);
    world.lose_all();
    world.find(1);
    world.pass(BACKOFF);
    let (id, _) = world.call("OffsetFetch");
    let offsets = [(t(0), Ok(None)), (u.clone(), Ok(None))].into();
    world.answer(id, GroupResponse::OffsetFetch { code: ErrorCode::None, offsets });
    assert_eq!(world.starts, [(t(0), None, false), (u, None, true)]);
}

// req: S084
#[test]
fn under_a_pattern_of_the_brokers_what_was_not_there_before_is_new_if_that_is_known() {
    for listed in [true, false] {
        let mut world = World::new(config());
        if listed {
            world.put(Input::Listed { counts: [("t".into(), 4)].into() });
        }
        world.subscribe_regex(".*");
        world.topic("u", 2);
        world.find(1);
        world.assigned(1, &ids(&[0]).union(&of("u", &[1])).copied().collect());
        let (id, _) = world.call("OffsetFetch");
        let u = monedula_engine::TopicPartition::new("u", 1);
        let offsets = [(t(0), Ok(None)), (u.clone(), Ok(None))].into();
        world.answer(id, GroupResponse::OffsetFetch { code: ErrorCode::None, offsets });
        assert_eq!(world.starts, [(t(0), None, false), (u, None, listed)]);
    }
}

#[test]
fn what_the_user_may_not_read_is_told_of_that_partition() {
    let (mut world, id) = looking(3);
    let offsets = [(t(0), Err(ErrorCode::TopicAuthorizationFailed))].into();
    world.trace();
    world.answer(id, GroupResponse::OffsetFetch { code: ErrorCode::None, offsets });
    assert!(world.trace()[0].starts_with("start of t-0 failed"));
    world.pass(BACKOFF);
    assert_eq!((world.owned(), world.starts.len()), (vec![0], 0));
}

// An ACL may be added, and a topic may be created: the membership continues, and the lookup is repeated.
#[test]
fn a_committed_offset_that_is_refused_is_told_once_and_asked_for_again() {
    for code in [ErrorCode::TopicAuthorizationFailed, ErrorCode::UnknownTopicOrPartition] {
        for of_the_request in [true, false] {
            let (mut world, mut id) = looking(3);
            world.beating = true;
            let refused = || match of_the_request {
                true => GroupResponse::OffsetFetch { code, offsets: [].into() },
                false => GroupResponse::OffsetFetch { code: ErrorCode::None, offsets: [(t(0), Err(code))].into() },
            };
            world.trace();
            world.answer(id, refused());
            assert_eq!(world.trace(), [format!("start of t-0 failed: {code}")]);
            for _ in 0..20 {
                world.no_call();
                world.pass(BACKOFF);
                id = world.call("OffsetFetch").0;
                world.answer(id, refused());
            }
            assert_eq!(world.trace(), ["OffsetFetch"; 20], "reported once");
            world.pass(BACKOFF);
            let (id, _) = world.call("OffsetFetch");
            world.answer(id, found(Some(at(7))));
            assert_eq!(world.starts, [(t(0), Some(at(7)), false)]);
            world.pass(BACKOFF * 10);
            assert_eq!(world.apis(), [""; 0]);
        }
    }
}

// The recreated topic has as many partitions as before, but none of them existed when the member subscribed.
#[test]
fn partitions_of_a_topic_that_is_made_anew_are_new_however_many_it_has() {
    let anew = monedula_protocol::types::Uuid([99; 16]);
    for gone_between in [true, false] {
        let mut world = World::stable(config(), &[0]);
        world.starts.clear();
        if gone_between {
            world.metadata.clear();
            world.learn();
        }
        world.topic_with("t", anew, 4);
        world.beating = false;
        world.target(2, &[(anew, 0), (anew, 3)].into());
        world.settle_heartbeats(2);
        let (id, call) = world.call("OffsetFetch");
        let Call::OffsetFetch { partitions, .. } = call else { panic!("{call:?}") };
        assert_eq!(partitions, [t(0), t(3)]);
        let offsets = [(t(0), Ok(None)), (t(3), Ok(None))].into();
        world.answer(id, GroupResponse::OffsetFetch { code: ErrorCode::None, offsets });
        assert_eq!(world.starts, [(t(0), None, true), (t(3), None, true)], "{gone_between}");
    }
}
