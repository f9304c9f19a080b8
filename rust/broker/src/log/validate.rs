//! Validates a client's record batch before it is appended: the checks of Kafka, in its order, with its errors and
//! messages.

use bytes::Bytes;
use monedula_protocol::compression::{Compression, CompressionError, Compressor, Decompressor};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::records::{
    BATCH_HEADER_BYTES, BatchHeader, Batches, HeaderReader, LOG_OVERHEAD_BYTES, RawRecord, RecordsError, TimestampType,
};

use super::Batch;
use crate::settings::MAX_DECOMPRESSED_BATCH_BYTES;

/// The number of invalid records that Kafka's error message lists.
const SHOWN_ERRORS: usize = 3;

/// The buffer of a larger batch is not kept for the next one.
const KEPT_BYTES: usize = 16 << 20;

/// The rules for the batches of a topic.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) max_message_bytes: usize,
    pub(crate) max_decompressed_batch_bytes: usize,
    pub(crate) segment_bytes: u64,
    /// True if the topic is compacted, so that every record needs a key.
    pub(crate) compacted: bool,
    pub(crate) timestamp_type: TimestampType,
    pub(crate) timestamp_before_max_ms: i64,
    pub(crate) timestamp_after_max_ms: i64,
    /// The codec of batches in the log; `None` keeps the producer's.
    pub(crate) compression: Option<Compression>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) error: ErrorCode,
    /// The error message for the client (KIP-467).
    pub(crate) message: Option<String>,
    /// The invalid records: index in the batch, and message.
    pub(crate) records: Vec<(i32, String)>,
}

impl From<ErrorCode> for Refusal {
    fn from(error: ErrorCode) -> Self {
        Self { error, message: None, records: Vec::new() }
    }
}

/// Validates and converts batches. It keeps its buffers between calls.
#[derive(Default)]
pub(crate) struct Validator {
    decompressor: Decompressor,
    compressor: Compressor,
    payload: Vec<u8>,
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validator").finish_non_exhaustive()
    }
}

/// The checks that do not need the log: the bytes of a partition must be exactly one whole batch of magic 2. As in
/// Kafka, an incomplete batch behind it is ignored.
///
/// # Errors
/// INVALID_RECORD, CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE.
pub(crate) fn single_batch(bytes: &Bytes, produce_version: i16) -> Result<Batch, Refusal> {
    let mut batches = Batches::new(bytes);
    let batch = match batches.next() {
        None => return Err(ErrorCode::InvalidRecord.into()),
        Some(Err(error)) => return Err(unreadable(bytes, &error)),
        Some(Ok(batch)) => batch,
    };
    match batches.next() {
        None => {}
        Some(Err(error @ (RecordsError::BatchLength { .. } | RecordsError::UnsupportedMagic { .. }))) => {
            return Err(unreadable(&bytes[batches.position()..], &error));
        }
        Some(_) => return Err(ErrorCode::InvalidRecord.into()),
    }
    if produce_version < 7 && batch.header.compression() == Compression::Zstd {
        return Err(ErrorCode::UnsupportedCompressionType.into());
    }
    Ok(Batch { header: batch.header, payload: bytes.slice_ref(batch.payload()) })
}

/// The error for a batch with an invalid header.
fn unreadable(bytes: &[u8], error: &RecordsError) -> Refusal {
    let code = match error {
        RecordsError::UnsupportedMagic { magic: 0 | 1, .. } => ErrorCode::InvalidRecord,
        RecordsError::Header { field: "base offset", .. } => ErrorCode::InvalidRecord,
        // The CRC is checked before the values of the fields.
        RecordsError::Header { field, .. } if crc_matches(bytes) => match *field {
            "compression codec" => ErrorCode::UnsupportedCompressionType,
            _ => ErrorCode::InvalidRecord,
        },
        _ => ErrorCode::CorruptMessage,
    };
    match error {
        RecordsError::UnsupportedMagic { magic, .. } if code == ErrorCode::CorruptMessage => {
            Refusal { message: Some(format!("Invalid magic found in record: {magic}")), ..code.into() }
        }
        _ => code.into(),
    }
}

fn crc_matches(bytes: &[u8]) -> bool {
    let length = bytes.get(8..12).and_then(|length| length.try_into().ok()).map(i32::from_be_bytes);
    let length = length.and_then(|length| usize::try_from(length).ok()).map(|length| length + LOG_OVERHEAD_BYTES);
    let batch = length.and_then(|length| bytes.get(..length));
    let stored = bytes.get(17..21).and_then(|stored| stored.try_into().ok()).map(u32::from_be_bytes);
    batch.zip(stored).is_some_and(|(batch, stored)| monedula_protocol::records::crc_of(batch) == stored)
}

impl Validator {
    /// Validates a client's batch, and converts it to what the log stores: with the timestamps and the compression of
    /// the topic.
    ///
    /// # Errors
    /// MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, RECORD_LIST_TOO_LARGE.
    pub(crate) fn check(
        &mut self,
        batch: Batch,
        rules: &Rules,
        now_ms: i64,
        topic_partition: (&str, i32),
    ) -> Result<Batch, Refusal> {
        let checked = self.checked(batch, rules, now_ms, topic_partition);
        if self.payload.capacity() > KEPT_BYTES {
            self.payload = Vec::new();
        }
        checked
    }

    fn checked(
        &mut self,
        mut batch: Batch,
        rules: &Rules,
        now_ms: i64,
        topic_partition: (&str, i32),
    ) -> Result<Batch, Refusal> {
        check_header(&batch, rules)?;
        let header = batch.header;
        let payload = match header.compression() {
            Compression::None => &batch.payload[..],
            codec => {
                let length = self
                    .decompressor
                    .decompress(codec, &batch.payload, &mut self.payload, 0, rules.max_decompressed_batch_bytes)
                    .map_err(|error| not_decompressed(&error))?;
                &self.payload[..length]
            }
        };
        let largest_timestamp_ms = check_records(&header, payload, rules, now_ms, topic_partition)?;
        let recompressed = match rules.compression {
            Some(codec) if codec != header.compression() => {
                let mut output = Vec::new();
                self.compressor
                    .compress(codec, None, payload, &mut output)
                    .map_err(|_| ErrorCode::UnknownServerError)?;
                batch.header.set_compression(codec);
                batch.header.batch_length = (BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES + output.len()) as i32;
                batch.payload = output.into();
                true
            }
            _ => false,
        };
        match rules.timestamp_type {
            TimestampType::LogAppendTime => batch.header.set_log_append_time(now_ms),
            TimestampType::CreateTime | TimestampType::NoTimestamp => batch.header.max_timestamp = largest_timestamp_ms,
        }
        if recompressed || batch.header != header {
            batch.header.crc = batch.header.crc_over(&batch.payload);
        }
        if recompressed && batch.total_bytes() > rules.max_message_bytes {
            return Err(ErrorCode::MessageTooLarge.into());
        }
        if batch.total_bytes() as u64 > rules.segment_bytes {
            return Err(ErrorCode::RecordListTooLarge.into());
        }
        Ok(batch)
    }
}

fn not_decompressed(error: &CompressionError) -> Refusal {
    match error {
        CompressionError::OutputLimit { .. } => {
            // CORRUPT_MESSAGE would have the same batch sent again.
            let message = format!("{error}; raise this broker's {MAX_DECOMPRESSED_BATCH_BYTES}");
            Refusal { message: Some(message), ..ErrorCode::InvalidRecord.into() }
        }
        // The batch is sound, and may be sent again.
        CompressionError::NoMemory { .. } => ErrorCode::KafkaStorageError.into(),
        _ => ErrorCode::CorruptMessage.into(),
    }
}

fn check_header(batch: &Batch, rules: &Rules) -> Result<(), ErrorCode> {
    let header = &batch.header;
    if header.base_offset != 0 {
        return Err(ErrorCode::InvalidRecord);
    }
    if batch.total_bytes() > rules.max_message_bytes {
        return Err(ErrorCode::MessageTooLarge);
    }
    if header.crc_over(&batch.payload) != header.crc {
        return Err(ErrorCode::CorruptMessage);
    }
    // Clients must not leave gaps between offsets, write control batches, or send a producer id without sequence
    // numbers.
    let counted = header.record_count > 0 && header.record_count == header.last_offset_delta + 1;
    let numbered = header.producer_id < 0 || header.base_sequence >= 0;
    if !counted || header.is_control() || !numbered {
        return Err(ErrorCode::InvalidRecord);
    }
    Ok(())
}

/// Validates all records. Returns the largest timestamp.
fn check_records(
    header: &BatchHeader,
    payload: &[u8],
    rules: &Rules,
    now_ms: i64,
    (topic, partition): (&str, i32),
) -> Result<i64, Refusal> {
    let mut position = 0;
    let mut largest_timestamp_ms = -1;
    let mut invalid = InvalidRecords::default();
    for index in 0..header.record_count {
        let (record, next) = RawRecord::parse(payload, position).map_err(|_| ErrorCode::InvalidRecord)?;
        let mut headers = HeaderReader::new(record.headers).map_err(|_| ErrorCode::InvalidRecord)?;
        while headers.read().map_err(|_| ErrorCode::InvalidRecord)?.is_some() {}
        if record.offset_delta != index {
            return Err(ErrorCode::InvalidRecord.into());
        }
        let timestamp_ms = record.timestamp_ms(header);
        if rules.compacted && record.key.is_none() {
            let problem =
                format!("Compacted topic cannot accept message without key in topic partition {topic}-{partition}");
            invalid.add(index, ErrorCode::InvalidRecord, problem);
        } else if let Some(problem) = wrong_timestamp(header, timestamp_ms, index, rules, now_ms) {
            invalid.add(index, ErrorCode::InvalidTimestamp, problem);
        }
        largest_timestamp_ms = largest_timestamp_ms.max(timestamp_ms);
        position = next;
    }
    if position != payload.len() {
        return Err(ErrorCode::InvalidRecord.into());
    }
    invalid.finish()?;
    Ok(largest_timestamp_ms)
}

fn wrong_timestamp(header: &BatchHeader, timestamp_ms: i64, index: i32, rules: &Rules, now_ms: i64) -> Option<String> {
    if rules.timestamp_type == TimestampType::CreateTime && timestamp_ms != -1 {
        let (before, after) = (rules.timestamp_before_max_ms, rules.timestamp_after_max_ms);
        let behind_ms = now_ms.saturating_sub(timestamp_ms);
        if behind_ms > before || behind_ms.saturating_neg() > after {
            return Some(format!(
                "Timestamp {timestamp_ms} of message with offset {index} is out of range. The timestamp should be within [{}, {}]",
                now_ms.wrapping_sub(before),
                now_ms.wrapping_add(after)
            ));
        }
    } else if header.timestamp_type() == TimestampType::LogAppendTime {
        return Some(format!(
            "Invalid timestamp type in message at offset {index}. Producer should not set timestamp type to LogAppendTime."
        ));
    }
    None
}

/// Collects the invalid records of a batch.
#[derive(Default)]
struct InvalidRecords {
    records: Vec<(i32, String)>,
    by_timestamp: bool,
}

impl InvalidRecords {
    fn add(&mut self, index: i32, error: ErrorCode, problem: String) {
        self.by_timestamp |= error == ErrorCode::InvalidTimestamp;
        self.records.push((index, problem));
    }

    fn finish(self) -> Result<(), Refusal> {
        let Self { records, by_timestamp } = self;
        if records.is_empty() {
            return Ok(());
        }
        if by_timestamp {
            let message = "One or more records have been rejected due to invalid timestamp".to_owned();
            return Err(Refusal { error: ErrorCode::InvalidTimestamp, message: Some(message), records });
        }
        let shown: Vec<String> = records
            .iter()
            .take(SHOWN_ERRORS)
            .map(|(index, problem)| format!("RecordError(batchIndex={index}, message='{problem}')"))
            .collect();
        let message = format!(
            "One or more records have been rejected due to {} record errors in total, and only showing the first three errors at most: [{}]",
            records.len(),
            shown.join(", ")
        );
        Err(Refusal { error: ErrorCode::InvalidRecord, message: Some(message), records })
    }
}
