//! Turns Kafka record batches into Arrow columns.
//!
//! A [`PartitionWalker`] takes the bytes that Fetch responses carried for one partition and appends
//! their records to a [`BatchBuilder`]. The builder finishes a [`ColumnBatch`]: an Arrow
//! `RecordBatch` with Spark's Kafka schema, and the [`OffsetSpan`]s of offsets that its rows cover.
//! [`segments`] and [`inflate`] decompress ahead of the walk, and a [`SegmentDecoder`] decodes typed keys and values, on
//! other threads.
//!
//! No record costs an allocation or a reference count: bytes are copied from the payload to the
//! column in one pass while the batch is in the CPU cache. Column memory comes from a [`BufferPool`]
//! and returns to it when the last Arrow reader drops it. This crate does no I/O and knows no consumer group.
//!
//! `unsafe` is used in `memory` and `pool` (allocation, memory handed to Arrow), `write`, `rows`, `typed_rows`,
//! `filtered_rows`, `records` and `payload` (copies into reserved room), `parse` (reads within a checked window), `finish`, `constant`
//! and `texts` (arrays over buffers that this crate filled, texts that were checked), and `crc32c` (instructions that
//! not every processor has).

mod aborted;
mod awaited;
mod batch;
mod builder;
mod bytes_test;
mod constant;
mod crc32c;
mod decoded;
mod error;
mod filter;
mod filtered_rows;
mod finish;
mod headers;
mod inflate;
mod legacy;
mod lookup;
mod memory;
mod parse;
mod payload;
mod pool;
mod records;
mod rows;
mod schema;
mod segment_decoder;
mod select;
mod texts;
mod typed;
mod typed_rows;
mod walker;
mod write;

pub use aborted::AbortedTransaction;
pub use awaited::Awaited;
pub use batch::{ColumnBatch, OffsetSpan};
pub use builder::BatchBuilder;
pub use bytes_test::{BytesTest, Operator};
pub use crc32c::crc32c;
pub use error::{WalkError, WalkErrorKind};
pub use filter::{Intervals, RecordFilter};
pub use inflate::{Inflated, inflate, segments};
pub use lookup::Lookup;
pub use memory::{OutOfMemory, check_spare, is_refusable, refusable};
pub use payload::{NoRoom, PayloadWriter};
pub use pool::{BufferPool, PoolGauge, PooledVec};
pub use schema::{ColumnSet, ColumnSetError};
pub use segment_decoder::SegmentDecoder;
pub use texts::{Bytes, Offsets, Texts, text_of};
pub use typed::{
    BadValue, BatchColumns, Cause, Decoded, FlattenError, MakeTyped, OnBadValue, RecordContext, RefusedRows,
    TypedColumn, TypedSpec,
};
pub use walker::{PartitionWalker, Scratch, WalkOptions, Walked};
pub use write::{Growing, Validity};
