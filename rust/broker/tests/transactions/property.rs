//! A property test with several producers, nodes that stop and start, and time that passes: readers of committed
//! records see all that was committed, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use monedula_broker::settings::Settings;
use monedula_protocol::error_code::ErrorCode;

use crate::producer::*;

const SEEDS: u64 = 60;
const STEPS: usize = 500;
const IDS: [&str; 4] = ["a", "b", "c", "d"];
const PARTITIONS: u64 = 3;
const NODES: u64 = 3;

/// SplitMix64, a random generator whose numbers depend only on the seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % bound
    }
}

/// A producer with its own view of its state.
struct Client {
    id: &'static str,
    speaks: Speaks,
    producer: Option<Producer>,
    /// The partitions and values that it wrote in its open transaction.
    open: Vec<(i32, String)>,
    next_sequence: BTreeMap<i32, i32>,
}

struct Run {
    world: Cluster,
    clients: Vec<Client>,
    draw: Draw,
    committed: BTreeMap<i32, BTreeSet<String>>,
    last_value: u64,
    /// A log of the steps, which is printed when a seed fails.
    trace: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut settings = Settings { nodes: NODES as u16, seed, ..Settings::default() };
        settings.kafka.set("transaction.state.log.num.partitions", "2").unwrap();
        settings.kafka.set("offsets.topic.num.partitions", "2").unwrap();
        // One replica each: the partitions of a stopped node have no leader, so their markers have to wait.
        let world = Cluster::with_replicas(settings, 1);
        let speaks = |index: usize| if index.is_multiple_of(2) { Speaks::Two } else { Speaks::One };
        let client = |(index, id): (usize, &&'static str)| Client {
            id,
            speaks: speaks(index),
            producer: None,
            open: Vec::new(),
            next_sequence: BTreeMap::new(),
        };
        let clients = IDS.iter().enumerate().map(client).collect();
        Self { world, clients, draw: Draw(seed), committed: BTreeMap::new(), last_value: 0, trace: Vec::new() }
    }

    fn step(&mut self) {
        let index = self.draw.below(IDS.len() as u64) as usize;
        match self.draw.below(100) {
            0..50 => self.write(index),
            50..65 => self.end(index, true),
            65..75 => self.end(index, false),
            75..80 => {
                // The producer is killed and restarted.
                self.clients[index].producer = None;
                self.begin(index);
            }
            80..85 => self.stop_or_start(),
            85..88 => {
                let ms = self.draw.below(40_000) as i64;
                self.trace.push(format!("{ms} ms pass"));
                self.world.advance(ms);
            }
            88..90 => self.world.advance(200),
            _ => self.look(),
        }
    }

    fn begin(&mut self, index: usize) {
        let id = self.clients[index].id;
        let outcome = init(&mut self.world, id);
        self.trace.push(format!("{id} begins: {outcome:?}"));
        let client = &mut self.clients[index];
        // The open transaction can no longer be committed: it is aborted, now or by the retry.
        client.open.clear();
        client.next_sequence.clear();
        match outcome {
            Ok(producer) => client.producer = Some(producer),
            Err(ErrorCode::ConcurrentTransactions) => client.producer = None,
            Err(error) => panic!("{id} cannot begin: {error}"),
        }
    }

    fn write(&mut self, index: usize) {
        let Some(producer) = self.clients[index].producer else { return self.begin(index) };
        let partition = self.draw.below(PARTITIONS) as i32;
        self.last_value += 1;
        let (id, speaks) = (self.clients[index].id, self.clients[index].speaks);
        let value = format!("{id}{}", self.last_value);
        if speaks == Speaks::One {
            let error = add(&mut self.world, id, producer, partition);
            if error != ErrorCode::None {
                self.trace.push(format!("{id} cannot add {partition}: {error}"));
                return self.refused(index, error);
            }
        }
        let sequence = self.clients[index].next_sequence.get(&partition).copied().unwrap_or(0);
        let version = if speaks == Speaks::Two { 12 } else { 11 };
        let records = batch(producer, sequence, true, &value);
        let (error, words) = write_in(&mut self.world, id, partition, &records, version);
        self.trace.push(format!("{id} writes {value} to {partition} as {producer:?} {sequence}: {error} {words:?}"));
        if error != ErrorCode::None {
            return self.refused(index, error);
        }
        let client = &mut self.clients[index];
        client.open.push((partition, value));
        client.next_sequence.insert(partition, sequence + 1);
    }

    fn refused(&mut self, index: usize, error: ErrorCode) {
        match error {
            ErrorCode::LeaderNotAvailable | ErrorCode::ConcurrentTransactions | ErrorCode::NotEnoughReplicas => {}
            ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch => self.clients[index].producer = None,
            error => panic!("{}: {error}", self.clients[index].id),
        }
    }

    fn end(&mut self, index: usize, commit: bool) {
        let Some(producer) = self.clients[index].producer else { return self.begin(index) };
        let (id, speaks) = (self.clients[index].id, self.clients[index].speaks);
        if self.clients[index].open.is_empty() {
            return;
        }
        let outcome = end(&mut self.world, id, producer, commit, speaks);
        self.trace.push(format!("{id} ends {:?} with {commit}: {outcome:?}", self.clients[index].open));
        let client = &mut self.clients[index];
        match outcome {
            Ok(next) => {
                for (partition, value) in client.open.drain(..).filter(|_| commit) {
                    self.committed.entry(partition).or_default().insert(value);
                }
                if next != producer {
                    client.next_sequence.clear();
                }
                client.producer = Some(next);
            }
            // The transaction has timed out.
            Err(ErrorCode::ProducerFenced | ErrorCode::InvalidTxnState) => {
                client.open.clear();
                client.producer = None;
            }
            Err(ErrorCode::ConcurrentTransactions) => {}
            Err(error) => panic!("{id} cannot end: {error}"),
        }
    }

    fn stop_or_start(&mut self) {
        let node = self.draw.below(NODES) as i32 + 1;
        let down = (1..=NODES as i32).filter(|node| self.world.is_down(*node)).count();
        if self.world.is_down(node) {
            self.world.start(node);
            self.trace.push(format!("node {node} starts"));
        } else if down + 1 < NODES as usize {
            self.world.stop(node);
            self.trace.push(format!("node {node} stops"));
        }
    }

    /// Checks that all records that readers see so far were committed.
    fn look(&mut self) {
        for partition in 0..PARTITIONS as i32 {
            if self.world.leader(partition).0.is_none() {
                continue;
            }
            let (seen, _) = read(&mut self.world, partition, true);
            let committed = self.committed.entry(partition).or_default();
            let early: Vec<_> = seen.iter().filter(|value| !committed.contains(*value)).collect();
            assert!(early.is_empty(), "{early:?} of partition {partition} are seen, and were not committed");
        }
    }

    /// Starts all nodes, and lets all producers begin again, which ends their transactions.
    fn settle(&mut self) {
        for node in 1..=NODES as i32 {
            if self.world.is_down(node) {
                self.world.start(node);
            }
        }
        self.world.advance(1000);
        for (index, id) in IDS.iter().enumerate() {
            for _ in 0..3 {
                self.begin(index);
            }
            assert!(self.clients[index].producer.is_some(), "{id} cannot begin");
        }
    }

    fn check(&mut self) {
        for partition in 0..PARTITIONS as i32 {
            let (seen, stable) = read(&mut self.world, partition, true);
            let once: BTreeSet<String> = seen.iter().cloned().collect();
            assert_eq!(once.len(), seen.len(), "something is seen twice in partition {partition}");
            assert_eq!(once, self.committed.remove(&partition).unwrap_or_default(), "partition {partition}");
            let (_, stable_for_all) = read(&mut self.world, partition, false);
            assert_eq!(stable, stable_for_all);
            // The records of each producer are in the order in which it wrote them.
            for id in IDS {
                let numbers = seen.iter().filter_map(|value| value.strip_prefix(id)?.parse::<u64>().ok());
                assert!(numbers.is_sorted(), "{id} in partition {partition}: {seen:?}");
            }
        }
    }
}

#[test]
fn readers_see_what_was_committed_and_nothing_else() {
    let mut committed = 0;
    for seed in 0..SEEDS {
        let mut run = Run::new(seed);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..STEPS {
                run.step();
            }
            run.settle();
            committed += run.committed.values().map(BTreeSet::len).sum::<usize>();
            run.check();
        }));
        if let Err(panic) = outcome {
            eprintln!("seed {seed}:\n{}", run.trace.join("\n"));
            std::panic::resume_unwind(panic);
        }
    }
    // Makes sure that the test has committed enough to be meaningful.
    assert!(committed > 1000, "{committed}");
}
