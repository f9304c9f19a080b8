//! Arguments and results of the consumer, in the form that Python has.

use std::collections::BTreeMap;

use monedula_client::consumer::{BatchLimits, Consumer, FoundOffset, PartitionStatus, Position};
use monedula_engine::TopicPartition;
use monedula_engine::cluster::Cluster;
use monedula_engine::fetch::Start;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::argument_error;
use crate::seconds::{Seconds, seconds, unix_seconds};

/// A partition: topic and index.
pub(crate) type PyPartition = (String, i32);

/// A topic: id, true if it is internal, error name, and `{partition: (leader or -1, leader epoch)}`.
pub(crate) type PyTopic = (String, bool, Option<&'static str>, BTreeMap<i32, (i32, i32)>);

/// The cluster: `{node id: (host, port)}` and the topics by name.
pub(crate) type PyCluster = (BTreeMap<i32, (String, u16)>, BTreeMap<String, PyTopic>);

/// A start position: its kind ("offset", "earliest", "latest", "timestamp" in ms, "committed" or "default") and its
/// number.
pub(crate) type PyStart = (String, i64);

pub(crate) fn topic_partition((topic, partition): PyPartition) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

pub(crate) fn py_partition(partition: TopicPartition) -> PyPartition {
    (partition.topic.to_string(), partition.partition)
}

pub(crate) fn position(py: Python<'_>, consumer: &Consumer, (kind, number): &PyStart) -> PyResult<Position> {
    Ok(match kind.as_str() {
        "offset" => Start::Offset(*number, -1).into(),
        "earliest" => Start::Earliest.into(),
        "latest" => Start::Latest.into(),
        "timestamp" => Start::Timestamp(*number).into(),
        "committed" => Position::Committed,
        "default" => consumer.default_position(),
        other => return Err(argument_error(py, format!("no such start: {other}"))),
    })
}

/// A positive whole number from Python. The error names the argument, whatever its type.
fn count(name: &str, given: &Bound<'_, PyAny>) -> PyResult<usize> {
    match given.extract::<usize>() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(argument_error(
            given.py(),
            format!("{name}={}: expected a whole number, 1 or more", given.repr()?.to_string_lossy()),
        )),
    }
}

pub(crate) fn want(
    py: Python<'_>,
    max_rows: &Bound<'_, PyAny>,
    max_bytes: &Bound<'_, PyAny>,
    max_wait: f64,
    timeout: Option<Seconds>,
) -> PyResult<BatchLimits> {
    let (max_rows, max_bytes) = (count("max_rows", max_rows)?, count("max_bytes", max_bytes)?);
    let deadline = timeout.map(|timeout| timeout.deadline(py)).transpose()?;
    Ok(BatchLimits { max_rows, max_bytes, max_wait: seconds(py, "max_wait", max_wait)?, deadline })
}

pub(crate) fn py_status<'py>(
    py: Python<'py>,
    consumer: &Consumer,
    status: &PartitionStatus,
) -> PyResult<Bound<'py, PyDict>> {
    // The end of the readable records: with read_committed, nothing beyond the last stable offset is returned.
    let stable = status.last_stable_offset.filter(|_| consumer.config().read_committed);
    let log_end = stable.or(status.high_watermark);
    let dict = PyDict::new(py);
    dict.set_item("position", status.position)?;
    dict.set_item("high_watermark", status.high_watermark)?;
    dict.set_item("last_stable_offset", status.last_stable_offset)?;
    dict.set_item("log_end_offset", log_end)?;
    dict.set_item("log_start_offset", status.log_start_offset)?;
    dict.set_item("paused", status.paused)?;
    dict.set_item("queued_records", status.queued_records)?;
    dict.set_item("queued_bytes", status.queued_bytes)?;
    dict.set_item("finished", status.finished)?;
    dict.set_item("error", status.fault.as_ref().map(ToString::to_string))?;
    Ok(dict)
}

pub(crate) fn py_cluster(cluster: &Cluster) -> PyCluster {
    let brokers = cluster.brokers.iter().map(|(&node_id, broker)| (node_id, (broker.host.clone(), broker.port)));
    let topics = cluster.topics.iter().map(|(name, topic)| {
        let leaders = topic.partitions.iter();
        let leaders = leaders.map(|(&index, known)| (index, (known.leader.unwrap_or(-1), known.leader_epoch)));
        (name.to_string(), (topic.id.to_string(), topic.is_internal, topic.error_name(), leaders.collect()))
    });
    (brokers.collect(), topics.collect())
}

/// A dict of the value found for each partition, `None` where nothing was.
pub(crate) fn found_dict<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    found: BTreeMap<TopicPartition, Option<FoundOffset>>,
    value: impl Fn(FoundOffset) -> T,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (partition, found) in found {
        dict.set_item(py_partition(partition), found.map(&value))?;
    }
    Ok(dict)
}

/// The health of a consumer, with the status of each of its partitions.
pub(crate) fn py_health<'py>(py: Python<'py>, consumer: &Consumer) -> PyResult<Bound<'py, PyDict>> {
    let health = py.detach(|| consumer.health());
    let dict = PyDict::new(py);
    dict.set_item("connections", health.connections)?;
    dict.set_item("brokers", health.brokers)?;
    dict.set_item("bootstrapped", health.bootstrapped)?;
    let stopped = health.partitions.values().any(|status| status.fault.is_some());
    let is_answered = health.failing.is_none() && health.registry_failing.is_none();
    let is_ok = is_answered && !stopped && !has_ended(consumer) && !consumer.is_closed();
    dict.set_item("ok", is_ok)?;
    dict.set_item("failing_for", health.failing.as_ref().map(|(since, _)| since.as_secs_f64()))?;
    dict.set_item("last_error", health.failing.map(|(_, error)| error))?;
    let registry_failing = health.registry_failing;
    dict.set_item("registry_failing_for", registry_failing.as_ref().map(|(since, _)| since.as_secs_f64()))?;
    dict.set_item("registry_last_error", registry_failing.map(|(_, error)| error))?;
    dict.set_item("budget_used_bytes", health.budget.0)?;
    dict.set_item("budget_bytes", health.budget.1)?;
    dict.set_item("retried_errors", health.retried_errors)?;
    dict.set_item("certificate_expires", health.certificate_expires.map(unix_seconds))?;
    dict.set_item("client_instance_id", consumer.client_instance_id().map(|id| id.to_string()))?;
    let partitions = PyDict::new(py);
    for (partition, status) in &health.partitions {
        partitions.set_item((&*partition.topic, partition.partition), py_status(py, consumer, status)?)?;
    }
    dict.set_item("partitions", partitions)?;
    Ok(dict)
}

/// True if the group membership ended with an error.
fn has_ended(consumer: &Consumer) -> bool {
    consumer.group_status().is_some_and(|group| group.status.fatal.is_some())
}
