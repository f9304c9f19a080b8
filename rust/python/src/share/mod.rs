//! The core of `monedula.ShareConsumer` and its asynchronous counterpart.

mod rows;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use monedula_client::blocking;
use monedula_client::error::ClientError;
use monedula_client::log::Log;
use monedula_client::share::{AcknowledgeOutcome, AcknowledgeType, Decided, Scope, ShareConsumer, ShareHealth};
use monedula_columns::ColumnSet;
use monedula_engine::TopicPartition;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrow::schema::Schema;
use crate::batch::{Batch, Hold};
use crate::config;
use crate::consumer::group_state::{PyEvent, py_event};
use crate::consumer::part_rows::PartRows;
use crate::consumer::values::{PyPartition, py_partition, want};
use crate::error::{argument_error, to_py};
use crate::formats::{PySpec, batch_columns};
use crate::interpreter::thread_ids::{share_thread_holder, this_thread};
use crate::logging::{flush_log, follow};
use crate::metric_registry::MetricRegistry;
use crate::operation::Operation;
use crate::record::{LockedBatch, Record};
use crate::runtime::{self, Own, SLICE, in_slices, not_run};
use crate::seconds::{Seconds, seconds, unix_seconds};
use crate::tokens::Settings;

/// The column of delivery counts, which `columns` may name too.
const DELIVERY_COUNT: &str = "deliveryCount";

/// No batch in hand has this id: they count from 1. Stands for batches without rows, which `poll` returns too.
const NO_ROWS: u64 = 0;

/// The outcome of an acknowledgement: topic, partition, records, and the name and the reason of an error.
type PyOutcome = (String, i32, u64, Option<(&'static str, String)>);

/// The core of a share group's consumer; see `monedula.ShareConsumer`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct ShareConsumerCore(Own<Arc<ShareConsumer>>);

#[pymethods]
impl ShareConsumerCore {
    #[new]
    #[pyo3(signature = (settings, columns=None, headers=false, key=None, value=None))]
    fn new(
        py: Python<'_>,
        settings: Settings,
        columns: Option<Vec<String>>,
        headers: bool,
        key: PySpec<'_>,
        value: PySpec<'_>,
    ) -> PyResult<Self> {
        let settings = config::parse_share(py, settings)?;
        let has_delivery_count = columns.iter().flatten().any(|name| name == DELIVERY_COUNT);
        let mut columns: Option<Vec<_>> =
            columns.map(|names| names.into_iter().filter(|name| name != DELIVERY_COUNT).collect());
        // A batch of delivery counts alone: offsets are decoded in any case, and left out.
        let counts_alone = columns.as_mut().filter(|names| has_delivery_count && names.is_empty());
        let hidden = counts_alone.map_or(ColumnSet::NONE, |names| {
            names.extend(ColumnSet::OFFSET.names().map(str::to_owned));
            ColumnSet::OFFSET
        });
        let mut columns = batch_columns(py, columns, headers, (&key, &value), None, settings.schema_registry.as_ref())?;
        columns.set = columns.set.without(hidden);
        let runtime = runtime::handle()?;
        let consumer = ShareConsumer::new(settings, columns, has_delivery_count, &runtime, config::seed());
        let consumer = Arc::new(consumer);
        follow(py, consumer.log(), "");
        flush_log(py, consumer.log());
        runtime::register_share(&consumer);
        Ok(Self(Own::new(consumer)))
    }

    fn subscribe(&self, py: Python<'_>, topics: Vec<String>) -> PyResult<()> {
        let topics: BTreeSet<Arc<str>> = topics.iter().map(|topic| topic.as_str().into()).collect();
        self.0.get()?.subscribe(topics).map_err(|error| to_py(py, error))
    }

    fn unsubscribe(&self, py: Python<'_>) -> PyResult<()> {
        self.0.get()?.unsubscribe().map_err(|error| to_py(py, error))
    }

    /// Waits for the next batch with rows. `timeout` is in seconds, `None` waits without limit; returns an empty batch
    /// after it.
    #[pyo3(signature = (max_rows, max_bytes, timeout=None, holder=None))]
    fn next_batch(
        &self,
        py: Python<'_>,
        max_rows: &Bound<'_, PyAny>,
        max_bytes: &Bound<'_, PyAny>,
        timeout: Option<Seconds>,
        holder: Option<u64>,
    ) -> PyResult<Batch> {
        let consumer = self.0.get()?;
        let want = want(py, max_rows, max_bytes, 0.0, timeout)?;
        let holder = holder.unwrap_or_else(|| share_thread_holder(consumer));
        let batch = in_slices(py, |until| {
            let until = want.deadline.map_or(until, |deadline| until.min(deadline));
            match consumer.next(&want, until, holder)? {
                Some(batch) => Ok(Some(Some(batch))),
                None if want.deadline.is_some_and(|deadline| deadline <= Instant::now()) => Ok(Some(None)),
                None => Ok(None),
            }
        });
        self.flush_log(py);
        let Some(batch) = batch? else { return Ok(consumer.empty_batch().into()) };
        if let Err(raised) = py.check_signals() {
            // By the handler of a signal that came meanwhile. Nobody has seen the rows.
            consumer.decide_undecided(batch.id, 0..batch.columns.record_batch.num_rows(), AcknowledgeType::Release);
            return Err(raised);
        }
        let locked = LockedBatch::new(consumer, batch.id);
        Ok(Batch(batch, Some(Hold::Locks(Arc::new(locked)))))
    }

    /// Waits, in a thread of the core, until `next_batch` would return at once. Accepts the rows that `holder` holds.
    #[pyo3(signature = (timeout=None, holder=None))]
    fn ready(&self, py: Python<'_>, timeout: Option<Seconds>, holder: Option<u64>) -> PyResult<Operation> {
        let consumer = self.0.get()?;
        let deadline = timeout.map(|timeout| timeout.deadline(py)).transpose()?;
        let holder = holder.unwrap_or_else(this_thread);
        let waits = py.detach(|| {
            consumer.enter(holder);
            consumer.waits()
        });
        let api_timeout = consumer.config().default_api_timeout;
        let weak = Arc::downgrade(consumer);
        let waiting = async move {
            let _waits = waits;
            loop {
                // Only a weak reference between the slices: waiting must not keep a dropped consumer alive.
                let Some(consumer) = weak.upgrade() else { return Err(ClientError::Closed) };
                let patience = deadline.map_or(api_timeout, |at| at.saturating_duration_since(Instant::now()));
                let waited = blocking::run_patiently(patience, move || {
                    let until = Instant::now() + SLICE;
                    consumer.ready(deadline.map_or(until, |deadline| until.min(deadline)))
                        || deadline.is_some_and(|deadline| deadline <= Instant::now())
                });
                if waited.await.map_err(|error| not_run(error, ClientError::Closed))? {
                    return Ok(());
                }
            }
        };
        Operation::start(waiting, self.log()?, |py, ()| Ok(py.None()))
    }

    /// Decides what becomes of rows of a batch, or of a record: "accept", "release" or "reject".
    #[pyo3(signature = (what, rows, decision))]
    fn decide(
        &self,
        py: Python<'_>,
        what: &Bound<'_, PyAny>,
        rows: Option<&Bound<'_, PyAny>>,
        decision: &str,
    ) -> PyResult<()> {
        let consumer = self.0.get()?;
        let kind = acknowledge_type(decision);
        let (id, ranges) = self.held(py, what, rows)?;
        let Some(id) = id else { return Ok(()) };
        let rest = match consumer.config().share.is_implicit {
            true => "; leave it out: what is undecided is accepted when the next batch is asked for",
            false => "; leave it out",
        };
        match py.detach(|| consumer.decide(id, &ranges, kind)) {
            Decided::Taken => Ok(()),
            Decided::Conflict { row, before: Some(before) } => {
                let conflict = format!("row {row} was {} before, and cannot be {}", decided(before), decided(kind));
                Err(argument_error(py, conflict + rest))
            }
            Decided::Conflict { row, before: None } => {
                let conflict = format!("row {row} was decided before, and told to the broker: it cannot be");
                Err(argument_error(py, format!("{conflict} {}{rest}", decided(kind))))
            }
            Decided::Unknown => Err(self.over(py)),
        }
    }

    /// Decides what becomes of those of these rows that are undecided.
    fn decide_undecided(&self, batch: &Bound<'_, Batch>, start: usize, stop: usize, decision: &str) -> PyResult<()> {
        self.0.get()?.decide_undecided(batch.get().0.id, start..stop, acknowledge_type(decision));
        Ok(())
    }

    /// A loop over the records of a batch goes on to this row. `accepts`: the row before is accepted, if it is undecided.
    /// False if there is no such row, or if its lock is over: it may be with another member. Raises as `check_ended`.
    fn read(&self, py: Python<'_>, batch: &Bound<'_, Batch>, row: usize, accepts: bool) -> PyResult<bool> {
        self.0.get()?.read(batch.get().0.id, row, accepts).map_err(|error| to_py(py, error))
    }

    /// What this thread, or this task, was handed is accepted, unless decisions are explicit; as by asking for the next batch.
    #[pyo3(signature = (holder=None))]
    fn enter(&self, holder: Option<u64>) -> PyResult<()> {
        self.0.get()?.enter(holder.unwrap_or_else(this_thread));
        Ok(())
    }

    /// Nothing: a share group takes no partition away whose records are handled.
    fn rebalance_wanted(&self) -> Vec<PyPartition> {
        Vec::new()
    }

    /// Nothing: what is released comes again by itself.
    fn rewind(&self) {}

    /// Reports the end of a task that has received rows, or of a run: what is undecided of its rows is released.
    fn holder_ended(&self, py: Python<'_>, holder: u64) -> PyResult<()> {
        drop(self.0.get()?.undecided_of(holder));
        self.flush_log(py);
        Ok(())
    }

    /// Sends what was decided, in the background.
    fn send_decided(&self) -> PyResult<()> {
        self.0.get()?.send_decided();
        Ok(())
    }

    /// Raises what ends the waits of this consumer: `wakeup()`, the end of the membership, or that it was closed.
    fn check_ended(&self, py: Python<'_>) -> PyResult<()> {
        self.0.get()?.check_ended().map_err(|error| to_py(py, error))
    }

    /// True if undecided rows are accepted when the next batch is asked for.
    #[getter]
    fn is_implicit(&self) -> PyResult<bool> {
        Ok(self.0.get()?.config().share.is_implicit)
    }

    /// Renews the locks of undecided rows; the batch's `deadline` is the new one then.
    #[pyo3(signature = (what, rows=None, timeout=None))]
    fn renew(
        &self,
        py: Python<'_>,
        what: &Bound<'_, PyAny>,
        rows: Option<&Bound<'_, PyAny>>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let consumer = self.0.get()?;
        let (id, ranges) = self.held(py, what, rows)?;
        if id.is_some_and(|id| consumer.rows(id).is_none()) {
            return Err(self.over(py));
        }
        let id = id.unwrap_or(NO_ROWS);
        let timeout = self.timeout(py, timeout)?;
        let renewing = py.detach(|| consumer.renew(id, &ranges, timeout));
        let weak = Arc::downgrade(consumer);
        Operation::start(renewing, self.log()?, move |py, outcomes| {
            let deadline = monotonic(py, weak.upgrade().and_then(|consumer| consumer.deadline(id)))?;
            let outcomes: Vec<PyOutcome> = outcomes.into_iter().map(py_outcome).collect();
            Ok((deadline, outcomes).into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Sends what was decided of a batch, or of all, and resolves with the outcomes of all that is under way. Without
    /// `what`, and unless `is_explicit`, what `holder` holds is accepted first.
    #[pyo3(signature = (what=None, timeout=None, holder=None))]
    fn commit(
        &self,
        py: Python<'_>,
        what: Option<&Bound<'_, Batch>>,
        timeout: Option<Seconds>,
        holder: Option<u64>,
    ) -> PyResult<Operation> {
        let consumer = self.0.get()?;
        let timeout = self.timeout(py, timeout)?;
        let scope = match what {
            Some(batch) => {
                let is_empty = batch.get().0.columns.record_batch.num_rows() == 0;
                let id = if is_empty { NO_ROWS } else { batch.get().0.id };
                if !is_empty {
                    self.check_own(py, batch)?;
                }
                if consumer.config().share.is_implicit {
                    consumer.accept_rest_of(id);
                }
                Scope::Batch(id)
            }
            None => {
                if consumer.config().share.is_implicit {
                    consumer.accept_rest(holder.unwrap_or_else(this_thread));
                }
                Scope::All
            }
        };
        let committing = py.detach(|| consumer.commit(scope, timeout));
        Operation::start(committing, self.log()?, |py, outcomes| {
            let outcomes: Vec<PyOutcome> = outcomes.into_iter().map(py_outcome).collect();
            Ok(outcomes.into_pyobject(py)?.unbind())
        })
    }

    /// Keeps events of the membership from now on, for `take_events`.
    fn keep_events(&self) -> PyResult<()> {
        self.0.get()?.keep_events(true);
        Ok(())
    }

    /// The events since the last call: seconds since the epoch, name of a class of `monedula.events`, its attributes.
    fn take_events<'py>(&self, py: Python<'py>) -> PyResult<Vec<PyEvent<'py>>> {
        let events = self.0.get()?.take_events();
        events.into_iter().map(|(at, event)| py_event(py, at, event)).collect()
    }

    /// Raises `BrokersUnavailableError` if the client has been failing for at least so many seconds.
    fn check_failing(&self, py: Python<'_>, at_least: f64) -> PyResult<()> {
        let (consumer, at_least) = (self.0.get()?, seconds(py, "at_least", at_least)?);
        py.detach(|| consumer.check_failing(at_least)).map_err(|error| to_py(py, error))
    }

    #[getter]
    fn schema(&self) -> PyResult<Schema> {
        Ok(Schema(self.0.get()?.empty_batch().record_batch.schema()))
    }

    fn is_closed(&self) -> PyResult<bool> {
        Ok(self.0.get()?.is_closed())
    }

    fn wakeup(&self) -> PyResult<()> {
        self.0.get()?.wakeup();
        Ok(())
    }

    fn metrics(&self) -> PyResult<Vec<(&'static str, u64)>> {
        Ok(self.0.get()?.metrics().snapshot())
    }

    fn health<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let consumer = self.0.get()?;
        py_health(py, &py.detach(|| consumer.health()), consumer.is_closed())
    }

    fn metric_registry(&self) -> PyResult<MetricRegistry> {
        Ok(MetricRegistry::of(self.0.get()?.registered_metrics()))
    }

    /// Bytes of the buffer pool: outstanding (held by batches and fetches) and idle.
    fn pool_bytes(&self) -> PyResult<(usize, usize)> {
        let pool = self.0.get()?.pool();
        Ok((pool.outstanding_bytes(), pool.idle_bytes()))
    }

    /// Releases what is undecided, leaves the group and closes the connections, in a thread of the core.
    fn close(&self, py: Python<'_>, timeout: Seconds) -> PyResult<Operation> {
        let consumer = self.0.get()?.clone();
        let timeout = timeout.duration(py)?;
        let closing = async move {
            blocking::run_patiently(timeout, move || consumer.close(timeout))
                .await
                .map_err(|error| not_run(error, ClientError::Closed))
        };
        Operation::start(closing, self.log()?, |py, ()| Ok(py.None()))
    }
}

impl ShareConsumerCore {
    /// The rows of a batch, by partition, for handlers that decide of each.
    pub(crate) fn hand_over(&self, py: Python<'_>, batch: &Bound<'_, Batch>) -> PyResult<Vec<PartRows>> {
        let locked = self.check_own(py, batch)?;
        let (consumer, Batch(batch, _)) = (self.0.get()?, batch.get());
        let parts = consumer.hand_over(batch.id).into_iter();
        Ok(parts.map(|(partition, rows)| PartRows::locked(consumer, (batch, locked), partition, &rows)).collect())
    }

    /// The batch in hand and the rows that are meant; no batch if it has no rows.
    fn held(
        &self,
        py: Python<'_>,
        what: &Bound<'_, PyAny>,
        rows: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Option<u64>, Vec<Range<usize>>)> {
        if let Ok(batch) = what.cast::<Batch>() {
            let count = batch.get().0.columns.record_batch.num_rows();
            let ranges = rows::ranges(py, rows, count)?;
            if count == 0 {
                return Ok((None, ranges));
            }
            self.check_own(py, batch)?;
            return Ok((Some(batch.get().0.id), ranges));
        }
        let Ok(record) = what.cast::<Record>() else {
            let kind = what.get_type().name()?;
            return Err(argument_error(py, format!("expected a Batch or a Record of this consumer, not {kind}")));
        };
        if rows.is_some_and(|rows| !rows.is_none()) {
            return Err(argument_error(py, "rows is for batches: a record is one row".into()));
        }
        if let Some((batch, row)) = record.get().locked() {
            return match self.is_own(batch)? {
                true => Ok((Some(batch.id()), std::iter::once(row..row + 1).collect())),
                false => Err(argument_error(py, "the record is not of this consumer".into())),
            };
        }
        let place = record.get().place(py).ok_or_else(|| {
            let message = "a copy of a record, or one of another consumer, which does not say where it is from: decide of the \
                           record itself, or read the columns topic, partition and offset, too";
            argument_error(py, message.into())
        })?;
        let found = self.0.get()?.find(&TopicPartition::new(place.0, place.1), place.2);
        let (id, row) = found.ok_or_else(|| self.over(py))?;
        Ok((Some(id), std::iter::once(row..row + 1).collect()))
    }

    fn check_own<'b>(&self, py: Python<'_>, batch: &'b Bound<'_, Batch>) -> PyResult<&'b Arc<LockedBatch>> {
        match &batch.get().1 {
            Some(Hold::Locks(batch)) if self.is_own(batch)? => Ok(batch),
            _ => Err(argument_error(py, "the batch is not of this consumer".into())),
        }
    }

    fn is_own(&self, batch: &LockedBatch) -> PyResult<bool> {
        Ok(std::ptr::eq(batch.consumer()?.as_ptr(), Arc::as_ptr(self.0.get()?)))
    }

    /// The error about rows that are not in hand.
    fn over(&self, py: Python<'_>) -> PyErr {
        match self.0.get() {
            Ok(consumer) if !consumer.is_closed() => {
                let reason = "all of it was decided and told to the broker before, its locks have been over for minutes, or it is \
                              not of this consumer";
                argument_error(py, reason.into())
            }
            Ok(_) => to_py(py, ClientError::Closed),
            Err(error) => error,
        }
    }

    fn timeout(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Duration> {
        match timeout {
            Some(timeout) => timeout.duration(py),
            None => Ok(self.0.get()?.config().default_api_timeout),
        }
    }

    fn log(&self) -> PyResult<&Log> {
        Ok(self.0.get()?.log())
    }

    fn flush_log(&self, py: Python<'_>) {
        if let Ok(consumer) = self.0.get() {
            flush_log(py, consumer.log());
        }
    }
}

/// When the locks of a batch end, as `time.monotonic()` counts; `None` if nothing is undecided.
pub(crate) fn deadline(py: Python<'_>, consumer: &Weak<ShareConsumer>, id: u64) -> PyResult<Option<f64>> {
    monotonic(py, consumer.upgrade().and_then(|consumer| consumer.deadline(id)))
}

fn monotonic(py: Python<'_>, at: Option<Instant>) -> PyResult<Option<f64>> {
    let Some(at) = at else { return Ok(None) };
    let now: f64 = py.import("time")?.call_method0("monotonic")?.extract()?;
    let (left, over) = (at.saturating_duration_since(Instant::now()), Instant::now().saturating_duration_since(at));
    Ok(Some(now + left.as_secs_f64() - over.as_secs_f64()))
}

/// A decision by its name in Python: "accept", "release" or "reject".
pub(crate) fn acknowledge_type(decision: &str) -> AcknowledgeType {
    match decision {
        "accept" => AcknowledgeType::Accept,
        "release" => AcknowledgeType::Release,
        _ => AcknowledgeType::Reject,
    }
}

fn decided(kind: AcknowledgeType) -> &'static str {
    match kind {
        AcknowledgeType::Accept => "accepted",
        AcknowledgeType::Release => "released",
        AcknowledgeType::Reject => "rejected",
        AcknowledgeType::Renew => "renewed",
        AcknowledgeType::Gap => "left out",
    }
}

fn py_outcome((partition, records, outcome): AcknowledgeOutcome) -> PyOutcome {
    let (topic, partition) = py_partition(partition);
    (topic, partition, records, outcome.err().map(|error| (error.name(), error.to_string())))
}

fn py_health<'py>(py: Python<'py>, health: &ShareHealth, is_closed: bool) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let fatal = health.status.as_ref().and_then(|status| status.fatal.as_ref());
    let is_answered = health.failing.is_none() && health.registry_failing.is_none() && health.denied.is_none();
    dict.set_item("ok", is_answered && fatal.is_none() && !is_closed)?;
    dict.set_item("failing_for", health.failing.as_ref().map(|(since, _)| since.as_secs_f64()))?;
    let last_error = health.failing.as_ref().map(|(_, error)| error);
    dict.set_item("last_error", last_error.or(health.denied.as_ref()))?;
    let registry_failing = health.registry_failing.as_ref();
    dict.set_item("registry_failing_for", registry_failing.map(|(since, _)| since.as_secs_f64()))?;
    dict.set_item("registry_last_error", registry_failing.map(|(_, error)| error))?;
    dict.set_item("connections", health.connections)?;
    dict.set_item("brokers", health.brokers)?;
    dict.set_item("bootstrapped", health.bootstrapped)?;
    dict.set_item("budget_used_bytes", health.budget.0)?;
    dict.set_item("budget_bytes", health.budget.1)?;
    dict.set_item("retried_errors", &health.retried_errors)?;
    dict.set_item("certificate_expires", health.certificate_expires.map(unix_seconds))?;
    dict.set_item("client_instance_id", health.client_instance_id.map(|id| id.to_string()))?;
    dict.set_item("rows_in_hand", health.rows_in_hand)?;
    dict.set_item("unacknowledged_records", health.unacknowledged)?;
    let Some(status) = &health.status else {
        dict.set_item("group", py.None())?;
        return Ok(dict);
    };
    let group = PyDict::new(py);
    group.set_item("group_id", &health.group_id)?;
    group.set_item("state", status.state.name())?;
    group.set_item("coordinator", status.coordinator)?;
    group.set_item("member_id", &status.member_id)?;
    group.set_item("epoch", status.epoch)?;
    group.set_item("topics", status.topics.iter().map(|topic| &**topic).collect::<Vec<_>>())?;
    group.set_item("unknown_topics", health.unknown_topics.iter().map(|topic| &**topic).collect::<Vec<_>>())?;
    let assigned = status.assigned.keys().map(|at| (at.topic.to_string(), at.partition));
    group.set_item("assigned", assigned.collect::<Vec<_>>())?;
    group.set_item("heartbeats", health.figures.heartbeats.count)?;
    group.set_item("fatal_error", fatal.map(ToString::to_string))?;
    group.set_item("last_retried_error", health.last_error.as_ref().map(|(_, error)| error))?;
    group.set_item("last_retried_error_ago", health.last_error.as_ref().map(|(ago, _)| ago.as_secs_f64()))?;
    dict.set_item("group", group)?;
    Ok(dict)
}
