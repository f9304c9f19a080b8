//! One partition's batches, in the order of their first records, and what may be done next.

use std::collections::VecDeque;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::io::{Batch, BatchId, Identity, ProduceConfig};
use super::numbers::Numbers;
use crate::{Now, TopicPartition};

/// Where a batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It takes records.
    Open,
    /// The driver packs it.
    Closing,
    /// It can be sent.
    Packed,
    /// It is in a request without an answer.
    InFlight,
    /// The driver divides it.
    Splitting,
}

/// A batch.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) batch: Batch,
    /// Its place among all batches of the machine; parts of a batch share it.
    pub(super) serial: u64,
    pub(super) phase: Phase,
    pub(super) opened_at: Now,
    /// It waits for no more records.
    pub(super) flushed: bool,
    pub(super) attempts: u32,
    /// Sequence number of its first record, from its first sending on; counted on beyond `i32::MAX`.
    pub(super) sequence: Option<i64>,
    /// It may be in the log, by all that is known.
    pub(super) in_doubt: bool,
    /// The broker refused it as out of order although all that stands before it was refused so as well.
    pub(super) out_of_order: bool,
    /// In which words it was refused so.
    pub(super) refused_with: Option<ErrorCode>,
    /// The user was told of its end already; only its answer is waited for.
    pub(super) reported: bool,
    pub(super) last_error: Option<String>,
}

impl Entry {
    pub(super) fn new(batch: Batch, serial: u64, opened_at: Now) -> Self {
        Self {
            batch,
            serial,
            phase: Phase::Open,
            opened_at,
            flushed: false,
            attempts: 0,
            sequence: None,
            in_doubt: false,
            out_of_order: false,
            refused_with: None,
            reported: false,
            last_error: None,
        }
    }

    /// The sequence number after its last record.
    pub(super) fn sequence_end(&self) -> Option<i64> {
        self.sequence.map(|sequence| sequence + i64::from(self.batch.records))
    }
}

/// Whether a partition is part of the current transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    Outside,
    Joining,
    Inside,
}

/// What may be done for a partition now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing.
    Wait,
    /// The entry with this index can be sent.
    Send(usize),
    /// The entry with this index is open, and could be sent if it were packed.
    Close(usize),
}

/// A partition.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) partition: TopicPartition,
    pub(super) entries: VecDeque<Entry>,
    pub(super) leader: Option<i32>,
    pub(super) leader_epoch: i32,
    /// A topic made anew knows no producer, even if its leader and epoch are the same.
    pub(super) topic_id: Uuid,
    /// Answers in a row that did not know the topic, when the first of what waits here came.
    pub(super) unknown_before: u32,
    pub(super) in_flight: usize,
    /// The broker that has them.
    pub(super) in_flight_at: Option<i32>,
    /// Something failed: nothing is sent before all that is in flight is back, so that it goes out in order.
    pub(super) draining: bool,
    pub(super) retry_at: Now,
    /// The leader is known to know the producer. One that does not takes any sequence number, so that of two batches in
    /// flight the second could get in without the first.
    pub(super) proven: bool,
    pub(super) numbers: Numbers,
    pub(super) membership: Membership,
    /// The broker in whose line it stands.
    pub(super) lined_up_at: Option<i32>,
    pub(super) timer: Option<Now>,
}

impl Queue {
    pub(super) fn new(partition: TopicPartition) -> Self {
        Self {
            partition,
            entries: VecDeque::new(),
            leader: None,
            leader_epoch: -1,
            topic_id: Uuid::ZERO,
            unknown_before: 0,
            in_flight: 0,
            in_flight_at: None,
            draining: false,
            retry_at: Now::ZERO,
            proven: false,
            numbers: Numbers::default(),
            membership: Membership::Outside,
            lined_up_at: None,
            timer: None,
        }
    }

    /// What may be done if the leader has a request to spare.
    pub(super) fn next(&self, config: &ProduceConfig, identity: Option<Identity>, now: Now) -> Next {
        if !self.may_send(config, now) {
            return Next::Wait;
        }
        let waiting = |entry: &&Entry| entry.phase != Phase::InFlight && !entry.out_of_order;
        let Some(index) = self.entries.iter().position(|entry| waiting(&entry)) else { return Next::Wait };
        let Some(entry) = self.entries.get(index) else { return Next::Wait };
        if config.idempotent && entry.sequence.is_none() && !self.may_number(identity) {
            return Next::Wait;
        }
        match entry.phase {
            Phase::Packed => Next::Send(index),
            Phase::Open if entry.flushed || entry.opened_at + config.linger <= now => Next::Close(index),
            _ => Next::Wait,
        }
    }

    fn may_send(&self, config: &ProduceConfig, now: Now) -> bool {
        if self.leader.is_none() || self.draining || self.retry_at > now {
            return false;
        }
        if config.transactional && self.membership != Membership::Inside {
            return false;
        }
        // Those in flight are all at one broker, on one connection: two brokers may see them in any order.
        let alone = config.max_in_flight == 1 || (config.idempotent && !self.proven);
        self.in_flight == 0 || (self.in_flight_at == self.leader && !alone)
    }

    /// Whether a batch may get its sequence number.
    fn may_number(&self, identity: Option<Identity>) -> bool {
        let Some(identity) = identity else { return false };
        let mut numbered = self.entries.iter().filter(|entry| entry.sequence.is_some());
        match self.numbers.identity {
            Some(mine) if mine == identity => !self.numbers.is_broken() && !numbered.any(|entry| entry.out_of_order),
            // What has numbers of the old epoch is done first.
            _ => numbered.next().is_none(),
        }
    }

    pub(super) fn find(&self, batch: BatchId) -> Option<usize> {
        // What is in flight is looked for most, and stands in front; what is packed was opened last.
        let front = self.entries.iter().take(8).position(|entry| entry.batch.id == batch);
        front.or_else(|| self.entries.iter().rposition(|entry| entry.batch.id == batch))
    }

    /// The entry that expires first.
    pub(super) fn oldest(&self) -> Option<(usize, &Entry)> {
        self.entries.iter().enumerate().find(|(_, entry)| !entry.reported)
    }

    /// When time alone changes what may be done.
    pub(super) fn due_at(&self, config: &ProduceConfig, now: Now) -> Option<Now> {
        let (_, oldest) = self.oldest()?;
        let deadline = oldest.opened_at + config.delivery_timeout;
        let retry = Some(self.retry_at).filter(|&at| at > now);
        let open = self.entries.iter().find(|entry| entry.phase == Phase::Open && !entry.flushed);
        let linger = open.map(|entry| entry.opened_at + config.linger).filter(|&at| at > now);
        [Some(deadline), retry, linger].into_iter().flatten().min()
    }

    /// Takes note that the answer for an entry is there.
    pub(super) fn landed(&mut self, index: usize) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.phase = Phase::Packed;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0 {
            (self.in_flight_at, self.draining) = (None, false);
        }
    }

    /// What was refused as out of order is to be tried again: what the leader knows may be different now.
    pub(super) fn doubt_refusals(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.out_of_order = false);
        self.proven = false;
    }
}
