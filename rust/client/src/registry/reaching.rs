//! Reachability of a registry, for the health of a client and its log.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::lock::lock;
use crate::log::{Entry, Log, kinds};
use crate::run_time::RunInstant;

/// Beginning of the time for which a registry cannot be asked, and the log that is told.
#[derive(Debug, Default)]
pub(super) struct Reaching {
    failing: Mutex<Option<(RunInstant, String)>>,
    /// Questions without an answer, by number: since when each is open, over all its attempts.
    open: Mutex<BTreeMap<u64, RunInstant>>,
    log: OnceLock<Log>,
}

/// A question to the registry, open until it is dropped.
pub(super) struct Question<'r> {
    reaching: &'r Reaching,
    number: u64,
    since: RunInstant,
}

impl Question<'_> {
    /// An attempt failed: the registry cannot be asked, or its answer is none of a registry.
    pub(super) fn failed(&self, why: &str) {
        self.reaching.failed(why, self.since);
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        lock(&self.reaching.open).remove(&self.number);
    }
}

impl Reaching {
    pub(super) fn report_to(&self, log: &Log) {
        // A second client of the same settings would have a registry of its own.
        let _ = self.log.set(log.clone());
    }

    pub(super) fn answered(&self) {
        let Some((since, _)) = lock(&self.failing).take() else { return };
        self.record(&kinds::REGISTRY_ANSWERS, || {
            format!("the schema registry answers again, after {:.1} s", since.elapsed().as_secs_f64())
        });
    }

    pub(super) fn ask(&self) -> Question<'_> {
        let (mut open, since) = (lock(&self.open), RunInstant::now());
        let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
        open.insert(number, since);
        Question { reaching: self, number, since }
    }

    /// Time for which no answer has come, since the oldest open question or the first of those that failed: between
    /// two questions a registry that fails is as silent. And the last failure.
    pub(super) fn waiting(&self) -> Option<(Duration, Option<String>)> {
        let open = lock(&self.open).values().min().copied();
        let (failing, why) = lock(&self.failing).clone().unzip();
        let since = open.into_iter().chain(failing).min()?;
        Some((since.elapsed(), why))
    }

    fn failed(&self, why: &str, asked: RunInstant) {
        let mut failing = lock(&self.failing);
        let since = failing.as_ref().map_or(asked, |(since, _)| *since);
        *failing = Some((since, why.to_owned()));
        drop(failing);
        self.record(&kinds::REGISTRY_FAILED, || format!("the schema registry cannot be asked: {why}"));
    }

    /// Time for which it could not be asked, and the last reason.
    pub(super) fn failing(&self) -> Option<(Duration, String)> {
        lock(&self.failing).as_ref().map(|(since, why)| (since.elapsed(), why.clone()))
    }

    fn record(&self, kind: &'static crate::log::EventKind, message: impl FnOnce() -> String) {
        if let Some(log) = self.log.get() {
            log.record(kind, || Entry::new(message()));
        }
    }
}
