//! The client's part around the machine: adds records to batches, splits batches, and carries out the machine's
//! outputs.

use std::sync::Arc;

use monedula_engine::TopicPartition;
use monedula_engine::produce::{Batch, BatchId, Input, Output};
use monedula_engine::transaction;

use crate::broker::TOPIC;
use crate::judge::{Bug, Rule};
use crate::sim::{Event, FULL, RECORD_BYTES, Sim, TROUBLE, ms};
use crate::waiting::QUEUE;

impl Sim {
    pub(crate) fn tell_cluster(&mut self) {
        let cluster = Arc::new(self.cluster.clone());
        self.machine.handle(self.now, Input::MetadataUpdate { cluster });
    }

    /// Sends a record to a partition: into its open batch, or into the queue of waiting records.
    pub(crate) fn record(&mut self) {
        if self.now < TROUBLE {
            let pause = self.below(12);
            self.at(ms(pause), Event::Record);
        }
        if self.user.as_ref().is_some_and(|user| !user.may_send()) {
            return;
        }
        let partition = self.below(self.partitions as u64) as i32;
        self.next_record += 1;
        let record = self.next_record;
        if let Some(user) = &mut self.user {
            user.sent(record);
        }
        // If a record waits, later ones have to wait behind it.
        if self.waiting.has_queue(QUEUE) || self.below(60) == 0 {
            return self.queue_record(record, partition);
        }
        self.append(record, partition);
        if self.below(40) == 0 && self.user.is_none() {
            self.figures.flushes += 1;
            self.machine.handle(self.now, Input::Flush { ticket: record });
        }
    }

    /// Adds a record to the open batch of its partition.
    pub(crate) fn append(&mut self, record: u64, partition: i32) {
        let batch = match self.open.get(&partition) {
            Some(&batch) => batch,
            None => {
                let batch = self.next_batch;
                self.next_batch += 1;
                self.open.insert(partition, batch);
                self.contents.insert(batch, (partition, Vec::new()));
                self.opened.insert(batch, self.now);
                let place = TopicPartition::new(TOPIC, partition);
                self.machine.handle(self.now, Input::Opened { partition: place, batch, since: self.now });
                batch
            }
        };
        let Some((_, records)) = self.contents.get_mut(&batch) else { return };
        records.push(record);
        if records.len() >= FULL {
            self.open.remove(&partition);
            self.machine.handle(self.now, Input::Full { batch });
            self.pack(batch);
        }
    }

    fn pack(&mut self, batch: BatchId) {
        let takes = self.below(4);
        self.at(ms(takes), Event::Packed(batch));
    }

    pub(crate) fn packed(&self, batch: BatchId) -> Batch {
        let records = self.contents[&batch].1.len();
        Batch { id: batch, records: records as u32, bytes: 61 + records * RECORD_BYTES }
    }

    pub(crate) fn split(&mut self, batch: BatchId) {
        // The batch was given up meanwhile. If the driver does not know that yet, each of its parts gets its own
        // outcome.
        if self.done.contains_key(&batch) {
            return;
        }
        let (partition, records) = self.contents[&batch].clone();
        let parts = records.chunks(records.len().div_ceil(2)).map(|records| {
            self.next_batch += 1;
            self.contents.insert(self.next_batch - 1, (partition, records.to_vec()));
            self.opened.insert(self.next_batch - 1, self.opened[&batch]);
            self.packed(self.next_batch - 1)
        });
        let parts = parts.collect();
        self.divided.insert(batch);
        self.figures.splits += 1;
        self.machine.handle(self.now, Input::SplitInto { batch, parts });
    }

    pub(crate) fn output(&mut self, output: Output) {
        self.trace(|| format!("{output:?}"));
        match output {
            Output::Close { batch } => {
                self.open.retain(|_, open| *open != batch);
                self.pack(batch);
            }
            Output::Send { request, broker, batches } => self.send(request, broker, &batches),
            Output::Split { batch } => self.at(ms(1), Event::Split(batch)),
            Output::Done { batch, outcome } => {
                self.open.retain(|_, open| *open != batch);
                if self.bug == Some(Bug::Untold) && batch % 50 == 7 {
                    return;
                }
                let outcome = match (self.bug, &outcome) {
                    (Some(Bug::GivenUpEarly), Ok(_)) if batch % 50 == 7 => Err(self.too_late(batch)),
                    _ => outcome,
                };
                if self.bug == Some(Bug::SpoiltForNothing) && batch % 50 == 7 && outcome.is_ok() {
                    let fault = self.too_late(batch);
                    self.session(Some(transaction::Input::DeliveryFailed(fault)));
                }
                if let Err(fault) = &outcome {
                    self.judge_fault(batch, fault);
                }
                if self.done.insert(batch, outcome).is_some() {
                    self.problem = Some((Rule::Ends, format!("batch {batch} has two ends")));
                }
            }
            Output::RefreshMetadata => self.want_metadata(),
            Output::LeaderHint { partition, leader, leader_epoch } => {
                if self.cluster.hint_leader(&partition, leader, leader_epoch) {
                    self.tell_cluster();
                }
            }
            Output::NewIdentity { old, .. } if self.user.is_some() => {
                self.session(Some(transaction::Input::NeedIdentity { old }));
            }
            Output::NewIdentity { old, .. } => {
                assert_eq!(old, self.identity);
                self.figures.epochs += usize::from(old.is_some());
                let takes = 1 + self.below(60);
                self.at(ms(takes), Event::Identity);
            }
            Output::Flushed { .. } if self.user.is_some() => self.flushed(),
            Output::Flushed { .. } => self.flushed += 1,
            Output::AddToTransaction(partition) => self.session(Some(transaction::Input::AddPartition(partition))),
            Output::TransactionFailed(_) if self.bug == Some(Bug::FailureUnsaid) => {}
            Output::TransactionFailed(fault) => self.session(Some(transaction::Input::DeliveryFailed(fault))),
        }
    }

    /// Metadata is as old as the time that its answer took.
    pub(crate) fn want_metadata(&mut self) {
        if std::mem::replace(&mut self.metadata_wanted, true) {
            return;
        }
        let mut cluster = self.cluster.clone();
        let mut others = Vec::new();
        self.broker.metadata(self.now, &mut cluster, &mut others);
        others.into_iter().for_each(|(connection, action)| self.reply(connection, action));
        let takes = 1 + self.below(40);
        self.at(ms(takes), Event::Metadata(Box::new(cluster)));
    }
}
