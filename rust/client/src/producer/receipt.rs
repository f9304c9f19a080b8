//! The futures of records: the receipt of a batch, and a record's index in it.
//!
//! A receipt is created with its batch, and completed once, or in parts if the batch was split. All records of the
//! batch share it, so a future costs two words.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_engine::produce::{Acknowledged, SendFault};

use super::record::{Delivered, DeliveryResult};
use super::table::BatchRows;
use crate::error::ClientError;
use crate::lock::lock;

type Waker = Box<dyn FnOnce() + Send>;

/// The future of a sent record. Cheap to clone and to drop.
#[derive(Clone)]
pub struct RecordFuture {
    receipt: Arc<Receipt>,
    index: u32,
    timestamp_ms: i64,
}

/// The outcome of a batch.
pub(crate) struct Receipt {
    /// `None` for records that wait for metadata.
    partition: Option<TopicPartition>,
    state: Mutex<ReceiptState>,
    changed: Condvar,
}

#[derive(Default)]
struct ReceiptState {
    /// The outcome of the records from each index up to that of the next entry.
    segments: Vec<(u32, RecordOutcome)>,
    /// Futures of records that waited for metadata, in the batches that they are in now, by index.
    forwarded: Vec<Option<RecordFuture>>,
    wakers: Vec<(u32, Waker)>,
    /// A thread calls wakers, and will call those that are added meanwhile.
    is_waking: bool,
    rows: Vec<BatchRows>,
}

#[derive(Clone)]
enum RecordOutcome {
    Pending,
    Acknowledged { base_offset: Option<i64>, first: u32, append_time_ms: Option<i64> },
    Failed { fault: ClientError, first: u32 },
}

impl Receipt {
    pub(crate) fn new(partition: Option<TopicPartition>) -> Arc<Self> {
        Arc::new(Self { partition, state: Mutex::default(), changed: Condvar::new() })
    }

    #[inline]
    pub(crate) fn sent(self: &Arc<Self>, index: u32, timestamp_ms: i64) -> RecordFuture {
        RecordFuture { receipt: Arc::clone(self), index, timestamp_ms }
    }

    /// Has the report of a table notified once these records are done.
    pub(crate) fn add_rows(&self, rows: BatchRows) {
        self.state().rows.push(rows);
    }

    /// Sets the outcome of `count` records from `first` on: all records of the batch, or those of a part.
    pub(crate) fn complete(&self, first: u32, count: u32, outcome: &Result<Acknowledged, SendFault>) {
        let outcome = match outcome {
            Ok(done) => RecordOutcome::Acknowledged {
                base_offset: done.base_offset,
                first,
                append_time_ms: done.log_append_time_ms,
            },
            Err(fault) => RecordOutcome::Failed { fault: fault.clone().into(), first },
        };
        self.finish(first, count, outcome);
    }

    pub(crate) fn fail(&self, first: u32, count: u32, error: &ClientError) {
        self.finish(first, count, RecordOutcome::Failed { fault: error.clone(), first });
    }

    fn finish(&self, first: u32, count: u32, outcome: RecordOutcome) {
        let end = first.saturating_add(count);
        let mut state = self.state();
        state.set(first, end, outcome.clone());
        let all_rows = state.rows.clone();
        drop(state);
        self.changed.notify_all();
        for rows in all_rows {
            self.notify(&rows, first, end, &outcome);
        }
        self.wake();
    }

    /// Calls the wakers of records that are done, in the order in which they were added. One thread at a time does:
    /// another one that called its own waker at once would overtake those that are not called yet.
    fn wake(&self) {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_waking, true) {
            return;
        }
        let _waking = Waking(self);
        loop {
            let ReceiptState { segments, wakers, .. } = &mut *state;
            let due: Vec<(u32, Waker)> = wakers.extract_if(.., |(index, _)| !is_pending(segments, *index)).collect();
            if due.is_empty() {
                state.is_waking = false;
                return;
            }
            drop(state);
            for (_, waker) in due {
                waker();
            }
            state = self.state();
        }
    }

    /// A record that waited for metadata is in a batch now: from here on, the outcome of record `index` is that of
    /// `sent`.
    pub(crate) fn forward(&self, index: u32, count: u32, sent: RecordFuture) {
        let mut state = self.state();
        if state.forwarded.is_empty() {
            state.forwarded.resize(count as usize, None);
        }
        if let Some(forwarded) = state.forwarded.get_mut(index as usize) {
            *forwarded = Some(sent.clone());
        }
        let wakers: Vec<(u32, Waker)> = state.wakers.extract_if(.., |(of, _)| *of == index).collect();
        drop(state);
        self.changed.notify_all();
        for (_, waker) in wakers {
            sent.on_done(waker);
        }
    }

    fn notify(&self, rows: &BatchRows, first: u32, end: u32, outcome: &RecordOutcome) {
        match outcome {
            RecordOutcome::Pending => {}
            RecordOutcome::Acknowledged { base_offset, first: at, .. } => {
                rows.acknowledged(self.partition.as_ref(), first, end, *base_offset, *at);
            }
            RecordOutcome::Failed { fault, first: at } => {
                rows.failed(first, end, |index| error_of(fault, index - at));
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, ReceiptState> {
        lock(&self.state)
    }
}

/// A thread that calls wakers. If one panics, another thread calls those that are left.
struct Waking<'a>(&'a Receipt);

impl Drop for Waking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state().is_waking = false;
        }
    }
}

impl ReceiptState {
    /// Sets `outcome` for `first..end`. There are few segments: one, or one for each part of a batch that was split.
    fn set(&mut self, first: u32, end: u32, outcome: RecordOutcome) {
        let after = self.at(end).clone();
        if self.segments.is_empty() && first > 0 {
            self.segments.push((0, RecordOutcome::Pending));
        }
        self.segments.retain(|(start, _)| !(first..=end).contains(start));
        let position = self.segments.partition_point(|(start, _)| *start < first);
        self.segments.insert(position, (first, outcome));
        self.segments.insert(position + 1, (end, after));
    }

    fn at(&self, index: u32) -> &RecordOutcome {
        outcome_at(&self.segments, index)
    }
}

fn outcome_at(segments: &[(u32, RecordOutcome)], index: u32) -> &RecordOutcome {
    let position = segments.partition_point(|(start, _)| *start <= index);
    position.checked_sub(1).map_or(&RecordOutcome::Pending, |position| &segments[position].1)
}

fn is_pending(segments: &[(u32, RecordOutcome)], index: u32) -> bool {
    matches!(outcome_at(segments, index), RecordOutcome::Pending)
}

impl RecordFuture {
    /// The record's outcome, if it is known.
    pub fn try_outcome(&self) -> Option<DeliveryResult> {
        let state = self.receipt.state();
        if let Some(Some(sent)) = state.forwarded.get(self.index as usize) {
            let sent = sent.clone();
            drop(state);
            return sent.try_outcome();
        }
        self.outcome_in(&state)
    }

    /// True if the record's outcome is known.
    pub fn is_done(&self) -> bool {
        self.try_outcome().is_some()
    }

    /// Waits for the outcome, at most until `until`.
    pub fn wait(&self, until: Instant) -> Option<DeliveryResult> {
        let mut state = self.receipt.state();
        loop {
            if let Some(Some(sent)) = state.forwarded.get(self.index as usize) {
                let sent = sent.clone();
                drop(state);
                return sent.wait(until);
            }
            if let Some(outcome) = self.outcome_in(&state) {
                return Some(outcome);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return None;
            }
            let woken = self.receipt.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Calls `waker` once the outcome is known: now, or on the thread that sets it, which must not be blocked. The
    /// wakers of a batch are called in the order in which they were added.
    pub fn on_done(&self, waker: impl FnOnce() + Send + 'static) {
        let mut state = self.receipt.state();
        if let Some(Some(sent)) = state.forwarded.get(self.index as usize) {
            let sent = sent.clone();
            drop(state);
            sent.on_done(waker);
        } else {
            state.wakers.push((self.index, Box::new(waker)));
            let is_due = !is_pending(&state.segments, self.index);
            drop(state);
            if is_due {
                self.receipt.wake();
            }
        }
    }

    fn outcome_in(&self, state: &ReceiptState) -> Option<DeliveryResult> {
        match state.at(self.index) {
            RecordOutcome::Pending => None,
            RecordOutcome::Failed { fault, first } => Some(Err(error_of(fault, self.index - first))),
            RecordOutcome::Acknowledged { base_offset, first, append_time_ms } => {
                // Only records that wait for metadata have no partition, and they are forwarded before they are
                // acknowledged.
                let TopicPartition { topic, partition } = self.receipt.partition.clone()?;
                Some(Ok(Delivered {
                    topic,
                    partition,
                    offset: base_offset.map(|base| base + i64::from(self.index - first)),
                    timestamp_ms: append_time_ms.unwrap_or(self.timestamp_ms),
                }))
            }
        }
    }
}

impl std::fmt::Debug for RecordFuture {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RecordFuture")
            .field("partition", &self.receipt.partition)
            .field("index", &self.index)
            .finish()
    }
}

/// The error of one record of a batch that failed (KIP-467): records that caused the failure have their own reason; for
/// the others the error says that they did not cause it.
fn error_of(fault: &ClientError, index: u32) -> ClientError {
    let ClientError::Delivery(SendFault::Refused { partition, code, records, .. }) = fault else {
        return fault.clone();
    };
    if records.is_empty() {
        return fault.clone();
    }
    let reason = records.iter().find(|(spoiler, _)| *spoiler == index).map(|(_, reason)| reason.clone());
    ClientError::RecordRefused { partition: partition.clone(), code: *code, reason, spoilers: records.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wakers that note their names, and the names of those that were called.
    #[derive(Clone, Default)]
    struct Called(Arc<Mutex<Vec<&'static str>>>);

    impl Called {
        fn note(&self, name: &'static str) -> impl FnOnce() + Send + use<> {
            let called = self.0.clone();
            move || lock(&called).push(name)
        }

        fn names(&self) -> Vec<&'static str> {
            lock(&self.0).clone()
        }
    }

    #[test]
    fn a_waker_that_is_added_while_the_batch_ends_does_not_overtake_others() {
        let (receipt, called) = (Receipt::new(None), Called::default());
        let [first, second, third] = [0, 1, 2].map(|index| receipt.sent(index, 0));
        let (late, note) = (called.note("third"), called.note("first"));
        // The batch is done by now, and the second record's waker is not called yet.
        first.on_done(move || {
            note();
            third.on_done(late);
        });
        second.on_done(called.note("second"));
        receipt.complete(0, 3, &Ok(Acknowledged { base_offset: Some(0), log_append_time_ms: None }));
        assert_eq!(called.names(), ["first", "second", "third"]);
        second.on_done(called.note("afterwards"));
        assert_eq!(called.names(), ["first", "second", "third", "afterwards"]);
    }

    #[test]
    fn wakers_of_the_other_part_of_a_divided_batch_wait_for_it() {
        let (receipt, called) = (Receipt::new(None), Called::default());
        receipt.sent(0, 0).on_done(called.note("of the second part"));
        receipt.sent(1, 0).on_done(called.note("of the first part"));
        let done = Ok(Acknowledged { base_offset: None, log_append_time_ms: None });
        receipt.complete(1, 1, &done);
        assert_eq!(called.names(), ["of the first part"]);
        receipt.complete(0, 1, &done);
        assert_eq!(called.names(), ["of the first part", "of the second part"]);
    }
}
