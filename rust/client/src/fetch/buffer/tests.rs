//! Records that are dropped on the way are fetched again, whatever happens in between: nothing is lost, nothing comes
//! twice.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use monedula_engine::fetch::{Fetched, Start};
use monedula_protocol::compression::Compressor;
use monedula_protocol::records::{BatchEncoder, NewRecord};

use super::*;
use crate::budget::Budget;

/// Records of one answer.
const ANSWER_RECORDS: i64 = 5;
const LOG_END: i64 = 60;

pub(super) fn p(index: i32) -> TopicPartition {
    TopicPartition::new("t", index)
}

pub(super) fn want(max_rows: usize) -> BatchLimits {
    BatchLimits { max_rows, max_bytes: 1 << 20, max_wait: Duration::ZERO, deadline: None }
}

/// The driver's view of a partition.
#[derive(Clone, Debug, Default)]
struct Fetching {
    reading_id: u64,
    offset: i64,
    paused: bool,
    /// The request that is on its way.
    asked: Option<(u64, i64)>,
}

/// A buffer, and what stands for its driver: commands wait until it has time for them, and so do answers.
pub(super) struct World {
    pub(super) buffer: FetchBuffer,
    commands: mpsc::UnboundedReceiver<FetchCommand>,
    waiting: VecDeque<FetchCommand>,
    fetching: Vec<Fetching>,
    /// The next offset that is to be handed out, by partition.
    expected: Vec<i64>,
    /// The number of the loop with `until` that goes on, and the partitions whose bound it asked for.
    until: Option<(u64, Vec<TopicPartition>)>,
    bounds: BTreeMap<TopicPartition, i64>,
}

impl World {
    pub(super) fn new(partitions: usize) -> Self {
        let (sender, commands) = mpsc::unbounded_channel();
        let (pool, budget) = (BufferPool::new(1 << 20), Budget::new(1 << 20));
        let options = WalkOptions::default();
        let metrics = Metrics::default();
        let buffer =
            FetchBuffer::new(BatchColumns::default(), options, 0, pool, &budget, Log::of(None, None), metrics, sender);
        buffer.handed_out(|handed_out| handed_out.keep_ledger(None));
        let mut fetching = Vec::new();
        for index in 0..partitions {
            let reading_id = buffer.assignment().add(&p(index as i32), None);
            buffer.driver().positioned(&p(index as i32), reading_id, 0);
            fetching.push(Fetching { reading_id, ..Fetching::default() });
        }
        let (waiting, expected) = (VecDeque::new(), vec![0; partitions]);
        Self { buffer, commands, waiting, fetching, expected, until: None, bounds: BTreeMap::new() }
    }

    pub(super) fn reading_id(&self, index: usize) -> u64 {
        self.fetching[index].reading_id
    }

    fn ask(&mut self, index: usize) {
        let fetching = &mut self.fetching[index];
        if fetching.asked.is_none() && !fetching.paused && fetching.offset < LOG_END {
            fetching.asked = Some((fetching.reading_id, fetching.offset));
        }
    }

    /// Its answer comes: it counts only for what was asked, as in the machine.
    fn answer(&mut self, index: usize) {
        let fetching = &mut self.fetching[index];
        let Some((reading_id, offset)) = fetching.asked.take() else { return };
        if (reading_id, offset) != (fetching.reading_id, fetching.offset) {
            return;
        }
        // Brokers send the whole batch that the offset is in.
        let base = offset / ANSWER_RECORDS * ANSWER_RECORDS;
        fetching.offset = base + ANSWER_RECORDS;
        self.push(index, reading_id, base);
    }

    fn push(&self, index: usize, reading_id: u64, offset: i64) {
        self.push_frame(index, reading_id, Self::frame(offset));
    }

    /// Record batches of one answer.
    pub(super) fn frame(offset: i64) -> Vec<u8> {
        let mut encoder = BatchEncoder::new().base_offset(offset).partition_leader_epoch(0);
        for _ in 0..ANSWER_RECORDS {
            encoder.append(NewRecord { value: Some(b"v"), ..NewRecord::default() });
        }
        let mut records = Vec::new();
        encoder.encode(&mut Compressor::new(), &mut records).expect("encodes");
        records
    }

    pub(super) fn push_frame(&self, index: usize, reading_id: u64, frame: Vec<u8>) {
        let frame = Bytes::from(frame);
        let fetched = Fetched {
            partition: p(index as i32),
            reading_id,
            place: (0, 0),
            record_bytes: frame.len(),
            record_count: ANSWER_RECORDS as u64,
            next_offset: LOG_END,
            aborted: Vec::new(),
            high_watermark: LOG_END,
            last_stable_offset: LOG_END,
            log_start_offset: 0,
        };
        self.buffer.driver().push(&fetched, frame);
    }

    fn command(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.waiting.push_back(command);
        }
        match self.waiting.pop_front() {
            Some(FetchCommand::Seek { partition, reading_id, start: Start::Offset(offset, _) }) => {
                let fetching = &mut self.fetching[partition.partition as usize];
                (fetching.reading_id, fetching.offset) = (reading_id, offset);
                self.buffer.driver().positioned(&partition, reading_id, offset);
            }
            Some(FetchCommand::Pause { partition, paused }) => {
                self.fetching[partition.partition as usize].paused = paused;
            }
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }

    fn starve(&mut self) {
        for (partition, reading_id, offset) in self.buffer.driver().evict_held_back() {
            let fetching = &mut self.fetching[partition.partition as usize];
            if fetching.reading_id == reading_id {
                fetching.offset = offset;
            }
        }
    }

    /// Builds a batch; the lease, looked at before, may run out meanwhile.
    fn build(&mut self, rows: usize, lease: Lease) {
        self.buffer.group().set_lease(lease);
        let batch = self.buffer.build(&want(rows), 1);
        self.buffer.group().set_lease(Lease::Unlimited);
        let Some(batch) = batch else { return };
        let mut row = 0;
        for span in &batch.columns.spans {
            let expected = &mut self.expected[span.partition as usize];
            assert_eq!(batch.columns.offset_of(row), Some(*expected), "partition {}", span.partition);
            *expected += span.rows as i64;
            row += span.rows;
            if self.until.is_some() {
                let bound = self.bounds.get(&p(span.partition));
                assert!(bound.is_some_and(|&bound| *expected <= bound), "{expected} of {bound:?}");
            }
        }
    }

    fn begin_until(&mut self) {
        let number = self.buffer.assignment().begin_until();
        self.bounds.clear();
        self.until =
            Some((number, self.buffer.assignment().take_unbounded().map(|(_, asked)| asked).unwrap_or_default()));
    }

    /// The answer with the bounds comes; none is for what was handed out already.
    fn bound(&mut self, end: i64) {
        let Some((number, asked)) = &mut self.until else { return };
        for partition in std::mem::take(asked) {
            let end = end.max(self.expected[partition.partition as usize]);
            self.bounds.insert(partition.clone(), end);
            self.buffer.assignment().set_bounds(
                *number,
                std::slice::from_ref(&partition),
                BTreeMap::from([(partition.clone(), end)]),
            );
        }
    }

    fn end_until(&mut self) {
        if let Some((number, _)) = self.until.take() {
            self.buffer.assignment().end_until(number);
        }
    }

    fn read_to_the_end(&mut self) {
        self.end_until();
        for index in 0..self.fetching.len() {
            self.buffer.assignment().set_paused(&p(index as i32), false);
        }
        for _ in 0..1000 {
            self.command();
            for index in 0..self.fetching.len() {
                self.ask(index);
                self.answer(index);
            }
            self.build(7, Lease::Unlimited);
        }
        assert!(self.expected.iter().all(|&next| next == LOG_END), "{:?}", self.expected);
    }
}

#[test]
fn an_answer_that_is_under_way_while_a_batch_is_taken_back_does_not_hide_its_rows() {
    let mut world = World::new(1);
    world.ask(0);
    world.answer(0);
    world.ask(0);
    world.build(100, Lease::Expired);
    // The driver takes the answer before it hears that what was before it is to be fetched again.
    world.answer(0);
    world.build(100, Lease::Unlimited);
    world.read_to_the_end();
}

#[test]
fn what_is_taken_back_is_not_finished_by_whoever_holds_an_earlier_batch() {
    let mut world = World::new(1);
    world.ask(0);
    world.answer(0);
    world.build(3, Lease::Unlimited);
    world.build(100, Lease::Expired);
    world.buffer.enter(1);
    let finished = world.buffer.handed_out(|handed_out| handed_out.snapshot(None));
    assert_eq!(finished.values().map(|at| at.offset).collect::<Vec<_>>(), [3]);
    world.read_to_the_end();
    world.buffer.enter(1);
    let finished = world.buffer.handed_out(|handed_out| handed_out.snapshot(None));
    assert_eq!(finished.values().map(|at| at.offset).collect::<Vec<_>>(), [LOG_END]);
}

#[test]
fn no_order_of_answers_leases_pauses_loops_and_want_of_memory_loses_or_repeats_a_row() {
    for seed in 0..400_u64 {
        let mut world = World::new(3);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..80 {
            let index = draw(3) as usize;
            match draw(12) {
                0 | 1 => world.ask(index),
                2 | 3 => world.answer(index),
                4 => world.command(),
                5 => world.starve(),
                6 => drop(world.buffer.assignment().set_paused(&p(index as i32), draw(2) == 0)),
                7 => world.build(draw(8) as usize + 1, Lease::Expired),
                8 if draw(3) == 0 => world.begin_until(),
                9 => world.bound(draw(LOG_END as u64 + 1) as i64),
                10 if draw(3) == 0 => world.end_until(),
                _ => world.build(draw(8) as usize + 1, Lease::Unlimited),
            }
        }
        world.read_to_the_end();
    }
}

#[test]
fn a_loop_is_at_its_end_once_each_partition_is_read_up_to_its_bound() {
    let mut world = World::new(2);
    world.begin_until();
    assert!(!world.buffer.look(BufferState::is_until_reached), "no bound is known yet");
    world.bound(7);
    for _ in 0..8 {
        world.command();
    }
    for _ in 0..2 {
        for index in [0, 1] {
            world.ask(index);
            world.answer(index);
        }
        assert!(!world.buffer.look(BufferState::is_until_reached));
        world.build(100, Lease::Unlimited);
    }
    assert!(world.buffer.look(BufferState::is_until_reached));
    assert_eq!(world.expected, [7, 7]);
    world.read_to_the_end();
}

#[test]
fn a_part_counts_up_to_its_first_unfinished_row_and_its_gate_closes_with_a_seek_and_with_the_assignment() {
    let mut world = World::new(1);
    world.ask(0);
    world.answer(0);
    let batch = world.buffer.build(&want(100), 1).expect("rows");
    let parts = world
        .buffer
        .finishing(|handed_out, partitions| handed_out.hand_over(partitions, &batch, 1))
        .expect("not finished yet");
    let [part] = parts.as_slice() else { panic!("one run of rows") };
    let gate = world.buffer.look(|state| state.work_gate(part));
    assert_eq!(gate.ask(), RowPermission::Now);
    world.buffer.finishing(|handed_out, _| handed_out.finish_rows(part, 3));
    let finished = |world: &World| {
        world.buffer.handed_out(|handed_out| handed_out.snapshot(None)).values().map(|at| at.offset).collect::<Vec<_>>()
    };
    assert_eq!(finished(&world), [3]);
    world.buffer.group().set_lease(Lease::Expired);
    assert_eq!(gate.ask(), RowPermission::Later);
    world.buffer.group().set_lease(Lease::Unlimited);
    world.buffer.group().revoke(1, BTreeSet::from([p(0)]), false);
    assert_eq!(gate.ask(), RowPermission::Now, "what was begun may be finished");
    assert_eq!(world.buffer.group().take_finished_revocations().len(), 0);
    world.buffer.finishing(|handed_out, _| handed_out.abandon(part));
    assert_eq!(world.buffer.group().take_finished_revocations().len(), 1);
    assert!(!gate.was_sought());
    world.buffer.assignment().restart(&p(0)).expect("assigned");
    assert_eq!((gate.ask(), gate.was_sought()), (RowPermission::Never, true));
    world.buffer.assignment().remove(&p(0));
    assert_eq!((gate.ask(), gate.was_sought()), (RowPermission::Never, false));
    assert_eq!(world.buffer.look(|state| state.work_gate(part)).ask(), RowPermission::Never);
}

#[test]
fn memory_of_paused_partitions_is_given_back_once_nothing_else_is_ready_whenever_that_is() {
    let mut world = World::new(2);
    for index in [0, 1] {
        world.ask(index);
        world.answer(index);
    }
    world.buffer.assignment().set_paused(&p(0), true);
    world.buffer.driver().set_flush(true);
    world.starve();
    assert_eq!(world.buffer.status()[&p(0)].queued_records, 5, "the other has rows whose handing out frees memory");
    world.build(100, Lease::Unlimited);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let told =
        async { tokio::time::timeout(Duration::from_secs(60), world.buffer.driver().drained().notified()).await };
    runtime.block_on(told).expect("the driver is told");
    world.starve();
    assert_eq!(world.buffer.status()[&p(0)].queued_records, 0);
    assert_eq!(world.fetching[0].offset, 0);
    world.read_to_the_end();
}

#[test]
fn a_partition_that_is_paused_while_it_stands_in_the_queue_keeps_no_memory_back() {
    let mut world = World::new(2);
    for index in [0, 1] {
        world.ask(index);
        world.answer(index);
        world.buffer.assignment().set_paused(&p(index as i32), true);
    }
    world.starve();
    assert!(world.buffer.status().values().all(|status| status.queued_bytes == 0));
    world.read_to_the_end();
}

#[test]
fn a_cut_of_the_log_outlives_the_rows_before_it() {
    let mut world = World::new(1);
    world.ask(0);
    world.answer(0);
    world.buffer.assignment().set_paused(&p(0), true);
    // All but the first two records are gone; the position would be beyond the end.
    let reading_id = world.fetching[0].reading_id;
    world.build(100, Lease::Unlimited);
    world.buffer.driver().positioned(&p(0), reading_id, 2);
    world.push(0, reading_id, 2);
    let evicted = world.buffer.driver().evict_held_back();
    assert_eq!(evicted, [(p(0), reading_id, 0)], "what was not handed out begins before the cut");

    world.push(0, reading_id, 0);
    world.buffer.assignment().set_paused(&p(0), false);
    world.build(100, Lease::Unlimited);
    world.buffer.assignment().set_paused(&p(0), true);
    world.buffer.driver().positioned(&p(0), reading_id, 2);
    world.push(0, reading_id, 2);
    assert_eq!(world.buffer.driver().evict_held_back(), [(p(0), reading_id, 2)]);
}

#[test]
fn a_partition_that_stopped_holds_no_memory_of_what_came_after() {
    let world = World::new(1);
    let reading_id = world.fetching[0].reading_id;
    let error = ClientError::Argument("it cannot be read".into());
    world.buffer.driver().stopped(&p(0), reading_id, error);
    world.push(0, reading_id, 0);
    assert_eq!(world.buffer.status()[&p(0)].queued_bytes, 0);
}

#[test]
fn a_partition_whose_queued_error_is_dropped_is_to_be_fetched_again() {
    let mut world = World::new(1);
    world.ask(0);
    world.answer(0);
    let reading_id = world.fetching[0].reading_id;
    world.buffer.driver().stopped(&p(0), reading_id, ClientError::Argument("it cannot be read".into()));
    world.buffer.assignment().set_paused(&p(0), true);
    // Otherwise the driver takes it for stopped, and nobody is told of the error.
    assert_eq!(world.buffer.driver().evict_held_back(), [(p(0), reading_id, 0)]);
    assert!(world.buffer.status()[&p(0)].fault.is_none());
}
