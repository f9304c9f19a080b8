//! Builders of batches, and a readable form of the rows that a walk produces.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use bytes::Bytes;
use monedula_columns::{
    AbortedTransaction, BatchBuilder, BufferPool, ColumnBatch, ColumnSet, PartitionWalker, Scratch, WalkOptions, Walked,
};
use monedula_protocol::compression::{Compression, Compressor};
use monedula_protocol::records::{BatchEncoder, Batches, Header, NewRecord};

/// A header of a row: the key as the column shows it (lossy UTF-8), and the value.
pub(crate) type RowHeader = (String, Option<Vec<u8>>);

/// One row of the default columns and headers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Row {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) timestamp_us: i64,
    pub(crate) timestamp_type: i32,
    pub(crate) headers: Option<Vec<RowHeader>>,
}

/// Substitutes LZ4 for zstd under Miri, which cannot run C.
pub(crate) const ZSTD: Compression = if cfg!(miri) { Compression::Lz4 } else { Compression::Zstd };

/// All codecs, or only those that Miri can run: zstd is C, and zlib-rs frees its state while a reference to it is in
/// use.
pub(crate) fn codecs() -> Vec<Compression> {
    let refused = [Compression::Zstd, Compression::Gzip];
    Compression::ALL.into_iter().filter(|codec| !cfg!(miri) || !refused.contains(codec)).collect()
}

pub(crate) fn encode(encoder: &BatchEncoder) -> Vec<u8> {
    let mut bytes = Vec::new();
    encoder.encode(&mut Compressor::new(), &mut bytes).expect("encodes");
    bytes
}

/// The batch with log append time as its timestamp type.
pub(crate) fn with_append_time(batch: &[u8], append_time_ms: i64) -> Vec<u8> {
    let batch = Batches::new(batch).next().expect("a batch").expect("sound");
    let mut header = batch.header;
    header.set_log_append_time(append_time_ms);
    header.crc = header.crc_over(batch.payload());
    [&header.to_bytes()[..], batch.payload()].concat()
}

/// A batch of `count` records `k<offset>` / `value-<offset>` from `base_offset` on.
pub(crate) fn plain_batch(base_offset: i64, count: usize, codec: Compression) -> Vec<u8> {
    let mut encoder = BatchEncoder::new().base_offset(base_offset).compression(codec, None).partition_leader_epoch(7);
    for index in 0..count as i64 {
        append_plain(&mut encoder, base_offset + index);
    }
    encode(&encoder)
}

pub(crate) fn append_plain(encoder: &mut BatchEncoder, offset: i64) {
    let (key, value) = (format!("k{offset}"), format!("value-{offset}"));
    encoder.append(NewRecord {
        timestamp_ms: 1_700_000_000_000 + offset,
        key: Some(key.as_bytes()),
        value: Some(value.as_bytes()),
        headers: &[],
    });
}

pub(crate) fn transactional_batch(base_offset: i64, count: usize, producer_id: i64) -> Vec<u8> {
    let mut encoder = BatchEncoder::new().base_offset(base_offset).producer(producer_id, 0, 0).transactional();
    for index in 0..count as i64 {
        append_plain(&mut encoder, base_offset + index);
    }
    encode(&encoder)
}

pub(crate) fn header<'a>(key: &'a [u8], value: Option<&'a [u8]>) -> Header<'a> {
    Header { key, value }
}

pub(crate) fn walker(start_offset: i64, options: WalkOptions) -> PartitionWalker {
    PartitionWalker::new(Arc::from("orders"), 3, start_offset, options)
}

pub(crate) fn builder(columns: ColumnSet) -> BatchBuilder {
    BatchBuilder::new(columns, BufferPool::new(1 << 20), 100_000, 64 << 20)
}

/// Walks everything into one batch of all columns.
pub(crate) fn walk_all(
    data: Vec<u8>,
    start_offset: i64,
    options: WalkOptions,
    aborted: Vec<AbortedTransaction>,
) -> (ColumnBatch, i64) {
    let mut walker = walker(start_offset, options);
    let mut builder = builder(ColumnSet::ALL);
    walker.feed(Bytes::from(data), aborted);
    assert_eq!(walker.walk(&mut builder, &mut Scratch::new()), Ok(Walked::Drained));
    (builder.finish(), walker.position())
}

pub(crate) fn offsets(batch: &ColumnBatch) -> Vec<i64> {
    let column = batch.record_batch.column_by_name("offset").expect("offset column");
    column.as_primitive::<Int64Type>().values().to_vec()
}

/// The rows of a batch of all columns, after Arrow's own full validation.
pub(crate) fn rows(batch: &RecordBatch) -> Vec<Row> {
    for column in batch.columns() {
        column.to_data().validate_full().expect("valid Arrow data");
        assert_eq!(column.len(), batch.num_rows());
    }
    (0..batch.num_rows()).map(|row| read_row(batch, row)).collect()
}

fn read_row(batch: &RecordBatch, row: usize) -> Row {
    let binary = |name: &str| {
        let column = batch.column_by_name(name).expect(name).as_binary::<i32>();
        column.is_valid(row).then(|| column.value(row).to_vec())
    };
    let int = |name: &str| batch.column_by_name(name).expect(name).as_primitive::<Int32Type>().value(row);
    let long = |name: &str| batch.column_by_name(name).expect(name).as_primitive::<Int64Type>().value(row);
    let timestamps = batch.column_by_name("timestamp").expect("timestamp").as_primitive::<TimestampMicrosecondType>();
    let headers = batch.column_by_name("headers").expect("headers").as_list::<i32>();
    Row {
        key: binary("key"),
        value: binary("value"),
        topic: batch.column_by_name("topic").expect("topic").as_string::<i32>().value(row).to_owned(),
        partition: int("partition"),
        offset: long("offset"),
        timestamp_us: timestamps.value(row),
        timestamp_type: int("timestampType"),
        headers: headers.is_valid(row).then(|| read_headers(headers.value(row).as_ref())),
    }
}

fn read_headers(entries: &dyn Array) -> Vec<RowHeader> {
    let entries = entries.as_struct();
    let keys = entries.column(0).as_string::<i32>();
    let values = entries.column(1).as_binary::<i32>();
    (0..entries.len())
        .map(|index| (keys.value(index).to_owned(), values.is_valid(index).then(|| values.value(index).to_vec())))
        .collect()
}
