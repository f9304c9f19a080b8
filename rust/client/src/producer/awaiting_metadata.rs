//! Records that wait for metadata: their topic's partitions are not known yet, or their partition may have been added
//! since. They are encoded, and kept in the order in which they were sent.

use std::time::Instant;

use monedula_columns::{BufferPool, PayloadWriter};
use monedula_protocol::compression::Compression;
use monedula_protocol::records::{BatchHeader, Header, MAGIC_V2, NewRecord, Records};

use super::memory::{Memory, TopicUsage};
use super::open_batch::{NotTaken, OpenBatch};
use super::receipt::RecordFuture;
use crate::error::ClientError;

/// Size of one piece. Once the topic is known, the memory of the pieces is returned piece by piece.
const PIECE_BYTES: usize = 64 << 10;

/// The records of one topic that wait for metadata; see the [module](self).
#[derive(Default)]
pub(crate) struct AwaitingMetadata {
    pieces: Vec<Piece>,
    pub(crate) usage: TopicUsage,
}

struct Piece {
    batch: OpenBatch,
    /// The partition of each record, if the user named one, and the time at which it was sent.
    targets: Vec<(Option<i32>, Instant)>,
}

/// Records that failed once metadata was there.
pub(crate) struct FailedRecords {
    pub(crate) records: u64,
    /// The error of the first one.
    pub(crate) error: ClientError,
}

impl AwaitingMetadata {
    pub(crate) fn new(usage: TopicUsage) -> Self {
        Self { pieces: Vec::new(), usage }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn records(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.batch.writer.records())).sum()
    }

    pub(crate) fn append(
        &mut self,
        target: (Option<i32>, Instant),
        record: &NewRecord<'_>,
        memory: &Memory,
        pool: &BufferPool,
    ) -> Result<RecordFuture, NotTaken> {
        loop {
            if let Some(piece) = self.pieces.last_mut() {
                match piece.batch.append(record, PIECE_BYTES) {
                    Ok(index) => {
                        piece.targets.push(target);
                        return Ok(piece.batch.receipt.sent(index, record.timestamp_ms));
                    }
                    Err(NotTaken::Closed) => {}
                    Err(refused) => return Err(refused),
                }
            }
            // The driver never learns of this batch, so its id is not used.
            let capacity = PayloadWriter::first_record_bytes(record);
            let batch = OpenBatch::open(0, None, memory, &self.usage, pool, (capacity, target.1))?;
            self.pieces.push(Piece { batch, targets: Vec::new() });
        }
    }

    /// Sends each record with `send`, and forwards its future to the result. Returns those that could not be sent.
    pub(crate) fn forward(
        self,
        mut send: impl FnMut((Option<i32>, Instant), &NewRecord<'_>) -> Result<RecordFuture, ClientError>,
    ) -> Option<FailedRecords> {
        let mut failed: Option<FailedRecords> = None;
        for Piece { batch, targets } in self.pieces {
            let receipt = batch.receipt;
            let (base_timestamp, max_timestamp) = batch.writer.timestamps_ms();
            let count = batch.writer.records();
            let mut header = BatchHeader { base_timestamp, max_timestamp, record_count: count as i32, ..EMPTY };
            header.last_offset_delta = count.saturating_sub(1) as i32;
            let payload = batch.writer.into_buffer();
            for ((record, target), index) in Records::new(&header, &payload).zip(targets).zip(0..) {
                let sent = record.map_err(|error| ClientError::Internal(error.to_string())).and_then(|record| {
                    let headers: Vec<Header<'_>> = record.headers.collect();
                    let (timestamp_ms, key, value) = (record.timestamp_ms, record.key, record.value);
                    send(target, &NewRecord { timestamp_ms, key, value, headers: &headers })
                });
                match sent {
                    Ok(sent) => receipt.forward(index, count, sent),
                    Err(error) => {
                        receipt.fail(index, 1, &error);
                        failed.get_or_insert(FailedRecords { records: 0, error }).records += 1;
                    }
                }
            }
        }
        failed
    }

    /// Fails all records. Returns their number.
    pub(crate) fn fail(self, error: &ClientError) -> u64 {
        let mut failed = 0;
        for piece in self.pieces {
            let records = piece.batch.writer.records();
            piece.batch.receipt.fail(0, records, error);
            failed += u64::from(records);
        }
        failed
    }
}

const EMPTY: BatchHeader = BatchHeader {
    base_offset: 0,
    batch_length: 0,
    partition_leader_epoch: -1,
    magic: MAGIC_V2,
    crc: 0,
    attributes: Compression::None as i16,
    last_offset_delta: 0,
    base_timestamp: 0,
    max_timestamp: 0,
    producer_id: -1,
    producer_epoch: -1,
    base_sequence: -1,
    record_count: 0,
};
