//! Transactions, under both transaction versions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use monedula_broker::control::Command;
use monedula_broker::{Effect, Fault, NodeId, Options, Selector, Side};
use monedula_client::config::ClientConfig;
use monedula_client::consumer::{BatchLimits, Consumer};
use monedula_client::error::ClientError;
use monedula_client::group::{CommitOffset, CommitWhat, Listens, Polled, Subscribed};
use monedula_client::producer::{Producer, Record, Refused};
use monedula_columns::ColumnSet;
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use monedula_engine::transaction::TransactionError;

use crate::support::{PATIENCE, World, delivered, failure, send};

/// A cluster with transaction version 1 or 2.
pub(crate) fn world(topics: &[&str], nodes: u16, version: i16) -> World {
    let max_versions = if version == 1 { BTreeMap::from([("EndTxn".to_owned(), 4)]) } else { BTreeMap::new() };
    let topics = topics.iter().map(ToString::to_string).collect();
    World::of(Options { nodes, topics, max_versions, ..Options::default() })
}

fn transactional(world: &World, id: &str) -> Producer {
    world.producer(&[("transactional.id", id)])
}

pub(crate) fn ok(world: &World, future: impl Future<Output = Result<(), ClientError>>) {
    outcome(world, future).expect("it goes well");
}

pub(crate) fn outcome(world: &World, future: impl Future<Output = Result<(), ClientError>>) -> Result<(), ClientError> {
    world.runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await }).expect("in time")
}

fn reader(world: &World, isolation: &str) -> Consumer {
    let servers = world.broker.addresses()[0].1.to_string();
    let settings = [("bootstrap.servers", servers.as_str()), ("isolation.level", isolation)];
    Consumer::new(ClientConfig::parse(settings).expect("settings"), ColumnSet::default(), world.runtime.handle(), 7)
}

/// The values that read_committed readers see, once no transaction is open.
pub(crate) fn seen(world: &World, topic: &str) -> Vec<String> {
    let (committed, all) = (reader(world, "read_committed"), reader(world, "read_uncommitted"));
    let (place, deadline) = (TopicPartition::new(topic, 0), Instant::now() + PATIENCE);
    let end = |of: &Consumer| {
        let found = world.runtime.block_on(of.end_offsets([place.clone()].into(), PATIENCE)).expect("an answer");
        found[&place].expect("an end").offset
    };
    // The response to EndTxn does not wait for the markers.
    while end(&committed) != end(&all) {
        assert!(Instant::now() < deadline, "a transaction is left open");
    }
    let end = end(&all);
    committed.assign(vec![(place.clone(), Start::Earliest, Some(end))]).expect("assigns");
    let want = BatchLimits { max_rows: 100_000, max_bytes: 64 << 20, max_wait: Duration::ZERO, deadline: None };
    let mut values = Vec::new();
    while committed.status(&place).expect("assigned").position.is_none_or(|position| position < end) {
        assert!(Instant::now() < deadline, "{values:?}");
        let batch = committed.next_batch(&want, Instant::now() + Duration::from_millis(50)).expect("reads");
        values.extend(batch.iter().flat_map(crate::support::values));
    }
    values
}

#[test]
fn readers_of_committed_records_see_all_of_a_transaction_or_nothing() {
    for version in [1, 2] {
        let world = world(&["t:1"], 1, version);
        let producer = transactional(&world, "id");
        ok(&world, producer.init_transactions(PATIENCE));
        for round in 0..6 {
            ok(&world, producer.begin_transaction());
            let sent: Vec<_> = (0..3).map(|n| send(&producer, "t", None, &format!("{round}-{n}"))).collect();
            match round % 2 {
                0 => ok(&world, producer.commit_transaction(PATIENCE)),
                _ => {
                    sent.iter().for_each(|sent| _ = delivered(sent));
                    ok(&world, producer.abort_transaction(PATIENCE));
                }
            }
        }
        let expected: Vec<String> =
            [0, 2, 4].iter().flat_map(|round| (0..3).map(move |n| format!("{round}-{n}"))).collect();
        assert_eq!(seen(&world, "t"), expected, "version {version}");
    }
}

#[test]
fn records_outside_of_a_transaction_are_refused_at_once() {
    let world = world(&["t:1"], 1, 2);
    let producer = transactional(&world, "id");
    let refused = |producer: &Producer, what: &str| {
        let record = Record { topic: "t", value: Some(b"v"), ..Record::default() };
        let Err(Refused::Error(ClientError::Transaction(error))) = producer.send(&record) else { panic!("taken") };
        assert!(error.to_string().contains(what), "{error}");
    };
    refused(&producer, "init_transactions() was not called yet");
    ok(&world, producer.init_transactions(PATIENCE));
    refused(&producer, "call begin_transaction() first");
    ok(&world, producer.begin_transaction());
    send(&producer, "t", None, "v");
    ok(&world, producer.commit_transaction(PATIENCE));
    refused(&producer, "call begin_transaction() first");
    let plain = world.producer(&[]);
    let error = outcome(&world, plain.begin_transaction()).expect_err("has no id");
    assert!(error.to_string().contains("transactional.id"), "{error}");
}

#[test]
fn the_second_producer_fences_the_first_and_ends_what_it_left() {
    for version in [1, 2] {
        let world = world(&["t:1"], 1, version);
        let (first, second) = (transactional(&world, "id"), transactional(&world, "id"));
        ok(&world, first.init_transactions(PATIENCE));
        ok(&world, first.begin_transaction());
        delivered(&send(&first, "t", None, "left"));
        ok(&world, second.init_transactions(PATIENCE));
        let error = outcome(&world, first.commit_transaction(PATIENCE)).expect_err("fenced");
        assert!(matches!(error, ClientError::Transaction(TransactionError::Fenced { .. })), "{error}");
        let record = Record { topic: "t", value: Some(b"v"), ..Record::default() };
        assert!(matches!(
            first.send(&record),
            Err(Refused::Error(ClientError::Transaction(TransactionError::Fenced { .. })))
        ));
        ok(&world, second.begin_transaction());
        send(&second, "t", None, "kept");
        ok(&world, second.commit_transaction(PATIENCE));
        assert_eq!(seen(&world, "t"), ["kept"], "version {version}");
    }
}

#[test]
fn an_abort_takes_back_what_was_not_sent_yet() {
    let world = world(&["t:1"], 1, 2);
    let producer =
        world.producer(&[("transactional.id", "id"), ("linger.ms", "60000"), ("delivery.timeout.ms", "180000")]);
    ok(&world, producer.init_transactions(PATIENCE));
    // Makes the topic known. Records of an unknown topic would be sent before they are aborted.
    world.runtime.block_on(producer.partitions_for("t".into(), PATIENCE)).expect("is there");
    world.runtime.block_on(async {
        while producer.partition_count("t").is_none() {
            tokio::task::yield_now().await;
        }
    });
    ok(&world, producer.begin_transaction());
    let sent = send(&producer, "t", None, "v");
    ok(&world, producer.abort_transaction(PATIENCE));
    assert!(failure(&sent).contains("the transaction was aborted"));
    ok(&world, producer.begin_transaction());
    let sent = send(&producer, "t", None, "w");
    ok(&world, producer.commit_transaction(PATIENCE));
    delivered(&sent);
    assert_eq!(seen(&world, "t"), ["w"]);
}

#[test]
fn a_record_that_fails_spoils_its_transaction_and_no_other() {
    for version in [1, 2] {
        let world = world(&["t:1"], 1, version);
        let producer = transactional(&world, "id");
        ok(&world, producer.init_transactions(PATIENCE));
        ok(&world, producer.begin_transaction());
        delivered(&send(&producer, "t", None, "good"));
        let fault = world.fault(&["Produce"], Effect::Error { error: "INVALID_RECORD".into(), whole: false }, None);
        failure(&send(&producer, "t", None, "bad"));
        fault.remove().expect("removed");
        let error = outcome(&world, producer.commit_transaction(PATIENCE)).expect_err("is spoiled");
        assert!(matches!(error, ClientError::Transaction(TransactionError::MustAbort { .. })), "{error}");
        ok(&world, producer.abort_transaction(PATIENCE));
        ok(&world, producer.begin_transaction());
        delivered(&send(&producer, "t", None, "next"));
        ok(&world, producer.commit_transaction(PATIENCE));
        assert_eq!(seen(&world, "t"), ["next"], "version {version}");
    }
}

#[test]
fn moves_and_lost_answers_of_the_coordinator_change_nothing() {
    for version in [1, 2] {
        let world = world(&["t:1"], 3, version);
        let producer = world.producer(&[("transactional.id", "id"), ("request.timeout.ms", "1000")]);
        ok(&world, producer.init_transactions(PATIENCE));
        let mut expected = Vec::new();
        for round in 0..9 {
            ok(&world, producer.begin_transaction());
            let sent = send(&producer, "t", None, &round.to_string());
            let (apis, when) = (["EndTxn"].map(str::to_owned).to_vec(), Selector::default());
            let lost = Fault {
                when: Selector { apis, ..when },
                what: Effect::Drop,
                on: Some(if round % 2 == 0 { Side::Answer } else { Side::Request }),
                count: Some(1),
                ..Fault::default()
            };
            let fault = (round % 3 == 0).then(|| world.broker.fault(lost).expect("a fault"));
            if round % 3 == 1 {
                let node = 1 + round % 3;
                world.control(Command::MoveCoordinator {
                    group: None,
                    transactional_id: Some("id".into()),
                    node: NodeId(node),
                });
            }
            match round % 4 {
                3 => ok(&world, producer.abort_transaction(PATIENCE)),
                _ => {
                    ok(&world, producer.commit_transaction(PATIENCE));
                    delivered(&sent);
                    expected.push(round.to_string());
                }
            }
            if let Some(fault) = fault {
                fault.remove().expect("removed");
            }
        }
        assert_eq!(seen(&world, "t"), expected, "version {version}");
    }
}

#[test]
fn a_commit_without_an_answer_ends_in_time_and_is_heard_of_later() {
    let world = world(&["t:1"], 1, 2);
    let producer = transactional(&world, "id");
    ok(&world, producer.init_transactions(PATIENCE));
    ok(&world, producer.begin_transaction());
    delivered(&send(&producer, "t", None, "v"));
    let error = Effect::Error { error: "COORDINATOR_LOAD_IN_PROGRESS".into(), whole: false };
    let fault = world.fault(&["EndTxn"], error, None);
    let error = outcome(&world, producer.commit_transaction(Duration::from_millis(200))).expect_err("is late");
    assert!(matches!(error, ClientError::Transaction(TransactionError::TimedOut { .. })), "{error}");
    let error = outcome(&world, producer.abort_transaction(PATIENCE)).expect_err("it may be committed");
    assert!(error.to_string().contains("call commit_transaction() again"), "{error}");
    fault.remove().expect("removed");
    ok(&world, producer.commit_transaction(PATIENCE));
    assert_eq!(seen(&world, "t"), ["v"]);
}

#[test]
fn offsets_are_committed_with_the_transaction_or_not_at_all() {
    for version in [1, 2] {
        let world = world(&["in:1", "t:1"], 1, version);
        let servers = world.broker.addresses()[0].1.to_string();
        let settings = [("bootstrap.servers", servers.as_str()), ("group.id", "g"), ("enable.auto.commit", "false")];
        let config = ClientConfig::parse(settings).expect("settings");
        let consumer = Consumer::new(config, ColumnSet::default(), world.runtime.handle(), 7);
        let (producer, place) = (transactional(&world, "id"), TopicPartition::new("in", 0));
        ok(&world, producer.init_transactions(PATIENCE));
        let committed = || {
            let found = consumer.committed_offsets("g".into(), Some([place.clone()].into()), PATIENCE);
            let found = world.runtime.block_on(found).expect("an answer");
            found[&place].clone().expect("no error").map(|at| at.offset)
        };
        for (offset, commits, expected) in [(5, true, Some(5)), (9, false, Some(5)), (7, true, Some(7))] {
            ok(&world, producer.begin_transaction());
            let at = CommitOffset { offset, leader_epoch: -1, metadata: String::new() };
            let what = CommitWhat::Offsets([(place.clone(), at)].into());
            let offsets = consumer.take_offsets(what).expect("offsets");
            ok(&world, producer.send_offsets(offsets, PATIENCE));
            match commits {
                true => ok(&world, producer.commit_transaction(PATIENCE)),
                false => ok(&world, producer.abort_transaction(PATIENCE)),
            }
            assert_eq!(committed(), expected, "version {version}");
        }
    }
}

#[test]
fn offsets_need_a_group_that_does_not_commit_by_itself() {
    let world = world(&["in:1"], 1, 2);
    let servers = world.broker.addresses()[0].1.to_string();
    for (settings, what) in [(&[][..], "group.id"), (&[("group.id", "g")][..], "enable.auto.commit=false")] {
        let settings = std::iter::once(("bootstrap.servers", servers.as_str())).chain(settings.iter().copied());
        let config = ClientConfig::parse(settings).expect("settings");
        let consumer = Consumer::new(config, ColumnSet::default(), world.runtime.handle(), 7);
        let Err(error) = consumer.take_offsets(CommitWhat::Finished { holder: 1 }) else { panic!("taken") };
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn an_abort_takes_back_what_waits_for_its_topic() {
    let world = world(&["t:1", "later:1"], 1, 2);
    let producer = transactional(&world, "id");
    ok(&world, producer.init_transactions(PATIENCE));
    ok(&world, producer.begin_transaction());
    // Metadata of this topic does not arrive: its records wait, and could go out in a later transaction.
    let held = world.fault_of_topic("Metadata", "later", Effect::Hold);
    let waiting = send(&producer, "later", None, "v");
    ok(&world, producer.abort_transaction(PATIENCE));
    assert!(failure(&waiting).contains("the transaction was aborted"));
    held.remove().expect("removed");
    ok(&world, producer.begin_transaction());
    delivered(&send(&producer, "later", None, "w"));
    ok(&world, producer.commit_transaction(PATIENCE));
    assert_eq!(seen(&world, "later"), ["w"]);
}

#[test]
fn nothing_gets_into_a_transaction_that_is_about_to_end() {
    let world = world(&["t:1"], 1, 2);
    let producer = transactional(&world, "id");
    ok(&world, producer.init_transactions(PATIENCE));
    for commits in [true, false] {
        ok(&world, producer.begin_transaction());
        delivered(&send(&producer, "t", None, "v"));
        let held = world.fault(&["Produce"], Effect::Hold, None);
        let last = send(&producer, "t", None, "w");
        // An abort waits only for requests in flight; records not sent yet it takes back at once.
        assert!(held.wait(1, PATIENCE).expect("is set"));
        // New records are refused already while the request is in flight.
        let record = Record { topic: "t", value: Some(b"late"), ..Record::default() };
        let refused = |what: &str| {
            let Err(Refused::Error(ClientError::Transaction(error))) = producer.send(&record) else { panic!("taken") };
            assert!(error.to_string().contains(what), "{error}");
        };
        if commits {
            let ended = producer.commit_transaction(PATIENCE);
            refused("is being committed");
            held.remove().expect("removed");
            ok(&world, ended);
            delivered(&last);
        } else {
            let ended = producer.abort_transaction(PATIENCE);
            refused("is being aborted");
            held.remove().expect("removed");
            ok(&world, ended);
        }
    }
    assert_eq!(seen(&world, "t"), ["v", "w"]);
}

#[test]
fn a_partition_that_cannot_be_added_fails_its_records_at_once() {
    let world = world(&["t:1"], 1, 1);
    let producer = transactional(&world, "id");
    ok(&world, producer.init_transactions(PATIENCE));
    ok(&world, producer.begin_transaction());
    let denied = Effect::Error { error: "TOPIC_AUTHORIZATION_FAILED".into(), whole: false };
    let fault = world.fault(&["AddPartitionsToTxn"], denied, None);
    // The record fails long before its delivery timeout, and before an abort.
    let text = failure(&send(&producer, "t", None, "v"));
    assert!(text.contains("TOPIC_AUTHORIZATION_FAILED"), "{text}");
    fault.remove().expect("removed");
    ok(&world, producer.abort_transaction(PATIENCE));
    ok(&world, producer.begin_transaction());
    delivered(&send(&producer, "t", None, "w"));
    ok(&world, producer.commit_transaction(PATIENCE));
    assert_eq!(seen(&world, "t"), ["w"]);
}

#[test]
fn records_whose_offsets_were_in_an_aborted_transaction_are_read_again() {
    let world = world(&["in:1", "t:1"], 1, 2);
    let plain = world.producer(&[]);
    delivered(&send(&plain, "in", None, "v"));
    let servers = world.broker.addresses()[0].1.to_string();
    let settings = [
        ("bootstrap.servers", servers.as_str()),
        ("group.id", "g"),
        ("enable.auto.commit", "false"),
        ("auto.offset.reset", "earliest"),
    ];
    let config = ClientConfig::parse(settings).expect("settings");
    let consumer = Consumer::new(config, ColumnSet::default(), world.runtime.handle(), 7);
    let (producer, place) = (transactional(&world, "id"), TopicPartition::new("in", 0));
    consumer.assign(vec![(place.clone(), Start::Earliest, None)]).expect("assigns");
    let want = BatchLimits { max_rows: 100, max_bytes: 1 << 20, max_wait: Duration::ZERO, deadline: None };
    let read = || {
        let batch = consumer.next_batch(&want, Instant::now() + PATIENCE).expect("reads");
        batch.iter().flat_map(crate::support::values).collect::<Vec<_>>()
    };
    ok(&world, producer.init_transactions(PATIENCE));
    for commits in [false, true] {
        assert_eq!(read(), ["v"]);
        ok(&world, producer.begin_transaction());
        let at = CommitOffset { offset: 1, leader_epoch: -1, metadata: String::new() };
        let offsets = consumer.take_offsets(CommitWhat::Offsets([(place.clone(), at)].into())).expect("offsets");
        ok(&world, producer.send_offsets(offsets, PATIENCE));
        match commits {
            true => ok(&world, producer.commit_transaction(PATIENCE)),
            false => ok(&world, producer.abort_transaction(PATIENCE)),
        }
        consumer.rewind().expect("rewinds");
    }
    delivered(&send(&plain, "in", None, "w"));
    assert_eq!(read(), ["w"]);
}

// KIP-1319. The member does not know yet that the topic was recreated. Named by topic, the offset
// would apply to the new one.
#[test]
fn offsets_of_a_topic_that_was_made_anew_spoil_the_transaction() {
    for protocol in ["classic", "consumer"] {
        let world = world(&["in:1"], 1, 2);
        delivered(&send(&world.producer(&[]), "in", None, "v"));
        let servers = world.broker.addresses()[0].1.to_string();
        let settings = [
            ("bootstrap.servers", servers.as_str()),
            ("group.id", "g"),
            ("group.protocol", protocol),
            ("client.id", "reader"),
            ("enable.auto.commit", "false"),
            ("auto.offset.reset", "earliest"),
        ];
        let config = ClientConfig::parse(settings).expect("settings");
        let consumer = Consumer::new(config, ColumnSet::default(), world.runtime.handle(), 7);
        consumer.subscribe(Subscribed::Topics(["in".into()].into()), Listens::default()).expect("subscribes");
        let want = BatchLimits { max_rows: 100, max_bytes: 1 << 20, max_wait: Duration::ZERO, deadline: None };
        let deadline = Instant::now() + PATIENCE;
        while !matches!(consumer.next(&want, deadline, 1).expect("reads"), Polled::Batch(_)) {
            assert!(Instant::now() < deadline, "{protocol}: nothing is read");
        }
        let (producer, place) = (transactional(&world, "id"), TopicPartition::new("in", 0));
        ok(&world, producer.init_transactions(PATIENCE));
        ok(&world, producer.begin_transaction());

        let reader =
            Selector { apis: vec!["Metadata".into()], client_id: Some("reader".into()), ..Selector::default() };
        let held = world.broker.fault(Fault { when: reader, what: Effect::Hold, ..Fault::default() }).expect("a fault");
        world.control(Command::DeleteTopic { topic: "in".into() });
        world.control(Command::CreateTopic {
            topic: "in".into(),
            partitions: Some(1),
            replicas: None,
            config: BTreeMap::new(),
        });
        let at = CommitOffset { offset: 1, leader_epoch: -1, metadata: String::new() };
        let what = CommitWhat::Offsets([(place.clone(), at)].into());
        let offsets = consumer.take_offsets(what).expect("offsets");
        let error = outcome(&world, producer.send_offsets(offsets, PATIENCE)).expect_err("refused").to_string();
        assert!(error.contains("must be aborted") && error.contains("UNKNOWN_TOPIC_ID"), "{protocol}: {error}");
        ok(&world, producer.abort_transaction(PATIENCE));
        held.remove().expect("removed");
        let found = consumer.committed_offsets("g".into(), Some([place.clone()].into()), PATIENCE);
        let found = world.runtime.block_on(found).expect("an answer");
        assert_eq!(found[&place].clone().expect("no error"), None, "{protocol}");
    }
}
