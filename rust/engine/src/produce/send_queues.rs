//! Queues of records that cannot be in a batch yet, because they wait for room in `buffer.memory` or for their
//! partition to be chosen. Each queue has a name and keeps the order in which its records were sent.
//!
//! A record belongs to the transaction in which it was sent. An abort fails the records of that transaction that wait
//! here. One that is being sent at that moment must not get into a batch of a later transaction: the caller asks
//! [`SendQueues::may_send`] when it appends the record.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Identifies a record that waits, or waited, in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedId {
    /// The number among all records that were ever queued, from 1.
    pub number: u64,
    /// The number of the transaction in which it was sent.
    pub transaction: u64,
}

#[derive(Debug)]
struct QueuedRecord<T> {
    id: QueuedId,
    record: T,
}

/// Queues of waiting records, by name.
#[derive(Debug)]
pub struct SendQueues<T> {
    queues: BTreeMap<Arc<str>, VecDeque<QueuedRecord<T>>>,
    last_number: u64,
    /// Records of this transaction, and of those before it, must not be sent any more.
    aborted: Option<u64>,
}

impl<T> Default for SendQueues<T> {
    fn default() -> Self {
        Self { queues: BTreeMap::new(), last_number: 0, aborted: None }
    }
}

impl<T: Clone> SendQueues<T> {
    /// Tells whether records wait in this queue. A later record must then wait behind them, or it would overtake them.
    pub fn has_queue(&self, queue: &str) -> bool {
        self.queues.contains_key(queue)
    }

    /// The number of records in all queues.
    pub fn len(&self) -> usize {
        self.queues.values().map(VecDeque::len).sum()
    }

    /// Tells whether no record waits.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Appends a record to a queue. Returns whether it is the first one there, so that the caller has to start serving
    /// the queue.
    pub fn push(&mut self, queue: &str, transaction: u64, record: T) -> bool {
        self.last_number += 1;
        let waiting = QueuedRecord { id: QueuedId { number: self.last_number, transaction }, record };
        match self.queues.get_mut(queue) {
            Some(queue) => {
                queue.push_back(waiting);
                false
            }
            None => {
                self.queues.insert(queue.into(), VecDeque::from([waiting]));
                true
            }
        }
    }

    /// The first record of a queue, which is sent next. It stays in the queue, ahead of all others, until
    /// [`Self::pop`].
    pub fn front(&self, queue: &str) -> Option<(QueuedId, &T)> {
        self.queues.get(queue)?.front().map(|first| (first.id, &first.record))
    }

    /// Tells whether this record may still go into a batch: its transaction was not aborted.
    pub fn may_send(&self, id: QueuedId) -> bool {
        self.aborted.is_none_or(|aborted| id.transaction > aborted)
    }

    /// Removes and returns the first record of a queue, once it is sent or has failed. The queue ends with its last
    /// record.
    pub fn pop(&mut self, queue: &str) -> Option<T> {
        let waiting = self.queues.get_mut(queue)?;
        let first = waiting.pop_front();
        if waiting.is_empty() {
            self.queues.remove(queue);
        }
        first.map(|first| first.record)
    }

    /// Aborts a transaction. Returns its waiting records, for the caller to fail. A record that is the first of its
    /// queue may be being sent right now, so it also stays in the queue until [`Self::pop`].
    pub fn abort(&mut self, transaction: u64) -> Vec<T> {
        self.aborted = self.aborted.max(Some(transaction));
        let mut failed = Vec::new();
        for queue in self.queues.values_mut() {
            for (index, waiting) in std::mem::take(queue).into_iter().enumerate() {
                let is_aborted = waiting.id.transaction <= transaction;
                if is_aborted {
                    failed.push(waiting.record.clone());
                }
                if index == 0 || !is_aborted {
                    queue.push_back(waiting);
                }
            }
        }
        failed
    }

    /// The number of the record that was queued last.
    pub fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Tells whether no record up to this number waits any more, but for those of aborted transactions.
    pub fn is_done_up_to(&self, number: u64) -> bool {
        self.queues.values().all(|queue| self.is_past(queue, number))
    }

    /// As [`Self::is_done_up_to`], of one queue.
    pub fn is_queue_done_up_to(&self, queue: &str, number: u64) -> bool {
        self.queues.get(queue).is_none_or(|queue| self.is_past(queue, number))
    }

    fn is_past(&self, queue: &VecDeque<QueuedRecord<T>>, number: u64) -> bool {
        let first = queue.iter().find(|waiting| self.may_send(waiting.id));
        first.is_none_or(|first| first.id.number > number)
    }
}
