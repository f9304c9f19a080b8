//! What a user learns of its partitions through callbacks and errors, and what happens when a callback fails.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use monedula_broker::Effect;
use monedula_client::consumer::BatchLimits;
use monedula_client::error::ClientError;
use monedula_client::group::{CallbackKind, Leaving, Listens, PendingCallback, Polled};

use crate::support::{HOLDER, PATIENCE, User, World, topics_of, until};

crate::under_both_protocols!(
    an_error_that_ends_the_membership_comes_after_the_loss_is_told,
    who_listens_to_revocations_only_hears_of_losses_there,
    a_callback_for_gained_partitions_that_fails_does_not_open_them,
    what_is_given_up_before_its_callback_went_well_is_not_told_as_gained_again,
    a_committed_offset_that_is_refused_starts_its_partition_once_it_can_be_had,
);

fn error(name: &str) -> Effect {
    Effect::Error { error: name.into(), whole: true }
}

/// Polls until an error is raised; runs callbacks.
fn failure(user: &mut User) -> ClientError {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match user.poll() {
            Err(error) => return error,
            Ok(_) => assert!(Instant::now() < deadline, "an error"),
        }
    }
}

/// Polls until a callback is due and returns it without running it. No row may come before it.
fn callback(user: &User) -> PendingCallback {
    let want = BatchLimits { max_rows: 100, max_bytes: 1 << 20, max_wait: Duration::ZERO, deadline: None };
    match user.consumer.next(&want, Instant::now() + PATIENCE, HOLDER).expect("a step") {
        Polled::Callback(callback) => callback,
        step => panic!("a callback, and not {step:?}"),
    }
}

fn indices(callback: &PendingCallback) -> BTreeSet<i32> {
    callback.partitions.iter().map(|partition| partition.partition).collect()
}

fn an_error_that_ends_the_membership_comes_after_the_loss_is_told(protocol: &str) {
    for subscribed in [(true, true, true), (false, true, false), (false, false, true), (false, false, false)] {
        let world = World::under(protocol, &["orders:2"], 1);
        (0..2).for_each(|index| world.append("orders", index, 1));
        let mut user = world.consumer(&[]);
        let (assigned, revoked, lost) = subscribed;
        user.consumer.subscribe(topics_of(&["orders"]), Listens { assigned, revoked, lost }).expect("subscribes");
        user.poll_until("it is owned, and told", |user| user.rows() == 2);
        user.called.clear();
        // The error occurs while the user is in no call.
        let _fault = world.fault(&[world.heartbeat()], error("GROUP_AUTHORIZATION_FAILED"), None);
        until("the membership is over", || {
            user.consumer.group_status().is_some_and(|group| group.status.fatal.is_some())
        });
        let ended = failure(&mut user);
        assert!(matches!(ended, ClientError::Group(_)), "{ended}");
        let told = if revoked || lost { vec![(CallbackKind::Lost, [0, 1].into())] } else { Vec::new() };
        assert_eq!(user.called, told, "{subscribed:?}");
        failure(&mut user);
    }
}

fn who_listens_to_revocations_only_hears_of_losses_there(protocol: &str) {
    let world = World::under(protocol, &["orders:2"], 1);
    let mut user = world.consumer(&[]);
    let listens = Listens { assigned: false, revoked: true, lost: false };
    user.consumer.subscribe(topics_of(&["orders"]), listens).expect("subscribes");
    user.poll_until("it is owned", |user| user.owned().len() == 2);
    let _fault = world.fault(&[world.heartbeat()], error("UNKNOWN_MEMBER_ID"), Some(1));
    user.poll_until("it is told", |user| !user.called.is_empty());
    assert_eq!(user.called, [(CallbackKind::Lost, [0, 1].into())]);
}

fn a_callback_for_gained_partitions_that_fails_does_not_open_them(protocol: &str) {
    let world = World::under(protocol, &["orders:2"], 1);
    (0..2).for_each(|index| world.append("orders", index, 10));
    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    for _ in 0..3 {
        let failed = callback(&user);
        assert_eq!((failed.kind, indices(&failed)), (CallbackKind::Assigned, [0, 1].into()));
        user.consumer.called_back(failed.ticket, true);
    }
    let done = callback(&user);
    user.consumer.called_back(done.ticket, false);
    user.poll_until("now they are read", |user| user.rows() == 20);
    assert_eq!(user.called, []);
}

fn what_is_given_up_before_its_callback_went_well_is_not_told_as_gained_again(protocol: &str) {
    let world = World::under(protocol, &["orders:2"], 1);
    (0..2).for_each(|index| world.append("orders", index, 10));
    let mut first = world.consumer(&[("client.id", "first")]);
    first.subscribe(&["orders"]);
    let failed = callback(&first);
    first.consumer.called_back(failed.ticket, true);
    // One of its two partitions goes to another member, which reads its rows.
    let mut second = world.consumer(&[("client.id", "second")]);
    second.subscribe(&["orders"]);
    until("one is to be given up, or has been", || {
        first.consumer.keep_alive();
        second.poll().expect("a poll");
        first.owned().len() == 1 || !first.consumer.rebalance_wanted().is_empty()
    });
    let mut told = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while first.rows() < 10 || second.rows() < 10 {
        assert!(Instant::now() < deadline, "{told:?}");
        first.poll().expect("a poll");
        second.poll().expect("a poll");
        told.append(&mut first.called);
    }
    let gained: Vec<_> = told.iter().filter(|(kind, _)| *kind == CallbackKind::Assigned).collect();
    assert_eq!(gained, [&(CallbackKind::Assigned, first.owned())], "what it has kept, once");
    assert_eq!((first.rows(), second.rows()), (10, 10));

    // A member that leaves does not get the callback again either.
    let mut user = world.consumer(&[("group.id", "other")]);
    user.subscribe(&["orders"]);
    let failed = callback(&user);
    user.consumer.called_back(failed.ticket, true);
    user.consumer.start_close(PATIENCE).expect("closes");
    let Leaving::Callback(last) = user.consumer.leaving(Instant::now() + PATIENCE) else { panic!("a callback") };
    assert_eq!(last.kind, CallbackKind::Revoked);
    user.consumer.called_back(last.ticket, true);
    user.leave();
    assert_eq!(user.called, []);
}

fn a_committed_offset_that_is_refused_starts_its_partition_once_it_can_be_had(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 10);
    let fault = world.fault(&["OffsetFetch"], error("TOPIC_AUTHORIZATION_FAILED"), None);
    let mut user = world.consumer(&[]);
    user.subscribe(&["orders"]);
    let refused = failure(&mut user);
    assert!(refused.to_string().contains("orders"), "{refused}");
    until("it is asked for again", || fault.hits().unwrap() > 3);
    fault.remove().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while user.rows() < 10 {
        // Polls may raise the error as long as nothing else can be read.
        let _ = user.poll();
        assert!(Instant::now() < deadline, "it goes on");
    }
    assert_eq!(user.consumer.statuses().values().filter(|status| status.fault.is_some()).count(), 0);
}

// The leader cannot get metadata: it assigns by what it last knew, or joins again until it can.
#[test]
fn a_leader_without_metadata_does_not_end_its_membership() {
    let world = World::new(&["orders:4"], 1);
    (0..4).for_each(|index| world.append("orders", index, 10));
    let short = [("session.timeout.ms", "600"), ("request.timeout.ms", "500"), ("client.id", "leader")];
    let mut leader = world.consumer(&short);
    leader.subscribe(&["orders"]);
    leader.poll_until("all is read", |user| user.rows() == 40);
    let silent = world.fault_of("leader", &["Metadata"], Effect::Drop);
    let mut second = world.consumer(&[("client.id", "second")]);
    second.subscribe(&["orders"]);
    let deadline = Instant::now() + PATIENCE;
    while leader.owned().len() != 2 || second.owned().len() != 2 {
        assert!(Instant::now() < deadline, "{:?}", leader.consumer.group_status());
        leader.poll().expect("no error");
        second.poll().expect("no error");
    }
    assert!(silent.hits().unwrap() > 0);
    let group = leader.consumer.group_status().expect("a member");
    assert!(group.status.leader && group.status.fatal.is_none());
}
