//! Counters of a client, returned as a snapshot; the user chooses the metrics library.

use crate::lock::lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters; cheap to clone.
        #[derive(Clone, Debug, Default)]
        pub struct Metrics(Arc<Counters>);

        #[derive(Debug, Default)]
        struct Counters {
            $($name: AtomicU64,)*
            errors: Mutex<BTreeMap<String, u64>>,
            last_failed_fetch: Mutex<Option<(Instant, String)>>,
        }

        impl Metrics {
            $(
                $(#[$doc])*
                pub fn $name(&self, more: u64) {
                    self.0.$name.fetch_add(more, Ordering::Relaxed);
                }
            )*

            /// All counters by name.
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.0.$name.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

counters! {
    /// Connections established.
    connections_opened,
    /// Connections closed because they broke, timed out or were idle.
    connections_closed,
    /// Failed attempts to connect.
    connections_failed,
    /// Requests sent.
    requests_sent,
    /// Responses received.
    responses_received,
    /// Bytes received, including length prefixes.
    bytes_received,
    /// Fetch requests sent.
    fetches_sent,
    /// Fetch responses without a record.
    fetches_empty,
    /// Records handed out.
    records_delivered,
    /// Records dropped since their key or value cannot be decoded.
    records_dropped,
    /// Records left out since they do not meet the condition of the read.
    records_filtered,
    /// Records whose row has nulls since their key or value cannot be decoded as a whole.
    records_with_nulls,
    /// Bytes of the Arrow columns handed out.
    bytes_delivered,
    /// Batches handed out.
    batches_delivered,
    /// Metadata responses.
    metadata_updates,
    /// Positions that were reset because the log no longer held them.
    positions_lost,
    /// Record batches sent, including retries.
    batches_sent,
    /// Bytes of the record batches sent.
    bytes_sent,
    /// Records acknowledged.
    records_acknowledged,
    /// Records that could not be delivered.
    records_failed,
    /// Number of times that a fetch had to wait for the byte budget.
    budget_waits,
    /// Responses with a quota throttle time.
    throttled,
}

impl Metrics {
    /// Counts an error that was retried instead of raised.
    pub fn retriable_error(&self, name: &str) {
        let mut errors = lock(&self.0.errors);
        *errors.entry(name.to_owned()).or_default() += 1;
    }

    /// Counts a fetch, or one partition in its response, that failed and is retried.
    pub fn failed_fetch(&self, name: &str, what: String) {
        self.retriable_error(name);
        *lock(&self.0.last_failed_fetch) = Some((Instant::now(), what));
    }

    /// The last failure of a fetch, if it happened after `since`.
    pub fn last_failed_fetch(&self, since: Instant) -> Option<String> {
        let last = lock(&self.0.last_failed_fetch);
        last.as_ref().filter(|(when, _)| *when >= since).map(|(_, what)| what.clone())
    }

    /// Retried errors by name.
    pub fn retriable_errors(&self) -> BTreeMap<String, u64> {
        lock(&self.0.errors).clone()
    }
}
