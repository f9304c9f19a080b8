//! The core of bounded reads, for `monedula.read`.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use monedula_client::consumer::{BatchLimits, Consumer, FoundOffset};
use monedula_client::lock::lock;
use monedula_client::log::Log;
use monedula_client::reader::{Bound as Edge, Range, Ranges, Reader, Spans};
use monedula_client::residual::Rows;
use monedula_columns::{ColumnBatch, ColumnSet};
use monedula_engine::TopicPartition;
use monedula_engine::cluster::{Broker, Cluster, Partition};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::capsule;
use crate::arrow::schema::Schema;
use crate::batch::Batch;
use crate::config;
use crate::consumer::values::{PyPartition, PyStart, py_partition, topic_partition, want};
use crate::error::{argument_error, to_py};
use crate::filter::PyFilter;
use crate::formats::{PySpec, batch_columns};
use crate::interpreter::attaching::attached_or_stopped;
use crate::interpreter::deferred_error::{put_off, put_off_any};
use crate::logging::{flush_log, follow};
use crate::runtime::{self, Own, SLICE, in_slices, wait};
use crate::tokens::Settings;

/// A range: topic, partition (`None` for all of the topic), start, end.
type PyRange = (String, Option<i32>, PyStart, PyStart);

/// A range of known offsets: partition, first offset, offset after the last one.
type PyOffsets = (PyPartition, i64, i64);

/// The rows of a partition to keep: intervals of offsets and of timestamps in microseconds, ends included, by entry.
type PyRows = (PyPartition, Vec<(Vec<(i64, i64)>, Vec<(i64, i64)>)>);

/// A partition, and the offset and the timestamp that were found in it.
type PyFound = (PyPartition, Option<(i64, i64)>);

/// A broker: node id, host, port.
type PyBroker = (i32, String, u16);

/// The leader of a partition: partition, topic id, leader (negative if none), leader epoch.
type PyLeader = (PyPartition, String, i32, i32);

/// The core of bounded reads; see `monedula.RecordStream`. It does one read at a time, and keeps its connections from
/// read to read.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct ReaderCore {
    reader: Own<Arc<Mutex<Reader>>>,
    schema: SchemaRef,
    /// Columns of the batches, among those that are read; `None` for all.
    shown: Option<Arc<[usize]>>,
    want: BatchLimits,
    /// Kept outside of the reader's lock: while a logging handler runs, another thread may run and wait for that lock.
    log: Log,
}

#[pymethods]
impl ReaderCore {
    /// `compared` names the columns that a condition needs; those that are not among `columns` are read, and left out.
    /// `fields` are those of a flattened value that are not left out; all if it is `None`. Records that do not meet
    /// `kept` are not decoded. `in_order`: rows come partition by partition.
    #[new]
    #[pyo3(signature = (settings, columns, headers, max_rows, max_bytes, key=None, value=None, compared=vec![],
                        fields=None, kept=None, in_order=false))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's")]
    fn new(
        py: Python<'_>,
        settings: Settings,
        columns: Option<Vec<String>>,
        headers: bool,
        max_rows: &Bound<'_, PyAny>,
        max_bytes: &Bound<'_, PyAny>,
        key: PySpec<'_>,
        value: PySpec<'_>,
        compared: Vec<String>,
        fields: Option<Vec<String>>,
        kept: Option<PyFilter>,
        in_order: bool,
    ) -> PyResult<Self> {
        let settings = config::parse(py, settings)?;
        let asked = config::columns(py, columns, headers)?;
        let read = match compared.is_empty() {
            true => asked,
            false => asked.with(config::columns(py, Some(compared), false)?),
        };
        let columns = {
            let names = Some(read.names().map(String::from).collect());
            batch_columns(py, names, false, (&key, &value), kept, settings.schema_registry.as_ref())?
        };
        // In a bounded read, rows wait only for a full batch or the end of the ranges.
        let want =
            BatchLimits { max_wait: std::time::Duration::from_secs(1), ..want(py, max_rows, max_bytes, 0.0, None)? };
        let mut reader = Reader::new(settings, columns, &runtime::handle()?, config::seed());
        if in_order {
            reader.read_in_order();
        }
        let schema = reader.inner().empty_batch().record_batch.schema();
        let leaves_out = read != asked || fields.is_some();
        let shown = leaves_out.then(|| shown(&schema, read, asked, fields.as_deref()));
        let schema = match &shown {
            Some(shown) => Arc::new(schema.project(shown).map_err(|error| argument_error(py, error.to_string()))?),
            None => schema,
        };
        let log = reader.inner().log().clone();
        follow(py, &log, "");
        runtime::register(reader.inner());
        Ok(Self { reader: Own::new(Arc::new(Mutex::new(reader))), schema, shown, want, log })
    }

    /// Begins a read. Looks up the offsets of both ends of each range first (ListOffsets).
    fn begin(&self, py: Python<'_>, ranges: Vec<PyRange>) -> PyResult<()> {
        let found = self.find(py, ranges)?;
        let reader = self.reader.get()?;
        py.detach(|| lock(reader).begin(found, None)).map_err(|error| to_py(py, error))
    }

    fn partitions_of(&self, py: Python<'_>, topics: Vec<String>) -> PyResult<Vec<PyPartition>> {
        let consumer = self.consumer(py)?;
        let found = wait(py, consumer.partitions_of(topics, consumer.config().default_api_timeout));
        flush_log(py, &self.log);
        Ok(found?.into_iter().map(py_partition).collect())
    }

    /// The offsets of both ends of each range, by partition.
    fn resolve(&self, py: Python<'_>, ranges: Vec<PyRange>) -> PyResult<Vec<PyOffsets>> {
        let found = self.find(py, ranges)?;
        Ok(found.into_iter().map(|(partition, (start, end))| (py_partition(partition), start, end)).collect())
    }

    /// Begins a read of offsets that `resolve` returned or that lie within them, and keeps only these rows of it. Of a
    /// partition there may be several ranges, in ascending order; what lies between them is not fetched. A partition
    /// without an entry in `kept` is kept whole.
    fn begin_within(&self, py: Python<'_>, ranges: Vec<PyOffsets>, kept: Vec<PyRows>) -> PyResult<()> {
        let mut spans = Spans::new();
        for (partition, start, end) in ranges {
            spans.entry(topic_partition(partition)).or_default().push((start, end));
        }
        let kept = kept.into_iter().map(|(partition, entries)| {
            let entries = entries.into_iter().map(|(offsets, timestamps_us)| Rows { offsets, timestamps_us });
            (topic_partition(partition), entries.collect())
        });
        let (kept, reader) = (kept.collect(), self.reader.get()?);
        py.detach(|| {
            let mut reader = lock(reader);
            reader.begin_spans(spans, None)?;
            reader.keep_only(kept);
            Ok(())
        })
        .map_err(|error| to_py(py, error))
    }

    /// The first record of each partition whose timestamp is at least the given one, in ms. A partition may be asked
    /// for once.
    fn first_at(&self, py: Python<'_>, times: Vec<(PyPartition, i64)>) -> PyResult<Vec<PyFound>> {
        let consumer = self.consumer(py)?;
        let times = times.into_iter().map(|(partition, timestamp_ms)| (topic_partition(partition), timestamp_ms));
        let lookup = consumer.first_at(times.collect(), consumer.config().default_api_timeout);
        let found = wait(py, lookup);
        flush_log(py, &self.log);
        Ok(found?.into_iter().map(of_found).collect())
    }

    /// The record of each partition with the largest timestamp.
    fn max_timestamps(&self, py: Python<'_>, partitions: Vec<PyPartition>) -> PyResult<Vec<PyFound>> {
        let consumer = self.consumer(py)?;
        let partitions = partitions.into_iter().map(topic_partition).collect();
        let found = wait(py, consumer.max_timestamps(partitions, consumer.config().default_api_timeout));
        flush_log(py, &self.log);
        Ok(found?.into_iter().map(of_found).collect())
    }

    /// Begins a read of known offsets that another process has planned: no request precedes the first Fetch.
    fn begin_planned(
        &self,
        py: Python<'_>,
        ranges: Vec<PyOffsets>,
        brokers: Vec<PyBroker>,
        leaders: Vec<PyLeader>,
    ) -> PyResult<()> {
        let known = cluster(py, brokers, leaders)?;
        let ranges = ranges.into_iter().map(|(partition, start, end)| (topic_partition(partition), (start, end)));
        let (ranges, reader) = (ranges.collect(), self.reader.get()?);
        py.detach(|| lock(reader).begin(ranges, Some(&known))).map_err(|error| to_py(py, error))
    }

    /// Ends the read early. The connections stay open.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        let reader = self.reader.get()?;
        py.detach(|| lock(reader).end()).map_err(|error| to_py(py, error))
    }

    /// The offsets that are not returned yet: `[((topic, partition), next offset, offset after the last), ...]`.
    fn remaining(&self, py: Python<'_>) -> PyResult<Vec<PyOffsets>> {
        let reader = self.reader.get()?;
        let remaining = py.detach(|| lock(reader).remaining());
        Ok(remaining.into_iter().map(|(partition, (next, end))| (py_partition(partition), next, end)).collect())
    }

    /// Waits for the next batch; `None` at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let reader = self.reader.get()?;
        let batch = in_slices(py, |until| match lock(reader).next_batch(&self.want, until)? {
            None => Ok(Some(None)),
            Some(Some(batch)) => Ok(Some(Some(batch))),
            Some(None) => Ok(None),
        });
        flush_log(py, &self.log);
        Ok(batch?.map(|batch| Batch::from(project(batch, self.shown.as_deref()))))
    }

    fn metrics(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, u64)>> {
        let reader = self.reader.get()?;
        Ok(py.detach(|| lock(reader).inner().metrics().snapshot()))
    }

    /// The number of offsets passed, and the number of offsets in all ranges.
    fn progress(&self, py: Python<'_>) -> PyResult<(i64, i64)> {
        let reader = self.reader.get()?;
        Ok(py.detach(|| lock(reader).progress()))
    }

    /// Range to read of each partition: `[((topic, partition), (first offset, offset after the last)), ...]`.
    fn ranges(&self, py: Python<'_>) -> PyResult<Vec<(PyPartition, (i64, i64))>> {
        let reader = self.reader.get()?;
        Ok(py.detach(|| {
            let ranges = lock(reader).ranges();
            ranges.into_iter().map(|(partition, range)| (py_partition(partition), range)).collect()
        }))
    }

    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.schema.clone())
    }

    /// The rest of the read as an `arrow_array_stream` capsule; `on_batch()` is called after each batch.
    fn stream<'py>(&self, py: Python<'py>, on_batch: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyCapsule>> {
        let stream = Stream {
            reader: Own::new(self.reader.get()?.clone()),
            schema: self.schema.clone(),
            shown: self.shown.clone(),
            want: self.want,
            on_batch,
            thread: std::thread::current().id(),
        };
        capsule::stream(py, Box::new(stream))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let reader = self.reader.get()?;
        py.detach(|| lock(reader).inner().close(std::time::Duration::from_secs(1)));
        flush_log(py, &self.log);
        Ok(())
    }
}

impl ReaderCore {
    fn consumer(&self, py: Python<'_>) -> PyResult<Arc<Consumer>> {
        let reader = self.reader.get()?;
        Ok(py.detach(|| lock(reader).inner().clone()))
    }

    fn find(&self, py: Python<'_>, ranges: Vec<PyRange>) -> PyResult<Ranges> {
        let ranges = ranges
            .into_iter()
            .map(|(topic, partition, start, end)| Ok((topic, partition, edge(py, &start)?, edge(py, &end)?)))
            .collect::<PyResult<Vec<_>>>()?;
        let consumer = self.consumer(py)?;
        let found = wait(py, async move {
            let timeout = consumer.config().default_api_timeout;
            // All in one lookup: metadata that lacks a topic is asked for anew, with a pause before each time.
            let whole = ranges.iter().filter(|range| range.1.is_none()).map(|range| range.0.clone());
            let known = consumer.partitions_of(whole.collect(), timeout).await?;
            let mut asked = Vec::new();
            for (topic, partition, start, end) in ranges {
                match partition {
                    Some(partition) => {
                        asked.push(Range { partition: topic_partition((topic, partition)), start, end });
                    }
                    None => {
                        let of_topic = known.iter().filter(|partition| *partition.topic == *topic);
                        asked.extend(of_topic.map(|partition| Range { partition: partition.clone(), start, end }));
                    }
                }
            }
            Reader::resolve(&consumer, asked, timeout).await
        });
        flush_log(py, &self.log);
        found
    }
}

struct Stream {
    reader: Own<Arc<Mutex<Reader>>>,
    schema: SchemaRef,
    shown: Option<Arc<[usize]>>,
    want: BatchLimits,
    on_batch: Option<Py<PyAny>>,
    /// The thread that exported the stream. Only this thread may attach to the interpreter: the caller in another
    /// thread may hold the GIL while it waits for this stream.
    thread: std::thread::ThreadId,
}

impl Stream {
    /// The library that reads makes an error of its own of any other, which `except Exception` takes: what a signal
    /// handler raises is raised once more after it.
    fn next_batch(&self) -> PyResult<Option<RecordBatch>> {
        let reader = self.reader.get()?;
        let ours = std::thread::current().id() == self.thread;
        loop {
            let next = lock(reader).next_batch(&self.want, Instant::now() + SLICE);
            match next.map_err(|error| attached_or_stopped(|py| to_py(py, error)))? {
                None => return Ok(None),
                Some(Some(batch)) => {
                    if ours && let Some(heard) = &self.on_batch {
                        attached_or_stopped(|py| {
                            let called = heard.bind(py).call0().map(drop);
                            called.inspect_err(|error| put_off(py, error.clone_ref(py)))
                        })?;
                    }
                    return Ok(Some(project(batch, self.shown.as_deref()).record_batch));
                }
                Some(None) if ours => attached_or_stopped(|py| {
                    py.check_signals().inspect_err(|error| put_off_any(py, error.clone_ref(py)))
                })?,
                Some(None) => {}
            }
        }
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A view of the cluster, from what whoever planned the read knew of it.
fn cluster(py: Python<'_>, brokers: Vec<PyBroker>, leaders: Vec<PyLeader>) -> PyResult<Cluster> {
    let mut cluster = Cluster::default();
    let broker = |(node_id, host, port)| (node_id, Broker { host, port, rack: None });
    cluster.brokers = brokers.into_iter().map(broker).collect();
    for (partition, topic_id, leader, leader_epoch) in leaders {
        let known = Partition { leader: (leader >= 0).then_some(leader), leader_epoch };
        let partition = topic_partition(partition);
        let added = cluster.add_leader(&partition, &topic_id, known);
        added.map_err(|error| argument_error(py, format!("{partition}: {error}")))?;
    }
    Ok(cluster)
}

fn edge(py: Python<'_>, (kind, number): &PyStart) -> PyResult<Edge> {
    Ok(match kind.as_str() {
        "offset" => Edge::Offset(*number),
        "earliest" => Edge::Earliest,
        "latest" => Edge::Latest,
        "timestamp" => Edge::Timestamp(*number),
        other => return Err(argument_error(py, format!("no such bound: {other}"))),
    })
}

fn of_found((partition, found): (TopicPartition, Option<FoundOffset>)) -> PyFound {
    (py_partition(partition), found.map(|found| (found.offset, found.timestamp)))
}

/// Places of the columns of `asked`, and of these `fields` of a flattened value or all of them, among those of the
/// schema.
fn shown(schema: &SchemaRef, columns: ColumnSet, asked: ColumnSet, fields: Option<&[String]>) -> Arc<[usize]> {
    let hidden: Vec<&str> = columns.names().filter(|name| !asked.names().any(|other| other == *name)).collect();
    let is_shown = |name: &String| match ColumnSet::NAMES.contains(&name.as_str()) {
        true => !hidden.contains(&name.as_str()),
        false => fields.is_none_or(|fields| fields.contains(name)),
    };
    let places = schema.fields().iter().enumerate();
    places.filter(|(_, field)| is_shown(field.name())).map(|(index, _)| index).collect()
}

fn project(batch: ColumnBatch, shown: Option<&[usize]>) -> ColumnBatch {
    let Some(shown) = shown else { return batch };
    let record_batch = batch.record_batch.project(shown).expect("columns of the batch's schema");
    ColumnBatch { record_batch, ..batch }
}
