//! A reader with one thread that counts the rows handed out to it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use monedula_broker::Options;
use monedula_broker::control::{Command, Data, Record};
use monedula_client::config::ClientConfig;
use monedula_client::consumer::{BatchLimits, Consumer};
use monedula_columns::{BatchColumns, ColumnSet};
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use tokio::runtime::Handle;

use crate::cluster::beside;
pub(crate) use crate::cluster::{PATIENCE, World};

/// The topic of the tests.
pub(crate) const TOPIC: &str = "orders";

/// The longest wait of one call; between calls a test checks its deadline.
const SLICE: Duration = Duration::from_millis(20);

/// A cluster of `nodes` nodes, each the leader of `partitions_of_each` partitions of the topic.
pub(crate) fn cluster(nodes: u16, partitions_of_each: u16) -> World {
    with_clock(nodes, partitions_of_each, false)
}

/// Like [`cluster`], but its clock stands still: a fetch without new records is never answered,
/// whatever its `max_wait_ms`.
pub(crate) fn standing_still(nodes: u16, partitions_of_each: u16) -> World {
    with_clock(nodes, partitions_of_each, true)
}

fn with_clock(nodes: u16, partitions_of_each: u16, manual_clock: bool) -> World {
    let topics = vec![format!("{TOPIC}:{}", nodes * partitions_of_each)];
    World::of(Options { nodes, topics, manual_clock, ..Options::default() })
}

pub(crate) fn partition(index: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, index)
}

/// Random bytes, which no codec can compress.
pub(crate) fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ seed;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
    noise.take(bytes).collect()
}

/// Appends one batch of records with incompressible values.
pub(crate) fn append_batch(world: &World, partition: i32, records: usize, value_bytes: usize) {
    let value = Some(Data(noise(partition as u64, value_bytes)));
    let records = vec![Record { value, ..Record::default() }; records];
    world.control(Command::Append { topic: TOPIC.into(), partition, records, compression: None });
}

pub(crate) struct Reader {
    pub(crate) consumer: Consumer,
    /// How many rows were handed out, by partition. [`Self::poll`] checks that each partition's
    /// rows are in order without gaps.
    pub(crate) rows: BTreeMap<i32, i64>,
}

impl Reader {
    /// Reads `partitions` partitions from their start, with these settings.
    pub(crate) fn of(world: &World, partitions: i32, settings: &[(&str, &str)]) -> Self {
        Self::at(&world.servers(), world.runtime.handle(), partitions, settings)
    }

    /// The same, each partition from this position.
    pub(crate) fn starting(world: &World, partitions: i32, start: Start, settings: &[(&str, &str)]) -> Self {
        Self::at_from(&world.servers(), world.runtime.handle(), (partitions, start), settings)
    }

    /// The same as [`Self::of`] for a cluster that may be in another process.
    pub(crate) fn at(servers: &str, runtime: &Handle, partitions: i32, settings: &[(&str, &str)]) -> Self {
        Self::at_from(servers, runtime, (partitions, Start::Offset(0, -1)), settings)
    }

    fn at_from(servers: &str, runtime: &Handle, from: (i32, Start), settings: &[(&str, &str)]) -> Self {
        Self::with_columns(servers, runtime, from, ColumnSet::default().into(), settings)
    }

    /// The same with these columns.
    pub(crate) fn with_columns(
        servers: &str,
        runtime: &Handle,
        (partitions, start): (i32, Start),
        columns: BatchColumns,
        settings: &[(&str, &str)],
    ) -> Self {
        let all = beside(&[("bootstrap.servers", servers), ("retry.backoff.ms", "10")], settings);
        let config = ClientConfig::parse(all).expect("settings");
        let consumer = Consumer::new(config, columns, runtime, 7);
        let assignment = (0..partitions).map(|index| (partition(index), start, None));
        consumer.assign(assignment.collect()).expect("assigns");
        Self { consumer, rows: BTreeMap::new() }
    }

    /// Makes one call; true if it returned a batch.
    pub(crate) fn poll(&mut self, max_rows: usize) -> bool {
        let want = BatchLimits { max_rows, max_bytes: 16 << 20, max_wait: Duration::ZERO, deadline: None };
        let Some(batch) = self.consumer.next_batch(&want, Instant::now() + SLICE).expect("reads") else { return false };
        let mut row = 0;
        for span in &batch.spans {
            let read = self.rows.entry(span.partition).or_default();
            assert_eq!(batch.offset_of(row), Some(*read), "partition {}", span.partition);
            *read += span.rows as i64;
            assert_eq!(batch.offset_of(row + span.rows - 1), Some(*read - 1), "partition {}", span.partition);
            row += span.rows;
        }
        true
    }

    /// Reads until the condition is true.
    pub(crate) fn read_until(&mut self, what: &str, max_rows: usize, mut is_so: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(
                Instant::now() < deadline,
                "never: {what}; read {:?}; {:?}",
                self.rows,
                self.consumer.health().budget
            );
            self.poll(max_rows);
        }
    }

    pub(crate) fn total(&self) -> i64 {
        self.rows.values().sum()
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        let all = self.consumer.metrics().snapshot();
        all.into_iter().find(|(known, _)| *known == name).map(|(_, count)| count).expect("a counter")
    }
}

/// Waits until the condition is true.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
