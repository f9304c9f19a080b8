//! What a partition remembers of idempotent and transactional producers (KIP-98).
//!
//! The last five batches of each, by which a batch that was sent twice is known; the sequence number that must come next; and
//! where its open transaction began, which holds back the last stable offset.

use std::collections::{BTreeMap, VecDeque};

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::records::BatchHeader;

/// Batches of a producer that are remembered: as many as it may have under way.
const KEPT_BATCHES: usize = 5;
/// What stands for no epoch and no sequence number.
const NONE: i32 = -1;

/// The producers of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Producers {
    by_id: BTreeMap<i64, Producer>,
    /// Open transactions by their first offset.
    open: BTreeMap<i64, i64>,
}

/// One producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Producer {
    /// -1 while only a marker has been seen.
    pub(crate) epoch: i16,
    pub(crate) coordinator_epoch: i32,
    pub(crate) last_timestamp_ms: i64,
    /// Where its open transaction begins.
    pub(crate) transaction_start: Option<i64>,
    batches: VecDeque<SeenBatch>,
}

/// A batch that was appended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenBatch {
    first_sequence: i32,
    last_sequence: i32,
    pub(crate) first_offset: i64,
    last_offset: i64,
    pub(crate) timestamp_ms: i64,
}

/// A transaction that was ended with records in this partition.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndedTransaction {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
}

impl Producer {
    fn new() -> Self {
        Self {
            epoch: -1,
            coordinator_epoch: NONE,
            last_timestamp_ms: -1,
            transaction_start: None,
            batches: VecDeque::new(),
        }
    }

    /// The sequence number of its last record, -1 if no batch of its epoch is remembered.
    pub(crate) fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(NONE, |batch| batch.last_sequence)
    }

    fn enter_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }
}

/// The sequence number of a batch's last record; they begin anew at 0 behind `i32::MAX`.
fn last_sequence(header: &BatchHeader) -> i32 {
    let last = i64::from(header.base_sequence) + i64::from(header.last_offset_delta);
    (if last > i64::from(i32::MAX) { last - i64::from(i32::MAX) - 1 } else { last }) as i32
}

impl Producers {
    pub(crate) fn get(&self, producer_id: i64) -> Option<&Producer> {
        self.by_id.get(&producer_id)
    }

    /// By id.
    pub(crate) fn all(&self) -> impl Iterator<Item = (i64, &Producer)> {
        self.by_id.iter().map(|(&id, producer)| (id, producer))
    }

    /// Where the first open transaction begins.
    pub(crate) fn first_open_offset(&self) -> Option<i64> {
        self.open.keys().next().copied()
    }

    /// The batch that this one repeats, if it does.
    pub(crate) fn duplicate_of(&self, header: &BatchHeader) -> Option<SeenBatch> {
        let producer = self.get(header.producer_id).filter(|producer| producer.epoch == header.producer_epoch)?;
        let range = (header.base_sequence, last_sequence(header));
        producer.batches.iter().find(|batch| (batch.first_sequence, batch.last_sequence) == range).copied()
    }

    /// Whether a client's batch may be appended.
    ///
    /// # Errors
    /// INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
    pub(crate) fn check(&self, header: &BatchHeader) -> Result<(), ErrorCode> {
        let Some(producer) = self.get(header.producer_id) else {
            return Ok(());
        };
        if header.producer_epoch < producer.epoch {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        // A producer of which no batch is left, because they were deleted, may go on with any number.
        let in_order = if header.producer_epoch != producer.epoch {
            header.base_sequence == 0 || producer.epoch == -1
        } else {
            let last = producer.last_sequence();
            i64::from(header.base_sequence) == i64::from(last) + 1 || (header.base_sequence == 0 && last == i32::MAX)
        };
        if !in_order {
            return Err(ErrorCode::OutOfOrderSequenceNumber);
        }
        if producer.transaction_start.is_some() && !header.is_transactional() {
            return Err(ErrorCode::InvalidTxnState);
        }
        Ok(())
    }

    /// Whether a marker may be appended.
    ///
    /// # Errors
    /// INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
    pub(crate) fn check_marker(
        &self,
        producer_id: i64,
        epoch: i16,
        coordinator_epoch: i32,
        transaction_version: i16,
    ) -> Result<(), ErrorCode> {
        let Some(producer) = self.get(producer_id) else {
            return Ok(());
        };
        // Where every transaction has an epoch of its own, the marker of an earlier one must not end this one. One that comes
        // again finds nothing to end, and so does the last epoch that there is.
        let repeated = epoch == producer.epoch && (producer.transaction_start.is_none() || epoch == i16::MAX);
        if epoch < producer.epoch || (transaction_version >= 2 && epoch == producer.epoch && !repeated) {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        if coordinator_epoch < producer.coordinator_epoch {
            return Err(ErrorCode::TransactionCoordinatorFenced);
        }
        Ok(())
    }

    /// A batch of records was appended.
    pub(crate) fn appended(&mut self, header: &BatchHeader) {
        let producer = self.by_id.entry(header.producer_id).or_insert_with(Producer::new);
        producer.enter_epoch(header.producer_epoch);
        producer.last_timestamp_ms = header.max_timestamp;
        // What a coordinator writes in a transaction has no sequence number.
        if header.base_sequence >= 0 {
            if producer.batches.len() == KEPT_BATCHES {
                producer.batches.pop_front();
            }
            producer.batches.push_back(SeenBatch {
                first_sequence: header.base_sequence,
                last_sequence: last_sequence(header),
                first_offset: header.base_offset,
                last_offset: header.last_offset(),
                timestamp_ms: header.max_timestamp,
            });
        }
        if header.is_transactional() && producer.transaction_start.is_none() {
            producer.transaction_start = Some(header.base_offset);
            self.open.insert(header.base_offset, header.producer_id);
        }
    }

    /// A marker was appended. Returns the transaction that it ended, if there were records of it.
    pub(crate) fn ended(&mut self, header: &BatchHeader, coordinator_epoch: i32) -> Option<EndedTransaction> {
        let producer = self.by_id.entry(header.producer_id).or_insert_with(Producer::new);
        producer.enter_epoch(header.producer_epoch);
        producer.coordinator_epoch = coordinator_epoch;
        producer.last_timestamp_ms = header.max_timestamp;
        let first_offset = producer.transaction_start.take()?;
        self.open.remove(&first_offset);
        Some(EndedTransaction { producer_id: header.producer_id, first_offset })
    }

    /// The last batch of each: its last offset, or the epoch where only a marker is known. Compaction keeps it.
    pub(super) fn last_batches(&self) -> impl Iterator<Item = (i64, Result<i64, i16>)> {
        self.all()
            .map(|(id, producer)| (id, producer.batches.back().map(|batch| batch.last_offset).ok_or(producer.epoch)))
    }

    /// Forgets those who have been silent for long and have no transaction open.
    pub(crate) fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        self.by_id.retain(|_, producer| {
            producer.transaction_start.is_some() || now_ms.saturating_sub(producer.last_timestamp_ms) < expiration_ms
        });
    }
}
