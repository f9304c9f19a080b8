//! The header of a record batch: parsing, checks, changes, and the CRC.

use super::{BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC_V2, MIN_RECORD_BYTES, NO_TIMESTAMP, RecordsError};
use crate::compression::Compression;

pub(super) const COMPRESSION_MASK: i16 = 0b111;
pub(super) const LOG_APPEND_TIME: i16 = 1 << 3;
pub(super) const TRANSACTIONAL: i16 = 1 << 4;
pub(super) const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

/// The first byte of a batch that the CRC covers: the attributes.
pub(super) const CRC_START: usize = 21;

/// Length of the shortest message of formats 0 and 1, behind the length field: without key and value.
const MIN_LEGACY_LENGTHS: [usize; 2] = [14, 22];
/// The attributes of a message of formats 0 and 1: the codec, and in format 1 the type of its timestamp.
pub(super) const LEGACY_ATTRIBUTES: [i16; 2] = [COMPRESSION_MASK, COMPRESSION_MASK | LOG_APPEND_TIME];

/// Function that continues a CRC-32C, initially 0, over more bytes.
///
/// This crate uses the `crc32c` crate. Faster functions exist for certain processors, but need unsafe code.
pub type Crc32c = fn(u32, &[u8]) -> u32;

/// Type of a batch's timestamps, which says who set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// Messages of format 0 have no timestamps.
    NoTimestamp = -1,
    /// The producer sets each record's timestamp.
    CreateTime = 0,
    /// The broker sets the time at which it appended the batch: every record has the batch's maximal timestamp.
    LogAppendTime = 1,
}

impl TimestampType {
    /// Kafka's number of the type: 0 for create time, 1 for log append time, -1 for none.
    pub fn id(self) -> i32 {
        self as i32
    }
}

/// The header of a record batch, or of a message of format 0 or 1, which is a batch of its own.
///
/// Of such a message, the offset is the first and the last of the batch, and the record count is 1. Both are unknown if
/// it is compressed, before [`rewrite_legacy`](super::rewrite_legacy): it holds others, and the offset is the last one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record that the batch was written with; compaction may have removed that record.
    pub base_offset: i64,
    /// Number of bytes after the length field.
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch, -1 if unknown.
    pub partition_leader_epoch: i32,
    /// Message format.
    pub magic: i8,
    /// CRC-32C of the bytes from the attributes to the end.
    pub crc: u32,
    /// Codec, timestamp type and flags.
    pub attributes: i16,
    /// The last offset minus the base offset; compaction does not change it.
    pub last_offset_delta: i32,
    /// The timestamp to which the records' deltas are added, in milliseconds since the epoch.
    pub base_timestamp: i64,
    /// The largest timestamp of the records, or the log append time, in milliseconds since the epoch.
    pub max_timestamp: i64,
    /// The id of the idempotent producer, or -1.
    pub producer_id: i64,
    /// The producer's epoch, or -1.
    pub producer_epoch: i16,
    /// The producer's sequence number of the first record, or -1.
    pub base_sequence: i32,
    /// Number of records; 0 in a batch that compaction emptied.
    pub record_count: i32,
}

impl BatchHeader {
    /// Parses the header of a whole batch: `bytes` is the batch.
    pub(super) fn parse(bytes: &[u8], position: usize) -> Result<Self, RecordsError> {
        let Some(fixed) = bytes.first_chunk::<BATCH_HEADER_BYTES>() else {
            let batch_length = (bytes.len() - LOG_OVERHEAD_BYTES) as i32;
            let base_offset = i64::from_be_bytes(array(bytes, 0));
            return Err(RecordsError::BatchLength { base_offset, position, batch_length });
        };
        let header = Self {
            base_offset: i64::from_be_bytes(array(fixed, 0)),
            batch_length: i32::from_be_bytes(array(fixed, 8)),
            partition_leader_epoch: i32::from_be_bytes(array(fixed, 12)),
            magic: MAGIC_V2,
            crc: u32::from_be_bytes(array(fixed, 17)),
            attributes: i16::from_be_bytes(array(fixed, CRC_START)),
            last_offset_delta: i32::from_be_bytes(array(fixed, 23)),
            base_timestamp: i64::from_be_bytes(array(fixed, 27)),
            max_timestamp: i64::from_be_bytes(array(fixed, 35)),
            producer_id: i64::from_be_bytes(array(fixed, 43)),
            producer_epoch: i16::from_be_bytes(array(fixed, 51)),
            base_sequence: i32::from_be_bytes(array(fixed, 53)),
            record_count: i32::from_be_bytes(array(fixed, 57)),
        };
        header.check(position)?;
        Ok(header)
    }

    /// Parses the head of a whole message of format 0 or 1.
    pub(super) fn parse_legacy(message: &[u8], position: usize, magic: i8) -> Result<Self, RecordsError> {
        let base_offset = i64::from_be_bytes(array(message, 0));
        let batch_length = (message.len() - LOG_OVERHEAD_BYTES) as i32;
        let format = magic as usize;
        if message.len() < LOG_OVERHEAD_BYTES + MIN_LEGACY_LENGTHS[format] {
            return Err(RecordsError::BatchLength { base_offset, position, batch_length });
        }
        let timestamp = if magic == 0 { NO_TIMESTAMP } else { i64::from_be_bytes(array(message, 18)) };
        let header = Self {
            base_offset,
            batch_length,
            partition_leader_epoch: -1,
            magic,
            crc: u32::from_be_bytes(array(message, 12)),
            attributes: i16::from(message[17]) & LEGACY_ATTRIBUTES[format],
            last_offset_delta: 0,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: 1,
        };
        header.check(position)?;
        Ok(header)
    }

    fn check(&self, position: usize) -> Result<(), RecordsError> {
        let refuse = |field, value| Err(RecordsError::Header { base_offset: self.base_offset, position, field, value });
        if self.base_offset < 0 {
            return refuse("base offset", self.base_offset);
        }
        // The offset after the batch must be valid too, since a consumer's position is last offset + 1.
        let next_offset =
            i64::from(self.last_offset_delta).checked_add(self.base_offset).and_then(|last| last.checked_add(1));
        if self.last_offset_delta < 0 || next_offset.is_none() {
            return refuse("last offset delta", self.last_offset_delta.into());
        }
        let codec = Compression::from_id((self.attributes & COMPRESSION_MASK) as u8);
        // Zstandard came with Kafka 2.1, for format 2 only.
        if codec.is_none() || (self.is_legacy() && codec == Some(Compression::Zstd)) {
            return refuse("compression codec", (self.attributes & COMPRESSION_MASK).into());
        }
        if self.record_count < 0 || i64::from(self.record_count) > i64::from(self.last_offset_delta) + 1 {
            return refuse("record count", self.record_count.into());
        }
        if !self.is_legacy() && self.compression() == Compression::None && !self.count_fits(self.payload_bytes()) {
            return refuse("record count", self.record_count.into());
        }
        Ok(())
    }

    /// Returns true if an uncompressed payload of this length can hold as many records as the header counts. Check this
    /// before allocating anything for the records.
    pub fn count_fits(&self, payload_bytes: usize) -> bool {
        self.record_count as usize <= payload_bytes / MIN_RECORD_BYTES
    }

    /// Encoded header.
    pub fn to_bytes(&self) -> [u8; BATCH_HEADER_BYTES] {
        let mut bytes = [0; BATCH_HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &self.base_offset.to_be_bytes());
        put(8, &self.batch_length.to_be_bytes());
        put(12, &self.partition_leader_epoch.to_be_bytes());
        put(16, &self.magic.to_be_bytes());
        put(17, &self.crc.to_be_bytes());
        put(CRC_START, &self.attributes.to_be_bytes());
        put(23, &self.last_offset_delta.to_be_bytes());
        put(27, &self.base_timestamp.to_be_bytes());
        put(35, &self.max_timestamp.to_be_bytes());
        put(43, &self.producer_id.to_be_bytes());
        put(51, &self.producer_epoch.to_be_bytes());
        put(53, &self.base_sequence.to_be_bytes());
        put(57, &self.record_count.to_be_bytes());
        bytes
    }

    /// The CRC-32C of a batch with this header and these records. The header's own `crc` is not used.
    pub fn crc_over(&self, payload: &[u8]) -> u32 {
        self.crc_over_by(payload, crc32c::crc32c_append)
    }

    /// Same as [`Self::crc_over`], computed by this function.
    pub fn crc_over_by(&self, payload: &[u8], crc32c: Crc32c) -> u32 {
        crc32c(crc32c(0, &self.to_bytes()[CRC_START..]), payload)
    }

    /// Sets the timestamp type to log append time, and this time (milliseconds since the epoch) for all records.
    pub fn set_log_append_time(&mut self, append_time_ms: i64) {
        self.attributes |= LOG_APPEND_TIME;
        self.max_timestamp = append_time_ms;
    }

    /// Sets the delete horizon (KIP-534): the time until which tombstones are kept, in milliseconds since the epoch. It
    /// becomes the base timestamp, so the records' deltas must be relative to it.
    pub fn set_delete_horizon(&mut self, horizon_ms: i64) {
        self.attributes |= DELETE_HORIZON;
        self.base_timestamp = horizon_ms;
    }

    /// Sets the codec in the attributes.
    pub fn set_compression(&mut self, codec: Compression) {
        self.attributes = self.attributes & !COMPRESSION_MASK | i16::from(codec.id());
    }

    /// Compares the CRC-32C of a whole batch with the one in this header.
    ///
    /// # Errors
    /// [`RecordsError::Crc`] if they differ.
    pub fn verify_crc(&self, batch: &[u8]) -> Result<(), RecordsError> {
        self.verify_crc_by(batch, crc32c::crc32c_append)
    }

    /// Same as [`Self::verify_crc`], computed by this function.
    ///
    /// # Errors
    /// [`RecordsError::Crc`] if they differ.
    pub fn verify_crc_by(&self, batch: &[u8], crc32c: Crc32c) -> Result<(), RecordsError> {
        let computed = crc32c(0, crc_range(batch));
        if computed == self.crc {
            return Ok(());
        }
        Err(RecordsError::Crc {
            base_offset: self.base_offset,
            last_offset: self.last_offset(),
            stored: self.crc,
            computed,
        })
    }

    /// The codec of the payload.
    pub fn compression(&self) -> Compression {
        // Unknown codecs were refused by `check`.
        Compression::from_id((self.attributes & COMPRESSION_MASK) as u8).unwrap_or_default()
    }

    /// The type of the records' timestamps.
    pub fn timestamp_type(&self) -> TimestampType {
        if self.magic == 0 {
            return TimestampType::NoTimestamp;
        }
        if self.has_append_time() { TimestampType::LogAppendTime } else { TimestampType::CreateTime }
    }

    /// Returns true if every record has the batch's maximal timestamp, which the broker has set.
    pub fn has_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    /// Returns true if this is a message of format 0 or 1, written before Kafka 0.11.
    pub fn is_legacy(&self) -> bool {
        self.magic < MAGIC_V2
    }

    /// Returns true if this is a message that holds compressed ones: only the last of their offsets is known.
    pub fn is_legacy_set(&self) -> bool {
        self.is_legacy() && self.compression() != Compression::None
    }

    /// Returns true if the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// Returns true for a control batch, whose record applications never receive.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Returns true if the base timestamp is a delete horizon (KIP-534). The records' deltas are relative to it, as to
    /// any base timestamp.
    pub fn has_delete_horizon(&self) -> bool {
        self.attributes & DELETE_HORIZON != 0
    }

    /// Offset of the last record that the batch was written with.
    pub fn last_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    /// The offset after the batch.
    pub fn next_offset(&self) -> i64 {
        self.last_offset() + 1
    }

    /// Length of the batch with its header, in bytes.
    pub fn total_bytes(&self) -> usize {
        LOG_OVERHEAD_BYTES + self.batch_length as usize
    }

    /// Length of the records as stored, compressed or not, in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.total_bytes() - BATCH_HEADER_BYTES
    }
}

/// The CRC-32C of a whole batch, computed from its bytes.
pub fn crc_of(batch: &[u8]) -> u32 {
    crc32c::crc32c(crc_range(batch))
}

/// The bytes of a whole batch that its CRC covers.
fn crc_range(batch: &[u8]) -> &[u8] {
    batch.get(CRC_START..).unwrap_or_default()
}

pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}
