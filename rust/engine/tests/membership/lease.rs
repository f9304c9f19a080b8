//! Contract 7: nothing is handed out once the session timeout, less a margin, has passed since the last acknowledged
//! heartbeat was sent. The client's setting counts, because the protocol does not carry the broker's.

use std::time::Duration;

use monedula_engine::group::consumer::ConsumerState;
use monedula_engine::group::{GroupEvent, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, INTERVAL, MAX_POLL, SESSION, World, by_hand, config, ids, ms, offsets, secs};

const MARGIN: Duration = Duration::from_secs(1);

#[test]
fn the_lease_counts_from_the_sending_of_what_was_acknowledged() {
    let mut world = World::stable(config(), &[0]);
    let (id, _) = world.next_heartbeat();
    let sent = world.now;
    world.pass(secs(10));
    world.ok(id, 1, None);
    assert_eq!(world.lease, Some(sent + SESSION - MARGIN));
}

#[test]
fn the_setting_says_how_long_the_session_is() {
    let mut setup = config();
    setup.member.session_timeout = secs(6);
    let mut world = World::stable(setup, &[0]);
    let (id, _) = world.next_heartbeat();
    let sent = world.now;
    world.ok(id, 1, None);
    assert_eq!(world.lease, Some(sent + secs(6) - ms(600)));
}

#[test]
fn with_the_coordinator_gone_it_ends_and_a_fresh_answer_renews_it() {
    let mut world = World::stable(by_hand(), &[0]);
    let lease = world.lease.expect("there is one");
    let left = lease - world.now;
    world.pass(left - ms(1));
    assert!(!world.events.contains(&GroupEvent::LeaseExpired));
    world.pass(ms(1));
    assert!(world.events.contains(&GroupEvent::LeaseExpired));
    // Commits wait although the coordinator still counts as alive: another member may own the partition.
    let deadline = world.now + secs(600);
    world.put(Input::Commit { ticket: 1, offsets: offsets(&[(0, 15)]), deadline });
    assert!(world.member.status().coordinator.is_some());
    assert!(!world.apis().contains(&"OffsetCommit"));
    world.pass(secs(100));
    assert_eq!(world.lease, Some(lease), "nothing renews it");
    assert_eq!(
        (world.state(), world.owned()),
        (ConsumerState::Stable, vec![0]),
        "what it is only the coordinator knows"
    );
    world.lose_all();
    world.pass(BACKOFF);
    world.find(1);
    world.pass(BACKOFF);
    let (id, _) = world.heartbeat();
    world.ok(id, 1, None);
    assert!(world.lease.is_some_and(|until| until > world.now));
    assert!(world.events.contains(&GroupEvent::LeaseRenewed));
    world.call("OffsetCommit");
}

#[test]
fn nothing_is_leased_where_nothing_is_owned() {
    let mut world = World::subscribed(by_hand());
    assert_eq!(world.lease, None);
    world.assigned(1, &ids(&[0]));
    assert!(world.lease.is_some());
    world.refuse_next(ErrorCode::UnknownMemberId);
    assert_eq!(world.lease, None);
}

#[test]
fn heartbeats_that_fail_do_not_renew_it() {
    for code in [ErrorCode::CoordinatorLoadInProgress, ErrorCode::NotCoordinator, ErrorCode::TopicAuthorizationFailed] {
        let mut world = World::stable(config(), &[0]);
        let lease = world.lease;
        world.refuse_next(code);
        assert_eq!(world.lease, lease, "{code}");
    }
}

#[test]
fn a_stopped_process_finds_its_lease_over_before_it_does_anything() {
    let mut world = World::stable(config(), &[0]);
    world.sleep(SESSION * 3);
    assert!(world.lease.is_some_and(|until| until < world.now), "held against the clock, not against an event");
    world.put(Input::Tick);
    assert!(world.events.contains(&GroupEvent::LeaseExpired));
}

// The coordinator removes a member that does not revoke in time, however many heartbeats it has answered.
#[test]
fn what_is_kept_is_leased_no_longer_than_the_time_to_give_back_the_rest() {
    let mut setup = by_hand();
    setup.member.session_timeout = MAX_POLL * 2;
    let mut world = World::stable(setup, &[0, 1]);
    let (id, _) = world.next_heartbeat();
    let confirmed = world.now;
    world.ok(id, 1, None);
    world.busy = true;
    let (id, _) = world.next_heartbeat();
    world.ok(id, 2, Some(&ids(&[1])));
    let until = Some(confirmed + MAX_POLL - MARGIN);
    assert_eq!(world.lease, until);
    world.beating = true;
    world.pass(INTERVAL * 20);
    assert_eq!(world.lease, until, "answers do not prolong it");
    world.user_returns();
    // The acknowledgement was answered.
    assert!(world.lease > until, "{:?}", world.lease);
    assert_eq!(world.owned(), [1]);
}

#[test]
fn a_process_that_stood_still_asks_again_before_it_gains_what_others_may_have_by_then() {
    let mut world = World::subscribed(by_hand());
    let (join, _) = world.heartbeat();
    world.sleep(SESSION);
    world.ok(join, 1, Some(&ids(&[0])));
    assert_eq!(world.owned(), [] as [i32; 0], "it may have been thrown out since");
    // The heartbeat is sent at once, because nothing may be read before its answer.
    let (id, call) = world.heartbeat();
    assert_eq!((call.epoch, call.owned), (1, None));
    world.ok(id, 1, None);
    assert_eq!(world.owned(), [0]);
    assert!(world.trace().contains(&"Assigned t-0".to_owned()));

    let mut world = World::subscribed(by_hand());
    let (join, _) = world.heartbeat();
    world.sleep(SESSION);
    world.ok(join, 1, Some(&ids(&[0])));
    world.refuse_next(ErrorCode::UnknownMemberId);
    assert!(!world.trace().iter().any(|line| line.starts_with("Assigned") || line.starts_with("Lost")));
    assert_eq!(world.heartbeat().1.epoch, 0);
}
