//! A membership from subscribing to closing: what is read and committed, and which callbacks run.

use std::collections::{BTreeMap, BTreeSet};

use monedula_client::group::{CallbackKind, CommitError, CommitOffset, CommitWhat};

use crate::support::{HOLDER, User, World, partition, until};

crate::under_both_protocols!(
    a_member_reads_commits_and_leaves,
    what_is_not_finished_is_not_committed,
    without_automatic_commits_nothing_is_committed_but_what_the_user_commits,
    kept_partitions_flow_while_others_move,
    a_batch_that_was_read_before_the_partition_was_lost_is_not_committed,
    a_seek_is_not_overwritten_by_what_was_finished_before,
);

fn is_read(user: &User, partitions: &[i32], count: i64) -> bool {
    let all: Vec<i64> = (0..count).collect();
    partitions.iter().all(|index| user.read.get(index) == Some(&all))
}

fn a_member_reads_commits_and_leaves(protocol: &str) {
    let world = World::under(protocol, &["orders:2"], 1);
    for index in [0, 1] {
        world.append("orders", index, 100);
    }
    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    user.poll_until("all is read", |user| is_read(user, &[0, 1], 100));
    user.poll().expect("asks for more, and so has finished what it read");
    user.close();
    let both = BTreeSet::from([0, 1]);
    assert_eq!(user.called, [(CallbackKind::Assigned, both.clone()), (CallbackKind::Revoked, both)]);
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 100), (1, 100)]));
    assert_eq!(world.members(), 0);

    world.append("orders", 1, 5);
    let mut next = world.consumer(&[]);
    next.subscribe(&["orders"]);
    next.poll_until("the rest is read", |user| user.rows() == 5);
    assert_eq!(next.read, BTreeMap::from([(1, vec![100, 101, 102, 103, 104])]));
}

fn what_is_not_finished_is_not_committed(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 10);
    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    user.take(4);
    user.take(4);
    assert_eq!(user.rows(), 8);
    user.close();
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 4)]));
}

fn without_automatic_commits_nothing_is_committed_but_what_the_user_commits(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 10);
    let mut user = world.consumer(&[("enable.auto.commit", "false")]);
    user.subscribe(&["orders"]);
    user.take(4);
    user.take(4);
    assert_eq!(world.committed("orders"), BTreeMap::new());
    let outcome = user.commit_last(&world).expect("commits");
    assert_eq!(outcome[&partition("orders", 0)].1, Ok(()));
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 8)]));
    let chosen = CommitOffset { offset: 3, leader_epoch: -1, metadata: "mine".into() };
    let what = CommitWhat::Offsets(BTreeMap::from([(partition("orders", 0), chosen)]));
    user.commit(&world, what).expect("commits");
    user.close();
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 3)]));
}

fn kept_partitions_flow_while_others_move(protocol: &str) {
    let world = World::under(protocol, &["orders:4"], 1);
    let mut first = world.consumer(&[]);
    first.subscribe(&["orders"]);
    first.poll_until("all is owned", |user| user.called.len() == 1);
    assert_eq!(first.owned().len(), 4);

    // Blocks the rebalance; kept partitions must not be affected.
    let rebalances = if protocol == "classic" { "SyncGroup" } else { world.heartbeat() };
    let held = world.fault(&[rebalances], monedula_broker::Effect::Hold, None);
    let mut second = world.consumer(&[]);
    second.subscribe(&["orders"]);
    until("the rebalance is under way", || held.hits().unwrap() >= 1);
    for index in 0..4 {
        world.append("orders", index, 10);
    }
    first.poll_until("all flows on", |user| user.rows() == 40);
    held.remove().unwrap();

    let rebalanced = |first: &User, second: &User| first.owned().len() == 2 && second.owned().len() == 2;
    until("both own two", || {
        first.poll().expect("a poll");
        second.poll().expect("a poll");
        rebalanced(&first, &second)
    });
    let revoked: Vec<_> = first.called.iter().filter(|(kind, _)| *kind == CallbackKind::Revoked).collect();
    assert_eq!(revoked.len(), 1);
    assert_eq!(revoked[0].1.len(), 2);
    assert!(revoked[0].1.is_disjoint(&first.owned()));
    assert_eq!(second.owned(), revoked[0].1);
    second.poll_until("the second knows", |user| !user.called.is_empty());
    assert_eq!(second.rows(), 0, "what the first had finished is committed before it gave up");
    first.close();
    second.poll_until("all is the second's, and it was told in two steps", |user| {
        let told = user.called.iter().filter(|(kind, _)| *kind == CallbackKind::Assigned).count();
        user.owned().len() == 4 && told == 2
    });
    second.close();
}

fn a_batch_that_was_read_before_the_partition_was_lost_is_not_committed(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 10);
    let mut user = world.consumer(&[("enable.auto.commit", "false")]);
    user.subscribe(&["orders"]);
    user.poll_until("rows are read", |user| user.rows() == 10);
    user.consumer.start_unsubscribe().expect("unsubscribes");
    user.leave();
    let outcome = user.commit_last(&world).expect("an outcome");
    assert_eq!(outcome[&partition("orders", 0)].1, Err(CommitError::NotOwned));
    user.subscribe(&["orders"]);
    user.poll_until("it is owned again", |user| user.owned().len() == 1);
    let outcome = user.commit_last(&world).expect("an outcome");
    assert_eq!(outcome[&partition("orders", 0)].1, Err(CommitError::NotOwned));
    assert_eq!(world.committed("orders"), BTreeMap::new());
}

// req: S083
fn a_seek_is_not_overwritten_by_what_was_finished_before(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 10);
    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    user.poll_until("rows are read", |user| user.rows() == 10);
    until("where it began is committed", || world.committed("orders") == BTreeMap::from([(0, 0)]));
    let pending = world.fault(&["OffsetCommit"], monedula_broker::Effect::Hold, None);
    user.consumer.enter(HOLDER);
    until("the automatic commit of all is under way", || pending.hits().unwrap() == 1);
    let start = monedula_engine::fetch::Start::Offset(2, -1);
    user.consumer.seek(&partition("orders", 0), start).expect("seeks");
    user.consumer.enter(HOLDER);
    pending.remove().unwrap();
    until("the seek is committed", || world.committed("orders") == BTreeMap::from([(0, 2)]));
    user.close();
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 2)]));
}
