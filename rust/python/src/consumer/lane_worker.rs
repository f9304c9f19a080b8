//! `LaneWorker`: a thread or task of a run that calls the handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use monedula_client::share::AcknowledgeType;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::lanes::SharedLanes;
use super::part_rows::PartRows;
use super::values::{PyPartition, py_partition};
use crate::runtime::Own;
use crate::seconds::seconds;
use crate::share::acknowledge_type;

/// A worker: it iterates over the arguments of the handler. Asking for the next one says that the one before was
/// handled, unless the worker has ended that task otherwise. Each step looks at failure, freeze and revocation.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct LaneWorker {
    shared: Own<Arc<SharedLanes>>,
    number: usize,
    tasks_at_once: Option<u32>,
    /// Number of tasks since the iterator ended last.
    taken: AtomicU32,
    gives_lists: bool,
}

impl LaneWorker {
    pub(super) fn new(shared: Arc<SharedLanes>, number: usize, tasks_at_once: Option<u32>, gives_lists: bool) -> Self {
        Self { shared: Own::new(shared), number, tasks_at_once, taken: AtomicU32::new(0), gives_lists }
    }

    /// Takes the next task: its part, and its rows.
    fn take(&self, shared: &SharedLanes) -> Option<(Arc<PartRows>, usize, Vec<usize>)> {
        let now = shared.now();
        let mut state = shared.state();
        state.decide(self.number, AcknowledgeType::Accept);
        state.handled += state.lanes.finish(self.number) as u64;
        if state.wakes_reader() || self.has_taken_enough() {
            return None;
        }
        while state.lanes.take(self.number, now, |part| part.permission()) {
            let begun = {
                let (task, part) = state.lanes.task(self.number)?;
                let mut rows = task.rows();
                let first = rows.next()?;
                part.begin(first).then(|| (part.clone(), first, rows.collect()))
            };
            if begun.is_some() {
                return begun;
            }
            // Rows of a share group whose locks are over: another member has them by now, and the log says so.
            state.decide(self.number, AcknowledgeType::Release);
            state.lanes.finish(self.number);
        }
        None
    }

    fn has_taken_enough(&self) -> bool {
        let Some(most) = self.tasks_at_once else { return false };
        let taken = self.taken.load(Ordering::Relaxed);
        self.taken.store(if taken < most { taken + 1 } else { 0 }, Ordering::Relaxed);
        taken >= most
    }
}

#[pymethods]
impl LaneWorker {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((part, first, more)) = self.take(self.shared.get()?) else { return Ok(None) };
        let record = |row| part.record(py, row)?.map(|record| Bound::new(py, record)).transpose();
        let first = record(first)?;
        if !self.gives_lists {
            return Ok(first.map(Bound::into_any));
        }
        let records = PyList::new(py, [first])?;
        for row in more {
            records.append(record(row)?)?;
        }
        Ok(Some(records.into_any()))
    }

    /// Number of calls of the handler for the task so far; 0 without a task.
    #[getter]
    fn attempts(&self) -> PyResult<u32> {
        Ok(self.shared.get()?.state().lanes.task(self.number).map_or(0, |(task, _)| task.attempts()))
    }

    /// Number of records of the task.
    #[getter]
    fn row_count(&self) -> PyResult<usize> {
        Ok(self.shared.get()?.state().lanes.task(self.number).map_or(0, |(task, _)| task.row_count()))
    }

    /// The partition of the task; `None` without a task.
    #[getter]
    fn partition(&self) -> PyResult<Option<PyPartition>> {
        Ok(self.shared.get()?.state().lanes.partition_of(self.number).cloned().map(py_partition))
    }

    /// Keeps what the transaction of the task has besides its offsets.
    fn hold(&self, written: Py<PyAny>) -> PyResult<()> {
        let shared = self.shared.get()?;
        let held = shared.state().lanes.task(self.number).map(|(task, part)| (part.clone(), task.rows().last()));
        if let Some((part, Some(last))) = held {
            part.hold(last, written);
        }
        Ok(())
    }

    /// Ends the task: its records are finished, although no handler has succeeded. `decision`: what becomes of those of a
    /// share group, "accept", "release" or "reject", unless the handler has decided of them. Returns of how many that is so.
    #[pyo3(signature = (decision="accept"))]
    fn finish(&self, decision: &str) -> PyResult<usize> {
        let shared = self.shared.get()?;
        let mut state = shared.state();
        let decided = state.decide(self.number, acknowledge_type(decision));
        state.lanes.finish(self.number);
        Ok(decided)
    }

    /// Ends the task: its records stay unfinished for good.
    fn forget(&self) -> PyResult<()> {
        self.shared.get()?.state().lanes.forget(self.number);
        Ok(())
    }

    /// Ends the task: it is tried again after `delay` seconds; at once, and for the last time, if the run ends. Returns
    /// false if it was the last time already: its records stay unfinished, and so does what waits behind them.
    fn retry(&self, py: Python<'_>, delay: f64) -> PyResult<bool> {
        let delay = seconds(py, "delay", delay)?;
        let shared = self.shared.get()?;
        let now = shared.now();
        Ok(shared.state().lanes.retry(self.number, now, now.saturating_add(delay)))
    }
}
