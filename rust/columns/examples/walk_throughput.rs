//! Measures nanoseconds per record from fetched bytes to Arrow columns, on one thread: CRC, decompression, walk.
//!
//! `cargo run --release -p monedula-columns --example walk_throughput [records] [rounds] [codec] [columns]`
//!
//! The records are those of the project's benchmarks: an 8-byte key and about 99 bytes of JSON.
//! Each figure is the best of the rounds, since other processes can only make a round slower. The walker is fed
//! fetches of 1 MiB and builds batches of 100,000 rows, which are dropped at once, as by a reader that
//! keeps up. By default all fetched bytes are 8 MiB, about what a consumer has just received and may
//! find in the last-level cache; with 1,000,000 records and more they come from memory.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use monedula_columns::{BatchBuilder, BufferPool, ColumnSet, PartitionWalker, Scratch, WalkOptions, Walked};
use monedula_columns::{inflate, segments};
use monedula_protocol::compression::{Compression, Compressor};
use monedula_protocol::records::{BatchEncoder, NewRecord};

const BATCH_BYTES: usize = 16 << 10;
const FETCH_BYTES: usize = 1 << 20;
const MAX_ROWS: usize = 100_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let records: i64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(75_000);
    let rounds: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(200);
    let only = arguments.next();
    let only_columns = arguments.next();
    let pool = BufferPool::new(256 << 20);
    println!("{:>8} {:>44} {:>10} {:>12}", "codec", "columns", "ns/record", "M records/s");
    for codec in Compression::ALL {
        if only.as_deref().is_some_and(|name| name != codec.name()) {
            continue;
        }
        let fetches = generate(records, codec);
        for (label, columns) in projections(codec) {
            if only_columns.as_deref().is_some_and(|name| name != label) {
                continue;
            }
            let mut builder = BatchBuilder::new(columns, pool.clone(), MAX_ROWS, 64 << 20);
            report(codec, &label, records, rounds, || walk(&fetches, &mut builder));
        }
        if codec != Compression::None && only_columns.is_none() {
            let mut builder = BatchBuilder::new(ColumnSet::default(), pool.clone(), MAX_ROWS, 64 << 20);
            let label = "default, inflated ahead";
            report(codec, label, records, rounds, || walk_inflated(&fetches, &mut builder, &pool));
        }
    }
}

fn projections(codec: Compression) -> Vec<(String, ColumnSet)> {
    let default = ColumnSet::default();
    let mut projections = vec![("default".to_owned(), default)];
    if codec == Compression::None {
        projections.push(("all (with headers)".to_owned(), ColumnSet::ALL));
        let pairs = [ColumnSet::VALUE, ColumnSet::KEY.with(ColumnSet::VALUE), ColumnSet::OFFSET];
        projections.extend(pairs.map(|set| (set.names().collect::<Vec<_>>().join(", "), set)));
    }
    projections
}

fn report(codec: Compression, label: &str, records: i64, rounds: usize, mut run: impl FnMut() -> i64) {
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        assert_eq!(run(), records);
        best = best.min(start.elapsed().as_secs_f64());
    }
    let nanos = best * 1e9 / records as f64;
    println!("{:>8} {label:>44} {nanos:>10.1} {:>12.1}", codec.name(), 1e3 / nanos);
}

fn walk(fetches: &[Bytes], builder: &mut BatchBuilder) -> i64 {
    let mut walker = PartitionWalker::new(Arc::from("benchmark"), 0, 0, WalkOptions::default());
    let mut scratch = Scratch::new();
    for fetch in fetches {
        walker.feed(fetch.clone(), vec![]);
        drain(&mut walker, builder, &mut scratch);
    }
    drop(builder.finish());
    walker.position()
}

fn walk_inflated(fetches: &[Bytes], builder: &mut BatchBuilder, pool: &BufferPool) -> i64 {
    let options = WalkOptions::default();
    let mut walker = PartitionWalker::new(Arc::from("benchmark"), 0, 0, options);
    let mut scratch = Scratch::new();
    for segment in fetches.iter().flat_map(|fetch| segments(fetch, 64 << 10)) {
        walker.feed_inflated(inflate(&segment, &options, pool, &mut scratch, &mut |bytes| bytes), vec![]);
        drain(&mut walker, builder, &mut scratch);
    }
    drop(builder.finish());
    walker.position()
}

fn drain(walker: &mut PartitionWalker, builder: &mut BatchBuilder, scratch: &mut Scratch) {
    while walker.walk(builder, scratch).expect("sound batches") == Walked::Full {
        drop(builder.finish());
    }
}

fn generate(records: i64, codec: Compression) -> Vec<Bytes> {
    let mut compressor = Compressor::new();
    let (mut fetches, mut fetch) = (Vec::new(), Vec::new());
    let mut encoder = BatchEncoder::new().compression(codec, None);
    let mut batch_bytes = 0;
    for offset in 0..records {
        let (key, value) = (format!("{offset:08}"), json(offset));
        encoder.append(NewRecord {
            timestamp_ms: 1_700_000_000_000 + offset / 50,
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            headers: &[],
        });
        batch_bytes += key.len() + value.len();
        if batch_bytes >= BATCH_BYTES || offset + 1 == records {
            encoder.encode(&mut compressor, &mut fetch).expect("encodes");
            encoder = BatchEncoder::new().compression(codec, None).base_offset(offset + 1);
            batch_bytes = 0;
        }
        if fetch.len() >= FETCH_BYTES || offset + 1 == records {
            fetches.push(Bytes::from(std::mem::take(&mut fetch)));
        }
    }
    fetches
}

fn json(offset: i64) -> String {
    let noise = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64) as u64;
    format!(
        "{{\"id\":{offset:08},\"user\":\"user-{:05}\",\"amount\":{:06}.{:02},\"city\":\"{}\",\"session\":\"{:016x}\"}}",
        noise >> 47,
        noise >> 20 & 0xfffff,
        noise % 100,
        ["Praha", "Brno", "Ostrava", "Plzen"][(noise >> 8 & 3) as usize],
        noise.rotate_left(17)
    )
}
