//! Each error code in the answer to each call: the session reacts as the table says.

use monedula_engine::transaction::{Ending, Input, Reaction, SessionState, TransactionError, known_errors, reaction};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, World, identity, t};

pub(crate) const APIS: [&str; 6] =
    ["FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"];

/// All of Kafka's codes, and some unknown ones.
fn codes() -> impl Iterator<Item = ErrorCode> {
    (-1..=150).chain([i16::MAX, i16::MIN]).filter(|code| *code != 0).map(ErrorCode::from_code)
}

/// A session that waits for an answer to this call, as the first of its kind.
pub(crate) fn pending(api: &str) -> World {
    match api {
        // FindCoordinator of a group. That of the transactional id comes before any transaction, and is tested below.
        "FindCoordinator" => {
            let mut world = World::open(true);
            world.send_offsets(&[(0, 5)]);
            world
        }
        "InitProducerId" => {
            let mut world = World::new(Some("id"));
            world.init();
            world.find();
            world
        }
        "AddPartitionsToTxn" => {
            let mut world = World::ready(false);
            world.begin();
            world.put(Input::AddPartition(t(0)));
            world
        }
        "AddOffsetsToTxn" => {
            let mut world = World::open(false);
            world.send_offsets(&[(0, 5)]);
            world
        }
        "TxnOffsetCommit" => {
            let mut world = World::open(true);
            world.send_offsets(&[(0, 5)]);
            world.find();
            world
        }
        _ => {
            let mut world = World::open(false);
            world.end(Ending::Commit);
            world
        }
    }
}

/// The reaction that the outputs show.
fn seen(api: &str, code: ErrorCode) -> Reaction {
    let mut world = pending(api);
    let before = world.session.state();
    let call = world.calls[0].2.clone();
    world.refuse(api, code);
    match world.session.state() {
        SessionState::Fatal => match world.session.refusal() {
            Some(TransactionError::Fenced { .. }) => return Reaction::Fence,
            Some(TransactionError::Denied { .. }) if reaction(&call, code) == Reaction::Deny => return Reaction::Deny,
            _ => return Reaction::Fail,
        },
        SessionState::Uninitialized => return Reaction::Deny,
        SessionState::AbortableError => {
            world.end(Ending::Abort);
            // The session asks for a higher epoch, at once or after the end.
            if world.calls[0].2.api() == "EndTxn" {
                world.answer("EndTxn", monedula_engine::transaction::TransactionResponse::Ok);
            }
            let raised = world.session.state() == SessionState::Initializing;
            return if raised { Reaction::AbortAndBumpEpoch } else { Reaction::Abort };
        }
        state => assert_eq!(state, before, "{api} {code}"),
    }
    world.no_call();
    world.pass(BACKOFF);
    if world.calls[0].2.api() == api {
        return Reaction::Retry;
    }
    world.find();
    world.call(api);
    Reaction::Rediscover
}

// req: S121
#[test]
fn every_code_of_every_call_leads_to_what_the_table_says() {
    for api in APIS {
        let call = &pending(api).calls[0].2;
        for code in codes() {
            assert_eq!(seen(api, code), reaction(call, code), "{api} {code} ({})", code.code());
        }
    }
}

#[test]
fn the_coordinator_of_the_id_itself_may_be_denied() {
    let mut world = World::new(Some("id"));
    let ticket = world.init();
    world.refuse("FindCoordinator", ErrorCode::TransactionalIdAuthorizationFailed);
    assert!(matches!(world.error(ticket), TransactionError::Denied { .. }));
    assert_eq!(world.session.state(), SessionState::Uninitialized);
    // There is no transaction yet that it could abort.
    let ticket = world.init();
    world.refuse("FindCoordinator", ErrorCode::TransactionAbortable);
    assert!(matches!(world.error(ticket), TransactionError::Refused { .. }));
    assert_eq!(world.session.state(), SessionState::Fatal);
}

#[test]
fn all_that_kafka_calls_retriable_is_retried() {
    for api in APIS {
        let call = &pending(api).calls[0].2;
        for code in codes().filter(|code| code.is_retriable()) {
            assert!(matches!(reaction(call, code), Reaction::Retry | Reaction::Rediscover), "{api} {code}");
        }
    }
}

#[test]
fn no_code_keeps_an_abort_from_ending() {
    for code in codes() {
        let mut world = World::open(false);
        let ticket = world.end(Ending::Abort);
        world.refuse("EndTxn", code);
        world.pass(BACKOFF);
        while world.calls.first().is_some_and(|(_, _, call)| call.api() == "FindCoordinator") {
            world.find();
        }
        match world.calls.first().map(|(_, _, call)| call.api()) {
            Some("InitProducerId") => {
                world.answer(
                    "InitProducerId",
                    monedula_engine::transaction::TransactionResponse::Identity(identity(9, 1)),
                );
            }
            Some(api) => _ = world.answer(api, monedula_engine::transaction::TransactionResponse::Ok),
            None => {}
        }
        assert!(world.outcome(ticket).is_some(), "{code}");
    }
}

#[test]
fn the_codes_of_each_call_are_in_order() {
    for api in APIS {
        let call = &pending(api).calls[0].2;
        assert_eq!(call.api(), api);
        assert!(known_errors(call).is_sorted_by(|(a, _), (b, _)| a.code() < b.code()), "{api}");
    }
}
