//! The core of a consumer's group membership: subscriptions, callbacks, finished rows, commits, and leaving.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use monedula_client::blocking;
use monedula_client::consumer::Consumer;
use monedula_client::error::ClientError;
use monedula_client::group::{
    CallbackKind, CommitError, CommitOffset, CommitOutcome, CommitWhat, Leaving, Listens, Subscribed,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::batch::{Batch, Hold};
use crate::consumer::group_state::{PyEvent, py_event, py_figures, py_health};
use crate::consumer::values::{PyPartition, py_partition, topic_partition};
use crate::error::to_py;
use crate::interpreter::thread_ids::thread_holder;
use crate::logging::flush_log;
use crate::operation::Operation;
use crate::runtime::{Own, SLICE, in_slices, not_run};
use crate::seconds::{Seconds, seconds};

/// An offset to commit: partition, offset, leader epoch or -1, metadata.
type PyOffset = (PyPartition, i64, i32, String);

/// A committed offset: offset, leader epoch or -1, metadata.
type PyCommitted = (i64, i32, String);

/// Presence of the user's callbacks for assigned, revoked and lost partitions.
type PyListens = (bool, bool, bool);

/// A callback that Python must run now.
#[pyclass(frozen, get_all, module = "monedula._monedula")]
pub(crate) struct PendingCallback {
    /// The argument for `called_back`.
    ticket: u64,
    /// "assigned", "revoked" or "lost".
    kind: &'static str,
    /// The assigned, revoked or lost partitions.
    partitions: Vec<PyPartition>,
}

impl From<monedula_client::group::PendingCallback> for PendingCallback {
    fn from(pending: monedula_client::group::PendingCallback) -> Self {
        let kind = match pending.kind {
            CallbackKind::Assigned => "assigned",
            CallbackKind::Revoked => "revoked",
            CallbackKind::Lost => "lost",
        };
        let partitions = pending.partitions.into_iter().map(py_partition).collect();
        Self { ticket: pending.ticket, kind, partitions }
    }
}

/// A consumer as a member of its group; see `monedula.Consumer`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct MemberCore {
    consumer: Own<Arc<Consumer>>,
    /// Set when a commit without a waiting caller has completed.
    news: Arc<AtomicBool>,
}

impl MemberCore {
    pub(crate) fn new(consumer: Arc<Consumer>, news: Arc<AtomicBool>) -> Self {
        Self { consumer: Own::new(consumer), news }
    }

    pub(crate) fn consumer(&self) -> PyResult<&Arc<Consumer>> {
        self.consumer.get()
    }

    fn timeout(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Duration> {
        match timeout {
            Some(timeout) => timeout.duration(py),
            None => Ok(self.consumer.get()?.config().default_api_timeout),
        }
    }
}

#[pymethods]
impl MemberCore {
    fn subscribe(&self, py: Python<'_>, topics: Vec<String>, listens: PyListens) -> PyResult<()> {
        let topics = topics.into_iter().map(Arc::from).collect();
        self.subscribe_to(py, Subscribed::Topics(topics), listens)
    }

    fn subscribe_pattern(
        &self,
        py: Python<'_>,
        include: String,
        exclude: Option<String>,
        listens: PyListens,
    ) -> PyResult<()> {
        self.subscribe_to(py, Subscribed::Pattern { include, exclude }, listens)
    }

    fn subscribe_server_pattern(&self, py: Python<'_>, pattern: String, listens: PyListens) -> PyResult<()> {
        self.subscribe_to(py, Subscribed::ServerPattern(pattern), listens)
    }

    /// Reports the end of a callback. `failed`: it raised an error, which the user sees.
    fn called_back(&self, py: Python<'_>, ticket: u64, failed: bool) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        py.detach(|| consumer.called_back(ticket, failed));
        Ok(())
    }

    fn keep_alive(&self, py: Python<'_>) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        py.detach(|| consumer.keep_alive());
        Ok(())
    }

    /// Finishes all rows that a thread or task holds. `holder` is a task's number, `None` for this thread.
    #[pyo3(signature = (holder=None))]
    fn finish_held(&self, py: Python<'_>, holder: Option<u64>) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        let holder = holder.unwrap_or_else(|| thread_holder(consumer));
        py.detach(|| consumer.finish_held(holder));
        Ok(())
    }

    fn finish(&self, py: Python<'_>, batch: &Bound<'_, Batch>) -> PyResult<()> {
        let (consumer, Batch(batch, _)) = (self.consumer.get()?, batch.get());
        py.detach(|| consumer.finish(batch)).map_err(|error| to_py(py, error))
    }

    /// Splits a batch into one batch per span of rows of a partition. Each of them is finished separately.
    #[pyo3(signature = (batch, holder=None))]
    fn hand_over(&self, py: Python<'_>, batch: &Bound<'_, Batch>, holder: Option<u64>) -> PyResult<Vec<Batch>> {
        let (consumer, Batch(batch, _)) = (self.consumer.get()?, batch.get());
        let holder = holder.unwrap_or_else(|| thread_holder(consumer));
        let parts = py.detach(|| consumer.hand_over(batch, holder)).map_err(|error| to_py(py, error))?;
        Ok(parts
            .into_iter()
            .map(|(part, unfinished)| Batch(part, Some(Hold::Unfinished(Own::new(unfinished)))))
            .collect())
    }

    /// Leaves the rest of a part from `hand_over` uncommitted, for good.
    fn abandon(&self, py: Python<'_>, part: &Bound<'_, Batch>) -> PyResult<()> {
        let (consumer, Batch(part, _)) = (self.consumer.get()?, part.get());
        py.detach(|| consumer.abandon(part));
        Ok(())
    }

    /// Reports the end of a task that has received rows: rows that it has not finished stay uncommitted.
    fn holder_ended(&self, py: Python<'_>, holder: u64) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        py.detach(|| drop(consumer.holder(holder)));
        flush_log(py, consumer.log());
        Ok(())
    }

    fn rebalance_wanted(&self, py: Python<'_>) -> PyResult<Vec<PyPartition>> {
        let consumer = self.consumer.get()?;
        Ok(py.detach(|| consumer.rebalance_wanted()).into_iter().map(py_partition).collect())
    }

    fn enforce_rebalance(&self, py: Python<'_>, reason: String, after: f64) -> PyResult<()> {
        let (consumer, after) = (self.consumer.get()?, seconds(py, "after", after)?);
        py.detach(|| consumer.enforce_rebalance(reason, after)).map_err(|error| to_py(py, error))
    }

    /// Commits offsets: `{(topic, partition): (offset, None or (Kafka's error name or None, retriable, message))}`.
    /// `is_news`: the end of the commit ends the consumer's next wait, which runs what was to be called then.
    #[pyo3(signature = (what, holder, timeout, is_news=false))]
    fn commit(
        &self,
        py: Python<'_>,
        what: Option<&Bound<'_, PyAny>>,
        holder: Option<u64>,
        timeout: Option<Seconds>,
        is_news: bool,
    ) -> PyResult<Operation> {
        let consumer = self.consumer.get()?;
        let committing = consumer.commit(commit_what(consumer, what, holder)?, self.timeout(py, timeout)?);
        let operation = Operation::start(committing, consumer.log(), |py, outcome| {
            Ok(outcome_dict(py, outcome)?.into_any().unbind())
        })?;
        if is_news {
            let news = self.news.clone();
            operation.on_done(move || news.store(true, Ordering::Release))?;
        }
        Ok(operation)
    }

    /// The group's committed offsets: `{(topic, partition): (offset, leader epoch or -1, metadata) or None}`.
    fn committed(
        &self,
        py: Python<'_>,
        partitions: Option<Vec<PyPartition>>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let consumer = self.consumer.get()?;
        let group = consumer.config().group_id.clone();
        let group = group.ok_or_else(|| {
            to_py(py, ClientError::Argument("committed() needs the setting group.id: whose offsets it is about".into()))
        })?;
        let partitions = match partitions {
            Some(partitions) => partitions.into_iter().map(topic_partition).collect(),
            None => consumer.assignment(),
        };
        let lookup = consumer.committed_offsets(group, Some(partitions), self.timeout(py, timeout)?);
        Operation::start(lookup, consumer.log(), |py, found| {
            let found = found.into_iter().map(|(partition, found)| {
                let found = found.map_err(|fault| to_py(py, fault.into()))?;
                Ok((py_partition(partition), found.map(|at| (at.offset, at.leader_epoch, at.metadata))))
            });
            let found: BTreeMap<PyPartition, Option<PyCommitted>> = found.collect::<PyResult<_>>()?;
            Ok(found.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Seeks back to the committed offsets: rows that were returned and are not committed are read again.
    fn rewind(&self, py: Python<'_>) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        py.detach(|| consumer.rewind()).map_err(|error| to_py(py, error))
    }

    /// The group metadata: group id, generation, member id, group instance id.
    fn metadata(&self, py: Python<'_>) -> PyResult<(String, i32, String, Option<String>)> {
        let consumer = self.consumer.get()?;
        let metadata = py.detach(|| consumer.group_metadata()).map_err(|error| to_py(py, error))?;
        Ok((metadata.group, metadata.generation, metadata.member_id, metadata.instance_id))
    }

    /// Keeps events from now on, for `take_events`.
    fn keep_events(&self) -> PyResult<()> {
        self.consumer.get()?.keep_events(true);
        Ok(())
    }

    /// The events since the last call: seconds since the epoch, name of a class of `monedula.events`, its attributes.
    fn take_events<'py>(&self, py: Python<'py>) -> PyResult<Vec<PyEvent<'py>>> {
        let events = self.consumer.get()?.take_events();
        events.into_iter().map(|(at, event)| py_event(py, at, event)).collect()
    }

    fn begin_unsubscribe(&self, py: Python<'_>) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        py.detach(|| consumer.start_unsubscribe()).map_err(|error| to_py(py, error))
    }

    fn begin_close(&self, py: Python<'_>, timeout: Seconds) -> PyResult<()> {
        let (consumer, timeout) = (self.consumer.get()?, timeout.duration(py)?);
        py.detach(|| consumer.start_close(timeout)).map_err(|error| to_py(py, error))
    }

    /// Continues to leave the group. Returns a callback that must run, or `None` when the member has left or `timeout`
    /// seconds have passed.
    fn leaving(&self, py: Python<'_>, timeout: Seconds) -> PyResult<Option<PendingCallback>> {
        let consumer = self.consumer.get()?;
        let deadline = timeout.deadline(py)?;
        let step = in_slices(py, |until| Ok(left(consumer, until, deadline)));
        flush_log(py, consumer.log());
        step
    }

    /// As `leaving`, in a thread of the core.
    fn leaving_in_thread(&self, py: Python<'_>, timeout: Seconds) -> PyResult<Operation> {
        let consumer = self.consumer.get()?.clone();
        let log = consumer.log().clone();
        let deadline = timeout.deadline(py)?;
        let leaving = async move {
            loop {
                let consumer = consumer.clone();
                let patience = deadline.saturating_duration_since(Instant::now());
                let waited =
                    blocking::run_patiently(patience, move || left(&consumer, Instant::now() + SLICE, deadline));
                if let Some(step) = waited.await.map_err(|error| not_run(error, ClientError::Closed))? {
                    return Ok(step);
                }
            }
        };
        Operation::start(leaving, &log, |py, step: Option<PendingCallback>| {
            Ok(step.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// The member's metrics by name; empty without a `group.id`.
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let consumer = self.consumer.get()?;
        let health = py.detach(|| consumer.group_status());
        py_figures(py, health.map(|health| health.figures).as_ref())
    }

    /// The health of the membership; `None` without a `group.id`.
    fn health<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let consumer = self.consumer.get()?;
        let health = py.detach(|| consumer.group_status());
        health.map(|health| py_health(py, health)).transpose()
    }
}

impl MemberCore {
    fn subscribe_to(&self, py: Python<'_>, what: Subscribed, (assigned, revoked, lost): PyListens) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        let listens = Listens { assigned, revoked, lost };
        py.detach(|| consumer.subscribe(what, listens)).map_err(|error| to_py(py, error))
    }
}

/// Waits until `until` for the next step of leaving. `None` if nothing has happened; `Some(None)` if the member has
/// left or the deadline has passed.
fn left(consumer: &Consumer, until: Instant, deadline: Instant) -> Option<Option<PendingCallback>> {
    match consumer.leaving(until.min(deadline)) {
        Leaving::Callback(pending) => Some(Some(pending.into())),
        Leaving::Done => Some(None),
        Leaving::Waiting if deadline <= Instant::now() => {
            consumer.abandon_callbacks();
            Some(None)
        }
        Leaving::Waiting => None,
    }
}

pub(crate) fn commit_what(
    consumer: &Consumer,
    what: Option<&Bound<'_, PyAny>>,
    holder: Option<u64>,
) -> PyResult<CommitWhat> {
    let Some(what) = what else {
        return Ok(CommitWhat::Finished { holder: holder.unwrap_or_else(|| thread_holder(consumer)) });
    };
    if let Ok(batch) = what.cast::<Batch>() {
        let Batch(batch, _) = batch.get();
        consumer.check_own(batch).map_err(|error| to_py(what.py(), error))?;
        return Ok(CommitWhat::Batch { id: batch.id, places: batch.places.clone() });
    }
    let offsets: Vec<PyOffset> = what.extract()?;
    let offsets = offsets.into_iter().map(|(partition, offset, leader_epoch, metadata)| {
        (topic_partition(partition), CommitOffset { offset, leader_epoch, metadata })
    });
    Ok(CommitWhat::Offsets(offsets.collect()))
}

fn outcome_dict(py: Python<'_>, outcome: CommitOutcome) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (partition, (at, result)) in outcome {
        dict.set_item(py_partition(partition), (at.offset, result.err().map(|error| failure(&error))))?;
    }
    Ok(dict)
}

fn failure(error: &CommitError) -> (Option<&'static str>, bool, String) {
    let (code, retriable) = match error {
        CommitError::MemberGone { code } => (Some(code.name()), false),
        CommitError::Refused { code } => (Some(code.name()), code.is_retriable()),
        CommitError::TimedOut { .. } => (None, true),
        CommitError::NotOwned | CommitError::Closed => (None, false),
    };
    (code, retriable, error.to_string())
}
