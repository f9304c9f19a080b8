//! Records of a topic whose partitions are not known yet, or of partitions that it may have by now: encoded, in the order of
//! their sending.

use std::time::Instant;

use monedula_columns::{BufferPool, PayloadWriter};
use monedula_protocol::compression::Compression;
use monedula_protocol::records::{BatchHeader, Header, NewRecord, Records};

use super::memory::{Memory, TopicShare};
use super::open_batch::{NotTaken, OpenBatch};
use super::receipt::Sent;
use crate::error::ClientError;

/// How much of them is in one piece: pieces are given back one by one when the topic becomes known.
const PIECE_BYTES: usize = 64 << 10;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Parked {
    pieces: Vec<Piece>,
    pub(crate) share: TopicShare,
}

struct Piece {
    batch: OpenBatch,
    /// The partition that each record is for, or none, and since when it waits.
    places: Vec<(Option<i32>, Instant)>,
}

/// Records that could not go on after all.
pub(crate) struct Stranded {
    pub(crate) records: u64,
    /// Of the first of them.
    pub(crate) error: ClientError,
}

impl Parked {
    pub(crate) fn sharing(share: TopicShare) -> Self {
        Self { pieces: Vec::new(), share }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn records(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.batch.writer.records())).sum()
    }

    pub(crate) fn append(
        &mut self,
        place: (Option<i32>, Instant),
        record: &NewRecord<'_>,
        memory: &Memory,
        pool: &BufferPool,
    ) -> Result<Sent, NotTaken> {
        loop {
            if let Some(piece) = self.pieces.last_mut() {
                match piece.batch.append(record, PIECE_BYTES) {
                    Ok(index) => {
                        piece.places.push(place);
                        return Ok(piece.batch.receipt.sent(index, record.timestamp_ms));
                    }
                    Err(NotTaken::Closed) => {}
                    Err(refused) => return Err(refused),
                }
            }
            // No batch of this name is ever told of.
            let capacity = PayloadWriter::first_record_bytes(record);
            let batch = OpenBatch::open(0, None, memory, &self.share, pool, (capacity, place.1))?;
            self.pieces.push(Piece { batch, places: Vec::new() });
        }
    }

    /// Hands each record on, and its future with it.
    pub(crate) fn forward(
        self,
        mut send: impl FnMut((Option<i32>, Instant), &NewRecord<'_>) -> Result<Sent, ClientError>,
    ) -> Option<Stranded> {
        let mut stranded: Option<Stranded> = None;
        for Piece { batch, places } in self.pieces {
            let receipt = batch.receipt;
            let (base_timestamp, max_timestamp) = batch.writer.timestamps_ms();
            let count = batch.writer.records();
            let mut header = BatchHeader { base_timestamp, max_timestamp, record_count: count as i32, ..EMPTY };
            header.last_offset_delta = count.saturating_sub(1) as i32;
            let payload = batch.writer.into_buffer();
            for ((record, place), index) in Records::new(&header, &payload).zip(places).zip(0..) {
                let sent = record.map_err(|error| ClientError::Internal(error.to_string())).and_then(|record| {
                    let headers: Vec<Header<'_>> = record.headers.collect();
                    let (timestamp_ms, key, value) = (record.timestamp_ms, record.key, record.value);
                    send(place, &NewRecord { timestamp_ms, key, value, headers: &headers })
                });
                match sent {
                    Ok(sent) => receipt.forward(index, count, sent),
                    Err(error) => {
                        receipt.fail_one(index, &error);
                        stranded.get_or_insert(Stranded { records: 0, error }).records += 1;
                    }
                }
            }
        }
        stranded
    }

    /// Fails all of them, and says how many they were.
    pub(crate) fn fail(self, error: &ClientError) -> u64 {
        let mut failed = 0;
        for piece in self.pieces {
            let records = piece.batch.writer.records();
            piece.batch.receipt.fail(records, error);
            failed += u64::from(records);
        }
        failed
    }
}

const EMPTY: BatchHeader = BatchHeader {
    base_offset: 0,
    batch_length: 0,
    partition_leader_epoch: -1,
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
