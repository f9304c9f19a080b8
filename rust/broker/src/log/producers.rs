//! The state of idempotent and transactional producers in a partition (KIP-98).
//!
//! For each producer: its last five batches, by which duplicates are detected; the last sequence number; and the first
//! offset of its open transaction, which holds back the last stable offset.

use std::collections::{BTreeMap, VecDeque};

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::records::BatchHeader;

/// The number of batches of a producer that are remembered: as many as it may have in flight.
const KEPT_BATCHES: usize = 5;
/// The value for an unknown epoch or sequence number.
const NONE: i32 = -1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Producers {
    by_id: BTreeMap<i64, Producer>,
    /// The producer ids of open transactions, by first offset.
    open: BTreeMap<i64, i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Producer {
    /// -1 if it is not known.
    pub(crate) epoch: i16,
    pub(crate) coordinator_epoch: i32,
    pub(crate) last_timestamp_ms: i64,
    /// The first offset of its open transaction.
    pub(crate) transaction_start: Option<i64>,
    batches: VecDeque<SeenBatch>,
}

/// A batch that the producer has appended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenBatch {
    first_sequence: i32,
    last_sequence: i32,
    pub(crate) first_offset: i64,
    last_offset: i64,
    pub(crate) timestamp_ms: i64,
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

/// The sequence number of a batch's last record. The numbers continue at 0 after `i32::MAX`.
fn last_sequence(header: &BatchHeader) -> i32 {
    let last = i64::from(header.base_sequence) + i64::from(header.last_offset_delta);
    (if last > i64::from(i32::MAX) { last - i64::from(i32::MAX) - 1 } else { last }) as i32
}

impl Producers {
    pub(crate) fn get(&self, producer_id: i64) -> Option<&Producer> {
        self.by_id.get(&producer_id)
    }

    /// All producers, sorted by id.
    pub(crate) fn all(&self) -> impl Iterator<Item = (i64, &Producer)> {
        self.by_id.iter().map(|(&id, producer)| (id, producer))
    }

    /// The first offset of the oldest open transaction.
    pub(crate) fn first_open_offset(&self) -> Option<i64> {
        self.open.keys().next().copied()
    }

    /// The batch that this one duplicates, if it does.
    pub(crate) fn duplicate_of(&self, header: &BatchHeader) -> Option<SeenBatch> {
        let producer = self.get(header.producer_id).filter(|producer| producer.epoch == header.producer_epoch)?;
        let range = (header.base_sequence, last_sequence(header));
        producer.batches.iter().find(|batch| (batch.first_sequence, batch.last_sequence) == range).copied()
    }

    /// Checks that a client's batch may be appended. If it `begins` a transaction with an epoch of its own (KIP-890),
    /// it has the first sequence number even if nothing is known of the producer: an earlier batch may be on its way.
    ///
    /// # Errors
    /// INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
    pub(crate) fn check(&self, header: &BatchHeader, begins: bool) -> Result<(), ErrorCode> {
        let Some(producer) = self.get(header.producer_id) else {
            return if begins && header.base_sequence != 0 { Err(ErrorCode::OutOfOrderSequenceNumber) } else { Ok(()) };
        };
        if header.producer_epoch < producer.epoch {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        // As in Kafka, a producer whose epoch is not known may begin with any sequence number.
        let in_order = if header.producer_epoch != producer.epoch {
            header.base_sequence == 0 || (producer.epoch == -1 && !begins)
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

    /// Checks that a transaction marker may be appended.
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
        // With transaction version 2 (KIP-890) a marker has a higher epoch than the records of its transaction: one of
        // the current epoch belongs to an earlier transaction and must not end this one. Allowed are a repeated marker,
        // which finds no open transaction, and the epoch i16::MAX, which cannot be raised.
        let repeated = epoch == producer.epoch && (producer.transaction_start.is_none() || epoch == i16::MAX);
        if epoch < producer.epoch || (transaction_version >= 2 && epoch == producer.epoch && !repeated) {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        if coordinator_epoch < producer.coordinator_epoch {
            return Err(ErrorCode::TransactionCoordinatorFenced);
        }
        Ok(())
    }

    /// Records a batch that was appended.
    pub(crate) fn appended(&mut self, header: &BatchHeader) {
        let producer = self.by_id.entry(header.producer_id).or_insert_with(Producer::new);
        producer.enter_epoch(header.producer_epoch);
        producer.last_timestamp_ms = header.max_timestamp;
        // Batches that a coordinator writes in a transaction have no sequence numbers.
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

    /// Records a marker that was appended. Returns the first offset of the transaction that it ended, if the partition
    /// has records of it.
    pub(crate) fn ended(&mut self, header: &BatchHeader, coordinator_epoch: i32) -> Option<i64> {
        let producer = self.by_id.entry(header.producer_id).or_insert_with(Producer::new);
        producer.enter_epoch(header.producer_epoch);
        producer.coordinator_epoch = coordinator_epoch;
        producer.last_timestamp_ms = header.max_timestamp;
        let first_offset = producer.transaction_start.take()?;
        self.open.remove(&first_offset);
        Some(first_offset)
    }

    /// The last batch of each producer, which compaction keeps: its last offset, or the epoch if only a marker is
    /// known.
    pub(super) fn last_batches(&self) -> impl Iterator<Item = (i64, Result<i64, i16>)> {
        self.all()
            .map(|(id, producer)| (id, producer.batches.back().map(|batch| batch.last_offset).ok_or(producer.epoch)))
    }

    /// Removes producers without a write for `expiration_ms` and without an open transaction.
    pub(crate) fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        self.by_id.retain(|_, producer| {
            producer.transaction_start.is_some() || now_ms.saturating_sub(producer.last_timestamp_ms) < expiration_ms
        });
    }
}
