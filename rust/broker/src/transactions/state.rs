//! One transactional id as a pure state machine: it takes the time and a request, and returns its next state.
//!
//! ```text
//!  Empty ── partitions ──► Ongoing ── end ──► PrepareCommit ── markers written ──► CompleteCommit
//!    ▲                      ▲    │       └──► PrepareAbort ─── markers written ──► CompleteAbort
//!    │                      │    └─ timeout, or InitProducerId: PrepareAbort in a raised epoch
//!    └── InitProducerId ────┴── partitions ────────────────────────────────── from either Complete
//! ```
//!
//! Each state is stored before a request is answered, so there are no intermediate states. A producer of transaction
//! version 2 (KIP-890: EndTxn from version 5 on) gets a new epoch with every transaction, and may abort without a
//! transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

/// The last epoch that a producer gets. The one after it only serves to fence the producer.
const LAST_EPOCH: i16 = i16::MAX - 1;
const NO_ID: i64 = -1;
const NO_EPOCH: i16 = -1;

/// A topic and a partition in a transaction.
pub(crate) type TopicPartition = (Arc<str>, i32);

/// The producer id and epoch of a request.
pub(crate) type Producer = (i64, i16);

/// The state of a transactional id, with Kafka's numbers. Kafka's Dead and PrepareEpochFence are never stored, so they
/// are missing here.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum TransactionState {
    Empty = 0,
    Ongoing = 1,
    PrepareCommit = 2,
    PrepareAbort = 3,
    CompleteCommit = 4,
    CompleteAbort = 5,
}

impl TransactionState {
    const ALL: [Self; 6] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
    ];

    pub(crate) fn from_number(number: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as i8 == number)
    }

    /// Kafka's name of the state.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    /// True if Kafka has a state of this name, including Dead and PrepareEpochFence.
    pub(crate) fn is_name(name: &str) -> bool {
        Self::ALL.iter().any(|state| state.name() == name) || matches!(name, "Dead" | "PrepareEpochFence")
    }
}

/// An EndTxn request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub(crate) commit: bool,
    /// True if the end raises the epoch (transaction version 2, KIP-890).
    pub(crate) raises_epoch: bool,
}

/// The outcome of an EndTxn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// The request is a repetition; this is the answer to the first one.
    Already(Producer),
    /// The prepared transaction, to be stored before its markers are written.
    Prepared(Transaction),
}

/// A transactional id and its last transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Transaction {
    pub(crate) producer_id: i64,
    /// The previous producer id; -1 for none. It identifies a repeated request after the id changed.
    pub(crate) previous_producer_id: i64,
    /// The producer id after the end of the transaction, if the epochs of the present id are exhausted; otherwise -1.
    pub(crate) next_producer_id: i64,
    pub(crate) epoch: i16,
    /// The previous epoch; -1 for none. It identifies a repeated request. As in Kafka, it is not stored.
    pub(crate) last_epoch: i16,
    pub(crate) timeout_ms: i32,
    pub(crate) state: TransactionState,
    /// The partitions of the transaction; once it is prepared, those whose markers are not written yet.
    pub(crate) partitions: BTreeSet<TopicPartition>,
    /// The time at which the transaction began; -1 in Empty.
    pub(crate) start_ms: i64,
    pub(crate) updated_ms: i64,
    /// True if the end of the transaction raised the epoch (transaction version 2).
    pub(crate) raised_epoch: bool,
}

impl Transaction {
    pub(crate) fn new(producer_id: i64, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            producer_id,
            previous_producer_id: NO_ID,
            next_producer_id: NO_ID,
            epoch: NO_EPOCH,
            last_epoch: NO_EPOCH,
            timeout_ms,
            state: TransactionState::Empty,
            partitions: BTreeSet::new(),
            start_ms: -1,
            updated_ms: now_ms,
            raised_epoch: false,
        }
    }

    pub(crate) fn producer(&self) -> Producer {
        (self.producer_id, self.epoch)
    }

    pub(crate) fn is_prepared(&self) -> bool {
        matches!(self.state, TransactionState::PrepareCommit | TransactionState::PrepareAbort)
    }

    fn is_exhausted(&self) -> bool {
        self.epoch >= LAST_EPOCH
    }

    /// Handles an InitProducerId: from a new producer, or from one that recovers from an error and sends its id and
    /// epoch (`expected`, KIP-360). The next state is Empty, or the abort of an ongoing transaction, after which the
    /// producer retries.
    ///
    /// # Errors
    /// PRODUCER_FENCED, CONCURRENT_TRANSACTIONS; UNKNOWN_SERVER_ERROR, as in Kafka, if the epochs are exhausted and
    /// `expected` has another epoch.
    pub(crate) fn init(
        &self,
        expected: Option<Producer>,
        timeout_ms: i32,
        now_ms: i64,
        new_id: impl FnOnce() -> i64,
    ) -> Result<Self, ErrorCode> {
        if expected.is_some_and(|expected| !self.may_be(expected)) {
            return Err(ErrorCode::ProducerFenced);
        }
        match self.state {
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => Err(ErrorCode::ConcurrentTransactions),
            TransactionState::Ongoing => Ok(self.fenced(now_ms)),
            _ if self.is_exhausted() && expected.is_none_or(|(_, epoch)| epoch == self.epoch) => {
                let last_epoch = if expected.is_some() { self.epoch } else { NO_EPOCH };
                Ok(self.emptied((new_id(), 0), last_epoch, timeout_ms, now_ms))
            }
            _ if self.is_exhausted() => Err(ErrorCode::UnknownServerError),
            _ => {
                let (epoch, last_epoch) = self.next_epoch(expected.map(|(_, epoch)| epoch))?;
                Ok(self.emptied((self.producer_id, epoch), last_epoch, timeout_ms, now_ms))
            }
        }
    }

    /// True if the producer id of a request can be that of this transactional id. The caller checks the epoch.
    fn may_be(&self, (producer_id, epoch): Producer) -> bool {
        self.epoch == NO_EPOCH
            || producer_id == self.producer_id
            // A repetition: the answer to the request that changed the id was lost.
            || (producer_id == self.previous_producer_id && epoch >= LAST_EPOCH)
    }

    fn next_epoch(&self, expected: Option<i16>) -> Result<(i16, i16), ErrorCode> {
        match expected {
            None => Ok((self.epoch + 1, NO_EPOCH)),
            Some(expected) if self.epoch == NO_EPOCH || expected == self.epoch => Ok((self.epoch + 1, self.epoch)),
            // A repetition.
            Some(expected) if expected == self.last_epoch => Ok((self.epoch, self.last_epoch)),
            Some(_) => Err(ErrorCode::ProducerFenced),
        }
    }

    fn emptied(&self, (producer_id, epoch): Producer, last_epoch: i16, timeout_ms: i32, now_ms: i64) -> Self {
        let previous_producer_id = self.producer_id;
        Self { previous_producer_id, epoch, last_epoch, ..Self::new(producer_id, timeout_ms, now_ms) }
    }

    /// The abort of a transaction that fences its producer by raising the epoch. Only this uses the epoch after
    /// [`LAST_EPOCH`].
    pub(crate) fn fenced(&self, now_ms: i64) -> Self {
        self.prepared(End { commit: false, raises_epoch: true }, NO_ID, now_ms)
    }

    fn check_producer(&self, (producer_id, epoch): Producer) -> Result<(), ErrorCode> {
        if producer_id != self.producer_id {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if epoch != self.epoch {
            return Err(ErrorCode::ProducerFenced);
        }
        if self.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        Ok(())
    }

    /// Adds partitions to the transaction. Returns `None` if all of them are part of it already.
    ///
    /// # Errors
    /// INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    pub(crate) fn add(
        &self,
        producer: Producer,
        partitions: &BTreeSet<TopicPartition>,
        now_ms: i64,
    ) -> Result<Option<Self>, ErrorCode> {
        self.check_producer(producer)?;
        if self.state == TransactionState::Ongoing && partitions.is_subset(&self.partitions) {
            return Ok(None);
        }
        let start_ms = if self.state == TransactionState::Ongoing { self.start_ms } else { now_ms };
        let partitions = self.partitions.union(partitions).cloned().collect();
        Ok(Some(Self { state: TransactionState::Ongoing, partitions, start_ms, updated_ms: now_ms, ..self.clone() }))
    }

    /// Checks that a partition is part of the producer's transaction.
    ///
    /// # Errors
    /// The errors of [`Transaction::add`], and TRANSACTION_ABORTABLE if the partition is not part of it.
    pub(crate) fn verify(&self, producer: Producer, partition: &TopicPartition) -> Result<(), ErrorCode> {
        self.check_producer(producer)?;
        if self.partitions.contains(partition) { Ok(()) } else { Err(ErrorCode::TransactionAbortable) }
    }

    /// Handles an EndTxn.
    ///
    /// # Errors
    /// INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
    pub(crate) fn end(
        &self,
        producer: Producer,
        end: End,
        now_ms: i64,
        new_id: impl FnOnce() -> i64,
    ) -> Result<Ended, ErrorCode> {
        let prepare = || {
            let next_id = if end.raises_epoch && self.is_exhausted() { new_id() } else { NO_ID };
            Ok(Ended::Prepared(self.prepared(end, next_id, now_ms)))
        };
        let repeats = self.check_end(producer, end)?;
        match self.state {
            TransactionState::Ongoing => prepare(),
            TransactionState::PrepareCommit if end.commit => Err(ErrorCode::ConcurrentTransactions),
            TransactionState::PrepareAbort if !end.commit => Err(ErrorCode::ConcurrentTransactions),
            TransactionState::CompleteCommit if end.commit && repeats => Ok(Ended::Already(self.producer())),
            TransactionState::CompleteAbort if !end.commit && repeats => Ok(Ended::Already(self.producer())),
            // A producer of transaction version 2 does not know whether its partitions reached the coordinator, so it
            // aborts in any case.
            TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort
                if end.raises_epoch && !end.commit && !repeats =>
            {
                prepare()
            }
            _ => Err(ErrorCode::InvalidTxnState),
        }
    }

    /// Checks the producer of an EndTxn. Returns whether the request may repeat an earlier one.
    fn check_end(&self, (producer_id, epoch): Producer, end: End) -> Result<bool, ErrorCode> {
        if !end.raises_epoch {
            if producer_id != self.producer_id {
                return Err(ErrorCode::InvalidProducerIdMapping);
            }
            return if epoch == self.epoch { Ok(true) } else { Err(ErrorCode::ProducerFenced) };
        }
        let repeats_after_new_id = producer_id == self.previous_producer_id && epoch == LAST_EPOCH && self.epoch == 0;
        let repeats = i32::from(self.epoch) == i32::from(epoch) + 1 || repeats_after_new_id;
        if producer_id != self.producer_id && !repeats_after_new_id {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        let valid = match self.state {
            TransactionState::Empty | TransactionState::Ongoing => epoch == self.epoch,
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => repeats,
            TransactionState::CompleteCommit | TransactionState::CompleteAbort => repeats || epoch == self.epoch,
        };
        if valid { Ok(repeats) } else { Err(ErrorCode::ProducerFenced) }
    }

    fn prepared(&self, end: End, next_producer_id: i64, now_ms: i64) -> Self {
        let (epoch, last_epoch) =
            if end.raises_epoch { (self.epoch.saturating_add(1), self.epoch) } else { (self.epoch, self.last_epoch) };
        // An abort without a transaction starts when it ends.
        let start_ms = if self.state == TransactionState::Ongoing { self.start_ms } else { now_ms };
        Self {
            state: if end.commit { TransactionState::PrepareCommit } else { TransactionState::PrepareAbort },
            next_producer_id,
            epoch,
            last_epoch,
            start_ms,
            updated_ms: now_ms,
            raised_epoch: end.raises_epoch,
            ..self.clone()
        }
    }

    /// The state after all markers are written.
    pub(crate) fn completed(&self, now_ms: i64) -> Self {
        let (producer_id, epoch) = match self.next_producer_id {
            NO_ID => self.producer(),
            next => (next, 0),
        };
        Self {
            state: if self.state == TransactionState::PrepareCommit {
                TransactionState::CompleteCommit
            } else {
                TransactionState::CompleteAbort
            },
            producer_id,
            previous_producer_id: self.producer_id,
            next_producer_id: NO_ID,
            epoch,
            partitions: BTreeSet::new(),
            updated_ms: now_ms,
            ..self.clone()
        }
    }

    /// The time at which the transaction times out; `None` if none is ongoing.
    pub(crate) fn times_out_at_ms(&self) -> Option<i64> {
        (self.state == TransactionState::Ongoing).then(|| self.start_ms.saturating_add(i64::from(self.timeout_ms)) + 1)
    }

    /// The time at which the transactional id expires; `None` while it has a transaction.
    pub(crate) fn expires_at_ms(&self, expiration_ms: i64) -> Option<i64> {
        let expires = matches!(
            self.state,
            TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort
        );
        expires.then(|| self.updated_ms.saturating_add(expiration_ms))
    }
}
