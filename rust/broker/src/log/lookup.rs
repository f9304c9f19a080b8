//! Looks up offsets by timestamp, for ListOffsets.

use monedula_protocol::compression::Decompressor;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::records::{Record, Records, TimestampType};

use super::segment::Segment;
use super::{Batch, Log};

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogPosition {
    pub(crate) timestamp_ms: i64,
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
}

impl Log {
    /// The first record whose timestamp is not before the given one.
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR.
    pub(crate) fn first_at(&self, timestamp_ms: i64) -> Result<Option<LogPosition>, ErrorCode> {
        let segments = self.segments.iter().filter(|segment| segment.largest_timestamp_ms() >= timestamp_ms);
        for segment in segments {
            let headers = segment
                .headers()
                .filter(|header| header.max_timestamp >= timestamp_ms && header.last_offset() >= self.start_offset);
            for header in headers {
                let found = self.first_record(segment, header.base_offset, |record| {
                    record.offset >= self.start_offset && record.timestamp_ms >= timestamp_ms
                })?;
                // Compaction may have removed the batch's latest record.
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// The first record with the largest timestamp.
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR.
    pub(crate) fn largest_timestamp(&self) -> Result<Option<LogPosition>, ErrorCode> {
        let all = self.segments.iter().flat_map(|segment| segment.headers().map(move |header| (segment, header)));
        let all = all.filter(|(_, header)| header.max_timestamp >= 0 && header.last_offset() >= self.start_offset);
        // The first of equal ones counts, but `max_by_key` returns the last.
        let Some((segment, header)) = all.rev().max_by_key(|(_, header)| header.max_timestamp) else {
            return Ok(None);
        };
        let largest = header.max_timestamp;
        // With LogAppendTime all records of a batch have the same timestamp, and Kafka returns the last one.
        if header.timestamp_type() == TimestampType::LogAppendTime {
            let (offset, leader_epoch) = (header.last_offset(), header.partition_leader_epoch);
            return Ok(Some(LogPosition { timestamp_ms: largest, offset, leader_epoch }));
        }
        self.first_record(segment, header.base_offset, |record| record.timestamp_ms == largest)
    }

    /// The first record of a batch that satisfies the condition.
    fn first_record(
        &self,
        segment: &Segment,
        base_offset: i64,
        wanted: impl Fn(&Record<'_>) -> bool,
    ) -> Result<Option<LogPosition>, ErrorCode> {
        let batch = self.storage(segment.batch_at(base_offset).transpose())?;
        Ok(batch.and_then(|batch| {
            let payload = decompressed(&batch)?;
            let found = Records::new(&batch.header, &payload).flatten().find(wanted)?;
            let leader_epoch = batch.header.partition_leader_epoch;
            Some(LogPosition { timestamp_ms: found.timestamp_ms, offset: found.offset, leader_epoch })
        }))
    }
}

/// The decompressed records of a batch in a log. Its size was checked before it was appended.
pub(super) fn decompressed(batch: &Batch) -> Option<Vec<u8>> {
    Decompressor::new().decompress_to_vec(batch.header.compression(), &batch.payload, usize::MAX).ok()
}
