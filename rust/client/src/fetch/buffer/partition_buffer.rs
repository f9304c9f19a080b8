//! The queue of one partition: records fetched and not handed out, the position, and reasons that hold it back.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use monedula_columns::{AbortedTransaction, PartitionWalker, WalkOptions};
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Fetched;
use monedula_engine::ledger::OffsetAndEpoch;

use super::lease::LeaseClock;
use super::work_gate::{PartitionGate, WorkGate};
use crate::budget::Charge;
use crate::error::ClientError;
use crate::fetch::inflate::Segment;

/// Position and state of a partition.
#[derive(Clone, Debug, Default)]
pub struct PartitionStatus {
    /// Next offset to be handed out, once known.
    pub position: Option<i64>,
    /// Offset after the last replicated record, as of the last fetch.
    pub high_watermark: Option<i64>,
    /// Offset after the last record that read_committed may see.
    pub last_stable_offset: Option<i64>,
    /// Smallest offset of the log.
    pub log_start_offset: Option<i64>,
    /// True if it is paused.
    pub paused: bool,
    /// Records fetched and not yet handed out, as their batches claim.
    pub queued_records: u64,
    /// Bytes of them, as fetched.
    pub queued_bytes: usize,
    /// Offset before which everything is finished, where there is a `group.id` and that is known.
    pub finished: Option<i64>,
    /// Reason that it stopped.
    pub fault: Option<ClientError>,
}

/// Reason that nothing of a partition is to be handed out or fetched, whatever there is. Several may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HoldReason {
    Paused,
    /// The partition is being revoked: released once the user has finished what it holds of it.
    Revoked,
    /// The driver does not read it yet: its committed offset, where it starts, is not known.
    StartUnknown,
    /// The user's on_assigned for it has not ended.
    OnAssigned,
    /// A loop with `until` has handed out all that it wants of it, or does not know yet where to stop.
    AtBound,
    /// The next record waits for something, such as a schema, or for the error that it did not come to be raised.
    Lookup,
    /// A read in the order of the partitions is at an earlier one. The partition may be fetched all the same.
    Turn,
}

impl HoldReason {
    /// True if not even rows of batches that were handed out before may be taken.
    fn closes_rows(self) -> bool {
        !matches!(self, Self::AtBound | Self::Lookup)
    }
}

/// End of a partition for a loop with `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    None,
    /// Offset that is being looked up.
    Unknown,
    /// Rows before this offset.
    At(i64),
}

/// Data to be walked, in the order of the log.
pub(super) enum Piece {
    /// A run of whole record batches, all from one fetch, with the aborted transactions that they may hold parts of.
    Records(Arc<Segment>, Arc<[AbortedTransaction]>),
    /// Walking goes on at this offset: the log no longer holds the one before.
    Position(i64),
    /// The partition stopped here.
    Fault(ClientError),
}

/// End of a walk of the partition.
pub(super) enum WalkEnd {
    /// All that it had is walked.
    Drained,
    /// The partition may have more rows, or waits before a record.
    Stopped,
    /// The partition cannot go on.
    Failed(ClientError),
}

pub(super) struct PartitionBuffer {
    fetched: FetchedData,
    /// Exclusive end of a bounded read.
    end: Option<i64>,
    bound: Bound,
    holds: BTreeSet<HoldReason>,
    /// The reading of the assignment. Batches of an older one are not this consumer's any more.
    assigned_reading_id: u64,
    /// The reading of the assignment or the last seek. Batches of an older one count for nothing. A younger reading,
    /// without a seek, only fetches again what was taken back.
    position_reading_id: u64,
    /// True if a group assigned it, and not the user by hand.
    is_owned: bool,
    in_ready_queue: bool,
    /// Closes with the assignment and with each seek.
    gate: PartitionGate,
}

/// Data that goes when the partition is fetched anew.
#[derive(Default)]
struct FetchedData {
    /// The present reading. What was fetched for another one is dropped.
    reading_id: u64,
    /// `None` while a batch is being built from it.
    walker: Option<PartitionWalker>,
    pieces: VecDeque<Piece>,
    /// Records not yet walked, as their batches claim.
    queued_records: u64,
    queued_bytes: usize,
    /// Offset after what was fetched.
    fetched_to: Option<i64>,
    /// Budget held by decompressed data inside the walker.
    inflated: Option<Charge>,
    /// True if the walker holds data that is not walked yet.
    mid_piece: bool,
    /// Next offset to hand out; `None` until the driver has found it.
    position: Option<i64>,
    /// The offset that the user asked for, shown as the position until the driver has found that.
    target: Option<i64>,
    log: LogEnds,
    /// Reason that the partition stopped, until a seek.
    fault: Option<ClientError>,
}

/// The ends of the log, as of the last fetch.
#[derive(Clone, Copy, Default)]
struct LogEnds {
    high_watermark: Option<i64>,
    last_stable_offset: Option<i64>,
    log_start_offset: Option<i64>,
}

impl PartitionBuffer {
    /// Makes the buffer of a partition that is assigned by hand.
    pub(super) fn new(reading_id: u64, end: Option<i64>, bound: Bound) -> Self {
        Self {
            fetched: FetchedData { reading_id, ..FetchedData::default() },
            end,
            bound,
            holds: (bound == Bound::Unknown).then_some(HoldReason::AtBound).into_iter().collect(),
            assigned_reading_id: reading_id,
            position_reading_id: reading_id,
            is_owned: false,
            in_ready_queue: false,
            gate: PartitionGate::default(),
        }
    }

    /// Makes the buffer of a partition that a group assigned.
    pub(super) fn owned(reading_id: u64, bound: Bound) -> Self {
        let mut buffer = Self { is_owned: true, ..Self::new(reading_id, None, bound) };
        buffer.holds.extend([HoldReason::StartUnknown, HoldReason::OnAssigned]);
        buffer
    }

    pub(super) fn reading_id(&self) -> u64 {
        self.fetched.reading_id
    }

    /// True if rows of this reading count: the partition was neither sought nor assigned anew since.
    pub(super) fn counts(&self, reading_id: u64) -> bool {
        reading_id >= self.position_reading_id
    }

    /// True if rows of this reading are of the assignment that there is now.
    pub(super) fn is_of_assignment(&self, reading_id: u64) -> bool {
        reading_id >= self.assigned_reading_id
    }

    pub(super) fn is_owned(&self) -> bool {
        self.is_owned
    }

    pub(super) fn end(&self) -> Option<i64> {
        self.end
    }

    pub(super) fn bound(&self) -> Bound {
        self.bound
    }

    /// Lets `reason` hold the partition back from now on, or no more.
    pub(super) fn set_held(&mut self, reason: HoldReason, holds: bool) {
        match holds {
            true => self.holds.insert(reason),
            false => self.holds.remove(&reason),
        };
    }

    pub(super) fn is_held_by(&self, reason: HoldReason) -> bool {
        self.holds.contains(&reason)
    }

    /// True if nothing of it is to be handed out or fetched, whatever there is.
    pub(super) fn is_held_back(&self) -> bool {
        !self.holds.is_empty()
    }

    /// True if not even rows of batches that were handed out before may be taken.
    pub(super) fn is_closed_to_rows(&self) -> bool {
        self.holds.iter().any(|reason| reason.closes_rows())
    }

    fn has_queued(&self) -> bool {
        self.fetched.mid_piece || !self.fetched.pieces.is_empty()
    }

    /// True if something can be handed out.
    pub(super) fn has_data(&self) -> bool {
        !self.is_held_back() && self.fetched.fault.is_none() && self.has_queued()
    }

    /// True if it holds memory although nothing of it may be handed out.
    pub(super) fn pins_memory(&self) -> bool {
        self.is_held_back() && self.fetched.walker.is_some() && self.has_queued()
    }

    /// True if a bounded read of it is over.
    pub(super) fn is_done(&self) -> bool {
        matches!((self.fetched.position, self.end), (Some(position), Some(end)) if position >= end)
    }

    /// True if a bounded read has fetched all of it.
    pub(super) fn is_fetched(&self) -> bool {
        matches!((self.fetched.fetched_to, self.end), (Some(next), Some(end)) if next >= end)
    }

    pub(super) fn fault(&self) -> Option<&ClientError> {
        self.fetched.fault.as_ref()
    }

    /// Forgets the reason of the stop. False if there was none.
    pub(super) fn forget_fault(&mut self) -> bool {
        self.fetched.fault.take().is_some()
    }

    /// Records and bytes that are not walked yet.
    pub(super) fn queued(&self) -> (u64, usize) {
        (self.fetched.queued_records, self.fetched.queued_bytes)
    }

    /// Puts it into the ready queue; returns whether it stood there already.
    pub(super) fn enter_ready_queue(&mut self) -> bool {
        std::mem::replace(&mut self.in_ready_queue, true)
    }

    pub(super) fn leave_ready_queue(&mut self) {
        self.in_ready_queue = false;
    }

    /// Drops everything that was fetched; the partition is read as `reading_id` from now on.
    fn restart(&mut self, reading_id: u64) {
        self.fetched = FetchedData { reading_id, ..FetchedData::default() };
    }

    /// The partition is read elsewhere, as `reading_id`: no batch that was handed out before counts any more.
    pub(super) fn seek(&mut self, reading_id: u64) {
        self.restart(reading_id);
        self.position_reading_id = reading_id;
        self.gate.seek();
    }

    /// The partition is fetched again from the next offset to be handed out on, as `reading_id`.
    pub(super) fn read_again(&mut self, reading_id: u64, from: i64) {
        let log = self.fetched.log;
        self.restart(reading_id);
        (self.fetched.log, self.fetched.target) = (log, Some(from));
    }

    /// The offset that is shown as the position until the driver has found that.
    pub(super) fn aim(&mut self, offset: i64) {
        self.fetched.target = Some(offset);
    }

    /// Goes on where the driver found the start, or the place after a lost position. Returns whether it starts now.
    pub(super) fn positioned(&mut self, partition: &TopicPartition, offset: i64, options: &WalkOptions) -> bool {
        let starts = self.fetched.position.is_none();
        match starts {
            true => self.walk_from(partition, offset, options),
            false => self.fetched.pieces.push_back(Piece::Position(offset)),
        }
        starts
    }

    /// Takes the records of a fetch. Returns whether any may be handed out some time.
    pub(super) fn push(&mut self, fetched: &Fetched, bytes: usize, pieces: impl Iterator<Item = Piece>) -> bool {
        self.fetched.log = LogEnds {
            high_watermark: Some(fetched.high_watermark),
            last_stable_offset: Some(fetched.last_stable_offset).filter(|&offset| offset >= 0),
            log_start_offset: Some(fetched.log_start_offset).filter(|&offset| offset >= 0),
        };
        self.fetched.fetched_to = Some(fetched.next_offset);
        // Nothing of a partition that stopped is handed out before a seek: it would only take memory.
        if bytes == 0 || self.fetched.fault.is_some() {
            return false;
        }
        self.fetched.queued_records += fetched.record_count;
        self.fetched.queued_bytes += bytes;
        self.fetched.pieces.extend(pieces);
        true
    }

    /// The partition stopped. The error is returned if nothing that was fetched comes before it.
    pub(super) fn stop(&mut self, error: ClientError) -> Option<ClientError> {
        if self.has_queued() {
            self.fetched.pieces.push_back(Piece::Fault(error));
            return None;
        }
        self.fetched.fault = Some(error.clone());
        Some(error)
    }

    /// The partition cannot be read before this is mended.
    pub(super) fn set_fault(&mut self, error: ClientError) {
        self.fetched.fault = Some(error);
    }

    /// Takes the walker, to build a batch.
    pub(super) fn take_walker(&mut self) -> Option<PartitionWalker> {
        self.fetched.walker.take()
    }

    /// Takes the next piece, with the bytes that are queued no more.
    pub(super) fn next_piece(&mut self) -> Option<(Piece, usize)> {
        self.fetched.inflated = None;
        let piece = self.fetched.pieces.pop_front()?;
        let bytes = match &piece {
            Piece::Records(segment, _) => segment.compressed_bytes(),
            Piece::Position(_) | Piece::Fault(_) => 0,
        };
        self.fetched.queued_bytes = self.fetched.queued_bytes.saturating_sub(bytes);
        Some((piece, bytes))
    }

    /// Keeps the budget of data that the walker, which is taken, holds decompressed.
    pub(super) fn keep_charge(&mut self, charge: Charge) {
        self.fetched.inflated = Some(charge);
    }

    /// A walker in place of the one that is taken: it goes on at `offset`.
    pub(super) fn walker_at(
        &mut self,
        partition: &TopicPartition,
        offset: i64,
        options: &WalkOptions,
    ) -> PartitionWalker {
        let mut walker = PartitionWalker::new(partition.topic.clone(), partition.partition, offset, *options);
        walker.set_end(self.walk_end());
        self.fetched.position = Some(offset);
        walker
    }

    fn walk_from(&mut self, partition: &TopicPartition, offset: i64, options: &WalkOptions) {
        self.fetched.walker = Some(self.walker_at(partition, offset, options));
    }

    /// Gives the walker back after `rows` of it were walked. Returns records and bytes that are queued no more.
    pub(super) fn put_back(&mut self, walker: PartitionWalker, end: WalkEnd, rows: u64) -> (u64, usize) {
        let fetched = &mut self.fetched;
        fetched.position = Some(walker.position());
        fetched.mid_piece = matches!(end, WalkEnd::Stopped) && walker.pending_bytes() > 0;
        fetched.walker = Some(walker);
        if let WalkEnd::Failed(error) = end {
            fetched.fault = Some(error);
            fetched.inflated = None;
            fetched.pieces.clear();
        }
        // Batches claim how many records they hold; where nothing is left, nothing is claimed any more.
        let (queued_records, queued_bytes) = self.queued();
        let (records, bytes) =
            if self.has_data() { (rows.min(queued_records), 0) } else { (queued_records, queued_bytes) };
        self.fetched.queued_records -= records;
        self.fetched.queued_bytes -= bytes;
        (records, bytes)
    }

    /// True if the walker is in the middle of a batch that it decompressed.
    pub(super) fn holds_payload(&self) -> bool {
        self.fetched.walker.as_ref().is_some_and(PartitionWalker::holds_payload)
    }

    /// Drops a batch that the walker decompressed.
    pub(super) fn shelve(&mut self) {
        if let Some(walker) = &mut self.fetched.walker {
            walker.shelve();
        }
    }

    /// Drops what was fetched and not handed out, to make room; returns where it is to be fetched again from.
    pub(super) fn evict(&mut self, partition: &TopicPartition, options: &WalkOptions) -> Option<i64> {
        // Where the log was truncated in between, reading went on at a smaller offset, and those behind it may be out
        // of range.
        let cuts = self.fetched.pieces.iter().filter_map(|piece| match piece {
            Piece::Position(offset) => Some(*offset),
            Piece::Records(..) | Piece::Fault(_) => None,
        });
        let position = cuts.fold(self.fetched.position?, i64::min);
        self.fetched.pieces.clear();
        (self.fetched.queued_records, self.fetched.queued_bytes, self.fetched.mid_piece) = (0, 0, false);
        (self.fetched.inflated, self.fetched.fetched_to) = (None, None);
        self.walk_from(partition, position, options);
        Some(position)
    }

    /// End of walking: of a bounded read, or of a loop with `until`.
    fn walk_end(&self) -> Option<i64> {
        match self.bound {
            Bound::At(end) => Some(self.end.map_or(end, |own| own.min(end))),
            Bound::None | Bound::Unknown => self.end,
        }
    }

    /// True if a loop with `until` has nothing more to hand out of it for now.
    fn is_at_bound(&self) -> bool {
        match self.bound {
            Bound::None => false,
            Bound::Unknown => true,
            Bound::At(end) => self.fetched.position.is_some_and(|position| position >= end),
        }
    }

    pub(super) fn set_bound(&mut self, bound: Bound) {
        self.bound = bound;
        self.hold_at_bound();
        let end = self.walk_end();
        if let Some(walker) = &mut self.fetched.walker {
            walker.set_end(end);
        }
    }

    /// True if the position has come to the bound, or left it, since [`Self::hold_at_bound`].
    pub(super) fn crossed_bound(&self) -> bool {
        self.is_held_by(HoldReason::AtBound) != self.is_at_bound()
    }

    /// Holds the partition back if it is at the bound, and no more if it is not.
    pub(super) fn hold_at_bound(&mut self) {
        self.set_held(HoldReason::AtBound, self.is_at_bound());
    }

    /// True if it is read to the known bound of a loop with `until`.
    pub(super) fn is_read_to_bound(&self) -> bool {
        self.is_held_by(HoldReason::AtBound) && matches!(self.bound, Bound::At(_))
    }

    /// The walker's place; `None` where it is taken, or there is none yet.
    pub(super) fn walked_to(&self) -> Option<OffsetAndEpoch> {
        let at = |walker: &PartitionWalker| OffsetAndEpoch {
            offset: walker.position(),
            leader_epoch: walker.position_leader_epoch(),
        };
        self.fetched.walker.as_ref().map(at)
    }

    /// The gate of rows of this reading; `None` if they count for nothing any more.
    pub(super) fn work_gate(&self, reading_id: u64, clock: &Arc<LeaseClock>) -> Option<WorkGate> {
        self.counts(reading_id).then(|| self.gate.work_gate(clock))
    }

    pub(super) fn status(&self) -> PartitionStatus {
        let fetched = &self.fetched;
        let LogEnds { high_watermark, last_stable_offset, log_start_offset } = fetched.log;
        PartitionStatus {
            position: fetched.position.or(fetched.target),
            high_watermark,
            last_stable_offset,
            log_start_offset,
            paused: self.is_held_by(HoldReason::Paused),
            queued_records: fetched.queued_records,
            queued_bytes: fetched.queued_bytes,
            finished: None,
            fault: fetched.fault.clone(),
        }
    }
}
