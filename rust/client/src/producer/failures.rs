//! Records that failed, less those whose failure somebody has seen: what is left when the producer is closed was lost
//! without a word.

use std::sync::Mutex;

use monedula_engine::produce::SendFault;

use crate::error::ClientError;
use crate::lock::lock;
use crate::log::{Log, kinds};

/// The failures of one producer. Shared by the driver, which counts failures, and by the futures, which are looked at.
#[derive(Debug, Default)]
pub struct Failures {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failed: u64,
    seen: u64,
    first: Option<ClientError>,
}

impl Failures {
    /// Counts records that failed with `error`.
    pub fn add(&self, records: u64, error: &ClientError) {
        if records > 0 {
            let mut state = lock(&self.state);
            state.failed += records;
            state.first.get_or_insert_with(|| error.clone());
        }
    }

    /// Counts a record that failed before this crate was given it.
    pub fn add_unsent(&self) {
        lock(&self.state).failed += 1;
    }

    /// Somebody has seen the failure of so many records.
    pub fn seen(&self, records: u64) {
        lock(&self.state).seen += records;
    }

    /// How many failures nobody has seen, and the error of the producer's first failure, if it is one of this crate.
    pub fn unseen(&self) -> (u64, Option<ClientError>) {
        let state = lock(&self.state);
        (state.failed.saturating_sub(state.seen), state.first.clone())
    }

    /// Logs the failures that nobody has seen. To be called when nobody can see them any more.
    pub fn tell_unseen(&self, log: &Log) {
        let (unseen, first) = self.unseen();
        // The end of the driver has told of records that were still on their way.
        let is_told =
            matches!(first, Some(ClientError::ProducerClosed | ClientError::Delivery(SendFault::Closed { .. })));
        if unseen == 0 || is_told {
            return;
        }
        self.seen(unseen);
        log.record(&kinds::FAILURES_UNSEEN, || {
            let records = if unseen == 1 { "a record was".into() } else { format!("{unseen} records were") };
            let first = first.map(|error| format!("; the first error: {error}")).unwrap_or_default();
            format!("{records} not delivered, and nobody asked for the outcome{first}")
        });
    }
}
