//! Parts of batches whose rows are worked on in any order, by threads or tasks that do not call the consumer: whether
//! another row may be begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use monedula_engine::lanes::RowPermission;

use super::lease::LeaseClock;

/// Closed when a partition is released, lost, unassigned or sought: with the buffer of that time.
#[derive(Debug, Default)]
pub(super) struct PartitionGate {
    /// Set at the end of the assignment.
    is_gone: Arc<AtomicBool>,
    /// Set at a seek.
    is_sought: Arc<AtomicBool>,
}

impl PartitionGate {
    /// Asked before each row of a part, as long as `clock` says that the lease holds.
    pub(super) fn work_gate(&self, clock: &Arc<LeaseClock>) -> WorkGate {
        let Self { is_gone, is_sought } = self;
        WorkGate { is_gone: is_gone.clone(), is_sought: is_sought.clone(), clock: clock.clone() }
    }

    /// Closes it for the rows of before, and opens it for those of another reading.
    pub(super) fn seek(&mut self) {
        std::mem::take(&mut self.is_sought).store(true, Ordering::Release);
    }
}

impl Drop for PartitionGate {
    fn drop(&mut self) {
        self.is_gone.store(true, Ordering::Release);
    }
}

/// Asked before each row of a part. It takes no lock.
#[derive(Clone, Debug)]
pub struct WorkGate {
    is_gone: Arc<AtomicBool>,
    is_sought: Arc<AtomicBool>,
    clock: Arc<LeaseClock>,
}

impl WorkGate {
    /// Asks whether a row may be begun.
    pub fn ask(&self) -> RowPermission {
        if self.is_gone.load(Ordering::Acquire) || self.is_sought.load(Ordering::Acquire) {
            return RowPermission::Never;
        }
        match self.clock.holds() {
            true => RowPermission::Now,
            false => RowPermission::Later,
        }
    }

    /// True if the partition was sought, and has been this consumer's all the time.
    pub fn was_sought(&self) -> bool {
        self.is_sought.load(Ordering::Acquire) && !self.is_gone.load(Ordering::Acquire)
    }
}
