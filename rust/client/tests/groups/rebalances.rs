//! Partitions that move between members while users hold records or callbacks are pending.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use monedula_broker::Effect;
use monedula_broker::control::Command;
use monedula_client::consumer::{BatchLimits, Position};
use monedula_client::error::ClientError;
use monedula_client::group::{CallbackKind, CommitWhat, GroupError, Listens, Polled, Subscribed};
use monedula_engine::fetch::Start;

use crate::support::{HOLDER, PATIENCE, User, World, partition, topics_of, until};

crate::under_both_protocols!(
    a_user_in_the_middle_of_a_batch_is_waited_for_and_asked_to_hurry,
    what_was_fetched_of_a_partition_that_goes_is_handed_out_by_its_next_owner_only,
    a_static_member_comes_back_without_a_rebalance,
    a_pattern_finds_topics_that_come_and_leaves_out_what_it_is_told_to,
    partitions_that_are_added_start_at_their_smallest_offset,
    the_user_may_seek_and_pause_in_its_callback,
    closing_is_bounded_and_a_forgotten_member_leaves_too,
    threads_hold_batches_of_their_own_and_the_frontier_waits_for_the_slowest,
    committing_a_batch_is_no_word_on_those_read_since_and_never_goes_back,
    many_finished_records_are_committed_before_their_time,
    a_partition_moves_only_when_the_last_thread_has_finished_its_batch_of_it,
    a_batch_committed_while_its_partition_is_asked_for_is_committed_before_it_goes,
    what_was_to_be_revoked_is_lost_if_the_member_is_thrown_out_before_the_user_is_told,
);

fn poll_both(first: &mut User, second: &mut User, what: &str, mut is_so: impl FnMut(&mut User, &mut User) -> bool) {
    until(what, || {
        first.poll().expect("a poll");
        second.poll().expect("a poll");
        is_so(first, second)
    });
}

fn a_user_in_the_middle_of_a_batch_is_waited_for_and_asked_to_hurry(protocol: &str) {
    let world = World::under(protocol, &["orders:2"], 1);
    world.append("orders", 0, 10);
    world.append("orders", 1, 10);
    let mut first = world.consumer(&[]);
    first.subscribe(&["orders"]);
    first.poll_until("rows of both", |user| user.rows() == 20);
    // The first member's thread holds a batch and does not poll.
    let mut second = world.consumer(&[]);
    second.subscribe(&["orders"]);
    until("the first is asked for one", || first.consumer.rebalance_wanted().len() == 1);
    let wanted = first.consumer.rebalance_wanted()[0].partition;
    for _ in 0..20 {
        second.poll().expect("a poll");
    }
    assert!(second.owned().is_empty() && first.owned().len() == 2, "it is waited for");
    poll_both(&mut first, &mut second, "it moves", |_, second| second.owned() == BTreeSet::from([wanted]));
    assert!(first.consumer.rebalance_wanted().is_empty());
    assert_eq!(world.committed("orders").get(&wanted), Some(&10), "all of it is committed before it is given up");
    assert_eq!(second.rows(), 0);
}

// req: S012
fn what_was_fetched_of_a_partition_that_goes_is_handed_out_by_its_next_owner_only(protocol: &str) {
    let world = World::under(protocol, &["orders:2"], 1);
    world.append("orders", 0, 10);
    world.append("orders", 1, 10);
    let mut first = world.consumer(&[]);
    first.subscribe(&["orders"]);
    first.poll_until("rows of both", |user| user.rows() == 20);
    // While the user is busy, more is fetched of both partitions.
    world.append("orders", 0, 10);
    world.append("orders", 1, 10);
    until("more is fetched", || {
        first.consumer.health().partitions.values().map(|partition| partition.queued_records).sum::<u64>() == 20
    });
    let mut second = world.consumer(&[]);
    second.subscribe(&["orders"]);
    until("one is asked for", || first.consumer.rebalance_wanted().len() == 1);
    let wanted = first.consumer.rebalance_wanted()[0].partition;
    poll_both(&mut first, &mut second, "all is read", |first, second| first.rows() + second.rows() == 40);
    let (early, late): (Vec<i64>, Vec<i64>) = ((0..10).collect(), (10..20).collect());
    assert_eq!(first.read[&wanted], early, "what was fetched of it is dropped");
    assert_eq!(second.read, BTreeMap::from([(wanted, late)]));
}

#[test]
fn eager_members_give_everything_up_and_go_on_where_they_were() {
    let world = World::new(&["orders:4"], 1);
    let eager = [("partition.assignment.strategy", "range,org.apache.kafka.clients.consumer.RoundRobinAssignor")];
    for index in 0..4 {
        world.append("orders", index, 10);
    }
    let mut first = world.consumer(&eager);
    first.subscribe(&["orders"]);
    first.poll_until("all is read", |user| user.rows() == 40);
    let mut second = world.consumer(&eager);
    second.subscribe(&["orders"]);
    poll_both(&mut first, &mut second, "each owns two", |first, second| {
        first.owned().len() == 2 && second.owned().len() == 2 && second.called.len() == 1 && first.called.len() == 3
    });
    let all = BTreeSet::from([0, 1, 2, 3]);
    assert_eq!(first.called[0], (CallbackKind::Assigned, all.clone()));
    assert_eq!(first.called[1], (CallbackKind::Revoked, all));
    assert_eq!(first.called[2], (CallbackKind::Assigned, first.owned()));
    for index in 0..4 {
        world.append("orders", index, 1);
    }
    poll_both(&mut first, &mut second, "the new rows come", |first, second| first.rows() + second.rows() == 44);
    let last: Vec<i64> = second.read.values().flatten().copied().collect();
    assert_eq!(last, [10, 10], "nothing twice, nothing left out");
}

fn a_static_member_comes_back_without_a_rebalance(protocol: &str) {
    let world = World::under(protocol, &["orders:2"], 1);
    let named = |name| [("group.instance.id", name)];
    let (mut first, mut second) = (world.consumer(&named("one")), world.consumer(&named("two")));
    first.subscribe(&["orders"]);
    second.subscribe(&["orders"]);
    poll_both(&mut first, &mut second, "each owns one", |first, second| {
        first.owned().len() == 1 && second.owned().len() == 1
    });
    let (mine, generation) = (second.owned(), first.consumer.group_status().unwrap().status.generation);
    let called = first.called.clone();
    let left = world.fault(&["LeaveGroup"], Effect::Observe, None);
    second.close();
    assert_eq!(left.hits().unwrap(), 0, "its place is kept");
    let mut again = world.consumer(&named("two"));
    again.subscribe(&["orders"]);
    again.poll_until("it has it back", |user| user.owned() == mine);
    assert_eq!(first.consumer.group_status().unwrap().status.generation, generation);
    assert_eq!(first.called, called);
}

#[test]
fn a_static_member_that_was_replaced_is_fenced_on_every_call() {
    let world = World::new(&["orders:1"], 1);
    let mut first = world.consumer(&[("group.instance.id", "one")]);
    first.subscribe(&["orders"]);
    first.poll_until("it is owned", |user| user.owned().len() == 1);
    let mut second = world.consumer(&[("group.instance.id", "one")]);
    second.subscribe(&["orders"]);
    second.poll_until("it is the second's", |user| user.owned().len() == 1);
    until("the first is told", || first.poll().is_err());
    for _ in 0..3 {
        let error = first.poll().expect_err("for good");
        assert!(matches!(error, ClientError::Group(GroupError::FencedInstance { .. })), "{error}");
    }
    assert!(first.owned().is_empty());
}

fn a_pattern_finds_topics_that_come_and_leaves_out_what_it_is_told_to(protocol: &str) {
    let world = World::under(protocol, &["orders-eu:1", "orders-dead:1", "invoices:1"], 1);
    let mut user = world.consumer(&[("metadata.max.age.ms", "50"), ("auto.offset.reset", "latest")]);
    let what = Subscribed::Pattern { include: "orders-.*".into(), exclude: Some(".*-dead".into()) };
    user.consumer.subscribe(what, Listens::default()).expect("subscribes");
    let topics = |user: &User| -> Vec<String> {
        user.consumer.assignment().iter().map(|partition| partition.topic.to_string()).collect()
    };
    user.poll_until("the first is owned", |user| topics(user) == ["orders-eu"]);
    let config = BTreeMap::new();
    let create = Command::CreateTopic { topic: "orders-us".into(), partitions: Some(1), replicas: None, config };
    world.control(create);
    // Before any metadata knows the topic: a new topic is read from its beginning, whatever the reset policy.
    world.append("orders-us", 0, 7);
    user.poll_until("the new one is owned and read", |user| user.rows() == 7);
    assert_eq!(topics(&user), ["orders-eu", "orders-us"]);
    world.control(Command::DeleteTopic { topic: "orders-eu".into() });
    user.poll_until("the old one is given up", |user| topics(user) == ["orders-us"]);
}

// req: S084
fn partitions_that_are_added_start_at_their_smallest_offset(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 5);
    let mut user = world.consumer(&[("metadata.max.age.ms", "50"), ("auto.offset.reset", "latest")]);
    user.subscribe(&["orders"]);
    user.poll_until("the end is found", |user| {
        user.consumer.status(&partition("orders", 0)).is_ok_and(|status| status.position == Some(5))
    });
    world.control(Command::AddPartitions { topic: "orders".into(), partitions: 2 });
    world.append("orders", 1, 3);
    user.poll_until("all of the new one is read", |user| user.read.get(&1) == Some(&vec![0, 1, 2]));
    assert_eq!(user.read.get(&0), None, "the policy says where to start without a commit");

    let mut earliest = world.consumer(&[("group.id", "other"), ("auto.offset.reset", "earliest")]);
    earliest.subscribe(&["orders"]);
    earliest.poll_until("all is read", |user| user.rows() == 8);
}

fn the_user_may_seek_and_pause_in_its_callback(protocol: &str) {
    let world = World::under(protocol, &["orders:2"], 1);
    world.append("orders", 0, 10);
    world.append("orders", 1, 10);
    // The committed offset of the group cannot be looked up yet.
    let held = world.fault(&["OffsetFetch"], Effect::Hold, None);
    let user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    let want = BatchLimits { max_rows: 100, max_bytes: 1 << 20, max_wait: Duration::ZERO, deadline: None };
    let next = |user: &User| user.consumer.next(&want, Instant::now() + PATIENCE, HOLDER).expect("a step");
    let Polled::Callback(callback) = next(&user) else { panic!("a callback") };
    assert_eq!(callback.kind, CallbackKind::Assigned);
    user.consumer.seek(&partition("orders", 0), Start::Offset(6, -1)).expect("seeks");
    user.consumer.set_paused(&partition("orders", 1), true).expect("pauses");
    user.consumer.called_back(callback.ticket, false);
    let Polled::Batch(batch) = next(&user) else { panic!("rows") };
    assert_eq!(batch.columns.spans[0].first_offset, 6);
    held.remove().unwrap();
    until("the other one's place is known", || {
        user.consumer.status(&partition("orders", 1)).is_ok_and(|status| status.position == Some(0))
    });
    let soon = Instant::now() + Duration::from_millis(50);
    assert!(matches!(user.consumer.next(&want, soon, HOLDER), Ok(Polled::Nothing)), "it is paused");
    user.consumer.set_paused(&partition("orders", 1), false).expect("goes on");
    let Polled::Batch(batch) = next(&user) else { panic!("rows") };
    assert_eq!((batch.columns.spans[0].partition, batch.columns.spans[0].first_offset), (1, 0));
}

// req: S152
#[test]
fn subscribing_and_assigning_at_once_is_refused() {
    let world = World::new(&["orders:1"], 1);
    let mut user = world.consumer(&[]);
    user.consumer.assign(vec![(partition("orders", 0), Start::Earliest, None)]).expect("assigns");
    let error = user.consumer.subscribe(topics_of(&["orders"]), Listens::default()).expect_err("refused");
    assert!(error.to_string().contains("unassign()"), "{error}");
    world.append("orders", 0, 5);
    user.poll_until("it reads what it was assigned", |user| user.rows() == 5);
    user.commit_last(&world).expect("commits without being a member");
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 5)]));
    assert_eq!(world.members(), 0);

    user.consumer.unassign().expect("gives up");
    user.subscribe(&["orders"]);
    let error = user.consumer.assign::<Position>(Vec::new()).expect_err("refused");
    assert!(error.to_string().contains("unsubscribe()"), "{error}");
    user.poll_until("it is a member", |user| user.owned().len() == 1);
    user.consumer.start_unsubscribe().expect("unsubscribes");
    user.leave();
    assert_eq!((user.owned().len(), world.members()), (0, 0));
    user.consumer.assign(vec![(partition("orders", 0), Start::Offset(3, -1), None)]).expect("assigns again");
    user.poll_until("it reads on", |user| user.rows() == 7);
}

fn closing_is_bounded_and_a_forgotten_member_leaves_too(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    user.poll_until("it is owned", |user| user.owned().len() == 1);
    drop(user);
    until("it leaves without being closed", || world.members() == 0);

    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    user.poll_until("it is owned", |user| user.owned().len() == 1);
    let _gone = world.fault(&["OffsetCommit", "LeaveGroup", world.heartbeat()], Effect::Drop, None);
    user.consumer.close(Duration::from_millis(200));
    assert!(matches!(user.poll(), Err(ClientError::Closed)));
}

fn threads_hold_batches_of_their_own_and_the_frontier_waits_for_the_slowest(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 30);
    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    user.take(10);
    let slow = user.last.take().expect("a batch");
    let want = BatchLimits { max_rows: 10, max_bytes: 1 << 20, max_wait: Duration::ZERO, deadline: None };
    for _ in 0..2 {
        let step = user.consumer.next(&want, Instant::now() + PATIENCE, 2).expect("a step");
        assert!(matches!(step, Polled::Batch(_)));
    }
    user.consumer.enter(2);
    let outcome = user.commit(&world, CommitWhat::Finished { holder: 2 }).expect("commits");
    assert!(outcome.values().all(|(at, _)| at.offset == 0), "{outcome:?}");
    let what = CommitWhat::Batch { id: slow.id, places: slow.places.clone() };
    let outcome = user.commit(&world, what).expect("commits");
    assert_eq!(outcome[&partition("orders", 0)].0.offset, 10, "this batch, and not what others read on");
    let what = CommitWhat::Finished { holder: 2 };
    user.commit(&world, what).expect("commits");
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 30)]));
}

fn committing_a_batch_is_no_word_on_those_read_since_and_never_goes_back(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 30);
    let mut user = world.consumer(&[("enable.auto.commit", "false")]);
    user.subscribe(&["orders"]);
    let mut batches = Vec::new();
    for _ in 0..3 {
        user.take(10);
        batches.push(user.last.take().expect("a batch"));
    }
    let commits = world.fault(&["OffsetCommit"], Effect::Observe, None);
    for (index, committed) in [(0, 10), (1, 20), (0, 20), (2, 30), (1, 30)] {
        let what = CommitWhat::Batch { id: batches[index].id, places: batches[index].places.clone() };
        let outcome = user.commit(&world, what).expect("commits");
        assert_eq!(outcome[&partition("orders", 0)].0.offset, committed);
        assert_eq!(outcome[&partition("orders", 0)].1, Ok(()));
        assert_eq!(world.committed("orders"), BTreeMap::from([(0, committed)]));
    }
    assert_eq!(commits.hits().unwrap(), 3, "what is committed is not sent again");
}

fn many_finished_records_are_committed_before_their_time(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 30);
    let mut user = world.consumer(&[("auto.commit.interval.ms", "86400000"), ("auto.commit.records", "20")]);
    user.subscribe(&["orders"]);
    user.take(10);
    user.take(10);
    user.take(10);
    until("twenty are committed", || world.committed("orders") == BTreeMap::from([(0, 20)]));
}

fn a_partition_moves_only_when_the_last_thread_has_finished_its_batch_of_it(protocol: &str) {
    let world = World::under(protocol, &["orders:2"], 1);
    world.append("orders", 0, 10);
    world.append("orders", 1, 10);
    let mut first = world.consumer(&[]);
    // Without a callback, the revocation waits for the batches only.
    first.consumer.subscribe(topics_of(&["orders"]), Listens::default()).expect("subscribes");
    let want = BatchLimits { max_rows: 100, max_bytes: 1 << 20, max_wait: Duration::ZERO, deadline: None };
    let (slow, mut rows) = (2, 0);
    until("another thread has rows of both", || {
        // A call finishes what its holder holds, so each call is made by another holder until all rows are held.
        let step = first.consumer.next(&want, Instant::now() + Duration::from_millis(20), slow + rows).expect("a step");
        if let Polled::Batch(batch) = step {
            rows += batch.columns.record_batch.num_rows() as u64;
        }
        rows == 20
    });
    let mut second = world.consumer(&[]);
    second.subscribe(&["orders"]);
    until("one is asked for", || first.consumer.rebalance_wanted().len() == 1);
    for _ in 0..20 {
        first.poll().expect("a poll of a thread that holds nothing");
        second.poll().expect("a poll");
    }
    assert!(second.owned().is_empty(), "the other thread has not finished");
    for holder in slow..slow + 20 {
        first.consumer.enter(holder);
    }
    poll_both(&mut first, &mut second, "it moves", |_, second| second.owned().len() == 1);
    let moved = second.owned().into_iter().next().expect("one");
    assert_eq!(world.committed("orders").get(&moved), Some(&10));
}

fn a_batch_committed_while_its_partition_is_asked_for_is_committed_before_it_goes(protocol: &str) {
    // The user finishes and commits with one call. A revocation between the two would let the next
    // owner read it all again.
    for round in 0..20 {
        let world = World::under(protocol, &["orders:2"], 1);
        world.append("orders", 0, 10);
        world.append("orders", 1, 10);
        let mut first = world.consumer(&[("enable.auto.commit", "false")]);
        first.consumer.subscribe(topics_of(&["orders"]), Listens::default()).expect("subscribes");
        while first.rows() < 20 {
            first.take(20);
        }
        let mut second = world.consumer(&[]);
        second.subscribe(&["orders"]);
        until("one is asked for", || {
            second.poll().expect("a poll");
            first.consumer.rebalance_wanted().len() == 1
        });
        let wanted = first.consumer.rebalance_wanted();
        let outcome = first.commit_last(&world).expect("commits");
        for partition in wanted.iter().filter(|partition| outcome.contains_key(*partition)) {
            assert_eq!(outcome[partition].1, Ok(()), "round {round}: {partition}");
        }
    }
}

fn what_was_to_be_revoked_is_lost_if_the_member_is_thrown_out_before_the_user_is_told(protocol: &str) {
    let world = World::under(protocol, &["orders:2"], 1);
    let mut first = world.consumer(&[("client.id", "first"), ("enable.auto.commit", "false")]);
    first.subscribe(&["orders"]);
    first.poll_until("all is owned", |user| user.called.len() == 1);
    let second = world.consumer(&[]);
    second.subscribe(&["orders"]);
    until("one is asked for", || first.consumer.rebalance_wanted().len() == 1);
    // The user enters a call that runs no callbacks, such as a commit.
    first.consumer.enter(HOLDER);
    until("its callback waits", || first.consumer.rebalance_wanted().is_empty());
    assert_eq!(first.owned().len(), 2, "it is the member's until the user was told");
    let thrown_out = world.fault_of(
        "first",
        &[world.heartbeat()],
        Effect::Error { error: "UNKNOWN_MEMBER_ID".into(), whole: false },
    );
    until("the member is thrown out", || first.owned().is_empty());
    thrown_out.remove().unwrap();
    first.poll_until("it is told of both", |user| user.called.len() == 3);
    let told: Vec<CallbackKind> = first.called.iter().map(|(kind, _)| *kind).collect();
    assert!(!told.contains(&CallbackKind::Revoked), "{told:?}");
    let lost = first.called.iter().filter(|(kind, _)| *kind == CallbackKind::Lost);
    assert_eq!(lost.flat_map(|(_, partitions)| partitions).copied().collect::<BTreeSet<_>>(), [0, 1].into());
}
