//! JoinGroup and SyncGroup: waiting for all members, generations, protocols.

use std::collections::BTreeSet;

use monedula_protocol::error_code::ErrorCode;

use crate::member::{
    Member, REBALANCE_MS, SESSION_MS, coordinator, describe, fetch, finish, join_all, make_topic, settle, subscription,
};
use crate::support::World;

// req: S074
// req: S098
#[test]
fn who_has_no_id_gets_a_unique_one_and_has_to_join_with_it() {
    let mut world = World::default();
    let mut ids = BTreeSet::new();
    for _ in 0..100 {
        let member = Member::new(&mut world, "g");
        let waiting = member.send_join(&mut world);
        let answer = world.take(&waiting).unwrap();
        assert_eq!(ErrorCode::from_code(answer.error_code), ErrorCode::MemberIdRequired);
        assert!(answer.member_id.starts_with("test-"), "{}", answer.member_id);
        assert!(ids.insert(answer.member_id.to_owned()));
    }
    let mut stranger = Member::new(&mut world, "g");
    stranger.id = "test-made-up".to_owned();
    assert_eq!(stranger.refused_join(&mut world), ErrorCode::UnknownMemberId);
    // JoinGroup below version 4: the first join succeeds, and its answer has the member id.
    let mut old = Member { version: 3, ..Member::new(&mut world, "old") };
    let waiting = old.join(&mut world);
    assert!(old.joined(&mut world, &waiting).member_id.starts_with("test-"));
}

#[test]
fn an_id_that_nobody_joins_with_is_forgotten() {
    let mut world = World::default();
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    let mut late = Member::new(&mut world, "g");
    let waiting = late.send_join(&mut world);
    late.id = world.take(&waiting).unwrap().member_id.to_owned();
    member.keep_alive(&mut world, i64::from(SESSION_MS) + 1);
    assert_eq!(late.refused_join(&mut world), ErrorCode::UnknownMemberId);
    assert_eq!(member.heartbeat(&mut world), ErrorCode::None);
}

#[test]
fn a_rebalance_waits_for_an_id_that_was_handed_out() {
    let mut world = World::default();
    let (mut first, mut second) = (Member::new(&mut world, "g"), Member::new(&mut world, "g"));
    settle(&mut world, &mut [&mut first]);
    let waiting = second.send_join(&mut world);
    second.id = world.take(&waiting).unwrap().member_id.to_owned();
    // The leader rejoins before the other member joins with its id: both are in one generation.
    let rejoined = first.join(&mut world);
    assert!(world.waits(&rejoined));
    let joined = second.join(&mut world);
    finish(&mut world, &mut [&mut first, &mut second], &[rejoined, joined]);
    assert_eq!((first.generation, second.generation), (2, 2));
}

// req: S021
// req: S023
// req: S024
// req: S109
// req: S117
// req: S119
#[test]
fn both_barriers_hold_until_the_last_and_open_at_once() {
    let mut world = World::default();
    let mut members: Vec<Member> = (0..3).map(|_| Member::new(&mut world, "g")).collect();
    settle(&mut world, &mut [&mut members[0]]);
    for (index, member) in members.iter_mut().enumerate() {
        let own = [vec![0xff, index as u8], b"no subscription at all".to_vec()].concat();
        member.protocols = vec![("mine", own.clone()), ("range", own)];
    }
    let [a, b, c] = &mut members[..] else { unreachable!() };
    let mut joins = vec![b.join(&mut world), c.join(&mut world)];
    assert!(joins.iter().all(|waiting| world.waits(waiting)), "the first member has not joined again");
    joins.insert(0, a.join(&mut world));
    let answers: Vec<_> =
        [&mut *a, b, c].into_iter().zip(&joins).map(|(member, waiting)| member.joined(&mut world, waiting)).collect();
    assert_eq!(world.now_ms, crate::support::START_MS, "no time-out was waited for");
    let leader = answers[0].leader;
    for answer in &answers {
        assert_eq!((answer.leader, answer.generation_id), (leader, 2));
        assert_eq!((answer.protocol_name, answer.protocol_type), (answers[0].protocol_name, Some("consumer")));
        if answer.member_id != leader {
            assert!(answer.members.is_empty());
        }
    }
    let told = &answers.iter().find(|answer| answer.member_id == leader).unwrap().members;
    assert_eq!(told.len(), 3);
    for member in [&*a, b, c] {
        let found = told.iter().find(|told| told.member_id == member.id).unwrap();
        let name = answers[0].protocol_name.unwrap();
        assert_eq!(found.metadata, member.protocols.iter().find(|(own, _)| *own == name).unwrap().1);
    }
    // The SyncGroups of followers wait for the leader's assignment.
    let (leading, following): (Vec<&Member>, Vec<&Member>) = [&*a, b, c].into_iter().partition(|m| m.id == leader);
    let syncs: Vec<_> = following.iter().map(|member| member.send_sync(&mut world, &[])).collect();
    assert!(syncs.iter().all(|waiting| world.waits(waiting)));
    let given: Vec<(String, Vec<u8>)> = [&*a, b, c]
        .iter()
        .map(|member| (member.id.clone(), format!("\0for {}\u{ff}", member.id).into_bytes()))
        .collect();
    let assignments: Vec<_> = given.iter().map(|(id, bytes)| (id.as_str(), bytes.as_slice())).collect();
    let last = leading[0].send_sync(&mut world, &assignments);
    let of = |id: &str| given.iter().find(|(own, _)| own == id).unwrap().1.clone();
    assert_eq!(leading[0].synced(&mut world, &last).assignment, of(&leading[0].id));
    for (member, waiting) in following.iter().zip(&syncs) {
        assert_eq!(member.synced(&mut world, waiting).assignment, of(&member.id));
    }
}

// req: S060
#[test]
fn every_rebalance_has_a_generation_of_its_own() {
    let mut world = World::default();
    let mut member = Member::new(&mut world, "g");
    for generation in 1..=5 {
        settle(&mut world, &mut [&mut member]);
        assert_eq!(member.generation, generation);
    }
}

// req: S110
#[test]
fn a_new_member_has_the_whole_group_join_again_and_one_that_left_is_not_waited_for() {
    let mut world = World::default();
    let mut members: Vec<Member> = (0..3).map(|_| Member::new(&mut world, "g")).collect();
    let mut newcomer = members.pop().unwrap();
    let [a, b] = &mut members[..] else { unreachable!() };
    let waiting = join_all(&mut world, &mut [a, b]);
    finish(&mut world, &mut [a, b], &waiting);
    let joining = newcomer.join(&mut world);
    assert_eq!(a.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    assert_eq!(b.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    let again = a.join(&mut world);
    assert!(world.waits(&joining) && world.waits(&again));
    assert_eq!(b.leave(&mut world), ErrorCode::None);
    finish(&mut world, &mut [a, &mut newcomer], &[again, joining]);
}

// req: S022
#[test]
fn who_does_not_join_or_sync_in_time_is_dropped_and_the_others_finish() {
    let mut world = World::default();
    let mut members: Vec<Member> =
        (0..3).map(|_| Member { session_ms: 1_000_000, ..Member::new(&mut world, "g") }).collect();
    let [a, b, stuck] = &mut members[..] else { unreachable!() };
    let waiting = join_all(&mut world, &mut [a, b, stuck]);
    finish(&mut world, &mut [a, b, stuck], &waiting);
    // The member keeps sending heartbeats, like a client whose processing is stuck.
    let joins = [a.join(&mut world), b.join(&mut world)];
    world.advance(i64::from(REBALANCE_MS) - 1);
    assert_eq!(stuck.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    assert!(world.waits(&joins[0]));
    world.advance(1);
    finish(&mut world, &mut [a, b], &joins);
    assert_eq!(stuck.heartbeat(&mut world), ErrorCode::UnknownMemberId);
    // The same for a member that joins but does not sync.
    let joins = join_all(&mut world, &mut [a, b]);
    a.joined(&mut world, &joins[0]);
    b.joined(&mut world, &joins[1]);
    let leader_id = a.generation_leader(&mut world);
    let (leader, silent) = if a.id == leader_id { (a, b) } else { (b, a) };
    let sync = leader.send_sync(&mut world, &[]);
    leader.synced(&mut world, &sync);
    world.advance(i64::from(REBALANCE_MS));
    assert_eq!(silent.heartbeat(&mut world), ErrorCode::UnknownMemberId);
    assert_eq!(leader.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    settle(&mut world, &mut [leader]);
}

// req: S068
#[test]
fn a_slow_member_is_in_if_it_joins_before_the_end_and_else_has_another_round() {
    let mut world = World::default();
    let mut members: Vec<Member> =
        (0..2).map(|_| Member { session_ms: 1_000_000, ..Member::new(&mut world, "g") }).collect();
    let [quick, slow] = &mut members[..] else { unreachable!() };
    let waiting = join_all(&mut world, &mut [quick, slow]);
    finish(&mut world, &mut [quick, slow], &waiting);
    let first = quick.join(&mut world);
    world.advance(i64::from(REBALANCE_MS) - 1);
    let second = slow.join(&mut world);
    finish(&mut world, &mut [quick, slow], &[first, second]);
    let generation = quick.generation;
    // Too late: the other member has a generation alone, then both are in the next one.
    let alone = quick.join(&mut world);
    world.advance(i64::from(REBALANCE_MS));
    finish(&mut world, &mut [quick], &[alone]);
    assert_eq!(slow.refused_join(&mut world), ErrorCode::UnknownMemberId);
    slow.id.clear();
    let late = slow.join(&mut world);
    assert_eq!(quick.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    let again = quick.join(&mut world);
    finish(&mut world, &mut [quick, slow], &[again, late]);
    assert_eq!(quick.generation, generation + 2);
}

#[test]
fn the_first_rebalance_waits_and_goes_on_waiting_while_members_come() {
    let mut world = World::with(1, &[("group.initial.rebalance.delay.ms", "3000")]);
    let mut members: Vec<Member> = (0..4).map(|_| Member::new(&mut world, "g")).collect();
    let mut joins = Vec::new();
    // Each member joins within the delay of the previous one.
    for member in &mut members[..3] {
        joins.push(member.join(&mut world));
        world.advance(2000);
    }
    assert!(joins.iter().all(|waiting| world.waits(waiting)));
    world.advance(3000);
    assert!(joins.iter().all(|waiting| !world.waits(waiting)));
    for (member, waiting) in members.iter_mut().zip(&joins) {
        assert_eq!(member.joined(&mut world, waiting).generation_id, 1);
    }
    // Later rebalances are not delayed, because the group is not empty.
    let [a, b, c, d] = &mut members[..] else { unreachable!() };
    let joins = join_all(&mut world, &mut [a, b, c, d]);
    finish(&mut world, &mut [a, b, c, d], &joins);
    assert_eq!(d.generation, 2);
}

#[test]
fn the_first_rebalance_waits_no_longer_than_the_rebalance_timeout() {
    let mut world = World::with(1, &[("group.initial.rebalance.delay.ms", "3000")]);
    let mut joins = Vec::new();
    for _ in 0..20 {
        let mut member = Member { rebalance_ms: 10_000, ..Member::new(&mut world, "g") };
        let waiting = member.join(&mut world);
        joins.push((member, waiting));
        world.advance(1000);
        if !world.waits(&joins[0].1) {
            break;
        }
    }
    assert_eq!(world.now_ms - crate::support::START_MS, 10_000);
}

#[test]
fn most_votes_among_what_all_support_choose_the_protocol() {
    let mut world = World::with(1, &[("group.initial.rebalance.delay.ms", "1000")]);
    let own = |names: &[&'static str]| names.iter().map(|&name| (name, subscription(&["t"]))).collect::<Vec<_>>();
    let mut members: Vec<Member> = [
        own(&["sticky", "range", "roundrobin"]),
        own(&["roundrobin", "range"]),
        own(&["roundrobin", "sticky", "range"]),
    ]
    .into_iter()
    .map(|protocols| Member { protocols, ..Member::new(&mut world, "g") })
    .collect();
    let joins: Vec<_> = members.iter_mut().map(|member| member.join(&mut world)).collect();
    world.advance(1000);
    world.advance(1000);
    // Not all members support `sticky`. Of the other protocols one member prefers range, and two prefer roundrobin.
    for (member, waiting) in members.iter_mut().zip(&joins) {
        assert_eq!(member.joined(&mut world, waiting).protocol_name, Some("roundrobin"));
    }
}

#[test]
fn a_member_that_shares_no_protocol_with_the_others_is_refused() {
    let mut world = World::default();
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    let foreign = Member { protocols: vec![("sticky", Vec::new())], ..Member::new(&mut world, "g") };
    assert_eq!(foreign.refused_join(&mut world), ErrorCode::InconsistentGroupProtocol);
    let foreign = Member { protocol_type: "connect", ..Member::new(&mut world, "g") };
    assert_eq!(foreign.refused_join(&mut world), ErrorCode::InconsistentGroupProtocol);
    for member in [
        Member { protocols: Vec::new(), ..Member::new(&mut world, "empty") },
        Member { protocol_type: "", ..Member::new(&mut world, "empty") },
    ] {
        assert_eq!(member.refused_join(&mut world), ErrorCode::InconsistentGroupProtocol);
    }
    assert_eq!(member.heartbeat(&mut world), ErrorCode::None);
}

// req: S053
// req: S136
#[test]
fn what_members_say_to_each_other_is_nothing_that_the_coordinator_has_to_know() {
    let mut world = World::default();
    // A subscription of an unknown future version, and a group that does not assign partitions.
    for (group, kind, metadata) in
        [("future", "consumer", vec![0x7f, 0xff, 1, 2, 3]), ("workers", "connect", b"{\"url\":\"x\"}".to_vec())]
    {
        let mut members: Vec<Member> = (0..2)
            .map(|_| Member {
                protocol_type: kind,
                protocols: vec![("v99", metadata.clone())],
                ..Member::new(&mut world, group)
            })
            .collect();
        let [a, b] = &mut members[..] else { unreachable!() };
        let joins = join_all(&mut world, &mut [a, b]);
        finish(&mut world, &mut [a, b], &joins);
        assert_eq!(a.leave(&mut world), ErrorCode::None);
        assert_eq!(b.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
        settle(&mut world, &mut [b]);
        let described = describe(&mut world, group);
        assert_eq!((described.group_state, described.protocol_type, described.members.len()), ("Stable", kind, 1));
    }
}

// req: S111
#[test]
fn groups_do_not_disturb_each_other() {
    let mut world = World::with(3, &[]);
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let mut members: Vec<Member> = names.iter().map(|&name| Member::new(&mut world, name)).collect();
    for member in &mut members {
        settle(&mut world, &mut [member]);
    }
    let here: Vec<&str> = names.into_iter().filter(|&name| coordinator(&mut world, name) == 1).collect();
    assert!(here.len() > 1, "one node coordinates several: {here:?}");
    let (changing, rest) = members.split_first_mut().unwrap();
    for _ in 0..10 {
        settle(&mut world, &mut [changing]);
    }
    let newcomer = Member::new(&mut world, "a").join(&mut world);
    assert!(world.waits(&newcomer));
    for member in rest {
        assert_eq!((member.heartbeat(&mut world), member.generation), (ErrorCode::None, 1));
    }
}

// req: S096
// req: S100
#[test]
fn the_requests_of_a_consumer_succeed_from_end_to_end() {
    use monedula_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
    use monedula_protocol::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
    let mut world = World::default();
    make_topic(&mut world, "orders");
    // FindCoordinator, JoinGroup, SyncGroup.
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    let nothing = fetch(&mut world, "g", 0);
    assert_eq!((nothing.committed_offset, nothing.error_code, nothing.metadata), (-1, 0, Some("")));
    let partition = ListOffsetsPartition { timestamp: -2, ..Default::default() };
    let topic = ListOffsetsTopic { name: "orders", partitions: vec![partition], ..Default::default() };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let listed = world.call(1, &request, 5);
    let offset = listed.topics[0].partitions[0].offset;
    assert_eq!((listed.topics[0].partitions[0].error_code, offset), (0, 0));
    let partition = FetchPartition { fetch_offset: offset, partition_max_bytes: 1000, ..Default::default() };
    let topic = FetchTopic { topic: "orders", partitions: vec![partition], ..Default::default() };
    let request = FetchRequest { max_bytes: 1000, topics: vec![topic], ..Default::default() };
    let fetched = world.call(1, &request, 12);
    assert_eq!((fetched.error_code, fetched.responses[0].partitions[0].error_code), (0, 0));
    assert_eq!(member.heartbeat(&mut world), ErrorCode::None);
}

#[test]
fn a_group_has_no_more_members_than_it_may() {
    let mut world = World::with(1, &[("group.max.size", "2")]);
    let mut members: Vec<Member> = (0..2).map(|_| Member::new(&mut world, "g")).collect();
    let [a, b] = &mut members[..] else { unreachable!() };
    let joins = join_all(&mut world, &mut [a, b]);
    finish(&mut world, &mut [a, b], &joins);
    let third = Member::new(&mut world, "g");
    assert_eq!(third.refused_join(&mut world), ErrorCode::GroupMaxSizeReached);
    // Existing members can rejoin.
    let joins = join_all(&mut world, &mut [a, b]);
    finish(&mut world, &mut [a, b], &joins);
}

#[test]
fn a_join_that_is_repeated_gets_what_the_first_would_have_got() {
    let mut world = World::default();
    let mut members: Vec<Member> = (0..2).map(|_| Member::new(&mut world, "g")).collect();
    let [a, b] = &mut members[..] else { unreachable!() };
    let joins = join_all(&mut world, &mut [a, b]);
    // The answers are not read: both members join again before the leader has sent the assignment.
    let again = [a.join(&mut world), b.join(&mut world)];
    let told = |world: &mut World, member: &mut Member, first, second| {
        let first = member.joined(world, first);
        assert_eq!(member.joined(world, second), first);
    };
    told(&mut world, a, &joins[0], &again[0]);
    told(&mut world, b, &joins[1], &again[1]);
    assert_eq!((a.generation, b.generation), (2, 2));
}

#[test]
fn a_join_that_was_given_up_is_answered_when_its_member_asks_again() {
    let mut world = World::default();
    let mut members: Vec<Member> = (0..2).map(|_| Member::new(&mut world, "g")).collect();
    let [a, b] = &mut members[..] else { unreachable!() };
    settle(&mut world, &mut [a]);
    let given_up = b.join(&mut world);
    let repeated = b.join(&mut world);
    let answer = world.take(&given_up).unwrap();
    assert_eq!(ErrorCode::from_code(answer.error_code), ErrorCode::RebalanceInProgress);
    let joined = a.join(&mut world);
    finish(&mut world, &mut [a, b], &[joined, repeated]);
}
