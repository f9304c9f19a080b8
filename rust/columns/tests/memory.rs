//! Column memory: it returns to the pool, is recycled, and stays within the pool's limit.

mod common;

use bytes::Bytes;
use common::{plain_batch, walker};
use monedula_columns::{BatchBuilder, BufferPool, ColumnBatch, ColumnSet, PooledVec, Scratch, WalkOptions};
use monedula_protocol::compression::Compression;

/// Enough rows that buffers grow and move; fewer under Miri, which is a thousand times slower.
const ROWS: usize = if cfg!(miri) { 300 } else { 10_000 };

fn batch(pool: &BufferPool, rows: usize) -> ColumnBatch {
    let mut builder = BatchBuilder::new(ColumnSet::ALL, pool.clone(), 1 << 20, 64 << 20);
    let mut walker = walker(0, WalkOptions::default());
    walker.feed(Bytes::from(plain_batch(0, rows, Compression::None)), vec![]);
    walker.walk(&mut builder, &mut Scratch::new()).expect("sound batch");
    builder.finish()
}

#[test]
fn a_dropped_batch_gives_its_memory_back_to_the_pool() {
    let pool = BufferPool::new(64 << 20);
    let batch = batch(&pool, ROWS);
    let outstanding = pool.outstanding_bytes();
    assert!(batch.memory_bytes > ROWS * 30 && outstanding >= batch.memory_bytes, "{outstanding}");
    let column = batch.record_batch.column(1).clone();
    drop(batch);
    let held = pool.outstanding_bytes();
    assert!(held > 0 && held < outstanding, "the value column is still held");
    std::thread::spawn(move || drop(column)).join().unwrap();
    assert_eq!(pool.outstanding_bytes(), 0);
    assert!(pool.idle_bytes() >= ROWS * 30);
}

#[test]
fn returned_memory_is_taken_again() {
    let pool = BufferPool::new(64 << 20);
    drop(batch(&pool, ROWS));
    let idle = pool.idle_bytes();
    for _ in 0..if cfg!(miri) { 2 } else { 20 } {
        drop(batch(&pool, ROWS));
        assert_eq!(pool.idle_bytes(), idle);
    }
}

#[test]
fn a_closed_pool_frees_what_is_returned() {
    let pool = BufferPool::new(64 << 20);
    let gauge = pool.gauge();
    let kept = batch(&pool, ROWS);
    let idle = pool.take(1 << 20);
    drop(idle);
    assert!(gauge.idle_bytes() >= 1 << 20);
    drop(pool);
    assert_eq!(gauge.idle_bytes(), 0);
    assert!(gauge.outstanding_bytes() > 0);
    assert_eq!(kept.record_batch.num_rows(), ROWS);
    drop(kept);
    assert_eq!((gauge.outstanding_bytes(), gauge.idle_bytes()), (0, 0));
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no madvise")]
fn idle_memory_stays_below_its_cap() {
    let pool = BufferPool::new(1 << 20);
    let buffers: Vec<PooledVec> = (0..64).map(|index| pool.take(4096 * (index + 1))).collect();
    drop(buffers);
    assert!(pool.idle_bytes() <= 1 << 20 && pool.idle_bytes() > 1 << 19, "{}", pool.idle_bytes());
    drop(pool.take(2 << 20));
    assert!(pool.idle_bytes() <= 1 << 20);
}

#[test]
fn what_is_out_leaves_less_room_for_what_is_idle() {
    let pool = BufferPool::new(1 << 20);
    drop(pool.take(600 << 10));
    assert!(pool.idle_bytes() > 0);
    let out = pool.take(700 << 10);
    assert_eq!(pool.idle_bytes(), 0);
    drop(out);
    assert!(pool.idle_bytes() >= 700 << 10);
}

#[test]
fn a_small_batch_holds_little_after_a_large_one() {
    let large = if cfg!(miri) { 2 * ROWS } else { 10 * ROWS };
    let pool = BufferPool::new(64 << 20);
    let mut builder = BatchBuilder::new(ColumnSet::default(), pool.clone(), 1 << 20, 64 << 20);
    let mut walker = walker(0, WalkOptions::default());
    let mut scratch = Scratch::new();
    walker.feed(Bytes::from(plain_batch(0, large, Compression::None)), vec![]);
    walker.walk(&mut builder, &mut scratch).unwrap();
    drop(builder.finish());
    walker.feed(Bytes::from(plain_batch(large as i64, 1, Compression::None)), vec![]);
    walker.walk(&mut builder, &mut scratch).unwrap();
    let small = builder.finish();
    assert_eq!(small.record_batch.num_rows(), 1);
    assert!(small.memory_bytes < 4096, "{}", small.memory_bytes);
}

#[test]
fn network_frames_come_from_the_same_pool() {
    let pool = BufferPool::new(1 << 20);
    let mut frame = pool.take(100_000);
    bytes::BufMut::put_slice(&mut frame, b"jackdaw");
    let bytes = frame.into_bytes();
    let slice = bytes.slice(0..4);
    drop(bytes);
    assert_eq!(&slice[..], b"jack");
    assert!(pool.outstanding_bytes() >= 100_000);
    drop(slice);
    assert_eq!(pool.outstanding_bytes(), 0);
    assert!(pool.idle_bytes() >= 100_000);
}
