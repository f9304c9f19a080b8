//! Each error code in an answer: the outcome of the batch is the one in the table, in the code and in
//! docs/design/producing.md.

use std::collections::BTreeMap;

use monedula_engine::produce::{Input, ProducerIdentity, REACTIONS, Reaction, RequestFailure, SendFault, reaction};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, DELIVERY_TIMEOUT, FIRST, World, idempotent, p, refusal, transactional};

/// All of Kafka's codes, and some unknown ones.
fn codes() -> impl Iterator<Item = ErrorCode> {
    (-1..=150).chain([i16::MAX, i16::MIN]).filter(|code| *code != 0).map(ErrorCode::from_code)
}

/// The outcome that a partition's second batch shows.
fn seen(code: ErrorCode) -> Reaction {
    let mut world = World::new(idempotent(), &[1]);
    world.fill(0);
    world.answer(1);
    world.prompt = false;
    let batch = world.fill_sized(0, 2, 200);
    world.refuse(1, code);
    if !world.splits.is_empty() {
        return Reaction::Split;
    }
    let next = world.fill(0);
    match (world.done.get(&batch), world.done.get(&next)) {
        (Some(Ok(_)), None) => Reaction::Done,
        (Some(Err(SendFault::Fenced { .. })), Some(Err(SendFault::Fenced { .. }))) => Reaction::Fence,
        (Some(Err(SendFault::Refused { .. })), Some(Err(SendFault::Fatal { .. }))) => Reaction::FailAll,
        (Some(Err(SendFault::Refused { code: told, .. })), None) => {
            assert_eq!(*told, code);
            // Its sequence numbers are free for the next batch, unless it may be in the log.
            match world.requests.first().and_then(|sent| sent.batches[0].sequence) {
                Some(sequence) => {
                    assert_eq!(sequence, (FIRST, 1));
                    Reaction::Fail
                }
                None => {
                    assert_eq!(world.asked, [Some(FIRST)]);
                    Reaction::FailOutcomeUnknown
                }
            }
        }
        (None, None) if !world.asked.is_empty() => {
            world.give_identity();
            world.pass(BACKOFF);
            assert_eq!(world.requests[0].batches[0].sequence, Some((ProducerIdentity { epoch: 1, ..FIRST }, 0)));
            Reaction::Renumber
        }
        (None, None) => {
            assert!(world.requests.is_empty(), "{code}: not without a backoff");
            retried(world, batch)
        }
        other => panic!("{code}: {other:?}"),
    }
}

fn retried(mut world: World, batch: u64) -> Reaction {
    let refreshed = world.refreshes > 0;
    world.pass(BACKOFF);
    assert_eq!(world.at(1), [[batch]]);
    let sent = world.take_request(1);
    world.input(Input::Answer { request: sent.id, outcome: Err(RequestFailure::NotSent("no way".to_owned())) });
    world.move_leader(0, None);
    world.metadata();
    world.pass(DELIVERY_TIMEOUT);
    let Err(SendFault::TimedOut { outcome_unknown, .. }) = world.done[&batch] else {
        panic!("{:?}", world.done[&batch])
    };
    match (refreshed, outcome_unknown) {
        (true, true) => Reaction::Refresh,
        (false, true) => Reaction::Retry,
        (false, false) => Reaction::RetryRefused,
        (true, false) => panic!("nothing is said of it"),
    }
}

#[test]
fn every_code_leads_to_what_the_table_says() {
    for code in codes() {
        assert_eq!(seen(code), reaction(code), "{code} ({})", code.code());
    }
}

#[test]
fn all_that_kafka_calls_retriable_is_retried() {
    use Reaction::{Refresh, Retry, RetryRefused};
    for code in codes().filter(|code| code.is_retriable()) {
        assert!(matches!(reaction(code), Retry | RetryRefused | Refresh), "{code}");
    }
}

#[test]
fn the_table_is_in_order_and_design_shows_it() {
    assert!(REACTIONS.is_sorted_by(|(a, _), (b, _)| a.code() < b.code()));
    let mut code: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (error, reaction) in REACTIONS {
        code.entry(format!("`{reaction:?}`")).or_default().push(error.name());
    }
    let code: BTreeMap<String, String> = code.into_iter().map(|(row, errors)| (row, errors.join(", "))).collect();
    let design = include_str!("../../../../docs/design/producing.md");
    let section = design.split("\n## Delivery of a batch\n").nth(1).expect("a section");
    let table = section.split("| What follows | Errors |\n|---|---|\n").nth(1).expect("a table");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let told: BTreeMap<String, String> = rows
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            (cells[0].to_owned(), cells[1].to_owned())
        })
        .collect();
    assert_eq!(told, code);
}

#[test]
fn what_ends_a_batch_ends_its_transaction() {
    let ends = [Reaction::Fail, Reaction::FailOutcomeUnknown, Reaction::Renumber, Reaction::Fence, Reaction::FailAll];
    for code in codes().filter(|code| ends.contains(&reaction(*code))) {
        let mut world = World::new(transactional(), &[1, 1]);
        let batch = world.fill(0);
        world.refuse(1, code);
        // With the broker's message, also if it would be retried outside of a transaction.
        match &world.done[&batch] {
            Err(SendFault::Refused { code: told, .. }) => assert_eq!(*told, code),
            other => assert!(other.is_err() && matches!(reaction(code), Reaction::Fence | Reaction::FailAll), "{code}"),
        }
        assert_eq!(world.failed.len(), 1, "{code}");
        let next = world.fill(1);
        assert!(world.done[&next].is_err(), "{code}");
    }
}

#[test]
fn the_records_that_spoil_a_batch_are_named() {
    let mut world = World::new(idempotent(), &[1]);
    let batch = world.fill_sized(0, 3, 100);
    let sent = world.take_request(1);
    let mut answer = refusal(&sent.batches[0], ErrorCode::InvalidRecord);
    answer.message = Some("no key".to_owned());
    answer.record_errors = vec![(1, Some("lacks a key".to_owned())), (2, None)];
    world.input(Input::Answer { request: sent.id, outcome: Ok(vec![answer]) });
    let Err(SendFault::Refused { partition, code, message, attempts, records }) = &world.done[&batch] else { panic!() };
    assert_eq!((partition, *code, message.as_deref(), *attempts), (&p(0), ErrorCode::InvalidRecord, Some("no key"), 1));
    assert_eq!(records[0], (1, "lacks a key".to_owned()));
    assert_eq!(records[1], (2, ErrorCode::InvalidRecord.message().to_owned()));
}

#[test]
fn a_request_that_cannot_be_made_fails_its_batches() {
    let mut world = World::new(idempotent(), &[1]);
    let batch = world.fill(0);
    let sent = world.take_request(1);
    let outcome = Err(RequestFailure::Fatal("the broker does not speak it".to_owned()));
    world.input(Input::Answer { request: sent.id, outcome });
    assert_eq!(world.done[&batch], Err(SendFault::Fatal { reason: "the broker does not speak it".to_owned() }));
}

#[test]
fn an_answer_without_the_partition_is_no_answer() {
    let mut world = World::new(idempotent(), &[1]);
    let batch = world.fill(0);
    let sent = world.take_request(1);
    world.input(Input::Answer { request: sent.id, outcome: Ok(Vec::new()) });
    world.pass(BACKOFF);
    assert_eq!(world.at(1), [[batch]]);
}

#[test]
fn a_batch_is_sent_again_as_often_as_retries_allow() {
    let mut config = idempotent();
    config.retries = 2;
    let mut world = World::new(config, &[1]);
    let batch = world.fill(0);
    for _ in 0..3 {
        assert!(!world.done.contains_key(&batch));
        world.refuse(1, ErrorCode::NotEnoughReplicas);
        world.pass(BACKOFF);
    }
    let Err(SendFault::Refused { code, attempts, .. }) = world.done[&batch] else { panic!() };
    assert_eq!((code, attempts), (ErrorCode::NotEnoughReplicas, 3));
}
