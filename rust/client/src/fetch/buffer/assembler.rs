//! The assembler of batches: walks what is ready, partition by partition, into columns.
//!
//! Its lock, `assembler`, is held while a batch is built; the lock `state` only between two walks.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Instant;

use monedula_columns::{Awaited, BatchBuilder, BatchColumns, BufferPool, ColumnBatch, PartitionWalker, Walked};
use monedula_engine::TopicPartition;
use monedula_engine::ledger::{Holder, OffsetAndEpoch};

use super::partition_buffer::{HoldReason, Piece, WalkEnd};
use super::partitions::BatchLimits;
use super::shared::Shared;
use super::state::{BufferState, is_unavailable};
use crate::error::ClientError;
use crate::fetch::command::FetchCommand;
use crate::fetch::inflate::{DecodeScratch, InflateQueue, SegmentPayload};
use crate::fetch::polled::HandedBatch;
use crate::log::{Log, kinds};
use crate::metrics::Metrics;

pub(super) struct Assembler {
    columns: BatchColumns,
    scratch: DecodeScratch,
    /// Where the segments come from.
    queue: Arc<InflateQueue>,
    /// Kept from batch to batch, with its limits of rows and bytes: it knows how large the columns became, and so
    /// allocates them in the right size at once.
    builder: Option<(BatchBuilder, usize, usize)>,
    pool: BufferPool,
    log: Log,
    metrics: Metrics,
}

/// The walker of one partition, taken out of the shared state to be walked.
struct Taken {
    partition: TopicPartition,
    reading_id: u64,
    walker: PartitionWalker,
    /// Leader epochs with their first offsets, of a walker that stood in the place of this one.
    epochs: Vec<(i64, i32)>,
}

/// A walk of a partition for one batch: from where, to where.
struct Walk {
    partition: TopicPartition,
    reading_id: u64,
    from: OffsetAndEpoch,
    next: OffsetAndEpoch,
    /// The leader epochs that began meanwhile, each with its first offset.
    epochs: Vec<(i64, i32)>,
}

impl Assembler {
    pub(super) fn new(
        columns: BatchColumns,
        pool: BufferPool,
        queue: Arc<InflateQueue>,
        log: Log,
        metrics: Metrics,
    ) -> Self {
        let scratch = DecodeScratch::new(&columns, &pool);
        Self { columns, scratch, queue, builder: None, pool, log, metrics }
    }

    pub(super) fn empty(&self) -> ColumnBatch {
        BatchBuilder::new(self.columns.clone(), self.pool.clone(), 1, 1).finish()
    }

    /// A batch of what is ready; `None` if that has no rows, or may not be handed out any more.
    pub(super) fn assemble(
        &mut self,
        shared: &Arc<Shared>,
        limits: &BatchLimits,
        holder: Holder,
    ) -> Option<HandedBatch> {
        let BatchLimits { max_rows, max_bytes, .. } = *limits;
        let kept = self.builder.take().filter(|(_, rows, bytes)| (*rows, *bytes) == (max_rows, max_bytes));
        let fresh = || BatchBuilder::new(self.columns.clone(), self.pool.clone(), max_rows, max_bytes);
        let mut builder = kept.map_or_else(fresh, |(builder, _, _)| builder);
        let mut walks = Vec::new();
        while let Some(mut taken) = Taken::next(shared) {
            let (before, from) = (builder.rows(), taken.place());
            let walked = taken.walk(shared, &self.queue, &mut builder, &mut self.scratch);
            walks.push(taken.walked(from));
            let go_on = taken.put_back(shared, walked, (builder.rows() - before) as u64);
            if !go_on || builder.is_full() {
                break;
            }
        }
        let is_cut = builder.is_full() && !builder.is_plain_copy() && builder.rows() < max_rows;
        let columns = builder.finish();
        self.builder = Some((builder, max_rows, max_bytes));
        self.hand_out(shared.lock(), columns, walks, holder, is_cut)
    }

    fn hand_out(
        &self,
        mut state: MutexGuard<'_, BufferState>,
        columns: ColumnBatch,
        walks: Vec<Walk>,
        holder: Holder,
        is_cut: bool,
    ) -> Option<HandedBatch> {
        let now = Instant::now();
        state.partitions.built(now, is_cut);
        // The process may have stood still while the batch was built.
        if state.membership.withholds(now) {
            take_back(&mut state, walks);
            return None;
        }
        self.metrics.records_filtered(columns.filtered as u64);
        self.count_bad_values(&columns);
        let has_any = columns.record_batch.num_rows() > 0 || columns.refused.is_some();
        for walk in &walks {
            state.handed_out.note_read(&walk.partition, walk.from.offset..walk.next.offset, &walk.epochs);
        }
        let places: Vec<_> = walks.into_iter().map(|walk| (walk.partition, walk.reading_id, walk.next)).collect();
        let id = state.handed_out.hand_out(holder, &columns, &places);
        has_any.then_some(HandedBatch { columns, id, places })
    }

    fn count_bad_values(&self, columns: &ColumnBatch) {
        self.metrics.records_dropped(columns.dropped as u64);
        self.metrics.records_with_nulls(columns.with_nulls as u64);
        if columns.dropped > 0 {
            self.log.record(&kinds::RECORDS_DROPPED, || {
                let what =
                    "records were left out since their key or value cannot be decoded; metrics() counts them all";
                format!("{} {what}", columns.dropped)
            });
        }
    }
}

/// Rows that were walked will not be handed out: they are fetched again, should the partitions stay. A new reading of
/// these begins: a fetch in flight goes on behind what was walked, and its answer would make the rows before count as
/// passed.
fn take_back(state: &mut BufferState, walks: Vec<Walk>) {
    let mut begins = BTreeMap::new();
    for Walk { partition, reading_id, from, .. } in walks {
        // A partition that was walked several times goes back to where the first walk began.
        begins.entry(partition).or_insert((reading_id, from));
    }
    for (partition, (walked, from)) in begins {
        if state.partitions.current(&partition, walked).is_some() {
            state.read_again(&partition, from);
        }
    }
}

fn hold_until(shared: &Arc<Shared>, state: &mut BufferState, partition: &TopicPartition, awaited: &Awaited) {
    state.set_held(partition, HoldReason::Lookup, true);
    let (shared, theirs) = (Arc::downgrade(shared), partition.clone());
    let arrived = move || {
        if let Some(shared) = Weak::upgrade(&shared) {
            shared.lock().end_lookup_hold(&theirs);
            shared.notify_calls();
        }
    };
    if !awaited.then(arrived) {
        state.end_lookup_hold(partition);
    }
}

impl Taken {
    /// The next partition that has something to hand out.
    fn next(shared: &Shared) -> Option<Self> {
        let (partition, reading_id, walker) = shared.lock().partitions.take_ready()?;
        Some(Self { partition, reading_id, walker, epochs: Vec::new() })
    }

    fn place(&self) -> OffsetAndEpoch {
        OffsetAndEpoch { offset: self.walker.position(), leader_epoch: self.walker.position_leader_epoch() }
    }

    fn walked(&mut self, from: OffsetAndEpoch) -> Walk {
        let mut epochs = std::mem::take(&mut self.epochs);
        epochs.extend(self.walker.take_epochs());
        Walk { partition: self.partition.clone(), reading_id: self.reading_id, from, next: self.place(), epochs }
    }

    /// Walks until the builder is full, or all that was fetched is walked. A partition that went first because it holds
    /// a decompressed batch is walked to the end of that batch only: then others have their turn.
    fn walk(
        &mut self,
        shared: &Shared,
        queue: &InflateQueue,
        builder: &mut BatchBuilder,
        scratch: &mut DecodeScratch,
    ) -> Result<Walked, ClientError> {
        let unreadable =
            |partition: &TopicPartition, error| ClientError::Decode { partition: partition.clone(), error };
        if self.walker.holds_payload() {
            let walked = self.walker.walk_open(builder, &mut scratch.scratch);
            if let pending @ Walked::Pending(_) = walked.map_err(|error| unreadable(&self.partition, error))? {
                return Ok(pending);
            }
            if self.walker.pending_bytes() > 0 {
                return Ok(Walked::Full);
            }
        }
        loop {
            match self.walker.walk(builder, &mut scratch.scratch) {
                Ok(Walked::Drained) => {}
                Ok(stopped) => return Ok(stopped),
                Err(error) => return Err(unreadable(&self.partition, error)),
            }
            if !self.feed(shared, queue, scratch)? {
                return Ok(Walked::Drained);
            }
        }
    }

    /// Feeds the next piece; false if there is none.
    fn feed(
        &mut self,
        shared: &Shared,
        queue: &InflateQueue,
        scratch: &mut DecodeScratch,
    ) -> Result<bool, ClientError> {
        let Some(piece) = shared.lock().partitions.next_piece(&self.partition, self.reading_id) else {
            return Ok(false);
        };
        match piece {
            // Waits without the lock where a thread is at work on the segment.
            Piece::Records(segment, aborted) => match queue.take(&segment, scratch) {
                Some(SegmentPayload::Raw(bytes)) => self.walker.feed(bytes, aborted),
                Some(SegmentPayload::Inflated(inflated, charge)) => {
                    self.walker.feed_inflated(inflated, aborted);
                    if let Some(buffer) = shared.lock().partitions.current(&self.partition, self.reading_id) {
                        buffer.keep_charge(charge);
                    }
                }
                None => {}
            },
            Piece::Position(offset) => {
                let walker = shared.lock().partitions.walker_at(&self.partition, self.reading_id, offset);
                if let Some(walker) = walker {
                    self.epochs.extend(self.walker.take_epochs());
                    self.walker = walker;
                }
            }
            Piece::Fault(error) => return Err(error),
        }
        Ok(true)
    }

    /// Gives the walker back after `rows` of it were walked. False if the batch should end here.
    fn put_back(self, shared: &Arc<Shared>, walked: Result<Walked, ClientError>, rows: u64) -> bool {
        let Self { partition, reading_id, walker, .. } = self;
        let position = walker.position();
        let mut state = shared.lock();
        let Some(buffer) = state.partitions.current(&partition, reading_id) else { return true };
        let end = match &walked {
            Ok(Walked::Drained) => WalkEnd::Drained,
            Err(error) if !is_unavailable(error) => WalkEnd::Failed(error.clone()),
            Ok(_) | Err(_) => WalkEnd::Stopped,
        };
        let walked_away = buffer.put_back(walker, end, rows);
        state.partitions.walked(walked_away);
        state.hold_at_bound(&partition);
        state.pass_turn(&partition);
        let error = match walked {
            Ok(Walked::Pending(awaited)) => {
                hold_until(shared, &mut state, &partition, &awaited);
                return true;
            }
            Ok(Walked::Full | Walked::Drained) => {
                state.partitions.offer(&partition);
                return true;
            }
            Err(error) => error,
        };
        if is_unavailable(&error) {
            state.raise_unavailable(error);
            return false;
        }
        if let ClientError::Decode { .. } = error {
            state.partitions.command(FetchCommand::Unreadable { partition, reading_id, offset: position });
        }
        state.errors.push(error);
        false
    }
}
