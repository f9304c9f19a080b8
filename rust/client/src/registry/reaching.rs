//! Whether a registry answers: for the health of a client, and its log.

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::lock::lock;
use crate::log::{Entry, Log, kinds};

/// Since when a registry cannot be asked, and who is told.
#[derive(Debug, Default)]
pub(super) struct Reaching {
    failing: Mutex<Option<(Instant, String)>>,
    log: OnceLock<Log>,
}

impl Reaching {
    /// Events go to this log from now on.
    pub(super) fn report_to(&self, log: &Log) {
        // A second client of the same settings would have a registry of its own.
        let _ = self.log.set(log.clone());
    }

    /// It answered.
    pub(super) fn answered(&self) {
        let Some((since, _)) = lock(&self.failing).take() else { return };
        self.record(&kinds::REGISTRY_ANSWERS, || {
            format!("the schema registry answers again, after {:.1} s", since.elapsed().as_secs_f64())
        });
    }

    /// It could not be asked, or its answer is none of a registry.
    pub(super) fn failed(&self, why: &str) {
        let mut failing = lock(&self.failing);
        let since = failing.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        *failing = Some((since, why.to_owned()));
        drop(failing);
        self.record(&kinds::REGISTRY_FAILED, || format!("the schema registry cannot be asked: {why}"));
    }

    /// For how long it could not be asked, and why the last time.
    pub(super) fn failing(&self) -> Option<(Duration, String)> {
        lock(&self.failing).as_ref().map(|(since, why)| (since.elapsed(), why.clone()))
    }

    fn record(&self, kind: &'static crate::log::Kind, message: impl FnOnce() -> String) {
        if let Some(log) = self.log.get() {
            log.record(kind, || Entry::new(message()));
        }
    }
}
