//! Rows that are handed out one by one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use monedula_broker::Effect;
use monedula_client::consumer::BatchLimits;
use monedula_client::group::{CommitWhat, HandedBatch, Polled};
use monedula_engine::fetch::Start;

use crate::support::{HOLDER, User, World, partition, until};

crate::under_both_protocols!(
    a_row_is_finished_when_the_one_after_it_is_asked_for,
    rows_that_were_not_taken_come_again_and_the_last_one_taken_stays_with_the_user,
    the_last_one_taken_stays_with_whoever_took_it_whoever_gives_back,
    rows_given_back_go_before_what_others_were_handed_meanwhile,
    several_give_back_and_rows_come_in_the_order_of_the_log,
    nothing_is_let_through_of_a_partition_that_is_paused_sought_lost_or_to_be_given_up,
    a_holder_that_ends_leaves_its_rows_uncommitted_and_holds_nobody_up,
    what_is_handed_over_is_finished_by_its_name_and_by_nothing_else,
);

const OTHER: u64 = 2;

/// The next batch for another thread, of at most `max_rows` rows.
fn next_of(user: &User, holder: u64, max_rows: usize) -> HandedBatch {
    let want = BatchLimits { max_rows, max_bytes: 1 << 20, max_wait: Duration::ZERO, deadline: None };
    let mut found = None;
    until("a batch", || {
        match user.consumer.next(&want, Instant::now() + Duration::from_millis(20), holder).expect("a step") {
            Polled::Batch(batch) => found = Some(batch),
            Polled::Callback(callback) => user.consumer.called_back(callback.ticket, false),
            Polled::Nothing => {}
        }
        found.is_some()
    });
    found.expect("a batch")
}

fn offsets(batch: &HandedBatch) -> Vec<i64> {
    (0..batch.columns.record_batch.num_rows()).map(|row| batch.columns.offset_of(row).expect("a row")).collect()
}

/// A user that owns partition 0 of `orders`, which has `records` records.
fn reading(world: &World, records: usize) -> User {
    reading_with(world, records, &[])
}

fn reading_with(world: &World, records: usize, settings: &[(&str, &str)]) -> User {
    world.append("orders", 0, records);
    let mut user = world.consumer(settings);
    user.subscribe(&["orders"]);
    user.poll_until("it is owned", |user| user.called.len() == 1 || user.rows() > 0);
    assert_eq!(user.rows(), 0, "nothing comes with the callback");
    user
}

fn a_row_is_finished_when_the_one_after_it_is_asked_for(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 10);
    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    user.take(10);
    let batch = user.last.take().expect("a batch");
    let cursor = user.consumer.by_rows(&batch, HOLDER);
    (0..5).for_each(|row| assert_eq!(cursor.take(), Some(row)));
    until("the fifth is in the user's hands", || world.committed("orders") == BTreeMap::from([(0, 4)]));
    user.commit(&world, CommitWhat::Finished { holder: HOLDER }).expect("commits");
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 5)]), "an explicit commit is a word on the fifth too");
    (5..11).for_each(|row| assert_eq!(cursor.take(), Some(row)));
    user.consumer.enter(HOLDER);
    until("all are finished", || world.committed("orders") == BTreeMap::from([(0, 10)]));
}

fn rows_that_were_not_taken_come_again_and_the_last_one_taken_stays_with_the_user(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 10);
    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    user.take(10);
    let batch = user.last.take().expect("a batch");
    let cursor = user.consumer.by_rows(&batch, HOLDER);
    (0..3).for_each(|row| assert_eq!(cursor.take(), Some(row)));
    until("two are finished", || world.committed("orders") == BTreeMap::from([(0, 2)]));
    user.consumer.give_back(&batch, Some(HOLDER));
    user.read.clear();
    user.poll_until("the rest comes again", |user| user.rows() == 7);
    assert_eq!(user.read[&0][0], 3);
    until("asking for more has finished the third", || world.committed("orders") == BTreeMap::from([(0, 3)]));
    user.close();
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 3)]), "the rest was not finished");
}

fn the_last_one_taken_stays_with_whoever_took_it_whoever_gives_back(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 10);
    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    user.take(10);
    let batch = user.last.take().expect("a batch");
    let cursor = user.consumer.by_rows(&batch, HOLDER);
    (0..3).for_each(|row| assert_eq!(cursor.take_by(OTHER), Some(row)));
    user.consumer.give_back(&batch, None);
    user.read.clear();
    user.poll_until("the rest comes again", |user| user.rows() == 7);
    user.commit(&world, CommitWhat::Finished { holder: HOLDER }).expect("commits");
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 2)]), "the third is in the hands of the other");
    user.consumer.enter(OTHER);
    until("all are finished", || world.committed("orders") == BTreeMap::from([(0, 10)]));
}

fn rows_given_back_go_before_what_others_were_handed_meanwhile(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    let user = reading(&world, 30);
    let mine = next_of(&user, HOLDER, 10);
    let cursor = user.consumer.by_rows(&mine, HOLDER);
    (0..3).for_each(|row| assert_eq!(cursor.take(), Some(row)));
    let others = next_of(&user, OTHER, 10);
    assert_eq!(offsets(&others), (10..20).collect::<Vec<_>>());
    user.consumer.give_back(&mine, Some(HOLDER));
    assert_eq!(cursor.take(), None, "what was given back is another's");
    assert_eq!(user.consumer.status(&partition("orders", 0)).unwrap().position, Some(3));
    // Two batches, since the first asks for few rows. Neither goes past the rows given back, though there are more.
    assert_eq!(offsets(&next_of(&user, OTHER, 4)), [3, 4, 5, 6]);
    assert_eq!(offsets(&next_of(&user, OTHER, 100)), [7, 8, 9]);
    assert_eq!(offsets(&next_of(&user, OTHER, 100)), (20..30).collect::<Vec<_>>());
    until("two are finished, and the third is in the first one's hands", || {
        world.committed("orders") == BTreeMap::from([(0, 2)])
    });
    user.consumer.enter(OTHER);
    user.consumer.enter(HOLDER);
    until("all is finished", || world.committed("orders") == BTreeMap::from([(0, 30)]));
}

fn several_give_back_and_rows_come_in_the_order_of_the_log(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    let user = reading(&world, 30);
    let batches: Vec<HandedBatch> = (1..4).map(|holder| next_of(&user, holder, 10)).collect();
    let cursors: Vec<_> = batches.iter().zip(1..).map(|(batch, holder)| user.consumer.by_rows(batch, holder)).collect();
    for (taken, cursor) in cursors.iter().enumerate() {
        (0..taken).for_each(|row| assert_eq!(cursor.take(), Some(row)));
    }
    for index in [1, 2, 0] {
        user.consumer.give_back(&batches[index], Some(index as u64 + 1));
    }
    let read: Vec<i64> = (0..3).flat_map(|_| offsets(&next_of(&user, 9, 100))).collect();
    assert_eq!(read, (0..10).chain(11..20).chain(22..30).collect::<Vec<_>>());
    // A seek also drops rows that were given back.
    let again = next_of(user_at(&user, 5), 9, 10);
    let cursor = user.consumer.by_rows(&again, 9);
    assert_eq!(cursor.take(), Some(0));
    user.consumer.give_back(&again, Some(9));
    assert_eq!(offsets(&next_of(user_at(&user, 25), 9, 100)), (25..30).collect::<Vec<_>>());
    (1..10).for_each(|holder| user.consumer.enter(holder));
    until("all is finished", || world.committed("orders") == BTreeMap::from([(0, 30)]));
}

fn user_at(user: &User, offset: i64) -> &User {
    user.consumer.seek(&partition("orders", 0), Start::Offset(offset, -1)).expect("seeks");
    user
}

fn nothing_is_let_through_of_a_partition_that_is_paused_sought_lost_or_to_be_given_up(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    // The coordinator keeps the member that is lost for a session.
    let short: &[_] = if protocol == "classic" { &[("session.timeout.ms", "3000")] } else { &[] };
    let mut user = reading_with(&world, 30, short);
    let orders = partition("orders", 0);
    let begin = |user: &User| {
        let batch = next_of(user, HOLDER, 100);
        let cursor = user.consumer.by_rows(&batch, HOLDER);
        assert_eq!(cursor.take(), Some(0));
        (batch, cursor)
    };
    let (batch, cursor) = begin(&user);
    user.consumer.set_paused(&orders, true).unwrap();
    assert_eq!(cursor.take(), None, "paused");
    user.consumer.give_back(&batch, Some(HOLDER));
    user.consumer.set_paused(&orders, false).unwrap();
    let (batch, cursor) = begin(&user);
    assert_eq!(offsets(&batch)[0], 1);
    user_at(&user, 5);
    assert_eq!(cursor.take(), None, "sought");
    user.consumer.give_back(&batch, Some(HOLDER));
    let (batch, cursor) = begin(&user);
    assert_eq!(offsets(&batch)[0], 5);
    user.consumer.wakeup();
    assert_eq!(cursor.take(), None, "woken");
    user.consumer.give_back(&batch, Some(HOLDER));
    user.poll().expect_err("it says so");
    let (batch, cursor) = begin(&user);
    assert_eq!(offsets(&batch)[0], 6);
    world.fault(&[world.heartbeat()], Effect::Error { error: "UNKNOWN_MEMBER_ID".into(), whole: true }, Some(1));
    until("it is lost", || user.consumer.group_status().unwrap().figures.lost == 1);
    assert_eq!(cursor.take(), None, "lost");
    user.consumer.give_back(&batch, Some(HOLDER));
    user.poll_until("what was not committed comes again", |user| user.rows() > 0);
    user.last.take();
    user.consumer.enter(HOLDER);
    let (_batch, cursor) = begin(user_at(&user, 10));
    user.consumer.start_close(Duration::from_secs(60)).unwrap();
    until("it is to be given up", || cursor.take().is_none());
    user.leave();
}

fn a_holder_that_ends_leaves_its_rows_uncommitted_and_holds_nobody_up(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    let user = reading(&world, 40);
    let ended = user.consumer.holder(HOLDER);
    let by_rows = next_of(&user, HOLDER, 10);
    let cursor = user.consumer.by_rows(&by_rows, HOLDER);
    (0..3).for_each(|row| assert_eq!(cursor.take(), Some(row)));
    let held = next_of(&user, OTHER, 10);
    drop(ended);
    assert_eq!(cursor.take(), None);
    assert_eq!(offsets(&next_of(&user, 3, 100)), (3..10).collect::<Vec<_>>(), "nobody will ask for these");
    assert_eq!(offsets(&next_of(&user, 3, 100)), (20..40).collect::<Vec<_>>());
    user.consumer.enter(3);
    user.consumer.enter(OTHER);
    assert_eq!(offsets(&held), (10..20).collect::<Vec<_>>());
    until("two are finished", || world.committed("orders") == BTreeMap::from([(0, 2)]));
    // Another member gets the partition although the third row will never be finished.
    user.consumer.start_unsubscribe().unwrap();
    let mut user = user;
    user.leave();
    let mut next = world.consumer(&[]);
    next.subscribe(&["orders"]);
    next.poll_until("it is read again", |user| user.rows() == 38);
}

fn what_is_handed_over_is_finished_by_its_name_and_by_nothing_else(protocol: &str) {
    let world = World::under(protocol, &["orders:2"], 1);
    world.append("orders", 0, 10);
    world.append("orders", 1, 10);
    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    let mut parts = Vec::new();
    while parts.iter().map(|(part, _): &(HandedBatch, _)| offsets(part).len()).sum::<usize>() < 20 {
        let batch = next_of(&user, HOLDER, 15);
        parts.extend(user.consumer.hand_over(&batch, HOLDER).expect("parts"));
        user.consumer.hand_over(&batch, HOLDER).expect_err("once only");
    }
    user.consumer.enter(HOLDER);
    let begun = BTreeMap::from([(0, 0), (1, 0)]);
    until("where reading began", || world.committed("orders") == begun);
    // The later parts first.
    parts.reverse();
    let (last, rest) = parts.split_last().unwrap();
    for (part, _) in rest {
        user.consumer.finish(part).unwrap();
    }
    let index = last.0.places[0].0.partition;
    until("the other partition is finished", || world.committed("orders")[&(1 - index)] == 10);
    assert_eq!(world.committed("orders")[&index], 0, "the first part keeps what follows it back");
    let mut other = world.consumer(&[]);
    other.subscribe(&["orders"]);
    if index == 0 {
        user.consumer.finish(&last.0).unwrap();
        until("all is finished", || world.committed("orders") == BTreeMap::from([(0, 10), (1, 10)]));
    }
    // A worker that failed drops its part; partitions of other parts still move.
    parts.clear();
    user.poll_until("another has its share", |_| {
        other.poll().expect("a poll");
        other.owned().len() == 1
    });
}
