//! The end of a transaction: writing the markers to its partitions, then completing it.

use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::{TopicPartition, Transaction, TransactionState};
use crate::cluster::Coordinated;
use crate::core::{Core, Marker};

/// The outcome of writing a marker.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum MarkerWrite {
    /// The marker is written, or its partition no longer exists.
    Done,
    /// The partition cannot take the marker now: it has no leader, or too few in-sync replicas.
    Later,
    /// The partition has a newer producer epoch or coordinator epoch: this coordinator must not go on.
    Fenced,
}

impl Core {
    /// Writes the missing markers of a prepared transaction, and completes it once all are written.
    pub(super) fn write_markers(&mut self, partition: i32, id: &Arc<str>) {
        let Some(transaction) = self.transactions.get(partition, id).filter(|found| found.is_prepared()).cloned()
        else {
            return;
        };
        let found = self.topics.partition(Coordinated::Transactions.topic(), partition);
        let coordinator_epoch = found.map_or(0, |found| found.leader_epoch);
        let mut left = transaction.clone();
        for target in &transaction.partitions {
            match self.write_marker(target, &transaction, coordinator_epoch) {
                MarkerWrite::Done => drop(left.partitions.remove(target)),
                MarkerWrite::Later => {}
                MarkerWrite::Fenced => {
                    if self.transactions.logs_fenced(partition, id) {
                        log::warn!(
                            "the transaction of {id} cannot be ended: a producer with a newer epoch wrote to {target:?}"
                        );
                    }
                    break;
                }
            }
        }
        if left.partitions.is_empty() {
            let completed = left.completed(self.now_ms);
            if self.set_transaction(partition, id, completed).is_ok() {
                return;
            }
        }
        // The missing partitions are kept in memory only: a new coordinator writes all markers again, which is
        // idempotent.
        self.put_transaction(partition, id, left);
    }

    fn write_marker(
        &mut self,
        (topic, index): &TopicPartition,
        transaction: &Transaction,
        coordinator_epoch: i32,
    ) -> MarkerWrite {
        let marker = Marker {
            transaction_version: if transaction.raised_epoch { 2 } else { 0 },
            producer_id: transaction.producer_id,
            producer_epoch: transaction.epoch,
            commit: transaction.state == TransactionState::PrepareCommit,
            coordinator_epoch,
        };
        match self.end_in_partition(topic, *index, marker) {
            Ok(()) | Err(ErrorCode::UnknownTopicOrPartition) => MarkerWrite::Done,
            Err(ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced) => MarkerWrite::Fenced,
            Err(_) => MarkerWrite::Later,
        }
    }

    /// Ends a producer's transaction in a partition.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED; NOT_ENOUGH_REPLICAS and others
    /// that are retriable.
    pub(crate) fn end_in_partition(&mut self, topic: &str, index: i32, marker: Marker) -> Result<(), ErrorCode> {
        let found = self.topics.get(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let min_insync_replicas = found.config.min_insync_replicas(&self.settings.kafka);
        let partition = self.topics.partition(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        if partition.leader.is_none() || !partition.has_min_isr(min_insync_replicas) {
            return Err(ErrorCode::NotEnoughReplicas);
        }
        match Coordinated::of_topic(topic) {
            // The group coordinator stores the end in its own records, not as a marker.
            Some(Coordinated::Groups) => {
                crate::groups::complete_transaction(self, marker.producer_id, index, marker.commit)
            }
            _ => self.append_marker(topic, index, marker).map(drop),
        }
    }
}
