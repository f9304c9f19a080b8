//! `Lanes`: the rows of a run that wait for a handler, behind one lock. See `monedula_engine::lanes`.
//!
//! The lock is held for as long as it takes to change the machine, never while Python runs or waits: workers take it
//! for each task, attached to the interpreter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use monedula_client::consumer::Consumer;
use monedula_client::error::ClientError;
use monedula_client::lock::lock;
use monedula_client::share::AcknowledgeType;
use monedula_engine::lanes::{self, Limits, Order, Report};
use monedula_engine::{Now, TopicPartition};
use pyo3::prelude::*;

use super::ConsumerCore;
use super::lane_round::LaneRound;
use super::lane_worker::LaneWorker;
use super::part_rows::{PartRows, tell};
use super::run_member::RunMember;
use super::values::{PyPartition, py_partition, topic_partition};
use crate::batch::Batch;
use crate::error::{argument_error, to_py};
use crate::runtime::Own;

type Reports = Vec<Report<Arc<PartRows>>>;

#[derive(Clone, Copy)]
enum ReaderWait {
    Room,
    Idle,
}

/// What the workers and the reader of a run share.
pub(super) struct LaneState {
    pub(super) lanes: lanes::Lanes<Arc<PartRows>>,
    /// Number of rows whose handler has succeeded.
    pub(super) handled: u64,
    /// What the reader waits for.
    reader_waits: Option<ReaderWait>,
    is_transactional: bool,
}

impl LaneState {
    /// Decides what becomes of the rows of a worker's task, if they are of a share group. The lock of these is taken under
    /// that of the lanes: the run must not end between the two.
    pub(super) fn decide(&self, worker: usize, decision: AcknowledgeType) -> usize {
        self.lanes.task(worker).map_or(0, |(task, part)| part.decide(task.rows(), decision))
    }

    /// True once when there is what the reader waits for.
    pub(super) fn wakes_reader(&mut self) -> bool {
        let is_so = match self.reader_waits {
            None => false,
            Some(ReaderWait::Room) => self.lanes.room() > 0,
            Some(ReaderWait::Idle) => self.lanes.is_idle(),
        };
        if is_so {
            self.reader_waits = None;
        }
        is_so
    }
}

pub(super) struct SharedLanes {
    state: Mutex<LaneState>,
    /// Held while reports are taken and told, so that they are told in their order. Locked by detached threads only.
    reporting: Mutex<()>,
    started: Instant,
}

impl SharedLanes {
    pub(super) fn state(&self) -> MutexGuard<'_, LaneState> {
        lock(&self.state)
    }

    pub(super) fn now(&self) -> Now {
        self.started.elapsed()
    }
}

/// The rows of a run that wait for a handler, and those that are being handled.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct Lanes {
    shared: Own<Arc<SharedLanes>>,
    gives_lists: bool,
}

#[pymethods]
impl Lanes {
    /// `batch_size`: handlers get lists of up to so many records, `None` for one record each.
    #[new]
    #[pyo3(signature = (order, batch_size, *, max_rows, max_bytes, rows_at_once, is_transactional))]
    fn new(
        py: Python<'_>,
        order: &str,
        batch_size: Option<usize>,
        max_rows: usize,
        max_bytes: usize,
        rows_at_once: usize,
        is_transactional: bool,
    ) -> PyResult<Self> {
        let order = match order {
            "key" => Order::Key,
            "partition" => Order::Partition,
            "none" => Order::None,
            other => return Err(argument_error(py, format!("order={other}: expected key, partition or none"))),
        };
        let limits = Limits { task_rows: batch_size.unwrap_or(1), rows: max_rows, bytes: max_bytes, rows_at_once };
        let lanes = lanes::Lanes::new(order, limits, is_transactional);
        let state = Mutex::new(LaneState { lanes, handled: 0, reader_waits: None, is_transactional });
        let shared = SharedLanes { state, reporting: Mutex::default(), started: Instant::now() };
        Ok(Self { shared: Own::new(Arc::new(shared)), gives_lists: batch_size.is_some() })
    }

    /// Appends the rows of a batch that `holder` has. Returns how many tasks can begin because of it.
    fn add(&self, py: Python<'_>, member: RunMember<'_>, batch: &Bound<'_, Batch>, holder: u64) -> PyResult<usize> {
        let shared = self.shared.get()?;
        let mut tasks = 0;
        for part in member.parts(py, batch, holder)?.into_iter().map(Arc::new) {
            let Some(partition) = part.partition() else { continue };
            let keys = part.columns().keys(py)?;
            let (rows, bytes) = (part.columns().rows(), part.memory_bytes());
            tasks += shared.state().lanes.add(partition, part.clone(), rows, bytes, |row| keys.get(row));
        }
        Ok(tasks)
    }

    /// The worker of this number. `tasks_at_once`: its iterator ends after so many tasks, for others to have a turn.
    #[pyo3(signature = (number, tasks_at_once=None))]
    fn worker(&self, number: usize, tasks_at_once: Option<u32>) -> PyResult<LaneWorker> {
        Ok(LaneWorker::new(self.shared.get()?.clone(), number, tasks_at_once, self.gives_lists))
    }

    /// True if so many workers would find a task now.
    #[pyo3(signature = (workers=1))]
    fn is_ready_for(&self, workers: usize) -> PyResult<bool> {
        let shared = self.shared.get()?;
        Ok(shared.state().lanes.is_ready_for(workers, shared.now()))
    }

    /// The seconds until the next retry is due; `None` without one.
    fn next_due(&self) -> PyResult<Option<f64>> {
        let shared = self.shared.get()?;
        Ok(shared.state().lanes.next_due(shared.now()).map(|left| left.as_secs_f64()))
    }

    /// True if no record waits and no handler runs.
    fn is_idle(&self) -> PyResult<bool> {
        Ok(self.shared.get()?.state().lanes.is_idle())
    }

    /// Number of rows that may be taken now; 0 until a quarter of the queue is free.
    fn room(&self) -> PyResult<usize> {
        Ok(self.shared.get()?.state().lanes.room())
    }

    /// Number of records that wait for their handler, retries included.
    #[getter]
    fn waiting(&self) -> PyResult<usize> {
        Ok(self.shared.get()?.state().lanes.waiting())
    }

    /// Number of records whose handler is running.
    #[getter]
    fn in_flight(&self) -> PyResult<usize> {
        Ok(self.shared.get()?.state().lanes.in_flight())
    }

    /// Bytes of memory of parts with unfinished rows.
    #[getter]
    fn queued_bytes(&self) -> PyResult<usize> {
        Ok(self.shared.get()?.state().lanes.queued_bytes())
    }

    /// Number of records whose handler has succeeded.
    #[getter]
    fn handled(&self) -> PyResult<u64> {
        Ok(self.shared.get()?.state().handled)
    }

    /// Number of records that are finished, and in no committed transaction.
    #[getter]
    fn uncommitted(&self) -> PyResult<usize> {
        Ok(self.shared.get()?.state().lanes.uncommitted())
    }

    /// The seconds for which the oldest handler has run; 0 if none runs.
    #[getter]
    fn oldest_seconds(&self) -> PyResult<f64> {
        let shared = self.shared.get()?;
        Ok(shared.state().lanes.oldest(shared.now()).unwrap_or_default().as_secs_f64())
    }

    /// The reader waits until there is "room", or until the run is "idle", or not (`None`): the iterator of the worker
    /// that brings it about ends, once.
    fn set_reader_waits(&self, until: Option<&str>) -> PyResult<()> {
        let until = until.map(|until| if until == "room" { ReaderWait::Room } else { ReaderWait::Idle });
        self.shared.get()?.state().reader_waits = until;
        Ok(())
    }

    /// Begins no row of a partition after the last one begun.
    fn freeze(&self, partition: PyPartition) -> PyResult<()> {
        self.shared.get()?.state().lanes.freeze(&topic_partition(partition));
        Ok(())
    }

    /// Keeps only these partitions frozen.
    fn thaw(&self, frozen: Vec<PyPartition>) -> PyResult<()> {
        let frozen: BTreeSet<TopicPartition> = frozen.into_iter().map(topic_partition).collect();
        self.shared.get()?.state().lanes.thaw(&frozen);
        Ok(())
    }

    /// Begins nothing after the last rows begun. Pending retries get their last attempt now.
    fn end_gracefully(&self) -> PyResult<()> {
        let shared = self.shared.get()?;
        shared.state().lanes.end_gracefully(shared.now());
        Ok(())
    }

    /// Begins no further row, nor another attempt of a pending one.
    fn drop_all(&self) -> PyResult<()> {
        self.shared.get()?.state().lanes.drop_all();
        Ok(())
    }

    /// Begins nothing any more, because of a failure.
    fn fail(&self) -> PyResult<()> {
        self.shared.get()?.state().lanes.fail();
        Ok(())
    }

    /// Waits for no handler any longer. Returns the partition of each part that is given up because of a running one.
    fn end(&self) -> PyResult<Vec<PyPartition>> {
        Ok(self.shared.get()?.state().lanes.end().into_iter().map(py_partition).collect())
    }

    /// Gives up the unfinished rows of a partition. Returns the number of parts.
    fn abandon(&self, partition: PyPartition) -> PyResult<usize> {
        Ok(self.shared.get()?.state().lanes.abandon(&topic_partition(partition)))
    }

    /// Reports the progress to the consumer. Returns whether records were given up that it has to read again.
    fn report(&self, py: Python<'_>, member: RunMember<'_>) -> PyResult<bool> {
        self.tell(py, &member, |state| match state.is_transactional {
            true => state.lanes.settled_rounds(|part| part.reading()),
            false => state.lanes.reports(),
        })
    }

    /// What the next transaction has; `None` if that is nothing. If it `is_last`, no handler is waited for.
    fn round(&self, py: Python<'_>, core: &ConsumerCore, is_last: bool) -> PyResult<Option<LaneRound>> {
        let (shared, consumer) = (self.shared.get()?, core.consumer.get()?);
        let sought = shared.state().lanes.sought_partitions(|part| part.reading());
        // Asked for without the lock, which is the last one of all. One that was revoked just now has none.
        let position =
            |partition: TopicPartition| Some((partition.clone(), consumer.status(&partition).ok()?.position?));
        let positions: BTreeMap<_, _> = match sought.is_empty() {
            true => BTreeMap::new(),
            false => py.detach(|| sought.into_iter().filter_map(position).collect()),
        };
        let mut state = shared.state();
        let round = state.lanes.round(is_last, &positions, |part| part.reading(), |part, row| part.offset(row));
        Ok((!round.is_empty()).then_some(LaneRound(round)))
    }

    /// Reports that a transaction was committed.
    fn commit(&self, py: Python<'_>, member: RunMember<'_>, committed: &LaneRound) -> PyResult<()> {
        self.tell(py, &member, |state| state.lanes.commit(&committed.0))?;
        let written: Vec<_> = committed.0.iter().map(|part| part.payload.commit(part.end)).collect();
        drop(written);
        Ok(())
    }

    /// True if a partition with uncommitted records is not this consumer's any more.
    fn has_lost(&self) -> PyResult<bool> {
        Ok(self.shared.get()?.state().lanes.has_lost(|part| part.reading()))
    }

    /// Reports what is committed of all parts: the run with transactions ends. Returns as `report`.
    fn report_rest(&self, py: Python<'_>, member: RunMember<'_>) -> PyResult<bool> {
        self.tell(py, &member, |state| state.lanes.rest())
    }
}

impl Lanes {
    fn tell(
        &self,
        py: Python<'_>,
        member: &RunMember<'_>,
        reports: impl FnOnce(&mut LaneState) -> Reports + Send,
    ) -> PyResult<bool> {
        let (shared, consumer) = (self.shared.get()?, member.consumer()?);
        let (reports, removed, told) = py.detach(|| tell_all(shared, consumer, reports));
        let is_left_behind = consumer.is_some() && reports.iter().any(Report::is_left_behind);
        // What was written by transactions may be dropped with them.
        drop((reports, removed));
        told.map_err(|error| to_py(py, error))?;
        Ok(is_left_behind)
    }
}

fn tell_all(
    shared: &SharedLanes,
    consumer: Option<&Arc<Consumer>>,
    reports: impl FnOnce(&mut LaneState) -> Reports,
) -> (Reports, Vec<Arc<PartRows>>, Result<(), ClientError>) {
    let _in_order = lock(&shared.reporting);
    let (reports, removed) = {
        let mut state = shared.state();
        (reports(&mut state), state.lanes.take_removed())
    };
    let told: Vec<_> = match consumer {
        Some(consumer) => reports.iter().map(|report| tell(consumer, report)).collect(),
        None => Vec::new(),
    };
    (reports, removed, told.into_iter().collect())
}
