//! Runs drawn from seeds: workers come and go, handlers fail, partitions freeze, are sought, lost and abandoned.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_engine::backoff::Jitter;
use monedula_engine::lanes::{Lanes, Limits, Order, Reading, RowPermission};

use crate::model::{Model, Part, Row, offset};
use crate::partition;

const WORKERS: usize = 4;
const PARTITIONS: usize = 2;

struct World {
    lanes: Lanes<usize>,
    model: Model,
    chance: Jitter,
    now: Duration,
    is_transactional: bool,
    /// True in runs whose lease is over at times. A row that was taken then counts as begun, which the model does not
    /// know: these runs freeze nothing.
    has_lease: bool,
    /// Parts before this one are lost, by partition.
    lost: [usize; PARTITIONS],
    /// Parts before this one, and after the lost ones, are sought, by partition.
    sought: [usize; PARTITIONS],
    busy: [bool; WORKERS],
    ended: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Jitter::new(seed.wrapping_mul(0x9e37_79b9));
        let order = [Order::Key, Order::Partition, Order::None][(chance.next() % 3) as usize];
        let task_rows = [1, 1, 3][(chance.next() % 3) as usize];
        let is_transactional = chance.next().is_multiple_of(2);
        let limits = Limits { task_rows, rows: 40, bytes: 10_000, rows_at_once: 10 };
        Self {
            lanes: Lanes::new(order, limits, is_transactional),
            model: Model::new(order),
            chance,
            now: Duration::from_secs(1),
            is_transactional,
            has_lease: seed.is_multiple_of(4),
            lost: [0; PARTITIONS],
            sought: [0; PARTITIONS],
            busy: [false; WORKERS],
            ended: false,
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.chance.next() % limit as u64) as usize
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        match self.below(40) {
            0..4 => self.add(),
            4..16 => self.take(),
            16..26 => self.end_call(),
            26..30 => self.report(),
            30 if !self.has_lease => self.freeze(),
            31 => {
                self.lanes.thaw(&BTreeSet::new());
                self.model.thaw();
            }
            32 if self.below(2) == 0 => self.seek(),
            32 => self.lose(),
            33 if self.below(4) == 0 => {
                let at = self.below(PARTITIONS) as i32;
                self.lanes.abandon(&partition(at));
                self.model.abandon(|partition| partition == at);
            }
            34..38 => self.commit(),
            _ => {}
        }
        self.check();
    }

    fn add(&mut self) {
        if self.ended || self.lanes.room() == 0 {
            return;
        }
        let (at, rows) = (self.below(PARTITIONS), 1 + self.below(6));
        let keys: Vec<Option<String>> =
            (0..rows).map(|_| ["a", "b", "c"].get(self.below(4)).map(ToString::to_string)).collect();
        let payload = self.model.parts.len();
        let tasks =
            self.lanes.add(&partition(at as i32), payload, rows, 10, |row| keys[row].as_ref().map(String::as_bytes));
        assert!(tasks <= rows);
        let (rows, together) = (vec![Row::Waiting; rows], Vec::new());
        let part = Part {
            partition: at as i32,
            keys,
            rows,
            together,
            reported: 0,
            is_over: false,
            committed: 0,
            is_abandoned: false,
        };
        self.model.parts.push(part);
    }

    fn take(&mut self) {
        let worker = self.below(WORKERS);
        if self.busy[worker] {
            return;
        }
        let lease_holds = !self.has_lease || self.below(20) > 0;
        let (reading, partitions) = (self.reading(), self.partitions());
        let was_ready = self.lanes.is_ready_for(1, self.now);
        let took = self.lanes.take(worker, self.now, |part| match reading(part) {
            Reading::Lost | Reading::Sought => RowPermission::Never,
            Reading::Current if lease_holds => RowPermission::Now,
            Reading::Current => RowPermission::Later,
        });
        self.busy[worker] = took;
        assert!(!took || was_ready);
        if took {
            let (task, part) = self.lanes.task(worker).unwrap();
            let rows: Vec<usize> = task.rows().collect();
            assert_eq!(self.lanes.partition_of(worker).unwrap().partition, partitions[*part]);
            let part = *part;
            assert_eq!(reading(&part), Reading::Current, "a row is begun in spite of that");
            self.model.take(worker, part, &rows);
        }
    }

    fn end_call(&mut self) {
        let worker = self.below(WORKERS);
        if !self.busy[worker] {
            return;
        }
        self.busy[worker] = false;
        match self.below(10) {
            0 => {
                self.lanes.forget(worker);
                self.model.end(worker, Row::GivenUp);
            }
            1 | 2 => {
                let at = self.now + Duration::from_millis(self.chance.next() % 10);
                let is_tried = self.lanes.retry(worker, self.now, at);
                let running = self.model.running(worker);
                let (part, row) = running[0];
                let is_current = self.reading()(&part) == Reading::Current;
                self.model.end(worker, if is_tried && is_current { Row::Waiting } else { Row::GivenUp });
                let lane = self.model.lane(part, row);
                if !is_tried && lane.is_some() {
                    self.model.give_up(|model, part, row| model.lane(part, row) == lane);
                }
            }
            _ => {
                self.lanes.finish(worker);
                self.model.end(worker, if self.ended { Row::GivenUp } else { Row::Finished });
            }
        }
    }

    fn report(&mut self) {
        let reading = self.reading();
        let reports = match self.is_transactional {
            true => self.lanes.settled_rounds(reading),
            false => self.lanes.reports(),
        };
        self.model.reports(&reports, self.is_transactional);
        self.lanes.take_removed();
    }

    fn freeze(&mut self) {
        let at = self.below(PARTITIONS) as i32;
        self.lanes.freeze(&partition(at));
        // Of a partition without rows nothing is known.
        if self.model.parts.iter().any(|part| part.partition == at) {
            self.model.freeze(at);
        }
    }

    fn lose(&mut self) {
        let at = self.below(PARTITIONS);
        self.lost[at] = self.model.parts.len();
        self.model.give_up(|model, part, _| model.parts[part].partition == at as i32);
        self.model.abandon(|partition| partition == at as i32);
    }

    fn seek(&mut self) {
        let at = self.below(PARTITIONS);
        self.sought[at] = self.model.parts.len();
        self.model.give_up(|model, part, _| model.parts[part].partition == at as i32);
    }

    fn partitions(&self) -> Vec<i32> {
        self.model.parts.iter().map(|part| part.partition).collect()
    }

    fn reading(&self) -> impl Fn(&usize) -> Reading + use<> {
        let (lost, sought, partitions) = (self.lost, self.sought, self.partitions());
        move |part| match partitions[*part] as usize {
            at if *part < lost[at] => Reading::Lost,
            at if *part < sought[at] => Reading::Sought,
            _ => Reading::Current,
        }
    }

    fn commit(&mut self) {
        if !self.is_transactional {
            return;
        }
        let reading = self.reading();
        let mut positions = BTreeMap::new();
        for sought in self.lanes.sought_partitions(&reading) {
            if self.below(2) == 0 {
                let position = self.below(self.model.parts.len() * 10) as i64;
                positions.insert(sought, position);
            }
        }
        let round = self.lanes.round(false, &positions, &reading, |part, row| Some(offset(*part, row)));
        // Parts of another assignment, or given up before a seek, are none that this one has to be behind.
        for (at, part) in self.model.parts.iter_mut().enumerate() {
            if reading(&at) == Reading::Lost || (reading(&at) == Reading::Sought && part.is_over) {
                part.committed = part.rows.len();
            }
        }
        if self.below(3) > 0 {
            self.model.commit(&round);
            let reports = self.lanes.commit(&round);
            assert!(reports.iter().all(|report| !report.is_last));
        }
    }

    fn check(&mut self) {
        let running = self.model.count(|row| matches!(row, Row::Running(_)));
        assert_eq!(self.lanes.in_flight(), running);
        // Rows of lost partitions are given up once a worker comes to them.
        assert!(self.lanes.waiting() >= self.model.count(|row| row == Row::Waiting));
        assert!(self.lanes.room() <= 10);
    }

    fn end(&mut self) {
        match self.below(3) {
            0 => self.lanes.fail(),
            1 if !self.has_lease => {
                self.lanes.end_gracefully(self.now);
                (0..PARTITIONS).for_each(|at| self.model.freeze(at as i32));
            }
            _ => self.lanes.drop_all(),
        }
        for _ in 0..50 {
            self.take();
            self.end_call();
        }
        self.lanes.end();
        self.model.abandon(|_| true);
        self.model.give_up(|_, _, _| true);
        self.ended = true;
        assert_eq!(self.lanes.waiting(), 0);
        self.report();
        if self.is_transactional {
            let rest = self.lanes.rest();
            self.model.reports(&rest, true);
        }
        for worker in 0..WORKERS {
            self.lanes.finish(worker);
        }
        assert!(self.lanes.is_idle());
        let left = (self.lanes.part_count(), self.lanes.queued_bytes(), self.lanes.uncommitted());
        assert_eq!(left, (0, 0, 0));
        assert!(self.model.parts.iter().all(|part| part.is_over), "each part has a last report");
    }
}

#[test]
fn runs_drawn_from_seeds_keep_their_promises() {
    for seed in 0..2000 {
        let told = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            (0..400).for_each(|_| world.step());
            world.end();
        });
        assert!(told.is_ok(), "seed {seed}");
    }
}
