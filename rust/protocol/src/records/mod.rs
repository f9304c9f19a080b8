//! Record batches (magic 2, KIP-98): stepping, checking, walking and encoding.
//!
//! [`Batches`] steps over what a Fetch response carries for a partition without touching a payload;
//! [`Records`] walks one uncompressed payload; [`BatchEncoder`] writes. Nothing here decompresses by
//! itself, and nothing allocates while reading.

mod batches;
mod control;
#[cfg(feature = "codecs")]
mod encode;
mod error;
mod header;
mod record;
pub mod varint;

pub use batches::{Batches, RawBatch, Tail};
pub use control::{ControlRecordType, control_record};
#[cfg(feature = "codecs")]
pub use encode::{BatchEncoder, NewRecord};
pub use error::{RecordFault, RecordsError};
pub use header::{BatchHeader, TimestampType, crc_of};
pub use record::{Header, HeaderReader, Headers, RawRecord, Record, Records};

/// The only message format that Kafka 4 writes and that this crate reads.
pub const MAGIC_V2: i8 = 2;
/// Length of a batch before its records.
pub const BATCH_HEADER_BYTES: usize = 61;
/// The base offset and the length field, which the length does not count.
pub const LOG_OVERHEAD_BYTES: usize = 12;
/// The shortest record: six one-byte varints and the attributes.
pub const MIN_RECORD_BYTES: usize = 7;
/// What a missing timestamp is on the wire.
pub const NO_TIMESTAMP: i64 = -1;
