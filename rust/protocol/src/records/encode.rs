//! Encodes a record batch, record by record.

use super::header::{CONTROL, CRC_START, TRANSACTIONAL};
use super::{ControlRecordType, Header, LOG_OVERHEAD_BYTES, MAGIC_V2, NO_TIMESTAMP, varint};
use crate::compression::{Compression, CompressionError, Compressor};

/// A record to encode.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewRecord<'a> {
    /// The timestamp, in milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// The key; `None` for null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` for null (a tombstone in a compacted topic).
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: &'a [Header<'a>],
}

/// An encoder of one record batch of magic 2.
///
/// ```
/// use monedula_protocol::compression::{Compression, Compressor};
/// use monedula_protocol::records::{BatchEncoder, NewRecord};
///
/// let mut encoder = BatchEncoder::new().compression(Compression::Lz4, None);
/// encoder.append(NewRecord { value: Some(b"jackdaw"), ..NewRecord::default() });
/// let mut bytes = Vec::new();
/// encoder.encode(&mut Compressor::new(), &mut bytes)?;
/// # Ok::<(), monedula_protocol::compression::CompressionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct BatchEncoder {
    base_offset: i64,
    partition_leader_epoch: i32,
    codec: Compression,
    level: Option<i32>,
    flags: i16,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    next_delta: i32,
    last_offset_delta: i32,
    record_count: i32,
    records: Vec<u8>,
    body: Vec<u8>,
}

impl Default for BatchEncoder {
    fn default() -> Self {
        Self {
            base_offset: 0,
            partition_leader_epoch: -1,
            codec: Compression::None,
            level: None,
            flags: 0,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            next_delta: 0,
            last_offset_delta: 0,
            record_count: 0,
            records: Vec::new(),
            body: Vec::new(),
        }
    }
}

impl BatchEncoder {
    /// An empty batch at offset 0, uncompressed, with create time and no producer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the offset of the first record.
    pub fn base_offset(mut self, offset: i64) -> Self {
        self.base_offset = offset;
        self
    }

    /// Sets the epoch of the leader that appends the batch.
    pub fn partition_leader_epoch(mut self, epoch: i32) -> Self {
        self.partition_leader_epoch = epoch;
        self
    }

    /// Sets the codec and its level; see [`Compressor::compress`] for the levels.
    pub fn compression(mut self, codec: Compression, level: Option<i32>) -> Self {
        self.codec = codec;
        self.level = level;
        self
    }

    /// Sets the idempotent producer's id and epoch, and the sequence number of the first record.
    pub fn producer(mut self, producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Self {
        self.producer_id = producer_id;
        self.producer_epoch = producer_epoch;
        self.base_sequence = base_sequence;
        self
    }

    /// Marks the batch as part of a transaction.
    pub fn transactional(mut self) -> Self {
        self.flags |= TRANSACTIONAL;
        self
    }

    /// Makes the batch a control batch with the marker that ends a producer's transaction.
    pub fn control_marker(mut self, marker: ControlRecordType, coordinator_epoch: i32, timestamp_ms: i64) -> Self {
        self.flags |= CONTROL | TRANSACTIONAL;
        let mut key = 0i16.to_be_bytes().to_vec();
        key.extend(marker.id().to_be_bytes());
        let mut value = 0i16.to_be_bytes().to_vec();
        value.extend(coordinator_epoch.to_be_bytes());
        self.append(NewRecord { timestamp_ms, key: Some(&key), value: Some(&value), headers: &[] });
        self
    }

    /// Raises the last offset delta beyond the last record, as in a batch whose last records were compacted away.
    pub fn last_offset_delta(mut self, delta: i32) -> Self {
        self.last_offset_delta = self.last_offset_delta.max(delta);
        self
    }

    /// Raises the maximal timestamp beyond the records' own, as in a batch whose latest record was compacted away.
    pub fn max_timestamp(mut self, timestamp_ms: i64) -> Self {
        self.max_timestamp = self.max_timestamp.max(timestamp_ms);
        self
    }

    /// Appends a record at the next offset.
    pub fn append(&mut self, record: NewRecord<'_>) {
        self.append_at(self.next_delta, record);
    }

    /// Appends a record at this offset delta, which may leave a gap as compaction does.
    pub fn append_at(&mut self, offset_delta: i32, record: NewRecord<'_>) {
        if self.record_count == 0 {
            self.base_timestamp = record.timestamp_ms;
        }
        self.max_timestamp = self.max_timestamp.max(record.timestamp_ms);
        self.next_delta = offset_delta + 1;
        self.last_offset_delta = self.last_offset_delta.max(offset_delta);
        self.record_count += 1;
        self.body.clear();
        self.body.push(0);
        varint::write_i64(&mut self.body, record.timestamp_ms.wrapping_sub(self.base_timestamp));
        varint::write_i32(&mut self.body, offset_delta);
        write_nullable(&mut self.body, record.key);
        write_nullable(&mut self.body, record.value);
        varint::write_i32(&mut self.body, record.headers.len() as i32);
        for header in record.headers {
            write_nullable(&mut self.body, Some(header.key));
            write_nullable(&mut self.body, header.value);
        }
        varint::write_i32(&mut self.records, self.body.len() as i32);
        self.records.extend_from_slice(&self.body);
    }

    /// Number of records appended.
    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    /// Appends the batch to `output`. The encoder keeps its records and can be encoded again.
    ///
    /// # Errors
    /// Errors of [`Compressor::compress`].
    pub fn encode(&self, compressor: &mut Compressor, output: &mut Vec<u8>) -> Result<(), CompressionError> {
        let start = output.len();
        self.write_header(output);
        compressor.compress(self.codec, self.level, &self.records, output)?;
        let batch_length = (output.len() - start - LOG_OVERHEAD_BYTES) as i32;
        output[start + 8..start + 12].copy_from_slice(&batch_length.to_be_bytes());
        let crc = crc32c::crc32c(&output[start + CRC_START..]);
        output[start + 17..start + 21].copy_from_slice(&crc.to_be_bytes());
        Ok(())
    }

    fn write_header(&self, output: &mut Vec<u8>) {
        let attributes = i16::from(self.codec.id()) | self.flags;
        output.extend(self.base_offset.to_be_bytes());
        output.extend([0; 4]);
        output.extend(self.partition_leader_epoch.to_be_bytes());
        output.push(MAGIC_V2 as u8);
        output.extend([0; 4]);
        output.extend(attributes.to_be_bytes());
        output.extend(self.last_offset_delta.to_be_bytes());
        output.extend(self.base_timestamp.to_be_bytes());
        output.extend(self.max_timestamp.to_be_bytes());
        output.extend(self.producer_id.to_be_bytes());
        output.extend(self.producer_epoch.to_be_bytes());
        output.extend(self.base_sequence.to_be_bytes());
        output.extend(self.record_count.to_be_bytes());
    }
}

fn write_nullable(output: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        None => varint::write_i32(output, -1),
        Some(bytes) => {
            varint::write_i32(output, bytes.len() as i32);
            output.extend_from_slice(bytes);
        }
    }
}
