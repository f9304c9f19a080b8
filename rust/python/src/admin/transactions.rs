//! The core of the admin clients' methods about transactions.

use std::sync::Arc;
use std::time::Duration;

use monedula_client::admin::{
    Admin, FencedProducer, HangingTransaction, ProducerState, TransactionAbort, TransactionDescription,
    TransactionFilter, TransactionListing,
};
use pyo3::prelude::*;

use crate::admin::values::{self, PyNode};
use crate::admin::{CallTimeout, start, topic_partitions, which};
use crate::consumer::values::{PyPartition, py_partition, topic_partition};
use crate::operation::Operation;
use crate::runtime::Own;

/// A transactional id: state, producer id, producer epoch, timeout in milliseconds, beginning of its transaction,
/// partitions, coordinator.
type PyTransaction = (String, i64, i16, i32, Option<i64>, Vec<PyPartition>, Option<PyNode>);

/// A producer in a partition: id, epoch, last sequence number, last timestamp, coordinator epoch, first offset of its
/// transaction.
type PyProducer = (i64, i32, Option<i32>, Option<i64>, Option<i32>, Option<i64>);

/// The methods about transactions of `AdminCore`, which makes it.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct AdminTransactionsCore {
    pub(crate) admin: Own<Arc<Admin>>,
}

#[pymethods]
impl AdminTransactionsCore {
    fn list_transactions(
        &self,
        timeout: CallTimeout,
        states: Vec<String>,
        producer_ids: Vec<i64>,
        duration_ms: Option<u64>,
        transactional_id_pattern: Option<String>,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let duration = duration_ms.map(Duration::from_millis);
        let filter = TransactionFilter { states, producer_ids, duration, transactional_id_pattern };
        let call = admin.list_transactions(filter, timeout.of(admin));
        start(admin, call, |py, found| values::listed_by_brokers(py, found, listing))
    }

    fn describe_transactions(&self, timeout: CallTimeout, transactional_ids: Vec<String>) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.describe_transactions(transactional_ids, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, |id| id, transaction))
    }

    fn fence_producers(&self, timeout: CallTimeout, transactional_ids: Vec<String>) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.fence_producers(transactional_ids, timeout.of(admin));
        let fenced = |fenced: FencedProducer| (fenced.producer_id, fenced.producer_epoch);
        start(admin, call, move |py, items| values::items(py, items, |id| id, fenced))
    }

    fn describe_producers(
        &self,
        timeout: CallTimeout,
        partitions: Vec<PyPartition>,
        broker: Option<i32>,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.describe_producers(topic_partitions(partitions), broker, timeout.of(admin));
        let producers = |found: Vec<ProducerState>| found.into_iter().map(producer).collect::<Vec<_>>();
        start(admin, call, move |py, items| values::items(py, items, py_partition, producers))
    }

    fn abort_transaction(
        &self,
        timeout: CallTimeout,
        partition: PyPartition,
        producer_id: i64,
        producer_epoch: i16,
        coordinator_epoch: i32,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let partition = topic_partition(partition);
        let abort = TransactionAbort { partition, producer_id, producer_epoch, coordinator_epoch };
        let call = admin.abort_transaction(abort, timeout.of(admin));
        start(admin, call, |py, ()| Ok(py.None()))
    }

    fn find_hanging_transactions(
        &self,
        timeout: CallTimeout,
        topics: Option<Vec<String>>,
        partitions: Option<Vec<PyPartition>>,
        broker: Option<i32>,
        max_transaction_timeout_ms: u64,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let (which, longest) = (which(topics, partitions), Duration::from_millis(max_transaction_timeout_ms));
        let call = admin.find_hanging_transactions(which, broker, longest, timeout.of(admin));
        let hanging = |found: Vec<HangingTransaction>| {
            let each = found.into_iter().map(|hanging| (hanging.transactional_id, producer(hanging.producer)));
            each.collect::<Vec<_>>()
        };
        start(admin, call, move |py, items| values::items(py, items, py_partition, hanging))
    }
}

fn listing(listing: TransactionListing) -> (String, i64, i32) {
    (listing.state, listing.producer_id, listing.coordinator)
}

fn transaction(described: TransactionDescription) -> PyTransaction {
    let TransactionDescription {
        coordinator,
        state,
        producer_id,
        producer_epoch,
        timeout_ms,
        start_timestamp,
        partitions,
    } = described;
    let partitions = partitions.into_iter().map(py_partition).collect();
    (state, producer_id, producer_epoch, timeout_ms, start_timestamp, partitions, coordinator.map(values::node))
}

fn producer(state: ProducerState) -> PyProducer {
    (
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        state.transaction_start_offset,
    )
}
