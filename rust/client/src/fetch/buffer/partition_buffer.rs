//! One partition on its way to the user: what was fetched and not yet handed out, and where handing out stands.

use std::collections::VecDeque;
use std::sync::Arc;

use monedula_columns::{AbortedTransaction, PartitionWalker, WalkOptions};
use monedula_engine::TopicPartition;

use super::PartitionStatus;
use crate::budget::Charge;
use crate::error::ClientError;
use crate::fetch::inflate::Segment;

/// What is to be walked next.
pub(super) enum Piece {
    /// Whole record batches, all from one fetch.
    Data(Data),
    /// Go on at this offset: the log no longer holds the one before.
    Position(i64),
    /// The partition stopped here.
    Fault(ClientError),
}

pub(super) struct Data {
    pub(super) segment: Arc<Segment>,
    pub(super) aborted: Arc<[AbortedTransaction]>,
}

pub(super) struct PartitionBuffer {
    /// Changes with each assignment and seek: what was fetched for another span is dropped.
    pub(super) span: u64,
    /// Out while a batch is being built from it.
    pub(super) walker: Option<PartitionWalker>,
    pub(super) pieces: VecDeque<Piece>,
    /// Records not yet walked, as their batches claim.
    pub(super) queued_records: u64,
    pub(super) queued_bytes: usize,
    /// Budget held by decompressed data inside the walker.
    pub(super) inflated: Option<Charge>,
    /// Whether the walker holds data that is not walked yet.
    pub(super) mid_piece: bool,
    /// Next offset to hand out; unknown until a lookup is answered.
    pub(super) position: Option<i64>,
    /// The offset asked for, told as the position until the driver has looked at it.
    pub(super) target: Option<i64>,
    /// Exclusive end of a bounded read.
    pub(super) end: Option<i64>,
    pub(super) paused: bool,
    /// The span that the partition was gained or assigned with, and that of the last seek. Later ones only hand out again what
    /// was given back.
    pub(super) gained: u64,
    pub(super) since: u64,
    /// Whether it is a group's, and not assigned by hand.
    pub(super) owned: bool,
    /// Whether the driver knows of it: one that starts at its committed offset waits until that is known.
    pub(super) started: bool,
    /// Whether the user was told of it.
    pub(super) announced: bool,
    /// Whether it is to be given up.
    pub(super) revoking: bool,
    /// Whether the buffer stands in the ready queue.
    pub(super) queued: bool,
    pub(super) high_watermark: Option<i64>,
    pub(super) last_stable_offset: Option<i64>,
    pub(super) log_start_offset: Option<i64>,
    /// Why the partition stopped, until a seek.
    pub(super) fault: Option<ClientError>,
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
            paused: false,
            gained: span,
            since: span,
            owned: false,
            started: true,
            announced: true,
            revoking: false,
            queued: false,
            high_watermark: None,
            last_stable_offset: None,
            log_start_offset: None,
            fault: None,
        }
    }

    /// Whether something can be handed out.
    pub(super) fn has_data(&self) -> bool {
        !self.is_held_back() && self.fault.is_none() && (self.mid_piece || !self.pieces.is_empty())
    }

    /// Whether it holds memory that nobody may have handed out.
    pub(super) fn pins_memory(&self) -> bool {
        self.is_held_back() && self.walker.is_some() && (self.mid_piece || !self.pieces.is_empty())
    }

    /// Whether nothing of it is to be handed out or fetched, whatever there is.
    pub(super) fn is_held_back(&self) -> bool {
        self.paused || self.revoking || !self.started || !self.announced
    }

    /// Whether a bounded read of it is over.
    pub(super) fn is_done(&self) -> bool {
        matches!((self.position, self.end), (Some(position), Some(end)) if position >= end)
    }

    /// Drops everything that was fetched; reading starts anew, as `span`.
    pub(super) fn restart(&mut self, span: u64) {
        let Self { end, paused, gained, since, owned, started, announced, revoking, queued, .. } = *self;
        *self = Self { paused, gained, since, owned, started, announced, revoking, queued, ..Self::new(span, end) };
    }

    /// Drops what was fetched and not handed out, to make room; returns where it is to be fetched again from.
    pub(super) fn evict(&mut self, partition: &TopicPartition, options: &WalkOptions) -> Option<i64> {
        // Where the log was cut off in between, what is there now begins at the cut: the offsets behind it are out of range.
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
            fault: self.fault.clone(),
        }
    }

    pub(super) fn walk_from(&mut self, partition: &TopicPartition, offset: i64, options: &WalkOptions) {
        let mut walker = PartitionWalker::new(partition.topic.clone(), partition.partition, offset, *options);
        walker.set_end(self.end);
        self.walker = Some(walker);
        self.position = Some(offset);
    }
}
