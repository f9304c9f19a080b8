//! Record batches into Arrow columns.
//!
//! A [`PartitionWalker`] takes the bytes that Fetch responses carried for one partition and appends
//! their records to a [`BatchBuilder`], which closes into a [`ColumnBatch`]: an Arrow
//! `RecordBatch` of Spark's Kafka schema, and the [`Span`]s of offsets that its rows came from.
//! [`segments`] and [`inflate`] do the decompression ahead of the walk, on other threads.
//!
//! No record is allocated for, none is reference-counted: bytes go from the payload to the column
//! in one pass while the batch is in the cache. Column memory comes from a [`BufferPool`] and goes
//! back there when the last Arrow reader drops it. Nothing here opens a socket or knows a group.
//!
//! `unsafe` lives in four places: the pool (memory handed to Arrow), `write` and `payload` (copies into room that
//! was checked) and `finish` (arrays over buffers that this crate filled).

mod aborted;
mod batch;
mod builder;
mod constant;
mod error;
mod finish;
mod headers;
mod inflate;
mod memory;
mod parse;
mod payload;
mod pool;
mod records;
mod rows;
mod schema;
mod walker;
mod write;

pub use aborted::AbortedTransaction;
pub use batch::{ColumnBatch, Span};
pub use builder::BatchBuilder;
pub use error::{WalkError, WalkErrorKind};
pub use inflate::{Inflated, inflate, segments};
pub use memory::OutOfMemory;
pub use payload::{NoRoom, PayloadWriter};
pub use pool::{BufferPool, PoolGauge, PooledVec};
pub use schema::{ColumnSet, ColumnSetError};
pub use walker::{PartitionWalker, Scratch, WalkOptions, Walked};
