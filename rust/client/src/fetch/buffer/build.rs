//! Waiting for enough to hand out, and building a batch of it.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use monedula_columns::{BatchBuilder, ColumnBatch, PartitionWalker, Walked};
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use monedula_engine::ledger::{Holder, Place};

use super::partition_buffer::Piece;
use super::{FetchBuffer, State, Want};
use crate::error::ClientError;
use crate::fetch::command::FetchCommand;
use crate::fetch::inflate::Payload;
use crate::fetch::step::{HandedBatch, PendingCallback, Step};

/// What waiting came to.
enum Waited {
    Enough,
    Callback(PendingCallback),
    /// Time is up and nothing is there.
    Nothing,
}

/// The walker of one partition, taken out of the shared state to be walked.
struct Taken {
    partition: TopicPartition,
    span: u64,
    walker: PartitionWalker,
}

/// What was walked of a partition for one batch: from where, to where.
struct Walk {
    partition: TopicPartition,
    span: u64,
    from: Place,
    next: Place,
}

impl FetchBuffer {
    /// The next batch or callback, or nothing if `until` passes before one is due: call again then. Errors are raised once
    /// each; that of the whole client, or those of the partitions once none is left that goes on, on every call.
    pub(crate) fn next(&self, want: &Want, until: Instant, holder: Holder) -> Result<Step, ClientError> {
        // Before the call counts as a poll: a member that left for want of one joins again with the call after the error.
        if let Some(error) = self.state().membership.raise.pop_front() {
            return Err(error);
        }
        self.enter(holder);
        let _waiting = self.waits();
        loop {
            match self.wait(want, until)? {
                Waited::Enough => {}
                Waited::Callback(callback) => return Ok(Step::Callback(callback)),
                Waited::Nothing => return Ok(Step::Nothing),
            }
            let again = self.hand_out_again(want, holder);
            let Some(batch) = again.or_else(|| self.build(want, holder)) else { continue };
            self.metrics.batches_delivered(1);
            self.metrics.records_delivered(batch.columns.record_batch.num_rows() as u64);
            self.metrics.bytes_delivered(batch.columns.memory_bytes as u64);
            return Ok(Step::Batch(batch));
        }
    }

    /// Whether [`Self::next`] would have something to say at once; waits for it until `until`. Takes nothing.
    pub(crate) fn ready(&self, want: &Want, until: Instant) -> bool {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let Some(wake_at) = state.wake_at(want, now) else { return true };
            if now >= until {
                return false;
            }
            let waited = self.arrived.wait_timeout(state, wake_at.min(until) - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A batch without rows, of the same schema.
    pub(crate) fn empty(&self) -> ColumnBatch {
        BatchBuilder::new(self.lock_build().columns, self.pool.clone(), 1, 1).finish()
    }

    fn wait(&self, want: &Want, until: Instant) -> Result<Waited, ClientError> {
        if !self.ready(want, until) {
            return Ok(Waited::Nothing);
        }
        let mut state = self.state();
        state.raise_pending()?;
        if let Some(callback) = state.membership.next_callback() {
            return Ok(Waited::Callback(callback));
        }
        if !state.has_rows() || state.membership.withholds(Instant::now()) {
            state.raise_lasting()?;
        }
        Ok(Waited::Enough)
    }

    /// A batch of what is ready; `None` if that has no rows, or may not be handed out any more.
    pub(super) fn build(&self, want: &Want, holder: Holder) -> Option<HandedBatch> {
        let batch = self.build_in_turn(want, holder);
        let mut state = self.state();
        // After the turn: who is told takes it.
        if state.flush && !state.has_ready() {
            self.drained.notify_one();
        }
        batch
    }

    fn build_in_turn(&self, want: &Want, holder: Holder) -> Option<HandedBatch> {
        let mut turn = self.lock_build();
        let turn = &mut *turn;
        let kept = turn.builder.take().filter(|(_, rows, bytes)| (*rows, *bytes) == (want.max_rows, want.max_bytes));
        let fresh = || BatchBuilder::new(turn.columns, self.pool.clone(), want.max_rows, want.max_bytes);
        let mut builder = kept.map_or_else(fresh, |(builder, _, _)| builder);
        let mut walks = Vec::new();
        while let Some(mut taken) = self.take_partition() {
            let (before, from) = (builder.rows(), taken.place());
            let walked = self.walk(&mut taken, &mut builder, &mut turn.scratch);
            walks.push(taken.walked(from));
            let go_on = self.put_back(taken, walked, (builder.rows() - before) as u64);
            if !go_on || builder.is_full() {
                break;
            }
        }
        let columns = builder.finish();
        turn.builder = Some((builder, want.max_rows, want.max_bytes));
        self.hand_out(columns, walks, holder)
    }

    fn hand_out(&self, columns: ColumnBatch, walks: Vec<Walk>, holder: Holder) -> Option<HandedBatch> {
        let mut state = self.state();
        let now = Instant::now();
        state.ready_since = (!state.ready.is_empty()).then_some(now);
        // The process may have stood still while the batch was built.
        if state.membership.withholds(now) {
            self.take_back(&mut state, walks);
            return None;
        }
        let rows = columns.record_batch.num_rows();
        let places: Vec<_> = walks.into_iter().map(|walk| (walk.partition, walk.span, walk.next)).collect();
        let id = state.finished.hand_out(holder, &columns, &places);
        (rows > 0).then_some(HandedBatch { columns, id, places })
    }

    /// What was walked will not be handed out: it is fetched again, should the partitions stay. That is a new span, because an
    /// answer may be under way: it goes on behind what was walked, and the rows before it would be taken for passed.
    fn take_back(&self, state: &mut State, walks: Vec<Walk>) {
        let mut begins = BTreeMap::new();
        for Walk { partition, span, from, .. } in walks {
            // A partition that was walked several times goes back to where the first walk began.
            begins.entry(partition).or_insert((span, from));
        }
        for (partition, (walked, from)) in begins {
            if state.current(&partition, walked).is_none() {
                continue;
            }
            state.forget_queued(&partition);
            let span = state.new_span();
            let State { partitions, finished, .. } = &mut *state;
            let Some(buffer) = partitions.get_mut(&partition) else { continue };
            buffer.restart(span);
            buffer.target = Some(from.offset);
            if let Some(ledger) = &mut finished.ledger {
                ledger.goes_on_as(&partition, span);
            }
            let start = Start::Offset(from.offset, from.leader_epoch);
            self.command(FetchCommand::Seek { partition, span, start });
        }
    }

    /// Walks a partition until the builder is full, or all that was fetched of it is walked. One that came first for the sake of
    /// the batch that it holds is walked to the end of that batch: then others have their turn.
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
            walked.map_err(|error| unreadable(&taken.partition, error))?;
            if taken.walker.pending_bytes() > 0 {
                return Ok(Walked::Full);
            }
        }
        loop {
            match taken.walker.walk(builder, scratch) {
                Ok(Walked::Full) => return Ok(Walked::Full),
                Ok(Walked::Drained) => {}
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
            buffer.inflated = None;
            let Some(piece) = buffer.pieces.pop_front() else { return Ok(false) };
            if let Piece::Data(data) = &piece {
                let bytes = data.segment.compressed_bytes();
                buffer.queued_bytes = buffer.queued_bytes.saturating_sub(bytes);
                state.uncount(0, bytes);
            }
            piece
        };
        match piece {
            Piece::Data(data) => match data.segment.take() {
                Some(Payload::Raw(bytes)) => taken.walker.feed(bytes, data.aborted),
                Some(Payload::Inflated(inflated, charge)) => {
                    taken.walker.feed_inflated(inflated, data.aborted);
                    let mut state = self.state();
                    if let Some(buffer) = state.current(&taken.partition, taken.span) {
                        buffer.inflated = Some(charge);
                    }
                }
                None => {}
            },
            Piece::Position(offset) => {
                let mut state = self.state();
                if let Some(buffer) = state.current(&taken.partition, taken.span) {
                    buffer.walk_from(&taken.partition, offset, &self.options);
                    if let Some(walker) = buffer.walker.take() {
                        taken.walker = walker;
                    }
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
            buffer.queued = false;
            if !buffer.has_data() {
                continue;
            }
            let Some(walker) = buffer.walker.take() else { continue };
            return Some(Taken { span: buffer.span, partition, walker });
        }
    }

    /// Gives a walker back after `rows` of it were walked. False if the batch should end here.
    fn put_back(&self, taken: Taken, walked: Result<Walked, ClientError>, rows: u64) -> bool {
        let Taken { partition, span, walker } = taken;
        let mut state = self.state();
        let Some(buffer) = state.current(&partition, span) else { return true };
        let position = walker.position();
        buffer.position = Some(position);
        buffer.mid_piece = matches!(walked, Ok(Walked::Full)) && walker.pending_bytes() > 0;
        buffer.walker = Some(walker);
        let failed = walked.err();
        if let Some(error) = &failed {
            buffer.fault = Some(error.clone());
            buffer.inflated = None;
            buffer.pieces.clear();
        }
        // The claim of what is left; nothing left claims nothing, whatever the batches said.
        let left = buffer.has_data();
        let records = if left { rows.min(buffer.queued_records) } else { buffer.queued_records };
        let bytes = if left { 0 } else { buffer.queued_bytes };
        buffer.queued_records -= records;
        buffer.queued_bytes -= bytes;
        state.uncount(records, bytes);
        let Some(error) = failed else {
            state.offer(&partition);
            return true;
        };
        if let ClientError::Decode { .. } = error {
            self.command(FetchCommand::Unreadable { partition, span, offset: position });
        }
        state.raise.push_back(error);
        false
    }
}

impl Taken {
    fn place(&self) -> Place {
        Place { offset: self.walker.position(), leader_epoch: self.walker.position_leader_epoch() }
    }

    fn walked(&self, from: Place) -> Walk {
        Walk { partition: self.partition.clone(), span: self.span, from, next: self.place() }
    }
}

impl State {
    const FOREVER: Duration = Duration::from_secs(3600);

    fn raise_pending(&mut self) -> Result<(), ClientError> {
        if self.closed {
            return Err(ClientError::Closed);
        }
        if std::mem::take(&mut self.woken) {
            return Err(ClientError::WokenUp);
        }
        if let Some(error) = self.membership.raise.pop_front().or_else(|| self.membership.fatal()) {
            return Err(error);
        }
        self.raise.pop_front().map_or(Ok(()), Err)
    }

    /// With nothing to hand out: the errors that keep it so.
    fn raise_lasting(&self) -> Result<(), ClientError> {
        if let Some(error) = &self.fatal {
            return Err(error.clone());
        }
        // Looked at first: mostly the first partition decides it, and this is asked on every wait.
        if self.partitions.values().any(|buffer| buffer.fault.is_none()) {
            return Ok(());
        }
        let mut faults =
            self.failed_topics.iter().chain(self.partitions.values().filter_map(|buffer| buffer.fault.as_ref()));
        faults.next().map_or(Ok(()), |first| Err(first.clone()))
    }

    /// When to look again; `None` if there is something to hand out or to raise now.
    fn wake_at(&self, want: &Want, now: Instant) -> Option<Instant> {
        if self.closed || self.woken || !self.raise.is_empty() || self.membership.has_callback_or_error() {
            return None;
        }
        if !self.has_rows() || self.membership.withholds(now) {
            return self.raise_lasting().is_ok().then(|| now + Self::FOREVER);
        }
        // What was given back waited once already.
        if self.first_returned().is_some() {
            return None;
        }
        let due = self.ready_since.unwrap_or(now) + want.max_wait;
        let due = want.deadline.map_or(due, |deadline| due.min(deadline));
        (!self.is_enough(want) && now < due).then_some(due)
    }

    fn is_enough(&self, want: &Want) -> bool {
        self.flush || self.queued_records >= want.max_rows as u64 || self.queued_bytes >= want.max_bytes
    }
}
