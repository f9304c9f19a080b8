//! `PartRows`: the rows of a part of a run, as the lanes' workers need them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use monedula_client::consumer::{Consumer, RowPermission, Unfinished, WorkGate};
use monedula_client::error::ClientError;
use monedula_client::group::HandedBatch;
use monedula_client::lock::lock;
use monedula_engine::TopicPartition;
use monedula_engine::lanes::{Reading, Report, RoundPart};
use pyo3::prelude::*;

use crate::record::{Columns, Record};

/// See the [module](self).
pub(super) struct PartRows {
    batch: HandedBatch,
    /// Its end says that nobody can finish the part any more.
    _unfinished: Unfinished,
    columns: Columns,
    gate: WorkGate,
    /// What the transaction of a row has besides its offset: Python's lists, by the last row of a call of the handler.
    written: Mutex<BTreeMap<usize, Py<PyAny>>>,
}

impl PartRows {
    pub(super) fn new(consumer: &Consumer, batch: HandedBatch, unfinished: Unfinished) -> Self {
        let columns = Columns::of(&batch.columns.record_batch);
        let gate = consumer.work_gate(&batch);
        Self { batch, _unfinished: unfinished, columns, gate, written: Mutex::default() }
    }

    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.batch.columns.memory_bytes
    }

    /// The partition of all rows; `None` without rows.
    pub(super) fn partition(&self) -> Option<&TopicPartition> {
        self.batch.places.first().map(|(partition, ..)| partition)
    }

    pub(super) fn record(&self, py: Python<'_>, row: usize) -> PyResult<Option<Record>> {
        self.columns.record(py, row)
    }

    /// Asks whether rows may be begun. It takes no lock.
    pub(super) fn permission(&self) -> RowPermission {
        self.gate.ask()
    }

    /// Whether the consumer still reads behind the part.
    pub(super) fn reading(&self) -> Reading {
        match self.permission() {
            RowPermission::Now | RowPermission::Later => Reading::Current,
            RowPermission::Never if self.gate.was_sought() => Reading::Sought,
            RowPermission::Never => Reading::Lost,
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
        match self.batch.columns.spans.first() {
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
    let batch = &report.payload.batch;
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
