//! The time that the core is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Where the core's time comes from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's: wall-clock time at the start, then what the monotonic clock adds.
    System {
        /// Milliseconds since the Unix epoch at the start.
        start_ms: i64,
        /// When that was.
        started: Instant,
    },
    /// Stands still until a test moves it.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::System { start_ms: since_epoch.as_millis() as i64, started: Instant::now() }
    }

    /// A clock that stands still.
    pub fn manual(now_ms: i64) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(now_ms)))
    }

    /// Milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        match self {
            Self::System { start_ms, started } => start_ms + started.elapsed().as_millis() as i64,
            Self::Manual(now_ms) => now_ms.load(Ordering::Relaxed),
        }
    }
}
