//! What the machine says is done: batches closed, sent, divided, finished.

use std::sync::Arc;

use monedula_engine::produce::{Acknowledged, Acks, BatchId, Input, Output, RequestBatch, RequestId, SendFault};
use monedula_protocol::types::Uuid;

use super::super::lanes::{self, Part};
use super::super::pack::PackedBatch;
use super::{Order, Running};
use crate::error::ClientError;
use crate::log::Level;

impl Running {
    /// Memory that is short sends what lingers: nothing else gives any back.
    fn relieve(&mut self) {
        if self.exhausted && self.machine.unfinished() > 0 && self.relief.is_none() {
            self.exhausted = false;
            let (now, ticket) = (self.now(), self.ticket());
            self.relief = Some(ticket);
            self.machine.handle(now, Input::Flush { ticket });
        }
    }

    /// Does what the machine says, until it says nothing more.
    pub(super) fn act(&mut self) {
        self.relieve();
        while let Some(output) = self.machine.poll() {
            let now = self.now();
            match output {
                Output::Close { batch } => self.close(batch),
                Output::Send { request, broker, batches } => self.send(request, broker, &batches),
                Output::Split { batch } => self.split(batch),
                Output::Done { batch, outcome } => self.done(batch, outcome),
                Output::RefreshMetadata => self.driver.metadata.want(),
                Output::LeaderHint { partition, leader, leader_epoch } => {
                    self.driver.metadata.hint(&partition, leader, leader_epoch);
                }
                Output::NewIdentity { old, reason } => {
                    self.driver.log.record(Level::Debug, "producer", || format!("a producer id is needed: {reason}"));
                    let inputs = self.driver.session.need_identity(now, old);
                    self.tell(inputs);
                }
                Output::AddToTransaction(partition) => {
                    let inputs = self.driver.session.join(now, partition);
                    self.tell(inputs);
                }
                Output::TransactionFailed(fault) => {
                    let inputs = self.driver.session.failed(now, fault);
                    self.tell(inputs);
                }
                Output::Flushed { ticket } => {
                    self.relief = self.relief.filter(|&relief| relief != ticket);
                    // Whoever gave up waiting needs no answer.
                    if let Some(reply) = self.flushes.remove(&ticket) {
                        let _ = reply.send(());
                    }
                }
            }
        }
    }

    fn close(&mut self, batch: BatchId) {
        // One that is not there was full meanwhile: it comes as an order.
        let Some(place) = self.open.get(&batch) else { return };
        if let Some(closed) = self.driver.accumulator.take(place, batch) {
            self.pack(Box::new(closed));
        }
    }

    fn send(&mut self, request: RequestId, broker: i32, batches: &[RequestBatch]) {
        let config = &self.driver.config;
        let transactional_id = config.transactional_id.as_deref().map(Arc::from);
        let (mut parts, mut bytes) = (Vec::new(), 0);
        for sending in batches {
            let Some(batch) = self.packed.get(&sending.batch) else { continue };
            let header = batch.header(sending.sequence, transactional_id.is_some());
            let topic_id = self.cluster.topics.get(&sending.partition.topic).map_or(Uuid::ZERO, |topic| topic.id);
            bytes += header.len() + batch.payload.len();
            self.driver.log.record(Level::Debug, "producer", || {
                let sequence = sending.sequence.map_or_else(String::new, |(_, sequence)| format!(" from #{sequence}"));
                let (place, records) = (&sending.partition, batch.records);
                format!("{place}: {records} records{sequence}, {} bytes, to broker {broker}", batch.payload.len())
            });
            parts.push(Part { place: sending.partition.clone(), topic_id, header, payload: batch.payload.clone() });
        }
        self.driver.in_flight.sent(request, broker, parts.len());
        self.driver.metrics.batches_sent(parts.len() as u64);
        self.driver.metrics.bytes_sent(bytes as u64);
        let order = lanes::Order {
            id: request,
            acks: match config.acks {
                Acks::None => 0,
                Acks::Leader => 1,
                Acks::All => -1,
            },
            timeout_ms: i32::try_from(config.client.request_timeout.as_millis()).unwrap_or(i32::MAX),
            transactional_id,
            transactions_2: self.driver.session.version2(),
            batches: parts,
        };
        self.lanes.send(broker, order);
    }

    fn split(&mut self, batch: BatchId) {
        let Some(packed) = self.packed.remove(&batch) else { return };
        self.driver.log.record(Level::Info, "producer", || {
            format!(
                "{}: a batch of {} records is too large for the broker, and is divided",
                packed.place, packed.records
            )
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
            self.given_up.insert(batch, fault);
            return;
        }
        let Some(place) = self.open.get(&batch) else { return };
        match self.driver.accumulator.take(place, batch) {
            Some(closed) => {
                self.open.remove(&batch);
                self.finish(closed.uncompressed(), &Err(fault));
            }
            // It was full meanwhile, and comes as an order.
            None => drop(self.given_up.insert(batch, fault)),
        }
    }

    pub(super) fn finish(&self, batch: PackedBatch, outcome: &Result<Acknowledged, SendFault>) {
        let PackedBatch { receipt, first, records, place, .. } = &batch;
        match outcome {
            Ok(_) => self.driver.metrics.records_acknowledged((*records).into()),
            Err(fault) => {
                self.driver.metrics.records_failed((*records).into());
                self.driver
                    .log
                    .record(Level::Warning, "producer", || format!("{records} records to {place} failed: {fault}"));
            }
        }
        let (receipt, first, records) = (receipt.clone(), *first, *records);
        // Its memory comes free before anybody is told: who waits for both finds room.
        drop(batch);
        receipt.complete(first, records, outcome);
    }
}

/// Whatever ends the driver, be it the end of the runtime, nobody waits for ever.
impl Drop for Running {
    fn drop(&mut self) {
        self.driver.accumulator.close();
        let (_, lost) = self.driver.accumulator.kept();
        for topic in self.lookups.topics() {
            self.driver.accumulator.topic_failed(&topic, &ClientError::ProducerClosed);
        }
        let closed = Err(SendFault::Closed);
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Opened { place, batch, .. } => drop(self.open.insert(batch, place)),
                Order::Full(batch) => self.finish(batch.uncompressed(), &closed),
                Order::Topic(topic) | Order::Beyond(topic) => {
                    self.driver.accumulator.topic_failed(&topic, &ClientError::ProducerClosed);
                }
                _ => {}
            }
        }
        for (batch, place) in std::mem::take(&mut self.open) {
            if let Some(open) = self.driver.accumulator.take(&place, batch) {
                self.finish(open.uncompressed(), &closed);
            }
        }
        for (_, batch) in std::mem::take(&mut self.packed) {
            self.finish(batch, &closed);
        }
        for (_, (receipt, first, records)) in std::mem::take(&mut self.packing) {
            receipt.complete(first, records, &closed);
        }
        self.driver.network.close();
        if lost > 0 {
            let said = || format!("{lost} records were not delivered before the producer ended");
            self.driver.log.record(Level::Warning, "producer.end", said);
        }
    }
}
