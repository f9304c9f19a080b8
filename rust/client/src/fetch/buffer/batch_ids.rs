//! The ids of batches. Those of one buffer differ from those of all others in the process: a batch of another consumer
//! is not taken for an own one that has the same number.

use std::sync::atomic::{AtomicU64, Ordering};

use monedula_engine::ledger::BatchId;

/// The bits below are the number of a batch, those above the number of its buffer.
const BUFFER_SHIFT: u32 = 40;

static BUFFERS: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
pub(super) struct BatchIds {
    before_first: BatchId,
    last: BatchId,
}

impl Default for BatchIds {
    fn default() -> Self {
        let before_first = BUFFERS.fetch_add(1, Ordering::Relaxed) << BUFFER_SHIFT;
        Self { before_first, last: before_first }
    }
}

impl BatchIds {
    pub(super) fn next(&mut self) -> BatchId {
        self.last += 1;
        self.last
    }

    pub(super) fn has(&self, id: BatchId) -> bool {
        self.before_first < id && id <= self.last
    }
}
