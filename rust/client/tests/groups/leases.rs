//! Members that lose contact with the coordinator: nothing is handed out or committed after the lease.

use std::collections::BTreeMap;

use monedula_broker::{Direction, Effect};
use monedula_client::error::ClientError;
use monedula_client::group::{CallbackKind, CommitWhat, GroupError};

use crate::support::{PATIENCE, User, World, until};

crate::under_both_protocols!(
    past_its_lease_a_member_hands_nothing_out_until_a_heartbeat_is_acknowledged,
    a_member_that_was_thrown_out_hears_that_its_partitions_are_lost,
    a_user_that_does_not_poll_leaves_and_is_told_once,
    a_zombie_commits_nothing_over_the_next_owner,
);

fn past_its_lease_a_member_hands_nothing_out_until_a_heartbeat_is_acknowledged(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    let mut user = world.consumer(&[("session.timeout.ms", "3000"), ("request.timeout.ms", "200")]);
    user.subscribe(&["orders"]);
    user.poll_until("it is owned", |user| user.called.len() == 1);
    // The coordinator gets heartbeats but the member gets no answers: only the lease stops the records.
    let lost = world.lose_answers(world.heartbeat());
    until("the lease is over", || {
        let group = user.consumer.group_status().unwrap();
        group.status.lease_until.is_some_and(|lease| group.until(lease).is_zero())
    });
    world.append("orders", 0, 10);
    until("records are there", || {
        user.consumer.health().partitions.values().any(|partition| partition.queued_records == 10)
    });
    for _ in 0..3 {
        assert!(!user.poll().expect("a poll"), "nothing is handed out");
    }
    assert_eq!((user.owned().len(), user.called.len(), world.members()), (1, 1, 1));
    let figures = |user: &User| user.consumer.group_status().unwrap().figures;
    // A second one, if the answer to the first heartbeat took longer than the timeout.
    let rebalances = figures(&user).rebalances.count;
    lost.remove().unwrap();
    user.poll_until("it is handed out in the end", |user| user.rows() == 10);
    assert_eq!((figures(&user).lease_expiries, figures(&user).rebalances.count), (1, rebalances));
}

fn a_member_that_was_thrown_out_hears_that_its_partitions_are_lost(protocol: &str) {
    let world = World::with_session(protocol, &["orders:1"], 1, 500);
    world.append("orders", 0, 10);
    let mut user = world.consumer(&[("session.timeout.ms", "500"), ("request.timeout.ms", "200")]);
    user.subscribe(&["orders"]);
    user.poll_until("rows are read", |user| user.rows() == 10);
    let hole = world.fault(&[world.heartbeat()], Effect::BlackHole { way: Direction::Both }, None);
    until("it is thrown out", || world.members() == 0);
    world.fault(&["JoinGroup"], Effect::Close, Some(1));
    hole.remove().unwrap();
    user.poll_until("it hears of it", |user| user.called.iter().any(|(kind, _)| *kind == CallbackKind::Lost));
    user.poll_until("it is in again", |user| user.called.last().unwrap().0 == CallbackKind::Assigned);
    user.poll_until("what was not committed comes again", |user| {
        user.rows() > 10 || !world.committed("orders").is_empty()
    });
    user.close();
}

// req: S009
fn a_user_that_does_not_poll_leaves_and_is_told_once(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 10);
    let mut user = world.consumer(&[("max.poll.interval.ms", "300"), ("session.timeout.ms", "300")]);
    user.subscribe(&["orders"]);
    user.poll_until("rows are read", |user| user.rows() == 10);
    until("it leaves by itself", || world.members() == 0);
    let error = user.poll().expect_err("it is told");
    assert!(matches!(error, ClientError::Group(GroupError::MaxPollExceeded { .. })), "{error}");
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 0)]), "what it held is lost");
    user.poll_until("it reads again", |user| user.rows() == 20);
    assert_eq!(user.called.iter().filter(|(kind, _)| *kind == CallbackKind::Lost).count(), 1);
    user.close();
}

fn a_zombie_commits_nothing_over_the_next_owner(protocol: &str) {
    let world = World::with_session(protocol, &["orders:1"], 1, 500);
    world.append("orders", 0, 10);
    let manual = ("enable.auto.commit", "false");
    let mut zombie = world.consumer(&[manual, ("session.timeout.ms", "500"), ("client.id", "zombie")]);
    zombie.subscribe(&["orders"]);
    zombie.take(4);
    // The member lives, but the coordinator gets none of its requests.
    let unheard = world.fault_of("zombie", &[world.heartbeat(), "OffsetCommit", "JoinGroup"], Effect::Hold);
    let mut next = world.consumer(&[manual]);
    next.subscribe(&["orders"]);
    next.poll_until("another owns it", |user| user.rows() == 10);
    next.commit_last(&world).expect("commits");
    let last = zombie.last.take().expect("a batch");
    let what = CommitWhat::Batch { id: last.id, places: last.places };
    let late = world.runtime.spawn(zombie.consumer.commit(what, PATIENCE));
    unheard.remove().unwrap();
    let outcome = world.runtime.block_on(late).expect("no panic").expect("an outcome");
    assert!(outcome.values().all(|(_, outcome)| outcome.is_err()), "{outcome:?}");
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 10)]));
    zombie.poll_until("it hears of it", |user| user.called.iter().any(|(kind, _)| *kind == CallbackKind::Lost));
}
