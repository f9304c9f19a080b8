//! Transactional ids at their coordinators (KIP-664): listing and describing them, and fencing their producers.

use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_transactions::{
    DescribeTransactionsRequest, TransactionState as DescribedTransaction,
};
use monedula_protocol::messages::find_coordinator::FindCoordinatorRequest;
use monedula_protocol::messages::init_producer_id::InitProducerIdRequest;
use monedula_protocol::messages::list_transactions::ListTransactionsRequest;

use super::call::{AdminCall, Answers, CallResult, ItemCall, Items, Recipient, Refusal, read, refuse_all};
use super::cluster::Node;
use super::listed::{Listed, Unrest};
use super::{Admin, AdminContext};
use crate::coordinator::Failure;
use crate::error::ClientError;
use crate::net::network::NodeId;

/// The `transaction.timeout.ms` that a fenced transactional id keeps until its next producer: Kafka's default.
const FENCED_TIMEOUT_MS: i32 = 60_000;

/// Transactional ids to list. An empty list does not filter.
#[derive(Clone, Debug, Default)]
pub struct TransactionFilter {
    /// Kafka's names of states, such as `Ongoing`.
    pub states: Vec<String>,
    /// Producer ids.
    pub producer_ids: Vec<i64>,
    /// Only transactions that have been open for longer than this (KIP-994).
    pub duration: Option<Duration>,
    /// A regular expression that the whole transactional id must match, in RE2's syntax (KIP-1152).
    pub transactional_id_pattern: Option<String>,
}

/// An entry of a list of transactional ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionListing {
    /// Kafka's name of the state.
    pub state: String,
    /// The producer id.
    pub producer_id: i64,
    /// The node id of the broker that listed it.
    pub coordinator: i32,
}

/// The description of a transactional id and its last transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionDescription {
    /// The coordinator.
    pub coordinator: Option<Node>,
    /// Kafka's name of the state, such as `Ongoing`.
    pub state: String,
    /// The producer id.
    pub producer_id: i64,
    /// The producer epoch.
    pub producer_epoch: i16,
    /// The time after which the coordinator aborts an open transaction, in milliseconds.
    pub timeout_ms: i32,
    /// The time at which the transaction began, in milliseconds since 1970; `None` without a transaction.
    pub start_timestamp: Option<i64>,
    /// The partitions of an open transaction; of one that ends, those whose markers are not written yet.
    pub partitions: Vec<TopicPartition>,
}

/// The producer id and epoch of a transactional id whose producers were fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencedProducer {
    /// The producer id.
    pub producer_id: i64,
    /// The new producer epoch; producers of earlier ones are fenced.
    pub producer_epoch: i16,
}

impl Admin {
    /// Lists the transactional ids of the whole cluster: each broker lists those that it coordinates. One that does not
    /// answer for half of the time is left out, and named.
    pub fn list_transactions(
        &self,
        filter: TransactionFilter,
        timeout: Duration,
    ) -> AdminCall<Listed<TransactionListing>> {
        self.until_closed(move |context| async move { context.list_transactions(filter, timeout).await })
    }

    /// Describes these transactional ids with their last transactions.
    pub fn describe_transactions(
        &self,
        transactional_ids: Vec<String>,
        timeout: Duration,
    ) -> AdminCall<Items<String, TransactionDescription>> {
        self.until_closed(move |context| async move { context.describe_transactions(transactional_ids, timeout).await })
    }

    /// Fences the producers of these transactional ids: their epochs are raised, and open transactions aborted.
    pub fn fence_producers(
        &self,
        transactional_ids: Vec<String>,
        timeout: Duration,
    ) -> AdminCall<Items<String, FencedProducer>> {
        self.run(FenceProducers, transactional_ids, timeout)
    }
}

impl AdminContext {
    pub(super) async fn list_transactions(
        &self,
        filter: TransactionFilter,
        timeout: Duration,
    ) -> Result<Listed<TransactionListing>, ClientError> {
        let call = move |unrest| ListTransactions { filter: filter.clone(), unrest };
        self.list_from_all(call, "transactions", timeout).await
    }

    pub(super) async fn describe_transactions(
        &self,
        transactional_ids: Vec<String>,
        timeout: Duration,
    ) -> Result<Items<String, TransactionDescription>, ClientError> {
        let mut done = self.run(DescribeTransactions, transactional_ids, timeout).await?;
        for (id, outcome) in &mut done {
            if let Ok(described) = outcome {
                described.coordinator = self.known_coordinator(FindCoordinatorRequest::TRANSACTION, id);
            }
        }
        Ok(done)
    }
}

struct ListTransactions {
    filter: TransactionFilter,
    unrest: Unrest,
}

impl ItemCall for ListTransactions {
    type Key = i32;
    type Value = Vec<(String, TransactionListing)>;

    fn what(&self, node: &i32) -> String {
        format!("listing the transactions of broker {node}")
    }

    fn recipient(&self, node: &i32) -> Recipient {
        Recipient::Broker(*node)
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, keys: &[i32]) -> CallResult<Self> {
        let TransactionFilter { states, producer_ids, duration, transactional_id_pattern } = &self.filter;
        let build = |_| ListTransactionsRequest {
            state_filters: states.iter().map(String::as_str).collect(),
            producer_id_filters: producer_ids.clone(),
            duration_filter: duration.map_or(-1, |duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)),
            transactional_id_pattern: transactional_id_pattern.as_deref(),
            ..Default::default()
        };
        // A broker that cannot filter must not look like one without such transactions.
        let lowest = match (transactional_id_pattern.is_some(), duration.is_some()) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => *ListTransactionsRequest::VERSIONS.start(),
        };
        let called = context.call(node, lowest..=*ListTransactionsRequest::VERSIONS.end(), build).await;
        let (frame, version) = called.inspect_err(|_| self.unrest.note())?;
        let response = read::<ListTransactionsRequest<'_>>(&frame, version)?;
        if let Err(refusal) = Refusal::check(response.error_code, None) {
            return Ok(refuse_all(keys, &refusal));
        }
        let coordinator = keys.first().copied().unwrap_or(-1);
        if !response.unknown_state_filters.is_empty() {
            let names = response.unknown_state_filters.join(", ");
            let message = format!("broker {coordinator} knows no state of transactions that is named {names}");
            return Err(Failure::Final(ClientError::Argument(message)));
        }
        let listed = response.transaction_states.iter().map(|listed| {
            let listing = TransactionListing {
                state: listed.transaction_state.to_owned(),
                producer_id: listed.producer_id,
                coordinator,
            };
            (listed.transactional_id.to_owned(), listing)
        });
        Ok(vec![(coordinator, Ok(listed.collect()))])
    }

    fn passes(&self, code: ErrorCode, _: Duration) -> bool {
        if code.is_retriable() {
            self.unrest.note();
        }
        code.is_retriable()
    }

    /// A broker that is gone coordinates no transactions any more.
    fn settle(&self, refusal: Refusal, _: bool) -> Result<Self::Value, Refusal> {
        match refusal.code {
            ErrorCode::BrokerNotAvailable => {
                self.unrest.note();
                Ok(Vec::new())
            }
            _ => Err(refusal),
        }
    }
}

struct DescribeTransactions;

impl ItemCall for DescribeTransactions {
    type Key = String;
    type Value = TransactionDescription;

    fn what(&self, id: &String) -> String {
        format!("describing the transactional id {id}")
    }

    fn recipient(&self, id: &String) -> Recipient {
        Recipient::TransactionCoordinator(id.clone())
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, ids: &[String]) -> CallResult<Self> {
        let transactional_ids = ids.iter().map(String::as_str).collect();
        let build = |_| DescribeTransactionsRequest { transactional_ids, ..Default::default() };
        let (frame, version) = context.call(node, DescribeTransactionsRequest::VERSIONS, build).await?;
        let response = read::<DescribeTransactionsRequest<'_>>(&frame, version)?;
        let answers = response.transaction_states.iter().map(|found| {
            let outcome = Refusal::check(found.error_code, None);
            (found.transactional_id.to_owned(), outcome.map(|()| described(found)))
        });
        Ok(answers.collect())
    }
}

fn described(found: &DescribedTransaction<'_>) -> TransactionDescription {
    let each = found.topics.iter();
    let mut partitions: Vec<TopicPartition> =
        each.flat_map(|topic| topic.partitions.iter().map(|&index| TopicPartition::new(topic.topic, index))).collect();
    partitions.sort();
    TransactionDescription {
        coordinator: None,
        state: found.transaction_state.to_owned(),
        producer_id: found.producer_id,
        producer_epoch: found.producer_epoch,
        timeout_ms: found.transaction_timeout_ms,
        start_timestamp: Some(found.transaction_start_time_ms).filter(|&timestamp| timestamp >= 0),
        partitions,
    }
}

struct FenceProducers;

impl ItemCall for FenceProducers {
    type Key = String;
    type Value = FencedProducer;

    fn what(&self, id: &String) -> String {
        format!("fencing the producers of the transactional id {id}")
    }

    fn recipient(&self, id: &String) -> Recipient {
        Recipient::TransactionCoordinator(id.clone())
    }

    /// One request for each: InitProducerId takes one transactional id.
    async fn ask(&self, context: &AdminContext, node: NodeId, ids: &[String]) -> CallResult<Self> {
        let mut answers = Answers::new();
        for id in ids {
            let build = |_| InitProducerIdRequest {
                transactional_id: Some(id),
                transaction_timeout_ms: FENCED_TIMEOUT_MS,
                ..Default::default()
            };
            let (frame, version) = context.call(node, InitProducerIdRequest::VERSIONS, build).await?;
            let response = read::<InitProducerIdRequest<'_>>(&frame, version)?;
            let fenced = FencedProducer { producer_id: response.producer_id, producer_epoch: response.producer_epoch };
            answers.push((id.clone(), Refusal::check(response.error_code, None).map(|()| fenced)));
        }
        Ok(answers)
    }
}
