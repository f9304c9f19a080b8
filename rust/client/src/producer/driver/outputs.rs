//! Carries out the machine's outputs: batches are closed, sent, split, finished.

use std::sync::Arc;

use monedula_engine::produce::{Acknowledged, Acks, BatchId, Input, Output, RequestBatch, RequestId, SendFault};
use monedula_protocol::types::Uuid;

use super::super::pack::PackedBatch;
use super::super::request::{OutgoingBatch, OutgoingRequest};
use super::Running;
use crate::error::counted;
use crate::log::{Entry, kinds};
use crate::net::network::NodeId;

impl Running {
    /// If memory is exhausted, flushes the batches that linger: nothing else frees memory.
    fn relieve(&mut self) {
        if self.exhausted && self.machine.unfinished() > 0 && self.relief.is_none() {
            self.exhausted = false;
            let (now, ticket) = (self.now(), self.ticket());
            self.relief = Some(ticket);
            self.machine.handle(now, Input::Flush { ticket });
        }
    }

    /// The next output. Once the flush that makes room has ended, another one begins if memory ran out again meanwhile.
    fn next_output(&mut self) -> Option<Output> {
        self.machine.poll().or_else(|| {
            self.relieve();
            self.machine.poll()
        })
    }

    pub(super) fn act(&mut self) {
        self.relieve();
        while let Some(output) = self.next_output() {
            let now = self.now();
            match output {
                Output::Close { batch } => self.close(batch),
                Output::Send { request, broker, batches } => self.send(request, broker, &batches),
                Output::Split { batch } => self.split(batch),
                Output::Done { batch, outcome } => self.done(batch, outcome),
                Output::RefreshMetadata => self.driver.base.metadata.want(),
                Output::LeaderHint { partition, leader, leader_epoch } => {
                    self.driver.base.metadata.hint(&partition, leader, leader_epoch);
                }
                Output::NewIdentity { old, reason } => {
                    self.driver
                        .base
                        .log
                        .record(&kinds::IDENTITY_NEEDED, || format!("a producer id is needed: {reason}"));
                    let inputs = self.driver.session.need_identity(now, old);
                    self.handle_inputs(inputs);
                }
                Output::AddToTransaction(partition) => {
                    let inputs = self.driver.session.add_partition(now, partition);
                    self.handle_inputs(inputs);
                }
                Output::TransactionFailed(fault) => {
                    let inputs = self.driver.session.delivery_failed(now, fault);
                    self.handle_inputs(inputs);
                }
                Output::Flushed { ticket } => {
                    self.relief = self.relief.filter(|&relief| relief != ticket);
                    // Fails if the caller no longer waits.
                    if let Some(reply) = self.flushes.remove(&ticket) {
                        let _ = reply.send(());
                    }
                }
            }
        }
    }

    fn close(&mut self, batch: BatchId) {
        // A batch that became full meanwhile is not found: it arrives as a command.
        let Some(partition) = self.open.get(&batch) else { return };
        if let Some(closed) = self.driver.accumulator.take(partition, batch) {
            self.pack(Box::new(closed));
        }
    }

    fn send(&mut self, request: RequestId, broker: i32, batches: &[RequestBatch]) {
        let config = &self.driver.config;
        let transactional_id = config.transactional_id.as_deref().map(Arc::from);
        let (mut outgoing, mut bytes) = (Vec::new(), 0);
        for RequestBatch { batch, partition, sequence } in batches {
            let Some(batch) = self.packed.get(batch) else { continue };
            let header = batch.header(*sequence, transactional_id.is_some());
            let topic_id = self.cluster.topics.get(&partition.topic).map_or(Uuid::ZERO, |topic| topic.id);
            bytes += header.len() + batch.payload.len();
            self.driver.base.log.record(&kinds::BATCH_SENT, || {
                let sequence = sequence.map_or_else(String::new, |(_, sequence)| format!(" from #{sequence}"));
                let (records, bytes) = (counted(batch.records.into(), "record"), batch.payload.len());
                let text = format!("{partition}: {records}{sequence}, {bytes} bytes, to broker {broker}");
                let name = self.driver.base.network.name_of(NodeId::Broker(broker));
                Entry::new(text).partition(partition).broker(name)
            });
            let (partition, payload) = (partition.clone(), batch.payload.clone());
            outgoing.push(OutgoingBatch { partition, topic_id, header, payload });
        }
        self.driver.reach.asked(broker);
        self.driver.in_flight.sent(request, broker, outgoing.len());
        self.driver.base.metrics.batches_sent(outgoing.len() as u64);
        self.driver.base.metrics.bytes_sent(bytes as u64);
        let request = OutgoingRequest {
            id: request,
            acks: match config.acks {
                Acks::None => 0,
                Acks::Leader => 1,
                Acks::All => -1,
            },
            timeout_ms: i32::try_from(config.client.request_timeout.as_millis()).unwrap_or(i32::MAX),
            transactional_id,
            version2: self.driver.session.version2(),
            batches: outgoing,
        };
        self.senders.send(broker, request);
    }

    fn split(&mut self, batch: BatchId) {
        let Some(packed) = self.packed.remove(&batch) else { return };
        self.driver.base.log.record(&kinds::BATCH_SPLIT, || {
            let (partition, records) = (&packed.partition, packed.records);
            let text = format!("{partition}: a batch of {records} records is too large for the broker, and is divided");
            Entry::new(text).partition(partition)
        });
        self.packing.insert(batch, (packed.receipt.clone(), packed.first, packed.records));
        let ids = [self.driver.accumulator.next_batch_id(), self.driver.accumulator.next_batch_id()];
        self.packers.split(Box::new(packed), ids);
    }

    fn done(&mut self, batch: BatchId, outcome: Result<Acknowledged, SendFault>) {
        if let Some(packed) = self.packed.remove(&batch) {
            return self.finish(packed, &outcome);
        }
        let Err(fault) = outcome else { return };
        if self.packing.contains_key(&batch) {
            self.failed_while_packing.insert(batch, fault);
            return;
        }
        let Some(partition) = self.open.get(&batch) else { return };
        match self.driver.accumulator.take(partition, batch) {
            Some(closed) => {
                self.open.remove(&batch);
                self.finish(closed.uncompressed(), &Err(fault));
            }
            // The batch became full meanwhile, and arrives as a command.
            None => drop(self.failed_while_packing.insert(batch, fault)),
        }
    }

    /// A fault with what is wrong with brokers, where records were not delivered in time.
    fn explained(&self, fault: &SendFault) -> SendFault {
        let mut fault = fault.clone();
        if let SendFault::TimedOut { last_error, .. } = &mut fault {
            *last_error = self.driver.base.network.explain(self.driver.session.explain(last_error.take()));
        }
        fault
    }

    pub(super) fn finish(&self, batch: PackedBatch, outcome: &Result<Acknowledged, SendFault>) {
        let PackedBatch { receipt, first, records, partition, .. } = &batch;
        let (receipt, first, records) = (receipt.clone(), *first, *records);
        let error = outcome.as_ref().err().map(|fault| {
            self.driver.base.log.record(&kinds::RECORDS_FAILED, || {
                let records = counted(records.into(), "record");
                Entry::new(format!("{records} to {partition} failed: {fault}")).partition(partition)
            });
            let refusal =
                matches!(fault, SendFault::Fatal { .. }).then(|| self.driver.base.network.refusal()).flatten();
            if let Some(refusal) = &refusal {
                // Refused before the outcome is reported: whoever has seen it must not get a further record admitted.
                self.driver.session.refuse_client(refusal.clone());
            }
            refusal.unwrap_or_else(|| self.explained(fault).into())
        });
        // Frees the memory before the outcome is reported, so that a caller who waits for the outcome finds room.
        drop(batch);
        match (&error, outcome) {
            (Some(error), _) => {
                self.driver.count_failed(records.into(), error);
                receipt.fail(first, records, error);
            }
            (None, outcome) => {
                self.driver.base.metrics.records_acknowledged(records.into());
                receipt.complete(first, records, outcome);
            }
        }
    }
}
