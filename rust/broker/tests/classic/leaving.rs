//! Heartbeats, sessions, LeaveGroup, and the states of the group that follow.

use monedula_protocol::error_code::ErrorCode;

use crate::member::{Member, SESSION_MS, describe, finish, join_all, make_topic, settle, state};
use crate::support::World;

// req: S008
// req: S104
// req: S112
#[test]
fn a_silent_member_is_dropped_after_the_session_timeout_that_it_asked_for() {
    let mut world = World::default();
    let mut members = [
        Member { session_ms: 6000, ..Member::new(&mut world, "g") },
        Member { session_ms: 20_000, ..Member::new(&mut world, "g") },
        Member { session_ms: 100_000, ..Member::new(&mut world, "g") },
    ];
    let [short, long, alive] = &mut members;
    let joins = join_all(&mut world, &mut [short, long, alive]);
    finish(&mut world, &mut [short, long, alive], &joins);
    world.advance(5999);
    assert_eq!(alive.heartbeat(&mut world), ErrorCode::None);
    world.advance(1);
    assert_eq!(alive.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    assert_eq!(short.heartbeat(&mut world), ErrorCode::UnknownMemberId);
    let joins = join_all(&mut world, &mut [long, alive]);
    finish(&mut world, &mut [long, alive], &joins);
    world.advance(19_999);
    assert_eq!(alive.heartbeat(&mut world), ErrorCode::None);
    world.advance(1);
    assert_eq!(alive.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    settle(&mut world, &mut [alive]);
}

#[test]
fn a_session_that_has_ended_is_over_for_the_next_request() {
    let mut world = World::default();
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    // No tick in between: the request is there before the server's timer.
    world.now_ms += i64::from(SESSION_MS);
    assert_eq!(state(&mut world, "g"), "Empty");
    assert_eq!(member.heartbeat(&mut world), ErrorCode::UnknownMemberId);
}

// req: S063
#[test]
fn a_session_does_not_run_while_a_join_waits() {
    let mut world = World::default();
    let mut members: Vec<Member> = (0..2).map(|_| Member::new(&mut world, "g")).collect();
    let [waiting, slow] = &mut members[..] else { unreachable!() };
    slow.session_ms = 1_000_000;
    let joins = join_all(&mut world, &mut [waiting, slow]);
    finish(&mut world, &mut [waiting, slow], &joins);
    let join = waiting.join(&mut world);
    world.advance(i64::from(SESSION_MS) * 3);
    assert!(world.waits(&join));
    let last = slow.join(&mut world);
    finish(&mut world, &mut [waiting, slow], &[join, last]);
    // The session restarts with the answer.
    world.advance(i64::from(SESSION_MS) - 1);
    assert_eq!(waiting.heartbeat(&mut world), ErrorCode::None);
    world.advance(i64::from(SESSION_MS));
    assert_eq!(waiting.heartbeat(&mut world), ErrorCode::UnknownMemberId);
}

#[test]
fn a_commit_keeps_a_member_alive() {
    let mut world = World::default();
    make_topic(&mut world, "orders");
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    for offset in 0..5 {
        world.advance(i64::from(SESSION_MS) - 1);
        assert_eq!(member.commit(&mut world, 0, offset), ErrorCode::None);
    }
}

#[test]
fn a_new_members_join_is_kept_for_five_minutes() {
    let mut world = World::with(1, &[("group.max.session.timeout.ms", "10000000")]);
    let mut members: Vec<Member> = (0..2)
        .map(|_| Member { session_ms: 10_000_000, rebalance_ms: 10_000_000, ..Member::new(&mut world, "g") })
        .collect();
    let [settled, newcomer] = &mut members[..] else { unreachable!() };
    settle(&mut world, &mut [settled]);
    let join = newcomer.join(&mut world);
    world.advance(5 * 60_000 - 1);
    assert!(world.waits(&join));
    world.advance(1);
    assert_eq!(ErrorCode::from_code(world.take(&join).unwrap().error_code), ErrorCode::UnknownMemberId);
}

// req: S073
#[test]
fn a_member_that_comes_back_without_its_id_is_another() {
    let mut world = World::default();
    let mut old = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut old]);
    let mut restarted = Member::new(&mut world, "g");
    let join = restarted.join(&mut world);
    assert_ne!(restarted.id, old.id);
    // The rebalance waits for the old member until its session or the rebalance timeout ends.
    assert!(world.waits(&join));
    world.advance(i64::from(SESSION_MS));
    finish(&mut world, &mut [&mut restarted], &[join]);
    assert_eq!(old.heartbeat(&mut world), ErrorCode::UnknownMemberId);
}

// req: S139
#[test]
fn the_state_that_is_shown_follows_the_group() {
    let mut world = World::default();
    let (mut a, mut b) = (Member::new(&mut world, "g"), Member::new(&mut world, "g"));
    assert_eq!(state(&mut world, "g"), "Dead");
    let first = a.send_join(&mut world);
    a.id = world.take(&first).unwrap().member_id.to_owned();
    assert_eq!(state(&mut world, "g"), "Empty");
    let join = a.join(&mut world);
    a.joined(&mut world, &join);
    assert_eq!(state(&mut world, "g"), "CompletingRebalance");
    let sync = a.send_sync(&mut world, &[]);
    a.synced(&mut world, &sync);
    assert_eq!(state(&mut world, "g"), "Stable");
    let join = b.join(&mut world);
    assert_eq!(state(&mut world, "g"), "PreparingRebalance");
    assert_eq!(a.leave(&mut world), ErrorCode::None);
    assert_eq!(state(&mut world, "g"), "CompletingRebalance");
    finish(&mut world, &mut [&mut b], &[join]);
    assert_eq!(state(&mut world, "g"), "Stable");
    assert_eq!(b.leave(&mut world), ErrorCode::None);
    assert_eq!(state(&mut world, "g"), "Empty");
    // The group has neither members nor offsets, so the next sweep removes it.
    world.advance(600_000);
    assert_eq!(state(&mut world, "g"), "Dead");
}

// req: S120
#[test]
fn a_group_is_described_with_its_members() {
    let mut world = World::default();
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    let described = describe(&mut world, "g");
    assert_eq!(
        (described.group_state, described.protocol_type, described.protocol_data),
        ("Stable", "consumer", "range")
    );
    let told = &described.members[0];
    assert_eq!((told.member_id, told.client_id, told.client_host), (member.id.as_str(), "test", "/127.0.0.1"));
    assert_eq!((told.member_metadata, told.member_assignment), (&member.protocols[0].1[..], member.id.as_bytes()));
}

#[test]
fn a_leaver_whose_sync_waits_is_answered() {
    let mut world = World::default();
    let mut members: Vec<Member> = (0..2).map(|_| Member::new(&mut world, "g")).collect();
    let [a, b] = &mut members[..] else { unreachable!() };
    let joins = join_all(&mut world, &mut [a, b]);
    let leader = a.joined(&mut world, &joins[0]).leader;
    b.joined(&mut world, &joins[1]);
    let follower = if a.id == leader { b } else { a };
    let sync = follower.send_sync(&mut world, &[]);
    assert_eq!(follower.leave(&mut world), ErrorCode::None);
    assert_eq!(ErrorCode::from_code(world.take(&sync).unwrap().error_code), ErrorCode::UnknownMemberId);
}

#[test]
fn whoever_waits_for_a_leader_that_left_is_told_to_join_again() {
    let mut world = World::default();
    let mut members: Vec<Member> = (0..2).map(|_| Member::new(&mut world, "g")).collect();
    let [a, b] = &mut members[..] else { unreachable!() };
    let joins = join_all(&mut world, &mut [a, b]);
    let leader = a.joined(&mut world, &joins[0]).leader;
    b.joined(&mut world, &joins[1]);
    let (leader, follower) = if a.id == leader { (a, b) } else { (b, a) };
    let sync = follower.send_sync(&mut world, &[]);
    assert_eq!(leader.leave(&mut world), ErrorCode::None);
    assert_eq!(ErrorCode::from_code(world.take(&sync).unwrap().error_code), ErrorCode::RebalanceInProgress);
    settle(&mut world, &mut [follower]);
    assert_eq!(follower.generation, 3);
}

#[test]
fn ten_members_share_thirty_partitions_and_five_that_are_left_do_again() {
    let mut world = World::default();
    let mut members: Vec<Member> = (0..10).map(|_| Member::new(&mut world, "g")).collect();
    let share = |world: &mut World, members: &mut [Member]| {
        let mut all: Vec<&mut Member> = members.iter_mut().collect();
        let joins = join_all(world, &mut all);
        let mut owned = Vec::new();
        let mut leader = String::new();
        for (member, join) in all.iter_mut().zip(&joins) {
            leader = member.joined(world, join).leader.to_owned();
        }
        let each = 30 / all.len();
        let given: Vec<(String, Vec<u8>)> = all
            .iter()
            .enumerate()
            .map(|(index, member)| (member.id.clone(), (0..each).map(|step| (index * each + step) as u8).collect()))
            .collect();
        let assignments: Vec<_> = given.iter().map(|(id, bytes)| (id.as_str(), bytes.as_slice())).collect();
        let syncs: Vec<_> = all
            .iter()
            .map(|member| member.send_sync(world, if member.id == leader { &assignments } else { &[] }))
            .collect();
        for (member, sync) in all.iter().zip(&syncs) {
            let own = member.synced(world, sync).assignment;
            assert_eq!(own.len(), each);
            owned.extend_from_slice(own);
        }
        owned.sort_unstable();
        assert_eq!(owned, (0..30).collect::<Vec<u8>>());
    };
    share(&mut world, &mut members);
    for member in members.drain(5..) {
        assert_eq!(member.leave(&mut world), ErrorCode::None);
    }
    share(&mut world, &mut members);
}
