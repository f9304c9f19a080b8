//! The bound on memory: whatever brokers send, a reader takes at most its budget, 60 MB and the batch in hand.
//! Each case reads in a child process, whose peak resident set is checked; the broker runs in this process.

use std::ops::Range;
use std::process::{Command as Process, Stdio};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use monedula_broker::Options;
use monedula_broker::control::{Command, Data, Record};
use monedula_columns::{
    BadValue, BatchColumns, BufferPool, Bytes, ColumnSet, Decoded, Lookup, OnBadValue, RecordContext, TypedColumn,
    TypedSpec,
};
use monedula_engine::fetch::Start;

use crate::support::{Reader, TOPIC, World, partition};

const BUDGET_BYTES: u64 = 16 << 20;
const SLACK_BYTES: u64 = 60_000_000;

/// The environment variable with the child's parameters.
const CHILD: &str = "MONEDULA_TEST_MEMORY";

/// What is written, and how it is read.
#[derive(Clone, Copy)]
struct Case {
    codec: &'static str,
    partitions: i32,
    batches: usize,
    batch_records: usize,
    value_bytes: usize,
    decode_threads: usize,
    max_rows: usize,
    /// Number of times that a decoded value is as large as its bytes; 0 to read the bytes.
    growth: usize,
    /// Whether each partition is paused after its first rows, until all partitions are paused.
    pausing: bool,
}

/// Batches that decompress to a thousand times their size, but are too small for the check of the ratio.
const BOMBS: Case = Case {
    codec: "zstd",
    partitions: 1,
    batches: 24,
    batch_records: 1,
    value_bytes: 7 << 20,
    decode_threads: 2,
    max_rows: 1000,
    growth: 0,
    pausing: false,
};

/// A column of values that are larger than their bytes, as typed values may be.
struct Repeated {
    growth: usize,
    bytes: Bytes,
    pool: BufferPool,
}

impl TypedColumn for Repeated {
    fn data_type(&self) -> DataType {
        DataType::Binary
    }

    fn append(&mut self, value: Option<&[u8]>, _: RecordContext<'_>) -> Result<Decoded, Lookup<BadValue>> {
        assert!(self.bytes.push(&value.unwrap_or_default().repeat(self.growth)), "fits");
        Ok(Decoded::Whole)
    }

    fn rows(&self) -> usize {
        self.bytes.rows()
    }

    fn truncate(&mut self, rows: usize) {
        self.bytes.truncate(rows);
    }

    fn bytes(&self) -> usize {
        self.bytes.rows() * 4 + self.bytes.data_len()
    }

    fn finish(&mut self) -> (ArrayRef, usize) {
        let (array, memory_bytes) = self.bytes.finish(&self.pool);
        (Arc::new(array), memory_bytes)
    }

    fn extend(&mut self, array: &dyn Array, rows: Range<usize>) {
        self.bytes.extend(array.as_binary::<i32>(), rows);
    }
}

fn columns(growth: usize) -> BatchColumns {
    let make = move |pool: &BufferPool| -> Box<dyn TypedColumn> {
        Box::new(Repeated { growth, bytes: Bytes::new(pool), pool: pool.clone() })
    };
    let value = TypedSpec { make: Arc::new(make), on_bad: OnBadValue::Fail, flatten: false };
    BatchColumns { value: (growth > 0).then_some(value), ..ColumnSet::default().into() }
}

impl Case {
    fn rows(self) -> i64 {
        i64::from(self.partitions) * (self.batches * self.batch_records) as i64
    }

    fn batch_bytes(self) -> u64 {
        (self.batch_records * self.value_bytes * self.growth.max(1)) as u64
    }

    /// Writes the records, reads them in a child process, and checks its peak memory.
    fn run(self) {
        let topics = vec![format!("{TOPIC}:{}", self.partitions)];
        let world = World::of(Options { topics, ..Options::default() });
        let record = Record { value: Some(Data(vec![0; self.value_bytes])), ..Record::default() };
        for partition in 0..self.partitions {
            for _ in 0..self.batches {
                let records = vec![record.clone(); self.batch_records];
                let compression = Some(self.codec.to_owned());
                world.control(Command::Append { topic: TOPIC.into(), partition, records, compression });
            }
        }
        let pausing = usize::from(self.pausing);
        let numbers = [self.partitions as usize, self.decode_threads, self.max_rows, pausing, self.growth];
        let numbers = numbers.map(|number| number.to_string()).join(" ");
        let child = Process::new(std::env::current_exe().expect("a test program"))
            .args(["--exact", "memory::child", "--nocapture"])
            .env(CHILD, format!("{} {} {numbers}", world.servers(), self.rows()))
            .stderr(Stdio::inherit())
            .output();
        let output = String::from_utf8(child.expect("starts").stdout).expect("text");
        let peak = output.lines().find_map(|line| line.split("peak ").nth(1)).unwrap_or_else(|| panic!("{output}"));
        let peak_bytes: u64 = peak.trim().parse().expect("a number");
        let promised = BUDGET_BYTES + SLACK_BYTES + self.batch_bytes();
        assert!(peak_bytes <= promised, "{peak_bytes} bytes where {promised} are promised: {}", self.codec);
    }
}

/// Not a test itself: the body of the child process that the tests below start.
#[test]
fn child() {
    let Ok(case) = std::env::var(CHILD) else { return };
    let mut words = case.split(' ');
    let servers = words.next().expect("servers");
    let mut number = || words.next().and_then(|word| word.parse::<usize>().ok()).expect("a number");
    let (rows, partitions, threads, max_rows) = (number() as i64, number() as i32, number().to_string(), number());
    let (pausing, growth) = (number() == 1, number());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let budget = BUDGET_BYTES.to_string();
    let settings = [("queued.max.bytes", budget.as_str()), ("decode.threads", threads.as_str())];
    let from = (partitions, Start::Offset(0, -1));
    let mut reader = Reader::with_columns(servers, runtime.handle(), from, columns(growth), &settings);
    // Wait until everything that may be is fetched and decompressed ahead.
    let mut settled = (0, 0);
    crate::support::until("nothing moves any more", || {
        let (used, before) = (reader.consumer.health().budget.0, settled);
        settled = (used, if used == before.0 && used > 0 { before.1 + 1 } else { 0 });
        settled.1 == 100
    });
    if pausing {
        reader.read_until("each partition was begun", max_rows, |reader| {
            for index in reader.rows.keys() {
                reader.consumer.set_paused(&partition(*index), true).expect("pauses");
            }
            reader.rows.len() == partitions as usize
        });
        for index in 0..partitions {
            reader.consumer.set_paused(&partition(index), false).expect("resumes");
        }
    }
    reader.read_until("all is read", max_rows, |reader| reader.total() == rows);
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    println!("peak {}", kib * 1024);
}

#[test]
fn batches_that_grow_a_thousandfold_are_decompressed_ahead_only_as_far_as_the_budget_reaches() {
    for codec in ["zstd", "gzip", "lz4", "snappy"] {
        Case { codec, ..BOMBS }.run();
    }
    Case { decode_threads: 0, ..BOMBS }.run();
}

#[test]
fn of_many_partitions_only_one_is_in_the_middle_of_a_batch_that_the_reader_decompressed() {
    // Decompressed together they would take 100 MB, more than the bound.
    let many = Case { partitions: 200, batches: 2, batch_records: 5, value_bytes: 100 << 10, max_rows: 2, ..BOMBS };
    Case { decode_threads: 0, ..many }.run();
    many.run();
    Case { decode_threads: 0, pausing: true, ..many }.run();
}

#[test]
fn values_that_grow_are_decoded_ahead_only_as_far_as_the_budget_reaches() {
    let typed = Case { partitions: 4, batches: 40, batch_records: 50, value_bytes: 2_000, growth: 20, ..BOMBS };
    for codec in ["none", "lz4"] {
        for decode_threads in [0, 2] {
            Case { codec, decode_threads, ..typed }.run();
        }
    }
}
