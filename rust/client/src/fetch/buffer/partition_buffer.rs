//! The buffer of one partition: what was fetched and not yet handed out, and where handing out stands.

use std::collections::VecDeque;
use std::sync::Arc;

use monedula_columns::{AbortedTransaction, PartitionWalker, WalkOptions};
use monedula_engine::TopicPartition;

use super::PartitionStatus;
use super::until::Bound;
use super::work::PartitionGate;
use crate::budget::Charge;
use crate::error::ClientError;
use crate::fetch::inflate::Segment;

/// What is to be walked, in this order.
pub(super) enum Piece {
    /// Whole record batches, all from one fetch.
    Data(Data),
    /// Go on at this offset: the log no longer holds the one before.
    Position(i64),
    /// The partition stopped here.
    Fault(ClientError),
}

/// A run of record batches, with the aborted transactions that they may hold parts of.
pub(super) struct Data {
    pub(super) segment: Arc<Segment>,
    pub(super) aborted: Arc<[AbortedTransaction]>,
}

/// The buffer of one partition.
pub(super) struct PartitionBuffer {
    /// Changes with each assignment and seek: what was fetched for another span is dropped.
    pub(super) span: u64,
    /// `None` while a batch is being built from it.
    pub(super) walker: Option<PartitionWalker>,
    pub(super) pieces: VecDeque<Piece>,
    /// Records not yet walked, as their batches claim.
    pub(super) queued_records: u64,
    pub(super) queued_bytes: usize,
    /// Budget held by decompressed data inside the walker.
    pub(super) inflated: Option<Charge>,
    /// Whether the walker holds data that is not walked yet.
    pub(super) mid_piece: bool,
    /// Next offset to hand out; `None` until the driver has found it.
    pub(super) position: Option<i64>,
    /// The offset that the user asked for, shown as the position until the driver has found that.
    pub(super) target: Option<i64>,
    /// Exclusive end of a bounded read.
    pub(super) end: Option<i64>,
    /// Where a loop with `until` stops.
    pub(super) bound: Bound,
    /// Whether its next record waits for something, such as a schema, or for the error that it did not come to be
    /// raised.
    pub(super) awaits: bool,
    /// Whether nothing more of it is handed out in that loop.
    pub(super) bound_holds: bool,
    pub(super) paused: bool,
    /// The span of the assignment. Batches of an older one are not this consumer's any more.
    pub(super) assigned_span: u64,
    /// The span of the assignment or the last seek. Batches of an older one count for nothing. A younger span, without
    /// a seek, only fetches again what was taken back.
    pub(super) position_span: u64,
    /// Whether a group assigned it, and not the user by hand.
    pub(super) owned: bool,
    /// Whether the driver reads it: a partition that starts at its committed offset waits until that is known.
    pub(super) started: bool,
    /// Whether the user's on_assigned for it has ended, or there is none.
    pub(super) on_assigned_done: bool,
    /// Whether it is being revoked: released once the user has finished what it holds of it.
    pub(super) revoking: bool,
    /// Whether it stands in the ready queue.
    pub(super) in_ready_queue: bool,
    pub(super) high_watermark: Option<i64>,
    pub(super) last_stable_offset: Option<i64>,
    pub(super) log_start_offset: Option<i64>,
    /// Why the partition stopped, until a seek.
    pub(super) fault: Option<ClientError>,
    /// Closes with the assignment and with each seek.
    pub(super) gate: PartitionGate,
}

impl PartitionBuffer {
    pub(super) fn new(span: u64, end: Option<i64>) -> Self {
        Self {
            span,
            walker: None,
            pieces: VecDeque::new(),
            queued_records: 0,
            queued_bytes: 0,
            inflated: None,
            mid_piece: false,
            position: None,
            target: None,
            end,
            bound: Bound::None,
            awaits: false,
            bound_holds: false,
            paused: false,
            assigned_span: span,
            position_span: span,
            owned: false,
            started: true,
            on_assigned_done: true,
            revoking: false,
            in_ready_queue: false,
            high_watermark: None,
            last_stable_offset: None,
            log_start_offset: None,
            fault: None,
            gate: PartitionGate::default(),
        }
    }

    /// Whether something can be handed out.
    pub(super) fn has_data(&self) -> bool {
        !self.is_held_back() && self.fault.is_none() && (self.mid_piece || !self.pieces.is_empty())
    }

    /// Whether it holds memory although nothing of it may be handed out.
    pub(super) fn pins_memory(&self) -> bool {
        self.is_held_back() && self.walker.is_some() && (self.mid_piece || !self.pieces.is_empty())
    }

    /// Whether nothing of it is to be handed out or fetched, whatever there is.
    pub(super) fn is_held_back(&self) -> bool {
        self.is_closed_to_rows() || self.bound_holds || self.awaits
    }

    /// Whether not even rows of batches that were handed out before may be taken.
    pub(super) fn is_closed_to_rows(&self) -> bool {
        self.paused || self.revoking || !self.started || !self.on_assigned_done
    }

    /// Whether a loop with `until` has nothing more to hand out of it for now.
    pub(super) fn is_at_bound(&self) -> bool {
        match self.bound {
            Bound::None => false,
            Bound::Unknown => true,
            Bound::At(end) => self.position.is_some_and(|position| position >= end),
        }
    }

    /// Whether a bounded read of it is over.
    pub(super) fn is_done(&self) -> bool {
        matches!((self.position, self.end), (Some(position), Some(end)) if position >= end)
    }

    /// Drops everything that was fetched; the partition is read as `span` from now on.
    pub(super) fn restart(&mut self, span: u64) {
        let Self {
            end,
            bound,
            awaits,
            bound_holds,
            paused,
            assigned_span,
            position_span,
            owned,
            started,
            on_assigned_done,
            revoking,
            in_ready_queue,
            ..
        } = *self;
        let gate = std::mem::take(&mut self.gate);
        *self = Self {
            gate,
            bound,
            awaits,
            bound_holds,
            paused,
            assigned_span,
            position_span,
            owned,
            started,
            on_assigned_done,
            revoking,
            in_ready_queue,
            ..Self::new(span, end)
        };
    }

    /// Drops what was fetched and not handed out, to make room; returns where it is to be fetched again from.
    pub(super) fn evict(&mut self, partition: &TopicPartition, options: &WalkOptions) -> Option<i64> {
        // Where the log was truncated in between, reading went on at a smaller offset, and those behind it may be out
        // of range.
        let cuts = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Position(offset) => Some(*offset),
            Piece::Data(_) | Piece::Fault(_) => None,
        });
        let position = cuts.fold(self.position?, i64::min);
        self.pieces.clear();
        (self.queued_records, self.queued_bytes, self.mid_piece) = (0, 0, false);
        self.inflated = None;
        self.walk_from(partition, position, options);
        Some(position)
    }

    pub(super) fn status(&self) -> PartitionStatus {
        PartitionStatus {
            position: self.position.or(self.target),
            high_watermark: self.high_watermark,
            last_stable_offset: self.last_stable_offset,
            log_start_offset: self.log_start_offset,
            paused: self.paused,
            queued_records: self.queued_records,
            queued_bytes: self.queued_bytes,
            finished: None,
            fault: self.fault.clone(),
        }
    }

    /// Where walking stops: at the end of a bounded read, or of a loop with `until`.
    pub(super) fn walk_end(&self) -> Option<i64> {
        match self.bound {
            Bound::At(end) => Some(self.end.map_or(end, |own| own.min(end))),
            Bound::None | Bound::Unknown => self.end,
        }
    }

    pub(super) fn walk_from(&mut self, partition: &TopicPartition, offset: i64, options: &WalkOptions) {
        let mut walker = PartitionWalker::new(partition.topic.clone(), partition.partition, offset, *options);
        walker.set_end(self.walk_end());
        self.walker = Some(walker);
        self.position = Some(offset);
    }
}
