//! Assignors that defer: the member joins again when deferred partitions are due, sends what is still deferred, and
//! takes part in rebalances while it still revokes partitions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::assign::{
    DeferredUserData, Loss, MemberAssignment, Protocol, Schedule, assignment_bytes, builtin, read_subscriptions,
    subscription_bytes,
};
use monedula_engine::group::classic::{ClassicConfig, ClassicState};
use monedula_engine::group::{Call, GroupEvent, GroupResponse, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{DEFERS, Named, SESSION, World, config, identity, offsets, secs, subscription, synced, t};

fn deferred() -> ClassicConfig {
    let mut setup = config(Protocol::Cooperative);
    setup.assignors = vec![builtin("deferred").expect("known")];
    setup
}

/// An assignor that defers. Its assignments are empty.
fn defers() -> ClassicConfig {
    let mut setup = config(Protocol::Cooperative);
    setup.assignors = vec![Arc::new(Named(DEFERS, Protocol::Cooperative))];
    setup
}

/// How long t-9 is reserved for its owner.
fn waiting(remaining: Duration) -> Schedule {
    let losses = vec![Loss { remaining, members: 1, partitions: [t(9)].into(), names: ["gone".into()].into() }];
    Schedule { members: 3, topics: [("t".into(), 10)].into(), losses, ..Schedule::default() }
}

fn told(schedule: &Schedule, partitions: &[i32]) -> Vec<u8> {
    let partitions = partitions.iter().map(|&partition| t(partition)).collect();
    let user_data = Some(schedule.write().expect("it encodes"));
    assignment_bytes(&MemberAssignment { partitions, user_data }).expect("it encodes")
}

fn synced_with(schedule: &Schedule, partitions: &[i32]) -> GroupResponse {
    let assignment = told(schedule, partitions);
    GroupResponse::SyncGroup { code: ErrorCode::None, protocol_type: None, protocol: None, assignment }
}

/// A stable member in generation 2 with t-0, after an assignment that reserves t-9 for 100 s.
fn waits() -> World {
    let mut world = World::stable(deferred(), &[0]);
    world.beat(ErrorCode::RebalanceInProgress);
    let (id, _) = world.call("JoinGroup");
    world.join(id, 2);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, synced_with(&waiting(secs(100)), &[0]));
    assert_eq!(world.state(), ClassicState::Stable);
    world.beating = true;
    world.trace();
    world
}

fn known(call: &Call) -> DeferredUserData {
    DeferredUserData::read(&subscription(call).user_data.expect("user data")).expect("it decodes")
}

#[test]
fn the_member_joins_again_when_what_was_left_is_due_and_says_that_nothing_is_left() {
    let mut world = waits();
    world.pass(secs(99));
    world.no_call();
    world.pass(secs(1));
    let (_, call) = world.call("JoinGroup");
    assert_eq!(world.trace(), ["JoinGroup"], "nothing of what it owns stops for that");
    assert_eq!(
        known(&call),
        DeferredUserData { generation: Some(2), schedule: Some(waiting(Duration::ZERO)), ends_waits: false }
    );
    let Call::JoinGroup { reason, .. } = call else { panic!("{call:?}") };
    assert_eq!(reason, "what the assignment left for later is due");
}

#[test]
fn who_joins_before_that_tells_what_is_left_and_the_next_assignment_decides_anew() {
    let mut world = waits();
    world.pass(secs(30));
    world.rejoin();
    let (id, call) = world.call("JoinGroup");
    assert_eq!(known(&call).schedule, Some(waiting(secs(70))));
    world.join(id, 3);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, synced_with(&waiting(secs(65)), &[0]));
    world.pass(secs(64));
    world.no_call();
    world.pass(secs(1));
    let (id, _) = world.call("JoinGroup");
    // Nothing is deferred any more.
    world.join(id, 4);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, synced(&[0]));
    world.pass(secs(1000));
    world.no_call();
}

#[test]
fn a_member_that_lost_what_it_had_knows_nothing() {
    let mut world = waits();
    world.beating = false;
    world.beat(ErrorCode::UnknownMemberId);
    let (id, call) = world.call("JoinGroup");
    assert_eq!(known(&call), DeferredUserData::default());
    // The same after a rebalance that a newer one overtook before it had an assignment.
    world.join(id, 3);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, crate::world::sync_error(ErrorCode::RebalanceInProgress));
    let (_, call) = world.call("JoinGroup");
    assert_eq!(known(&call), DeferredUserData::default());
}

/// The coordinator begins a rebalance. The member's next heartbeat, at most 3 s from now, brings it.
fn rebalances(world: &mut World) {
    world.beating = false;
    world.beat(ErrorCode::RebalanceInProgress);
    world.beating = true;
}

/// The reserved partitions that the member sent since the last look.
fn told_of_kept(world: &mut World) -> Vec<GroupEvent> {
    let events = std::mem::take(&mut world.events);
    let kept = |event: &GroupEvent| matches!(event, GroupEvent::Reserved { .. } | GroupEvent::Released { .. });
    events.into_iter().filter(kept).collect()
}

#[test]
fn a_user_who_wants_a_rebalance_ends_the_wait_and_says_so_until_an_assignment_came_of_it() {
    let mut world = waits();
    let ends = |call: &Call| known(call).ends_waits;
    world.pass(secs(10));
    rebalances(&mut world);
    let (id, call) = world.call("JoinGroup");
    assert!(!ends(&call), "a rebalance that others want");
    // The user asks for a rebalance while one is in progress: the next one answers that.
    let at = world.now;
    world.put(Input::Rejoin { at, reason: "deployed".into() });
    world.join(id, 3);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, synced_with(&waiting(secs(90)), &[0]));
    let (id, call) = world.call("JoinGroup");
    assert!(ends(&call));
    // That join fails, and the user's request stands.
    world.join(id, 4);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, crate::world::sync_error(ErrorCode::RebalanceInProgress));
    let (id, call) = world.call("JoinGroup");
    assert!(ends(&call));
    world.join(id, 5);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, synced(&[0]));
    rebalances(&mut world);
    let (_, call) = world.call("JoinGroup");
    assert!(!ends(&call), "it is done");
}

#[test]
fn a_rebalance_that_is_wanted_later_ends_the_wait_then() {
    let mut world = waits();
    let at = world.now + secs(20);
    world.put(Input::Rejoin { at, reason: "soon".into() });
    world.pass(secs(19));
    world.no_call();
    world.pass(secs(1));
    let (_, call) = world.call("JoinGroup");
    assert!(known(&call).ends_waits);
}

#[test]
fn what_is_kept_for_whom_and_how_long_is_told_once_and_stands_in_the_status() {
    let mut world = waits();
    let kept = |world: &World| -> Vec<_> {
        let reserved = world.member.status().reserved;
        reserved.into_iter().map(|one| (one.partitions, one.members, one.names, one.until - world.now)).collect()
    };
    let gone = || ([t(9)].into(), 1, ["gone".into()].into(), secs(100));
    assert_eq!(kept(&world), [gone()]);
    assert_eq!(world.member.status().deferred_until, Some(world.now + secs(100)));
    let (partitions, members, names, left) = gone();
    assert_eq!(told_of_kept(&mut world), [GroupEvent::Reserved { partitions, members, names, left }]);
    // Another rebalance without changes: the user gets no further event.
    world.pass(secs(27));
    rebalances(&mut world);
    let (id, _) = world.call("JoinGroup");
    world.join(id, 3);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, synced_with(&waiting(secs(70)), &[0]));
    assert_eq!((told_of_kept(&mut world), kept(&world)[0].3), (vec![], secs(70)));
    // The partition is assigned to this member now.
    world.pass(secs(70));
    let (id, _) = world.call("JoinGroup");
    world.join(id, 4);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, synced(&[0, 9]));
    assert_eq!(told_of_kept(&mut world), [GroupEvent::Released { partitions: [t(9)].into() }]);
    assert_eq!((kept(&world), world.member.status().deferred_until), (vec![], None));
}

#[test]
fn a_member_that_is_out_of_the_group_knows_of_nothing_that_is_kept() {
    let mut world = waits();
    world.beating = false;
    world.beat(ErrorCode::UnknownMemberId);
    assert_eq!(world.member.status().reserved, []);
}

// The rebalance may take minutes until the last member has joined.
#[test]
fn a_leader_tells_itself_what_is_left_when_it_assigns_not_when_it_joined() {
    let mut world = waits();
    world.pass(secs(10));
    world.rejoin();
    let (id, call) = world.call("JoinGroup");
    assert_eq!(known(&call).schedule, Some(waiting(secs(90))));
    let mine = match call {
        Call::JoinGroup { protocols, .. } => protocols[0].1.clone(),
        call => panic!("{call:?}"),
    };
    world.pass(secs(40));
    let assignor = builtin("deferred").expect("known");
    let other = subscription_bytes(&*assignor, &["t".into()].into(), &[].into(), -1, &Default::default(), None);
    let members = vec![("m".into(), None, mine), ("other".into(), None, other.expect("it encodes"))];
    let answer = world.joined(3, "m", members.clone());
    world.answer(id, answer);
    let read = |member: &[_]| read_subscriptions(member).expect("it decodes").remove(0);
    let (now, before) = (read(&world.to_assign[..1]), read(&members[..1]));
    let now_told = DeferredUserData::read(&now.user_data.clone().expect("user data")).expect("it decodes");
    assert_eq!(now_told.schedule, Some(waiting(secs(50))));
    assert_eq!(monedula_engine::assign::MemberSubscription { user_data: before.user_data.clone(), ..now }, before);
    assert_eq!(world.to_assign[1], members[1], "the metadata of others is unchanged");
}

// Partitions that are deliberately without an owner are no reason for a rebalance.
#[test]
fn a_leader_does_not_miss_what_was_left_out_on_purpose() {
    for (partitions, misses) in [(10, false), (11, true)] {
        let mut world = World::subscribed(deferred());
        let (id, _) = world.call("JoinGroup");
        let answer = world.joined(1, "m", Vec::new());
        world.answer(id, answer);
        let assignments = vec![("m".to_owned(), told(&waiting(secs(300)), &[0, 1, 2, 3, 4, 5, 6, 7, 8]))];
        let counts = BTreeMap::from([("t".into(), partitions)]);
        let ticket = world.assigning.take().expect("it leads");
        world.put(Input::AssignmentComputed { ticket, outcome: Ok((assignments.clone(), counts)) });
        let (id, _) = world.call("SyncGroup");
        let assignment = assignments[0].1.clone();
        let code = ErrorCode::None;
        world.answer(id, GroupResponse::SyncGroup { code, protocol_type: None, protocol: None, assignment });
        world.look_up(10);
        world.beating = true;
        world.pass(SESSION + secs(1));
        assert_eq!(world.apis(), if misses { vec!["JoinGroup"] } else { vec![] });
    }
}

/// A stable member with t-0 and t-1 that has to revoke t-1 while its user is busy; the coordinator begins the next
/// rebalance.
fn gives_up(setup: ClassicConfig) -> World {
    let mut world = World::stable(setup, &[0, 1]);
    world.beat(ErrorCode::RebalanceInProgress);
    let (id, _) = world.call("JoinGroup");
    world.join(id, 2);
    world.busy = true;
    let (id, _) = world.call("SyncGroup");
    world.answer(id, synced(&[0]));
    assert_eq!(world.state(), ClassicState::Revoking);
    // The first heartbeat is sent at once.
    if world.apis() == ["Heartbeat"] {
        let (id, _) = world.call("Heartbeat");
        world.answer(id, GroupResponse::Heartbeat { code: ErrorCode::None });
    }
    world.no_call();
    world.trace();
    world.beat(ErrorCode::RebalanceInProgress);
    world.finished = offsets(&[(1, 40)]);
    world
}

// req: S135
#[test]
fn a_member_takes_part_in_a_rebalance_while_it_gives_up_and_claims_what_it_has_still() {
    let mut world = gives_up(defers());
    let (id, call) = world.call("JoinGroup");
    assert_eq!((subscription(&call).owned, subscription(&call).generation), (vec![t(0), t(1)], 2));
    world.join(id, 3);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, synced(&[0]));
    assert_eq!((world.state(), world.owned()), (ClassicState::Revoking, vec![0, 1]));
    assert_eq!(world.trace(), ["Heartbeat", "JoinGroup", "SyncGroup"], "settled once, and t-0 flows on");
    // When its user has finished, the revocation continues, in the generation that the member is in by then.
    world.user_returns();
    let (id, call) = world.call("OffsetCommit");
    assert_eq!(identity(&call), ("m", 3));
    world.answer(id, crate::world::commit_codes(&offsets(&[(1, 40)]), ErrorCode::None));
    assert_eq!(world.trace(), ["OffsetCommit", "Revoked t-1", "dropped t-1", "JoinGroup"]);
    let (_, call) = world.call("JoinGroup");
    assert_eq!((subscription(&call).owned, subscription(&call).generation), (vec![t(0)], 3));
}

#[test]
fn other_assignors_are_waited_for() {
    let world = gives_up(config(Protocol::Cooperative));
    world.no_call();
    assert_eq!(world.state(), ClassicState::Revoking);
}

#[test]
fn what_is_given_up_in_the_middle_of_a_rebalance_is_told_by_another_join() {
    for call in ["JoinGroup", "SyncGroup"] {
        let mut setup = defers();
        setup.member.auto_commit_interval = None;
        let mut world = gives_up(setup);
        let (mut id, _) = world.call("JoinGroup");
        if call == "SyncGroup" {
            world.join(id, 3);
            (id, _) = world.call("SyncGroup");
        }
        world.trace();
        world.user_returns();
        assert_eq!(world.trace(), ["Revoked t-1", "dropped t-1"]);
        assert_eq!(world.owned(), [0]);
        if call == "JoinGroup" {
            world.join(id, 3);
            (id, _) = world.call("SyncGroup");
        }
        world.answer(id, synced(&[0]));
        let (id, call) = world.call("JoinGroup");
        assert_eq!((subscription(&call).owned, subscription(&call).generation), (vec![t(0)], 3));
        world.join(id, 4);
        let (id, _) = world.call("SyncGroup");
        world.answer(id, synced(&[0]));
        assert_eq!(world.state(), ClassicState::Stable);
        world.no_call();
    }
}

#[test]
fn a_rebalance_that_asks_for_more_is_minded_after_what_is_given_up_already() {
    let mut world = gives_up(defers());
    let (id, _) = world.call("JoinGroup");
    world.join(id, 3);
    let (id, _) = world.call("SyncGroup");
    world.answer(id, synced(&[]));
    world.trace();
    world.user_returns();
    world.commit_answered(ErrorCode::None);
    assert_eq!(
        world.trace(),
        ["OffsetCommit", "Revoked t-1", "dropped t-1", "settle t-0", "Revoked t-0", "dropped t-0", "JoinGroup"]
    );
    let (_, call) = world.call("JoinGroup");
    assert!(subscription(&call).owned.is_empty());
}

#[test]
fn a_join_without_an_answer_leaves_nobody_sure_of_what_was_to_be_given_up() {
    let mut world = gives_up(defers());
    let (id, _) = world.call("JoinGroup");
    world.lose(id);
    assert_eq!(world.state(), ClassicState::Revoking);
    world.find(1);
    world.pass(crate::world::BACKOFF);
    let (id, call) = world.call("JoinGroup");
    assert_eq!((subscription(&call).owned, subscription(&call).generation), (vec![t(0), t(1)], 2));
    world.join(id, 4);
    let (id, _) = world.call("SyncGroup");
    world.trace();
    world.answer(id, synced(&[0]));
    assert_eq!(world.trace(), ["dropped t-1", "Lost t-1", "JoinGroup"]);
    assert_eq!(world.owned(), [0]);
    world.no_call_but("JoinGroup");
}

#[test]
fn closing_while_it_joins_and_gives_up_ends_in_order() {
    for returns_first in [false, true] {
        let mut world = gives_up(defers());
        let (id, _) = world.call("JoinGroup");
        if returns_first {
            world.user_returns();
            world.close();
            world.commit_answered(ErrorCode::None);
        } else {
            world.close();
            world.user_returns();
            world.commit_answered(ErrorCode::None);
        }
        world.join(id, 3);
        while let Some(&api) = world.apis().first() {
            let (id, _) = world.call(api);
            world.answer(id, GroupResponse::LeaveGroup { code: ErrorCode::None });
            assert_eq!(api, "LeaveGroup");
        }
        assert_eq!(world.trace().last().map(String::as_str), Some("closed"));
    }
}

// Nobody waits for the partition, so one join is enough.
#[test]
fn a_change_of_the_subscription_is_joined_with_once_it_is_given_up() {
    let mut world = World::stable(defers(), &[0, 1]);
    world.busy = true;
    world.subscribe(&["u"]);
    world.no_call();
    world.user_returns();
    world.call("JoinGroup");
    assert_eq!(world.trace(), ["settle t-0 t-1", "Revoked t-0 t-1", "dropped t-0 t-1", "JoinGroup"]);
}
