//! Tasks of the driver with batches: they are opened, full, packed, split.

use monedula_protocol::error_code::ErrorCode;

use super::io::{Batch, BatchId, Output, SendFault};
use super::machine::{PartitionIndex, ProduceMachine};
use super::partition_queue::{PartitionQueue, Phase, QueuedBatch};
use crate::{Now, TopicPartition};

impl ProduceMachine {
    pub(super) fn opened(&mut self, topic_partition: TopicPartition, batch: BatchId, since: Now) {
        let partition = self.partition_index(topic_partition);
        let serial = self.next_serial;
        self.next_serial += 1;
        let refused = self.failed.clone().or(self.transaction_failed.then_some(SendFault::Aborted));
        if let Some(fault) = refused {
            return self.emit(Output::Done { batch, outcome: Err(fault) });
        }
        self.unfinished += 1;
        self.by_batch.insert(batch, partition);
        if self.queues[partition].batches.is_empty() {
            self.queues[partition].unknown_before = self.unknown_for(partition);
        }
        let opened = QueuedBatch::new(Batch { id: batch, records: 0, bytes: 0 }, serial, since);
        self.queues[partition].batches.push_back(opened);
        self.update_partition(partition);
    }

    fn partition_index(&mut self, topic_partition: TopicPartition) -> PartitionIndex {
        if let Some(&partition) = self.by_partition.get(&topic_partition) {
            return partition;
        }
        let partition = self.queues.len();
        self.queues.push(PartitionQueue::new(topic_partition.clone()));
        self.by_partition.insert(topic_partition, partition);
        self.update_leader(partition);
        partition
    }

    fn locate(&self, batch: BatchId) -> Option<(PartitionIndex, usize)> {
        let partition = *self.by_batch.get(&batch)?;
        Some((partition, self.queues[partition].find(batch)?))
    }

    pub(super) fn full(&mut self, batch: BatchId) {
        let Some((partition, index)) = self.locate(batch) else { return };
        let batch = &mut self.queues[partition].batches[index];
        if batch.phase == Phase::Open {
            batch.phase = Phase::Closing;
        }
        self.update_partition(partition);
    }

    pub(super) fn packed(&mut self, packed: Batch) {
        // A batch that failed meanwhile is not found.
        let Some((partition, index)) = self.locate(packed.id) else { return };
        let batch = &mut self.queues[partition].batches[index];
        if matches!(batch.phase, Phase::Open | Phase::Closing) {
            (batch.phase, batch.batch) = (Phase::Packed, packed);
        }
        self.update_partition(partition);
    }

    pub(super) fn split_into(&mut self, batch: BatchId, parts: Vec<Batch>) {
        if let Some(fault) = self.failed_while_splitting.remove(&batch) {
            let ends = parts.iter().map(|part| Output::Done { batch: part.id, outcome: Err(fault.clone()) });
            return self.outputs.extend(ends);
        }
        let Some((partition, index)) = self.locate(batch) else { return };
        let whole = self.queues[partition].batches[index].clone();
        if whole.phase != Phase::Splitting {
            return;
        }
        if parts.is_empty() {
            let fault = self.refused_fault(partition, index, ErrorCode::MessageTooLarge, None, Vec::new());
            self.fail_batch(partition, index, fault);
            return self.update_partition(partition);
        }
        // The parts have the records of the whole, so they also have its sequence numbers. The broker has appended none
        // of them.
        let mut sequence = whole.sequence;
        self.by_batch.remove(&batch);
        self.queues[partition].batches.remove(index);
        self.count_parts(whole.serial, parts.len());
        for (offset, part) in parts.into_iter().enumerate() {
            let mut queued = QueuedBatch::new(part, whole.serial, whole.opened_at);
            (queued.phase, queued.sequence) = (Phase::Packed, sequence);
            sequence = queued.sequence_end();
            self.by_batch.insert(part.id, partition);
            self.queues[partition].batches.insert(index + offset, queued);
        }
        self.update_partition(partition);
    }

    fn count_parts(&mut self, serial: u64, parts: usize) {
        self.unfinished = self.unfinished + parts - 1;
        for flush in self.flushes.iter_mut().filter(|flush| serial <= flush.last_serial) {
            flush.unfinished = flush.unfinished + parts - 1;
        }
    }
}
