//! Which rows come out of what was acquired, and what becomes of the offsets that have none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int64Type};
use bytes::Bytes;
use monedula_columns::{BatchColumns, BufferPool, ColumnSet, WalkOptions};
use monedula_engine::TopicPartition;
use monedula_engine::share::AcknowledgeType::{Accept, Gap, Reject, Release};
use monedula_engine::share::{AcknowledgeType, AcknowledgedRange, Acquired, HeldPart, SessionId};
use monedula_protocol::compression::Compressor;
use monedula_protocol::records::{BatchEncoder, ControlRecordType, NewRecord};
use monedula_protocol::types::Uuid;
use tokio::sync::mpsc;

use super::buffer::{Demand, ShareBuffer};
use super::command::ShareCommand;
use super::fetched_rows::FetchedRows;
use super::undecided::Undecided;
use crate::config::ClientConfig;
use crate::consumer::BatchLimits;
use crate::error::ClientError;
use crate::fetch::polled::HandedBatch;
use crate::log::Log;
use crate::metrics::Metrics;

const LOCK: Duration = Duration::from_secs(30);
const SESSION: SessionId = SessionId { node: 1, generation: 0 };
const HOLDER: u64 = 7;

struct World {
    buffer: Arc<ShareBuffer>,
    commands: mpsc::UnboundedReceiver<ShareCommand>,
}

fn p(index: i32) -> TopicPartition {
    TopicPartition::new("t", index)
}

fn encoded(base_offset: i64, count: i64) -> Vec<u8> {
    let mut encoder = BatchEncoder::new().base_offset(base_offset);
    for offset in base_offset..base_offset + count {
        encoder.append(NewRecord { value: Some(offset.to_string().as_bytes()), ..NewRecord::default() });
    }
    written(&encoder)
}

fn written(encoder: &BatchEncoder) -> Vec<u8> {
    let mut bytes = Vec::new();
    encoder.encode(&mut Compressor::new(), &mut bytes).expect("encodes");
    bytes
}

fn range(first: i64, last: i64, kind: AcknowledgeType) -> AcknowledgedRange {
    AcknowledgedRange { first, last, kind }
}

impl World {
    fn new(settings: &[(&str, &str)], columns: ColumnSet, has_delivery_count: bool) -> Self {
        let given = [("bootstrap.servers", "localhost:1"), ("group.id", "g")];
        let config = ClientConfig::parse_share(given.into_iter().chain(settings.iter().copied())).expect("settings");
        let (sender, commands) = mpsc::unbounded_channel();
        let (columns, pool) = (BatchColumns::from(columns), BufferPool::new(1 << 20));
        let buffer = ShareBuffer::new(&config, columns, has_delivery_count, pool, Metrics::default(), sender);
        Self { buffer: Arc::new(buffer), commands }
    }

    fn plain() -> Self {
        Self::new(&[], ColumnSet::default(), false)
    }

    fn part(&self, partition: i32) -> HeldPart {
        HeldPart {
            session: SESSION,
            partition: p(partition),
            topic_id: Uuid::ZERO,
            runs: Vec::new(),
            gaps: Vec::new(),
            deadline: self.buffer.now() + LOCK,
            lock_timeout: LOCK,
        }
    }

    /// Records that were acquired: first and last offset, and the delivery count.
    fn push(&self, part: HeldPart, records: Vec<u8>, acquired: &[(i64, i64, i16)]) {
        let acquired =
            acquired.iter().map(|&(first, last, delivery_count)| Acquired { first, last, delivery_count }).collect();
        self.buffer.push(FetchedRows::new(part, Bytes::from(records), acquired, WalkOptions::default()));
    }

    fn next(&self, max_rows: usize) -> Result<Option<HandedBatch>, ClientError> {
        self.next_of(HOLDER, max_rows)
    }

    fn next_of(&self, holder: u64, max_rows: usize) -> Result<Option<HandedBatch>, ClientError> {
        let limits = BatchLimits { max_rows, max_bytes: 1 << 20, max_wait: Duration::ZERO, deadline: None };
        self.buffer.next(&limits, Instant::now(), holder)
    }

    fn rows(&self, max_rows: usize) -> Vec<i64> {
        self.next(max_rows).expect("no error").map(|batch| offsets(&batch)).unwrap_or_default()
    }

    /// What is to be sent since the last call.
    fn acknowledged(&mut self) -> Vec<AcknowledgedRange> {
        let mut ranges = Vec::new();
        while let Ok(command) = self.commands.try_recv() {
            if let ShareCommand::Acknowledge { acknowledgements, .. } = command {
                let sent = acknowledgements.into_iter().filter(|(_, error)| error.is_none());
                ranges.extend(sent.flat_map(|(acknowledgement, _)| acknowledgement.ranges));
            }
        }
        ranges
    }
}

fn offsets(batch: &HandedBatch) -> Vec<i64> {
    let column = batch.columns.record_batch.column_by_name("offset").expect("offsets");
    column.as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn only_acquired_offsets_become_rows_whatever_the_batches_hold() {
    let world = World::plain();
    world.push(world.part(0), [encoded(0, 10), encoded(10, 10)].concat(), &[(2, 4, 1), (9, 12, 1), (19, 19, 1)]);
    world.push(world.part(1), encoded(0, 3), &[(1, 1, 1)]);
    assert_eq!(world.rows(100), [2, 3, 4, 9, 10, 11, 12, 19, 1]);
    assert_eq!(world.buffer.state().held.find(&p(0), 12).map(|(_, row)| row), Some(6));
}

#[test]
fn delivery_counts_stand_beside_the_rows_and_offsets_only_if_they_are_read() {
    let world = World::new(&[], ColumnSet::VALUE, true);
    world.push(world.part(0), encoded(0, 10), &[(0, 1, 1), (2, 2, 3), (5, 6, 2)]);
    let batch = world.next(100).expect("no error").expect("rows");
    let batch = batch.columns.record_batch;
    assert_eq!(
        batch.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(),
        ["value", "deliveryCount"]
    );
    let counts = batch.column(1).as_primitive::<Int16Type>().values().to_vec();
    assert_eq!(counts, [1, 1, 3, 2, 2]);
    let empty = world.buffer.empty().record_batch;
    assert_eq!((empty.num_rows(), empty.schema()), (0, batch.schema()));
}

// They use up record locks otherwise.
#[test]
fn what_a_holder_leaves_undecided_is_released_when_it_ends() {
    let mut world = World::plain();
    world.push(world.part(0), encoded(0, 4), &[(0, 3, 1)]);
    assert_eq!(world.rows(100), [0, 1, 2, 3]);
    let log = Log::default();
    let undecided = Undecided::new(&world.buffer, HOLDER, log.clone());
    drop(Undecided::new(&world.buffer, HOLDER + 1, log.clone()));
    assert_eq!((world.acknowledged(), log.drain(true).events.len()), (vec![], 0), "another one has nothing");
    world.buffer.state().held.decide_undecided(1, 0..1, Accept);
    drop(undecided);
    assert_eq!(world.acknowledged(), [range(0, 0, Accept), range(1, 3, Release)]);
    let told: Vec<&str> = log.drain(true).events.iter().map(|event| event.kind.name).collect();
    assert_eq!(told, ["rows_unfinished"]);
}

#[test]
fn acquired_offsets_without_a_record_are_acknowledged_as_gaps() {
    let mut world = World::plain();
    let marker = BatchEncoder::new().base_offset(3).producer(1, 0, -1).control_marker(ControlRecordType::Commit, 0, 1);
    let records = [encoded(0, 3), written(&marker), encoded(6, 2)].concat();
    world.push(world.part(0), records, &[(0, 7, 1)]);
    assert_eq!(world.rows(100), [0, 1, 2, 6, 7]);
    assert_eq!(world.acknowledged(), [range(3, 5, Gap)], "they do not wait for what is decided of the rows");
    world.rows(100);
    assert_eq!(world.acknowledged(), [range(0, 2, Accept), range(6, 7, Accept)]);
    let marker = BatchEncoder::new().base_offset(8).producer(1, 0, -1).control_marker(ControlRecordType::Abort, 0, 1);
    world.push(world.part(0), written(&marker), &[(8, 8, 1)]);
    assert!(world.rows(100).is_empty());
    assert_eq!(world.acknowledged(), [range(8, 8, Gap)], "nobody will decide anything of it");
}

// A gap is archived: as such, records that the answer was too short for would be lost.
#[test]
fn acquired_offsets_of_which_the_answer_has_no_bytes_are_released() {
    let mut world = World::plain();
    let cut = encoded(3, 3);
    world.push(world.part(0), [encoded(0, 3), cut[..cut.len() / 2].to_vec()].concat(), &[(1, 5, 1)]);
    assert_eq!(world.rows(100), [1, 2]);
    assert_eq!(world.acknowledged(), [range(3, 5, Release)]);
    world.push(world.part(0), Vec::new(), &[(6, 7, 1)]);
    assert!(world.rows(100).is_empty());
    assert_eq!(world.acknowledged(), [range(1, 2, Accept), range(6, 7, Release)]);
}

#[test]
fn a_batch_that_is_full_leaves_the_rest_for_the_next() {
    let world = World::plain();
    world.push(world.part(0), encoded(0, 10), &[(0, 3, 1), (6, 9, 1)]);
    assert_eq!(world.rows(5), [0, 1, 2, 3, 6]);
    assert_eq!(world.rows(5), [7, 8, 9]);
}

#[test]
fn rows_whose_lock_is_over_are_never_handed_out() {
    let mut world = World::plain();
    let over = HeldPart { deadline: world.buffer.now(), ..world.part(0) };
    world.push(over, encoded(0, 3), &[(0, 2, 1)]);
    world.push(world.part(1), encoded(5, 1), &[(5, 5, 1)]);
    assert_eq!(world.rows(100), [5]);
    world.buffer.locks_lost(SESSION, Some(p(1)));
    world.push(world.part(1), encoded(6, 1), &[(6, 6, 1)]);
    world.push(world.part(2), encoded(7, 1), &[(7, 7, 1)]);
    world.buffer.locks_lost(SESSION, Some(p(1)));
    assert_eq!(world.rows(100), [7]);
    assert!(world.acknowledged().is_empty(), "the lock of what was in hand is gone, and so is the decision");
}

#[test]
fn a_damaged_batch_is_released_first_and_rejected_when_it_comes_again() {
    for (delivery_count, kind) in [(1, Release), (2, Reject)] {
        let mut world = World::plain();
        let mut damaged = encoded(3, 4);
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        let records = [encoded(0, 3), damaged, encoded(7, 2)].concat();
        world.push(world.part(0), records, &[(1, 8, delivery_count)]);
        assert_eq!(world.rows(100), [1, 2]);
        assert_eq!(world.acknowledged(), [range(3, 6, kind)]);
        let raised = world.next(100).expect_err("it is told");
        assert!(matches!(raised, ClientError::ShareDecode { is_rejected, .. } if is_rejected == (kind == Reject)));
        assert_eq!(world.rows(100), [7, 8], "what is behind it goes on");
    }
}

#[test]
fn what_nobody_asks_for_is_released_before_its_lock_ends() {
    let world = World::plain();
    world.push(world.part(0), encoded(0, 10), &[(0, 9, 1)]);
    assert_eq!(world.rows(4), [0, 1, 2, 3]);
    let due = world.buffer.due_at().expect("something is due");
    assert!(due <= world.buffer.now() + LOCK.mul_f64(0.6));
    let later = world.buffer.now() + LOCK.mul_f64(0.7);
    let call = world.buffer.wait();
    let (acknowledgements, renewals) = world.buffer.due(later);
    assert_eq!((acknowledgements.len(), renewals.len()), (0, 1), "a call waits");
    drop(call);
    let (acknowledgements, _) = world.buffer.due(later);
    assert_eq!(acknowledgements[0].0.ranges, [range(4, 9, Release)]);
    world.push(world.part(1), encoded(0, 1), &[(0, 0, 1)]);
    let (acknowledgements, _) = world.buffer.due(world.buffer.now() + LOCK);
    assert!(acknowledgements.is_empty(), "the process stood still, and others have it by now");
}

// A fetch that waited at the broker for a call that had its rows kept their acknowledgements waiting, for 500 ms.
#[test]
fn a_call_that_takes_what_is_there_wants_nothing_of_brokers() {
    let world = World::plain();
    world.push(world.part(0), encoded(0, 20_000), &[(0, 19_999, 1)]);
    let (buffer, has_rows) = (world.buffer.clone(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut seen = Vec::new();
            while !has_rows.load(Ordering::Relaxed) {
                seen.push(buffer.demand());
            }
            seen
        });
        let rows = world.next(20_000);
        has_rows.store(true, Ordering::Relaxed);
        assert!(rows.expect("no error").is_some());
        let seen = looking.join().expect("it ends");
        assert!(!seen.contains(&Demand::Records), "{} looks", seen.len());
    });
}

#[test]
fn records_are_fetched_ahead_once_for_a_user_who_keeps_pace() {
    let world = World::plain();
    assert_eq!(world.buffer.demand(), Demand::Nothing);
    let call = world.buffer.wait();
    assert_eq!(world.buffer.demand(), Demand::Records);
    drop(call);
    world.push(world.part(0), encoded(0, 3), &[(0, 2, 1)]);
    assert_eq!(world.rows(1), [0]);
    assert_eq!(world.buffer.demand(), Demand::Nothing, "how long the user takes is not known");
    assert_eq!(world.rows(1), [1]);
    assert_eq!(world.buffer.demand(), Demand::Nothing, "there is a row");
    assert_eq!(world.rows(1), [2]);
    assert_eq!(world.buffer.demand(), Demand::Ahead);
    world.buffer.fetched_ahead();
    assert_eq!(world.buffer.demand(), Demand::Nothing);
    let strict = World::new(&[("share.acquire.mode", "record_limit")], ColumnSet::default(), false);
    for offset in 0..3 {
        strict.push(strict.part(0), encoded(offset, 1), &[(offset, offset, 1)]);
        assert_eq!(strict.rows(1), [offset]);
    }
    assert_eq!(strict.buffer.demand(), Demand::Nothing);
}

// The time from one task's batch to the next call of another counted: 8 tasks that took a millisecond for each row were
// given 16,000 at once.
#[test]
fn fetches_grow_by_what_each_holder_takes_and_not_by_how_many_there_are() {
    let world = World::plain();
    world.push(world.part(0), encoded(0, 5000), &[(0, 4999, 1)]);
    for holder in 0..8 {
        assert!(world.next_of(holder, 500).expect("no error").is_some());
    }
    assert_eq!(world.buffer.max_records(), 500);
    assert!(world.next_of(7, 500).expect("no error").is_some());
    assert!(world.buffer.max_records() > 500, "it came back at once");
}
