//! How long the leader's step takes in large groups, from bytes to bytes, and what it moves: 1,000 members, 5,000 partitions.
//!
//! `cargo run --release -p monedula-engine --example assign_throughput`, beside `benches/assign/AssignThroughput.java`, which has
//! the same groups for the assignors of Kafka's own consumer.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_engine::assign::{
    Assignor, LastAssignment, Topics, builtin, perform, read_assignment, subscription_bytes,
};

const TOPICS: usize = 500;
const PARTITIONS: usize = 10;
const MEMBERS: usize = 1000;
const REPEATS: usize = 5;

/// Whether a member subscribes to a topic.
type Subscribes = fn(usize, usize) -> bool;

const GROUPS: [(&str, Subscribes); 3] = [
    ("same topics", |_, _| true),
    ("different, 2 of 5 topics", |member, topic| (member * 7 + topic * 13 + member / 5 * topic) % 5 < 2),
    ("different, 3 of 100 topics", |member, topic| (member * 31 + topic * 37 + member / 9 * topic) % 100 < 3),
];

/// What a member was assigned last, by its number.
type Members = BTreeMap<usize, BTreeSet<TopicPartition>>;

fn main() {
    let topics: Topics = (0..TOPICS).map(|topic| (name(topic), vec![Vec::new(); PARTITIONS])).collect();
    for assignor in ["range", "roundrobin", "sticky", "cooperative-sticky"] {
        let assignor = builtin(assignor).expect("known");
        for (what, subscribes) in GROUPS {
            live(&*assignor, &topics, what, subscribes);
        }
    }
}

fn name(topic: usize) -> Arc<str> {
    format!("topic-{topic:03}").into()
}

fn live(assignor: &dyn Assignor, topics: &Topics, what: &str, subscribes: Subscribes) {
    let mut members: Members = (0..MEMBERS).map(|member| (member, BTreeSet::new())).collect();
    let mut generation = -1;
    let mut step = |step: &str, members: &mut Members| {
        let metadata = metadata(assignor, members, generation, subscribes);
        let mut took = Duration::MAX;
        let mut made = Vec::new();
        for _ in 0..REPEATS {
            let start = Instant::now();
            made = perform(assignor, topics, &metadata).expect("assigns");
            took = took.min(start.elapsed());
        }
        generation += 1;
        report(&format!("{} | {what} | {step}", assignor.name()), took, members, &made);
    };
    step("first", &mut members);
    step("again", &mut members);
    members.insert(MEMBERS, BTreeSet::new());
    step("+1", &mut members);
    step("settled", &mut members);
    members.remove(&(MEMBERS / 2));
    step("-1", &mut members);
    step("settled", &mut members);
    members.retain(|member, _| member % 10 != 0);
    step("-10 %", &mut members);
    step("settled", &mut members);
    // Member 1 alone had everything that it subscribes to.
    for (&member, owned) in &mut members {
        let topics = topics.keys().enumerate().filter(|(topic, _)| member == 1 && subscribes(member, *topic));
        let all = |(_, name): (usize, &Arc<str>)| {
            let name = name.clone();
            (0..PARTITIONS as i32).map(move |index| TopicPartition::new(name.clone(), index))
        };
        *owned = topics.flat_map(all).collect();
    }
    step("from one to all", &mut members);
}

fn metadata(
    assignor: &dyn Assignor,
    members: &Members,
    generation: i32,
    subscribes: Subscribes,
) -> Vec<(String, Option<String>, Vec<u8>)> {
    let eager = assignor.name() != "cooperative-sticky";
    let one = |(&member, last): (&usize, &BTreeSet<TopicPartition>)| {
        let topics = (0..TOPICS).filter(|&topic| subscribes(member, topic)).map(name).collect();
        // Who is new has no generation.
        let generation = if last.is_empty() { -1 } else { generation };
        let owned = if eager { BTreeSet::new() } else { last.clone() };
        let last = LastAssignment { generation, partitions: last.clone(), ..Default::default() };
        let bytes = subscription_bytes(assignor, &topics, &owned, generation, &last, None).expect("bytes");
        (format!("member-{member:04}"), None, bytes)
    };
    members.iter().map(one).collect()
}

fn report(what: &str, took: Duration, members: &mut Members, made: &[(String, Vec<u8>)]) {
    let last = members.iter().flat_map(|(&member, owned)| owned.iter().map(move |one| (one.clone(), member)));
    let before: BTreeMap<TopicPartition, usize> = last.collect();
    let (mut kept, mut moved, mut assigned, mut squares) = (0, 0, 0, 0);
    for ((&member, owned), (_, bytes)) in members.iter_mut().zip(made) {
        *owned = read_assignment(bytes).expect("assignment").partitions.into_iter().collect();
        assigned += owned.len();
        squares += owned.len().pow(2);
        for last in owned.iter().filter_map(|partition| before.get(partition)) {
            kept += usize::from(*last == member);
            moved += usize::from(*last != member);
        }
    }
    let (took_ms, left) = (took.as_secs_f64() * 1000.0, before.len() - kept);
    println!(
        "{what} | {took_ms:.1} ms | assigned {assigned} | left their owner {left} | moved {moved} | sum of squares {squares}"
    );
}
