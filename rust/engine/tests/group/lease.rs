//! Contract 7: nothing is handed out once the session timeout, less a margin, has passed since the last acknowledged
//! heartbeat was sent.

use monedula_engine::assign::Protocol;
use monedula_engine::group::classic::ClassicState;
use monedula_engine::group::{GroupEvent, GroupResponse, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::pending::pending;
use crate::world::{HEARTBEAT, SESSION, World, config, ms, secs};

#[test]
fn the_lease_counts_from_the_sending_of_what_was_acknowledged() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.pass(HEARTBEAT);
    let (id, _) = world.call("Heartbeat");
    let sent = world.now;
    world.pass(secs(10));
    world.answer(id, GroupResponse::Heartbeat { code: ErrorCode::None });
    assert_eq!(world.lease, Some(sent + SESSION - secs(1)));
}

// 24. self_fence_at_session_deadline_without_coordinator
#[test]
fn self_fence_at_session_deadline_without_coordinator() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    let lease = world.lease.expect("there is one");
    let left = lease - world.now;
    world.pass(left - ms(1));
    assert!(!world.events.contains(&GroupEvent::LeaseExpired));
    world.pass(ms(1));
    assert!(world.events.contains(&GroupEvent::LeaseExpired));
    world.pass(secs(100));
    assert_eq!(world.lease, Some(lease), "nothing renews it");
    assert_eq!(
        (world.state(), world.owned()),
        (ClassicState::Stable, vec![0]),
        "what it is only the coordinator knows"
    );
    // A heartbeat that succeeds renews the lease.
    world.call("Heartbeat");
    world.find(1);
    let (id, _) = world.call("Heartbeat");
    world.answer(id, GroupResponse::Heartbeat { code: ErrorCode::None });
    assert!(world.lease.is_some_and(|until| until > world.now));
    assert!(world.events.contains(&GroupEvent::LeaseRenewed));
}

#[test]
fn nothing_is_leased_where_nothing_is_owned() {
    let mut world = World::subscribed(config(Protocol::Eager));
    assert_eq!(world.lease, None);
    world.rebalance(1, &[0]);
    assert!(world.lease.is_some());
    world.look_up(10);
    world.beat(ErrorCode::UnknownMemberId);
    assert_eq!(world.lease, None);
}

#[test]
fn heartbeats_that_fail_do_not_renew_it() {
    for code in [ErrorCode::CoordinatorLoadInProgress, ErrorCode::NotCoordinator, ErrorCode::NetworkException] {
        let (mut world, id, _) = pending("Heartbeat");
        let lease = world.lease;
        world.answer(id, GroupResponse::Heartbeat { code });
        assert_eq!(world.lease, lease, "{code}");
    }
    // A coordinator that announces a rebalance knows the member, so the lease is renewed.
    let (mut world, id, _) = pending("Heartbeat");
    world.answer(id, GroupResponse::Heartbeat { code: ErrorCode::RebalanceInProgress });
    assert_eq!(world.lease, Some(world.now + SESSION - secs(1)));
}

#[test]
fn a_stopped_process_finds_its_lease_over_before_it_does_anything() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.sleep(SESSION * 3);
    assert!(world.lease.is_some_and(|until| until < world.now), "held against the clock, not against an event");
    world.put(Input::Tick);
    assert!(world.events.contains(&GroupEvent::LeaseExpired));
}
