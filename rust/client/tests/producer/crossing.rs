//! Records that wait while their transaction ends, and failures of rows that only a report knows of.

use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Instant;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use monedula_broker::Effect;
use monedula_client::error::ClientError;
use monedula_client::producer::{Columns, Producer, Record, Refused, Report};
use monedula_engine::produce::SendFault;
use monedula_engine::transaction::TransactionError;

use crate::support::{PATIENCE, World, delivered, send};
use crate::transactions::{ok, outcome, seen, world};

const SMALL: [(&str, &str); 4] =
    [("transactional.id", "id"), ("buffer.memory", "100000"), ("batch.size", "4000"), ("max.request.size", "20000")];

/// A producer with an open transaction.
fn begun(world: &World) -> Producer {
    let producer = world.producer(&SMALL);
    ok(world, producer.init_transactions(PATIENCE));
    ok(world, producer.begin_transaction());
    delivered(&send(&producer, "t", None, "first"));
    producer
}

fn record(value: &[u8]) -> Record<'_> {
    Record { topic: "t", value: Some(value), ..Record::default() }
}

/// Sends until there is no room; returns the number of records.
fn fill(producer: &Producer) -> usize {
    let value = "x".repeat(1000);
    (0..).take_while(|_| producer.send(&record(value.as_bytes())).is_ok()).count()
}

/// Sends a record as Python's `send` does, waiting for room.
fn wait_and_send(producer: &Producer, value: &str) -> Result<(), ClientError> {
    let permit = producer.acquire_permit()?;
    let record = Record { sent_in: Some(permit.transaction()), ..record(value.as_bytes()) };
    loop {
        match producer.send(&record) {
            Ok(_) => return Ok(()),
            Err(Refused::Full { needed }) => {
                assert!(producer.wait_for_room(needed, Instant::now() + PATIENCE, record.sent_in)?, "no room");
            }
            Err(Refused::Error(error)) => return Err(error),
        }
    }
}

fn rows(values: Vec<String>, partitions: Option<Vec<i64>>) -> RecordBatch {
    let values: ArrayRef = Arc::new(StringArray::from(values));
    let partitions = partitions.map(|partitions| ("partition", Arc::new(Int64Array::from(partitions)) as ArrayRef));
    RecordBatch::try_from_iter([("value", values)].into_iter().chain(partitions)).expect("a batch")
}

fn send_rows(producer: &Producer, batch: &RecordBatch, report: &Arc<Report>) -> Result<(), ClientError> {
    let columns = Columns::of(&batch.schema(), true).expect("columns");
    let (mut row, deadline) = (0, Instant::now() + PATIENCE);
    let mut taken = Ok(());
    while row < batch.num_rows() && taken.is_ok() {
        assert!(Instant::now() < deadline, "{row} rows were taken");
        taken = producer.send_batch(batch, &columns, Some("t"), report, row, deadline).map(|more| row += more);
    }
    report.seal();
    taken
}

/// Threads that send single records and one that sends a table. Returns when all of them wait for room.
fn waiting<'s>(
    scope: &'s Scope<'s, '_>,
    producer: &'s Producer,
    threads: usize,
) -> Vec<ScopedJoinHandle<'s, Result<(), ClientError>>> {
    let singles = (0..threads).map(|_| scope.spawn(|| wait_and_send(producer, &"waits".repeat(1000))));
    let table = scope.spawn(|| {
        let batch = rows((0..100).map(|row| format!("row {row} {}", "y".repeat(3000))).collect(), None);
        send_rows(producer, &batch, &Report::new())
    });
    let all = singles.chain([table]).collect();
    let deadline = Instant::now() + PATIENCE;
    while producer.health().waiting <= threads {
        assert!(Instant::now() < deadline, "{} wait", producer.health().waiting);
        std::thread::yield_now();
    }
    all
}

#[test]
fn who_waits_for_room_gets_into_no_later_transaction() {
    for (version, threads) in [(1, 1), (2, 1), (2, 5), (2, 0)] {
        let world = world(&["t:1"], 1, version);
        let producer = begun(&world);
        let held = world.fault(&["Produce"], Effect::Hold, None);
        assert!(fill(&producer) > 10);
        std::thread::scope(|scope| {
            let waiting = waiting(scope, &producer, threads);
            let aborted = producer.abort_transaction(PATIENCE);
            held.remove().expect("removed");
            ok(&world, aborted);
            ok(&world, producer.begin_transaction());
            delivered(&send(&producer, "t", None, "kept"));
            for thread in waiting {
                let error = thread.join().expect("ends").expect_err("is aborted");
                assert!(matches!(error, ClientError::Delivery(SendFault::Aborted)), "{error}");
            }
        });
        ok(&world, producer.commit_transaction(PATIENCE));
        assert_eq!(seen(&world, "t"), ["kept"], "version {version}, {threads} threads");
    }
}

#[test]
fn a_commit_waits_for_who_waits_for_room() {
    for threads in [0, 1, 4] {
        let world = world(&["t:1"], 1, 2);
        let producer = begun(&world);
        let held = world.fault(&["Produce"], Effect::Hold, None);
        let before = 1 + fill(&producer);
        std::thread::scope(|scope| {
            let waiting = waiting(scope, &producer, threads);
            let committed = producer.commit_transaction(PATIENCE);
            held.remove().expect("removed");
            ok(&world, committed);
            waiting.into_iter().for_each(|thread| thread.join().expect("ends").expect("is sent"));
        });
        assert_eq!(seen(&world, "t").len(), before + threads + 100);
        ok(&world, producer.begin_transaction());
        delivered(&send(&producer, "t", None, "next"));
        ok(&world, producer.commit_transaction(PATIENCE));
    }
}

#[test]
fn a_record_that_is_late_is_refused_by_the_next_transaction() {
    let world = world(&["t:1"], 1, 2);
    let producer = begun(&world);
    let permit = producer.acquire_permit().expect("is open");
    ok(&world, producer.abort_transaction(PATIENCE));
    ok(&world, producer.begin_transaction());
    let late = Record { sent_in: Some(permit.transaction()), ..record(b"late") };
    let Err(Refused::Error(error)) = producer.send(&late) else { panic!("it was taken") };
    assert!(matches!(error, ClientError::Delivery(SendFault::Aborted)), "{error}");
    // The permit is still held, but its transaction has ended.
    drop(permit);
    ok(&world, producer.commit_transaction(PATIENCE));
}

#[test]
fn rows_that_were_refused_stop_the_commit_at_once_and_no_other_rows() {
    let large = "x".repeat(30_000);
    for (wrong, partition, told) in [(large.as_str(), 0, "max.request.size"), ("v", 1 << 32, "partition=4294967296")] {
        let world = world(&["t:1"], 1, 2);
        let producer = begun(&world);
        let batch = rows(vec!["a".into(), wrong.into(), "b".into()], Some(vec![0, partition, 0]));
        let report = Report::new();
        send_rows(&producer, &batch, &report).expect("is taken");
        assert!(report.wait(Instant::now() + PATIENCE));
        assert_eq!((report.summary().acknowledged, report.summary().failed), (2, 1));
        // No Produce request is answered any more: a call that waited for one would wait for ever.
        let held = world.fault(&["Produce"], Effect::Hold, None);
        let sent = send(&producer, "t", None, "under way");
        for _ in 0..2 {
            let error = outcome(&world, producer.commit_transaction(PATIENCE * 2)).expect_err("is spoilt");
            let ClientError::Transaction(TransactionError::MustAbort { reason }) = &error else { panic!("{error}") };
            assert!(reason.contains(told), "{reason}");
        }
        let aborted = producer.abort_transaction(PATIENCE);
        held.remove().expect("removed");
        ok(&world, aborted);
        drop(sent);
        let error = outcome(&world, producer.commit_transaction(PATIENCE)).expect_err("none is open");
        assert!(error.to_string().contains("no transaction is open"), "{error}");
        ok(&world, producer.begin_transaction());
        delivered(&send(&producer, "t", None, "next"));
        ok(&world, producer.commit_transaction(PATIENCE));
        assert_eq!(seen(&world, "t"), ["next"]);
    }
}

#[test]
fn who_was_fenced_hears_so_from_whatever_it_calls() {
    let world = world(&["t:1"], 1, 2);
    let (first, second) = (begun(&world), world.producer(&[("transactional.id", "id")]));
    ok(&world, second.init_transactions(PATIENCE));
    let fenced = |error: ClientError| {
        assert!(matches!(error, ClientError::Transaction(TransactionError::Fenced { .. })), "{error}");
    };
    fenced(outcome(&world, first.commit_transaction(PATIENCE)).expect_err("is fenced"));
    fenced(outcome(&world, first.flush()).expect_err("is fenced"));
    fenced(outcome(&world, first.commit_transaction(PATIENCE)).expect_err("is fenced"));
    fenced(outcome(&world, first.abort_transaction(PATIENCE)).expect_err("is fenced"));
    fenced(outcome(&world, first.begin_transaction()).expect_err("is fenced"));
    fenced(outcome(&world, first.init_transactions(PATIENCE)).expect_err("is fenced"));
    fenced(send_rows(&first, &rows(vec!["v".into()], None), &Report::new()).expect_err("is fenced"));
    fenced(wait_and_send(&first, "v").expect_err("is fenced"));
    let Err(Refused::Error(error)) = first.send(&record(b"v")) else { panic!("it was taken") };
    fenced(error);
}

#[test]
fn a_commit_waits_for_lines_and_an_abort_takes_them_back() {
    let world = world(&["t:1"], 1, 2);
    let producer = begun(&world);
    let waiting = producer.queued_sends::<u32>();
    assert_eq!(waiting.push("room", false, || 0).expect("is open"), None);
    assert_eq!(waiting.push("room", true, || 1).expect("is open"), Some(true));
    assert_eq!(waiting.push("room", false, || 2).expect("is open"), Some(false));
    let taken_back = {
        let aborted = producer.abort_transaction(PATIENCE);
        let taken_back = waiting.abort();
        ok(&world, aborted);
        taken_back
    };
    assert_eq!(taken_back, [1, 2]);
    let first = waiting.front("room").expect("somebody has it in hands");
    assert!(first.record == 1 && !first.may_send);
    assert!(waiting.push("room", true, || 3).is_err(), "nothing is open");

    ok(&world, producer.begin_transaction());
    // It waits behind a record of the earlier transaction, for which the commit does not wait.
    assert_eq!(waiting.push("room", true, || 3).expect("is open"), Some(false));
    assert!(waiting.pop("room"), "another one is there");
    let permit = producer.acquire_permit().expect("is open");
    let committed = world.runtime.spawn(producer.commit_transaction(PATIENCE));
    let late = Record { sent_in: Some(permit.transaction()), ..record(b"while it stands there") };
    assert!(producer.send(&late).is_ok() && !committed.is_finished());
    assert!(
        producer.send(&record(b"new")).is_err() && producer.acquire_permit().is_err(),
        "the commit waits for these only"
    );
    drop(permit);
    // The queue was removed when it became empty: the next record creates a new one, which another thread serves.
    assert!(!waiting.pop("room"));
    ok(&world, async { committed.await.expect("ends") });
    assert_eq!(seen(&world, "t"), ["while it stands there"]);

    ok(&world, producer.begin_transaction());
    assert_eq!(waiting.push("room", true, || 4).expect("is open"), Some(true));
    let goes_on = waiting.settle("room", Some("no room"), |first| {
        assert_eq!(first, 4);
        let behind = waiting.push("room", false, || 5);
        assert!(behind.is_ok_and(|is_first| is_first == Some(false)), "what is sent meanwhile waits behind it");
    });
    assert!(goes_on, "the one behind it");
    assert!(!waiting.settle("room", None, |first| assert_eq!(first, 5)));
    let error = outcome(&world, producer.commit_transaction(PATIENCE)).expect_err("is spoilt");
    assert!(error.to_string().contains("no room"), "{error}");
    ok(&world, producer.abort_transaction(PATIENCE));
}
