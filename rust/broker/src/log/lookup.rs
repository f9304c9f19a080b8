//! Offsets by time.

use monedula_protocol::compression::{Decompressor, Limits};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::records::{Record, Records, TimestampType};

use super::{Batch, Log};

/// A record that was looked for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) timestamp_ms: i64,
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
}

impl Log {
    /// The first record whose timestamp is not before a time.
    pub(crate) fn first_at(&self, timestamp_ms: i64) -> Result<Option<Found>, ErrorCode> {
        let segments = self.segments.iter().filter(|segment| segment.largest_timestamp_ms() >= timestamp_ms);
        let batches = segments.flat_map(|segment| segment.batches());
        let mut batches = batches.filter(|batch| {
            batch.header.max_timestamp >= timestamp_ms && batch.header.last_offset() >= self.start_offset
        });
        Ok(batches.find_map(|batch| {
            first_record(batch, |record| record.offset >= self.start_offset && record.timestamp_ms >= timestamp_ms)
        }))
    }

    /// The first record with the largest timestamp.
    pub(crate) fn largest_timestamp(&self) -> Result<Option<Found>, ErrorCode> {
        let batches = self.batches().filter(|batch| batch.header.max_timestamp >= 0);
        // Of equal ones the first counts; `max_by_key` takes the last.
        let Some(batch) = batches.rev().max_by_key(|batch| batch.header.max_timestamp) else { return Ok(None) };
        let largest = batch.header.max_timestamp;
        // Under log append time all records have it, and Kafka names the last one.
        if batch.header.timestamp_type() == TimestampType::LogAppendTime {
            let offset = batch.header.last_offset();
            let leader_epoch = batch.header.partition_leader_epoch;
            return Ok(Some(Found { timestamp_ms: largest, offset, leader_epoch }));
        }
        Ok(first_record(batch, |record| record.timestamp_ms == largest))
    }
}

/// The first record of a batch that is wanted.
fn first_record(batch: &Batch, wanted: impl Fn(&Record<'_>) -> bool) -> Option<Found> {
    // Every batch was decompressed under this limit when it came.
    let payload =
        Decompressor::new().decompress_to_vec(batch.header.compression(), &batch.payload, Limits::default()).ok()?;
    let found = Records::new(&batch.header, &payload).flatten().find(wanted)?;
    Some(Found {
        timestamp_ms: found.timestamp_ms,
        offset: found.offset,
        leader_epoch: batch.header.partition_leader_epoch,
    })
}
