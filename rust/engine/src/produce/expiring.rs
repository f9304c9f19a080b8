//! Batches that fail or expire (`delivery.timeout.ms`), and what that means for the batches behind them.

use monedula_protocol::error_code::ErrorCode;

use super::io::{BatchId, Output, SendFault};
use super::machine::{PartitionIndex, ProduceMachine};
use super::partition_queue::{PartitionQueue, Phase, QueuedBatch};
use super::sequence_numbers::Renumbering;

impl ProduceMachine {
    /// Fails the batches of a partition that are past their delivery timeout.
    pub(super) fn expire(&mut self, partition: PartitionIndex) {
        while let Some((index, batch)) = self.queues[partition].oldest_unreported()
            && batch.opened_at + self.config.delivery_timeout <= self.now
        {
            let fault = SendFault::TimedOut {
                partition: self.queues[partition].topic_partition.clone(),
                after: self.config.delivery_timeout,
                attempts: batch.attempts,
                outcome_unknown: batch.outcome_unknown || batch.phase == Phase::InFlight,
                last_error: self.obstacle_of(partition, batch),
            };
            self.fail_batch(partition, index, fault);
        }
    }

    /// The obstacle of a batch, as far as it is known: the error of its last attempt, or what its first one waits for.
    pub fn obstacle(&self, batch: BatchId) -> Option<String> {
        let partition = *self.by_batch.get(&batch)?;
        let queued = self.queues[partition].batches.iter().find(|queued| queued.batch.id == batch)?;
        self.obstacle_of(partition, queued)
    }

    fn obstacle_of(&self, partition: PartitionIndex, batch: &QueuedBatch) -> Option<String> {
        batch.last_error.clone().or_else(|| match (self.queues[partition].leader, self.identity) {
            (None, _) => Some("the partition has no leader".to_owned()),
            (_, None) if self.config.idempotent => Some("no producer id was assigned yet".to_owned()),
            _ => None,
        })
    }

    /// Fails a batch, and with it the transaction.
    pub(super) fn fail_batch(&mut self, partition: PartitionIndex, index: usize, fault: SendFault) {
        let reported = self.queues[partition].batches[index].reported;
        let fails_transaction =
            self.config.transactional && !reported && !std::mem::replace(&mut self.transaction_failed, true);
        if fails_transaction {
            // Told before the end of the batch, which may end a flush: a commit waits for no more than the flush.
            self.emit(Output::TransactionFailed(fault.clone()));
        }
        self.finish_failed(partition, index, fault);
        if fails_transaction {
            self.fail_unsent(&SendFault::Aborted);
        }
    }

    pub(super) fn fail_partition(&mut self, partition: PartitionIndex, fault: &SendFault) {
        while let Some((index, _)) = self.queues[partition].oldest_unreported() {
            self.fail_batch(partition, index, fault.clone());
        }
    }

    /// Reports that a batch failed. One that is in flight stays in the queue until its request is answered: the answer
    /// decides which sequence numbers follow.
    pub(super) fn finish_failed(&mut self, partition: PartitionIndex, index: usize, fault: SendFault) {
        let failed = &self.queues[partition].batches[index];
        let (phase, batch) = (failed.phase, failed.batch.id);
        if phase == Phase::Splitting {
            self.failed_while_splitting.insert(batch, fault.clone());
        }
        self.report(partition, index, Err(fault));
        if phase != Phase::InFlight {
            self.remove(partition, index);
        }
    }

    pub(super) fn remove(&mut self, partition: PartitionIndex, index: usize) {
        let queue = &mut self.queues[partition];
        let Some(batch) = queue.batches.remove(index) else { return };
        self.by_batch.remove(&batch.batch.id);
        queue.numbers.removed(&batch);
    }

    /// Removes a batch whose end was reported while it was in flight, instead of sending it again.
    pub(super) fn remove_if_reported(&mut self, partition: PartitionIndex, index: usize) {
        if self.queues[partition].batches[index].reported {
            self.remove(partition, index);
        }
    }

    /// Fails the batches that were never sent. Those that have sequence numbers are still delivered, or the broker would
    /// refuse the batches behind them.
    pub(super) fn fail_unsent(&mut self, fault: &SendFault) {
        for partition in 0..self.queues.len() {
            let unsent = |queue: &PartitionQueue| {
                queue.batches.iter().position(|batch| batch.sequence.is_none() && batch.attempts == 0)
            };
            while let Some(index) = unsent(&self.queues[partition]) {
                self.finish_failed(partition, index, fault.clone());
            }
            self.update_partition(partition);
        }
    }

    /// Makes sure that the next batch of a partition gets sequence numbers that the broker accepts (KIP-360).
    pub(super) fn repair_sequence(&mut self, partition: PartitionIndex) {
        match self.queues[partition].renumbering() {
            Renumbering::None => {}
            Renumbering::From(next) => self.queues[partition].renumber(Some(next)),
            Renumbering::NewEpoch if self.config.transactional && self.fail_out_of_order(partition) => {}
            Renumbering::NewEpoch if self.queues[partition].numbers.identity != self.identity => {
                self.queues[partition].renumber(None);
            }
            Renumbering::NewEpoch if self.has_failed() => {}
            Renumbering::NewEpoch => {
                let queue = &self.queues[partition];
                let reason = match queue.numbers.unknown_until {
                    Some(_) => "a batch failed that may have been written",
                    None => "the broker misses records that it had acknowledged, or that were sent to it",
                };
                let reason = format!("{}: {reason}", queue.topic_partition);
                self.request_identity(reason);
            }
        }
    }

    /// Fails a batch of a transaction that the broker refused as out of order. It cannot be sent under another epoch,
    /// which would put it into another transaction. Returns whether there was one.
    fn fail_out_of_order(&mut self, partition: PartitionIndex) -> bool {
        let queue = &self.queues[partition];
        let Some(index) = queue.batches.iter().position(|batch| batch.out_of_order) else { return false };
        let code = queue.batches[index].out_of_order_code.unwrap_or(ErrorCode::OutOfOrderSequenceNumber);
        let fault = self.refused_fault(partition, index, code, None, Vec::new());
        self.fail_batch(partition, index, fault);
        self.update_partition(partition);
        true
    }
}
