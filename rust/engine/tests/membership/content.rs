//! The fields of a heartbeat, and when it is sent.

use monedula_engine::Now;
use monedula_engine::group::consumer::{ConsumerProtocolConfig, ConsumerState};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{
    BACKOFF, INTERVAL, MAX_POLL, MEMBER, SESSION, World, config, fixed, id, ids, is_full, ms, names, of,
};

fn with_rack_and_assignor() -> ConsumerProtocolConfig {
    let mut setup = ConsumerProtocolConfig { assignor: Some("uniform".into()), ..fixed() };
    setup.member.rack = Some("r".into());
    setup
}

#[test]
fn a_join_says_everything_and_owns_nothing() {
    let mut world = World::subscribed(with_rack_and_assignor());
    let (_, call) = world.heartbeat();
    assert_eq!((call.group_id.as_str(), call.member_id.as_str(), call.epoch), ("g", MEMBER, 0));
    assert_eq!((call.instance_id.as_deref(), call.rack.as_deref()), (Some("i"), Some("r")));
    assert_eq!((call.assignor.as_deref(), call.rebalance_timeout), (Some("uniform"), Some(MAX_POLL)));
    assert_eq!((call.topics, call.regex), (Some(names(&["t"])), None));
    assert_eq!(call.owned, Some(ids(&[])), "what was owned before a join is not any more");
}

#[test]
fn what_has_not_changed_is_not_said_again() {
    let mut world = World::stable(with_rack_and_assignor(), &[0, 1]);
    for _ in 0..3 {
        let (id, call) = world.next_heartbeat();
        assert_eq!((call.member_id.as_str(), call.epoch, call.instance_id.as_deref()), (MEMBER, 1, Some("i")));
        assert_eq!((call.rack, call.assignor, call.rebalance_timeout), (None, None, None));
        assert_eq!((call.topics, call.regex, call.owned), (None, None, None));
        world.ok(id, 1, None);
    }
}

// Quick heartbeats: the group's changes do not take a whole interval each.
#[test]
fn for_two_intervals_after_a_join_and_one_after_a_new_target_heartbeats_go_four_times_as_often() {
    let quick = |from: Now, intervals: u32| {
        let often = (1..=intervals * 4).map(move |n| from + INTERVAL / 4 * n);
        often.chain((intervals + 1..=4).map(move |n| from + INTERVAL * n)).collect::<Vec<_>>()
    };
    let mut setup = config();
    setup.member.quick_heartbeats = 4;
    let mut world = World::subscribed(setup);
    let joined = world.now;
    let (id, _) = world.heartbeat();
    world.ok(id, 1, None);
    world.beating = true;
    world.pass(INTERVAL * 4);
    assert_eq!(world.beats, quick(joined, 2), "joined, with nothing to own yet");

    world.beating = false;
    world.target(2, &ids(&[0]));
    let (id, call) = world.heartbeat();
    assert_eq!(call.owned, Some(ids(&[0])), "acknowledged at once");
    let told = world.now;
    world.ok(id, 2, None);
    world.look_up(10);
    (world.beating, world.beats) = (true, Vec::new());
    world.pass(INTERVAL * 4);
    assert_eq!(world.beats, quick(told, 1));
}

#[test]
fn an_acknowledgement_goes_at_once_and_names_the_epoch_of_the_target() {
    let mut world = World::stable(config(), &[0]);
    world.pass(INTERVAL);
    let (id, _) = world.heartbeat();
    world.ok(id, 5, Some(&ids(&[0, 2])));
    let (_, call) = world.heartbeat();
    assert_eq!((call.epoch, call.owned), (5, Some(ids(&[0, 2]))));
    assert_eq!((call.topics, call.rebalance_timeout), (None, None));
    assert_eq!(world.state(), ConsumerState::Stable);
}

// Resend the full state after a failed heartbeat.
#[test]
fn after_any_heartbeat_that_failed_everything_is_said_again() {
    let codes = [
        ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::NotCoordinator,
        ErrorCode::CoordinatorNotAvailable,
        ErrorCode::TopicAuthorizationFailed,
        ErrorCode::NetworkException,
    ];
    for code in codes.into_iter().map(Some).chain([None]) {
        let mut world = World::stable(config(), &[0, 1]);
        let (id, call) = world.next_heartbeat();
        assert!(!is_full(&call));
        match code {
            Some(code) => world.refuse(id, code),
            None => world.lose(id),
        }
        if world.apis() == ["FindCoordinator"] {
            world.find(2);
        }
        world.pass(BACKOFF);
        let (id, call) = world.heartbeat();
        assert!(is_full(&call), "{code:?}: {call:?}");
        assert_eq!((call.epoch, call.owned), (1, Some(ids(&[0, 1]))), "{code:?}");
        assert_eq!(
            (world.state(), world.owned()),
            (ConsumerState::Stable, vec![0, 1]),
            "{code:?}: nothing is lost by it"
        );
        world.ok(id, 1, Some(&ids(&[0, 1])));
        world.no_call();
        let (_, call) = world.next_heartbeat();
        assert_eq!(is_full(&call), code.is_none(), "{code:?}: once, if it was answered");
    }
}

// Brokers repeat the assignment only if a heartbeat has all fields.
#[test]
fn as_long_as_a_heartbeat_may_still_arrive_whose_answer_nobody_hears_everything_is_said() {
    let mut world = World::stable(config(), &[0]);
    let (id, _) = world.next_heartbeat();
    world.lose(id);
    world.find(1);
    world.pass(BACKOFF);
    let until = world.now + SESSION * 2;
    let (id, _) = world.heartbeat();
    world.ok(id, 1, None);
    for _ in 0..SESSION.as_secs() {
        let (id, call) = world.next_heartbeat();
        world.ok(id, 1, None);
        assert_eq!(is_full(&call), world.now < until, "{:?}", until.saturating_sub(world.now));
    }
}

#[test]
fn a_wrong_answer_is_as_good_as_none() {
    let mut world = World::stable(config(), &[0]);
    let (id, _) = world.next_heartbeat();
    world.ok(id, 0, None);
    world.no_call();
    world.pass(BACKOFF);
    let (_, call) = world.heartbeat();
    assert!(is_full(&call));
    assert_eq!(call.epoch, 1);
}

// req: S158
#[test]
fn the_coordinators_interval_is_followed() {
    let mut world = World::stable(config(), &[0]);
    world.beating = true;
    let start = world.now;
    world.pass(INTERVAL * 4);
    assert_eq!(world.beats, (1..=4).map(|n| start + INTERVAL * n).collect::<Vec<_>>());
    assert_eq!(world.member.status().heartbeat_interval, INTERVAL);
}

#[test]
fn a_coordinator_that_names_no_interval_is_not_flooded() {
    let mut world = World::subscribed(config());
    for _ in 0..2 {
        let (id, call) = world.heartbeat();
        let answer = monedula_engine::group::GroupResponse::ConsumerGroupHeartbeat {
            code: ErrorCode::None,
            message: String::new(),
            epoch: 1,
            interval: ms(0),
            assignment: (call.epoch == 0).then(|| ids(&[])),
        };
        world.answer(id, answer);
    }
    world.no_call();
    world.pass(ConsumerProtocolConfig::FIRST_HEARTBEAT_INTERVAL - ms(1));
    world.no_call();
    world.pass(ms(1));
    world.heartbeat();
}

#[test]
fn what_is_owned_goes_by_the_ids_of_topics() {
    let mut world = World::new(config());
    world.subscribe(&["t", "u"]);
    world.topic("u", 4);
    world.find(1);
    let (heartbeat, call) = world.heartbeat();
    assert_eq!(call.topics, Some(names(&["t", "u"])));
    let both = ids(&[0]).union(&of("u", &[3])).copied().collect();
    world.ok(heartbeat, 1, Some(&both));
    let owned: Vec<String> = world.member.status().owned.iter().map(ToString::to_string).collect();
    assert_eq!(owned, ["t-0", "u-3"]);
    let (_, call) = world.heartbeat();
    assert_eq!(call.owned, Some([(id("t"), 0), (id("u"), 3)].into()));
}
