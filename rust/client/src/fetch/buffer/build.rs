//! Building a batch of what is ready.

use std::collections::BTreeMap;
use std::time::Instant;

use monedula_columns::{BatchBuilder, ColumnBatch, PartitionWalker, Walked};
use monedula_engine::TopicPartition;
use monedula_engine::ledger::{Holder, OffsetAndEpoch};

use super::awaiting::is_lack;
use super::partition_buffer::{Piece, WalkEnd};
use super::{BatchLimits, BufferState, FetchBuffer};
use crate::error::ClientError;
use crate::fetch::command::FetchCommand;
use crate::fetch::inflate::Payload;
use crate::fetch::step::HandedBatch;
use crate::log::kinds;

/// The walker of one partition, taken out of the shared state to be walked.
struct Taken {
    partition: TopicPartition,
    span: u64,
    walker: PartitionWalker,
    /// Leader epochs with their first offsets, of a walker that stood in the place of this one.
    epochs: Vec<(i64, i32)>,
}

/// What was walked of a partition for one batch: from where, to where.
struct Walk {
    partition: TopicPartition,
    span: u64,
    from: OffsetAndEpoch,
    next: OffsetAndEpoch,
    /// The leader epochs that began meanwhile, each with its first offset.
    epochs: Vec<(i64, i32)>,
}

impl FetchBuffer {
    /// A batch without rows, of the same schema.
    pub(crate) fn empty(&self) -> ColumnBatch {
        BatchBuilder::new(self.lock_build().columns.clone(), self.pool.clone(), 1, 1).finish()
    }

    /// A batch of what is ready; `None` if that has no rows, or may not be handed out any more.
    pub(super) fn build(&self, want: &BatchLimits, holder: Holder) -> Option<HandedBatch> {
        let batch = self.build_locked(want, holder);
        let mut state = self.state();
        // Without the lock on building, which the driver takes next.
        if state.flush && !state.has_ready() {
            self.drained.notify_one();
        }
        batch
    }

    fn build_locked(&self, want: &BatchLimits, holder: Holder) -> Option<HandedBatch> {
        let mut state = self.lock_build();
        let state = &mut *state;
        let kept = state.builder.take().filter(|(_, rows, bytes)| (*rows, *bytes) == (want.max_rows, want.max_bytes));
        let fresh = || BatchBuilder::new(state.columns.clone(), self.pool.clone(), want.max_rows, want.max_bytes);
        let mut builder = kept.map_or_else(fresh, |(builder, _, _)| builder);
        let mut walks = Vec::new();
        while let Some(mut taken) = self.take_partition() {
            let (before, from) = (builder.rows(), taken.place());
            let walked = self.walk(&mut taken, &mut builder, &mut state.scratch);
            walks.push(taken.walked(from));
            let go_on = self.put_back(taken, walked, (builder.rows() - before) as u64);
            if !go_on || builder.is_full() {
                break;
            }
        }
        let is_cut = builder.is_full() && builder.is_typed() && builder.rows() < want.max_rows;
        let columns = builder.finish();
        state.builder = Some((builder, want.max_rows, want.max_bytes));
        self.hand_out(columns, walks, holder, is_cut)
    }

    fn hand_out(&self, columns: ColumnBatch, walks: Vec<Walk>, holder: Holder, is_cut: bool) -> Option<HandedBatch> {
        let mut state = self.state();
        let now = Instant::now();
        state.ready_since = (!state.ready.is_empty()).then_some(now);
        state.is_cut = is_cut && !state.ready.is_empty();
        // The process may have stood still while the batch was built.
        if state.membership.withholds(now) {
            self.take_back(&mut state, walks);
            return None;
        }
        self.count_bad_values(&columns);
        let has_any = columns.record_batch.num_rows() > 0 || columns.refused.is_some();
        for walk in &walks {
            state.finished.note_read(&walk.partition, walk.from.offset..walk.next.offset, &walk.epochs);
        }
        let places: Vec<_> = walks.into_iter().map(|walk| (walk.partition, walk.span, walk.next)).collect();
        let id = state.finished.hand_out(holder, &columns, &places);
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

    /// What was walked will not be handed out: it is fetched again, should the partitions stay. They get a new span,
    /// because a fetch in flight goes on behind what was walked: with its answer the rows before would count as passed.
    fn take_back(&self, state: &mut BufferState, walks: Vec<Walk>) {
        let mut begins = BTreeMap::new();
        for Walk { partition, span, from, .. } in walks {
            // A partition that was walked several times goes back to where the first walk began.
            begins.entry(partition).or_insert((span, from));
        }
        for (partition, (walked, from)) in begins {
            if state.current(&partition, walked).is_none() {
                continue;
            }
            self.read_again(state, &partition, from);
        }
    }

    /// Walks a partition until the builder is full, or all that was fetched of it is walked. One that went first
    /// because it holds a decompressed batch is walked to the end of that batch only: then others have their turn.
    fn walk(
        &self,
        taken: &mut Taken,
        builder: &mut BatchBuilder,
        scratch: &mut monedula_columns::Scratch,
    ) -> Result<Walked, ClientError> {
        let unreadable =
            |partition: &TopicPartition, error| ClientError::Decode { partition: partition.clone(), error };
        if taken.walker.holds_payload() {
            let walked = taken.walker.walk_open(builder, scratch);
            if walked.map_err(|error| unreadable(&taken.partition, error))? == Walked::Awaits {
                return Ok(Walked::Awaits);
            }
            if taken.walker.pending_bytes() > 0 {
                return Ok(Walked::Full);
            }
        }
        loop {
            match taken.walker.walk(builder, scratch) {
                Ok(Walked::Drained) => {}
                Ok(stopped) => return Ok(stopped),
                Err(error) => return Err(unreadable(&taken.partition, error)),
            }
            if !self.feed(taken)? {
                return Ok(Walked::Drained);
            }
        }
    }

    /// Feeds the next piece; false if there is none.
    fn feed(&self, taken: &mut Taken) -> Result<bool, ClientError> {
        let piece = {
            let mut state = self.state();
            let Some(buffer) = state.current(&taken.partition, taken.span) else { return Ok(false) };
            let Some((piece, bytes)) = buffer.next_piece() else { return Ok(false) };
            state.uncount(0, bytes);
            piece
        };
        match piece {
            Piece::Records(segment, aborted) => match segment.take() {
                Some(Payload::Raw(bytes)) => taken.walker.feed(bytes, aborted),
                Some(Payload::Inflated(inflated, charge)) => {
                    taken.walker.feed_inflated(inflated, aborted);
                    let mut state = self.state();
                    if let Some(buffer) = state.current(&taken.partition, taken.span) {
                        buffer.keep_charge(charge);
                    }
                }
                None => {}
            },
            Piece::Position(offset) => {
                let mut state = self.state();
                if let Some(buffer) = state.current(&taken.partition, taken.span) {
                    taken.epochs.extend(taken.walker.take_epochs());
                    taken.walker = buffer.walker_at(&taken.partition, offset, &self.options);
                }
            }
            Piece::Fault(error) => return Err(error),
        }
        Ok(true)
    }

    fn take_partition(&self) -> Option<Taken> {
        let mut state = self.state();
        loop {
            let partition = state.ready.pop_front()?;
            let Some(buffer) = state.partitions.get_mut(&partition) else { continue };
            buffer.leave_ready_queue();
            if !buffer.has_data() {
                continue;
            }
            let Some(walker) = buffer.take_walker() else { continue };
            return Some(Taken { span: buffer.span(), partition, walker, epochs: Vec::new() });
        }
    }

    /// Gives a walker back after `rows` of it were walked. False if the batch should end here.
    fn put_back(&self, taken: Taken, walked: Result<Walked, ClientError>, rows: u64) -> bool {
        let Taken { partition, span, mut walker, .. } = taken;
        let awaited = walker.awaited();
        let mut state = self.state();
        let Some(buffer) = state.current(&partition, span) else { return true };
        let position = walker.position();
        let end = match &walked {
            Ok(Walked::Drained) => WalkEnd::Drained,
            Err(error) if !is_lack(error) => WalkEnd::Failed(error.clone()),
            Ok(_) | Err(_) => WalkEnd::Stopped,
        };
        let (records, bytes) = buffer.put_back(walker, end, rows);
        let failed = walked.err();
        state.uncount(records, bytes);
        self.hold_at_bound(&mut state, &partition);
        if let Some(awaited) = awaited {
            self.hold_until(&mut state, &partition, &awaited);
            return true;
        }
        let Some(error) = failed else {
            state.offer(&partition);
            return true;
        };
        if is_lack(&error) {
            self.raise_lack(&mut state, error);
            return false;
        }
        if let ClientError::Decode { .. } = error {
            self.command(FetchCommand::Unreadable { partition, span, offset: position });
        }
        state.raise.push_back(error);
        false
    }
}

impl Taken {
    fn place(&self) -> OffsetAndEpoch {
        OffsetAndEpoch { offset: self.walker.position(), leader_epoch: self.walker.position_leader_epoch() }
    }

    fn walked(&mut self, from: OffsetAndEpoch) -> Walk {
        let mut epochs = std::mem::take(&mut self.epochs);
        epochs.extend(self.walker.take_epochs());
        Walk { partition: self.partition.clone(), span: self.span, from, next: self.place(), epochs }
    }
}
