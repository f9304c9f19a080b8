//! The batches of one partition, in the order of their first records, and what may be done with them next.

use std::collections::VecDeque;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::io::{Batch, BatchId, ProduceConfig, ProducerIdentity};
use super::sequence_numbers::SequenceNumbers;
use crate::{Now, TopicPartition};

/// The phase of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The batch takes records.
    Open,
    /// The driver packs it.
    Closing,
    /// The batch can be sent.
    Packed,
    /// The batch is in a request without an answer.
    InFlight,
    /// The driver splits it.
    Splitting,
}

#[derive(Clone, Debug)]
pub(super) struct QueuedBatch {
    pub(super) batch: Batch,
    /// The number among all batches of the machine. Parts of a batch that was split have its number.
    pub(super) serial: u64,
    pub(super) phase: Phase,
    pub(super) opened_at: Now,
    /// A flush ended its linger.
    pub(super) flushed: bool,
    pub(super) attempts: u32,
    /// Sequence number of its first record, assigned when it is first sent. Counts on beyond `i32::MAX`.
    pub(super) sequence: Option<i64>,
    /// True if the batch may be in the log: an attempt was not answered, or answered by an error that does not exclude
    /// it.
    pub(super) outcome_unknown: bool,
    /// The broker refused it as out of order although every batch before it was refused so too.
    pub(super) out_of_order: bool,
    /// The error with which the broker refused it as out of order.
    pub(super) out_of_order_code: Option<ErrorCode>,
    /// True if the batch's end was reported to the user. It stays in the queue only until its request is answered.
    pub(super) reported: bool,
    pub(super) last_error: Option<String>,
}

impl QueuedBatch {
    pub(super) fn new(batch: Batch, serial: u64, opened_at: Now) -> Self {
        Self {
            batch,
            serial,
            phase: Phase::Open,
            opened_at,
            flushed: false,
            attempts: 0,
            sequence: None,
            outcome_unknown: false,
            out_of_order: false,
            out_of_order_code: None,
            reported: false,
            last_error: None,
        }
    }

    /// The sequence number after its last record.
    pub(super) fn sequence_end(&self) -> Option<i64> {
        self.sequence.map(|sequence| sequence + i64::from(self.batch.records))
    }
}

/// The part of a partition in the current transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InTransaction {
    No,
    /// The partition's place in the transaction was asked for, and is not confirmed yet.
    Pending,
    Yes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Nothing.
    Wait,
    /// Send the batch with this index.
    Send(usize),
    /// Close the batch with this index: it is open, and could be sent if it were packed.
    Close(usize),
}

/// The state of one partition in the produce machine.
#[derive(Debug)]
pub(super) struct PartitionQueue {
    pub(super) topic_partition: TopicPartition,
    pub(super) batches: VecDeque<QueuedBatch>,
    pub(super) leader: Option<i32>,
    pub(super) leader_epoch: i32,
    /// The brokers of a recreated topic know no producer, even if leader and epoch are the same as before.
    pub(super) topic_id: Uuid,
    /// The time for which metadata answers had not known the topic when the first of the waiting batches was opened.
    pub(super) unknown_before: Duration,
    /// The number of batches in flight.
    pub(super) in_flight: usize,
    /// The broker that has them.
    pub(super) in_flight_at: Option<i32>,
    /// A batch failed or is retried: nothing is sent before everything in flight is answered, to keep the order.
    pub(super) draining: bool,
    pub(super) retry_at: Now,
    /// Set if the leader certainly has a record of the producer. A leader that has none accepts any sequence number, so
    /// that of two batches in flight it could append the second without the first.
    pub(super) known_to_leader: bool,
    pub(super) numbers: SequenceNumbers,
    pub(super) in_transaction: InTransaction,
    /// The broker in whose queue of partitions this one waits.
    pub(super) waits_at: Option<i32>,
    pub(super) timer: Option<Now>,
}

impl PartitionQueue {
    pub(super) fn new(topic_partition: TopicPartition) -> Self {
        Self {
            topic_partition,
            batches: VecDeque::new(),
            leader: None,
            leader_epoch: -1,
            topic_id: Uuid::ZERO,
            unknown_before: Duration::ZERO,
            in_flight: 0,
            in_flight_at: None,
            draining: false,
            retry_at: Now::ZERO,
            known_to_leader: false,
            numbers: SequenceNumbers::default(),
            in_transaction: InTransaction::No,
            waits_at: None,
            timer: None,
        }
    }

    /// The next step if the leader has room for a request.
    pub(super) fn next_step(&self, config: &ProduceConfig, identity: Option<ProducerIdentity>, now: Now) -> NextStep {
        if !self.may_send(config, now) {
            return NextStep::Wait;
        }
        let waits = |batch: &QueuedBatch| batch.phase != Phase::InFlight && !batch.out_of_order;
        let Some(index) = self.batches.iter().position(waits) else { return NextStep::Wait };
        let Some(batch) = self.batches.get(index) else { return NextStep::Wait };
        if config.idempotent && batch.sequence.is_none() && !self.may_assign_sequence(identity) {
            return NextStep::Wait;
        }
        match batch.phase {
            Phase::Packed => NextStep::Send(index),
            Phase::Open if batch.flushed || batch.opened_at + config.linger <= now => NextStep::Close(index),
            _ => NextStep::Wait,
        }
    }

    fn may_send(&self, config: &ProduceConfig, now: Now) -> bool {
        if self.leader.is_none() || self.draining || self.retry_at > now {
            return false;
        }
        if config.transactional && self.in_transaction != InTransaction::Yes {
            return false;
        }
        // All batches in flight are at one broker, on one connection: two brokers may append them in any order.
        let one_at_a_time = config.max_in_flight == 1 || (config.idempotent && !self.known_to_leader);
        self.in_flight == 0 || (self.in_flight_at == self.leader && !one_at_a_time)
    }

    fn may_assign_sequence(&self, identity: Option<ProducerIdentity>) -> bool {
        let Some(identity) = identity else { return false };
        let mut numbered = self.batches.iter().filter(|batch| batch.sequence.is_some());
        match self.numbers.identity {
            Some(own) if own == identity => !self.numbers.has_gap() && !numbered.any(|batch| batch.out_of_order),
            // Batches with sequence numbers of the old epoch are finished first.
            _ => numbered.next().is_none(),
        }
    }

    pub(super) fn find(&self, batch: BatchId) -> Option<usize> {
        // Batches in flight are looked up most, and are in front; one that was just packed was opened last.
        let front = self.batches.iter().take(8).position(|queued| queued.batch.id == batch);
        front.or_else(|| self.batches.iter().rposition(|queued| queued.batch.id == batch))
    }

    /// The batch that expires first.
    pub(super) fn oldest_unreported(&self) -> Option<(usize, &QueuedBatch)> {
        self.batches.iter().enumerate().find(|(_, batch)| !batch.reported)
    }

    /// The time when time alone changes the next step.
    pub(super) fn due_at(&self, config: &ProduceConfig, now: Now) -> Option<Now> {
        let (_, oldest) = self.oldest_unreported()?;
        let deadline = oldest.opened_at + config.delivery_timeout;
        let retry = Some(self.retry_at).filter(|&at| at > now);
        let open = self.batches.iter().find(|batch| batch.phase == Phase::Open && !batch.flushed);
        let linger = open.map(|batch| batch.opened_at + config.linger).filter(|&at| at > now);
        [Some(deadline), retry, linger].into_iter().flatten().min()
    }

    /// Notes that the request of a batch in flight was answered.
    pub(super) fn answered(&mut self, index: usize) {
        if let Some(batch) = self.batches.get_mut(index) {
            batch.phase = Phase::Packed;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0 {
            (self.in_flight_at, self.draining) = (None, false);
        }
    }

    /// Has batches that were refused as out of order sent again: the leader may know more, or may be another one.
    pub(super) fn retry_out_of_order(&mut self) {
        self.batches.iter_mut().for_each(|batch| batch.out_of_order = false);
        self.known_to_leader = false;
    }
}
