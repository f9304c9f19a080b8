//! Rows that are handed out one by one.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use monedula_client::group::CommitWhat;

use crate::support::{HOLDER, World, until};

crate::under_both_protocols!(
    a_row_is_finished_when_the_one_after_it_is_asked_for,
    rows_that_were_not_taken_come_again_and_the_last_one_taken_stays_with_the_user,
);

fn a_row_is_finished_when_the_one_after_it_is_asked_for(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 10);
    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    user.take(10);
    let batch = user.last.take().expect("a batch");
    let taken = user.consumer.by_rows(&batch, HOLDER);
    taken.store(5, Ordering::Release);
    until("the fifth is in the user's hands", || world.committed("orders") == BTreeMap::from([(0, 4)]));
    user.commit(&world, CommitWhat::Finished { holder: HOLDER }).expect("commits");
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 5)]), "an explicit commit is a word on the fifth too");
    taken.store(11, Ordering::Release);
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
    let taken = user.consumer.by_rows(&batch, HOLDER);
    taken.store(3, Ordering::Release);
    until("two are finished", || world.committed("orders") == BTreeMap::from([(0, 2)]));
    user.consumer.give_back(&batch, 3, HOLDER);
    user.read.clear();
    user.poll_until("the rest comes again", |user| user.rows() == 7);
    assert_eq!(user.read[&0][0], 3);
    until("asking for more has finished the third", || world.committed("orders") == BTreeMap::from([(0, 3)]));
    user.close();
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 3)]), "the rest was not finished");
}
