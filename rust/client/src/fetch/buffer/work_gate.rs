//! Parts of batches whose rows are worked on in any order, by threads or tasks that do not call the consumer: whether
//! another row may be begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use monedula_engine::lanes::RowPermission;

use super::lease::LeaseClock;

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

/// Asked before each row of a part. It takes no lock.
#[derive(Clone, Debug)]
pub struct WorkGate {
    closed: Arc<AtomicBool>,
    clock: Arc<LeaseClock>,
}

impl WorkGate {
    /// Asks whether a row may be begun.
    pub fn ask(&self) -> RowPermission {
        if self.closed.load(Ordering::Acquire) {
            return RowPermission::Never;
        }
        match self.clock.holds() {
            true => RowPermission::Now,
            false => RowPermission::Later,
        }
    }
}
