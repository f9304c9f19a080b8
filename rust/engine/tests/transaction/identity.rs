//! An idempotent producer, and the first steps of a transactional one.

use monedula_engine::produce::SendFault;
use monedula_engine::transaction::{Call, Input, SessionState, Target, TransactionError, TransactionResponse};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, COORDINATOR, World, identity, ms, secs};

fn idempotent() -> World {
    let mut world = World::new(None);
    world.no_call();
    world.put(Input::NeedIdentity { old: None });
    world
}

#[test]
fn any_broker_gives_an_idempotent_producer_its_id() {
    let mut world = idempotent();
    let (_, target, call) = world.calls[0].clone();
    assert_eq!((target, call), (Target::Any { attempt: 0 }, Call::InitProducerId { current: None }));
    // A second request meanwhile needs no second call.
    world.put(Input::NeedIdentity { old: None });
    world.answer("InitProducerId", TransactionResponse::Identity(identity(4, 0)));
    assert_eq!(world.identities, [identity(4, 0)]);
    assert_eq!(world.session.state(), SessionState::Ready);
    assert_eq!(world.session.wake_at(), None);
}

#[test]
fn the_next_broker_is_asked_after_a_backoff_until_one_answers() {
    let mut world = idempotent();
    for attempt in 0..5 {
        let (_, target, _) = world.calls[0].clone();
        assert_eq!(target, Target::Any { attempt });
        match attempt % 2 {
            0 => world.lose("InitProducerId"),
            _ => world.refuse("InitProducerId", ErrorCode::CoordinatorLoadInProgress),
        }
        world.no_call();
        world.pass(ms(50));
        world.no_call();
        world.pass(BACKOFF);
    }
    assert_eq!(world.retried.len(), 5);
    world.answer("InitProducerId", TransactionResponse::Identity(identity(4, 0)));
    assert_eq!(world.identities, [identity(4, 0)]);
}

#[test]
fn its_epoch_is_raised_without_asking_until_they_are_used_up() {
    let mut world = idempotent();
    world.answer("InitProducerId", TransactionResponse::Identity(identity(4, i16::MAX - 1)));
    world.put(Input::NeedIdentity { old: Some(identity(4, i16::MAX - 1)) });
    assert_eq!(world.identities.last(), Some(&identity(4, i16::MAX)));
    // An identity that is outdated already is not raised again.
    world.put(Input::NeedIdentity { old: Some(identity(4, i16::MAX - 1)) });
    assert_eq!(world.identities.last(), Some(&identity(4, i16::MAX)));
    world.no_call();
    world.put(Input::NeedIdentity { old: Some(identity(4, i16::MAX)) });
    assert_eq!(
        world.answer("InitProducerId", TransactionResponse::Identity(identity(5, 0))),
        Call::InitProducerId { current: None }
    );
    assert_eq!(world.identities.last(), Some(&identity(5, 0)));
}

#[test]
fn without_permission_nothing_can_be_sent() {
    let mut world = idempotent();
    world.refuse("InitProducerId", ErrorCode::ClusterAuthorizationFailed);
    let Some(SendFault::Fatal { reason }) = &world.fatal else { panic!("{:?}", world.fatal) };
    assert!(reason.contains("CLUSTER_AUTHORIZATION_FAILED"), "{reason}");
    assert!(world.session.refusal().is_some());
    world.pass(secs(100));
    world.no_call();
}

#[test]
fn transactions_need_an_id() {
    let mut world = idempotent();
    let ticket = world.begin();
    assert_eq!(world.error(ticket), &TransactionError::State("transactions need a transactional.id: set one".into()));
    assert_eq!(world.session.refusal(), None);
}

#[test]
fn a_transactional_producer_asks_its_coordinator_when_told_to() {
    let mut world = World::new(Some("id"));
    world.put(Input::NeedIdentity { old: None });
    world.no_call();
    let ticket = world.init();
    world.find();
    let (_, target, call) = world.calls[0].clone();
    assert_eq!(target, Target::Coordinator { node_id: COORDINATOR });
    assert_eq!(call, Call::InitProducerId { current: None });
    assert_eq!(world.outcome(ticket), None);
    world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 3)));
    world.succeeded(ticket);
    assert_eq!(world.identities, [identity(9, 3)]);
    // Another request changes nothing.
    let again = world.init();
    world.succeeded(again);
}

#[test]
fn a_transaction_that_an_older_producer_left_is_waited_for() {
    let mut world = World::new(Some("id"));
    let ticket = world.init();
    world.find();
    let mut waits = Vec::new();
    for _ in 0..6 {
        world.refuse("InitProducerId", ErrorCode::ConcurrentTransactions);
        waits.push(world.session.wake_at().expect("a time") - world.now);
        world.pass(BACKOFF);
    }
    // Markers are written within moments: the first retry comes sooner than the backoff, and no retry later than it.
    assert!(waits[0] < ms(30) && waits[5] > ms(500), "{waits:?}");
    world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 3)));
    world.succeeded(ticket);
}

#[test]
fn init_goes_on_after_its_time_and_is_joined_by_the_next() {
    let mut world = World::new(Some("id"));
    let first = world.init();
    world.find();
    world.refuse("InitProducerId", ErrorCode::ConcurrentTransactions);
    for _ in 0..70 {
        world.pass(secs(1));
        if !world.calls.is_empty() {
            world.refuse("InitProducerId", ErrorCode::ConcurrentTransactions);
        }
    }
    let error = world.error(first).to_string();
    assert!(matches!(world.error(first), TransactionError::TimedOut { .. }));
    assert!(error.contains("init_transactions") && error.contains("CONCURRENT_TRANSACTIONS"), "{error}");
    let second = world.init();
    world.pass(BACKOFF);
    world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 3)));
    world.succeeded(second);
}

#[test]
fn permission_may_come_later() {
    let mut world = World::new(Some("id"));
    let denied = world.init();
    world.find();
    world.refuse("InitProducerId", ErrorCode::TransactionalIdAuthorizationFailed);
    let error = world.error(denied).to_string();
    assert!(error.contains("transactional.id=id is not allowed"), "{error}");
    assert_eq!(world.session.state(), SessionState::Uninitialized);
    let allowed = world.init();
    world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 0)));
    world.succeeded(allowed);
}

#[test]
fn a_coordinator_that_moved_is_looked_for() {
    let mut world = World::new(Some("id"));
    world.init();
    world.find();
    world.refuse("InitProducerId", ErrorCode::NotCoordinator);
    world.no_call();
    world.pass(BACKOFF);
    // The broker that named it may not have newer metadata yet, so another one is asked.
    let (id, target, _) = world.call("FindCoordinator");
    assert_eq!(target, Target::Any { attempt: 1 });
    world.put(Input::Answer { id, outcome: Ok(crate::world::coordinator(3)) });
    assert_eq!(world.call("InitProducerId").1, Target::Coordinator { node_id: 3 });
}
