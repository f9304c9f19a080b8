//! The core of `monedula.Consumer` and its asynchronous counterpart, without group membership.

pub(crate) mod assignor;
pub(crate) mod group;
pub(crate) mod group_state;
pub(crate) mod lane_round;
pub(crate) mod lane_worker;
pub(crate) mod lanes;
pub(crate) mod part_rows;
mod run_member;
pub(crate) mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use monedula_client::blocking;
use monedula_client::config::GroupProtocol;
use monedula_client::consumer::{Consumer, FoundOffset, Until};
use monedula_client::error::ClientError;
use monedula_client::group::{CommitOffset, Polled};
use monedula_client::lock::lock;
use monedula_client::log::Log;
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Fault;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrow::schema::Schema;
use crate::batch::{Batch, Hold, Records};
use crate::config;
use crate::consumer::assignor::{AssignorDesk, assignors};
use crate::consumer::group::{MemberCore, PendingCallback};
use crate::consumer::values::{
    PyCluster, PyPartition, PyStart, found_dict, position, py_cluster, py_health, py_partition, py_status,
    topic_partition, want,
};
use crate::error::to_py;
use crate::filter::PyFilter;
use crate::formats::{PySpec, batch_columns};
use crate::interpreter::thread_ids::thread_holder;
use crate::logging::{flush_log, follow};
use crate::metric_registry::MetricRegistry;
use crate::operation::Operation;
use crate::runtime::{self, Own, SLICE, in_slices, not_run, wait};
use crate::seconds::{Seconds, seconds};
use crate::tokens::Settings;

/// The consumer's core; see `monedula.Consumer`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct ConsumerCore {
    consumer: Own<Arc<Consumer>>,
    /// The desk for Python's assignor thread, which takes it once.
    desk: Mutex<Option<AssignorDesk>>,
    /// Set when a commit without a waiting caller has completed.
    news: Arc<AtomicBool>,
}

#[derive(IntoPyObject)]
pub(crate) enum PyStep {
    Batch(Batch),
    Callback(PendingCallback),
}

#[pymethods]
impl ConsumerCore {
    #[new]
    #[pyo3(signature = (settings, columns=None, headers=false, strategy=None, key=None, value=None, kept=None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's")]
    fn new(
        py: Python<'_>,
        settings: Settings,
        columns: Option<Vec<String>>,
        headers: bool,
        strategy: Option<Vec<(String, Option<bool>)>>,
        key: PySpec<'_>,
        value: PySpec<'_>,
        kept: Option<PyFilter>,
    ) -> PyResult<Self> {
        let settings = config::parse(py, settings)?;
        let columns = batch_columns(py, columns, headers, (&key, &value), kept, settings.schema_registry.as_ref())?;
        let runtime = runtime::handle()?;
        let (consumer, desk) = match strategy {
            None => (Consumer::new(settings, columns, &runtime, config::seed()), None),
            Some(_) if settings.group_protocol == GroupProtocol::Consumer => {
                let message = "assignors are for group.protocol=classic and auto: under consumer the broker assigns, and \
                               group.remote.assignor names one of its assignors";
                return Err(to_py(py, ClientError::Argument(message.into())));
            }
            Some(strategy) => {
                let (assignors, desk) = assignors(py, strategy, settings.pace)?;
                (Consumer::with_assignors(settings, columns, &runtime, config::seed(), assignors), Some(desk))
            }
        };
        let consumer = Arc::new(consumer);
        follow(py, consumer.log(), "");
        flush_log(py, consumer.log());
        runtime::register(&consumer);
        Ok(Self { consumer: Own::new(consumer), desk: Mutex::new(desk), news: Arc::default() })
    }

    /// The desk that receives the calls of Python's assignors. `None` after the first call, or without such assignors.
    fn assignor_desk(&self) -> Option<AssignorDesk> {
        lock(&self.desk).take()
    }

    /// The same consumer as a member of its group.
    fn member(&self) -> PyResult<MemberCore> {
        Ok(MemberCore::new(self.consumer.get()?.clone(), self.news.clone()))
    }

    fn assign(&self, py: Python<'_>, partitions: Vec<(PyPartition, PyStart)>) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        let partitions = partitions
            .into_iter()
            .map(|(partition, at)| Ok((topic_partition(partition), position(py, consumer, &at)?, None)))
            .collect::<PyResult<Vec<_>>>()?;
        py.detach(|| consumer.assign(partitions)).map_err(|error| to_py(py, error))
    }

    fn assign_topics(&self, py: Python<'_>, topics: Vec<String>, at: PyStart) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        let start = position(py, consumer, &at)?;
        py.detach(|| consumer.assign_topics(topics, start)).map_err(|error| to_py(py, error))
    }

    fn unassign(&self, py: Python<'_>) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        py.detach(|| consumer.unassign()).map_err(|error| to_py(py, error))
    }

    fn assignment(&self, py: Python<'_>) -> PyResult<Vec<PyPartition>> {
        let consumer = self.consumer.get()?;
        if consumer.is_closed() {
            return Err(to_py(py, ClientError::Closed));
        }
        Ok(py.detach(|| consumer.assignment()).into_iter().map(py_partition).collect())
    }

    fn seek(&self, py: Python<'_>, partition: PyPartition, at: PyStart) -> PyResult<()> {
        let (consumer, partition) = (self.consumer.get()?, topic_partition(partition));
        let start = position(py, consumer, &at)?;
        py.detach(|| consumer.seek(&partition, start)).map_err(|error| to_py(py, error))
    }

    /// Seeks in all assigned partitions, including those of topics assigned as a whole that are not known yet.
    fn seek_all(&self, py: Python<'_>, at: PyStart) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        let start = position(py, consumer, &at)?;
        py.detach(|| consumer.seek_all(start)).map_err(|error| to_py(py, error))
    }

    /// Topics assigned as a whole whose partitions are not known yet.
    fn unresolved(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let consumer = self.consumer.get()?;
        Ok(py.detach(|| consumer.unresolved()).iter().map(ToString::to_string).collect())
    }

    fn set_paused(&self, py: Python<'_>, partition: PyPartition, paused: bool) -> PyResult<()> {
        let (consumer, partition) = (self.consumer.get()?, topic_partition(partition));
        py.detach(|| consumer.set_paused(&partition, paused)).map_err(|error| to_py(py, error))
    }

    fn status<'py>(&self, py: Python<'py>, partition: PyPartition) -> PyResult<Bound<'py, PyDict>> {
        let (consumer, partition) = (self.consumer.get()?, topic_partition(partition));
        let status = py.detach(|| consumer.status(&partition)).map_err(|error| to_py(py, error))?;
        py_status(py, consumer, &status)
    }

    /// Waits for the next batch with rows, or a callback that must run before it. `timeout` is in seconds, `None` waits
    /// without limit; returns an empty batch after it. Returns `None` if there are events or completed commits to
    /// report.
    #[pyo3(signature = (max_rows, max_bytes, max_wait, timeout=None, holder=None))]
    fn next_step(
        &self,
        py: Python<'_>,
        max_rows: &Bound<'_, PyAny>,
        max_bytes: &Bound<'_, PyAny>,
        max_wait: f64,
        timeout: Option<Seconds>,
        holder: Option<u64>,
    ) -> PyResult<Option<PyStep>> {
        let consumer = self.consumer.get()?;
        let want = want(py, max_rows, max_bytes, max_wait, timeout)?;
        let holder = holder.unwrap_or_else(|| thread_holder(consumer));
        let step = in_slices(py, |until| {
            let until = want.deadline.map_or(until, |deadline| until.min(deadline));
            match consumer.next(&want, until, holder)? {
                Polled::Batch(batch) => {
                    let refused = batch.columns.refused.is_some();
                    let guard = refused.then(|| Hold::Unfinished(Own::new(consumer.unaccepted(&batch))));
                    Ok(Some(Some(PyStep::Batch(Batch(batch, guard)))))
                }
                Polled::Callback(callback) => Ok(Some(Some(PyStep::Callback(callback.into())))),
                Polled::Nothing if self.has_news(consumer) => Ok(Some(None)),
                Polled::Nothing if want.deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                    Ok(Some(Some(PyStep::Batch(consumer.empty_batch().into()))))
                }
                Polled::Nothing => Ok(None),
            }
        });
        self.flush_log(py);
        if let Ok(Some(PyStep::Batch(Batch(batch, None)))) = &step
            && let Err(raised) = py.check_signals()
        {
            // By the handler of a signal that came meanwhile. Nobody has seen the rows, which come again.
            py.detach(|| {
                consumer.by_rows(batch, holder);
                consumer.give_back(batch, Some(holder));
            });
            return Err(raised);
        }
        step
    }

    fn empty(&self) -> PyResult<Batch> {
        Ok(self.consumer.get()?.empty_batch().into())
    }

    /// Partitions of a batch with refused records whose rows will never be handed out.
    fn revoked_partitions(&self, py: Python<'_>, batch: &Bound<'_, Batch>) -> PyResult<Vec<PyPartition>> {
        let (consumer, Batch(batch, _)) = (self.consumer.get()?, batch.get());
        Ok(py.detach(|| consumer.revoked_partitions(batch)).into_iter().map(py_partition).collect())
    }

    /// Holds a batch whose refused records are in safe keeping. `False` if its rows must not be used: some of its
    /// partitions were sought, paused or lost since, and the rows of the others come again.
    #[pyo3(signature = (batch, holder=None))]
    fn claim(&self, py: Python<'_>, batch: &Bound<'_, Batch>, holder: Option<u64>) -> PyResult<bool> {
        let (consumer, Batch(batch, _)) = (self.consumer.get()?, batch.get());
        let holder = holder.unwrap_or_else(|| thread_holder(consumer));
        Ok(py.detach(|| consumer.claim(batch, holder)))
    }

    /// Gives back the rows before the refused records of these indices, for the next `next_step`. Returns the rest of the
    /// batch, `None` if there are no such rows.
    #[pyo3(signature = (batch, unwritten, holder=None))]
    fn give_back_before(
        &self,
        py: Python<'_>,
        batch: &Bound<'_, Batch>,
        unwritten: Vec<usize>,
        holder: Option<u64>,
    ) -> PyResult<Option<Batch>> {
        let (consumer, Batch(batch, _)) = (self.consumer.get()?, batch.get());
        let holder = holder.unwrap_or_else(|| thread_holder(consumer));
        let rest = py.detach(|| consumer.give_back_before(batch, &unwritten, holder));
        Ok(rest.map(|rest| {
            let guard = Hold::Unfinished(Own::new(consumer.unaccepted(&rest)));
            Batch(rest, Some(guard))
        }))
    }

    /// True if rows were given back that `next_step` has at once.
    fn has_returned(&self) -> PyResult<bool> {
        Ok(self.consumer.get()?.has_returned())
    }

    /// The callback that must run now, or `None` after `timeout` seconds or when there is news. Hands out no rows.
    #[pyo3(signature = (timeout, holder=None))]
    fn poll_callbacks(
        &self,
        py: Python<'_>,
        timeout: Seconds,
        holder: Option<u64>,
    ) -> PyResult<Option<PendingCallback>> {
        let consumer = self.consumer.get()?;
        let deadline = timeout.deadline(py)?;
        let holder = holder.unwrap_or_else(|| thread_holder(consumer));
        let step = in_slices(py, |until| match consumer.poll_callbacks(until.min(deadline), holder)? {
            Polled::Callback(callback) => Ok(Some(Some(callback.into()))),
            Polled::Batch(_) | Polled::Nothing if self.has_news(consumer) || deadline <= Instant::now() => {
                Ok(Some(None))
            }
            Polled::Batch(_) | Polled::Nothing => Ok(None),
        });
        self.flush_log(py);
        step
    }

    /// Begins a loop that reads up to the end of each log, or to the first record that is not older than `timestamp`
    /// (ms). Returns its number.
    #[pyo3(signature = (timestamp=None))]
    fn begin_until(&self, py: Python<'_>, timestamp: Option<i64>) -> PyResult<u64> {
        let consumer = self.consumer.get()?;
        let until = timestamp.map_or(Until::Latest, Until::Timestamp);
        py.detach(|| consumer.begin_until(until)).map_err(|error| to_py(py, error))
    }

    /// True if that loop has handed out all that it reads.
    fn until_reached(&self, py: Python<'_>) -> PyResult<bool> {
        let consumer = self.consumer.get()?;
        Ok(py.detach(|| consumer.is_until_reached()))
    }

    /// Ends the loop with this number.
    fn end_until(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        py.detach(|| consumer.end_until(number));
        Ok(())
    }

    /// Waits, in a thread of the core, until `next_step` would return at once. Finishes the rows that `holder` holds.
    #[pyo3(signature = (max_rows, max_bytes, max_wait, timeout=None, holder=None))]
    fn ready(
        &self,
        py: Python<'_>,
        max_rows: &Bound<'_, PyAny>,
        max_bytes: &Bound<'_, PyAny>,
        max_wait: f64,
        timeout: Option<Seconds>,
        holder: Option<u64>,
    ) -> PyResult<Operation> {
        let consumer = self.consumer.get()?;
        let want = want(py, max_rows, max_bytes, max_wait, timeout)?;
        let holder = holder.unwrap_or_else(|| thread_holder(consumer));
        let waits = py.detach(|| {
            consumer.enter(holder);
            consumer.waits()
        });
        let api_timeout = consumer.config().default_api_timeout;
        let (consumer, news) = (Arc::downgrade(consumer), self.news.clone());
        let waiting = async move {
            let _waits = waits;
            loop {
                // Only a weak reference between the slices: waiting for a batch must not keep a dropped consumer alive.
                let Some(consumer) = consumer.upgrade() else { return Err(ClientError::Closed) };
                let news = news.clone();
                // Without a thread it ends as well: the caller may be who has to release memory or threads.
                let patience =
                    want.deadline.map_or(api_timeout, |deadline| deadline.saturating_duration_since(Instant::now()));
                let waited = blocking::run_patiently(patience, move || {
                    let until = Instant::now() + SLICE;
                    let until = want.deadline.map_or(until, |deadline| until.min(deadline));
                    consumer.ready(&want, until)
                        || consumer.has_events()
                        || news.load(Ordering::Acquire)
                        || want.deadline.is_some_and(|deadline| deadline <= Instant::now())
                });
                if waited.await.map_err(|error| not_run(error, ClientError::Closed))? {
                    return Ok(());
                }
            }
        };
        Operation::start(waiting, self.log()?, |py, ()| Ok(py.None()))
    }

    /// Iterates the rows of a batch. Each row is finished when the next one is requested. The iteration ends early if
    /// the user must call the consumer for a rebalance, or the partition was revoked.
    #[pyo3(signature = (batch, holder=None))]
    fn rows(&self, batch: &Bound<'_, Batch>, holder: Option<u64>) -> PyResult<Records> {
        let (consumer, Batch(batch, _)) = (self.consumer.get()?, batch.get());
        let cursor = consumer.by_rows(batch, holder.unwrap_or_else(|| thread_holder(consumer)));
        Ok(Records::behind(&batch.columns.record_batch, cursor, holder.is_none()))
    }

    /// Returns the rows of a batch that were not requested to the fetch buffer, which hands them out again. The row
    /// that was requested last stays with `holder`; if left out, with the thread that requested it, whoever gives back.
    #[pyo3(signature = (batch, holder=None))]
    fn give_back(&self, py: Python<'_>, batch: &Bound<'_, Batch>, holder: Option<u64>) -> PyResult<()> {
        let (consumer, Batch(batch, _)) = (self.consumer.get()?, batch.get());
        py.detach(|| consumer.give_back(batch, holder));
        Ok(())
    }

    /// Raises `BrokersUnavailableError` if the client has been failing for at least so many seconds.
    fn check_failing(&self, py: Python<'_>, at_least: f64) -> PyResult<()> {
        let (consumer, at_least) = (self.consumer.get()?, seconds(py, "at_least", at_least)?);
        let checked = py.detach(|| consumer.check_failing(at_least));
        if checked.is_err() {
            self.flush_log(py);
        }
        checked.map_err(|error| to_py(py, error))
    }

    #[getter]
    fn schema(&self) -> PyResult<Schema> {
        Ok(Schema(self.consumer.get()?.empty_batch().record_batch.schema()))
    }

    fn wakeup(&self, py: Python<'_>) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        py.detach(|| consumer.wakeup());
        Ok(())
    }

    /// `{(topic, partition): offset or None}`, by kind: "beginning" or "end".
    fn list_offsets(
        &self,
        py: Python<'_>,
        kind: &str,
        partitions: Option<Vec<PyPartition>>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let (consumer, timeout) = (self.consumer.get()?.clone(), self.timeout(py, timeout)?);
        let given: Option<Vec<TopicPartition>> =
            partitions.map(|partitions| partitions.into_iter().map(topic_partition).collect());
        let beginning = kind == "beginning";
        let listing = async move {
            let partitions = match given {
                Some(partitions) => partitions,
                None => all_assigned(&consumer, timeout).await?,
            };
            match beginning {
                true => consumer.beginning_offsets(partitions, timeout).await,
                false => consumer.end_offsets(partitions, timeout).await,
            }
        };
        let offset = |found: FoundOffset| found.offset;
        Operation::start(listing, self.log()?, move |py, found| Ok(found_dict(py, found, offset)?.into_any().unbind()))
    }

    /// `{(topic, partition): (offset, timestamp in ms) or None}`.
    fn offsets_for_times(
        &self,
        py: Python<'_>,
        times: Vec<(PyPartition, i64)>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let timeout = self.timeout(py, timeout)?;
        let times = times.into_iter().map(|(partition, timestamp_ms)| (topic_partition(partition), timestamp_ms));
        let lookup = self.consumer.get()?.offsets_for_times(times.collect(), timeout);
        let time = |found: FoundOffset| (found.offset, found.timestamp);
        Operation::start(lookup, self.log()?, move |py, found| Ok(found_dict(py, found, time)?.into_any().unbind()))
    }

    fn partitions_of(&self, py: Python<'_>, topics: Vec<String>, timeout: Option<Seconds>) -> PyResult<Operation> {
        let timeout = self.timeout(py, timeout)?;
        let lookup = self.consumer.get()?.partitions_of(topics, timeout);
        Operation::start(lookup, self.log()?, |py, partitions| {
            let partitions: Vec<PyPartition> = partitions.into_iter().map(py_partition).collect();
            Ok(partitions.into_pyobject(py)?.unbind())
        })
    }

    /// Describes the brokers, and these topics or all: `({node id: (host, port)}, {topic: (id, is internal, error name
    /// or None, {partition: (leader or -1, leader epoch)})})`.
    fn describe(&self, py: Python<'_>, topics: Option<Vec<String>>, timeout: Option<Seconds>) -> PyResult<PyCluster> {
        let timeout = self.timeout(py, timeout)?;
        let described = wait(py, self.consumer.get()?.describe(topics, timeout));
        self.flush_log(py);
        Ok(py_cluster(&described?))
    }

    /// Commits offsets of a group without being a member: `{(topic, partition): error name or None}`.
    fn commit_group_offsets(
        &self,
        py: Python<'_>,
        group_id: String,
        offsets: Vec<(PyPartition, i64)>,
        timeout: Option<Seconds>,
    ) -> PyResult<BTreeMap<PyPartition, Option<&'static str>>> {
        let offsets = offsets.into_iter().map(|(partition, offset)| {
            let at = CommitOffset { offset, leader_epoch: -1, metadata: String::new() };
            (topic_partition(partition), at)
        });
        let timeout = self.timeout(py, timeout)?;
        let commits = wait(py, self.consumer.get()?.commit_offsets(group_id, offsets.collect(), timeout));
        self.flush_log(py);
        let error = |outcome: Result<(), Fault>| outcome.err().map(|fault| fault.code().name());
        Ok(commits?.into_iter().map(|(partition, outcome)| (py_partition(partition), error(outcome))).collect())
    }

    fn metrics(&self) -> PyResult<Vec<(&'static str, u64)>> {
        Ok(self.consumer.get()?.metrics().snapshot())
    }

    fn metric_registry(&self) -> PyResult<MetricRegistry> {
        Ok(MetricRegistry::of(self.consumer.get()?.registered_metrics()))
    }

    fn health<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        py_health(py, self.consumer.get()?)
    }

    /// Bytes of the buffer pool: outstanding (held by batches and fetches) and idle.
    fn pool_bytes(&self) -> PyResult<(usize, usize)> {
        let pool = self.consumer.get()?.pool();
        Ok((pool.outstanding_bytes(), pool.idle_bytes()))
    }

    fn close(&self, py: Python<'_>, timeout: Seconds) -> PyResult<()> {
        let consumer = self.consumer.get()?;
        let timeout = timeout.duration(py)?;
        py.detach(|| consumer.close(timeout));
        self.flush_log(py);
        Ok(())
    }

    /// As `close`, in a thread of the core.
    fn close_in_thread(&self, py: Python<'_>, timeout: Seconds) -> PyResult<Operation> {
        let consumer = self.consumer.get()?.clone();
        let timeout = timeout.duration(py)?;
        let closing = async move {
            blocking::run_patiently(timeout, move || consumer.close(timeout))
                .await
                .map_err(|error| not_run(error, ClientError::Closed))
        };
        Operation::start(closing, self.log()?, |py, ()| Ok(py.None()))
    }
}

impl ConsumerCore {
    /// True if there are events or completed commits to report to Python. True only once for completed commits.
    fn has_news(&self, consumer: &Consumer) -> bool {
        self.news.swap(false, Ordering::AcqRel) || consumer.has_events()
    }

    fn timeout(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Duration> {
        match timeout {
            Some(timeout) => timeout.duration(py),
            None => Ok(self.consumer.get()?.config().default_api_timeout),
        }
    }

    fn log(&self) -> PyResult<&Log> {
        Ok(self.consumer.get()?.log())
    }

    /// Passes log events on to `logging`. Called where the thread is attached to the interpreter anyway.
    fn flush_log(&self, py: Python<'_>) {
        if let Ok(consumer) = self.consumer.get() {
            flush_log(py, consumer.log());
        }
    }
}

/// The assigned partitions, including those of topics assigned as a whole that are not known yet.
async fn all_assigned(consumer: &Consumer, timeout: Duration) -> Result<Vec<TopicPartition>, ClientError> {
    // Topics first: a topic whose partitions become known in between is then in both lists instead of in neither.
    let topics: Vec<String> = consumer.unresolved().iter().map(ToString::to_string).collect();
    let mut partitions: BTreeSet<TopicPartition> = consumer.assignment().into_iter().collect();
    if !topics.is_empty() {
        partitions.extend(consumer.partitions_of(topics, timeout).await?);
    }
    Ok(partitions.into_iter().collect())
}
