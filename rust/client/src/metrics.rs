//! Counters, as a plain snapshot: no metrics library is imposed.

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

            /// Every counter by name.
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.0.$name.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

counters! {
    /// Connections made.
    connections_opened,
    /// Connections that broke, timed out or were idle.
    connections_closed,
    /// Attempts to connect that failed.
    connections_failed,
    /// Requests sent.
    requests_sent,
    /// Answers received.
    responses_received,
    /// Bytes received, length prefixes included.
    bytes_received,
    /// Fetch requests sent.
    fetches_sent,
    /// Fetch answers that held no record.
    fetches_empty,
    /// Records handed out.
    records_delivered,
    /// Bytes of the Arrow columns handed out.
    bytes_delivered,
    /// Batches handed out.
    batches_delivered,
    /// Metadata answers.
    metadata_updates,
    /// Positions that moved because the log no longer held them.
    positions_lost,
    /// Batches sent, repetitions included.
    batches_sent,
    /// Their bytes.
    bytes_sent,
    /// Records acknowledged.
    records_acknowledged,
    /// Records given up.
    records_failed,
    /// Times that a fetch had to wait for the byte budget.
    budget_waits,
    /// Answers after which a broker wants no request for a while, since a quota was exceeded.
    throttled,
}

impl Metrics {
    /// Counts an error that was retried and not shown.
    pub fn retriable_error(&self, name: &str) {
        let mut errors = lock(&self.0.errors);
        *errors.entry(name.to_owned()).or_default() += 1;
    }

    /// Counts a fetch, or a partition's part of one, that failed and is repeated.
    pub fn failed_fetch(&self, name: &str, what: String) {
        self.retriable_error(name);
        *lock(&self.0.last_failed_fetch) = Some((Instant::now(), what));
    }

    /// What failed last of fetching, if it was after `since`.
    pub fn last_failed_fetch(&self, since: Instant) -> Option<String> {
        let last = lock(&self.0.last_failed_fetch);
        last.as_ref().filter(|(when, _)| *when >= since).map(|(_, what)| what.clone())
    }

    /// Retried errors by name.
    pub fn retriable_errors(&self) -> BTreeMap<String, u64> {
        lock(&self.0.errors).clone()
    }
}
