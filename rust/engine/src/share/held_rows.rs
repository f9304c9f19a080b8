//! The rows in the user's hands: the ledger of a share group's member.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::acknowledgement::{AcknowledgeType, Acknowledgement};
use super::error::AcknowledgeError;
use super::held_batch::{HeldBatch, HeldPart};
use super::io::{Acquired, SessionId};
use crate::{Now, TopicPartition};

/// The outcome of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// It counts, or is the same as before.
    Taken,
    /// Something else was decided of this row before, or the decision was sent. Nothing has changed.
    Conflict {
        /// The row.
        row: usize,
        /// What was decided; `None` if it was sent already.
        before: Option<AcknowledgeType>,
    },
    /// The batch is not in the user's hands: all of its rows were decided and sent.
    Unknown,
}

/// For how long after the last renewal rows are known whose locks are over and of which the user decides nothing: they would
/// take memory for ever in a program that decides explicitly, and forgets some.
const ABANDONED: Duration = Duration::from_secs(300);

/// The rows in the user's hands, what was decided of each, and until when they are locked.
#[derive(Debug)]
pub struct HeldRows {
    batches: BTreeMap<u64, HeldBatch>,
    last_id: u64,
    last_ticket: u64,
    longest_renewal: Duration,
}

impl HeldRows {
    /// No rows. `longest_renewal`: for how long locks of rows in hand are renewed (`share.renew.max.ms`); zero for not
    /// at all.
    pub fn new(longest_renewal: Duration) -> Self {
        Self { batches: BTreeMap::new(), last_id: 0, last_ticket: 0, longest_renewal }
    }

    /// The user receives these rows, which are locked now. The runs of the parts count the batch's rows from 0, without a
    /// gap. Returns the id of the batch, unless it has no rows, and the acknowledgements of the gaps: nobody decides of
    /// these or renews their locks, and they use up the partition's record locks (franz-go).
    pub fn hand_out(&mut self, holder: u64, mut parts: Vec<HeldPart>, now: Now) -> (Option<u64>, Vec<Acknowledgement>) {
        let kept_for = self.longest_renewal.saturating_add(ABANDONED);
        self.batches.retain(|_, batch| !batch.is_abandoned(kept_for, now));
        let last_ticket = &mut self.last_ticket;
        let gaps = parts.iter_mut().filter_map(|part| part.take_gaps(|| next(last_ticket))).collect();
        parts.retain(|part| !part.runs.is_empty());
        if parts.is_empty() {
            return (None, gaps);
        }
        self.last_id += 1;
        self.batches.insert(self.last_id, HeldBatch::new(holder, parts, now));
        (Some(self.last_id), gaps)
    }

    /// A number for an acknowledgement of records that nobody received.
    pub fn new_ticket(&mut self) -> u64 {
        next(&mut self.last_ticket)
    }

    /// Decides what becomes of these rows of a batch. The first decision about a row counts.
    pub fn decide(&mut self, id: u64, rows: &[Range<usize>], kind: AcknowledgeType) -> Decided {
        let Some(batch) = self.batches.get_mut(&id) else { return Decided::Unknown };
        if let Some(row) = batch.conflict(rows, kind) {
            let before = batch.decision(row).and_then(|id| AcknowledgeType::ALL.get(usize::from(id)).copied());
            return Decided::Conflict { row, before };
        }
        batch.decide(rows, kind);
        Decided::Taken
    }

    /// The number of rows of the batch, if it is in the user's hands.
    pub fn rows(&self, id: u64) -> Option<usize> {
        self.batches.get(&id).map(HeldBatch::rows)
    }

    /// The batch and row of a record in the user's hands: of the last delivery, if there were several.
    pub fn find(&self, partition: &TopicPartition, offset: i64) -> Option<(u64, usize)> {
        self.batches.iter().rev().find_map(|(id, batch)| Some((*id, batch.row_of(partition, offset)?)))
    }

    /// The rows of a batch go to handlers, which decide of each by itself: what its holder asks for next accepts none of
    /// them. Returns the rows of each part.
    pub fn hand_over(&mut self, id: u64) -> Vec<(TopicPartition, Range<usize>)> {
        self.batches.get_mut(&id).map_or_else(Vec::new, HeldBatch::hand_over)
    }

    /// Asks whether the handler of a row may begin: it is locked. The locks of its batch are renewed for the longest time
    /// from now on.
    pub fn begin(&mut self, id: u64, row: usize, now: Now) -> bool {
        self.batches.get_mut(&id).is_some_and(|batch| batch.begin(row, now))
    }

    /// A loop over the records of a batch goes on to this row: the rows behind it are read ahead, and only released by
    /// what is decided of the holder's rows. `accepts`: the row before is accepted, if it is undecided. False if there is
    /// no such row, or if it is locked no more; it is released then. Locks as by [`Self::begin`].
    pub fn read(&mut self, id: u64, row: usize, accepts: bool, now: Now) -> bool {
        self.batches.get_mut(&id).is_some_and(|batch| batch.read(row, accepts, now))
    }

    /// Accepts what is undecided of all batches of a holder, who asks for the next one; except of those that were handed
    /// over, and of rows that a loop over records has not come to.
    pub fn accept_rest(&mut self, holder: u64) {
        for batch in self.batches.values_mut().filter(|batch| batch.holder == holder) {
            batch.accept_received();
        }
    }

    /// Decides what becomes of those of these rows of a batch that are undecided. Returns how many these are.
    pub fn decide_undecided(&mut self, id: u64, rows: Range<usize>, kind: AcknowledgeType) -> usize {
        self.batches.get_mut(&id).map_or(0, |batch| batch.decide(&[rows], kind))
    }

    /// Accepts what is undecided of a batch.
    pub fn accept_rest_of(&mut self, id: u64) {
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.decide_rest(AcknowledgeType::Accept);
        }
    }

    /// Releases what is undecided of all batches of a holder. Returns how many of these rows the user had received.
    pub fn release_rest_of(&mut self, holder: u64) -> usize {
        let mut released = 0;
        for batch in self.batches.values_mut().filter(|batch| batch.holder == holder) {
            released += batch.received_undecided();
            batch.decide_rest(AcknowledgeType::Release);
        }
        released
    }

    /// Releases what is undecided of all batches.
    pub fn release_rest(&mut self) {
        for batch in self.batches.values_mut() {
            batch.decide_rest(AcknowledgeType::Release);
        }
    }

    /// The number of locked rows in the user's hands that are undecided.
    pub fn undecided(&self, now: Now) -> usize {
        self.batches.values().map(|batch| batch.undecided(now)).sum()
    }

    /// Takes the decisions that were not sent: of all batches, or of one. Those whose locks are over are marked, and must
    /// not be sent: one such offset would fail all of its partition.
    pub fn take_decided(&mut self, only: Option<u64>, now: Now) -> Vec<(Acknowledgement, Option<AcknowledgeError>)> {
        let (mut taken, last_ticket) = (Vec::new(), &mut self.last_ticket);
        for (id, batch) in &mut self.batches {
            if batch.has_unsent() && only.is_none_or(|only| only == *id) {
                taken.extend(batch.take_decided(|| next(last_ticket)));
            }
        }
        self.batches.retain(|_, batch| !batch.is_sent());
        let late = |deadline: Now| (deadline <= now).then_some(AcknowledgeError::LockLost);
        taken.into_iter().map(|(taken, deadline)| (taken, late(deadline))).collect()
    }

    /// The renewals that are due. Take the decisions first: their locks are not renewed.
    pub fn due_renewals(&mut self, now: Now) -> Vec<Acknowledgement> {
        let (longest, last_ticket) = (self.longest_renewal, &mut self.last_ticket);
        let batches = self.batches.values_mut();
        batches.flat_map(|batch| batch.renewals(None, longest, now, || next(last_ticket))).collect()
    }

    /// Renewals as the user wants them of these rows of a batch, as far as they are undecided and locked, and of those
    /// that were acquired together with them. As [`Self::due_renewals`].
    pub fn renew(&mut self, id: u64, rows: &[Range<usize>], now: Now) -> Vec<Acknowledgement> {
        let (longest, last_ticket) = (self.longest_renewal, &mut self.last_ticket);
        let Some(batch) = self.batches.get_mut(&id) else { return Vec::new() };
        batch.renewals(Some(rows), longest, now, || next(last_ticket))
    }

    /// Those of these rows of a batch that are undecided and cannot be renewed, as renewals that are not sent, and why.
    pub fn not_renewable(
        &mut self,
        id: u64,
        rows: &[Range<usize>],
        now: Now,
    ) -> Vec<(Acknowledgement, AcknowledgeError)> {
        let last_ticket = &mut self.last_ticket;
        self.batches.get(&id).map_or_else(Vec::new, |batch| batch.not_renewable(rows, now, || next(last_ticket)))
    }

    /// Takes the outcome of a renewal: when the locks end now. One that failed is not tried again.
    pub fn renewed(&mut self, ticket: u64, outcome: &Result<Now, AcknowledgeError>) {
        let mut parts = self.batches.values_mut().flat_map(|batch| &mut batch.parts);
        if let Some(state) = parts.find(|state| state.renewal == Some(ticket)) {
            state.renewal = None;
            match outcome {
                // A renewal that a decision about all of its rows overtook changes nothing.
                Ok(deadline) => state.part.deadline = state.part.deadline.max(*deadline),
                Err(_) => state.is_final = true,
            }
        }
    }

    /// The locks of a session, or of one of its partitions, are gone.
    pub fn locks_lost(&mut self, session: SessionId, partition: Option<&TopicPartition>) {
        for state in self.batches.values_mut().flat_map(|batch| &mut batch.parts) {
            if state.part.session == session && partition.is_none_or(|partition| state.part.partition == *partition) {
                (state.is_final, state.part.deadline) = (true, Now::ZERO);
            }
        }
    }

    /// Records of a partition were acquired again: rows with these offsets that are in hand are locked no more, and no row
    /// that was acquired together with them.
    pub fn acquired_again(&mut self, partition: &TopicPartition, acquired: &[Acquired]) {
        for batch in self.batches.values_mut() {
            batch.acquired_again(partition, acquired);
        }
    }

    /// When the first lock of an undecided row of the batch ends; `None` if all are decided.
    pub fn deadline(&self, id: u64) -> Option<Now> {
        self.batches.get(&id)?.deadline()
    }

    /// The shortest time of a lock of rows in hand.
    pub fn shortest_lock(&self) -> Option<Duration> {
        self.batches.values().flat_map(|batch| &batch.parts).map(|state| state.part.lock_timeout).min()
    }

    /// When renewals are due, or decisions have to be sent.
    pub fn due(&self) -> Option<Now> {
        self.batches.values().filter_map(|batch| batch.due(self.longest_renewal)).min()
    }
}

fn next(last_ticket: &mut u64) -> u64 {
    *last_ticket += 1;
    *last_ticket
}
