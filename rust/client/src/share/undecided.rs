//! What a holder leaves undecided when it ends.

use std::sync::{Arc, Weak};

use super::buffer::ShareBuffer;
use crate::log::{Log, kinds};

/// The undecided rows of a thread or task of the user's. Dropping it means that the holder has ended: as nobody asks
/// for the next batch in its place, they are released, in place of being renewed for `share.renew.max.ms`.
pub struct Undecided {
    buffer: Weak<ShareBuffer>,
    holder: u64,
    log: Log,
}

impl Undecided {
    pub(super) fn new(buffer: &Arc<ShareBuffer>, holder: u64, log: Log) -> Self {
        Self { buffer: Arc::downgrade(buffer), holder, log }
    }

    /// True if the consumer is gone, and its rows with it.
    pub fn is_void(&self) -> bool {
        self.buffer.strong_count() == 0
    }

    pub(super) fn is_of(&self, buffer: &Arc<ShareBuffer>) -> bool {
        std::ptr::eq(self.buffer.as_ptr(), Arc::as_ptr(buffer))
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.upgrade() else { return };
        let rows = buffer.state().held.release_rest_of(self.holder);
        if rows > 0 {
            self.log.record(&kinds::ROWS_UNFINISHED, || {
                format!(
                    "group {}: a thread or task ended with {rows} rows of which nothing was decided: they are released, \
                     and delivered again; accept() or commit() what is done before",
                    self.log.group().unwrap_or_default()
                )
            });
        }
        buffer.send_decided();
    }
}
