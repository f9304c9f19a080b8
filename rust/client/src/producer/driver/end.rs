//! The end of the driver: every record that is not done fails, with its obstacle.

use std::collections::BTreeSet;

use monedula_engine::produce::{BatchId, SendFault};

use super::super::command::ProduceCommand;
use super::super::pack::PackedBatch;
use super::Running;
use crate::error::ClientError;
use crate::log::kinds;
use crate::net::network::{Owed, joined};

/// Reason that held back the records that the end finds.
struct Obstacles {
    owed: Owed,
    /// Reason that metadata is not to be had.
    failing: Option<String>,
    found: BTreeSet<String>,
}

impl Obstacles {
    /// The fault of records that were held back by `obstacle`, if that is known, or else by what brokers owe.
    fn fault(&mut self, obstacle: Option<String>) -> SendFault {
        let last_error = self.owed.explain(obstacle.or_else(|| self.failing.clone()));
        self.found.extend(last_error.clone());
        SendFault::Closed { last_error }
    }
}

impl Running {
    fn end_topic(&self, topic: &str, obstacles: &mut Obstacles) {
        let error = ClientError::from(obstacles.fault(self.driver.base.metadata.trouble_of(topic)));
        let failed = self.driver.accumulator.topic_failed(topic, &error);
        self.driver.count_failed(failed, &error);
    }

    fn end_batch(&self, batch: PackedBatch, obstacles: &mut Obstacles) {
        let fault = self.fault_of(batch.id, obstacles);
        self.finish(batch, &Err(fault));
    }

    fn fault_of(&self, batch: BatchId, obstacles: &mut Obstacles) -> SendFault {
        obstacles.fault(self.driver.session.explain(self.machine.obstacle(batch)))
    }
}

/// Whatever ends the driver, such as the end of the runtime: every record gets an outcome, so no caller waits for ever.
impl Drop for Running {
    fn drop(&mut self) {
        self.driver.accumulator.close();
        let failing = self.driver.base.metadata.view().failing.map(|(_, error)| error);
        let mut obstacles = Obstacles { owed: self.driver.base.network.owed(), failing, found: BTreeSet::new() };
        let (_, lost) = self.driver.accumulator.counts();
        for topic in self.pending_topics.topics() {
            self.end_topic(&topic, &mut obstacles);
        }
        while let Ok(command) = self.commands.try_recv() {
            match command {
                ProduceCommand::BatchOpened { partition, batch, .. } => drop(self.open.insert(batch, partition)),
                ProduceCommand::BatchFull(batch) => self.end_batch(batch.uncompressed(), &mut obstacles),
                ProduceCommand::TopicUnknown(topic) | ProduceCommand::PartitionUnknown(topic) => {
                    self.end_topic(&topic, &mut obstacles);
                }
                _ => {}
            }
        }
        for (batch, partition) in std::mem::take(&mut self.open) {
            if let Some(open) = self.driver.accumulator.take(&partition, batch) {
                self.end_batch(open.uncompressed(), &mut obstacles);
            }
        }
        for (_, batch) in std::mem::take(&mut self.packed) {
            self.end_batch(batch, &mut obstacles);
        }
        for (batch, (receipt, first, records)) in std::mem::take(&mut self.packing) {
            let fault = self.fault_of(batch, &mut obstacles);
            self.driver.count_failed(records.into(), &fault.clone().into());
            receipt.complete(first, records, &Err(fault));
        }
        self.driver.base.network.close();
        if lost > 0 {
            let because = joined(obstacles.found).map(|found| format!("; the last error: {found}")).unwrap_or_default();
            self.driver.base.log.record(&kinds::RECORDS_LOST, || {
                let records = if lost == 1 { "a record was".into() } else { format!("{lost} records were") };
                format!("{records} not delivered before the producer ended{because}")
            });
        }
    }
}
