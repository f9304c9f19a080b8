//! The transaction coordinator, and producer ids.
//!
//! The transactional ids of one partition of `__transaction_state` form a shard, which the partition's leader reads back
//! from the partition's log. Each id is a pure state machine ([`state`]). A new state is stored before a request is
//! answered and before markers are written. If the coordinator fails while a transaction is prepared, the next one
//! completes it.

mod coordinator;
mod ending;
mod producer_ids;
mod records;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

pub(crate) use coordinator::Membership;
pub(crate) use state::{End, Producer, TopicPartition, Transaction, TransactionState};

use crate::cluster::{Coordinated, NodeId};
use crate::core::Core;
use producer_ids::ProducerIds;

/// The time after which markers that could not be written are tried again.
const MARKER_RETRY_MS: i64 = 100;

/// All transactional ids, and the next producer id.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    /// The transactional ids of each partition of `__transaction_state`, as its leader keeps them.
    shards: BTreeMap<i32, BTreeMap<Arc<str>, Entry>>,
    /// The deadlines of transactional ids: time, partition of `__transaction_state`, transactional id.
    due: BTreeSet<(i64, i32, Arc<str>)>,
    /// The partitions that are loading: the end of it, partition.
    loads: BTreeSet<(i64, i32)>,
    producer_ids: ProducerIds,
}

#[derive(Debug)]
struct Entry {
    transaction: Transaction,
    /// The entry in [`Transactions::due`].
    due_ms: Option<i64>,
    /// True once the log has that its markers are refused: they are tried again every [`MARKER_RETRY_MS`].
    fenced_is_logged: bool,
}

impl Transactions {
    /// The earliest deadline of all transactional ids and loads.
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        let due = self.due.first().map(|(due_ms, ..)| *due_ms);
        let load = self.loads.first().map(|(due_ms, _)| *due_ms);
        [due, load].into_iter().flatten().min()
    }

    /// Ends the loads that are due, and handles the transactional ids that are due.
    pub(crate) fn tick(core: &mut Core) {
        let now_ms = core.now_ms;
        while let Some(&(due_ms, partition)) = core.transactions.loads.first().filter(|(due_ms, _)| *due_ms <= now_ms) {
            core.transactions.loads.remove(&(due_ms, partition));
            Self::load(core, partition);
        }
        while let Some((_, partition, id)) =
            core.transactions.due.first().filter(|(due_ms, ..)| *due_ms <= now_ms).cloned()
        {
            core.transaction_is_due(partition, &id);
        }
    }

    /// Handles a new leader, or a new leader epoch, of a partition of `__transaction_state`: drops its transactional
    /// ids, and loads them if the partition has a leader.
    pub(crate) fn leader_changed(core: &mut Core, partition: i32) {
        core.transactions.shards.remove(&partition);
        core.transactions.loads.retain(|(_, loading)| *loading != partition);
        core.transactions.due.retain(|(_, of, _)| *of != partition);
        let found = core.topics.partition(Coordinated::Transactions.topic(), partition);
        if found.is_none_or(|found| found.leader.is_none()) {
            return;
        }
        let load_ms = core.settings.coordinator_load_ms;
        if load_ms > 0 {
            let loaded_at_ms = core.now_ms.saturating_add(load_ms);
            core.transactions.loads.insert((loaded_at_ms, partition));
            core.transactions.shards.insert(partition, BTreeMap::new());
        } else {
            Self::load(core, partition);
        }
    }

    /// Reads a partition's transactional ids back, and completes the prepared transactions.
    fn load(core: &mut Core, partition: i32) {
        let mut loaded: BTreeMap<Arc<str>, Transaction> = BTreeMap::new();
        for record in core.topics.stored(Coordinated::Transactions, partition) {
            match records::read(&record) {
                Ok(records::Replayed::Transaction(id, Some(transaction))) => {
                    loaded.insert(id.into(), *transaction);
                }
                Ok(records::Replayed::Transaction(id, None)) => drop(loaded.remove(id.as_str())),
                Ok(records::Replayed::ProducerIds(_)) => {}
                Err(problem) => log::error!("a record of __transaction_state-{partition} is skipped: {problem}"),
            }
        }
        core.transactions.shards.insert(partition, BTreeMap::new());
        for (id, transaction) in loaded {
            let prepared = transaction.is_prepared();
            core.put_transaction(partition, &id, transaction);
            if prepared {
                core.write_markers(partition, &id);
            }
        }
    }

    /// Checks that a partition has a leader, which has loaded it.
    ///
    /// # Errors
    /// NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
    fn check_loaded(&self, partition: i32) -> Result<i32, ErrorCode> {
        if self.loads.iter().any(|(_, loading)| *loading == partition) {
            return Err(ErrorCode::CoordinatorLoadInProgress);
        }
        if self.shards.contains_key(&partition) { Ok(partition) } else { Err(ErrorCode::NotCoordinator) }
    }

    fn get(&self, partition: i32, id: &str) -> Option<&Transaction> {
        Some(&self.shards.get(&partition)?.get(id)?.transaction)
    }

    fn remove(&mut self, partition: i32, id: &Arc<str>) {
        let Some(shard) = self.shards.get_mut(&partition) else { return };
        if let Some(due_ms) = shard.remove(id).and_then(|entry| entry.due_ms) {
            self.due.remove(&(due_ms, partition, Arc::clone(id)));
        }
    }
}

/// The first time at or after `due_ms` of a check that runs every `interval_ms`.
fn at_check(due_ms: i64, interval_ms: i32) -> i64 {
    let interval_ms = i64::from(interval_ms).max(1);
    let late_ms = due_ms.rem_euclid(interval_ms);
    if late_ms == 0 { due_ms } else { due_ms.saturating_add(interval_ms - late_ms) }
}

impl Core {
    /// The partition of `__transaction_state` that a transactional id belongs to, if `node` leads it and has loaded it.
    ///
    /// # Errors
    /// NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
    pub(crate) fn transaction_partition(&mut self, node: NodeId, id: &str) -> Result<i32, ErrorCode> {
        let kind = Coordinated::Transactions;
        let partition = self.coordinator_partition(kind, id);
        let leader = self.topics.partition(kind.topic(), partition).and_then(|found| found.leader);
        if leader != Some(node) {
            return Err(ErrorCode::NotCoordinator);
        }
        if !self.transactions.shards.contains_key(&partition) {
            Transactions::leader_changed(self, partition);
        }
        self.transactions.check_loaded(partition)
    }

    /// Stores the new state of a transactional id, then applies it.
    fn set_transaction(&mut self, partition: i32, id: &Arc<str>, transaction: Transaction) -> Result<(), ErrorCode> {
        let record = records::transaction(id, Some(&transaction)).map_err(|error| {
            log::error!("transactional id {id} cannot be stored: {error}");
            ErrorCode::UnknownServerError
        })?;
        self.store(Coordinated::Transactions, partition, &[record])?;
        self.put_transaction(partition, id, transaction);
        Ok(())
    }

    fn put_transaction(&mut self, partition: i32, id: &Arc<str>, transaction: Transaction) {
        let due_ms = self.transaction_due_ms(&transaction);
        let Some(shard) = self.transactions.shards.get_mut(&partition) else { return };
        // A fenced end is logged once for each transaction, which is prepared until its markers are written.
        let known = shard.get(id).filter(|_| transaction.is_prepared());
        let fenced_is_logged = known.is_some_and(|entry| entry.fenced_is_logged);
        let before = shard.insert(Arc::clone(id), Entry { transaction, due_ms, fenced_is_logged });
        if let Some(before_ms) = before.and_then(|before| before.due_ms) {
            self.transactions.due.remove(&(before_ms, partition, Arc::clone(id)));
        }
        if let Some(due_ms) = due_ms {
            self.transactions.due.insert((due_ms, partition, Arc::clone(id)));
        }
    }

    fn transaction_due_ms(&self, transaction: &Transaction) -> Option<i64> {
        let settings = &self.settings.kafka;
        if transaction.is_prepared() {
            return Some(self.now_ms.saturating_add(MARKER_RETRY_MS));
        }
        if let Some(due_ms) = transaction.times_out_at_ms() {
            let interval_ms = settings.transaction_abort_timed_out_transaction_cleanup_interval_ms;
            return Some(at_check(due_ms, interval_ms));
        }
        let due_ms = transaction.expires_at_ms(settings.transactional_id_expiration_ms.into())?;
        Some(at_check(due_ms, settings.transaction_remove_expired_transaction_cleanup_interval_ms))
    }

    /// Handles a transactional id that is due: tries its markers again, aborts a transaction that timed out, or removes
    /// an id that has expired.
    fn transaction_is_due(&mut self, partition: i32, id: &Arc<str>) {
        let now_ms = self.now_ms;
        let Some(transaction) = self.transactions.get(partition, id).cloned() else { return };
        if transaction.is_prepared() {
            self.write_markers(partition, id);
        } else if transaction.times_out_at_ms().is_some_and(|due_ms| due_ms <= now_ms) {
            log::info!("the transaction of {id} is aborted: it was open for more than {} ms", transaction.timeout_ms);
            if self.set_transaction(partition, id, transaction.fenced(now_ms)).is_ok() {
                self.write_markers(partition, id);
            }
        } else {
            self.expire_transaction(partition, id, &transaction);
        }
        // A state that could not be stored is tried again after a delay, not at once.
        self.transactions.postpone(partition, id, now_ms);
    }

    fn expire_transaction(&mut self, partition: i32, id: &Arc<str>, transaction: &Transaction) {
        let expiration_ms = self.settings.kafka.transactional_id_expiration_ms.into();
        if transaction.expires_at_ms(expiration_ms).is_none_or(|due_ms| due_ms > self.now_ms) {
            return self.put_transaction(partition, id, transaction.clone());
        }
        let Ok(record) = records::transaction(id, None) else { return };
        if self.store(Coordinated::Transactions, partition, &[record]).is_ok() {
            log::info!("transactional id {id} is forgotten: it was silent for {expiration_ms} ms");
            self.transactions.remove(partition, id);
        }
    }
}

impl Transactions {
    /// True if a fenced end of this transactional id is to be logged: only the first time.
    fn logs_fenced(&mut self, partition: i32, id: &Arc<str>) -> bool {
        let entry = self.shards.get_mut(&partition).and_then(|shard| shard.get_mut(id));
        entry.is_some_and(|entry| !std::mem::replace(&mut entry.fenced_is_logged, true))
    }

    /// Moves a deadline that has passed to [`MARKER_RETRY_MS`] from now.
    fn postpone(&mut self, partition: i32, id: &Arc<str>, now_ms: i64) {
        let Some(entry) = self.shards.get_mut(&partition).and_then(|shard| shard.get_mut(id)) else { return };
        if let Some(due_ms) = entry.due_ms.filter(|due_ms| *due_ms <= now_ms) {
            let later_ms = now_ms.saturating_add(MARKER_RETRY_MS);
            entry.due_ms = Some(later_ms);
            self.due.remove(&(due_ms, partition, Arc::clone(id)));
            self.due.insert((later_ms, partition, Arc::clone(id)));
        }
    }
}
