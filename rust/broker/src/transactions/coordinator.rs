//! The requests to the transaction coordinator: InitProducerId, AddPartitionsToTxn, EndTxn, the descriptions, and the
//! check of partitions that are written in a transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::state::Ended;
use super::{End, Producer, TopicPartition, Transaction};
use crate::cluster::{Coordinated, NodeId};
use crate::core::Core;

/// The treatment, by a request that writes in a transaction, of partitions that are not part of it (KIP-890).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Membership {
    /// They are refused: with TRANSACTION_ABORTABLE, or with INVALID_TXN_STATE if the client is too old to know that
    /// error.
    Checked {
        /// True if the client knows TRANSACTION_ABORTABLE.
        knows_abortable: bool,
    },
    /// They are added to the transaction.
    Added,
}

impl Core {
    /// Handles an InitProducerId. Returns a new producer id without a transactional id, otherwise the id and the next
    /// epoch of the transactional id.
    ///
    /// # Errors
    /// INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
    /// COORDINATOR_NOT_AVAILABLE, PRODUCER_FENCED, and CONCURRENT_TRANSACTIONS while an earlier transaction is being
    /// completed.
    pub(crate) fn init_producer_id(
        &mut self,
        node: NodeId,
        id: Option<&str>,
        timeout_ms: i32,
        expected: Option<Producer>,
    ) -> Result<Producer, ErrorCode> {
        let Some(id) = id else {
            self.reserve_producer_id()?;
            return Ok((self.transactions.producer_ids.take(), 0));
        };
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        if timeout_ms <= 0 || timeout_ms > self.settings.kafka.transaction_max_timeout_ms {
            return Err(ErrorCode::InvalidTransactionTimeout);
        }
        let partition = self.transaction_partition(node, id)?;
        self.reserve_producer_id()?;
        let now_ms = self.now_ms;
        let id: Arc<str> = id.into();
        let transaction = match self.transactions.get(partition, &id).cloned() {
            Some(transaction) => transaction,
            None => Transaction::new(self.transactions.producer_ids.take(), timeout_ms, now_ms),
        };
        self.reserve_producer_id()?;
        let next = transaction.init(expected, timeout_ms, now_ms, || self.transactions.producer_ids.take())?;
        let (producer, aborts) = (next.producer(), next.is_prepared());
        self.set_transaction(partition, &id, next)?;
        if aborts {
            log::info!("the transaction of {id} is aborted: another producer begins");
            self.write_markers(partition, &id);
            // The producer retries, and gets an epoch that was never sent to a client.
            return Err(ErrorCode::ConcurrentTransactions);
        }
        Ok(producer)
    }

    /// Adds partitions to a transaction. The first ones begin it.
    ///
    /// # Errors
    /// INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
    /// INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    pub(crate) fn add_to_transaction(
        &mut self,
        node: NodeId,
        id: &str,
        producer: Producer,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<(), ErrorCode> {
        let (partition, transaction) = self.known_transaction(node, id)?;
        match transaction.add(producer, partitions, self.now_ms)? {
            Some(next) => self.set_transaction(partition, &id.into(), next),
            None => Ok(()),
        }
    }

    /// Checks that a partition is part of a producer's transaction.
    ///
    /// # Errors
    /// The errors of [`Core::add_to_transaction`], and TRANSACTION_ABORTABLE if the partition is not part of it.
    pub(crate) fn verify_in_transaction(
        &mut self,
        node: NodeId,
        id: &str,
        producer: Producer,
        partition: &TopicPartition,
    ) -> Result<(), ErrorCode> {
        let (_, transaction) = self.known_transaction(node, id)?;
        transaction.verify(producer, partition)
    }

    /// Commits or aborts a transaction. Returns the producer id and epoch for the next one.
    ///
    /// # Errors
    /// The errors of [`Core::add_to_transaction`], and INVALID_TXN_STATE.
    pub(crate) fn end_transaction(
        &mut self,
        node: NodeId,
        id: &str,
        producer: Producer,
        end: End,
    ) -> Result<Producer, ErrorCode> {
        let (partition, transaction) = self.known_transaction(node, id)?;
        self.reserve_producer_id()?;
        match transaction.end(producer, end, self.now_ms, || self.transactions.producer_ids.take())? {
            Ended::Already(producer) => Ok(producer),
            Ended::Prepared(next) => {
                let id: Arc<str> = id.into();
                let after = next.completed(self.now_ms).producer();
                self.set_transaction(partition, &id, next)?;
                self.write_markers(partition, &id);
                Ok(after)
            }
        }
    }

    fn known_transaction(&mut self, node: NodeId, id: &str) -> Result<(i32, Transaction), ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let partition = self.transaction_partition(node, id)?;
        let transaction = self.transactions.get(partition, id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
        Ok((partition, transaction.clone()))
    }

    /// A transactional id and its last transaction.
    ///
    /// # Errors
    /// INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, TRANSACTIONAL_ID_NOT_FOUND.
    pub(crate) fn describe_transaction(&mut self, node: NodeId, id: &str) -> Result<Transaction, ErrorCode> {
        match self.known_transaction(node, id) {
            Ok((_, transaction)) => Ok(transaction),
            Err(ErrorCode::InvalidProducerIdMapping) => Err(ErrorCode::TransactionalIdNotFound),
            Err(error) => Err(error),
        }
    }

    /// The transactional ids that a node coordinates.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS while a partition of them is loading.
    pub(crate) fn transactions_of(&self, node: NodeId) -> Result<Vec<(&str, &Transaction)>, ErrorCode> {
        let mut found = Vec::new();
        for (partition, shard) in &self.transactions.shards {
            let leader = self.topics.partition(Coordinated::Transactions.topic(), *partition);
            if leader.and_then(|found| found.leader) != Some(node) {
                continue;
            }
            self.transactions.check_loaded(*partition)?;
            found.extend(shard.iter().map(|(id, entry)| (&**id, &entry.transaction)));
        }
        Ok(found)
    }

    /// Checks that a producer may write to a partition in a transaction, or adds the partition to it (`membership`).
    /// The request may arrive at any node; as in Kafka, the node asks the coordinator.
    ///
    /// # Errors
    /// The errors of [`Core::add_to_transaction`], but INVALID_PRODUCER_EPOCH for PRODUCER_FENCED; INVALID_TXN_STATE,
    /// TRANSACTION_ABORTABLE.
    pub(crate) fn join_transaction(
        &mut self,
        id: &str,
        producer: Producer,
        partition: TopicPartition,
        membership: Membership,
    ) -> Result<(), ErrorCode> {
        let index = self.coordinator_partition(Coordinated::Transactions, id);
        let found = self.topics.partition(Coordinated::Transactions.topic(), index);
        let node = found.and_then(|found| found.leader).ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let outcome = match membership {
            Membership::Added => self.add_to_transaction(node, id, producer, &[partition].into()),
            Membership::Checked { .. } if !self.settings.kafka.transaction_partition_verification_enable => Ok(()),
            Membership::Checked { .. } => self.verify_in_transaction(node, id, producer, &partition),
        };
        outcome.map_err(|error| match error {
            ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
            ErrorCode::TransactionAbortable if membership == (Membership::Checked { knows_abortable: false }) => {
                ErrorCode::InvalidTxnState
            }
            error => error,
        })
    }
}
