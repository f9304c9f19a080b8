//! The clock that the server passes to the core.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The source of the core's time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's clock: the wall-clock time at the start, advanced by the monotonic clock.
    System {
        /// Milliseconds since the Unix epoch at the start.
        start_ms: i64,
        /// The monotonic time at the start.
        started: Instant,
    },
    /// A manual clock, in milliseconds since the Unix epoch: it stands still until a test advances it.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::System { start_ms: since_epoch.as_millis() as i64, started: Instant::now() }
    }

    /// A manual clock that starts at `now_ms`.
    pub fn manual(now_ms: i64) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(now_ms)))
    }

    /// The time in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        match self {
            Self::System { start_ms, started } => start_ms + started.elapsed().as_millis() as i64,
            Self::Manual(now_ms) => now_ms.load(Ordering::Relaxed),
        }
    }
}
