//! Parts of batches whose rows are worked on in any order, by threads or tasks that do not call the consumer: how far a
//! part is finished, and whether another row of it may be begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use monedula_engine::TopicPartition;
use monedula_engine::ledger::{Holder, Keeper, OffsetAndEpoch};

use super::FetchBuffer;
use super::lease::LeaseClock;
use crate::error::ClientError;
use crate::fetch::step::{HandedBatch, Step};

/// Closed when a partition is released, lost, unassigned or sought: with the buffer of that time.
#[derive(Debug, Default)]
pub(super) struct PartitionGate(Arc<AtomicBool>);

impl PartitionGate {
    /// Asked before each row of a part, as long as `clock` says that the lease holds.
    pub(super) fn work_gate(&self, clock: &Arc<LeaseClock>) -> WorkGate {
        WorkGate { closed: Arc::clone(&self.0), clock: Arc::clone(clock) }
    }
}

impl Drop for PartitionGate {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Whether a row of a part may be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Now.
    Now,
    /// Not now: the lease is over. Ask again.
    Later,
    /// Never: the partition is not this consumer's any more, or was sought.
    Never,
}

/// Asked before each row of a part. It takes no lock.
#[derive(Clone, Debug)]
pub struct WorkGate {
    closed: Arc<AtomicBool>,
    clock: Arc<LeaseClock>,
}

impl WorkGate {
    /// Whether a row may be begun.
    pub fn ask(&self) -> Admission {
        if self.closed.load(Ordering::Acquire) {
            return Admission::Never;
        }
        match self.clock.holds() {
            true => Admission::Now,
            false => Admission::Later,
        }
    }
}

impl FetchBuffer {
    /// The gate of a part of a batch, which has rows of one partition.
    pub(crate) fn work_gate(&self, part: &HandedBatch) -> WorkGate {
        let state = self.state();
        let clock = &state.membership.clock;
        let gate = part.places.first().and_then(|(partition, span, _)| {
            let buffer = state.partitions.get(partition)?;
            buffer.work_gate(*span, clock)
        });
        // The gate of a partition that is gone.
        gate.unwrap_or_else(|| PartitionGate::default().work_gate(clock))
    }

    /// The first rows of a part are finished; it stays out. Counts once all earlier parts of the partition are finished.
    pub(crate) fn finish_rows(&self, part: &HandedBatch, rows: usize) {
        let mut state = self.state();
        if let Some(ledger) = &mut state.finished.ledger {
            for (span, offset, leader_epoch) in part.columns.after(rows) {
                let partition = TopicPartition::new(span.topic.clone(), span.partition);
                ledger.finish_up_to(part.id, &partition, OffsetAndEpoch { offset, leader_epoch });
            }
        }
        self.notify_group(state);
    }

    /// Nobody will finish the rest of a part: it stays uncommitted, and no revocation waits for it.
    pub(crate) fn abandon(&self, part: &HandedBatch) {
        let mut state = self.state();
        if let Some(ledger) = &mut state.finished.ledger
            && ledger.keeper(part.id) == Some(Keeper::Name)
        {
            ledger.pass_on(part.id, Keeper::Ended);
        }
        self.notify_group(state);
    }

    /// As [`Self::next`], but hands out no rows: the next callback, or an error. Counts as a poll.
    pub(crate) fn poll_callbacks(&self, until: Instant, holder: Holder) -> Result<Step, ClientError> {
        self.enter(holder);
        let _waiting = self.begin_waiting();
        let mut state = self.state();
        loop {
            self.raise_pending(&mut state)?;
            if let Some(callback) = state.membership.callbacks.next() {
                return Ok(Step::Callback(callback));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Step::Nothing);
            }
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }
}
