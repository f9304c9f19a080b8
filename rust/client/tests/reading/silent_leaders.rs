//! One broker of several that is slow, silent or refuses, at each kind of request: the partitions of the others are read
//! all the same. No request has a time-out here that would end within the test, so nothing may wait for that broker.

use std::time::Duration;

use monedula_broker::control::Command;
use monedula_broker::{Direction, Effect, NodeId, Selector};
use monedula_client::config::ClientConfig;
use monedula_client::consumer::Consumer;
use monedula_columns::ColumnSet;
use monedula_engine::fetch::Start;

use crate::support::{PATIENCE, Reader, World, append_batch, cluster, partition};

/// Longer than any test.
const NEVER_MS: &str = "3600000";

fn damages() -> Vec<Effect> {
    vec![
        Effect::Hold,
        Effect::Drop,
        Effect::BlackHole { way: Direction::Both },
        Effect::BlackHole { way: Direction::Answers },
        Effect::Close,
        Effect::Error { error: "UNKNOWN_SERVER_ERROR".into(), whole: true },
    ]
}

fn at(apis: &[&str], node: i32) -> Selector {
    Selector { apis: apis.iter().map(ToString::to_string).collect(), nodes: vec![node], ..Selector::default() }
}

/// Node `spoilt` of so many answers no request of this API as it should; a record of each other node is read.
fn others_are_read(nodes: u16, spoilt: i32, api: &str, start: Start, damage: Effect) {
    let what = format!("{nodes} nodes, {api} at node {spoilt}: {damage:?}");
    let world = cluster(nodes, 1);
    let partitions = i32::from(nodes);
    for index in 0..partitions {
        let node = NodeId(index + 1);
        world.control(Command::MoveLeader { topic: crate::support::TOPIC.into(), partition: index, node });
        append_batch(&world, index, 1, 10);
    }
    let _fault = world.fault_when(at(&[api], spoilt), damage, None);
    let settings = [("request.timeout.ms", NEVER_MS), ("auto.offset.reset", "earliest")];
    let mut reader = Reader::starting(&world, partitions, start, &settings);
    let others = |reader: &Reader| {
        (0..partitions).filter(|index| index + 1 != spoilt).all(|index| reader.rows.contains_key(&index))
    };
    reader.read_until(&what, 1000, others);
}

/// What is asked before the first fetch, by where a partition starts.
const ASKED: [(&str, Start); 6] = [
    ("ListOffsets", Start::Earliest),
    // Both ends of a log that does not hold the position.
    ("ListOffsets", Start::Offset(99, -1)),
    ("OffsetForLeaderEpoch", Start::Offset(0, 0)),
    ("Fetch", Start::Offset(0, -1)),
    ("Metadata", Start::Earliest),
    ("ApiVersions", Start::Earliest),
];

#[test]
fn one_of_three_brokers_delays_its_own_partitions_alone_whatever_it_does_to_whichever_request() {
    for (api, start) in ASKED {
        for damage in damages() {
            for spoilt in [1, 3] {
                others_are_read(3, spoilt, api, start, damage.clone());
            }
        }
    }
}

#[test]
fn one_of_many_brokers_that_is_silent_delays_its_own_partitions_alone() {
    for nodes in [9, 30] {
        for (api, start) in ASKED {
            others_are_read(nodes, 1, api, start, Effect::Hold);
        }
    }
}

fn consumer(world: &World, settings: &[(&str, &str)]) -> Consumer {
    let servers = world.servers();
    let usual = [("bootstrap.servers", servers.as_str()), ("retry.backoff.ms", "10"), ("request.timeout.ms", NEVER_MS)];
    let config = ClientConfig::parse(crate::cluster::beside(&usual, settings)).expect("settings");
    Consumer::new(config, ColumnSet::default(), world.runtime.handle(), 7)
}

#[test]
fn a_lookup_goes_on_at_the_new_leader_while_the_old_one_is_silent() {
    let world = cluster(3, 1);
    for index in 0..3 {
        let node = NodeId(index + 1);
        world.control(Command::MoveLeader { topic: crate::support::TOPIC.into(), partition: index, node });
        append_batch(&world, index, 3, 10);
    }
    let held = world.fault_when(at(&["ListOffsets"], 2), Effect::Hold, None);
    let consumer = consumer(&world, &[]);
    let lookup = world.runtime.spawn(consumer.end_offsets((0..3).map(partition).collect(), PATIENCE));
    assert!(held.wait(1, PATIENCE).expect("waits"), "the old leader is asked");
    world.control(Command::MoveLeader { topic: crate::support::TOPIC.into(), partition: 1, node: NodeId(3) });
    let ended = world.runtime.block_on(async { tokio::time::timeout(PATIENCE, lookup).await });
    let found = ended.expect("in time").expect("no panic").expect("found");
    assert!(found.values().all(|found| found.is_some_and(|found| found.offset == 3)), "{found:?}");
}

#[test]
fn a_lookup_that_is_out_of_time_names_the_broker_that_was_silent() {
    let world = cluster(3, 1);
    for index in 0..3 {
        let node = NodeId(index + 1);
        world.control(Command::MoveLeader { topic: crate::support::TOPIC.into(), partition: index, node });
    }
    let _held = world.fault_when(at(&["ListOffsets"], 2), Effect::Hold, None);
    let consumer = consumer(&world, &[]);
    let lookup = consumer.end_offsets((0..3).map(partition).collect(), Duration::from_secs(2));
    let error = world.runtime.block_on(lookup).expect_err("one is silent").to_string();
    let addresses = world.broker.addresses();
    let named = |node: usize| error.contains(&addresses[node - 1].1.to_string());
    assert!(named(2) && !named(1) && !named(3), "{error}");
}
