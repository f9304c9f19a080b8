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
    /// Failures by error, in the order of the first of each.
    unseen: Mutex<Vec<UnretrievedFailure>>,
}

/// Records that failed of the same, and that nobody has seen.
#[derive(Debug)]
struct UnretrievedFailure {
    text: String,
    /// `None` if they failed before this crate was given them.
    error: Option<ClientError>,
    /// Below 0 while those that somebody has seen are not counted yet: a future is done before its record is counted.
    records: i64,
}

impl UnretrievedFailure {
    fn add(&mut self, records: i64, error: Option<&ClientError>) {
        self.records += records;
        self.error = self.error.take().or_else(|| error.cloned());
    }
}

/// Number of errors that are told apart; failures of others count with the last one.
const MOST: usize = 100;

impl Failures {
    /// Counts records that failed with `error`.
    pub fn add(&self, records: u64, error: &ClientError) {
        self.count(records.cast_signed(), error.to_string(), Some(error));
    }

    /// Counts a record that failed with an error of this text before this crate was given it.
    pub fn add_unsent(&self, text: String) {
        self.count(1, text, None);
    }

    /// Somebody has seen the failure of so many records with an error of this text.
    pub fn seen(&self, records: u64, text: &str) {
        self.count(-records.cast_signed(), text.to_owned(), None);
    }

    fn count(&self, records: i64, text: String, error: Option<&ClientError>) {
        let mut unseen = lock(&self.unseen);
        match place(&unseen, &text) {
            Some(place) => unseen[place].add(records, error),
            None => unseen.push(UnretrievedFailure { text, error: error.cloned(), records }),
        }
        unseen.retain(|unseen| unseen.records != 0);
    }

    /// Number of failures that nobody has seen, and the error of the first of them, if it is one of this crate.
    pub fn unseen(&self) -> (u64, Option<ClientError>) {
        let unseen = lock(&self.unseen);
        let records: i64 = unseen.iter().map(|unseen| unseen.records).sum();
        let first = unseen.iter().find(|unseen| unseen.records > 0);
        (records.max(0).unsigned_abs(), first.and_then(|unseen| unseen.error.clone()))
    }

    /// As [`Self::unseen`]; they count as seen from now on.
    pub fn take_unseen(&self) -> (u64, Option<ClientError>) {
        let taken = self.unseen();
        lock(&self.unseen).clear();
        taken
    }

    /// Logs the failures that nobody has seen. To be called when nobody can see them any more.
    pub fn tell_unseen(&self, log: &Log) {
        let (unseen, first) = self.take_unseen();
        // The end of the driver has told of records that were still on their way.
        let is_told =
            matches!(first, Some(ClientError::ProducerClosed | ClientError::Delivery(SendFault::Closed { .. })));
        if unseen == 0 || is_told {
            return;
        }
        log.record(&kinds::FAILURES_UNSEEN, || {
            let records = if unseen == 1 { "a record was".into() } else { format!("{unseen} records were") };
            let first = first.map(|error| format!("; the first error: {error}")).unwrap_or_default();
            format!("{records} not delivered, and nobody asked for the outcome{first}")
        });
    }
}

fn place(unseen: &[UnretrievedFailure], text: &str) -> Option<usize> {
    let same = unseen.iter().position(|unseen| unseen.text == text);
    same.or_else(|| unseen.len().checked_sub(1).filter(|last| *last + 1 >= MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_is_seen_before_it_is_counted_is_seen() {
        let failures = Failures::default();
        let (seen, other) = (ClientError::ProducerClosed, ClientError::Closed);
        failures.seen(1, &seen.to_string());
        failures.add(1, &other);
        assert!(failures.unseen().1.is_some_and(|error| error.to_string() == other.to_string()));
        failures.add(1, &seen);
        let (records, first) = failures.unseen();
        assert_eq!((records, first.map(|error| error.to_string())), (1, Some(other.to_string())));
        failures.seen(1, &other.to_string());
        assert_eq!(failures.unseen().0, 0);
    }
}
