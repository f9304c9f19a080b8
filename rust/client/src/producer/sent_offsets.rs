//! The consumers' offsets that were sent to the open transaction.

use std::sync::{Arc, Mutex};

use monedula_engine::transaction::Ending;

use crate::consumer::PendingOffsets;
use crate::lock::lock;

/// The offsets that were sent to the open transaction.
#[derive(Clone, Default)]
pub(super) struct OffsetsInTransaction(Arc<Mutex<Vec<PendingOffsets>>>);

impl OffsetsInTransaction {
    pub(super) fn push(&self, offsets: PendingOffsets) {
        lock(&self.0).push(offsets);
    }

    pub(super) fn end(&self, ending: Ending) {
        let pending = std::mem::take(&mut *lock(&self.0));
        if ending == Ending::Commit {
            pending.iter().for_each(PendingOffsets::committed);
        }
    }
}
