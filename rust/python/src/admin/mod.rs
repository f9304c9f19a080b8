//! The core of the admin clients: each method starts an operation, for which `Admin` waits and `AsyncAdmin` awaits.

pub(crate) mod security;
pub(crate) mod transactions;
pub(crate) mod values;

use std::sync::Arc;
use std::time::Duration;

use monedula_client::admin::{
    Admin, BrokerReplica, ConfigChange, ConfigOperation, ConfigResource, GroupFilter, NewPartitions, NewTopic,
    OffsetSpec, ResetTarget, Which,
};
use monedula_client::error::ClientError;
use monedula_client::group::CommitOffset;
use monedula_engine::TopicPartition;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::admin::security::AdminSecurityCore;
use crate::admin::transactions::AdminTransactionsCore;
use crate::config::{parse_admin, seed};
use crate::consumer::values::{PyPartition, py_partition, topic_partition};
use crate::error::argument_error;
use crate::logging::flush_log;
use crate::metric_registry::MetricRegistry;
use crate::operation::Operation;
use crate::runtime::{Own, handle, register_admin};
use crate::seconds::Seconds;
use crate::tokens::Settings;

/// A topic to create: name, number of partitions, replication factor, brokers of each partition, configs.
type PyNewTopic = (String, Option<i32>, Option<i16>, Vec<(i32, Vec<i32>)>, Vec<(String, String)>);

/// Partitions to add: topic, new total number of partitions, brokers of each new partition.
type PyNewPartitions = (String, i32, Option<Vec<Vec<i32>>>);

/// A config resource: type and name.
type PyResource = (i8, String);

/// A replica: its partition and broker.
type PyReplica = (PyPartition, i32);

/// A config change: name, operation ("set", "delete", "append" or "subtract") and value.
type PyChange = (String, String, Option<String>);

/// An offset to look up: its kind, with a number such as the timestamp.
type PySpec = (String, i64);

/// The seconds that a call may take; without a number, `default.api.timeout.ms`.
pub(crate) struct CallTimeout(Option<Duration>);

impl<'py> FromPyObject<'_, 'py> for CallTimeout {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let timeout: Option<Seconds> = given.extract()?;
        Ok(Self(timeout.map(|timeout| timeout.duration(given.py())).transpose()?))
    }
}

impl CallTimeout {
    pub(crate) fn of(&self, admin: &Admin) -> Duration {
        self.0.unwrap_or(admin.config().default_api_timeout)
    }
}

/// Starts a call; `convert` makes its result a Python object.
pub(crate) fn start<T: Send + 'static>(
    admin: &Admin,
    call: impl Future<Output = Result<T, ClientError>> + Send + 'static,
    convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Operation> {
    Operation::start(call, admin.log(), convert)
}

/// The core of `Admin` and `AsyncAdmin`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct AdminCore {
    admin: Own<Arc<Admin>>,
}

#[pymethods]
impl AdminCore {
    #[new]
    fn new(py: Python<'_>, settings: Settings) -> PyResult<Self> {
        let config = parse_admin(py, settings)?;
        let admin = Arc::new(Admin::new(config, &handle()?, seed()));
        crate::logging::follow(py, admin.log(), "");
        register_admin(&admin);
        Ok(Self { admin: Own::new(admin) })
    }

    fn security(&self) -> PyResult<AdminSecurityCore> {
        Ok(AdminSecurityCore { admin: Own::new(self.admin.get()?.clone()) })
    }

    fn transactions(&self) -> PyResult<AdminTransactionsCore> {
        Ok(AdminTransactionsCore { admin: Own::new(self.admin.get()?.clone()) })
    }

    fn create_topics(&self, timeout: CallTimeout, topics: Vec<PyNewTopic>, validate_only: bool) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let topic = |(name, partitions, replication_factor, assignments, configs)| NewTopic {
            name,
            partitions,
            replication_factor,
            assignments,
            configs,
        };
        let topics = topics.into_iter().map(topic).collect();
        let call = admin.create_topics(topics, validate_only, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, |name| name, values::created))
    }

    fn delete_topics(&self, timeout: CallTimeout, topics: Vec<String>) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.delete_topics(topics, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, |name| name, values::nothing))
    }

    fn create_partitions(
        &self,
        timeout: CallTimeout,
        topics: Vec<PyNewPartitions>,
        validate_only: bool,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let topic = |(topic, total, assignments)| NewPartitions { topic, total, assignments };
        let topics = topics.into_iter().map(topic).collect();
        let call = admin.create_partitions(topics, validate_only, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, |name| name, values::nothing))
    }

    fn list_topics(&self, timeout: CallTimeout) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.list_topics(timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, |name| name, values::topic))
    }

    fn describe_topics(&self, timeout: CallTimeout, topics: Vec<String>) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.describe_topics(topics, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, |name| name, values::topic))
    }

    fn describe_configs(
        &self,
        timeout: CallTimeout,
        resources: Vec<PyResource>,
        names: Option<Vec<String>>,
        documentation: bool,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let resources = resources.into_iter().map(resource).collect();
        let call = admin.describe_configs(resources, names, documentation, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, values::resource, values::configs))
    }

    fn alter_configs(
        &self,
        py: Python<'_>,
        timeout: CallTimeout,
        changes: Vec<(PyResource, Vec<PyChange>)>,
        validate_only: bool,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let mut wanted = Vec::with_capacity(changes.len());
        for (whose, changes) in changes {
            let changes: PyResult<Vec<ConfigChange>> = changes.into_iter().map(|one| change(py, one)).collect();
            wanted.push((resource(whose), changes?));
        }
        let call = admin.alter_configs(wanted, validate_only, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, values::resource, values::nothing))
    }

    fn list_groups(&self, timeout: CallTimeout, states: Vec<String>, types: Vec<String>) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.list_groups(GroupFilter { states, types }, timeout.of(admin));
        start(admin, call, |py, found| values::listed_by_brokers(py, found, values::listing))
    }

    fn describe_groups(&self, timeout: CallTimeout, groups: Vec<String>) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.describe_groups(groups, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, |name| name, values::group))
    }

    fn delete_groups(&self, timeout: CallTimeout, groups: Vec<String>) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.delete_groups(groups, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, |name| name, values::nothing))
    }

    fn list_group_offsets(
        &self,
        timeout: CallTimeout,
        group: String,
        partitions: Option<Vec<PyPartition>>,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let partitions = partitions.map(topic_partitions);
        let call = admin.list_group_offsets(group, partitions, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, py_partition, values::committed))
    }

    fn alter_group_offsets(
        &self,
        timeout: CallTimeout,
        group: String,
        offsets: Vec<(PyPartition, i64, String)>,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let at = |(partition, offset, metadata)| {
            (topic_partition(partition), CommitOffset { offset, leader_epoch: -1, metadata })
        };
        let offsets = offsets.into_iter().map(at).collect();
        let call = admin.alter_group_offsets(group, offsets, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, py_partition, |offset| offset))
    }

    #[expect(clippy::too_many_arguments, reason = "Python's face has named ones")]
    fn reset_group_offsets(
        &self,
        py: Python<'_>,
        timeout: CallTimeout,
        group: String,
        target: (PySpec, Vec<(PyPartition, i64)>),
        topics: Option<Vec<String>>,
        partitions: Option<Vec<PyPartition>>,
        dry_run: bool,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let ((kind, number), offsets) = target;
        let target = match kind.as_str() {
            "shift" => ResetTarget::Shift(number),
            "offsets" => {
                let offsets = offsets.into_iter().map(|(partition, offset)| (topic_partition(partition), offset));
                ResetTarget::Offsets(offsets.collect())
            }
            _ => ResetTarget::At(spec(py, (kind, number))?),
        };
        let timeout = timeout.of(admin);
        let call = admin.reset_group_offsets(group, which(topics, partitions), target, dry_run, timeout);
        start(admin, call, |py, items| values::items(py, items, py_partition, values::reset))
    }

    fn delete_group_offsets(
        &self,
        timeout: CallTimeout,
        group: String,
        partitions: Vec<PyPartition>,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let timeout = timeout.of(admin);
        let call = admin.delete_group_offsets(group, topic_partitions(partitions), timeout);
        start(admin, call, |py, items| values::items(py, items, py_partition, values::nothing))
    }

    fn group_lag(
        &self,
        timeout: CallTimeout,
        group: String,
        topics: Option<Vec<String>>,
        partitions: Option<Vec<PyPartition>>,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.group_lag(group, which(topics, partitions), timeout.of(admin));
        start(admin, call, |py, lag| {
            let items = values::items(py, lag.partitions, py_partition, values::lag)?;
            Ok((lag.state, items).into_pyobject(py)?.into_any().unbind())
        })
    }

    fn list_offsets(
        &self,
        py: Python<'_>,
        timeout: CallTimeout,
        what: (Vec<(PyPartition, PySpec)>, Vec<String>, PySpec),
        read_committed: bool,
    ) -> PyResult<Operation> {
        let (partitions, topics, for_topics) = what;
        let mut specs = Vec::with_capacity(partitions.len());
        for (partition, at) in partitions {
            specs.push((topic_partition(partition), spec(py, at)?));
        }
        let for_topics = spec(py, for_topics)?;
        let admin = self.admin.get()?;
        let (caller, timeout) = (admin.clone(), timeout.of(admin));
        let call = async move {
            let more = match topics.is_empty() {
                true => Vec::new(),
                false => caller.partitions_of(topics, timeout).await?,
            };
            specs.extend(more.into_iter().map(|partition| (partition, for_topics)));
            caller.list_offsets(specs, read_committed, timeout).await
        };
        start(admin, call, |py, items| values::items(py, items, py_partition, values::listed))
    }

    fn delete_records(&self, timeout: CallTimeout, before: Vec<(PyPartition, i64)>) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let before = before.into_iter().map(|(partition, offset)| (topic_partition(partition), offset)).collect();
        let call = admin.delete_records(before, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, py_partition, |offset| offset))
    }

    fn describe_cluster(&self, timeout: CallTimeout) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.describe_cluster(timeout.of(admin));
        start(admin, call, |py, cluster| {
            let nodes: Vec<values::PyNode> = cluster.nodes.into_iter().map(values::node).collect();
            Ok((cluster.cluster_id, cluster.controller, nodes).into_pyobject(py)?.into_any().unbind())
        })
    }

    fn describe_log_dirs(
        &self,
        timeout: CallTimeout,
        brokers: Option<Vec<i32>>,
        topics: Option<Vec<String>>,
        partitions: Option<Vec<PyPartition>>,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let (which, timeout) = (which(topics, partitions), timeout.of(admin));
        let call = admin.describe_log_dirs(brokers, which, timeout);
        start(admin, call, |py, items| values::items(py, items, |broker| broker, values::log_dirs))
    }

    fn alter_replica_log_dirs(&self, timeout: CallTimeout, moves: Vec<(PyReplica, String)>) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let replica = |(partition, broker): PyReplica| BrokerReplica { broker, partition: topic_partition(partition) };
        let moves = moves.into_iter().map(|(at, path)| (replica(at), path)).collect();
        let call = admin.alter_replica_log_dirs(moves, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, values::replica, values::nothing))
    }

    fn describe_metadata_quorum(&self, timeout: CallTimeout) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.describe_metadata_quorum(timeout.of(admin));
        start(admin, call, |py, quorum| values::quorum(quorum).into_py_any(py))
    }

    fn list_config_resources(&self, timeout: CallTimeout, kinds: Vec<i8>) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.list_config_resources(kinds, timeout.of(admin));
        start(admin, call, |py, found| {
            let found: Vec<(i8, String)> = found.into_iter().map(values::resource).collect();
            found.into_py_any(py)
        })
    }

    fn elect_leaders(
        &self,
        timeout: CallTimeout,
        partitions: Option<Vec<PyPartition>>,
        unclean: bool,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let partitions = partitions.map(topic_partitions);
        let call = admin.elect_leaders(partitions, unclean, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, py_partition, |elected| elected))
    }

    fn alter_partition_reassignments(
        &self,
        timeout: CallTimeout,
        moves: Vec<(PyPartition, Option<Vec<i32>>)>,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let moves = moves.into_iter().map(|(partition, replicas)| (topic_partition(partition), replicas)).collect();
        let call = admin.alter_partition_reassignments(moves, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, py_partition, values::nothing))
    }

    fn list_partition_reassignments(
        &self,
        timeout: CallTimeout,
        partitions: Option<Vec<PyPartition>>,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let partitions = partitions.map(topic_partitions);
        let call = admin.list_partition_reassignments(partitions, timeout.of(admin));
        start(admin, call, |py, moves| values::sure(py, moves, py_partition, values::reassignment))
    }

    fn metrics(&self) -> PyResult<Vec<(&'static str, u64)>> {
        Ok(self.admin.get()?.metrics().snapshot())
    }

    fn metric_registry(&self) -> PyResult<MetricRegistry> {
        Ok(MetricRegistry::of(self.admin.get()?.registered_metrics()))
    }

    /// Pushes metrics a last time; `None` if no broker has asked for any.
    fn last_push(&self, py: Python<'_>, timeout: Seconds) -> PyResult<Option<Operation>> {
        let admin = self.admin.get()?;
        let push = admin.last_push(timeout.duration(py)?);
        push.map(|push| start(admin, push, |py, ()| Ok(py.None()))).transpose()
    }

    fn close(&self, py: Python<'_>, timeout: Seconds) -> PyResult<()> {
        let admin = self.admin.get()?;
        let timeout = timeout.duration(py)?;
        py.detach(|| admin.close(timeout));
        flush_log(py, admin.log());
        Ok(())
    }
}

fn topic_partitions(partitions: Vec<PyPartition>) -> Vec<TopicPartition> {
    partitions.into_iter().map(topic_partition).collect()
}

fn which(topics: Option<Vec<String>>, partitions: Option<Vec<PyPartition>>) -> Which {
    match (topics, partitions) {
        (Some(topics), _) => Which::Topics(topics),
        (None, Some(partitions)) => Which::Partitions(topic_partitions(partitions)),
        (None, None) => Which::All,
    }
}

fn resource((kind, name): PyResource) -> ConfigResource {
    ConfigResource { kind, name }
}

fn change(py: Python<'_>, (name, operation, value): PyChange) -> PyResult<ConfigChange> {
    let operation = match operation.as_str() {
        "set" => ConfigOperation::Set,
        "delete" => ConfigOperation::Delete,
        "append" => ConfigOperation::Append,
        "subtract" => ConfigOperation::Subtract,
        other => return Err(argument_error(py, format!("no such change of a setting: {other}"))),
    };
    Ok(ConfigChange { name, operation, value })
}

fn spec(py: Python<'_>, (kind, number): PySpec) -> PyResult<OffsetSpec> {
    Ok(match kind.as_str() {
        "earliest" => OffsetSpec::Earliest,
        "latest" => OffsetSpec::Latest,
        "max_timestamp" => OffsetSpec::MaxTimestamp,
        "timestamp" => OffsetSpec::Timestamp(number),
        other => return Err(argument_error(py, format!("no such offset: {other}"))),
    })
}
