//! Random events with logs that check sequence numbers: each batch has one outcome, acknowledged batches are in the
//! log, once and in order, and all work ends.

use std::collections::BTreeMap;
use std::time::Duration;

use monedula_engine::backoff::Jitter;
use monedula_engine::produce::{BatchId, Input, ProduceConfig, SendFault};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{SentRequest, World, idempotent, ms, p, plain, refusal};

const PARTITIONS: u64 = 4;
const NODES: u64 = 3;
const STEPS: usize = 250;
const SEEDS: u64 = 400;
/// Brokers refuse larger batches of several records as too large.
const LARGEST: usize = 400;
/// How long after its connection broke a request may still be carried out. Less than any backoff.
const ZOMBIE_MS: u64 = 60;

/// A planted fault that the checks must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// An append is acknowledged but not made.
    Unwritten,
    /// Brokers do not check sequence numbers.
    Unjudged,
    /// The outcome of a batch is dropped.
    Untold,
}

struct Storm {
    world: World,
    dice: Jitter,
    planted: Planted,
    /// Numbers of batches in the order in which they were opened; the parts of a batch take its place.
    places: BTreeMap<BatchId, Vec<u64>>,
    partitions: BTreeMap<BatchId, TopicPartition>,
    open: BTreeMap<BatchId, Now>,
    split: Vec<BatchId>,
    zombies: Vec<(Now, SentRequest)>,
    healthy: bool,
    tickets: u64,
}

impl Storm {
    fn new(config: ProduceConfig, seed: u64, planted: Planted) -> Self {
        Self {
            world: World::new(config, &[1, 2, 3, 1]),
            dice: Jitter::new(seed),
            planted,
            places: BTreeMap::new(),
            partitions: BTreeMap::new(),
            open: BTreeMap::new(),
            split: Vec::new(),
            zombies: Vec::new(),
            healthy: false,
            tickets: 0,
        }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice.next() % sides
    }

    fn strikes(&mut self, sides: u64) -> bool {
        !self.healthy && self.roll(sides) == 0
    }

    fn step(&mut self) {
        let index = self.roll(PARTITIONS) as i32;
        match self.roll(12) {
            0..=2 => self.fill(index),
            3 | 4 => self.open(index),
            5 => {
                let leader = self.roll(NODES + 1) as i32;
                self.world.move_leader(index, (leader > 0).then_some(leader));
            }
            6 => self.world.metadata(),
            7 => {
                let broker = 1 + self.roll(NODES) as i32;
                self.break_off(broker);
            }
            8 if self.roll(3) == 0 => {
                self.tickets += 1;
                self.world.input(Input::Flush { ticket: self.tickets });
            }
            9 if self.roll(4) == 0 => self.world.logs.get_mut(&p(index)).unwrap().restart(),
            10 => {
                let by = ms(self.roll(300));
                self.world.pass(by);
            }
            _ => {
                let by = ms(self.roll(20));
                self.world.pass(by);
            }
        }
        self.settle();
    }

    fn record(&mut self, batch: BatchId, index: i32) {
        self.places.insert(batch, vec![batch]);
        self.partitions.insert(batch, p(index));
    }

    fn fill(&mut self, index: i32) {
        let (records, bytes) = (1 + self.roll(20) as u32, 1 + self.roll(600) as usize);
        let batch = self.world.fill_sized(index, records, bytes);
        self.record(batch, index);
    }

    fn open(&mut self, index: i32) {
        let batch = self.world.open_sized(index, 1 + (self.tickets as u32 % 3), 100);
        self.record(batch, index);
    }

    fn settle(&mut self) {
        self.zombies();
        while let Some(batch) = self.world.closed.pop() {
            self.open.insert(batch, self.world.now);
        }
        for batch in self.open.keys().copied().collect::<Vec<_>>() {
            if !self.strikes(3) {
                self.open.remove(&batch);
                self.world.pack(batch);
            }
        }
        self.split.append(&mut self.world.splits);
        for batch in std::mem::take(&mut self.split) {
            self.divide(batch);
        }
        if !self.world.asked.is_empty() && !self.strikes(3) {
            self.world.asked.clear();
            self.world.give_identity();
        }
        if self.world.refreshes > 0 && !self.strikes(2) {
            self.world.refreshes = 0;
            self.world.metadata();
        }
        for broker in 1..=NODES as i32 {
            while self.world.requests.iter().any(|sent| sent.broker == broker) && !self.strikes(3) {
                self.answer(broker);
            }
        }
    }

    fn divide(&mut self, batch: BatchId) {
        let (records, bytes) = self.world.sizes[&batch];
        let place = self.places[&batch].clone();
        let half = records / 2;
        let parts = vec![self.world.part(half, bytes / 2), self.world.part(records - half, bytes.div_ceil(2))];
        for (number, part) in (0..).zip(&parts) {
            let place = place.iter().copied().chain([number]).collect();
            self.places.insert(part.id, place);
            self.partitions.insert(part.id, self.partitions[&batch].clone());
        }
        if !self.world.done.contains_key(&batch) {
            self.places.remove(&batch);
        }
        let dropped = self.world.done.contains_key(&batch);
        if dropped {
            parts.iter().for_each(|part| drop(self.places.remove(&part.id)));
        }
        self.world.input(Input::SplitInto { batch, parts });
    }

    fn answer(&mut self, broker: i32) {
        let mut sent = self.world.take_request(broker);
        if self.planted == Planted::Unjudged {
            sent.batches.iter_mut().for_each(|sending| sending.sequence = None);
        }
        let mut answers = Vec::new();
        for sending in sent.batches.clone() {
            let one = SentRequest { batches: vec![sending.clone()], ..sent.clone() };
            let answer = match self.dice.next() % if self.healthy { 1 } else { 25 } {
                1 => refusal(&sending, ErrorCode::NotEnoughReplicas),
                2 => refusal(&sending, ErrorCode::InvalidRecord),
                3 => {
                    self.world.carry_out(&one);
                    refusal(&sending, ErrorCode::NotEnoughReplicasAfterAppend)
                }
                4 if self.planted == Planted::Unwritten => refusal(&sending, ErrorCode::None),
                _ => self.world.carry_out(&one).remove(0),
            };
            answers.push(answer);
        }
        self.world.input(Input::Answer { request: sent.id, outcome: Ok(answers) });
        if self.planted == Planted::Untold && self.strikes(20) {
            self.world.done.pop_last();
        }
    }

    /// Some of the requests in flight are carried out, some a little later, the rest never.
    fn break_off(&mut self, broker: i32) {
        let sent: Vec<SentRequest> = self.world.requests.iter().filter(|sent| sent.broker == broker).cloned().collect();
        let (before, after) = (self.roll(6) as usize, self.roll(6) as usize);
        self.world.break_off(broker, before);
        let until = self.world.now + ms(self.roll(ZOMBIE_MS));
        self.zombies.extend(sent.into_iter().skip(before).take(after).map(|sent| (until, sent)));
    }

    fn zombies(&mut self) {
        let (due, waiting) = self.zombies.drain(..).partition(|(at, _)| *at <= self.world.now);
        self.zombies = waiting;
        let due: Vec<(Now, SentRequest)> = due;
        let now = self.world.now;
        for (_, sent) in due.iter().filter(|(at, _)| *at + ms(20) > now) {
            self.world.carry_out(sent);
        }
    }

    /// Ends the faults, and lets all work end.
    fn heal(&mut self) {
        self.healthy = true;
        for index in 0..PARTITIONS as i32 {
            self.world.move_leader(index, Some(1 + index % NODES as i32));
        }
        self.world.metadata();
        let until = self.world.now + Duration::from_secs(60);
        while self.world.now < until && self.world.machine.unfinished() > 0 {
            self.settle();
            self.world.pass(ms(50));
        }
        self.settle();
        assert_eq!(self.world.machine.unfinished(), 0, "not everything ends");
        assert_eq!(self.world.flushed.len() as u64, self.tickets);
    }

    fn check(&self, once: bool) {
        for batch in self.places.keys() {
            assert!(self.world.done.contains_key(batch), "{batch} has no end");
        }
        for (partition, log) in &self.world.logs {
            let places: Vec<&Vec<u64>> = log.batches.iter().map(|batch| &self.places[batch]).collect();
            let in_order = if once { places.is_sorted_by(|a, b| a < b) } else { places.is_sorted() };
            assert!(in_order, "{partition}: {:?}", log.batches);
        }
        for (batch, outcome) in &self.world.done {
            let written = self.world.logs[&self.partitions[batch]].batches.contains(batch);
            match outcome {
                Ok(_) => assert!(written, "{batch} is acknowledged and not there"),
                Err(SendFault::TimedOut { outcome_unknown: false, .. }) => {
                    assert!(!written, "{batch} is there, without doubt")
                }
                Err(_) => {}
            }
        }
    }

    fn run(config: ProduceConfig, seed: u64, planted: Planted, once: bool) -> Self {
        let mut storm = Self::new(config, seed, planted);
        (storm.world.prompt, storm.world.largest) = (false, LARGEST);
        (0..STEPS).for_each(|_| storm.step());
        storm.heal();
        storm.check(once);
        storm
    }
}

fn hasty(config: ProduceConfig) -> ProduceConfig {
    ProduceConfig { delivery_timeout: Duration::from_secs(1), ..config }
}

/// A request that lost its connection without a fault.
#[test]
fn whatever_happens_each_batch_is_written_once_and_in_order() {
    for seed in 0..SEEDS {
        for config in [idempotent(), hasty(idempotent())] {
            let outcome = std::panic::catch_unwind(|| Storm::run(config, seed, Planted::Nothing, true));
            assert!(outcome.is_ok(), "seed {seed}");
        }
    }
}

#[test]
fn without_sequence_numbers_one_in_flight_keeps_the_order() {
    for seed in 0..SEEDS {
        let outcome = std::panic::catch_unwind(|| Storm::run(hasty(plain(1)), seed, Planted::Nothing, false));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

#[test]
fn a_storm_sees_much_of_what_can_happen() {
    let (mut timed_out, mut acknowledged, mut nowhere, mut refused) = (0, 0, 0, 0);
    for seed in 0..100 {
        let storm = Storm::run(hasty(idempotent()), seed, Planted::Nothing, true);
        for outcome in storm.world.done.values() {
            match outcome {
                Ok(acked) if acked.base_offset.is_none() => nowhere += 1,
                Ok(_) => acknowledged += 1,
                Err(SendFault::TimedOut { outcome_unknown: true, .. }) => timed_out += 1,
                Err(_) => refused += 1,
            }
        }
    }
    let seen = (acknowledged > 2000, timed_out > 50, nowhere > 2, refused > 200);
    assert_eq!(seen, (true, true, true, true), "{acknowledged} {timed_out} {nowhere} {refused}");
}

#[test]
fn what_is_broken_on_purpose_is_found() {
    for planted in [Planted::Unwritten, Planted::Unjudged, Planted::Untold] {
        let found =
            (0..SEEDS).any(|seed| std::panic::catch_unwind(|| Storm::run(idempotent(), seed, planted, true)).is_err());
        assert!(found, "{planted:?}");
    }
}
