//! Converts results of the admin client to plain tuples and lists, from which Python creates its dataclasses.

use monedula_client::admin::{
    BrokerReplica, ConfigEntry, ConfigResource, CreatedTopic, GroupDescription, GroupListing, Items, Listed,
    ListedOffset, LogDir, MemberDescription, Node, OffsetReset, PartitionLag, QuorumDescription, QuorumReplica,
    Reassignment, TopicDescription,
};
use monedula_client::group::CommitOffset;
use monedula_engine::TopicPartition;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::consumer::values::{PyPartition, py_partition};
use crate::error::to_py;

/// A node: id, host, port, rack.
pub(crate) type PyNode = (i32, String, u16, Option<String>);

/// A replica of the metadata log: node id, directory id, log end offset, times of its last fetch and catching up.
type PyQuorumReplica = (i32, Option<String>, Option<i64>, Option<i64>, Option<i64>);

/// The quorum: leader, its epoch, high watermark, voters, observers, and the endpoints of each controller.
pub(crate) type PyQuorum =
    (Option<i32>, i32, i64, Vec<PyQuorumReplica>, Vec<PyQuorumReplica>, Vec<(i32, Vec<(String, String, u16)>)>);

/// A created topic: id, number of partitions, replication factor, configs.
type PyCreated = (Option<String>, Option<i32>, Option<i16>, Vec<(String, Option<String>)>);

/// A member that owns a partition: member id, client id, address.
type PyOwner = (String, String, String);

/// The lag of a partition: committed offset, log start offset, log end offset, lag as a share group's broker counts it,
/// owner.
type PyLag = (Option<i64>, i64, i64, Option<i64>, Option<PyOwner>);

/// A partition: index, leader, leader epoch, replicas, in-sync replicas, offline replicas.
type PyPartitionDescription = (i32, Option<i32>, i32, Vec<i32>, Vec<i32>, Vec<i32>);

/// A config: name, value, source, type, true if it is sensitive, true if it is read-only, synonyms, documentation.
type PyConfig = (String, Option<String>, i8, i8, bool, bool, Vec<(String, Option<String>, i8)>, Option<String>);

/// A member: member id, group instance id, client id, host, rack, member epoch, topics, assignment, target assignment.
type PyMember = (
    String,
    Option<String>,
    String,
    String,
    Option<String>,
    Option<i32>,
    Vec<String>,
    Vec<PyPartition>,
    Option<Vec<PyPartition>>,
);

/// A group: state, type, protocol type, assignor, coordinator, group epoch, members.
type PyGroup = (String, &'static str, String, String, Option<PyNode>, Option<i32>, Vec<PyMember>);

/// A log directory: path, error, total bytes, usable bytes, and for each partition: size in bytes, offset lag, true if
/// it is a future replica.
type PyLogDir = (String, Option<&'static str>, Option<i64>, Option<i64>, Vec<(PyPartition, (i64, i64, bool))>);

/// The results of an operation on several items: `([(key, value)], [(key, exception)])`.
pub(crate) fn items<K, V, PK, PV>(
    py: Python<'_>,
    items: Items<K, V>,
    key: impl Fn(K) -> PK,
    value: impl Fn(V) -> PV,
) -> PyResult<Py<PyAny>>
where
    PK: for<'py> IntoPyObject<'py>,
    PV: for<'py> IntoPyObject<'py>,
{
    let (values, errors) = (PyList::empty(py), PyList::empty(py));
    for (item, outcome) in items {
        let item = key(item).into_py_any(py)?;
        match outcome {
            Ok(found) => values.append((item, value(found).into_py_any(py)?))?,
            Err(error) => errors.append((item, to_py(py, error).into_value(py)))?,
        }
    }
    (values, errors).into_py_any(py)
}

/// The results of an operation that cannot fail for a single item: `[(key, value)]`.
pub(crate) fn sure<K, V, PK, PV>(
    py: Python<'_>,
    items: impl IntoIterator<Item = (K, V)>,
    key: impl Fn(K) -> PK,
    value: impl Fn(V) -> PV,
) -> PyResult<Py<PyAny>>
where
    PK: for<'py> IntoPyObject<'py>,
    PV: for<'py> IntoPyObject<'py>,
{
    let values = PyList::empty(py);
    for (item, found) in items {
        values.append((key(item).into_py_any(py)?, value(found).into_py_any(py)?))?;
    }
    values.into_py_any(py)
}

pub(crate) fn nothing((): ()) -> Option<()> {
    None
}

pub(crate) fn created(topic: CreatedTopic) -> PyCreated {
    (topic.topic_id, topic.partitions, topic.replication_factor, topic.configs)
}

pub(crate) fn topic(topic: TopicDescription) -> (Option<String>, bool, Vec<PyPartitionDescription>) {
    let partitions = topic.partitions.into_iter();
    let partitions = partitions.map(|at| (at.partition, at.leader, at.leader_epoch, at.replicas, at.isr, at.offline));
    (topic.topic_id, topic.internal, partitions.collect())
}

pub(crate) fn resource(resource: ConfigResource) -> (i8, String) {
    (resource.kind, resource.name)
}

pub(crate) fn configs(entries: Vec<ConfigEntry>) -> Vec<PyConfig> {
    let config = |entry: ConfigEntry| {
        let synonyms = entry.synonyms.into_iter().map(|other| (other.name, other.value, other.source)).collect();
        let ConfigEntry { name, value, source, kind, sensitive, read_only, documentation, .. } = entry;
        (name, value, source, kind, sensitive, read_only, synonyms, documentation)
    };
    entries.into_iter().map(config).collect()
}

/// What the brokers of a cluster have listed: `([(id, value)], [(broker, exception)])`, the second of those that did not
/// answer.
pub(crate) fn listed_by_brokers<T, PV>(
    py: Python<'_>,
    listed: Listed<T>,
    value: impl Fn(T) -> PV,
) -> PyResult<Py<PyAny>>
where
    PV: for<'py> IntoPyObject<'py>,
{
    let missing = PyList::empty(py);
    for (broker, error) in listed.missing {
        missing.append((broker, to_py(py, error).into_value(py)))?;
    }
    (sure(py, listed.items, |id| id, value)?, missing).into_py_any(py)
}

pub(crate) fn listing(group: GroupListing) -> (String, String, String, i32) {
    (group.state, group.kind, group.protocol_type, group.coordinator)
}

pub(crate) fn node(node: Node) -> PyNode {
    (node.id, node.broker.host, node.broker.port, node.broker.rack)
}

pub(crate) fn group(group: GroupDescription) -> PyGroup {
    let members = group.members.into_iter().map(member).collect();
    let coordinator = group.coordinator.map(node);
    (group.state, group.kind, group.protocol_type, group.assignor, coordinator, group.epoch, members)
}

fn member(member: MemberDescription) -> PyMember {
    let each = |partitions: Vec<TopicPartition>| partitions.into_iter().map(py_partition).collect();
    (
        member.member_id,
        member.instance_id,
        member.client_id,
        member.host,
        member.rack,
        member.epoch,
        member.topics,
        each(member.assignment),
        member.target_assignment.map(each),
    )
}

pub(crate) fn committed(at: Option<CommitOffset>) -> Option<(i64, String, i32)> {
    at.map(|at| (at.offset, at.metadata, at.leader_epoch))
}

pub(crate) fn reset(reset: OffsetReset) -> (Option<i64>, i64) {
    (reset.before, reset.after)
}

pub(crate) fn lag(lag: PartitionLag) -> PyLag {
    (lag.committed, lag.log_start, lag.log_end, lag.lag, lag.owner)
}

pub(crate) fn listed(listed: ListedOffset) -> (Option<i64>, Option<i64>, Option<i32>) {
    (listed.offset, listed.timestamp, listed.leader_epoch)
}

pub(crate) fn reassignment(found: Reassignment) -> (Vec<i32>, Vec<i32>, Vec<i32>) {
    (found.replicas, found.adding, found.removing)
}

pub(crate) fn log_dirs(directories: Vec<LogDir>) -> Vec<PyLogDir> {
    let directory = |found: LogDir| {
        let replicas = found.replicas.into_iter();
        let replicas =
            replicas.map(|(at, replica)| (py_partition(at), (replica.size, replica.offset_lag, replica.is_future)));
        let error = found.error.map(|code| code.name());
        (found.path, error, found.total_bytes, found.usable_bytes, replicas.collect())
    };
    directories.into_iter().map(directory).collect()
}

pub(crate) fn replica(replica: BrokerReplica) -> (PyPartition, i32) {
    (py_partition(replica.partition), replica.broker)
}

pub(crate) fn quorum(quorum: QuorumDescription) -> PyQuorum {
    let replicas = |replicas: Vec<QuorumReplica>| replicas.into_iter().map(quorum_replica).collect();
    let controllers = quorum.controllers.into_iter().map(|found| (found.id, found.endpoints)).collect();
    (
        quorum.leader,
        quorum.leader_epoch,
        quorum.high_watermark,
        replicas(quorum.voters),
        replicas(quorum.observers),
        controllers,
    )
}

fn quorum_replica(replica: QuorumReplica) -> PyQuorumReplica {
    let QuorumReplica { id, directory_id, log_end_offset, last_fetch_timestamp, last_caught_up_timestamp } = replica;
    (id, directory_id, log_end_offset, last_fetch_timestamp, last_caught_up_timestamp)
}
