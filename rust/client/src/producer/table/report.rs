//! The outcome of the rows of a table.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;

use super::super::record::DeliveryResult;
use super::progress::Progress;
use crate::error::ClientError;
use crate::lock::lock;

type Waker = Box<dyn FnOnce() + Send>;

/// Collects the outcomes of a table's rows over all of their batches. The caller creates it, and calls [`Self::seal`]
/// once there are no more rows.
#[derive(Default)]
pub struct Report {
    state: Mutex<ReportState>,
    changed: Condvar,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct ReportState {
    taken: u64,
    sealed: bool,
    wakers: Vec<Waker>,
    summary: Summary,
    /// The first error of a row that is in no batch.
    refusal: Option<ClientError>,
    /// Number of rows that are in no batch.
    refused: u64,
}

/// The outcome of a table so far.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Rows acknowledged.
    pub acknowledged: u64,
    /// Rows that failed.
    pub failed: u64,
    /// First and last offset of each run of offsets, in order. Adjacent runs are merged.
    pub offsets: BTreeMap<TopicPartition, Vec<(i64, i64)>>,
    /// Rows that failed: the first row, the number of consecutive rows, and the error.
    pub errors: Vec<(u64, u64, ClientError)>,
}

impl Summary {
    fn done(&self) -> u64 {
        self.acknowledged + self.failed
    }
}

impl Report {
    /// A report without rows.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Ends the report: no more rows come.
    pub fn seal(&self) {
        self.progress().permit = None;
        self.change(|state| state.sealed = true);
    }

    /// True if the outcome of every row is known.
    pub fn is_done(&self) -> bool {
        self.state().is_done()
    }

    /// The outcome so far; complete once [`Self::is_done`].
    pub fn summary(&self) -> Summary {
        self.state().summary.clone()
    }

    /// Waits until every row is done, at most until `until`. Returns false if not all were in time.
    pub fn wait(&self, until: Instant) -> bool {
        let mut state = self.state();
        while !state.is_done() {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Calls `waker` once every row is done: now, or on the thread that reports the last one, which must not be
    /// blocked.
    pub fn on_done(&self, waker: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        if state.is_done() {
            drop(state);
            waker();
        } else {
            state.wakers.push(Box::new(waker));
        }
    }

    /// Adds rows whose outcome will be reported. Returns how many there were before.
    pub(crate) fn add_rows(&self, rows: u64) -> u64 {
        let mut state = self.state();
        state.taken += rows;
        state.taken - rows
    }

    /// A row that waited for metadata is done.
    pub(crate) fn awaited_row_done(&self, row: u64, outcome: Option<DeliveryResult>) {
        self.progress().awaiting_metadata -= 1;
        match outcome {
            Some(Ok(done)) => {
                let partition = TopicPartition::new(done.topic, done.partition);
                self.acknowledged(Some(&partition), done.offset.map(|offset| (offset, offset)), 1);
            }
            Some(Err(error)) => {
                if let ClientError::UnknownTopic { topic, .. } = &error {
                    self.progress().missing.insert(topic.clone(), error.clone());
                }
                self.failed(row, 1, error);
            }
            None => self.failed(row, 1, ClientError::Internal("a row was done without an outcome".into())),
        }
    }

    pub(in crate::producer) fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }

    pub(crate) fn failed(&self, row: u64, count: u64, error: ClientError) {
        self.change(|state| {
            state.summary.failed += count;
            state.summary.errors.push((row, count, error));
        });
    }

    /// Consecutive rows failed that are in no batch, so that no receipt reports them.
    pub(in crate::producer) fn refused(&self, row: u64, count: u64, error: ClientError) {
        let mut state = self.state();
        state.refusal.get_or_insert_with(|| error.clone());
        state.refused += count;
        drop(state);
        self.failed(row, count, error);
    }

    /// Number of failed rows that are in no batch, and the first error of one.
    pub fn refused_rows(&self) -> Option<(u64, ClientError)> {
        let state = self.state();
        state.refusal.clone().map(|error| (state.refused, error))
    }

    /// Number of rows that are in batches, or wait for their topic.
    pub fn taken_rows(&self) -> u64 {
        let state = self.state();
        state.taken - state.refused
    }

    pub(in crate::producer) fn refusal(&self) -> Option<ClientError> {
        self.state().refusal.clone()
    }

    fn acknowledged(&self, partition: Option<&TopicPartition>, offsets: Option<(i64, i64)>, rows: u64) {
        self.change(|state| {
            state.summary.acknowledged += rows;
            let (Some(partition), Some((first, last))) = (partition, offsets) else { return };
            let runs = match state.summary.offsets.get_mut(partition) {
                Some(runs) => runs,
                None => state.summary.offsets.entry(partition.clone()).or_default(),
            };
            add_run(runs, first, last);
        });
    }

    fn change(&self, change: impl FnOnce(&mut ReportState)) {
        let mut state = self.state();
        change(&mut state);
        if !state.is_done() {
            return;
        }
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        for waker in wakers {
            waker();
        }
    }

    fn state(&self) -> MutexGuard<'_, ReportState> {
        lock(&self.state)
    }
}

impl ReportState {
    fn is_done(&self) -> bool {
        self.sealed && self.summary.done() == self.taken
    }
}

/// Adds offsets to runs that are in order and not adjacent. Batches of a partition may be acknowledged out of order.
fn add_run(runs: &mut Vec<(i64, i64)>, first: i64, last: i64) {
    let at = runs.partition_point(|run| run.1 < first);
    let touches_before = at > 0 && runs[at - 1].1 + 1 == first;
    let touches_after = runs.get(at).is_some_and(|run| last + 1 == run.0);
    match (touches_before, touches_after) {
        (true, true) => {
            runs[at - 1].1 = runs[at].1;
            runs.remove(at);
        }
        (true, false) => runs[at - 1].1 = last,
        (false, true) => runs[at].0 = first,
        (false, false) => runs.insert(at, (first, last)),
    }
}

/// The rows of a table in one batch: its records from `first` on are these rows.
#[derive(Clone)]
pub(crate) struct BatchRows {
    pub(crate) report: Arc<Report>,
    pub(crate) first: u32,
    pub(crate) rows: Arc<Rows>,
}

/// Row numbers of a table in the order of their records, as runs.
#[derive(Debug, Default)]
pub(crate) struct Rows(Vec<(u64, u32)>);

impl Rows {
    #[inline]
    pub(crate) fn push(&mut self, row: u64) {
        match self.0.last_mut() {
            Some((first, count)) if *first + u64::from(*count) == row => *count += 1,
            _ => self.0.push((row, 1)),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|&(first, count)| first..first + u64::from(count))
    }
}

impl BatchRows {
    /// The batch's records `first..end` are acknowledged. `base_offset` is the offset of the record at `base_index`.
    pub(crate) fn acknowledged(
        &self,
        partition: Option<&TopicPartition>,
        first: u32,
        end: u32,
        base_offset: Option<i64>,
        base_index: u32,
    ) {
        let Some((first, end)) = self.own(first, end) else { return };
        let offset = |index: u32| base_offset.map(|base| base + i64::from(index - base_index));
        let offsets = offset(first).zip(offset(end - 1));
        self.report.acknowledged(partition, offsets, u64::from(end - first));
    }

    /// The batch's records `first..end` failed, each with its own error.
    pub(crate) fn failed(&self, first: u32, end: u32, error: impl Fn(u32) -> ClientError) {
        let Some((first, end)) = self.own(first, end) else { return };
        let rows = self.rows.iter().skip((first - self.first) as usize).take((end - first) as usize);
        let mut run: Option<(u64, u64, ClientError)> = None;
        for (row, index) in rows.zip(first..) {
            let error = error(index);
            match &mut run {
                Some((start, count, same)) if *start + *count == row && same.to_string() == error.to_string() => {
                    *count += 1;
                }
                _ => {
                    let ended = run.replace((row, 1, error));
                    ended.into_iter().for_each(|(row, count, error)| self.report.failed(row, count, error));
                }
            }
        }
        run.into_iter().for_each(|(row, count, error)| self.report.failed(row, count, error));
    }

    fn own(&self, first: u32, end: u32) -> Option<(u32, u32)> {
        let (first, end) = (first.max(self.first), end.min(self.first + self.rows.count()));
        (first < end).then_some((first, end))
    }
}
