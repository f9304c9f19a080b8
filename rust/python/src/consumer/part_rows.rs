//! `PartRows`: the rows of a part of a run, as the lanes' workers need them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};

use monedula_client::consumer::{Consumer, RowPermission, Unfinished, WorkGate};
use monedula_client::error::ClientError;
use monedula_client::group::HandedBatch;
use monedula_client::lock::lock;
use monedula_client::share::{AcknowledgeType, ShareConsumer};
use monedula_engine::TopicPartition;
use monedula_engine::lanes::{Reading, Report, RoundPart};
use pyo3::prelude::*;

use crate::record::{Columns, LockedBatch, Record};

/// See the [module](self).
pub(crate) struct PartRows {
    owner: Owner,
    partition: Option<TopicPartition>,
    memory_bytes: usize,
    columns: Columns,
    /// What the transaction of a row has besides its offset: Python's lists, by the last row of a call of the handler.
    written: Mutex<BTreeMap<usize, Py<PyAny>>>,
}

/// Who hears what becomes of the rows.
enum Owner {
    Group {
        batch: HandedBatch,
        /// Its end says that nobody can finish the part any more.
        _unfinished: Unfinished,
        gate: WorkGate,
    },
    /// Rows of a batch, from `first_row` on. The run must not keep a dropped consumer in its group.
    Share { consumer: Weak<ShareConsumer>, batch: u64, first_row: usize },
}

impl PartRows {
    pub(super) fn new(consumer: &Consumer, batch: HandedBatch, unfinished: Unfinished) -> Self {
        let columns = Columns::of(&batch.columns.record_batch);
        let (memory_bytes, gate) = (batch.columns.memory_bytes, consumer.work_gate(&batch));
        let partition = batch.places.first().map(|(partition, ..)| partition.clone());
        let owner = Owner::Group { batch, _unfinished: unfinished, gate };
        Self { owner, partition, memory_bytes, columns, written: Mutex::default() }
    }

    /// The rows of a share group's batch that are of one partition.
    pub(crate) fn locked(
        consumer: &Arc<ShareConsumer>,
        (batch, locked): (&HandedBatch, &Arc<LockedBatch>),
        partition: TopicPartition,
        rows: &Range<usize>,
    ) -> Self {
        let all = &batch.columns.record_batch;
        let columns = Columns::of(&all.slice(rows.start, rows.len())).locked(locked.clone(), rows.start);
        let memory_bytes = batch.columns.memory_bytes * rows.len() / all.num_rows().max(1);
        let owner = Owner::Share { consumer: Arc::downgrade(consumer), batch: batch.id, first_row: rows.start };
        Self { owner, partition: Some(partition), memory_bytes, columns, written: Mutex::default() }
    }

    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The partition of all rows; `None` without rows.
    pub(super) fn partition(&self) -> Option<&TopicPartition> {
        self.partition.as_ref()
    }

    pub(super) fn record(&self, py: Python<'_>, row: usize) -> PyResult<Option<Record>> {
        self.columns.record(py, row)
    }

    /// Asks whether rows may be begun. It takes no lock. Of a share group, [`Self::begin`] knows.
    pub(super) fn permission(&self) -> RowPermission {
        match &self.owner {
            Owner::Group { gate, .. } => gate.ask(),
            Owner::Share { .. } => RowPermission::Now,
        }
    }

    /// The handler of a call whose first row this is begins. False if the rows are locked no more, in a share group.
    pub(super) fn begin(&self, row: usize) -> bool {
        match &self.owner {
            Owner::Group { .. } => true,
            Owner::Share { consumer, batch, first_row } => {
                consumer.upgrade().is_some_and(|consumer| consumer.begin(*batch, first_row + row))
            }
        }
    }

    /// Decides what becomes of rows of a share group, unless the handler has. Returns of how many.
    pub(super) fn decide(&self, rows: impl Iterator<Item = usize>, decision: AcknowledgeType) -> usize {
        let Owner::Share { consumer, batch, first_row } = &self.owner else { return 0 };
        let Some(consumer) = consumer.upgrade() else { return 0 };
        let rows = rows.map(|row| first_row + row);
        rows.map(|row| consumer.decide_undecided(*batch, row..row + 1, decision)).sum()
    }

    /// Whether the consumer still reads behind the part.
    pub(super) fn reading(&self) -> Reading {
        match self.permission() {
            RowPermission::Now | RowPermission::Later => Reading::Current,
            RowPermission::Never => match &self.owner {
                Owner::Group { gate, .. } if gate.was_sought() => Reading::Sought,
                _ => Reading::Lost,
            },
        }
    }

    pub(super) fn offset(&self, row: usize) -> Option<i64> {
        self.columns.offset(row)
    }

    pub(super) fn hold(&self, last_row: usize, written: Py<PyAny>) {
        let before = lock(&self.written).insert(last_row, written);
        drop(before);
    }

    /// What is written with the rows of a transaction, each with the offset of the record that it is about.
    pub(super) fn written(&self, py: Python<'_>, of: &RoundPart<Arc<Self>>) -> Vec<(Py<PyAny>, Option<i64>)> {
        let written = lock(&self.written);
        let written = written.range(of.begin..of.end).filter(|(row, _)| of.has_call(**row));
        written.map(|(row, written)| (written.clone_ref(py), self.offset(*row))).collect()
    }

    /// The first rows are committed. Returns what was written with them, to be dropped.
    pub(super) fn commit(&self, end: usize) -> BTreeMap<usize, Py<PyAny>> {
        let mut written = lock(&self.written);
        let kept = written.split_off(&end);
        std::mem::replace(&mut written, kept)
    }

    /// The offset that follows the first rows.
    pub(super) fn offset_after(&self, rows: usize) -> Option<i64> {
        let span = match &self.owner {
            Owner::Group { batch, .. } => batch.columns.spans.first(),
            Owner::Share { .. } => None,
        };
        match span {
            Some(span) if rows == self.columns.rows() => Some(span.next_offset),
            _ => self.offset(rows.checked_sub(1)?).map(|offset| offset + 1),
        }
    }
}

/// Reports the progress on a part to its consumer.
///
/// # Errors
/// If the consumer is closed.
pub(super) fn tell(consumer: &Consumer, report: &Report<Arc<PartRows>>) -> Result<(), ClientError> {
    let Owner::Group { batch, .. } = &report.payload.owner else { return Ok(()) };
    if report.rows == report.total {
        return consumer.finish(batch);
    }
    if report.rows > 0 {
        consumer.finish_rows(batch, report.rows);
    }
    if report.is_last {
        consumer.abandon(batch);
    }
    Ok(())
}
