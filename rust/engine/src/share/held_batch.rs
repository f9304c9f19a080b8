//! One batch in the user's hands: its rows, what was decided of each, and their locks.

use std::ops::Range;
use std::time::Duration;

use monedula_protocol::types::Uuid;

use super::acknowledgement::{AcknowledgeType, AcknowledgedRange, Acknowledgement};
use super::error::AcknowledgeError;
use super::io::{Acquired, SessionId};
use crate::{Now, TopicPartition};

/// Consecutive rows of a batch with consecutive offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRun {
    /// The first row.
    pub row: usize,
    /// Its offset.
    pub offset: i64,
    /// The number of rows.
    pub rows: usize,
}

/// The rows of a batch that were acquired together: of one partition, in one answer.
#[derive(Clone, Debug)]
pub struct HeldPart {
    /// The session in which they were acquired.
    pub session: SessionId,
    /// The partition.
    pub partition: TopicPartition,
    /// The id of its topic.
    pub topic_id: Uuid,
    /// The offsets of the rows, ascending.
    pub runs: Vec<RowRun>,
    /// Acquired offsets without a record, which are acknowledged as gaps when the rows are handed out.
    pub gaps: Vec<(i64, i64)>,
    /// When the locks end.
    pub deadline: Now,
    /// How long a lock lasts.
    pub lock_timeout: Duration,
}

impl HeldPart {
    /// An acknowledgement of offsets of the part.
    pub fn acknowledgement(&self, ticket: u64, ranges: Vec<AcknowledgedRange>) -> Acknowledgement {
        let Self { session, partition, topic_id, .. } = self;
        Acknowledgement { ticket, session: *session, partition: partition.clone(), topic_id: *topic_id, ranges }
    }

    /// An acknowledgement of the offsets without a record, if there are any.
    pub(super) fn take_gaps(&mut self, ticket: impl FnOnce() -> u64) -> Option<Acknowledgement> {
        let gap = |(first, last)| AcknowledgedRange { first, last, kind: AcknowledgeType::Gap };
        let ranges: Vec<AcknowledgedRange> = std::mem::take(&mut self.gaps).into_iter().map(gap).collect();
        (!ranges.is_empty()).then(|| self.acknowledgement(ticket(), ranges))
    }

    fn rows(&self) -> Range<usize> {
        let end = self.runs.last().map_or(0, |run| run.row + run.rows);
        self.runs.first().map_or(0, |run| run.row)..end
    }
}

/// A part of the batch, and how far it is.
#[derive(Debug)]
pub(super) struct PartState {
    pub(super) part: HeldPart,
    /// The ticket of the renewal under way.
    pub(super) renewal: Option<u64>,
    /// The broker renews the locks no more, or they are gone.
    pub(super) is_final: bool,
}

impl PartState {
    /// When the locks are to be renewed: at 60 % of their time.
    fn renewal_due(&self) -> Now {
        self.part.deadline.saturating_sub(self.part.lock_timeout.mul_f64(0.4))
    }
}

const UNDECIDED: u8 = u8::MAX;
/// The decision was handed over to be sent.
const SENT: u8 = UNDECIDED - 1;

/// A batch in the user's hands.
#[derive(Debug)]
pub(super) struct HeldBatch {
    pub(super) holder: u64,
    /// The rows before this one were received by the user; it and the others wait for a loop over records, or for handlers.
    first_unread: usize,
    /// When the rows were received, or the last handler of one began.
    since: Now,
    pub(super) parts: Vec<PartState>,
    /// What was decided, one byte a row: the number of an acknowledgement type, or one of the above.
    decisions: Vec<u8>,
    undecided: usize,
    /// Rows that are decided and not sent.
    unsent: usize,
}

impl HeldBatch {
    pub(super) fn new(holder: u64, parts: Vec<HeldPart>, now: Now) -> Self {
        let rows = parts.last().map_or(0, |part| part.rows().end);
        let parts = parts.into_iter().map(|part| PartState { part, renewal: None, is_final: false }).collect();
        let decisions = vec![UNDECIDED; rows];
        Self { holder, first_unread: rows, since: now, parts, decisions, undecided: rows, unsent: 0 }
    }

    pub(super) fn rows(&self) -> usize {
        self.decisions.len()
    }

    pub(super) fn hand_over(&mut self) -> Vec<(TopicPartition, Range<usize>)> {
        self.first_unread = 0;
        self.parts.iter().map(|state| (state.part.partition.clone(), state.part.rows())).collect()
    }

    /// True if the row is locked; then the locks are renewed for the longest time from now on.
    pub(super) fn begin(&mut self, row: usize, now: Now) -> bool {
        let is_locked = |state: &PartState| state.part.rows().contains(&row) && state.part.deadline > now;
        let begins = self.parts.iter().any(is_locked);
        if begins {
            self.since = now;
        }
        begins
    }

    /// A loop over records goes on to this row. `accepts`: the row before is accepted, if it is undecided. False if there is
    /// no such row, or if it is locked no more; it is released then.
    pub(super) fn read(&mut self, row: usize, accepts: bool, now: Now) -> bool {
        if let Some(before) = row.checked_sub(1).filter(|_| accepts) {
            self.decide(std::slice::from_ref(&(before..row)), AcknowledgeType::Accept);
        }
        let rows = self.rows();
        self.first_unread = (row + 1).min(rows);
        let begins = self.begin(row, now);
        if !begins {
            self.decide(std::slice::from_ref(&(row.min(rows)..self.first_unread)), AcknowledgeType::Release);
        }
        begins
    }

    /// The number of locked rows that are undecided.
    pub(super) fn undecided(&self, now: Now) -> usize {
        let locked = self.parts.iter().filter(|state| state.part.deadline > now).map(|state| state.part.rows());
        locked.map(|rows| self.decisions[rows].iter().filter(|decision| **decision == UNDECIDED).count()).sum()
    }

    /// True if the user has had the rows for this long, the locks of all that are undecided are over, and there is nothing
    /// to send.
    pub(super) fn is_abandoned(&self, after: Duration, now: Now) -> bool {
        let is_over = || self.deadline().is_some_and(|deadline| deadline <= now);
        self.since.saturating_add(after) <= now && self.unsent == 0 && is_over()
    }

    pub(super) fn received_undecided(&self) -> usize {
        self.decisions[..self.first_unread].iter().filter(|&&decision| decision == UNDECIDED).count()
    }

    pub(super) fn is_sent(&self) -> bool {
        self.undecided == 0 && self.unsent == 0
    }

    /// What was decided of the row; `None` if nothing was, or if it was sent already.
    pub(super) fn decision(&self, row: usize) -> Option<u8> {
        self.decisions.get(row).copied().filter(|decision| *decision < SENT)
    }

    /// The first of these rows of which something else was decided.
    pub(super) fn conflict(&self, rows: &[Range<usize>], kind: AcknowledgeType) -> Option<usize> {
        let differs = |row: &usize| ![UNDECIDED, kind.id() as u8].contains(&self.decisions[*row]);
        rows.iter().flat_map(Clone::clone).find(differs)
    }

    /// Decides all of these rows that are undecided. Returns how many these are.
    pub(super) fn decide(&mut self, rows: &[Range<usize>], kind: AcknowledgeType) -> usize {
        let before = self.undecided;
        for decision in rows.iter().flat_map(|rows| rows.clone()) {
            let decision = &mut self.decisions[decision];
            if *decision == UNDECIDED {
                *decision = kind.id() as u8;
                (self.undecided, self.unsent) = (self.undecided - 1, self.unsent + 1);
            }
        }
        before - self.undecided
    }

    /// Accepts what the user has received and not decided. What was read ahead would be lost if the program ended.
    pub(super) fn accept_received(&mut self) {
        let received = 0..self.first_unread;
        self.decide(std::slice::from_ref(&received), AcknowledgeType::Accept);
    }

    pub(super) fn decide_rest(&mut self, kind: AcknowledgeType) {
        let all = 0..self.rows();
        self.decide(std::slice::from_ref(&all), kind);
    }

    /// The row with this offset, if it is in the user's hands.
    pub(super) fn row_of(&self, partition: &TopicPartition, offset: i64) -> Option<usize> {
        let runs = self.parts.iter().filter(|it| it.part.partition == *partition).flat_map(|it| &it.part.runs);
        let mut runs = runs.filter(|run| (run.offset..run.offset + run.rows as i64).contains(&offset));
        runs.next().map(|run| run.row + (offset - run.offset) as usize)
    }

    /// Takes the decisions that were not sent, by part. `ticket` numbers them.
    pub(super) fn take_decided(&mut self, mut ticket: impl FnMut() -> u64) -> Vec<(Acknowledgement, Now)> {
        let mut taken = Vec::new();
        for PartState { part, .. } in &self.parts {
            let mut ranges = Vec::new();
            for run in &part.runs {
                for (index, decision) in self.decisions[run.row..run.row + run.rows].iter_mut().enumerate() {
                    let Some(kind) = AcknowledgeType::ALL.get(usize::from(*decision)).copied() else { continue };
                    *decision = SENT;
                    self.unsent -= 1;
                    extend(&mut ranges, run.offset + index as i64, kind);
                }
            }
            if ranges.is_empty() {
                continue;
            }
            taken.push((part.acknowledgement(ticket(), ranges), part.deadline));
        }
        taken
    }

    /// The renewals of undecided rows: of the parts that have some of `rows`, or, if that is `None`, of those that are due
    /// and were in hand for less than `longest`. All undecided rows of a part are renewed: they have one deadline.
    pub(super) fn renewals(
        &mut self,
        rows: Option<&[Range<usize>]>,
        longest: Duration,
        now: Now,
        mut ticket: impl FnMut() -> u64,
    ) -> Vec<Acknowledgement> {
        let (mut renewals, until) = (Vec::new(), self.since.saturating_add(longest));
        for state in &mut self.parts {
            if state.part.deadline <= now {
                state.is_final = true;
            }
            let part = state.part.rows();
            let is_meant = match rows {
                Some(rows) => rows.iter().any(|named| named.start < part.end && part.start < named.end),
                None => state.renewal_due() <= now && state.renewal_due() < until,
            };
            if state.is_final || state.renewal.is_some() || !is_meant {
                continue;
            }
            let mut ranges = Vec::new();
            for run in &state.part.runs {
                for row in (run.row..run.row + run.rows).filter(|row| self.decisions[*row] == UNDECIDED) {
                    extend(&mut ranges, run.offset + (row - run.row) as i64, AcknowledgeType::Renew);
                }
            }
            if !ranges.is_empty() {
                let ticket = ticket();
                state.renewal = Some(ticket);
                renewals.push(state.part.acknowledgement(ticket, ranges));
            }
        }
        renewals
    }

    /// Those of `rows` that are undecided and locked no more, or whose locks the broker did not renew, by part.
    pub(super) fn not_renewable(
        &self,
        rows: &[Range<usize>],
        now: Now,
        mut ticket: impl FnMut() -> u64,
    ) -> Vec<(Acknowledgement, AcknowledgeError)> {
        let mut refused = Vec::new();
        for PartState { part, is_final, .. } in &self.parts {
            let error = match (part.deadline <= now, is_final) {
                (true, _) => AcknowledgeError::LockLost,
                (false, true) => AcknowledgeError::NotRenewed,
                (false, false) => continue,
            };
            let mut ranges = Vec::new();
            for run in &part.runs {
                let undecided = (run.row..run.row + run.rows).filter(|row| self.decisions[*row] == UNDECIDED);
                for row in undecided.filter(|row| rows.iter().any(|named| named.contains(row))) {
                    extend(&mut ranges, run.offset + (row - run.row) as i64, AcknowledgeType::Renew);
                }
            }
            if !ranges.is_empty() {
                refused.push((part.acknowledgement(ticket(), ranges), error));
            }
        }
        refused
    }

    /// Records of a partition were acquired again: the locks end of the parts with such rows, unless these were sent.
    pub(super) fn acquired_again(&mut self, partition: &TopicPartition, acquired: &[Acquired]) {
        for state in self.parts.iter_mut().filter(|state| state.part.partition == *partition) {
            let is_in_hand = |run: &RowRun, range: &Acquired| {
                let first = range.first.max(run.offset) - run.offset;
                let end = range.last.min(run.offset + run.rows as i64 - 1) - run.offset + 1;
                let rows = run.row + first as usize..run.row + end as usize;
                self.decisions[rows].iter().any(|decision| *decision != SENT)
            };
            let is_again = |run: &RowRun| {
                let mut ranges = acquired.iter().filter(|it| it.overlaps(run.offset, run.offset + run.rows as i64 - 1));
                ranges.any(|range| is_in_hand(run, range))
            };
            if state.part.runs.iter().any(is_again) {
                (state.is_final, state.part.deadline) = (true, Now::ZERO);
            }
        }
    }

    /// When a lock of an undecided row ends first.
    pub(super) fn deadline(&self) -> Option<Now> {
        self.open_parts().map(|state| state.part.deadline).min()
    }

    /// When locks of undecided rows are to be renewed, unless that went on for `longest` already; or when decisions have
    /// to be sent, for their locks are not renewed.
    pub(super) fn due(&self, longest: Duration) -> Option<Now> {
        let until = self.since.saturating_add(longest);
        let open = self.open_parts().filter(|state| state.renewal.is_none() && !state.is_final);
        let renewals = open.map(PartState::renewal_due).filter(|due| *due < until);
        let unsent = self.parts.iter().filter(|_| self.unsent > 0).map(PartState::renewal_due);
        renewals.chain(unsent).min()
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.unsent > 0
    }

    fn open_parts(&self) -> impl Iterator<Item = &PartState> {
        let is_open = |state: &&PartState| self.decisions[state.part.rows()].contains(&UNDECIDED);
        self.parts.iter().filter(is_open)
    }
}

fn extend(ranges: &mut Vec<AcknowledgedRange>, offset: i64, kind: AcknowledgeType) {
    match ranges.last_mut() {
        Some(last) if last.kind == kind && last.last + 1 == offset => last.last = offset,
        _ => ranges.push(AcknowledgedRange { first: offset, last: offset, kind }),
    }
}
