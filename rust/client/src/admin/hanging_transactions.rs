//! The search for hanging transactions (KIP-664): open in a partition for longer than any transaction may be, and
//! unknown to their coordinators, so that nobody will ever end them, and read_committed consumers wait before them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_protocol::error_code::ErrorCode;

use super::call::{AdminCall, Items, Refusal, Subject, refused_of};
use super::group_offsets::Which;
use super::producers::ProducerState;
use super::progress::no_broker;
use super::transactions::{TransactionDescription, TransactionFilter};
use super::{Admin, AdminContext};
use crate::error::ClientError;
use crate::wall_clock::now_ms;

/// A transaction that hangs in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HangingTransaction {
    /// The transactional id that has the producer id now, if there is one.
    pub transactional_id: Option<String>,
    /// The producer, as the partition remembers it.
    pub producer: ProducerState,
}

type OpenTransactions = Items<TopicPartition, Vec<ProducerState>>;

impl Admin {
    /// Finds hanging transactions: by partition, for those that have some or cannot be searched.
    ///
    /// `broker` limits the search to the partitions that this broker has a replica of, and asks it. A transaction is a
    /// candidate if the last record of its producer is older than `max_transaction_timeout`.
    ///
    /// # Errors
    /// Those for all partitions: a coordinator that does not answer could know any of the transactions; and
    /// [`ClientError::Refused`] with BROKER_NOT_AVAILABLE if there is no such broker.
    pub fn find_hanging_transactions(
        &self,
        which: Which,
        broker: Option<i32>,
        max_transaction_timeout: Duration,
        timeout: Duration,
    ) -> AdminCall<Items<TopicPartition, Vec<HangingTransaction>>> {
        self.until_closed(move |context| async move {
            let until = Instant::now() + timeout;
            let partitions = context.partitions_to_search(which, broker, timeout).await?;
            context.find_hanging(partitions, broker, max_transaction_timeout, until).await
        })
    }
}

impl AdminContext {
    async fn partitions_to_search(
        &self,
        which: Which,
        broker: Option<i32>,
        timeout: Duration,
    ) -> Result<Vec<TopicPartition>, ClientError> {
        let topics = match which {
            Which::Partitions(partitions) => return Ok(partitions),
            Which::Topics(topics) if broker.is_none() => return self.base.offsets.partitions_of(topics, timeout).await,
            Which::Topics(topics) => Some(topics.into_iter().map(Into::into).collect()),
            Which::All => None,
        };
        let cluster = self.base.metadata.describe(topics, timeout).await?;
        if let Some(broker) = broker.filter(|broker| !cluster.brokers.contains_key(broker)) {
            let refusal = Refusal { code: ErrorCode::BrokerNotAvailable, detail: Some(no_broker(broker, &cluster)) };
            return Err(refused_of("finding hanging transactions".into(), Subject::default(), refusal));
        }
        let mut partitions = Vec::new();
        for (name, topic) in &cluster.topics {
            if topic.error != ErrorCode::None {
                return Err(ClientError::of_topic(name, topic.error));
            }
            let has_replica = |index: &i32| {
                let replicas = topic.replicas.get(index);
                broker.is_none_or(|broker| replicas.is_some_and(|replicas| replicas.contains(&broker)))
            };
            let found = topic.partitions.keys().filter(|index| has_replica(index));
            partitions.extend(found.map(|&index| TopicPartition { topic: name.clone(), partition: index }));
        }
        Ok(partitions)
    }

    async fn find_hanging(
        &self,
        partitions: Vec<TopicPartition>,
        broker: Option<i32>,
        max_transaction_timeout: Duration,
        until: Instant,
    ) -> Result<Items<TopicPartition, Vec<HangingTransaction>>, ClientError> {
        let left = || until.saturating_duration_since(Instant::now());
        let before_ms = now_ms().saturating_sub(i64::try_from(max_transaction_timeout.as_millis()).unwrap_or(i64::MAX));
        let is_candidate = |producer: &ProducerState| {
            producer.transaction_start_offset.is_some() && producer.last_timestamp.is_none_or(|at| at < before_ms)
        };
        let mut open = self.describe_producers(partitions, broker, left()).await?;
        retain_producers(&mut open, |_, producer| is_candidate(producer));
        let producer_ids = open.iter().filter_map(|(_, found)| found.as_ref().ok()).flatten();
        let producer_ids: BTreeSet<i64> = producer_ids.map(|producer| producer.producer_id).collect();
        let known = self.known_transactions(producer_ids, until).await?;
        retain_producers(&mut open, |partition, producer| {
            let known = known.get(&producer.producer_id).and_then(|(_, described)| described.as_ref());
            known.is_none_or(|described| !described.partitions.contains(partition))
        });
        // One that its coordinator has ended meanwhile would look like one that it does not know.
        let suspects = open.iter().filter(|(_, found)| found.is_ok()).map(|(partition, _)| partition.clone()).collect();
        let again: BTreeMap<TopicPartition, _> =
            self.describe_producers(suspects, broker, left()).await?.into_iter().collect();
        let transactional_id = |id| known.get(&id).map(|(transactional_id, _)| transactional_id.clone());
        let hanging = open.into_iter().filter_map(|(partition, before)| {
            let now = again.get(&partition).cloned().unwrap_or(Ok(Vec::new()));
            let found = before.and_then(|before| {
                let still = now?.into_iter().filter(|now| {
                    let is_same = |before: &ProducerState| {
                        (before.producer_id, before.transaction_start_offset)
                            == (now.producer_id, now.transaction_start_offset)
                    };
                    before.iter().any(is_same)
                });
                let hanging = still.map(|producer| HangingTransaction {
                    transactional_id: transactional_id(producer.producer_id),
                    producer,
                });
                Ok(hanging.collect::<Vec<_>>())
            });
            (!matches!(&found, Ok(none) if none.is_empty())).then_some((partition, found))
        });
        Ok(hanging.collect())
    }

    /// What the coordinators know of these producer ids: the transactional id, and its description unless it is gone.
    async fn known_transactions(
        &self,
        producer_ids: BTreeSet<i64>,
        until: Instant,
    ) -> Result<BTreeMap<i64, (String, Option<TransactionDescription>)>, ClientError> {
        let left = || until.saturating_duration_since(Instant::now());
        if producer_ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let filter = TransactionFilter { producer_ids: producer_ids.into_iter().collect(), ..Default::default() };
        let mut listed = self.list_transactions(filter, left()).await?;
        if let Some((_, error)) = listed.missing.pop_first() {
            return Err(error);
        }
        let ids: Vec<String> = listed.items.keys().cloned().collect();
        let mut known = BTreeMap::new();
        for (id, described) in self.describe_transactions(ids, left()).await? {
            let described = match described {
                Ok(described) => Some(described),
                Err(ClientError::Refused(error)) if error.code == ErrorCode::TransactionalIdNotFound => None,
                Err(error) => return Err(error),
            };
            if let Some(listing) = listed.items.get(&id) {
                known.insert(listing.producer_id, (id, described));
            }
        }
        Ok(known)
    }
}

/// Keeps these producers, and the partitions that have some, or an error.
fn retain_producers(open: &mut OpenTransactions, keep: impl Fn(&TopicPartition, &ProducerState) -> bool) {
    open.retain_mut(|(partition, found)| match found {
        Ok(producers) => {
            producers.retain(|producer| keep(partition, producer));
            !producers.is_empty()
        }
        Err(_) => true,
    });
}
