//! Record batches (magic 2, KIP-98): reading, checking and encoding; and messages of the formats before, for reading.
//!
//! [`Batches`] iterates the batches that a Fetch response carries for a partition, without reading payloads;
//! [`Records`] iterates the records of one uncompressed payload; [`BatchEncoder`] encodes a batch. [`rewrite_legacy`]
//! makes a batch of legacy messages. Nothing here decompresses, and reading allocates nothing.

mod batches;
mod control;
#[cfg(feature = "codecs")]
mod encode;
mod error;
mod header;
#[cfg(feature = "codecs")]
mod legacy_batch;
#[cfg(feature = "codecs")]
mod legacy_message;
mod record;
pub mod varint;

pub use batches::{Batches, RawBatch, Tail};
pub use control::{ControlRecordType, control_record};
#[cfg(feature = "codecs")]
pub use encode::{BatchEncoder, NewRecord};
pub use error::{RecordFault, RecordsError};
pub use header::{BatchHeader, Crc32c, TimestampType, crc_of};
#[cfg(feature = "codecs")]
pub use legacy_batch::rewrite_legacy;
#[cfg(feature = "codecs")]
pub use legacy_message::LegacyMessage;
pub use record::{Header, HeaderReader, Headers, RawRecord, Record, Records};

/// The message format since Kafka 0.11: the only one that Kafka 4 writes, and that this crate writes.
pub const MAGIC_V2: i8 = 2;
/// Length of a batch's header in bytes.
pub const BATCH_HEADER_BYTES: usize = 61;
/// Length of the base offset and the length field, which the length field does not count.
pub const LOG_OVERHEAD_BYTES: usize = 12;
/// Length of the shortest record: six one-byte varints and the attributes.
pub const MIN_RECORD_BYTES: usize = 7;
/// The value of a missing timestamp on the wire.
pub const NO_TIMESTAMP: i64 = -1;
