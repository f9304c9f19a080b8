//! Queues of records that wait for room in `buffer.memory`, or for their partition to be chosen. The caller serves each
//! queue on a thread of its own. Order and transactions are those of the engine's [`SendQueues`].

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use monedula_engine::produce::SendQueues;

use super::admission::{SendPermit, TransactionAdmission};
use crate::error::ClientError;
use crate::lock::lock;

/// The waiting records of one producer. A record is never dropped under the lock, but returned.
pub struct QueuedSends<T> {
    admission: Arc<TransactionAdmission>,
    queues: Mutex<SendQueues<QueuedRecord<T>>>,
    changed: Condvar,
}

#[derive(Clone)]
struct QueuedRecord<T> {
    record: T,
    since: Instant,
    /// The record's transaction is not committed before the record is sent or has failed.
    permit: Arc<SendPermit>,
}

/// The first record of a queue.
pub struct QueueFront<T> {
    /// The record.
    pub record: T,
    /// Time for which it has waited.
    pub waited: Duration,
    /// The transaction in which it was sent.
    pub transaction: u64,
    /// True if that transaction was not aborted. It is checked again when the record is appended to a batch.
    pub may_send: bool,
}

impl<T: Clone> QueuedSends<T> {
    pub(super) fn new(admission: Arc<TransactionAdmission>) -> Self {
        Self { admission, queues: Mutex::default(), changed: Condvar::new() }
    }

    /// Appends a record to a queue; to one that does not exist only with `creates`. Returns `None` if it was not
    /// appended, else whether the record is the first one, so that the caller has to serve the queue.
    ///
    /// # Errors
    /// If nothing can be sent now.
    pub fn push(&self, queue: &str, creates: bool, record: impl FnOnce() -> T) -> Result<Option<bool>, ClientError> {
        if !creates && !self.queues().has_queue(queue) {
            return Ok(None);
        }
        let permit = Arc::new(self.admission.acquire()?);
        let waiting = QueuedRecord { record: record(), since: Instant::now(), permit };
        let mut queues = self.queues();
        if !creates && !queues.has_queue(queue) {
            drop(queues);
            return Ok(None);
        }
        let transaction = waiting.permit.transaction();
        Ok(Some(queues.push(queue, transaction, waiting)))
    }

    /// The first record of a queue, which is sent next. It stays the first until [`Self::settle`] or [`Self::pop`].
    pub fn front(&self, queue: &str) -> Option<QueueFront<T>> {
        let queues = self.queues();
        let (id, waiting) = queues.front(queue)?;
        let (record, waited) = (waiting.record.clone(), waiting.since.elapsed());
        Some(QueueFront { record, waited, transaction: id.transaction, may_send: queues.may_send(id) })
    }

    /// Ends the first record of a queue, which is sent, or has failed with `failure`, which fails its transaction.
    /// `tell` says so to its owner, who cannot commit without it. Then the record is removed, as by [`Self::pop`]: one
    /// that is sent meanwhile still finds the queue, and waits behind.
    pub fn settle(&self, queue: &str, failure: Option<&str>, tell: impl FnOnce(T)) -> bool {
        let queues = self.queues();
        let Some((id, waiting)) = queues.front(queue) else { return false };
        if let Some(reason) = failure {
            self.admission.fail_transaction(id.transaction, &reason);
        }
        let record = waiting.record.clone();
        drop(queues);
        tell(record);
        self.pop(queue)
    }

    /// Removes the first record of a queue. Returns whether another record waits. If not, the queue is gone, and the
    /// next record creates it again, to be served by another thread.
    pub fn pop(&self, queue: &str) -> bool {
        let mut queues = self.queues();
        let (first, goes_on) = (queues.pop(queue), queues.has_queue(queue));
        drop(queues);
        self.changed.notify_all();
        drop(first);
        goes_on
    }

    /// The last transaction is aborted. Returns its waiting records, for the caller to fail.
    pub fn abort(&self) -> Vec<T> {
        let aborted = self.queues().abort(self.admission.transaction());
        self.changed.notify_all();
        aborted.into_iter().map(|waiting| waiting.record).collect()
    }

    /// Number of records that wait.
    pub fn len(&self) -> usize {
        self.queues().len()
    }

    /// True if no record waits.
    pub fn is_empty(&self) -> bool {
        self.queues().is_empty()
    }

    /// The number of the record that was appended last, for [`Self::wait`].
    pub fn last_number(&self) -> u64 {
        self.queues().last_number()
    }

    /// Waits until no record up to this number waits any more in the queues of these names, or in any, at most until
    /// `until`. Returns true if none does.
    pub fn wait(&self, names: Option<&[String]>, last: u64, until: Instant) -> bool {
        let mut queues = self.queues();
        let is_done = |queues: &SendQueues<_>| match names {
            Some(names) => names.iter().all(|name| queues.is_queue_done_up_to(name, last)),
            None => queues.is_done_up_to(last),
        };
        while !is_done(&queues) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queues = self.changed.wait_timeout(queues, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn queues(&self) -> MutexGuard<'_, SendQueues<QueuedRecord<T>>> {
        lock(&self.queues)
    }
}
