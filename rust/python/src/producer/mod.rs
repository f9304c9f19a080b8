//! The producer, as Python's own classes use it.
//!
//! `send` is the hot path: it borrows its arguments, takes no lock of this crate, and makes no system call. Everything
//! that blocks is off that path.

mod argument_values;
mod batch_future;
mod byte_column;
mod callbacks;
mod errors;
mod future;
mod observed_future;
mod queued_future;
mod queued_sends;
mod record_encoders;
mod record_table;
mod send_arguments;
mod shared;
mod transactions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use monedula_client::producer::{Columns, Producer, Refused, Report};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

pub(crate) use self::argument_values::short;
pub(crate) use self::batch_future::BatchFuture;
pub(crate) use self::callbacks::CallbackRunner;
pub(crate) use self::errors::{class_of, set_details};
pub(crate) use self::future::{RecordMetadata, SendFuture};
pub(crate) use self::observed_future::ObservedFuture;
pub(crate) use self::queued_sends::QueuedSendsCore;
pub(crate) use self::record_table::RecordTable;
pub(crate) use self::shared::Shared;
pub(crate) use self::transactions::TransactionCore;

use self::callbacks::Callbacks;
use self::record_encoders::{EncodedRecord, RecordEncoders, TopicEncoders};
use self::send_arguments::SendArguments;
use crate::arrow::capsule;
use crate::config::{parse_producer, seed};
use crate::convert;
use crate::error::{argument_error, exception, to_py};
use crate::formats::PySpec;
use crate::formats::record_encoder::RecordDraft;
use crate::formats::typed_rows::{Headers, registered};
use crate::logging::{flush_log, follow};
use crate::metric_registry::MetricRegistry;
use crate::operation::Operation;
use crate::registry::RegistryCore;
use crate::runtime::{self, Own};
use crate::seconds::{Seconds, unix_seconds};
use crate::tokens::Settings;

/// The error for a future that is not done within the user's timeout.
pub(crate) fn not_yet(py: Python<'_>, what: &str, timeout: Option<Seconds>, trouble: Option<String>) -> PyErr {
    let because = trouble.as_ref().map(|trouble| format!("; the last error: {trouble}")).unwrap_or_default();
    let after_s = timeout.map_or(0.0, |timeout| timeout.0);
    let message = format!("{what} is still in flight after {after_s} s{because}");
    let details = PyDict::new(py);
    let made = details
        .set_item("last_error", trouble)
        .and_then(|()| details.set_item("retriable", true))
        .and_then(|()| exception(py, "KafkaTimeoutError", message, &details));
    made.unwrap_or_else(|failure| failure)
}

/// Base class of `Producer` and `AsyncProducer`; see `monedula.Producer`. Errors about arguments of `send` have its
/// name, so it is the one that users know.
#[pyclass(subclass, frozen, name = "Producer", module = "monedula")]
pub(crate) struct ProducerCore {
    shared: Own<Arc<Shared>>,
    /// True if `send` blocks until there is room; if not, the record is queued.
    waits: bool,
    /// True if records go through `_send_or_queue`, in Python: to a partitioner that is a Python function, or
    /// behind records that wait.
    may_queue: AtomicBool,
    /// Encoders of keys and values that are not bytes.
    encoders: Option<RecordEncoders>,
}

#[pymethods]
impl ProducerCore {
    #[new]
    #[pyo3(signature = (settings, waits, may_queue, encodes = false))]
    fn new(py: Python<'_>, settings: Settings, waits: bool, may_queue: bool, encodes: bool) -> PyResult<Self> {
        let config = parse_producer(py, settings)?;
        let max_block = config.max_block;
        let producer = Producer::new(config, &runtime::handle()?, seed());
        follow(py, producer.log(), "");
        flush_log(py, producer.log());
        let callbacks =
            Callbacks::new(producer.log().clone(), producer.failures().clone(), Box::new(producer.trouble_source()));
        let shared = Arc::new(Shared { queued: producer.queued_sends(), producer, callbacks, max_block });
        runtime::register_producer(&shared);
        let encoders = encodes.then(RecordEncoders::default);
        Ok(Self { shared: Own::new(shared), waits, may_queue: AtomicBool::new(may_queue), encoders })
    }

    /// Send a record. Returns at once; the future has the result.
    ///
    /// Records of a partition keep their order. `send` waits only if `buffer.memory` is full: for room, up to
    /// `max.block.ms`, with the GIL released.
    ///
    /// Args:
    ///     topic: the topic's name. If its partitions are not known yet, neither the caller nor other topics wait for
    ///         them.
    ///     value: bytes, any bytes-like object, a str (sent as UTF-8), or `None` for a tombstone. With `value=` of the
    ///         producer, what that encodes: a dict, a dataclass, a named tuple or another object with named fields.
    ///     key: the same types; with `key=` of the producer, what that encodes. Records with the same key go to the same
    ///         partition.
    ///     partition: the partition; by default the partitioner chooses it.
    ///     headers: `[(name, value), ...]`, whose names may repeat, or a dict.
    ///     timestamp: milliseconds since the Unix epoch, or an aware datetime; by default the current time.
    ///     on_delivery: called with the future when it is done, on the producer's callback thread. Those of a partition
    ///         are called in the order of its records.
    ///
    /// Returns:
    ///     A future: `result()` waits, and returns a `RecordMetadata` or raises; `await` does the same. It may be
    ///     dropped.
    ///
    /// Raises:
    ///     ArgumentError: if an argument is invalid, or no value of the schema: the message names the field.
    ///     SchemaRegistryError: if the registry does not have the schema, or refuses it; asked once for each topic.
    ///     KafkaTimeoutError: if it does not answer for `max.block.ms`. With asyncio the future has both errors.
    ///     BufferFullError: if there was no room for `max.block.ms`.
    ///     RecordTooLargeError: if the record is larger than `max.request.size`.
    ///     ClosedError: if the producer is closed.
    #[pyo3(
        signature = (topic, value=None, key=None, partition=None, headers=None, timestamp=None, *, on_delivery=None,
            callback=None, on_error=None, timestamp_ms=None),
        text_signature = "($self, topic, value=None, key=None, partition=None, headers=None, timestamp=None, *, \
                          on_delivery=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are Python's")]
    fn send<'py>(
        slf: &Bound<'py, Self>,
        topic: &Bound<'py, PyAny>,
        value: Option<&Bound<'py, PyAny>>,
        key: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
        on_delivery: Option<&Bound<'py, PyAny>>,
        callback: Option<&Bound<'py, PyAny>>,
        on_error: Option<&Bound<'py, PyAny>>,
        timestamp_ms: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, SendFuture>> {
        // Other clients' arguments have a name each: for `**`, a tuple and a dict would be made for each call, 150 ns.
        let foreign = [("callback", callback), ("on_error", on_error), ("timestamp_ms", timestamp_ms)];
        if let Some((name, _)) = foreign.iter().find(|(_, given)| given.is_some()) {
            return Err(convert::no_argument(slf.py(), "send", name));
        }
        let arguments = SendArguments { topic, value, key, partition, headers, timestamp, since: None, sent_in: None };
        match &slf.get().encoders {
            None => Self::send_bytes(slf, arguments, on_delivery),
            Some(encoders) => Self::send_encoded(slf, encoders, arguments, on_delivery),
        }
    }

    /// As `send`, but never queued. Waits for room at most `seconds`. The record was sent `ago` seconds ago, and
    /// in the transaction `sent_in` if one is given.
    #[expect(clippy::too_many_arguments, reason = "they are Python's")]
    fn _send<'py>(
        slf: &Bound<'py, Self>,
        seconds: f64,
        ago: f64,
        sent_in: Option<u64>,
        on_delivery: Option<&Bound<'py, PyAny>>,
        topic: &Bound<'py, PyAny>,
        value: Option<&Bound<'py, PyAny>>,
        key: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, SendFuture>> {
        let (py, shared) = (slf.py(), slf.get().shared.get()?);
        let prepared = shared.prepare(on_delivery)?;
        let since = Duration::try_from_secs_f64(ago).ok().and_then(|ago| Instant::now().checked_sub(ago));
        let arguments = SendArguments { topic, value, key, partition, headers, timestamp, since, sent_in };
        let sent = match arguments.send(shared)? {
            Ok(sent) => sent,
            Err(Refused::Full { needed }) => {
                let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
                arguments.wait_and_send(py, shared, needed, patience)?
            }
            Err(Refused::Error(error)) => return Err(to_py(py, error)),
        };
        shared.future_of(py, sent, prepared)
    }

    /// Raises if a record is invalid, or if nothing can be sent now.
    #[expect(clippy::too_many_arguments, reason = "they are Python's")]
    fn _check(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        partition: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.shared.get()?.producer.acquire_permit().map_err(|error| to_py(py, error))?;
        self._check_record(py, topic, value, key, partition, headers, timestamp)
    }

    /// Raises if a record is invalid, whatever the producer's state: also one that is too large.
    #[pyo3(signature = (topic, value=None, key=None, partition=None, headers=None, timestamp=None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's")]
    fn _check_record(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        partition: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let producer = &self.shared.get()?.producer;
        let arguments = SendArguments { topic, value, key, partition, headers, timestamp, since: None, sent_in: None };
        arguments.with_record(|record| producer.check(record))?.map_err(|error| to_py(py, error))
    }

    /// Sets whether records go through `_send_or_queue` from now on.
    fn _set_may_queue(&self, may_queue: bool) {
        self.may_queue.store(may_queue, Ordering::Relaxed);
    }

    #[getter]
    fn _max_block(&self) -> PyResult<f64> {
        Ok(self.shared.get()?.max_block.as_secs_f64())
    }

    #[getter]
    fn _api_timeout(&self) -> PyResult<f64> {
        Ok(self.shared.get()?.producer.config().client.default_api_timeout.as_secs_f64())
    }

    #[getter]
    fn _delivery_timeout(&self) -> PyResult<f64> {
        Ok(self.shared.get()?.producer.config().delivery_timeout.as_secs_f64())
    }

    /// Number of partitions of the topic; `None` while it is not known. Its metadata is requested then.
    fn _partition_count(&self, topic: &str) -> PyResult<Option<i32>> {
        Ok(self.shared.get()?.producer.partition_count(topic))
    }

    #[getter]
    fn _is_transactional(&self) -> PyResult<bool> {
        Ok(self.shared.get()?.producer.config().transactional_id.is_some())
    }

    /// Makes the encoders of a topic's keys and values, `None` for bytes. Asks the registry where it is to be asked.
    fn _open_encoders(&self, py: Python<'_>, topic: &str, key: PySpec<'_>, value: PySpec<'_>) -> PyResult<()> {
        let registry = self.shared.get()?.producer.config().client.schema_registry.clone();
        let encoder = |spec: &PySpec<'_>, name: &'static str| {
            spec.as_ref().map(|spec| spec.record_encoder(py, name, topic, registry.as_ref())).transpose()
        };
        let encoders = TopicEncoders { key: encoder(&key, "key")?, value: encoder(&value, "value")? };
        if let Some(known) = &self.encoders {
            known.set(topic, encoders);
        }
        Ok(())
    }

    /// Key, value and headers as bytes; `None` if the topic's encoders are not made yet.
    fn _encode<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        key: Option<&Bound<'py, PyAny>>,
        value: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<EncodedRecord<'py>>> {
        let encoders = self.encoders.as_ref().and_then(|encoders| encoders.of(topic));
        encoders.map(|encoders| encoders.encode(py, key, value, headers)).transpose()
    }

    /// An object as it is now, for `_encode`; `name` is `key` or `value`.
    #[staticmethod]
    fn _draft(name: &str, given: &Bound<'_, PyAny>) -> PyResult<RecordDraft> {
        RecordDraft::of(given, name)
    }

    /// The registry of the settings, if they name one.
    fn _registry(&self) -> PyResult<Option<RegistryCore>> {
        Ok(self.shared.get()?.producer.config().client.schema_registry.clone().map(RegistryCore))
    }

    /// The records of a `send_many` as bytes; `None` if the topic's encoders are not made yet. `partition_of` is called
    /// with key and value, where Python chooses the partition.
    #[pyo3(signature = (topic, records, partition_of=None))]
    fn _record_table(
        &self,
        py: Python<'_>,
        topic: &str,
        records: &Bound<'_, PyAny>,
        partition_of: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<RecordTable>> {
        self.shared.get()?.producer.acquire_permit().map_err(|error| to_py(py, error))?;
        let encoders = match &self.encoders {
            None => None,
            Some(known) => match known.of(topic) {
                None => return Ok(None),
                found => found,
            },
        };
        RecordTable::of(py, records, encoders.as_deref(), partition_of).map(Some)
    }

    /// `headers` are added to each row that has none of their names. `key` and `value` are the formats of rows whose
    /// columns are not bytes yet.
    #[pyo3(signature = (data, topic, needs_partition, headers=Vec::new(), key=None, value=None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's")]
    fn _send_batch(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        topic: Option<&str>,
        needs_partition: bool,
        headers: Vec<(String, Vec<u8>)>,
        key: PySpec<'_>,
        value: PySpec<'_>,
    ) -> PyResult<BatchFuture> {
        let shared = self.shared.get()?;
        let (mut reader, mut set) = (capsule::import(data)?, Headers::new());
        let report = Report::new();
        // Seals the report also if this function fails: a commit waits for that.
        let _sealed = Sealed(&report);
        if key.is_some() || value.is_some() {
            // The transaction may end while the registry is asked and rows are written. A registered schema stays
            // there, so none is registered for rows that cannot be sent.
            shared.producer.hold(&report).map_err(|error| to_py(py, error))?;
            let registry = shared.producer.config().client.schema_registry.as_ref();
            (reader, set) = registered(py, reader, topic, (key, value), registry)?;
        }
        let columns = Columns::of(&reader.schema(), topic.is_some()).map_err(|error| to_py(py, error))?;
        let columns = columns.with_headers(headers).with_set_headers(set);
        if needs_partition && !columns.has_partition() {
            let message = "rows have no column \"partition\": this producer's partitioner is a function of Python's, which \
                           is not called for rows; add the column, or set a partitioner by its name";
            return Err(argument_error(py, message.into()));
        }
        let (mut count, mut untaken) = (0, None);
        while let Some(batch) = py.detach(|| reader.next()) {
            let batch = batch.map_err(|error| capsule::unreadable(py, &error))?;
            if untaken.is_none() {
                let taken = shared.take_rows(py, &batch, &columns, topic, &report)?;
                untaken = taken.map(|(rows, error)| (count + rows as u64, error));
            }
            count += batch.num_rows() as u64;
        }
        flush_log(py, shared.producer.log());
        let failures = shared.producer.failures();
        if let Some((rows, error)) = report.refused_rows() {
            failures.add(rows, &error);
        }
        if let Some((first, error)) = &untaken {
            failures.add(count - first, error);
        }
        Ok(BatchFuture::new(report.clone(), count, untaken, &shared.callbacks))
    }

    /// An operation that ends when everything that was sent before is done and its callbacks were run.
    fn _flush(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Operation> {
        let shared = self.shared.get()?;
        Operation::start(shared.flushing(py, timeout)?, shared.producer.log(), |py, ()| Ok(py.None()))
    }

    fn _partitions_for(&self, py: Python<'_>, topic: String, timeout: Option<Seconds>) -> PyResult<Operation> {
        let shared = self.shared.get()?;
        let lookup = shared.producer.partitions_for(topic, shared.api_timeout(py, timeout)?);
        Operation::start(lookup, shared.producer.log(), |py, partitions| Ok(partitions.into_pyobject(py)?.unbind()))
    }

    fn _health<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let shared = self.shared.get()?;
        let health = py.detach(|| shared.producer.health());
        let dict = PyDict::new(py);
        dict.set_item("connections", health.connections)?;
        dict.set_item("brokers", health.brokers)?;
        dict.set_item("bootstrapped", health.bootstrapped)?;
        dict.set_item("ok", health.failing.is_none() && !shared.producer.is_closed())?;
        dict.set_item("failing_for", health.failing.as_ref().map(|(since, _)| since.as_secs_f64()))?;
        dict.set_item("last_error", health.failing.map(|(_, error)| error))?;
        dict.set_item("memory_used_bytes", health.memory.0)?;
        dict.set_item("memory_bytes", health.memory.1)?;
        dict.set_item("waiting_for_room", health.waiting)?;
        dict.set_item("topics", health.topics)?;
        dict.set_item("records_unfinished", health.records_unfinished)?;
        let in_flight = health.in_flight.values();
        dict.set_item("requests_in_flight", in_flight.clone().map(|(requests, _)| requests).sum::<usize>())?;
        dict.set_item("batches_in_flight", in_flight.map(|(_, batches)| batches).sum::<usize>())?;
        let by_broker = health.in_flight.iter().map(|(broker, (_, batches))| (broker, batches));
        dict.set_item("batches_in_flight_by_broker", by_broker.into_py_dict(py)?)?;
        dict.set_item("retried_errors", health.retried_errors)?;
        dict.set_item("certificate_expires", health.certificate_expires.map(unix_seconds))?;
        dict.set_item("client_instance_id", shared.producer.client_instance_id().map(|id| id.to_string()))?;
        flush_log(py, shared.producer.log());
        Ok(dict)
    }

    /// Number of failed records whose failure nobody has seen, and the first failure.
    fn _unseen_failures(&self, py: Python<'_>) -> PyResult<Option<(u64, PyErr)>> {
        Ok(self.shared.get()?.unseen_failures(py))
    }

    fn _metrics(&self) -> PyResult<Vec<(&'static str, u64)>> {
        Ok(self.shared.get()?.producer.metrics().snapshot())
    }

    fn _metric_registry(&self) -> PyResult<MetricRegistry> {
        Ok(MetricRegistry::of(self.shared.get()?.producer.registered_metrics()))
    }

    /// Closes the producer. Records that are not done after `timeout` seconds fail.
    fn _close(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Operation> {
        let shared = self.shared.get()?;
        Operation::start(shared.closing(py, timeout)?, shared.producer.log(), |py, ()| Ok(py.None()))
    }
}

impl ProducerCore {
    /// Sends a record of bytes.
    #[inline]
    fn send_bytes<'py>(
        slf: &Bound<'py, Self>,
        arguments: SendArguments<'_, 'py>,
        on_delivery: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, SendFuture>> {
        let (py, core) = (slf.py(), slf.get());
        if core.may_queue.load(Ordering::Relaxed) {
            return arguments.send_or_queue(slf, on_delivery);
        }
        let shared = core.shared.get()?;
        let prepared = shared.prepare(on_delivery)?;
        let sent = match arguments.send(shared)? {
            Ok(sent) => sent,
            Err(Refused::Full { needed }) if core.waits => {
                arguments.wait_and_send(py, shared, needed, shared.max_block)?
            }
            Err(Refused::Full { .. }) => return arguments.send_or_queue(slf, on_delivery),
            Err(Refused::Error(error)) => return Err(to_py(py, error)),
        };
        shared.future_of(py, sent, prepared)
    }

    /// Encodes a record and sends it. While the schemas of its topic are not known, Python asks for them.
    fn send_encoded<'py>(
        slf: &Bound<'py, Self>,
        encoders: &RecordEncoders,
        arguments: SendArguments<'_, 'py>,
        on_delivery: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, SendFuture>> {
        let SendArguments { topic, value, key, partition, headers, timestamp, .. } = arguments;
        let Some(encoders) = encoders.of(argument_values::topic(topic)?) else {
            let arguments = (topic, value, key, partition, headers, timestamp, on_delivery);
            return Ok(slf.call_method1("_send_unencoded", arguments)?.cast_into::<SendFuture>()?);
        };
        let (key, value, headers) = encoders.encode(slf.py(), key, value, headers)?;
        let encoded =
            SendArguments { key: key.as_ref(), value: value.as_ref(), headers: headers.as_ref(), ..arguments };
        Self::send_bytes(slf, encoded, on_delivery)
    }
}

/// Seals a report when it is dropped: there are no more rows.
struct Sealed<'a>(&'a Report);

impl Drop for Sealed<'_> {
    fn drop(&mut self) {
        self.0.seal();
    }
}
