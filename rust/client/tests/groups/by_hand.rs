//! Manually assigned partitions: where they start, and commits for a group without being its member.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use monedula_broker::Effect;
use monedula_client::config::ClientConfig;
use monedula_client::consumer::{Consumer, Position};
use monedula_client::error::ClientError;
use monedula_client::group::{CommitOffset, CommitOutcome, CommitWhat};
use monedula_columns::ColumnSet;
use monedula_engine::fetch::Start;

use crate::support::{PATIENCE, User, World, partition, topics_of, until};

crate::under_both_protocols!(
    who_left_a_group_reads_what_is_assigned_by_hand,
    what_is_assigned_by_hand_while_the_group_is_left_is_not_taken_away,
);

fn at(offset: i64) -> CommitOffset {
    CommitOffset { offset, leader_epoch: -1, metadata: String::new() }
}

fn chosen(offsets: &[(i32, i64)]) -> CommitWhat {
    CommitWhat::Offsets(offsets.iter().map(|&(index, offset)| (partition("orders", index), at(offset))).collect())
}

/// `orders` with three partitions of ten records; the group has read the first to 4 and the second to its end.
fn read_before() -> World {
    let world = World::new(&["orders:3"], 1);
    (0..3).for_each(|index| world.append("orders", index, 10));
    let user = world.consumer(&[]);
    user.commit(&world, chosen(&[(0, 4), (1, 10)])).expect("commits");
    world
}

fn read(user: &mut User, rows: usize) -> BTreeMap<i32, Vec<i64>> {
    user.poll_until("all of it is read", |user| user.rows() >= rows);
    std::mem::take(&mut user.read)
}

fn whole(start: i64) -> Vec<i64> {
    (start..10).collect()
}

#[test]
fn an_assignment_that_does_not_say_starts_where_the_group_has_read_to() {
    let world = read_before();
    let expected = BTreeMap::from([(0, whole(4)), (2, whole(0))]);
    let mut user = world.consumer(&[]);
    assert_eq!(user.consumer.default_position(), Position::Committed);
    let all = (0..3).map(|index| (partition("orders", index), Position::Committed, None));
    user.consumer.assign(all.collect()).expect("assigns");
    assert_eq!(read(&mut user, 16), expected);
    assert_eq!(user.consumer.status(&partition("orders", 1)).expect("assigned").position, Some(10));

    let mut user = world.consumer(&[]);
    user.consumer.assign_topics(vec!["orders".into()], Position::Committed).expect("assigns");
    assert_eq!(read(&mut user, 16), expected);

    // The reset policy applies only to partitions without a committed offset.
    let mut user = world.consumer(&[("auto.offset.reset", "latest")]);
    let all = (0..3).map(|index| (partition("orders", index), Position::Committed, None));
    user.consumer.assign(all.collect()).expect("assigns");
    assert_eq!(read(&mut user, 6), BTreeMap::from([(0, whole(4))]));
    until("the others are at their ends", || {
        let place = |index| user.consumer.status(&partition("orders", index)).expect("assigned").position;
        (place(1), place(2)) == (Some(10), Some(10))
    });
    // Each partition may start differently, and a bounded read ends at its end.
    let mut user = world.consumer(&[]);
    let places = vec![
        (partition("orders", 0), Position::Committed, Some(7)),
        (partition("orders", 1), Position::At(Start::Offset(8, -1)), None),
    ];
    user.consumer.assign(places).expect("assigns");
    assert_eq!(read(&mut user, 5), BTreeMap::from([(0, vec![4, 5, 6]), (1, vec![8, 9])]));
}

#[test]
fn a_seek_goes_to_what_is_committed_by_then() {
    let world = read_before();
    let mut user = world.consumer(&[]);
    for assigned_as_topic in [false, true] {
        user.read.clear();
        match assigned_as_topic {
            false => user.consumer.assign(vec![(partition("orders", 0), Start::Earliest, None)]).expect("assigns"),
            true => user.consumer.assign_topics(vec!["orders".into()], Start::Earliest).expect("assigns"),
        }
        user.poll_until("some of it is read", |user| user.read.get(&0).is_some_and(|read| read.len() == 10));
        user.commit(&world, chosen(&[(0, 8)])).expect("commits");
        user.consumer.seek(&partition("orders", 0), Position::Committed).expect("seeks");
        user.read.clear();
        user.poll_until("it reads on there", |user| user.read.contains_key(&0));
        assert_eq!(user.read[&0], [8, 9]);
    }
    user.read.clear();
    user.consumer.seek_all(Position::Committed).expect("seeks");
    user.poll_until("all go there", |user| user.rows() == 12);
    assert_eq!(user.read, BTreeMap::from([(0, vec![8, 9]), (2, whole(0))]));
    // A seek to an offset does not wait for the OffsetFetch in flight, and is not undone by it.
    let held = world.fault(&["OffsetFetch"], Effect::Hold, None);
    user.read.clear();
    user.consumer.seek(&partition("orders", 0), Position::Committed).expect("seeks");
    until("it is asked for", || held.hits().unwrap() > 0);
    user.consumer.seek(&partition("orders", 0), Start::Offset(3, -1)).expect("seeks");
    user.poll_until("it reads there", |user| user.rows() == 7);
    held.remove().unwrap();
    assert!(!user.poll().expect("a poll"));
    assert_eq!(user.read[&0], (3..10).collect::<Vec<_>>());
}

#[test]
fn without_a_group_nothing_is_committed() {
    let world = World::new(&["orders:1"], 1);
    let servers = world.broker.addresses()[0].1.to_string();
    let config = ClientConfig::parse([("bootstrap.servers", servers.as_str())]).expect("settings");
    let consumer = Consumer::new(config, ColumnSet::default(), world.runtime.handle(), 7);
    assert_eq!(consumer.default_position(), Position::At(Start::Policy));
    let refused = |outcome: Result<(), ClientError>| {
        let error = outcome.expect_err("refused").to_string();
        assert!(error.contains("group.id"), "{error}");
    };
    refused(consumer.assign(vec![(partition("orders", 0), Position::Committed, None)]));
    refused(consumer.assign_topics(vec!["orders".into()], Position::Committed));
    consumer.assign(vec![(partition("orders", 0), Start::Earliest, None)]).expect("assigns");
    refused(consumer.seek(&partition("orders", 0), Position::Committed));
    refused(consumer.seek_all(Position::Committed));
}

#[test]
fn an_offset_that_is_refused_is_told_once_and_asked_for_again() {
    let world = read_before();
    let denied = Effect::Error { error: "GROUP_AUTHORIZATION_FAILED".into(), whole: true };
    let fault = world.fault(&["OffsetFetch"], denied, None);
    let mut user = world.consumer(&[]);
    user.consumer.assign(vec![(partition("orders", 0), Position::Committed, None)]).expect("assigns");
    let deadline = Instant::now() + PATIENCE;
    let error = loop {
        match user.poll() {
            Err(error) => break error,
            Ok(got) => assert!(!got && Instant::now() < deadline, "an error"),
        }
    };
    assert!(matches!(error, ClientError::GroupDenied { .. }), "{error}");
    until("it is asked for again", || fault.hits().unwrap() > 5);
    fault.remove().unwrap();
    let deadline = Instant::now() + PATIENCE;
    // Polls may raise the error as long as nothing else can be read.
    while user.rows() < 6 {
        let _ = user.poll();
        assert!(Instant::now() < deadline, "it goes on");
    }
    assert_eq!(user.read[&0], whole(4));
}

fn who_left_a_group_reads_what_is_assigned_by_hand(protocol: &str) {
    for fixed in [false, true] {
        let world = World::under(protocol, &["orders:1"], 1);
        world.append("orders", 0, 10);
        let settings: &[(&str, &str)] = if fixed { &[("group.instance.id", "i")] } else { &[] };
        let mut user = world.consumer(settings);
        user.subscribe(&["orders"]);
        user.poll_until("it is read", |user| user.rows() == 10);
        user.consumer.start_unsubscribe().expect("unsubscribes");
        user.leave();
        user.consumer.assign(vec![(partition("orders", 0), Start::Offset(3, -1), None)]).expect("assigns");
        user.poll_until("it reads on", |user| user.rows() == 17);
    }
}

fn what_is_assigned_by_hand_while_the_group_is_left_is_not_taken_away(protocol: &str) {
    let world = World::under(protocol, &["orders:2"], 1);
    (0..2).for_each(|index| world.append("orders", index, 10));
    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    user.poll_until("it is read", |user| user.rows() == 20);
    user.consumer.start_unsubscribe().expect("unsubscribes");
    user.consumer.assign(vec![(partition("orders", 0), Start::Offset(3, -1), None)]).expect("assigns");
    // The callback runs before the membership has ended: only after it are the group's partitions released.
    user.leave();
    user.poll_until("it reads on", |user| user.rows() == 27);
    user.poll_until("nothing else is assigned", |user| user.owned() == [0].into());
    world.append("orders", 0, 5);
    user.poll_until("and goes on", |user| user.rows() == 32);
}

#[test]
fn commits_by_hand_are_made_in_the_order_of_their_calls() {
    let world = World::new(&["orders:1"], 1);
    for commits in [2, 9] {
        let user = world.consumer(&[]);
        // If the commits ran concurrently, the others would be done long before the delayed first.
        let _slow = world.fault(&["OffsetCommit"], Effect::Delay { ms: 200 }, Some(1));
        let waiting: Vec<_> = (1..=commits)
            .map(|offset| world.runtime.spawn(user.consumer.commit(chosen(&[(0, offset)]), PATIENCE)))
            .collect();
        for commit in waiting {
            let outcome: CommitOutcome = world.runtime.block_on(commit).unwrap().expect("commits");
            assert!(outcome.values().all(|(_, outcome)| outcome.is_ok()));
        }
        assert_eq!(world.committed("orders"), BTreeMap::from([(0, commits)]), "the last one stands");
    }
}

#[test]
fn closing_waits_for_commits_by_hand_that_nobody_waits_for() {
    let world = World::new(&["orders:1"], 1);
    let mut user = world.consumer(&[]);
    let _slow = world.fault(&["OffsetCommit"], Effect::Delay { ms: 100 }, None);
    let waiting: Vec<_> = (1..=3).map(|offset| user.consumer.commit(chosen(&[(0, offset)]), PATIENCE)).collect();
    user.close();
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 3)]));
    for commit in waiting {
        let outcome = world.runtime.block_on(commit).expect("what became of it is told afterwards, too");
        assert!(outcome.values().all(|(_, outcome)| outcome.is_ok()));
    }
    let late = world.runtime.block_on(user.consumer.commit(chosen(&[(0, 9)]), PATIENCE));
    assert!(matches!(late, Err(ClientError::Closed)));
}

#[test]
fn closing_waits_no_longer_than_it_is_told_to() {
    let world = World::new(&["orders:1"], 1);
    let user = world.consumer(&[]);
    let _never = world.fault(&["OffsetCommit"], Effect::Drop, None);
    let waiting: Vec<_> = (1..=3).map(|offset| user.consumer.commit(chosen(&[(0, offset)]), PATIENCE)).collect();
    user.consumer.close(Duration::from_millis(100));
    for commit in waiting {
        let outcome = world.runtime.block_on(commit);
        let failed = outcome.map(|outcome| outcome.values().all(|(_, outcome)| outcome.is_err()));
        assert!(matches!(failed, Ok(true) | Err(ClientError::Closed)), "{failed:?}");
    }
}

#[test]
fn a_commit_by_hand_whose_time_is_over_before_its_turn_says_so() {
    let world = World::new(&["orders:1"], 1);
    let user = world.consumer(&[]);
    let _slow = world.fault(&["OffsetCommit"], Effect::Delay { ms: 50 }, Some(1));
    let first = world.runtime.spawn(user.consumer.commit(chosen(&[(0, 1)]), PATIENCE));
    let second = world.runtime.spawn(user.consumer.commit(chosen(&[(0, 2)]), Duration::from_millis(1)));
    world.runtime.block_on(first).unwrap().expect("commits");
    let late = world.runtime.block_on(second).unwrap().expect_err("too late");
    assert!(matches!(late, ClientError::TimedOut { .. }), "{late}");
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 1)]));
    let mut member = world.consumer(&[]);
    member.consumer.subscribe(topics_of(&["orders"]), Default::default()).expect("subscribes");
    member.poll_until("the group is free for members", |user| user.owned().len() == 1);
}
