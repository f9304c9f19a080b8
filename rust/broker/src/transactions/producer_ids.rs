//! The allocation of producer ids. Each id is allocated once.
//!
//! With a data directory, a block of ids is stored as allocated before the first of them is used, as Kafka's controller
//! does it; after a restart the next block begins. Kafka stores this in its metadata log, this broker in a record of
//! `__transaction_state`.

use monedula_protocol::error_code::ErrorCode;

use super::records::{self, Replayed};
use crate::cluster::Coordinated;
use crate::core::Core;

/// The number of ids in a block, as in Kafka.
const BLOCK: i64 = 1000;
/// The partition of `__transaction_state` that has the record.
const PARTITION: i32 = 0;

#[derive(Debug, Default)]
pub(super) struct ProducerIds {
    next: i64,
    /// All ids below this one are stored as allocated; `None` before that was read from the log.
    stored_to: Option<i64>,
}

impl ProducerIds {
    /// Allocates the next id. [`Core::reserve_producer_id`] must be called before.
    pub(super) fn take(&mut self) -> i64 {
        self.next += 1;
        self.next - 1
    }
}

impl Core {
    /// Makes sure that the next id of [`ProducerIds::take`] is stored as allocated, if there is a data directory.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS, as in Kafka, if the block cannot be stored.
    pub(super) fn reserve_producer_id(&mut self) -> Result<(), ErrorCode> {
        if self.settings.data_dir.is_none() {
            return Ok(());
        }
        if self.transactions.producer_ids.stored_to.is_none() {
            let taken = self.stored_producer_ids();
            self.transactions.producer_ids.next = taken;
            self.transactions.producer_ids.stored_to = Some(taken);
        }
        let ProducerIds { next, stored_to } = self.transactions.producer_ids;
        if stored_to.is_some_and(|stored_to| next < stored_to) {
            return Ok(());
        }
        self.ensure_internal_topic(Coordinated::Transactions);
        self.store(Coordinated::Transactions, PARTITION, &[records::producer_ids(next + BLOCK)])
            .map_err(|_| ErrorCode::CoordinatorLoadInProgress)?;
        self.transactions.producer_ids.stored_to = Some(next + BLOCK);
        Ok(())
    }

    fn stored_producer_ids(&self) -> i64 {
        let records = self.topics.stored(Coordinated::Transactions, PARTITION);
        let taken = records.iter().filter_map(|record| match records::read(record) {
            Ok(Replayed::ProducerIds(taken)) => Some(taken),
            _ => None,
        });
        taken.max().unwrap_or(0)
    }
}
