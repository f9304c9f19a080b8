use monedula_engine::assign::Protocol;
use monedula_engine::group::classic::ClassicState;
use monedula_engine::group::{GroupEvent, GroupResponse, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::pending::pending;
use crate::world::{BACKOFF, HEARTBEAT, MAX_POLL, SESSION, World, config, identity, ms, offsets, secs, t};

// req: S138
#[test]
fn heartbeats_leave_every_interval_while_in_the_group_and_never_before_or_after() {
    let mut setup = config(Protocol::Cooperative);
    setup.heartbeat_interval = ms(1700);
    let mut world = World::new(setup);
    world.beating = true;
    world.subscribe(&["t"]);
    world.pass(secs(20));
    world.find(1);
    world.pass(secs(20));
    assert_eq!(world.beats, [], "not in the group yet");
    world.rebalance(1, &[0]);
    world.look_up(10);
    let since = world.now;
    world.pass(secs(17));
    // The first heartbeat is sent at once: the join took longer than an interval, and the answer to SyncGroup does not
    // renew the lease.
    let expected: Vec<_> = (0..=10).map(|n| since + ms(1700) * n).collect();
    assert_eq!(world.beats, expected);
    world.put(Input::Unsubscribe);
    let (id, _) = world.call("LeaveGroup");
    world.pass(secs(20));
    world.answer(id, GroupResponse::LeaveGroup { code: ErrorCode::None });
    world.pass(secs(20));
    assert_eq!(world.beats, expected, "left");
}

#[test]
fn for_a_minute_after_a_rebalance_heartbeats_go_four_times_as_often() {
    let mut setup = config(Protocol::Cooperative);
    setup.member.quick_heartbeats = 4;
    let quick_ones = secs(60).div_duration_f64(HEARTBEAT / 4) as u32;
    let mut world = World::stable(setup, &[0]);
    for _ in 0..2 {
        world.beating = true;
        world.beats.clear();
        let since = world.now;
        let quick = HEARTBEAT / 4 * quick_ones;
        world.pass(quick + HEARTBEAT * 3);
        world.beating = false;
        let expected = (1..=quick_ones).map(|n| since + HEARTBEAT / 4 * n);
        let expected: Vec<_> = expected.chain([1, 2, 3].map(|n| since + quick + HEARTBEAT * n)).collect();
        assert_eq!(world.beats, expected);
        world.beat(ErrorCode::RebalanceInProgress);
        world.rebalance(2, &[0]);
    }
}

// req: S058
#[test]
fn a_rebalance_is_noticed_within_one_heartbeat_interval() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0]);
    world.beating = true;
    world.pass(secs(60));
    world.beating = false;
    // The rebalance begins right after the answer to a heartbeat.
    let begun = world.now;
    world.pass(HEARTBEAT);
    let (id, _) = world.call("Heartbeat");
    world.answer(id, GroupResponse::Heartbeat { code: ErrorCode::RebalanceInProgress });
    world.call("JoinGroup");
    assert!(world.now - begun <= HEARTBEAT);
}

// req: S103
#[test]
fn a_notice_leads_to_a_join_and_a_lost_connection_only_to_another() {
    let mut world = World::stable(config(Protocol::Eager), &[0]);
    world.beat(ErrorCode::RebalanceInProgress);
    let trace = world.trace();
    assert_eq!(
        trace,
        ["Heartbeat", "settle t-0", "Revoked t-0", "dropped t-0", "JoinGroup"],
        "consumption stops first"
    );

    let mut world = World::stable(config(Protocol::Eager), &[0]);
    world.pass(HEARTBEAT);
    let (id, _) = world.call("Heartbeat");
    world.lose(id);
    world.find(1);
    world.beat(ErrorCode::None);
    world.no_call();
    assert_eq!((world.state(), world.owned()), (ClassicState::Stable, vec![0]));
}

// req: S054
#[test]
fn a_coordinator_that_loads_is_waited_for_without_a_join() {
    for (api, again) in [("Heartbeat", "Heartbeat"), ("OffsetCommit", "OffsetCommit"), ("OffsetFetch", "OffsetFetch")] {
        let (mut world, mut id, _) = pending(api);
        for _ in 0..4 {
            world.answer(id, crate::pending::failed(api, ErrorCode::CoordinatorLoadInProgress));
            world.no_call();
            world.pass(BACKOFF);
            id = world.call_past_heartbeats(again).0;
            world.beating = api != "Heartbeat";
        }
        world.no_call();
        assert_eq!((world.state(), world.owned()), (ClassicState::Stable, vec![0, 1]), "{api}");
    }
    let (mut world, id, _) = pending("JoinGroup");
    world.answer(id, crate::pending::failed("JoinGroup", ErrorCode::CoordinatorLoadInProgress));
    world.no_call();
    world.pass(BACKOFF);
    world.call("JoinGroup");
    assert_eq!(world.owned(), [0, 1]);
}

// req: S137
#[test]
fn a_wrong_generation_and_a_rebalance_both_lead_to_a_join() {
    for code in [ErrorCode::IllegalGeneration, ErrorCode::RebalanceInProgress] {
        let mut world = World::stable(config(Protocol::Cooperative), &[0, 1]);
        world.beat(code);
        assert_eq!(identity(&world.call("JoinGroup").1).0, "m");
        // A member that gets ILLEGAL_GENERATION was left out of a generation: others may own its partitions.
        let lost = code == ErrorCode::IllegalGeneration;
        assert_eq!(world.owned().is_empty(), lost);
    }
}

// req: S059
#[test]
fn a_member_that_is_not_known_joins_without_an_id() {
    let mut world = World::stable(config(Protocol::Cooperative), &[0, 1]);
    world.beat(ErrorCode::UnknownMemberId);
    assert_eq!(world.trace()[1..], ["dropped t-0 t-1", "Lost t-0 t-1", "JoinGroup"]);
    assert_eq!(identity(&world.call("JoinGroup").1).0, "");
}

// req: S113
#[test]
fn a_pause_shorter_than_the_session_costs_nothing() {
    for lost in [true, false] {
        let mut world = World::stable(config(Protocol::Eager), &[0, 1]);
        world.beat(ErrorCode::None);
        match lost {
            // The network fails for a while.
            true => {
                let until = world.now + SESSION - secs(5);
                while world.now < until {
                    world.pass(secs(1));
                    match world.apis().first() {
                        Some(&"FindCoordinator") => world.find(1),
                        Some(api) => {
                            let id = world.call(api).0;
                            world.lose(id);
                        }
                        None => {}
                    }
                }
                world.pass(BACKOFF);
                if world.apis() == ["FindCoordinator"] {
                    world.find(1);
                }
            }
            // The process is stopped for a while.
            false => {
                world.sleep(SESSION - secs(5));
                world.put(Input::Tick);
            }
        }
        let (id, _) = world.call("Heartbeat");
        world.answer(id, GroupResponse::Heartbeat { code: ErrorCode::None });
        world.beating = true;
        world.pass(secs(30));
        world.no_call();
        assert_eq!((world.state(), world.owned()), (ClassicState::Stable, vec![0, 1]));
        assert!(!world.events.iter().any(|event| matches!(event, GroupEvent::Lost { .. })));
    }
}

// req: S069
#[test]
fn a_long_pause_before_a_join_costs_the_membership_and_a_short_one_after_it_nothing() {
    let mut world = World::stable(config(Protocol::Eager), &[0, 1]);
    world.busy = true;
    world.beat(ErrorCode::RebalanceInProgress);
    world.sleep(SESSION + secs(10));
    world.put(Input::Tick);
    // The group rebalanced without the member.
    world.find(1);
    let (id, _) = world.call("Heartbeat");
    world.answer(id, GroupResponse::Heartbeat { code: ErrorCode::UnknownMemberId });
    world.rebalance(9, &[1]);
    assert_eq!(world.owned(), [1]);

    let (mut world, id, _) = pending("JoinGroup");
    world.sleep(SESSION - secs(10));
    world.beating = true;
    world.join(id, 2);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, crate::world::synced(&[0, 1]));
    world.pass(secs(30));
    world.no_call();
    assert_eq!((world.state(), world.owned()), (ClassicState::Stable, vec![0, 1]));
}

#[test]
fn an_answer_to_the_heartbeat_of_an_older_generation_says_nothing() {
    for code in [ErrorCode::UnknownMemberId, ErrorCode::IllegalGeneration, ErrorCode::RebalanceInProgress] {
        let mut world = World::stable(config(Protocol::Cooperative), &[0]);
        world.pass(HEARTBEAT);
        let (late, _) = world.call("Heartbeat");
        let now = world.now;
        world.put(Input::Rejoin { at: now, reason: "test".into() });
        world.rebalance(2, &[0]);
        world.trace();
        world.answer(late, GroupResponse::Heartbeat { code });
        world.no_call();
        assert_eq!((world.state(), world.owned()), (ClassicState::Stable, vec![0]), "{code}");
    }
}

// req: S009
#[test]
fn who_does_not_poll_for_max_poll_interval_leaves_and_comes_back_with_the_next_poll() {
    let mut world = World::stable(config(Protocol::Eager), &[0, 1]);
    world.beating = true;
    world.busy = true;
    world.polling = false;
    world.finished = offsets(&[(0, 40)]);
    world.pass(MAX_POLL - ms(1));
    assert_eq!(world.state(), ClassicState::Stable);
    while world.apis() == ["OffsetCommit"] {
        world.commit_answered(ErrorCode::None);
    }
    world.trace();
    world.pass(ms(1));
    assert_eq!(world.trace(), ["raise", "dropped t-0 t-1", "Lost t-0 t-1", "LeaveGroup"]);
    let (_, call) = world.call("LeaveGroup");
    assert_eq!(identity(&call).0, "m", "an ordinary LeaveGroup");
    assert_eq!(world.state(), ClassicState::Stale);
    world.pass(secs(1000));
    world.no_call();
    world.polling = true;
    world.user_returns();
    world.rebalance(5, &[0]);
    assert_eq!(world.owned(), [0]);
}

#[test]
fn polls_are_watched_in_every_state_of_a_membership() {
    for api in ["JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch"] {
        let (mut world, _, _) = pending(api);
        world.beating = true;
        world.polling = false;
        world.pass(MAX_POLL + ms(1));
        assert_eq!(world.state(), ClassicState::Stale, "{api}");
        assert_eq!((world.owned().len(), world.raised.len()), (0, 1), "{api}");
    }
    // While the user finishes, and during the callback.
    for settled in [false, true] {
        let mut world = World::stable(config(Protocol::Eager), &[0]);
        world.busy = true;
        world.beating = true;
        let now = world.now;
        world.put(Input::Rejoin { at: now, reason: "test".into() });
        if settled {
            let Some(crate::world::Owed::Settle(ticket, _)) = world.owed.pop_front() else { panic!() };
            world.put(Input::Finished { ticket, offsets: crate::world::Offsets::new() });
        }
        assert_eq!(world.state(), ClassicState::Revoking);
        world.trace();
        world.polling = false;
        world.pass(MAX_POLL + ms(1));
        let lost = world.trace().contains(&format!("Lost {}", t(0)));
        assert_eq!((world.state(), lost), (ClassicState::Stale, !settled), "each partition is reported once");
    }
}

#[test]
fn no_one_joins_for_a_user_who_does_not_poll() {
    let (mut world, id, _) = pending("FindCoordinator");
    world.polling = false;
    world.pass(MAX_POLL + ms(1));
    assert_eq!((world.state(), world.raised.len()), (ClassicState::Stale, 0), "it never was in the group");
    world.answer(id, crate::world::coordinator(ErrorCode::None, 1));
    world.no_call();
    world.polling = true;
    world.put(Input::Tick);
    world.call("JoinGroup");
}
