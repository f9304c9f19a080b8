//! Producer ids: each is given out once.
//!
//! With a data directory, blocks of ids are stored as taken before the first of them is given out, as Kafka's controllers do;
//! after a restart the next block begins. Kafka keeps this in its metadata log; here it is a record of `__transaction_state`.

use monedula_protocol::error_code::ErrorCode;

use super::records::{self, Replayed};
use crate::cluster::Coordinated;
use crate::core::Core;

/// Kafka's size of a block.
const BLOCK: i64 = 1000;
/// Where the record is.
const PARTITION: i32 = 0;

/// Which ids are taken.
#[derive(Debug, Default)]
pub(super) struct ProducerIds {
    next: i64,
    /// The end of the ids that are stored as taken; `None` before that was looked up.
    stored_to: Option<i64>,
}

impl ProducerIds {
    /// The next id. [`Core::reserve_producer_id`] goes before it.
    pub(super) fn take(&mut self) -> i64 {
        self.next += 1;
        self.next - 1
    }
}

impl Core {
    /// Sees to it that [`ProducerIds::take`] has an id that will not be given out again.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS as in Kafka, if that cannot be stored.
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
        let records = self.stored(Coordinated::Transactions, PARTITION);
        let taken = records.iter().filter_map(|record| match records::read(record) {
            Ok(Replayed::ProducerIds(taken)) => Some(taken),
            _ => None,
        });
        taken.max().unwrap_or(0)
    }
}
