//! Random events with a known log: no record is lost or delivered twice, there is no busy loop, and reading ends.

use std::collections::BTreeMap;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::backoff::Jitter;
use monedula_engine::fetch::{ListOffsetsAnswer, Output, ResetPolicy, Start};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{Reply, Request, World, data, empty, error, ms};

const PARTITIONS: i32 = 4;
const NODES: u64 = 3;
const BATCH: i64 = 10;
const SEEDS: u64 = 300;
const STEPS: usize = 150;
/// Answers without records that one instant may see: each node's session opened twice and one quick empty answer, for
/// each event of that instant.
const IDLE_PER_INSTANT: u32 = 30;

struct Log {
    start: i64,
    end: i64,
}

struct Chaos {
    world: World,
    dice: Jitter,
    logs: Vec<Log>,
    leaders: Vec<(i32, i32)>,
    requests: BTreeMap<i32, Request>,
    /// By reading: the next offset to be delivered.
    expected: BTreeMap<u64, i64>,
    reading_ids: BTreeMap<i32, u64>,
    healthy: bool,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let leaders = vec![(1, 0), (2, 0), (3, 0), (1, 0)];
        let mut chaos = Self {
            world: World::new(ResetPolicy::Earliest, &[1, 2, 3, 1]),
            dice: Jitter::new(seed),
            logs: (0..PARTITIONS).map(|_| Log { start: 0, end: 20 * BATCH }).collect(),
            leaders,
            requests: BTreeMap::new(),
            expected: BTreeMap::new(),
            reading_ids: BTreeMap::new(),
            healthy: false,
        };
        (0..PARTITIONS).for_each(|index| chaos.assign(index));
        chaos
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice.next() % sides
    }

    /// True once in `sides`, never once the world is healthy.
    fn strikes(&mut self, sides: u64) -> bool {
        !self.healthy && self.roll(sides) == 0
    }

    fn assign(&mut self, index: i32) {
        let start = match self.roll(3) {
            0 => Start::Earliest,
            1 => Start::Latest,
            _ => Start::Offset(self.roll(150) as i64, -1),
        };
        let reading_id = self.world.assign(index, start);
        self.reading_ids.insert(index, reading_id);
    }

    fn step(&mut self) {
        let index = self.roll(PARTITIONS as u64) as i32;
        match self.roll(14) {
            0 => self.assign(index),
            1 => {
                let offset = self.roll(300) as i64;
                let reading_id = self.world.seek(index, Start::Offset(offset, -1));
                self.reading_ids.insert(index, reading_id);
            }
            2 => self.world.unassign(index),
            3 => self.world.pause(index, true),
            4 | 5 => self.world.pause(index, false),
            6 | 7 => {
                let leader = 1 + self.roll(NODES) as i32;
                let epoch = self.leaders[index as usize].1 + 1;
                self.leaders[index as usize] = (leader, epoch);
                if self.roll(2) == 0 {
                    self.metadata();
                }
            }
            8 => self.world.metadata_of(ErrorCode::UnknownTopicOrPartition, &[]),
            9 => {
                let log = &mut self.logs[index as usize];
                log.start = (log.start + 3 * BATCH).min(log.end);
            }
            10 | 11 => self.logs[index as usize].end += BATCH,
            _ => {
                let by = ms(self.roll(400));
                self.world.advance(by);
            }
        }
        self.settle();
    }

    fn metadata(&mut self) {
        let leaders = self.leaders.clone();
        self.world.metadata(&leaders);
    }

    /// Carries out everything that takes no time. Some requests stay without an answer for now.
    fn settle(&mut self) {
        let mut idle = 0;
        loop {
            self.outputs();
            for node in 1..=NODES as i32 {
                if let Some(request) = self.world.try_fetch(node) {
                    self.requests.insert(node, request);
                }
            }
            let waiting: Vec<i32> = self.requests.keys().copied().collect();
            let mut answered = false;
            for node in waiting {
                if self.strikes(4) {
                    continue;
                }
                answered = true;
                let delivered = self.answer(node);
                idle += u32::from(!delivered);
                assert!(idle < IDLE_PER_INSTANT, "a spin at {:?}", self.world.now);
            }
            if !answered {
                return self.outputs();
            }
        }
    }

    /// Whether the answer brought records.
    fn answer(&mut self, node: i32) -> bool {
        let Some(request) = self.requests.remove(&node) else { return false };
        if self.strikes(15) {
            self.world.lose(node);
            return false;
        }
        if self.strikes(15) {
            self.world.refuse(node, ErrorCode::FetchSessionIdNotFound);
            return false;
        }
        self.world.session_id = if self.strikes(10) { 0 } else { crate::world::SESSION };
        let wanted: Vec<(i32, i64)> = request.wanted(self.world.topic_id).collect();
        let replies = wanted.into_iter().map(|(index, offset)| self.reply(node, index, offset)).collect();
        let delivered = self.world.answer(node, replies);
        for &(index, base) in &delivered {
            let reading_id = self.reading_ids[&index];
            let expected = self.expected[&reading_id];
            assert!((base..base + BATCH).contains(&expected), "{index}: a batch at {base}, but {expected} is next");
            self.expected.insert(reading_id, base + BATCH);
        }
        !delivered.is_empty()
    }

    fn reply(&mut self, node: i32, index: i32, offset: i64) -> Reply {
        let (leader, epoch) = self.leaders[index as usize];
        if node != leader && self.roll(2) == 0 {
            return Reply { leader: Some((leader, epoch)), ..error(index, ErrorCode::NotLeaderOrFollower) };
        }
        let log = &self.logs[index as usize];
        if offset < log.start || offset > log.end {
            return error(index, ErrorCode::OffsetOutOfRange);
        }
        let base = offset / BATCH * BATCH;
        let end = log.end;
        if self.strikes(12) {
            const CODES: [ErrorCode; 4] = [
                ErrorCode::KafkaStorageError,
                ErrorCode::UnknownLeaderEpoch,
                ErrorCode::UnknownTopicId,
                ErrorCode::OffsetNotAvailable,
            ];
            return error(index, CODES[self.roll(4) as usize]);
        }
        if self.strikes(12) {
            return Reply { preferred: Some(1 + self.roll(NODES + 1) as i32), ..empty(index) };
        }
        if offset < end { data(index, base..base + BATCH) } else { empty(index) }
    }

    fn outputs(&mut self) {
        loop {
            let outputs = self.world.outputs();
            if outputs.is_empty() {
                return;
            }
            outputs.into_iter().for_each(|output| self.output(output));
        }
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Positioned { reading_id, offset, .. } => drop(self.expected.insert(reading_id, offset)),
            Output::ListOffset { partition, reading_id, start } => {
                let log = &self.logs[partition.partition as usize];
                let offset = if start == Start::Earliest { log.start } else { log.end };
                self.look_up(&partition, reading_id, ListOffsetsAnswer { offset, leader_epoch: -1, log_start: None });
            }
            Output::ListLogRange { partition, reading_id } => {
                let log = &self.logs[partition.partition as usize];
                let found = ListOffsetsAnswer { offset: log.end, leader_epoch: -1, log_start: Some(log.start) };
                self.look_up(&partition, reading_id, found);
            }
            Output::OffsetForLeaderEpoch { partition, reading_id, .. } => {
                let end = self.logs[partition.partition as usize].end;
                let answer = if self.strikes(4) { Err(ErrorCode::FencedLeaderEpoch) } else { Ok(Some(end)) };
                self.world.epoch_end(partition.partition, reading_id, answer);
            }
            Output::RefreshMetadata => {
                if !self.strikes(2) {
                    self.metadata();
                }
            }
            Output::LeaderHint { partition, leader, leader_epoch } => {
                self.world.cluster.hint_leader(&partition, leader, leader_epoch);
                self.world.update_metadata();
            }
            Output::Fetched(_) | Output::Stopped { .. } => {}
        }
    }

    fn look_up(&mut self, partition: &TopicPartition, reading_id: u64, found: ListOffsetsAnswer) {
        let answer = if self.strikes(4) { Err(ErrorCode::NetworkException) } else { Ok(Some(found)) };
        self.world.answer_list_offsets(partition.partition, reading_id, answer);
    }

    /// Ends the faults: every assigned partition is read to the end of its log.
    fn heal(&mut self) {
        self.healthy = true;
        self.metadata();
        for index in 0..PARTITIONS {
            self.assign(index);
        }
        let until = self.world.now + Duration::from_secs(20);
        while self.world.now < until {
            self.settle();
            self.world.advance(ms(50));
        }
        for (index, log) in self.logs.iter().enumerate() {
            assert_eq!(self.expected[&self.reading_ids[&(index as i32)]], log.end, "partition {index}");
        }
    }
}

#[test]
fn whatever_happens_nothing_is_lost_or_read_twice_and_nothing_spins() {
    for seed in 0..SEEDS {
        let outcome = std::panic::catch_unwind(|| {
            let mut chaos = Chaos::new(seed);
            (0..STEPS).for_each(|_| chaos.step());
            chaos.heal();
        });
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
