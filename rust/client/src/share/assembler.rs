//! The assembler of batches: walks the acquired offsets of what was fetched, answer by answer, into columns.

use std::ops::Range;
use std::sync::{Arc, Weak};

use arrow_array::{Array, ArrayRef, Int16Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use monedula_columns::{
    BatchBuilder, BatchColumns, BufferPool, ColumnBatch, ColumnSet, Scratch, WalkError, WalkErrorKind, Walked,
};
use monedula_engine::share::{AcknowledgeError, AcknowledgeType, AcknowledgedRange, Acknowledgement, HeldPart, RowRun};

use super::buffer::{ShareBuffer, ShareBufferState};
use super::command::ShareCommand;
use super::fetched_rows::FetchedRows;
use crate::consumer::BatchLimits;
use crate::error::ClientError;
use crate::fetch::polled::HandedBatch;
use crate::metrics::Metrics;

/// The column of delivery counts.
pub(super) const DELIVERY_COUNT: &str = "deliveryCount";

pub(super) struct Assembler {
    columns: BatchColumns,
    /// True if the user reads offsets; they are decoded in any case.
    has_offsets: bool,
    has_delivery_count: bool,
    scratch: Scratch,
    /// Kept from batch to batch, with its limits of rows and bytes.
    builder: Option<(BatchBuilder, usize, usize)>,
    pool: BufferPool,
    metrics: Metrics,
}

/// Acquired offsets that were walked: which rows they became, and which could not be decoded and became none.
struct Walk {
    offsets: (i64, i64),
    delivery_count: i16,
    rows: Range<usize>,
    dropped: Vec<i64>,
}

/// The rows of one answer in the batch.
struct WalkedPart {
    part: HeldPart,
    walks: Vec<Walk>,
}

type Undelivered = Vec<(Acknowledgement, Option<AcknowledgeError>)>;

impl Assembler {
    pub(super) fn new(mut columns: BatchColumns, has_delivery_count: bool, pool: BufferPool, metrics: Metrics) -> Self {
        let has_offsets = columns.set.contains(ColumnSet::OFFSET);
        columns.set = columns.set.with(ColumnSet::OFFSET);
        Self { columns, has_offsets, has_delivery_count, scratch: Scratch::new(), builder: None, pool, metrics }
    }

    pub(super) fn empty(&self) -> ColumnBatch {
        let columns = BatchBuilder::new(self.columns.clone(), self.pool.clone(), 1, 1).finish();
        self.shown(columns, Vec::new())
    }

    /// A batch of what was acquired; `None` if that has no rows.
    pub(super) fn assemble(
        &mut self,
        buffer: &Arc<ShareBuffer>,
        limits: &BatchLimits,
        holder: u64,
    ) -> Option<HandedBatch> {
        let BatchLimits { max_rows, max_bytes, .. } = *limits;
        let kept = self.builder.take().filter(|(_, rows, bytes)| (*rows, *bytes) == (max_rows, max_bytes));
        let fresh = || BatchBuilder::new(self.columns.clone(), self.pool.clone(), max_rows, max_bytes);
        let mut builder = kept.map_or_else(fresh, |(builder, _, _)| builder);
        let (mut parts, mut undelivered) = (Vec::new(), Undelivered::new());
        buffer.state().lost.clear();
        while let Some(mut rows) = {
            let now = buffer.now();
            buffer.state().take(now)
        } {
            let mut walked = WalkedPart { part: rows.part.clone(), walks: Vec::new() };
            let goes_on = self.walk(buffer, &mut rows, &mut builder, &mut walked.walks, &mut undelivered);
            parts.push(walked);
            if !rows.acquired.is_empty() {
                buffer.state().queue.push_front(rows);
            }
            if !goes_on || builder.is_full() {
                break;
            }
        }
        let columns = builder.finish();
        self.builder = Some((builder, max_rows, max_bytes));
        self.metrics.records_dropped(columns.dropped as u64);
        self.metrics.records_with_nulls(columns.with_nulls as u64);
        let batch = self.hand_out(buffer, columns, parts, holder, &mut undelivered);
        if !undelivered.is_empty() {
            let _ = buffer.command(ShareCommand::Acknowledge { acknowledgements: undelivered, reply: None });
        }
        batch
    }

    /// Walks the acquired offsets of one answer. False if the batch should end here.
    fn walk(
        &mut self,
        buffer: &Arc<ShareBuffer>,
        rows: &mut FetchedRows,
        builder: &mut BatchBuilder,
        walks: &mut Vec<Walk>,
        undelivered: &mut Undelivered,
    ) -> bool {
        while let Some(range) = rows.acquired.front().copied() {
            let (before, dropped_before) = (builder.rows(), builder.dropped().len());
            let walked = rows.walker.walk_range(range.first..=range.last, builder, &mut self.scratch);
            let last = (rows.walker.position() - 1).min(range.last);
            if last >= range.first {
                rows.take_through(last);
                let (offsets, delivery_count) = ((range.first, last), range.delivery_count);
                let dropped = builder.dropped()[dropped_before..].to_vec();
                walks.push(Walk { offsets, delivery_count, rows: before..builder.rows(), dropped });
            }
            match walked {
                Ok(Walked::Drained) if last == range.last => {}
                Ok(Walked::Drained) => {
                    // The answer has no bytes of the rest, which is no proof that there are no records.
                    let unseen = rows.take_through(range.last).into_iter();
                    let ticket = buffer.state().held.new_ticket();
                    undelivered.push((rows.acknowledgement(ticket, unseen, AcknowledgeType::Release), None));
                }
                Ok(Walked::Full) => return false,
                Ok(Walked::Pending(awaited)) => {
                    let waits = Arc::downgrade(buffer);
                    let arrived = move || {
                        if let Some(buffer) = Weak::upgrade(&waits) {
                            buffer.notify();
                        }
                    };
                    if awaited.then(arrived) {
                        rows.awaited = Some(awaited);
                    }
                    return true;
                }
                Err(error) => return self.skip_damaged(buffer, rows, error, range.delivery_count, undelivered),
            }
        }
        true
    }

    /// A batch or record cannot be read: its offsets are not left locked. What came with the first delivery is released,
    /// for the network may have damaged it; what is damaged again is rejected. A value that cannot be decoded is released.
    fn skip_damaged(
        &self,
        buffer: &ShareBuffer,
        rows: &mut FetchedRows,
        error: WalkError,
        delivery_count: i16,
        undelivered: &mut Undelivered,
    ) -> bool {
        let is_value = matches!(error.kind, WalkErrorKind::BadValue { .. });
        if let WalkErrorKind::Unavailable { .. } = error.kind {
            // The same records are tried again by the next call.
            let partition = rows.part.partition.clone();
            buffer.state().errors.push_back(ClientError::Decode { partition, error });
            return false;
        }
        let next_offset = error.next_offset.unwrap_or(i64::MAX);
        let offsets = rows.take_through(next_offset.saturating_sub(1));
        rows.walker.pass(next_offset);
        let is_rejected = !is_value && delivery_count > 1;
        let kind = if is_rejected { AcknowledgeType::Reject } else { AcknowledgeType::Release };
        let mut state = buffer.state();
        let ticket = state.held.new_ticket();
        undelivered.push((rows.acknowledgement(ticket, offsets.into_iter(), kind), None));
        let error = Box::new(ClientError::Decode { partition: rows.part.partition.clone(), error });
        state.errors.push_back(ClientError::ShareDecode { error, is_rejected });
        false
    }

    fn hand_out(
        &self,
        buffer: &ShareBuffer,
        mut columns: ColumnBatch,
        parts: Vec<WalkedPart>,
        holder: u64,
        undelivered: &mut Undelivered,
    ) -> Option<HandedBatch> {
        let rows = columns.record_batch.num_rows();
        let found = columns.record_batch.column_by_name("offset");
        let offsets = found.and_then(|column| column.as_any().downcast_ref::<Int64Array>().cloned());
        let offsets = offsets.map(|offsets| offsets.values().clone()).unwrap_or_default();
        // The process may have stood still while the batch was built.
        let now = buffer.now();
        let mut state = buffer.state();
        let (mut held, mut counts, mut kept) = (Vec::new(), Vec::new(), Vec::<Range<usize>>::new());
        let mut next_row = 0;
        for WalkedPart { mut part, walks } in parts {
            if part.deadline <= now || is_lost(&state, &part) {
                continue;
            }
            let mut dropped = Vec::new();
            for walk in walks {
                note_offsets(&mut part, &walk, &offsets, next_row);
                dropped.extend(walk.dropped.iter().map(|&offset| rejected(offset)));
                if !walk.rows.is_empty() {
                    next_row += walk.rows.len();
                    counts.push((walk.delivery_count, walk.rows.len()));
                    match kept.last_mut() {
                        Some(last) if last.end == walk.rows.start => last.end = walk.rows.end,
                        _ => kept.push(walk.rows),
                    }
                }
            }
            if !dropped.is_empty() {
                // As by the user: the group's dead letters get them.
                undelivered.push((part.acknowledgement(state.held.new_ticket(), dropped), None));
            }
            held.push(part);
        }
        let (id, gaps) = state.held.hand_out(holder, held, now);
        drop(state);
        undelivered.extend(gaps.into_iter().map(|gaps| (gaps, None)));
        let id = id?;
        if next_row < rows {
            columns = columns.select(&kept);
        }
        Some(HandedBatch { columns: self.shown(columns, counts), id, places: Vec::new() })
    }

    /// The batch with the columns that the user asked for.
    fn shown(&self, columns: ColumnBatch, counts: Vec<(i16, usize)>) -> ColumnBatch {
        if self.has_offsets && !self.has_delivery_count {
            return columns;
        }
        let batch = &columns.record_batch;
        let schema = batch.schema();
        let is_shown = |field: &Field| self.has_offsets || field.name() != "offset";
        let shown = schema.fields().iter().zip(batch.columns()).filter(|(field, _)| is_shown(field));
        let (mut fields, mut arrays): (Vec<Arc<Field>>, Vec<ArrayRef>) =
            shown.map(|(field, array)| (field.clone(), array.clone())).unzip();
        if self.has_delivery_count {
            let counts = counts.into_iter().flat_map(|(count, rows)| std::iter::repeat_n(count, rows));
            fields.push(Arc::new(Field::new(DELIVERY_COUNT, DataType::Int16, true)));
            arrays.push(Arc::new(counts.collect::<Int16Array>()));
        }
        let schema = Arc::new(Schema::new(fields));
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        match RecordBatch::try_new_with_options(schema, arrays, &options) {
            Ok(record_batch) => ColumnBatch { record_batch, ..columns },
            Err(_) => columns,
        }
    }
}

fn is_lost(state: &ShareBufferState, part: &HeldPart) -> bool {
    let of = |(session, partition): &(_, Option<_>)| {
        *session == part.session && partition.as_ref().is_none_or(|partition| *partition == part.partition)
    };
    state.lost.iter().any(of)
}

fn rejected(offset: i64) -> AcknowledgedRange {
    AcknowledgedRange { first: offset, last: offset, kind: AcknowledgeType::Reject }
}

/// Notes the runs of consecutive offsets among the rows of a walk, and the acquired offsets between them, which have no
/// record. `next_row`: the first of the rows once those of lost parts are left out.
fn note_offsets(part: &mut HeldPart, walk: &Walk, offsets: &[i64], next_row: usize) {
    let (first, last) = walk.offsets;
    let mut next_offset = first;
    let found = offsets.get(walk.rows.clone()).unwrap_or_default();
    for (index, &offset) in found.iter().enumerate() {
        note_gaps(part, &walk.dropped, next_offset..offset);
        let row = next_row + index;
        match part.runs.last_mut() {
            Some(run) if run.offset + run.rows as i64 == offset && run.row + run.rows == row => run.rows += 1,
            _ => part.runs.push(RowRun { row, offset, rows: 1 }),
        }
        next_offset = offset + 1;
    }
    note_gaps(part, &walk.dropped, next_offset..last + 1);
}

/// Notes these offsets as gaps, except of records that were dropped.
fn note_gaps(part: &mut HeldPart, dropped: &[i64], offsets: Range<i64>) {
    let mut next_offset = offsets.start;
    for end in dropped.iter().copied().filter(|offset| offsets.contains(offset)).chain([offsets.end]) {
        if next_offset < end {
            part.gaps.push((next_offset, end - 1));
        }
        next_offset = end + 1;
    }
}
