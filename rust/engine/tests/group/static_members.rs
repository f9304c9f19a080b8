//! Static members (KIP-345).

use monedula_engine::assign::Protocol;
use monedula_engine::group::classic::{ClassicConfig, ClassicState};
use monedula_engine::group::{Call, GroupError, GroupResponse, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::pending::failed;
use crate::world::{HEARTBEAT, MAX_POLL, World, commit_codes, config, offsets, secs};

pub(crate) fn fixed() -> ClassicConfig {
    let mut fixed = config(Protocol::Cooperative);
    fixed.member.instance_id = Some("i".into());
    fixed
}

fn instance(call: &Call) -> Option<&str> {
    match call {
        Call::JoinGroup { instance_id, .. }
        | Call::SyncGroup { instance_id, .. }
        | Call::Heartbeat { instance_id, .. }
        | Call::OffsetCommit { instance_id, .. } => instance_id.as_deref(),
        _ => None,
    }
}

#[test]
fn every_call_names_the_static_id() {
    let mut world = World::subscribed(fixed());
    let (id, call) = world.call("JoinGroup");
    assert_eq!(instance(&call), Some("i"));
    world.join(id, 1);
    let (id, call) = world.call("SyncGroup");
    assert_eq!(instance(&call), Some("i"));
    world.answer(id, crate::world::synced(&[0]));
    world.look_up(10);
    world.commit(1, offsets(&[(0, 11)]));
    let (id, call) = world.call("OffsetCommit");
    assert_eq!(instance(&call), Some("i"));
    world.answer(id, commit_codes(&offsets(&[(0, 11)]), ErrorCode::None));
    world.pass(HEARTBEAT);
    assert_eq!(instance(&world.call("Heartbeat").1), Some("i"));
}

// 18. static_restart_within_session_no_rebalance: the half of it that is the member's
#[test]
fn a_static_member_does_not_leave_so_that_its_place_is_kept() {
    for close in [true, false] {
        let mut world = World::stable(fixed(), &[0]);
        world.finished = offsets(&[(0, 30)]);
        match close {
            true => world.close(),
            false => world.put(Input::Unsubscribe),
        }
        world.commit_answered(ErrorCode::None);
        world.pass(secs(100));
        world.no_call();
        assert_eq!(world.state(), ClassicState::Unsubscribed);
    }
    let mut world = World::stable(fixed(), &[0]);
    (world.polling, world.beating) = (false, true);
    world.pass(MAX_POLL);
    assert_eq!(world.state(), ClassicState::Stale);
    assert!(!world.apis().contains(&"LeaveGroup"));
}

// 18. duplicate_instance_fenced_is_fatal_and_visible
#[test]
fn duplicate_instance_fenced_is_fatal_and_visible() {
    for api in ["JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"] {
        let mut world = World::stable(fixed(), &[0]);
        match api {
            "JoinGroup" | "SyncGroup" => {
                world.beat(ErrorCode::RebalanceInProgress);
                if api == "SyncGroup" {
                    let (id, _) = world.call("JoinGroup");
                    world.join(id, 2);
                }
            }
            "Heartbeat" => world.pass(HEARTBEAT),
            _ => world.commit(1, offsets(&[(0, 20)])),
        }
        let (id, _) = world.call(api);
        world.answer(id, failed(api, ErrorCode::FencedInstanceId));
        let fenced = GroupError::FencedInstance { group: "g".into(), instance: "i".into() };
        assert_eq!(world.raised, [(fenced.clone(), true)], "{api}");
        assert_eq!(world.member.status().fatal, Some(fenced));
        assert!(world.trace().contains(&"Lost t-0".to_owned()), "the other one owns it");
        world.pass(secs(600));
        world.no_call();
        world.close();
        world.no_call();
    }
}

#[test]
fn a_static_member_that_comes_back_takes_the_id_that_it_is_given() {
    let mut world = World::subscribed(fixed());
    let (id, _) = world.call("JoinGroup");
    let mut answer = world.joined(7, "other", Vec::new());
    if let GroupResponse::JoinGroup { member_id, .. } = &mut answer {
        *member_id = "i-2".into();
    }
    world.answer(id, answer);
    let (_, call) = world.call("SyncGroup");
    assert_eq!(crate::world::identity(&call), ("i-2", 7));
}

#[test]
fn closing_answers_what_waits_before_it_ends_and_nothing_wakes_the_member_afterwards() {
    let mut world = World::subscribed(fixed());
    world.rebalance(1, &[0]);
    let (id, _) = world.call("OffsetFetch");
    world.answer(id, failed("OffsetFetch", ErrorCode::CoordinatorLoadInProgress));
    world.close();
    assert_eq!(world.trace().last().map(String::as_str), Some("closed"));
    assert_eq!(world.member.wake_at(), None, "the lookup that was to be repeated");

    let mut world = World::stable(fixed(), &[0]);
    let deadline = world.now + secs(3600);
    world.put(Input::Commit { ticket: 1, offsets: offsets(&[(0, 20)]), deadline });
    world.call("OffsetCommit");
    world.put(Input::Close { deadline, leave: true });
    world.beating = true;
    world.pass(secs(30));
    assert_eq!(world.trace().last().map(String::as_str), Some("closed"));
    assert_eq!(world.commit_error(1), monedula_engine::group::CommitError::Closed);
}
